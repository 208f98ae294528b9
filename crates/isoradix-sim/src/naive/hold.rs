//! Locks and pins on the device, locks on host.

use super::answers::Refused;
use super::model::Model;
use super::operation::Receipt;

impl Model {
    /// Keeps a node and all above it from eviction; gives the receipt.
    ///
    /// # Errors
    /// No such node.
    pub(crate) fn lock(&mut self, node: u64) -> Result<u64, Refused> {
        let receipt = self.new_receipt(node)?;
        self.locks.push(receipt);
        Ok(self.receipt)
    }

    /// Gives back a lock.
    ///
    /// # Errors
    /// The receipt is not out.
    pub(crate) fn unlock(&mut self, receipt: u64) -> Result<(), Refused> {
        take(&mut self.locks, receipt).map(|_| ())
    }

    /// Keeps a node and all above it until told otherwise; gives the receipt.
    ///
    /// # Errors
    /// No such node.
    pub(crate) fn pin(&mut self, node: u64) -> Result<u64, Refused> {
        let receipt = self.new_receipt(node)?;
        self.pins.push(receipt);
        Ok(self.receipt)
    }

    /// Gives back a pin.
    ///
    /// # Errors
    /// The receipt is not out.
    pub(crate) fn unpin(&mut self, receipt: u64) -> Result<(), Refused> {
        take(&mut self.pins, receipt).map(|_| ())
    }

    /// Keeps a node and all above it on host; gives the receipt. The root may be given, and holds nothing.
    ///
    /// # Errors
    /// No such node, or it is not on host.
    pub(crate) fn host_lock(&mut self, node: u64) -> Result<u64, Refused> {
        self.on_host_or_root(node)?;
        let receipt = self.new_receipt(node)?;
        self.host_locks.push(receipt);
        Ok(self.receipt)
    }

    /// Gives back a host lock.
    ///
    /// # Errors
    /// The receipt is not out.
    pub(crate) fn unlock_host(&mut self, receipt: u64) -> Result<(), Refused> {
        take(&mut self.host_locks, receipt).map(|_| ())
    }

    pub(super) fn on_host_or_root(&self, node: u64) -> Result<(), Refused> {
        let on_host = node == 0 || self.find(node).ok_or(Refused::Node)?.on_host;
        if on_host { Ok(()) } else { Err(Refused::NotOnHost) }
    }

    fn new_receipt(&mut self, node: u64) -> Result<Receipt, Refused> {
        let (namespace, path) = self.place(node)?;
        self.receipt += 1;
        Ok(Receipt { id: self.receipt, node, namespace, path })
    }
}

fn take(receipts: &mut Vec<Receipt>, id: u64) -> Result<Receipt, Refused> {
    let at = receipts.iter().position(|receipt| receipt.id == id).ok_or(Refused::Receipt)?;
    Ok(receipts.remove(at))
}
