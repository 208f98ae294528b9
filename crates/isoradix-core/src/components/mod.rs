//! What a model keeps beside the keys and values of its full attention, and where a prefix is usable because of it.
//!
//! | kind | a prefix that ends at `e` is usable if |
//! |---|---|
//! | window | every page of its last so many tokens has its part: all or nothing |
//! | state | the last page before `e` has the state at `e`: all or nothing |
//! | side-car | every page has its part: it clamps to the leading run |
//!
//! A component is a bit, by its place in the configuration; the *parts* of a page are the bits of what is there beside its keys and
//! values. So a set of parts is a byte a page, a split of a run moves nothing, and where a page goes its parts go.
//!
//! Which components there are is equal on all ranks. Whether a rank's stage has layers of one is its own affair: if not, it has no stake
//! in where that component is, and takes it for present wherever others ask.

mod ends;
mod presence;

pub use ends::Ends;
pub use presence::Presence;

use crate::error::Error;

/// Components at most.
pub const COMPONENTS_MAX: usize = 8;

/// Bytes of a component's name at most.
const NAME_MAX: usize = 32;

/// What a component needs of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ComponentKind {
    /// Sliding-window attention: the parts of the last pages, up to so many tokens.
    Window {
        /// Tokens that a token looks back, at least 1.
        tokens: u32,
    },
    /// A recurrent state, mamba's for example: the state at the end.
    State,
    /// Keys and values beside the main ones, of an index or a draft model: a part of every page.
    SideCar,
}

/// One component.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Component {
    /// Its name: 1 to 32 letters, digits, `_` and `-`.
    pub name: String,
    /// What it needs.
    pub kind: ComponentKind,
    /// Whether this rank's stage has layers of it. A rank's own.
    pub is_here: bool,
}

/// All components of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Hash)]
pub struct Components {
    all: Vec<Component>,
    /// Each window's bit, and its pages.
    windows: Vec<(u8, u32)>,
    states: u8,
    side_cars: u8,
    /// Bits of what this rank's stage has no layers of.
    elsewhere: u8,
}

impl Components {
    /// Components in pages of so many tokens, in an order that is equal on all ranks.
    ///
    /// # Errors
    /// Too many of them; a name that is empty, too long, of other characters or given twice; a window of no tokens.
    pub fn new(page_size: u32, all: Vec<Component>) -> Result<Self, Error> {
        check(&all)?;
        let mut components = Self::default();
        for (at, Component { kind, is_here, .. }) in all.iter().enumerate() {
            let bit = 1 << at;
            match kind {
                ComponentKind::Window { tokens } => components.windows.push((bit, tokens.div_ceil(page_size.max(1)))),
                ComponentKind::State => components.states |= bit,
                ComponentKind::SideCar => components.side_cars |= bit,
            }
            components.elsewhere |= if *is_here { 0 } else { bit };
        }
        Ok(Self { all, ..components })
    }

    /// Whether there is none: then every leading run of pages is usable.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The components, each at the place of its bit.
    #[must_use]
    pub fn all(&self) -> &[Component] {
        &self.all
    }

    /// Parts that every page has which was computed: all but states, which are there where they are kept.
    #[must_use]
    pub fn computed(&self) -> u8 {
        self.windows.iter().fold(self.side_cars, |parts, (bit, _)| parts | bit)
    }

    /// All but the states: what computing a page gives.
    #[must_use]
    pub(crate) fn without_states(&self) -> Self {
        Self { states: 0, ..self.clone() }
    }

    /// The bits of the states.
    #[must_use]
    pub fn states(&self) -> u8 {
        self.states
    }

    /// Pages before an end on whose parts it depends, beside the leading run.
    #[must_use]
    pub fn pages_back(&self) -> u32 {
        self.windows.iter().map(|(_, pages)| *pages).max().unwrap_or(0)
    }

    /// The parts that make an end after so many pages usable, page by page: side-cars everywhere, windows as far as they look back, and
    /// states at the end.
    #[must_use]
    pub fn needed(&self, pages: u32) -> Vec<u8> {
        let of_page = |at: u32| {
            let left = pages - at;
            let windows = self.windows.iter().filter(|(_, window)| left <= *window);
            let states = if left == 1 { self.states } else { 0 };
            windows.fold(self.side_cars | states, |parts, (bit, _)| parts | bit)
        };
        (0..pages).map(of_page).collect()
    }

