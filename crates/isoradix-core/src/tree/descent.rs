//! Finding the longest cached prefix.

use super::{Tree, edge_seed, edge_tag};
use crate::hash;
use crate::ints::{Ints, Lane, common_prefix, with_lanes};
use crate::node::NodeId;

/// Where a walk down the tree ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Descent {
    /// The last node whose whole run matched, or the start.
    pub(crate) node: NodeId,
    /// Matched pages from the root of the namespace, those of `partial` included.
    pub(crate) depth: u32,
    /// A child of `node` of which only so many leading pages matched (at least one, fewer than all).
    pub(crate) partial: Option<(NodeId, u32)>,
}

impl Tree {
    /// Walks down from `start` along the units from its depth on; only whole pages count.
    #[inline]
    pub(crate) fn descend(&self, start: NodeId, units: Ints<'_>) -> Descent {
        with_lanes!(units, lanes => self.descend_lanes(start, lanes))
    }

    #[expect(clippy::cast_possible_truncation, reason = "page counts of stored runs")]
    fn descend_lanes<L: Lane>(&self, start: NodeId, units: &[L]) -> Descent {
        let page = self.page;
        let mut node = start;
        let mut depth = self.nodes[start].depth;
        let mut rest = &units[depth as usize * page..];
        while rest.len() >= page {
            let Some((child, common)) = self.find_child(node, rest) else { break };
            let pages = (common / page) as u32;
            depth += pages;
            if pages < self.nodes[child].pages {
                return Descent { node, depth, partial: Some((child, pages)) };
            }
            node = child;
            rest = &rest[common..];
        }
        Descent { node, depth, partial: None }
    }

    /// The child that shares the first page of `rest`, and how many of its tokens are shared.
    #[inline]
    fn find_child<L: Lane>(&self, parent: NodeId, rest: &[L]) -> Option<(NodeId, usize)> {
        let first_page = &rest[..self.page];
        let tag = edge_tag(hash::page(edge_seed(parent), self.page, |i| first_page[i].low()));
        let mut common = 0;
        let child = self.edges.find(tag, |id| {
            if self.nodes[id].parent != parent {
                return false;
            }
            common = common_prefix(rest, self.tokens(id));
            common >= self.page
        })?;
        Some((child, common))
    }
}
