//! Where a value comes from, as a type: a value that physics set on one rank cannot decide, an agreed one can.
//!
//! | type | from | may decide? |
//! |---|---|---|
//! | [`PerRank`] | run-time physics on this rank: completions, I/O progress, local allocation, clocks | never |
//! | a plain value | deterministic code over the shared request stream | yes |
//! | [`Agreed`] | the reduction over all ranks, taken out of an applied frame | yes |
//!
//! A `PerRank` value leaves its wrapper at two places, both inside this crate: the ballot, which carries it to the other
//! ranks, and the physical side of the host pool, which no decision reads. An `Agreed` value is minted at one place: where
//! a frame is applied. So a decision upon a per-rank value does not compile. `tests/provenance` holds such attempts.
//!
//! What the types cannot see: a function given to `map` can write to a static. The core has none. It cannot write to
//! anything else, since a per-rank value is `Copy` and `'static`: no `&mut`, no borrowed cell, no `Rc` travels in one. Nor can they
//! see whether a number given to `AppliedFrame::decided`, inside this crate, was computed from that frame.

use std::fmt;

/// A value that run-time physics set on this rank. It can be carried, changed and voted, but not looked at.
///
/// It cannot be copied or compared, and prints (as `Debug`, in builds with debug assertions only) for a person at a
/// debugger, not for a program.
#[must_use = "a per-rank value is there to be voted"]
pub struct PerRank<T>(T);

impl<T: Copy + 'static> PerRank<T> {
    /// Marks what this rank has seen. The only way in.
    #[inline]
    pub fn observe(value: T) -> Self {
        Self(value)
    }

    /// Changes the value. A function pointer captures nothing, so the value cannot get out beside the result.
    #[inline]
    pub fn map<U: Copy + 'static>(self, change: fn(T) -> U) -> PerRank<U> {
        PerRank(change(self.0))
    }

    /// Both values as one, for a `map` over the two.
    #[inline]
    pub fn zip<U: Copy + 'static>(self, other: PerRank<U>) -> PerRank<(T, U)> {
        PerRank((self.0, other.into_ballot()))
    }

    /// The value twice: for the ballot and for the physical side of the host pool.
    #[inline]
    pub(crate) fn fork(self) -> (Self, Self) {
        (Self(self.0), Self(self.0))
    }

    /// The value itself, for the ballot and for the physical side of the host pool. Nothing else may call this.
    #[inline]
    pub(crate) fn into_ballot(self) -> T {
        self.0
    }
}

#[cfg(debug_assertions)]
impl<T: fmt::Debug> fmt::Debug for PerRank<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerRank").field(&self.0).finish()
    }
}

/// A value that all ranks have agreed upon, at an agreed moment: it came with an applied frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Agreed<T>(T);

impl<T> Agreed<T> {
    /// Wraps what an applied frame carried.
    #[inline]
    pub(crate) fn mint(_: &Applied, value: T) -> Self {
        Self(value)
    }

    /// The value.
    #[inline]
    #[must_use]
    pub fn get(self) -> T {
        self.0
    }

    /// A function of the agreed value alone, which is agreed as well. A function pointer captures nothing else.
    #[inline]
    #[must_use]
    pub fn map<U>(self, change: fn(T) -> U) -> Agreed<U> {
        Agreed(change(self.0))
    }
}

impl<T: fmt::Debug> fmt::Debug for Agreed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: fmt::Display> fmt::Display for Agreed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Proof that a frame is being applied, or that the start-up agreement has been reached. The one key to [`Agreed::mint`].
///
/// Only those two places in `protocol` make it, and they never hand it out.
pub(crate) struct Applied(());

impl Applied {
    /// For the application of a frame and the start-up agreement, after all of their checks.
    #[inline]
    pub(crate) fn after_all_checks() -> Self {
        Self(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::marker::PhantomData;

    /// Tells at run time whether a type prints: the inherent function, where its bound holds, hides the trait's.
    struct Printing<T>(PhantomData<T>);

    trait Not {
        fn debug(&self) -> bool {
            false
        }
    }

    impl<T> Not for Printing<T> {}

    impl<T: fmt::Debug> Printing<T> {
        #[expect(clippy::unused_self, reason = "called as the trait's is")]
        fn debug(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_per_rank_value_prints_only_where_debug_assertions_are_on() {
        let (per_rank, agreed) = (Printing::<PerRank<u32>>(PhantomData), Printing::<Agreed<u32>>(PhantomData));
        assert_eq!((per_rank.debug(), agreed.debug()), (cfg!(debug_assertions), true));
        assert!(!Printing::<Applied>(PhantomData).debug());
    }

    #[test]
    fn a_per_rank_value_is_carried_to_the_ballot() {
        let pages = PerRank::observe(7_u32).zip(PerRank::observe(5_u32)).map(|(a, b)| i64::from(a.min(b)));
        assert_eq!(pages.into_ballot(), 5);
    }

    #[test]
    fn an_agreed_value_compares_and_prints_as_itself() {
        let applied = Applied::after_all_checks();
        let (few, many) = (Agreed::mint(&applied, 3_i64), Agreed::mint(&applied, 12_i64));
        assert!(few < many && few != many && few == Agreed::mint(&applied, 3));
        assert_eq!((format!("{many:>4}"), format!("{few:?}")), ("  12".to_owned(), "3".to_owned()));
        assert_eq!(many.map(|n| u32::try_from(n).unwrap_or(0)).get(), 12_u32);
    }
}
