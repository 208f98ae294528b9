//! What a frame does to the operations, in the order that all ranks keep.

use super::agreed::AgreedEvent;
use super::effects::Action;
use super::error::OperationError;
use super::kind::Kind;
use super::table::OperationTable;
use crate::defects::Defect;
use crate::ordinal::Ordinal;
use crate::protocol::{AppliedControl, AppliedFrame, AppliedVote, Told};
use crate::provenance::Agreed;

impl OperationTable {
    /// Applies a frame: first its vote, slots before watermarks; then the leader's decisions; last the window slides. Gives what is
    /// to be done now, in order. Other decisions than those on operations are the caller's.
    ///
    /// A slot comes before the watermark that covers it, since a rank posts an operation's success before it posts the operation as
    /// finished. The decisions come after both, so a prefetch keeps what this very frame says has arrived.
    ///
    /// # Errors
    /// As for [`OperationTable::apply`]. Then nothing of the frame has been applied.
    pub fn apply_frame(&mut self, frame: &AppliedFrame) -> Result<Vec<Action>, OperationError> {
        let (before, mut actions) = (self.snapshot(), Vec::new());
        match self.apply_all(frame, &mut actions) {
            Ok(()) => Ok(actions),
            Err(error) => {
                self.restore(before);
                Err(error)
            }
        }
    }

    fn apply_all(&mut self, frame: &AppliedFrame, actions: &mut Vec<Action>) -> Result<(), OperationError> {
        if let Some(vote) = frame.vote() {
            self.apply_vote(&vote, actions)?;
        }
        for control in frame.controls() {
            let event = match control {
                AppliedControl::Terminate(operation) => AgreedEvent::Terminate { operation },
                AppliedControl::TimeOut(operation) => AgreedEvent::TimeOut { operation },
                AppliedControl::Abort(operation) => AgreedEvent::Abort { operation },
                AppliedControl::Mode(_)
                | AppliedControl::Stop
                | AppliedControl::Tiers(_)
                | AppliedControl::Attach
                | AppliedControl::Detach => continue,
            };
            self.take(event, actions)?;
        }
        // It cannot fail any more once it has slid, so a refused frame never has.
        frame.vote().map_or(Ok(()), |vote| self.slide(vote.retired()))
    }

    fn apply_vote(&mut self, vote: &AppliedVote<'_>, actions: &mut Vec<Action>) -> Result<(), OperationError> {
        for (place, (operation, slot)) in (self.base()..).zip(vote.slots()) {
            let without_identity = self.planted.is(Defect::CountWithoutIdentity);
            let operation = if without_identity { Ordinal(place) } else { operation };
            self.hear(operation, slot.words().map(Agreed::get), actions)?;
        }
        for fifo in Kind::ALL {
            match vote.finished(fifo.fifo()) {
                Told::NotYet => {}
                Told::Value(watermark) => self.finish(fifo, watermark.get(), actions)?,
                // No rank has such a FIFO, so nothing runs in it.
                Told::NoStake => self.finish(fifo, vote.issued().get(), actions)?,
            }
        }
        Ok(())
    }
}
