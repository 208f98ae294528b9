//! The eviction orders, each as one line over the facts of a node.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use isoradix_core::{Eviction, NodeFacts, Policy, PolicyFailure, PolicyKey};

use super::Node;

/// Which leaf goes first.
#[derive(Debug, Clone)]
pub(crate) enum Order {
    Lru,
    Lfu,
    Fifo,
    Mru,
    Filo,
    Priority,
    Slru(u64),
    Tlru(usize, usize),
    /// A user's policy that reads no stamp, so that many leaves tie; it fails while the switch is on.
    ByShape(Arc<AtomicBool>),
}

/// How many orders [`Order::nth`] knows.
pub(crate) const ORDERS: usize = 10;

impl Order {
    /// An order by number; lengths grow with the page.
    pub(crate) fn nth(index: usize, page: usize) -> Self {
        match index % ORDERS {
            0 => Self::Lru,
            1 => Self::Lfu,
            2 => Self::Fifo,
            3 => Self::Mru,
            4 => Self::Filo,
            5 => Self::Priority,
            6 => Self::Slru(2),
            7 => Self::Slru(3),
            8 => Self::Tlru(3 * page, page),
            _ => Self::ByShape(Arc::default()),
        }
    }

    /// The real thing.
    pub(crate) fn eviction(&self) -> Eviction {
        let spec = match self {
            Self::ByShape(fails) => return Eviction::Keyed(Box::new(ByShape(Arc::clone(fails)))),
            Self::Slru(threshold) => format!("slru:{threshold}"),
            Self::Tlru(threshold, next_prompt) => format!("tlru:{threshold},{next_prompt}"),
            other => format!("{other:?}").to_lowercase(),
        };
        Eviction::parse(&spec).expect("a known policy")
    }

    /// The switch of a policy that can fail.
    pub(crate) fn switch(&self) -> Option<&AtomicBool> {
        if let Self::ByShape(fails) = self { Some(fails) } else { None }
    }

    /// The smallest goes first.
    pub(crate) fn key(&self, node: &Node) -> (i64, Reverse<u64>, u64) {
        let none = Reverse(0);
        match self {
            Self::Lru => (0, none, node.access),
            Self::Lfu => (i64::try_from(node.hits).unwrap(), none, node.access),
            Self::Fifo => (0, none, node.created),
            Self::Mru => (0, Reverse(node.access), 0),
            Self::Filo => (0, Reverse(node.created), 0),
            Self::Priority => (node.priority, none, node.access),
            Self::Slru(threshold) => (i64::from(node.hits >= *threshold), none, node.access),
            Self::Tlru(threshold, next_prompt) => {
                let budget = (node.reach + next_prompt).saturating_sub(*threshold);
                (i64::from(node.start < budget), none, node.access)
            }
            Self::ByShape(_) => {
                let (length, depth) = (node.length() as u64, node.path.len() as u64);
                let names = [node.namespace.extra_key(), node.namespace.salt()];
                (by_shape(node.hits, node.priority, length, depth, node.reach as u64, names), none, 0)
            }
        }
    }
}

fn by_shape(hits: u64, priority: i64, length: u64, depth: u64, reach: u64, names: [Option<&str>; 2]) -> i64 {
    let named: usize = names.into_iter().flatten().map(str::len).sum();
    let signed = |value: u64| i64::try_from(value).unwrap();
    signed(hits) + priority + signed(length / 2) + signed(depth) - signed(reach) + i64::try_from(named).unwrap()
}

struct ByShape(Arc<AtomicBool>);

impl Policy for ByShape {
    fn name(&self) -> String {
        "by-shape".to_owned()
    }

    fn key(&mut self, facts: &NodeFacts<'_>) -> Result<PolicyKey, PolicyFailure> {
        if self.0.load(Ordering::Relaxed) {
            return Err(PolicyFailure("switched off".to_owned()));
        }
        let NodeFacts { hits, priority, length, depth, reach, namespace, .. } = *facts;
        let names = [namespace.extra_key(), namespace.salt()];
        Ok(PolicyKey::from_signed(by_shape(hits, priority, length, depth, reach, names), 0))
    }
}
