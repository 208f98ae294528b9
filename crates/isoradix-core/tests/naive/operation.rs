//! Operations as data: what proptest shrinks and the fuzzer draws.

use isoradix_core::Namespace;

pub(crate) use super::random::Random;

/// Different letters for [`spell`].
pub(crate) const LETTERS: u8 = 4;

/// One call, legal or not. Nodes and receipts are picked among those that live, by remainder.
#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Match {
        key: Key,
        space: u8,
    },
    Insert {
        key: Key,
        space: u8,
        priority: i64,
        spare_slots: u8,
    },
    Resume {
        node: u16,
        key: Key,
        priority: i64,
        storing: bool,
    },
    Touch {
        node: u16,
    },
    Lock {
        node: u16,
    },
    Pin {
        node: u16,
    },
    Unlock {
        receipt: u16,
    },
    Unpin {
        receipt: u16,
    },
    Evict {
        pages: u8,
        less: bool,
    },
    RemoveNamespace {
        space: u8,
    },
    Step {
        by: u8,
    },
    Reset,
    /// The user's policy fails from now on, or works again.
    Fail {
        on: bool,
    },
    Misuse {
        kind: u8,
        noise: u64,
        key: Key,
    },
}

/// Pages by letter, and tokens behind them that are no whole page.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) word: Vec<u8>,
    pub(crate) tail: u8,
}

impl Key {
    /// One page a letter. Letters 2k and 2k + 1 differ in the page's last token only.
    pub(crate) fn spell(&self, page: usize) -> Vec<u32> {
        let mut tokens = vec![];
        for letter in &self.word {
            let letter = u32::from(letter % LETTERS);
            tokens.extend(std::iter::repeat_n(letter / 2, page - 1));
            tokens.push(letter);
        }
        tokens.extend(std::iter::repeat_n(u32::MAX, usize::from(self.tail) % (page + 1)));
        tokens
    }
}

/// Four namespaces whose names would collide if they were joined.
pub(crate) fn namespace(space: u8) -> Namespace {
    match space % 4 {
        0 => Namespace::default(),
        1 => Namespace::new(Some("lora"), None),
        2 => Namespace::new(None, Some("lora")),
        _ => Namespace::new(Some("lo"), Some("ra")),
    }
}

impl Random {
    #[expect(clippy::cast_possible_truncation, reason = "noise")]
    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    #[expect(clippy::cast_possible_truncation, reason = "noise")]
    fn pick(&mut self) -> u16 {
        self.next() as u16
    }

    fn key(&mut self, longest: u64) -> Key {
        let length = self.below(longest + 1);
        Key { word: (0..length).map(|_| self.byte()).collect(), tail: self.byte() }
    }

    fn priority(&mut self) -> i64 {
        match self.below(20) {
            0 => i64::MIN / 4,
            1 => i64::MAX / 4,
            _ => self.below(5).cast_signed() - 2,
        }
    }

    /// An operation, weighted so that the tree stays busy and the pool stays short.
    pub(crate) fn operation(&mut self) -> Operation {
        let space = if self.below(2) == 0 { 0 } else { self.byte() };
        match self.below(100) {
            0..22 => Operation::Match { key: self.key(5), space },
            22..50 => {
                let (key, priority, spare_slots) = (self.key(5), self.priority(), self.byte());
                Operation::Insert { key, space, priority, spare_slots }
            }
            50..62 => Operation::Resume {
                node: self.pick(),
                key: self.key(3),
                priority: self.priority(),
                storing: self.below(3) > 0,
            },
            62..66 => Operation::Touch { node: self.pick() },
            66..72 => Operation::Lock { node: self.pick() },
            72..74 => Operation::Pin { node: self.pick() },
            74..80 => Operation::Unlock { receipt: self.pick() },
            80..83 => Operation::Unpin { receipt: self.pick() },
            83..92 => Operation::Evict { pages: self.byte() % 6, less: self.below(2) == 0 },
            92..93 => Operation::RemoveNamespace { space },
            93..95 => Operation::Step { by: self.byte() % 4 },
            95..96 => Operation::Fail { on: self.below(2) == 0 },
            96 if self.below(4) == 0 => Operation::Reset,
            _ => Operation::Misuse { kind: self.byte(), noise: self.next(), key: self.key(3) },
        }
    }
}
