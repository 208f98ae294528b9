//! What a rank does with an applied frame: each action, on its pools, as the action's own page says.

use super::copy::Run;
use super::rank::{Broken, Node, Rank, as_agreed};
use super::scope::Defect;
use isoradix_core::Agreed;
use isoradix_core::Ordinal;
use isoradix_core::operation::{Action, OperationError};
use isoradix_core::protocol::{AppliedFrame, Told};

/// What came of a frame.
pub(super) struct Applied {
    /// What was done; of what operation the failure ends the server.
    pub(super) actions: Result<Vec<Action>, Ordinal>,
    /// Whether pages or copies were moved: then it matters what physics had done before.
    pub(super) moved: bool,
}

impl Rank {
    /// Applies a frame.
    pub(super) fn apply(&mut self, frame: &AppliedFrame) -> Result<Applied, Broken> {
        (self.open_step, self.step) = (Some(frame.step()), frame.step());
        let actions = match self.table.apply_frame(frame) {
            Ok(actions) => actions,
            Err(OperationError::Fatal { operation, .. }) => {
                self.dead = true;
                return Ok(Applied { actions: Err(operation), moved: true });
            }
            Err(error) => return Err(self.broken(error)),
        };
        for action in &actions {
            self.carry_out(*action)?;
        }
        if let Some(Told::Value(backable)) = frame.vote().map(|vote| vote.backable()) {
            self.host.lower(backable);
            if !self.has(Defect::CapacityNeverRises) {
                self.host.raise(backable);
            }
        }
        self.post_terminal()?;
        let moved = actions.iter().any(|action| !matches!(action, Action::Deliver { .. } | Action::Unlock { .. }));
        Ok(Applied { actions: Ok(actions), moved })
    }

    fn carry_out(&mut self, action: Action) -> Result<(), Broken> {
        match action {
            Action::Commit { operation, share } => self.commit(operation, as_agreed(share.pages)),
            Action::Deliver { operation, share } => self.deliver(operation, share.tokens),
            Action::Settle { operation, keep } => self.settle(operation, as_agreed(keep)),
            Action::Cancel { operation, keep } => self.cancel(operation, as_agreed(keep)),
            Action::Return { operation, .. } => self.give_back(operation),
            Action::Unlock { operation } => {
                self.tree.iter_mut().for_each(|node| node.locks.retain(|reader| *reader != operation));
                Ok(())
            }
        }
    }

    fn commit(&mut self, k: Ordinal, granted: Agreed<u32>) -> Result<(), Broken> {
        let kind = self.copy_ref(k).kind;
        let committed = self.pool(kind).commit(k, granted);
        committed.map_err(|error| self.broken(error))?;
        // The copy may go on touching all that it began with: what is surplus stays with the operation.
        self.copy(k).committed = Some(granted.get());
        Ok(())
    }

    /// Nothing is delivered that some rank had not copied when it voted.
    fn deliver(&self, k: Ordinal, tokens: u64) -> Result<(), Broken> {
        let kind = self.copy_ref(k).kind;
        let arrived = self.framed.as_ref().map_or(&[][..], |vector| &vector.arrived);
        let whole = arrived.get(super::rank::index(k)).copied().unwrap_or(0);
        let delivered = self.table.operation(k).and_then(isoradix_core::operation::Operation::delivered);
        let pages = delivered.map_or(0, |share| share.pages);
        let due = if self.copy_ref(k).votes_pages() { pages } else { self.copy_ref(k).asked };
        if whole >= due {
            return Ok(());
        }
        let kind = kind.as_str();
        Err(self.broken(format_args!(
            "{kind} {k} delivers {tokens} tokens, {due} pages, of which some rank has copied {whole}"
        )))
    }

    fn settle(&mut self, k: Ordinal, keep: Agreed<u32>) -> Result<(), Broken> {
        let kind = self.copy_ref(k).kind;
        self.grow_tree(k, keep.get());
        self.pool(kind).settle(k, keep).map_err(|error| self.broken(error))
    }

    fn cancel(&mut self, k: Ordinal, keep: Agreed<u32>) -> Result<(), Broken> {
        let copy = self.copy_ref(k);
        let (run, arrived) = (copy.run, copy.arrived);
        if arrived < keep.get() {
            let keep = keep.get();
            return Err(self.broken(format_args!("operation {k} keeps {keep} pages, this rank has copied {arrived}")));
        }
        if self.copy_ref(k).votes_pages() {
            self.grow_tree(k, keep.get());
            let drained = if keep.get() == 0 { self.host.drain(k) } else { self.host.drain_rest(k, keep) };
            drained.map_err(|error| self.broken(error))?;
        }
        let kept = self.tree.iter().filter(|node| node.operation == k).flat_map(|node| node.pages.clone());
        let kept: Vec<u32> = kept.collect();
        let copy = self.copy(k);
        copy.cancelled = true;
        copy.touches.retain(|page| !kept.contains(page));
        if self.has(Defect::CancelFreesPages) && self.copy_ref(k).votes_pages() {
            let freed = self.host.finished(k).and_then(|()| self.host.abort(k));
            freed.map_err(|error| self.broken(error))?;
        }
        if run == Run::Waiting {
            self.copy(k).run = Run::Off;
            return self.post_finished(k);
        }
        if self.has(Defect::FinishedWhileCopying) {
            return self.post_finished(k);
        }
        Ok(())
    }

    fn give_back(&mut self, k: Ordinal) -> Result<(), Broken> {
        if self.has(Defect::CancelFreesPages) {
            return Ok(());
        }
        let kind = self.copy_ref(k).kind;
        let pool = self.pool(kind);
        pool.finished(k).and_then(|()| pool.abort(k)).map_err(|error| self.broken(error))
    }

    /// The first pages become the tree's. Stands before the pool's own verb, which takes them off its list.
    fn grow_tree(&mut self, operation: Ordinal, keep: u32) {
        let kind = self.copy_ref(operation).kind;
        let pages: Vec<u32> = self.pool_ref(kind).pages(operation).iter().copied().take(keep as usize).collect();
        if !pages.is_empty() {
            self.tree.push(Node { operation, kind, pages, locks: Vec::new() });
        }
    }

    /// What is terminal here needs no vote of this rank any more.
    fn post_terminal(&mut self) -> Result<(), Broken> {
        let terminal = self.table.iter().filter(|entry| entry.state().is_terminal());
        for k in terminal.map(isoradix_core::operation::Operation::ordinal).collect::<Vec<_>>() {
            self.board.terminal(k).map_err(|error| self.broken(error))?;
            self.forget_copy(k);
        }
        Ok(())
    }

    /// A copy that is off its pages, of an operation that is terminal, has no future.
    pub(super) fn forget_copy(&mut self, k: Ordinal) {
        let over = self.table.operation(k).is_none_or(|entry| entry.state().is_terminal());
        if over && self.copy_ref(k).run == Run::Off {
            self.copy(k).forget();
        }
    }
}
