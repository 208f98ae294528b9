//! What is to be backed up.

use isoradix_core::operation::Kind;
use isoradix_core::{Namespace, Writing};

use super::model::Model;
use super::node::Node;
use super::operation::Part;

impl Model {
    /// Write-through: an inserted path is wished for, unless it is on host or on its way there.
    pub(super) fn wish_through(&mut self, namespace: &Namespace, path: &[u32]) {
        let Writing::Through { .. } = self.settings.writing else { return };
        if self.host_is_off() {
            return;
        }
        let lacking = self.path(namespace, path).into_iter().filter(|node| self.lacks_backup(node));
        let lacking: Vec<u64> = lacking.map(|node| node.sequence).collect();
        self.wishes.extend(lacking);
    }

    /// Write-back: the oldest dirty leaves that may go are wished for, until enough is free, clean, or on its way to host.
    pub(super) fn wish_back(&mut self, device_free: u64) {
        let Writing::Back { low_water } = self.settings.writing else { return };
        if self.host_is_off() {
            return;
        }
        let backups = self.operations.iter().filter(|operation| operation.kind == Kind::Backup);
        let coming: usize = backups.flat_map(|operation| &operation.parts).map(|part| part.span.tokens).sum();
        let safe = device_free + self.safe() + coming as u64;
        // No more than host could take, of all and of each.
        let most = self.obtainable_pages(device_free) * u64::from(self.settings.page);
        let missing = low_water.saturating_sub(safe).min(most);
        let mut found = 0;
        let may_be_wished = |node: &&Node| node.is_dirty() && self.may_leave_device(node);
        let mut oldest: Vec<&Node> = self.nodes.iter().filter(may_be_wished).collect();
        oldest.sort_by_key(|node| (node.access, node.sequence));
        let (mut new, mut counted): (Vec<u64>, Vec<&Node>) = (vec![], vec![]);
        for node in oldest {
            if found >= missing {
                break;
            }
            let path = self.path(&node.namespace, &node.path);
            let along: Vec<&Node> =
                path.into_iter().filter(|above| self.lacks_backup(above) && !counted.contains(above)).collect();
            let length = along.iter().map(|above| above.length()).sum::<u64>();
            if length > most {
                continue;
            }
            // For more than half of the low water nothing is evicted from host.
            if found + length > most - self.sizes().host_only && safe + found >= low_water / 2 {
                break;
            }
            found += length;
            counted.extend(along);
            new.push(node.sequence);
        }
        self.wishes.extend(new);
    }

    /// Dirty, with no backup under way.
    fn lacks_backup(&self, node: &Node) -> bool {
        node.is_dirty() && !self.is_pending(node)
    }

    /// The nodes that the wishes come to: of each path, from the top down, what is dirty, as far as it has enough hits.
    ///
    /// So each node's parent is on host or before it in the list. A wish with something pending on its path is kept; one whose
    /// node is gone is dropped.
    pub(super) fn take_wishes(&mut self) -> Vec<Part> {
        let threshold = if let Writing::Through { hits } = self.settings.writing { hits.into() } else { 0 };
        let (mut chosen, mut kept): (Vec<&Node>, Vec<u64>) = (vec![], vec![]);
        for wish in &self.wishes {
            let Some(end) = self.find(*wish) else { continue };
            let path = self.path(&end.namespace, &end.path);
            if path.iter().any(|node| self.is_pending(node)) {
                kept.push(*wish);
                continue;
            }
            let dirty = path.into_iter().filter(|node| node.is_dirty());
            for node in dirty.take_while(|node| node.hits >= threshold) {
                if !chosen.contains(&node) {
                    chosen.push(node);
                }
            }
        }
        let parts = chosen.into_iter().map(|node| Part::of(node.sequence, node.span())).collect();
        self.wishes = kept;
        parts
    }
}