    /// The usable ends of a run of pages with these parts. `above` is what lies directly above it: all of it, or as many pages as
    /// [`pages_back`](Self::pages_back) says.
    #[must_use]
    pub fn ends(&self, above: &[u8], pages: &[u8]) -> Ends {
        self.ends_with(0, above, pages)
    }

    /// As [`ends`](Self::ends), of what this rank's own storage has: what its stage has no layers of is no matter. `there` are the parts
    /// of the first pages as the tree has them already: those stay as they are, so an end is to lie beyond them, and of a part there
    /// both are to have it, storage because it is read with the others.
    pub(crate) fn ends_here(&self, above: &[u8], there: &[u8], presence: &Presence, pages_max: u32) -> Ends {
        let pages = presence.parts();
        let mut pages = pages[..pages.len().min(pages_max as usize)].to_vec();
        for (page, there) in pages.iter_mut().zip(there) {
            *page &= there;
        }
        self.ends_with(self.elsewhere, above, &pages).beyond(length(there))
    }

    fn ends_with(&self, granted: u8, above: &[u8], pages: &[u8]) -> Ends {
        let mut ends = Ends::default();
        let mut runs = vec![0_u32; self.windows.len()];
        for (at, parts) in (1_u32..).zip(above.iter().chain(pages)) {
            let parts = parts | granted;
            for (run, (bit, _)) in runs.iter_mut().zip(&self.windows) {
                *run = if parts & bit != 0 { *run + 1 } else { 0 };
            }
            let Some(end) = at.checked_sub(length(above)).filter(|end| *end > 0) else { continue };
            if parts & self.side_cars != self.side_cars {
                break;
            }
            // A prefix that is shorter than the window is all of what it looks back to.
            let windows = runs.iter().zip(&self.windows).all(|(run, (_, pages))| *run >= *pages || *run == at);
            if windows && parts & self.states == self.states {
                ends.insert(end);
            }
        }
        ends
    }
}

fn length(pages: &[u8]) -> u32 {
    u32::try_from(pages.len()).unwrap_or(u32::MAX)
}

