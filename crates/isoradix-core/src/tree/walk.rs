//! Going through the tree: depth-first, and by the weight of waiting requests.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Tree;
use crate::node::{NodeId, ROOT};

impl Tree {
    /// The nodes from `from` down, depth-first, parents first, children in order of arrival. Roots are left out.
    pub(crate) fn walk(&self, from: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let mut stack = vec![from];
        std::iter::from_fn(move || {
            while let Some(id) = stack.pop() {
                let start = stack.len();
                stack.extend(self.nodes.children(id));
                stack[start..].reverse();
                if !self.nodes[id].is_root() {
                    return Some(id);
                }
            }
            None
        })
    }

    /// The path from `id` up to below its root.
    pub(crate) fn path_up(&self, id: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let mut at = id;
        std::iter::from_fn(move || {
            let here = at;
            if self.nodes[here].is_root() {
                return None;
            }
            at = self.nodes[here].parent;
            Some(here)
        })
    }

    /// Orders requests so that those with a common prefix are neighbours and the heaviest subtrees come first.
    ///
    /// `nodes` holds the last matched node of each request; the result is a permutation of their indices. A subtree
    /// weighs as many as there are requests in it; ties go by node sequence number; a node's own requests come after
    /// those below it, in their given order. Costs the sum of the depths, at any size of the tree.
    pub(crate) fn dfs_weight_order(&self, nodes: &[NodeId]) -> Vec<u32> {
        let mut waiting = BTreeMap::<NodeId, Vec<u32>>::new();
        let mut weights = BTreeMap::<NodeId, u32>::new();
        for (index, id) in (0..).zip(nodes) {
            waiting.entry(*id).or_default().push(index);
            for above in self.path_up(*id) {
                *weights.entry(above).or_default() += 1;
            }
        }
        let mut children = BTreeMap::<NodeId, Vec<NodeId>>::new();
        for id in weights.keys() {
            let parent = self.nodes[*id].parent;
            let parent = if self.nodes[parent].is_root() { ROOT } else { parent };
            children.entry(parent).or_default().push(*id);
        }
        for siblings in children.values_mut() {
            // Last in the list is taken first from the stack.
            siblings.sort_by_key(|id| (weights[id], Reverse(self.nodes[*id].sequence)));
        }
        let mut order = Vec::with_capacity(nodes.len());
        let mut stack = vec![(ROOT, false)];
        while let Some((id, below_done)) = stack.pop() {
            if below_done {
                order.extend(waiting.get(&id).into_iter().flatten());
                continue;
            }
            stack.push((id, true));
            stack.extend(children.get(&id).into_iter().flatten().map(|child| (*child, false)));
        }
        order
    }
}
