//! Load-back: from host to the device.

use super::answers::Refused;
use super::model::Model;
use super::node::Span;
use super::operation::{Part, Receipt};

impl Model {
    /// Slots that loading a host lock's path would take; 0 if it is declined: nothing left, too little, host is off, or the window
    /// is full and no other load of this step has a place there.
    ///
    /// # Errors
    /// The receipt is not out.
    pub(crate) fn load_back_need(&self, receipt: u64) -> Result<u64, Refused> {
        let locked = self.host_receipt(receipt)?;
        let need = self.to_load(locked).tokens as u64;
        let full = self.loads.is_empty() && !self.has_room();
        let declined = need < self.settings.load_back_min
            || full
            || self.host_is_off()
            || !self.is_usable(&locked.namespace, &locked.path);
        Ok(if declined { 0 } else { need })
    }

    /// Brings all host-only nodes of a host lock's path onto the device, and takes the receipt; gives their tokens. With 0, nothing
    /// happened.
    ///
    /// # Errors
    /// The receipt is not out.
    pub(crate) fn load_back(&mut self, receipt: u64) -> Result<u64, Refused> {
        let need = self.load_back_need(receipt)?;
        if need == 0 {
            return Ok(0);
        }
        let part = {
            let receipt = self.host_receipt(receipt)?;
            Part::of(receipt.node, self.to_load(receipt))
        };
        for node in self.nodes.iter_mut().filter(|node| part.span.covers(node)) {
            node.on_device = true;
            node.device_parts.clone_from(&node.host_parts);
        }
        self.stamp(&part.span.namespace, &part.span.path);
        self.host_locks.retain(|held| held.id != receipt);
        self.loads.push(part);
        Ok(need)
    }

    /// What of a path is on host only: its end, since device nodes are closed upwards.
    fn to_load(&self, Receipt { namespace, path, .. }: &Receipt) -> Span {
        let on_device = self.path(namespace, path).into_iter().rfind(|node| node.on_device);
        let tokens = path.len() - on_device.map_or(0, |node| node.path.len());
        Span { namespace: namespace.clone(), path: path.clone(), tokens }
    }

    fn host_receipt(&self, id: u64) -> Result<&Receipt, Refused> {
        self.host_locks.iter().find(|receipt| receipt.id == id).ok_or(Refused::Receipt)
    }
}
