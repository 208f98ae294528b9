//! The cache against a naive model: any sequence of operations, compared after each one.
//!
//! Every page size and key kind has a test of its own; proptest draws the policy and the operations, and shrinks what it
//! finds. The draws are seeded, so that a run can be repeated.

mod naive;

use naive::operation::{Key, LETTERS, Operation, Random};
use naive::order::ORDERS;
use naive::twins::{Shape, Twins};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

fn key() -> impl Strategy<Value = Key> {
    (prop::collection::vec(0..LETTERS, 0..6), any::<u8>()).prop_map(|(word, tail)| Key { word, tail })
}

fn operation() -> impl Strategy<Value = Operation> {
    let (space, node, priority) = (0..4_u8, any::<u16>(), -2..3_i64);
    prop_oneof![
        6 => (key(), space.clone()).prop_map(|(key, space)| Operation::Match { key, space }),
        8 => (key(), space.clone(), priority.clone(), 0..3_u8).prop_map(|(key, space, priority, spare_slots)| {
            Operation::Insert { key, space, priority, spare_slots }
        }),
        4 => (node, key(), priority, any::<bool>()).prop_map(|(node, key, priority, storing)| {
            Operation::Resume { node, key, priority, storing }
        }),
        1 => node.prop_map(|node| Operation::Touch { node }),
        2 => node.prop_map(|node| Operation::Lock { node }),
        1 => node.prop_map(|node| Operation::Pin { node }),
        2 => node.prop_map(|receipt| Operation::Unlock { receipt }),
        1 => node.prop_map(|receipt| Operation::Unpin { receipt }),
        3 => (0..8_u8, any::<bool>()).prop_map(|(pages, less)| Operation::Evict { pages, less }),
        1 => space.prop_map(|space| Operation::RemoveNamespace { space }),
        1 => (0..4_u8).prop_map(|by| Operation::Step { by }),
        1 => Just(Operation::Reset),
        1 => any::<bool>().prop_map(|on| Operation::Fail { on }),
        1 => (any::<u8>(), any::<u64>(), key()).prop_map(|(kind, noise, key)| Operation::Misuse { kind, noise, key }),
    ]
}

fn any_sequence_of_operations(page: usize, bigram: bool) {
    let config = Config { cases: 60, max_shrink_iters: 4_000, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let inputs = (0..ORDERS, prop::collection::vec(operation(), 1..60));
    let outcome = runner.run(&inputs, |(order, operations)| {
        let mut twins = Twins::new(Shape { page, bigram, order, journal_records: 64, pool_pages: 48 });
        for operation in &operations {
            twins.run(operation);
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

macro_rules! shapes {
    ($($name:ident: $page:literal, $bigram:literal;)*) => {
        $(
            #[test]
            fn $name() {
                any_sequence_of_operations($page, $bigram);
            }
        )*
    };
}

shapes! {
    tokens_in_pages_of_1: 1, false;
    tokens_in_pages_of_4: 4, false;
    tokens_in_pages_of_16: 16, false;
    tokens_in_pages_of_64: 64, false;
    pairs_in_pages_of_1: 1, true;
    pairs_in_pages_of_4: 4, true;
    pairs_in_pages_of_16: 16, true;
    pairs_in_pages_of_64: 64, true;
}

/// Goes further than the short sequences above: deep trees, reused arena entries, receipts of many generations.
#[test]
fn long_walks_under_every_policy() {
    for order in 0..ORDERS {
        let mut twins =
            Twins::new(Shape { page: 2, bigram: order % 2 == 1, order, journal_records: 8, pool_pages: 60 });
        let mut random = Random(order as u64);
        for _ in 0..1_500 {
            twins.run(&random.operation());
        }
    }
}
