//! What the model of a run keeps beside keys and values, and what that makes of a prefix: spelled out, token by token.

use isoradix_core::{Component, ComponentKind, Components, Error};

/// The part of a page that a side-car has.
pub(crate) const SIDE_CAR: u8 = 1;

/// The part of a page that a window looks back to.
pub(crate) const WINDOW: u8 = 2;

/// The state at the end of a page.
pub(crate) const STATE: u8 = 4;

/// A side-car, a sliding window and perhaps a recurrent state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailing {
    /// Tokens that a token looks back.
    pub(crate) window: u32,
    /// Whether there is a state.
    pub(crate) state: bool,
}

impl Trailing {
    /// As the core is told of it, on a stage that has no layers of some of it.
    pub(crate) fn components(self, page: u32, elsewhere: u8) -> Result<Components, Error> {
        let component =
            |name: &str, kind, bit| Component { name: name.to_owned(), kind, is_here: elsewhere & bit == 0 };
        let mut all = vec![
            component("index", ComponentKind::SideCar, SIDE_CAR),
            component("swa", ComponentKind::Window { tokens: self.window }, WINDOW),
        ];
        all.extend(self.state.then(|| component("mamba", ComponentKind::State, STATE)));
        Components::new(page, all)
    }

    /// Parts of a page that was computed.
    pub(crate) const COMPUTED: u8 = SIDE_CAR | WINDOW;

    /// Whether a key is usable up to some token, if its pages have these parts.
    pub(crate) fn is_usable(self, page: usize, parts: &[u8], end: usize) -> bool {
        let has = |token: usize, part: u8| parts[token / page] & part != 0;
        let window = end.saturating_sub(self.window as usize)..end;
        let state = !self.state || end == 0 || has(end - 1, STATE);
        (0..end).all(|token| has(token, SIDE_CAR)) && window.clone().all(|token| has(token, WINDOW)) && state
    }

    /// The deepest usable end, in tokens, not beyond another.
    pub(crate) fn deepest(self, page: usize, parts: &[u8], not_beyond: usize) -> usize {
        let ends = (1..=not_beyond / page).rev().map(|pages| pages * page);
        ends.into_iter().find(|end| self.is_usable(page, parts, *end)).unwrap_or(0)
    }

    /// The parts that a prefetch of so many pages brings.
    pub(crate) fn brought(self, page: usize, pages: usize) -> Vec<u8> {
        let part = |at: usize| {
            let in_window = (at + 1) * page > (pages * page).saturating_sub(self.window as usize);
            let is_last = self.state && at + 1 == pages;
            SIDE_CAR | if in_window { WINDOW } else { 0 } | if is_last { STATE } else { 0 }
        };
        (0..pages).map(part).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WITH_STATE: Trailing = Trailing { window: 3, state: true };

    #[test]
    fn an_end_needs_its_window_its_state_and_every_page_of_the_side_car() {
        let all = SIDE_CAR | WINDOW | STATE;
        assert_eq!(WITH_STATE.deepest(2, &[all, all, all], 6), 6);
        assert_eq!(WITH_STATE.deepest(2, &[all, all, all], 5), 4);
        assert_eq!(WITH_STATE.deepest(2, &[SIDE_CAR, all, all ^ STATE, all], 8), 8);
        assert_eq!(WITH_STATE.deepest(2, &[all, all ^ WINDOW, all, all ^ SIDE_CAR], 8), 2);
        let brought = WITH_STATE.brought(2, 4);
        assert_eq!(brought, [SIDE_CAR, SIDE_CAR, SIDE_CAR | WINDOW, all]);
        assert_eq!(WITH_STATE.deepest(2, &brought, 8), 8);
    }
}
