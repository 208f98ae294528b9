//! What an operation does to nodes and pages, one action at a time.

use isoradix_core::Ordinal;
use isoradix_core::operation::{Action, Kind, Share};

use super::answers::Refused;
use super::model::Model;
use super::operation::Part;

impl Model {
    /// Does what the real table asks for; gives the device tokens that limbo gives back by it.
    ///
    /// # Errors
    /// The operation is not open, or the pages do not fit it.
    pub(crate) fn apply(&mut self, action: &Action) -> Result<u64, Refused> {
        let ordinal = action.operation();
        let at = self.operations.iter().position(|operation| operation.ordinal == ordinal).ok_or(Refused::Operation)?;
        match *action {
            Action::Commit { share, .. } => self.commit(at, share)?,
            Action::Deliver { share, .. } => self.deliver(at, share)?,
            Action::Settle { keep, .. } => {
                self.has_delivered(at, keep)?;
                self.operations[at].held = 0;
            }
            Action::Cancel { keep, .. } => {
                self.has_delivered(at, keep)?;
                self.operations[at].draining = true;
                self.has_ended(at);
            }
            Action::Return { from, .. } => {
                self.has_delivered(at, from)?;
                self.operations[at].held = 0;
            }
            Action::Unlock { .. } => {
                self.is_over(at);
                return Ok(self.leave_limbo(ordinal));
            }
        }
        Ok(0)
    }

    /// The agreed part is all that it occupies from now on. Its other subjects stay locked until it ends.
    fn commit(&mut self, at: usize, share: Share) -> Result<(), Refused> {
        let operation = &mut self.operations[at];
        if operation.takes_host_pages() {
            operation.held = if share.pages <= operation.held { share.pages } else { return Err(Refused::Pages) };
        }
        Ok(())
    }

    fn deliver(&mut self, at: usize, share: Share) -> Result<(), Refused> {
        let operation = &mut self.operations[at];
        if operation.takes_host_pages() {
            operation.held = operation.held.checked_sub(share.pages).ok_or(Refused::Pages)?;
        }
        operation.delivered = share.pages;
        if operation.orphan {
            return Ok(());
        }
        let kind = operation.kind;
        let parts = operation.parts[..share.subjects as usize].to_vec();
        // What was on host before, and was given up there, may be stored.
        let stored = |part: &&Part| self.nodes.iter().filter(|node| part.span.covers(node)).all(|node| node.stored);
        let to_store: Vec<Part> = parts.iter().filter(|part| !stored(part)).cloned().collect();
        for part in &parts {
            let covered = self.nodes.iter_mut().filter(|node| part.span.covers(node));
            match kind {
                Kind::Backup => covered.for_each(|node| {
                    node.on_host = true;
                    node.host_parts = part.beside[..node.host_parts.len()].to_vec();
                }),
                Kind::Store => covered.for_each(|node| node.stored = true),
                // It is on the device since the load-back was called for.
                Kind::LoadBack => {}
                Kind::Prefetch => self.graft(part, usize::try_from(share.tokens).map_err(|_| Refused::Pages)?),
            }
        }
        if kind == Kind::Backup && self.stores_backup(self.operations[at].ordinal) {
            self.stores.extend(to_store);
        }
        Ok(())
    }

    fn has_delivered(&self, at: usize, pages: u32) -> Result<(), Refused> {
        if self.operations[at].delivered == pages { Ok(()) } else { Err(Refused::Pages) }
    }

    /// An operation has ended: what waited for it alone is free.
    fn leave_limbo(&mut self, ordinal: Ordinal) -> u64 {
        for limbo in &mut self.limbo {
            limbo.waits_for.retain(|waits_for| *waits_for != ordinal);
        }
        let over = self.limbo.iter().filter(|limbo| limbo.waits_for.is_empty());
        let freed = over.map(|limbo| limbo.device_tokens).sum();
        self.limbo.retain(|limbo| !limbo.waits_for.is_empty());
        freed
    }
}
