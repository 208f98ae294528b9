//! What may happen to three ranks, and seeded sequences of it.

use proptest::prelude::*;

/// One step. `k` picks an operation among those that have asked until then, ended or not.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Ask {
        pages: u32,
    },
    /// On the ranks whose bit is set.
    Reserve {
        ranks: u8,
        k: u8,
        most: Option<u32>,
    },
    Grant {
        k: u8,
    },
    /// All of it, or a part.
    Settle {
        k: u8,
        keep: Option<u32>,
    },
    Drain {
        k: u8,
    },
    DrainRest {
        k: u8,
        keep: u32,
    },
    Finish {
        k: u8,
    },
    Abort {
        k: u8,
    },
    Release {
        k: u8,
        mask: u8,
    },
    Withdraw {
        rank: usize,
        pages: u32,
    },
    Restore {
        rank: usize,
        pages: u32,
    },
    Vote,
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let (k, rank, pages) = (any::<u8>(), 0..3_usize, 1..9_u32);
    let ranks = prop_oneof![2 => Just(0b111), 1 => 0..8_u8];
    prop_oneof![
        6 => pages.clone().prop_map(|pages| Step::Ask { pages }),
        9 => (ranks, k, prop::option::weighted(0.1, 0..9_u32)).prop_map(|(ranks, k, most)| {
            Step::Reserve { ranks, k, most }
        }),
        9 => k.prop_map(|k| Step::Grant { k }),
        4 => (k, prop::option::of(0..5_u32)).prop_map(|(k, keep)| Step::Settle { k, keep }),
        1 => k.prop_map(|k| Step::Drain { k }),
        3 => (k, 0..5_u32).prop_map(|(k, keep)| Step::DrainRest { k, keep }),
        4 => k.prop_map(|k| Step::Finish { k }),
        3 => k.prop_map(|k| Step::Abort { k }),
        6 => (k, prop_oneof![2 => any::<u8>(), 1 => Just(u8::MAX)]).prop_map(|(k, mask)| Step::Release { k, mask }),
        1 => (rank.clone(), pages.clone()).prop_map(|(rank, pages)| Step::Withdraw { rank, pages }),
        1 => (rank, pages).prop_map(|(rank, pages)| Step::Restore { rank, pages }),
        1 => Just(Step::Vote),
    ]
}
