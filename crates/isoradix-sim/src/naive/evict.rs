//! Who goes: from the device, and from host.

use isoradix_core::Writing;

use super::answers::{Evicted, HostEvicted};
use super::model::Model;
use super::node::Node;

impl Model {
    /// Frees at least `num_tokens` on the device, or all that may go, whole nodes at a time. What is on host as well stays there, and
    /// under write-back it goes first.
    pub(crate) fn evict(&mut self, num_tokens: u64) -> Evicted {
        let write_back = matches!(self.settings.writing, Writing::Back { .. });
        let mut done = Evicted { freed: 0, demoted: 0, dropped_dirty: 0, victims: vec![] };
        while done.freed < num_tokens {
            let clean = |model: &Self, node: &Node| write_back && node.on_host && model.may_leave_device(node);
            let Some(index) = self.oldest(clean).or_else(|| self.oldest(Self::may_leave_device)) else { break };
            let node = &mut self.nodes[index];
            done.freed += node.length();
            done.victims.push(node.sequence);
            if node.on_host {
                done.demoted += node.length();
                node.on_device = false;
            } else {
                done.dropped_dirty += if write_back { node.length() } else { 0 };
                self.nodes.remove(index);
            }
        }
        done
    }

    /// Frees at least `pages` on host, or all that may go, whole nodes at a time.
    pub(crate) fn evict_host(&mut self, pages: u32) -> HostEvicted {
        let mut done = HostEvicted { pages: 0, victims: vec![] };
        while done.pages < pages {
            let Some(index) = self.oldest(Self::may_leave_host) else { break };
            let node = self.nodes.remove(index);
            done.pages += self.pages(node.length());
            done.victims.push(node.sequence);
        }
        done
    }

    /// Evicts from host exactly what is missing for `pages` more.
    pub(super) fn make_room(&mut self, pages: u32) {
        let missing = (self.occupied() + pages).saturating_sub(self.capacity);
        self.evict_host(missing);
    }

    pub(super) fn may_leave_device(&self, node: &Node) -> bool {
        node.on_device && !self.children(node).any(|child| child.on_device) && !self.is_held(node)
    }

    fn may_leave_host(&self, node: &Node) -> bool {
        node.is_host_only() && self.children(node).next().is_none() && !self.is_held(node) && self.host_ref(node) == 0
    }

    /// The least recently used node of these.
    pub(super) fn oldest(&self, wanted: impl Fn(&Self, &Node) -> bool) -> Option<usize> {
        let may_go = (0..self.nodes.len()).filter(|index| wanted(self, &self.nodes[*index]));
        may_go.min_by_key(|index| (self.nodes[*index].access, self.nodes[*index].sequence))
    }
}
