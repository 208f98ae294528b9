//! Who goes: from the device, and from host.

use isoradix_core::Writing;

use super::answers::{Evicted, HostEvicted};
use super::model::Model;
use super::node::{Node, Span};

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

    /// Frees on host exactly what is missing for `pages` more: copies of what is on the device too, then, but for `coming` pages
    /// that are waited for, what is on host alone. The copies above `kept` paths stay.
    pub(super) fn make_room(&mut self, pages: u32, coming: u32, device_free: u64, kept: &[Span]) {
        let missing = (self.occupied() + pages).saturating_sub(self.capacity);
        let given_up = self.give_up_copies(missing, device_free, kept);
        self.evict_host(missing.saturating_sub(given_up).saturating_sub(coming));
    }

    /// Frees at least `pages` of copies on host, or all that may go: the most recently used first, of those that no eviction could
    /// take from the device; then of others, as long as enough stays that could go without loss.
    fn give_up_copies(&mut self, pages: u32, device_free: u64, kept: &[Span]) -> u32 {
        let mut surplus = self.surplus(device_free);
        let mut freed = 0;
        while freed < pages && self.may_give_up_copies() {
            let spare = |node: &&Node| self.may_be_given_up(node, kept) && !self.may_leave_device(node);
            let safe = |node: &&Node| self.may_be_given_up(node, kept) && self.may_leave_device(node);
            let youngest = |node: &&Node| node.access;
            let spare = self.nodes.iter().filter(spare).max_by_key(youngest);
            let Some(node) = spare.or_else(|| self.nodes.iter().filter(safe).max_by_key(youngest)) else { break };
            let (sequence, before) = (node.sequence, self.safe());
            self.set_on_host(sequence, false);
            let lost = before - self.safe();
            if lost > surplus {
                self.set_on_host(sequence, true);
                break;
            }
            surplus -= lost;
            freed += self.pages(self.find(sequence).map_or(0, Node::length));
            self.given_up += 1;
        }
        freed
    }

    fn set_on_host(&mut self, sequence: u64, on_host: bool) {
        self.nodes.iter_mut().filter(|node| node.sequence == sequence).for_each(|node| node.on_host = on_host);
    }

    fn may_be_given_up(&self, node: &Node, kept: &[Span]) -> bool {
        let above = |span: &Span| node.leads_to(&span.namespace, span.above());
        let both = node.on_device && node.on_host;
        both && !self.children(node).any(|child| child.on_host) && self.host_ref(node) == 0 && !kept.iter().any(above)
    }

    /// Whether host copies are given up.
    pub(super) fn may_give_up_copies(&self) -> bool {
        matches!(self.settings.writing, Writing::Back { .. })
    }

    /// Tokens that could go without loss, above the low water and no more than are cached.
    pub(super) fn surplus(&self, device_free: u64) -> u64 {
        let Writing::Back { low_water } = self.settings.writing else { return 0 };
        (device_free + self.safe()).saturating_sub(low_water).min(self.safe())
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
