//! What an eviction costs, counted instead of timed: it must not grow with the number of leaves.

use super::{Eviction, Order};
use crate::clock::LogicalClock;
use crate::ints::{Ints, Part};
use crate::namespace::Namespace;
use crate::node::{Hold, NodeId};
use crate::residency::Residency;
use crate::tree::{Place, Tree};

const FEW: u32 = 1_000;
const MANY: u32 = 41_000;
/// Evictions that are counted.
const ROUNDS: u32 = 100;

/// A tree of leaves side by side, oldest first, and its order.
struct Forest {
    tree: Tree,
    order: Order,
    leaves: Vec<NodeId>,
}

impl Forest {
    fn new(policy: &str, leaves: u32) -> Self {
        let order = Order::new(Eviction::parse(policy).expect("a known policy"));
        let mut forest = Self { tree: Tree::new(1, false), order, leaves: vec![] };
        let mut clock = LogicalClock::default();
        forest.leaves = (0..leaves).map(|leaf| forest.plant(leaf, &mut clock)).collect();
        forest
    }

    fn plant(&mut self, leaf: u32, clock: &mut LogicalClock) -> NodeId {
        let one = [leaf];
        let part = Part { values: Ints::U32(&one), offset: 0 };
        let run = self.tree.store(part, part).expect("room");
        let place = Place { namespace: &Namespace::default(), first_token: None };
        let id = self.tree.attach(None, place, run, Residency::DEVICE);
        let node = &mut self.tree.nodes[id];
        (node.created, node.access, node.hits, node.priority) = (clock.tick(), clock.tick(), 1, 0);
        self.order.stamped(node, id);
        self.order.changed(&self.tree, id);
        id
    }

    fn hold(&mut self, leaves: impl Iterator<Item = usize>) {
        for leaf in leaves {
            self.tree.hold(self.leaves[leaf], Hold::Lock);
            self.order.changed(&self.tree, self.leaves[leaf]);
        }
    }

    fn release(&mut self, leaf: usize) {
        let (id, order) = (self.leaves[leaf], &mut self.order);
        self.tree.unhold(id, Hold::Lock, |node, at| order.unheld(node, at));
        self.order.changed(&self.tree, id);
    }

    fn evict_one(&mut self) {
        let id = self.order.pop(&mut self.tree).expect("a leaf that may go");
        let parent = self.tree.detach(id, &mut vec![]);
        self.order.changed(&self.tree, parent);
    }

    /// Nodes that LRU looked at, or entries that the heap moved, since the beginning.
    fn cost(&self) -> u64 {
        match &self.order {
            Order::Lru(order) => order.visited,
            Order::Keyed(order) => order.moves(),
        }
    }

    /// The cost of `call`.
    fn costs(&mut self, call: impl FnOnce(&mut Self)) -> u64 {
        let before = self.cost();
        call(self);
        self.cost() - before
    }
}

fn log2(leaves: u32) -> u64 {
    u64::from(leaves.ilog2() + 1)
}

#[test]
fn lru_looks_at_one_node_an_eviction_once_the_held_ones_are_parked() {
    for leaves in [FEW, MANY] {
        let mut forest = Forest::new("lru", leaves);
        let half = leaves as usize / 2;
        forest.hold(0..half);
        assert_eq!(forest.costs(Forest::evict_one), half as u64 + 1, "every held node is in front, and is passed once");
        let later = forest.costs(|forest| (0..ROUNDS).for_each(|_| forest.evict_one()));
        assert_eq!(later, u64::from(ROUNDS), "with {leaves} leaves");
        forest.order.check(&forest.tree).unwrap();
    }
}

#[test]
fn lru_passes_each_held_node_once_where_they_lie_between_the_others() {
    let costs = [FEW, MANY].map(|leaves| {
        let mut forest = Forest::new("lru", leaves);
        forest.hold((0..leaves as usize).step_by(2));
        forest.costs(|forest| (0..ROUNDS).for_each(|_| forest.evict_one()))
    });
    assert_eq!(costs, [2 * u64::from(ROUNDS); 2]);
}

#[test]
fn a_parked_node_is_released_and_evicted_in_logarithmic_time() {
    for leaves in [FEW, MANY] {
        let mut forest = Forest::new("lru", leaves);
        let half = leaves as usize / 2;
        forest.hold(0..half);
        forest.evict_one();
        let moves = |forest: &Forest| match &forest.order {
            Order::Lru(order) => order.released.moves,
            Order::Keyed(_) => unreachable!("the order is lru"),
        };
        // Youngest first, so that each comes to the heap's front.
        for leaf in (0..half).rev() {
            let before = moves(&forest);
            forest.release(leaf);
            assert!(moves(&forest) - before <= log2(leaves));
        }
        for _ in 0..ROUNDS {
            let before = moves(&forest);
            assert_eq!(forest.costs(Forest::evict_one), 1);
            assert!(moves(&forest) - before <= 4 * log2(leaves));
        }
        forest.order.check(&forest.tree).unwrap();
    }
}

#[test]
fn a_heap_moves_a_logarithm_of_its_leaves_an_eviction() {
    for policy in ["lfu", "fifo", "mru", "filo", "priority", "slru:2", "tlru:64,8"] {
        for leaves in [FEW, MANY] {
            let mut forest = Forest::new(policy, leaves);
            forest.hold((0..leaves as usize).step_by(2));
            for _ in 0..ROUNDS {
                let moves = forest.costs(Forest::evict_one);
                assert!(moves <= 4 * log2(leaves), "{policy}: {moves} moves with {leaves} leaves");
            }
            forest.order.check(&forest.tree).unwrap();
        }
    }
}