fn check(all: &[Component]) -> Result<(), Error> {
    let invalid = |what: String, hint| Err(Error::Invalid { what, hint });
    if all.len() > COMPONENTS_MAX {
        return invalid(format!("{} components, limit {COMPONENTS_MAX}", all.len()), "join those that go together");
    }
    for (at, Component { name, kind, .. }) in all.iter().enumerate() {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(good) {
            let what = format!("component {name:?} has {} bytes, limits 1 to {NAME_MAX}", name.len());
            return invalid(what, "letters, digits, _ and - make a name");
        }
        if all[..at].iter().any(|before| before.name == *name) {
            return invalid(format!("component {name:?} is given twice"), "one entry for each component");
        }
        if *kind == (ComponentKind::Window { tokens: 0 }) {
            return invalid(
                format!("the window of component {name:?} is 0"),
                "pass the tokens that a token looks back",
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SplitMix64;

    const PAGE: u32 = 4;

    fn component(name: &str, kind: ComponentKind) -> Component {
        Component { name: name.to_owned(), kind, is_here: true }
    }

    fn some(random: &mut SplitMix64) -> Vec<Component> {
        let kind = |random: &mut SplitMix64| match random.below(3) {
            0 => ComponentKind::Window { tokens: 1 + random.below(24) },
            1 => ComponentKind::State,
            _ => ComponentKind::SideCar,
        };
        let count = random.below(4);
        (0..count)
            .map(|at| Component { is_here: random.below(4) > 0, ..component(&format!("c{at}"), kind(random)) })
            .collect()
    }

    /// Whether an end is usable, by looking at every token.
    fn is_usable(all: &[Component], granted: bool, parts: &[u8], end: usize) -> bool {
        let has = |at: usize, token: usize| parts[token / PAGE as usize] & 1 << at != 0;
        let last = end * PAGE as usize;
        all.iter().enumerate().filter(|(_, component)| component.is_here || !granted).all(|(at, component)| {
            match component.kind {
                ComponentKind::Window { tokens } => {
                    (last.saturating_sub(tokens as usize)..last).all(|token| has(at, token))
                }
                ComponentKind::State => has(at, last - 1),
                ComponentKind::SideCar => (0..last).all(|token| has(at, token)),
            }
        })
    }

    #[test]
    fn ends_are_those_that_looking_at_every_token_finds() {
        let mut found = [0; 2];
        for seed in 0..4_000 {
            let mut random = SplitMix64(seed);
            let all = some(&mut random);
            let components = Components::new(PAGE, all.clone()).unwrap();
            let rare = 2 + random.below(12);
            let mut parts: Vec<u8> =
                (0..random.below(16)).map(|_| 0xff ^ (u8::from(random.below(rare) == 0) << random.below(4))).collect();
            let above = random.below(u32::try_from(parts.len()).unwrap() + 1) as usize;
            for part in &mut parts[..above] {
                *part |= components.side_cars;
            }
            let shown = &parts[above.saturating_sub(components.pages_back() as usize)..above];
            let ends = components.ends(shown, &parts[above..]);
            let here = components.ends_here(shown, &[], &Presence::observe(parts[above..].to_vec()), 7);
            let below = parts.len() - above;
            for bound in 0..=below {
                let deepest = |granted: bool, most: usize| {
                    (1..=bound.min(most)).rev().find(|end| is_usable(&all, granted, &parts, above + end)).unwrap_or(0)
                };
                let bounded = u32::try_from(bound).unwrap();
                assert_eq!(ends.deepest(bounded) as usize, deepest(false, below), "seed {seed}, bound {bound}");
                assert_eq!(here.deepest(bounded) as usize, deepest(true, 7), "seed {seed}, bound {bound}, here");
                found[usize::from(ends.deepest(bounded) > 0)] += 1;
            }
        }
        assert!(found.iter().all(|times| *times > 2_000), "{found:?}");
    }

    #[test]
    fn what_is_needed_for_an_end_makes_it_usable_and_no_part_can_be_left_out() {
        for seed in 0..400 {
            let mut random = SplitMix64(seed);
            let components = Components::new(PAGE, some(&mut random)).unwrap();
            let pages = 1 + random.below(9);
            let mut parts = components.needed(pages);
            assert_eq!(components.ends(&[], &parts).deepest(pages), pages, "seed {seed}");
            let (at, bit) = (random.below(pages) as usize, 1 << random.below(8));
            if parts[at] & bit != 0 {
                parts[at] ^= bit;
                assert!(components.ends(&[], &parts).deepest(pages) < pages, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_window_is_all_or_nothing_and_a_side_car_clamps() {
        let all =
            vec![component("swa", ComponentKind::Window { tokens: 8 }), component("index", ComponentKind::SideCar)];
        let components = Components::new(PAGE, all).unwrap();
        assert_eq!((components.computed(), components.states(), components.pages_back()), (3, 0, 2));
        let deepest = |above: &[u8], pages: &[u8]| components.ends(above, pages).deepest(u32::MAX);
        assert_eq!(deepest(&[], &[3, 3, 3, 3]), 4);
        assert_eq!(deepest(&[], &[3, 3, 2, 3, 3, 2]), 5, "the last two pages have the window's part");
        assert_eq!(deepest(&[], &[3, 2, 3, 2, 3]), 1);
        assert_eq!(deepest(&[], &[3, 3, 1, 3, 3]), 2, "the index ends there");
        assert_eq!((deepest(&[2, 3], &[3]), deepest(&[3, 2], &[3])), (1, 0), "what lies above is looked back to");
        assert_eq!(Components::default().ends(&[], &[0; 5]).deepest(9), 5, "without components every page is an end");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |all: Vec<Component>| Components::new(PAGE, all).unwrap_err().to_string();
        let window = |tokens| component("swa", ComponentKind::Window { tokens });
        assert!(refused(vec![window(0)]).starts_with("the window of component \"swa\" is 0"));
        assert!(refused(vec![window(1), window(2)]).starts_with("component \"swa\" is given twice"));
        assert!(refused(vec![component("a b", ComponentKind::State)]).contains("limits 1 to 32"));
        let many = (0..9).map(|at| component(&format!("c{at}"), ComponentKind::State)).collect();
        assert!(refused(many).starts_with("9 components, limit 8"));
    }
}
