//! Storage that fails: who is let through, what is tried again, and whether there is any storage. All of it spelled out once more.

use isoradix_core::operation::{Event, Kind};
use isoradix_core::protocol::Control;
use isoradix_core::{Attachment, Ordinal};

use super::model::Model;
use super::node::Span;
use super::operation::{Operation, Part};

/// How an operation has ended, as all ranks know.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// What has ended it early.
    pub(crate) ended_by: Option<Event>,
    /// It has failed on some rank.
    pub(crate) failed: bool,
}

/// Whether storage is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Breaking {
    /// Always; so many operations have failed in a row.
    Closed(u32),
    /// Never before this moment.
    Open(u64),
    /// By one operation at a time; so many have gone well.
    Trial(Option<u64>, u32),
}

impl Breaking {
    /// Its name, as the core has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Closed(_) => "closed",
            Self::Open(_) => "open",
            Self::Trial(..) => "trial",
        }
    }
}

impl Model {
    /// A frame is applied: its moment, and what the leader has ended.
    pub(crate) fn begin_frame(&mut self, now_ms: u64, controls: &[Control]) {
        self.now_ms = Some(now_ms);
        for control in controls {
            let (Control::Terminate(k) | Control::TimeOut(k) | Control::Abort(k)) = control else { continue };
            let named = |of: &&mut super::operation::Operation| of.kind == Kind::Prefetch && of.ordinal == *k;
            if let Some(operation) = self.operations.iter_mut().find(named) {
                (operation.given_up, operation.again) = (true, false);
            }
        }
    }

    /// How an operation ends in this frame, or has ended before.
    pub(crate) fn tell(&mut self, ordinal: Ordinal, outcome: Outcome) {
        if let Some(operation) = self.operations.iter_mut().find(|operation| operation.ordinal == ordinal) {
            operation.outcome = outcome;
        }
    }

    /// After what the frame did to operations: what takes too long, tiers, and storage itself.
    pub(crate) fn end_frame(&mut self, controls: &[Control]) {
        if let Some(now) = self.now_ms {
            for at in 0..self.operations.len() {
                if self.operations[at].slow_at.is_some_and(|slow| now >= slow) {
                    self.judge(at, Some(false));
                }
            }
        }
        self.switch(controls);
        for control in controls {
            match control {
                Control::Attach if self.attachment == Attachment::Absent => self.attachment = Attachment::Opening,
                Control::Detach => self.detach(),
                _ => {}
            }
        }
    }

    fn detach(&mut self) {
        match self.attachment {
            Attachment::Opening => match self.operations.iter_mut().find(|operation| operation.opens) {
                Some(operation) => operation.given_up = true,
                None => self.attachment = Attachment::Absent,
            },
            Attachment::Detaching => {}
            Attachment::Absent if self.was_detached => {}
            Attachment::Absent | Attachment::Attached => {
                self.stored_before = if self.attachment == Attachment::Attached { self.next_ordinal } else { 0 };
                self.attachment = Attachment::Detaching;
                self.prefetches.clear();
            }
        }
    }

    /// All ranks are asked to open storage.
    pub(super) fn issue_opening(&mut self) {
        let opens = self.operations.iter().any(|operation| operation.opens);
        if self.attachment == Attachment::Opening && !opens && self.has_room() {
            self.openings += 1;
            let span = Span { namespace: isoradix_core::Namespace::default(), path: vec![0], tokens: 1 };
            self.issue(Kind::Store, vec![Part::of(self.openings, span)]);
            let operation = self.operations.last_mut().expect("it was issued");
            (operation.opens, operation.orphan, operation.slow_at) = (true, true, None);
        }
    }

    /// Storage goes once nothing of it is under way or to be stored.
    pub(super) fn end_detach(&mut self) {
        if self.attachment != Attachment::Detaching {
            return;
        }
        if matches!(self.breaker, Breaking::Open(_)) && !self.lets() {
            self.stores.clear();
        }
        let of_storage = |kind| matches!(kind, Kind::Prefetch | Kind::Store);
        let open = self.operations.iter().any(|operation| of_storage(operation.kind) && !operation.opens);
        let comes = |operation: &Operation| {
            operation.kind == Kind::Backup && !operation.orphan && self.stores_backup(operation.ordinal)
        };
        if self.stores.is_empty() && !open && !self.operations.iter().any(comes) {
            (self.attachment, self.was_detached) = (Attachment::Absent, true);
        }
    }

    /// Whether what this backup brings to host is stored.
    pub(super) fn stores_backup(&self, backup: Ordinal) -> bool {
        let before = self.attachment == Attachment::Detaching && backup.0 < self.stored_before;
        (self.attachment == Attachment::Attached || before) && !self.storage_is_off()
    }

    /// Whether prefetches are asked for.
    pub(super) fn asks(&self) -> bool {
        match self.attachment {
            Attachment::Attached => true,
            Attachment::Detaching => false,
            _ => !self.was_detached,
        }
    }

    // ---- the breaker

    /// What it lets through; nothing, if there is none.
    pub(crate) fn breaker_name(&self) -> Option<&'static str> {
        self.settings.breaker.map(|_| self.breaker.name())
    }

    pub(crate) fn attachment(&self) -> Attachment {
        self.attachment
    }

    pub(super) fn lets(&self) -> bool {
        let (Some(_), Some(now)) = (self.settings.breaker, self.now_ms) else { return true };
        match self.breaker {
            Breaking::Closed(_) | Breaking::Trial(None, _) => true,
            Breaking::Open(until) => now >= until,
            Breaking::Trial(Some(_), _) => false,
        }
    }

    /// The next operation, of storage, is let through, or is not.
    pub(super) fn admits(&mut self) -> bool {
        if !self.lets() {
            return false;
        }
        if self.settings.breaker.is_some() && self.now_ms.is_some() {
            self.breaker = match self.breaker {
                Breaking::Open(_) => Breaking::Trial(Some(self.next_ordinal), 0),
                Breaking::Trial(_, well) => Breaking::Trial(Some(self.next_ordinal), well),
                closed @ Breaking::Closed(_) => closed,
            };
        }
        true
    }

    pub(super) fn slow_at(&self) -> Option<u64> {
        Some(self.now_ms?.saturating_add(self.settings.breaker?.slow_ms))
    }

    /// Once for each operation: well, badly, or nothing.
    fn judge(&mut self, at: usize, verdict: Option<bool>) {
        let k = self.operations[at].ordinal.0;
        let (Some(_), Some(rule), Some(now)) = (self.operations[at].slow_at.take(), self.settings.breaker, self.now_ms)
        else {
            return;
        };
        let open = Breaking::Open(now.saturating_add(rule.open_ms));
        self.breaker = match (self.breaker, verdict) {
            (Breaking::Closed(_), Some(true)) => Breaking::Closed(0),
            (Breaking::Closed(failures), Some(false)) if failures + 1 < rule.failures_max => {
                Breaking::Closed(failures + 1)
            }
            (Breaking::Closed(_), Some(false)) => open,
            (Breaking::Trial(Some(trial), well), Some(true)) if trial == k => {
                if well + 1 >= rule.trials {
                    Breaking::Closed(0)
                } else {
                    Breaking::Trial(None, well + 1)
                }
            }
            (Breaking::Trial(Some(trial), _), Some(false)) if trial == k => open,
            (Breaking::Trial(Some(trial), well), None) if trial == k => Breaking::Trial(None, well),
            (other, _) => other,
        };
    }

    // ---- ends

    /// An operation has ended early.
    pub(super) fn has_ended(&mut self, at: usize) {
        let operation = &self.operations[at];
        let (kind, ended_by, nothing) = (operation.kind, operation.outcome.ended_by, operation.delivered == 0);
        match ended_by {
            Some(Event::Failed) => self.judge(at, Some(false)),
            Some(Event::TimeOut) if nothing => self.judge(at, Some(false)),
            _ => {}
        }
        let Some(now) = self.now_ms.filter(|_| !self.operations[at].opens) else { return };
        let retry = self.settings.retry;
        match (kind, ended_by) {
            (Kind::Prefetch, Some(Event::Failed)) => {
                let operation = &mut self.operations[at];
                let part = &mut operation.parts[0];
                if !operation.given_up {
                    part.failures += 1;
                    operation.again = part.failures < retry.attempts_max;
                }
            }
            (Kind::Store, Some(Event::Failed | Event::TimeOut)) => {
                self.store_failures += 1;
                let pause = (0..self.store_failures - 1).fold(retry.first_ms, |pause, _| pause.saturating_mul(2));
                self.operations[at].again = self.store_failures < retry.attempts_max;
                self.store_due = self.operations[at].again.then(|| now.saturating_add(pause.min(retry.longest_ms)));
            }
            _ => {}
        }
    }

    /// An operation is over: what it leaves is tried again, or forgotten.
    pub(super) fn is_over(&mut self, at: usize) {
        let Outcome { ended_by, failed } = self.operations[at].outcome;
        let done = !self.operations[at].draining;
        let well = (done || ended_by == Some(Event::Miss)).then_some(true);
        self.judge(at, if failed { Some(false) } else { well });
        let operation = self.operations.remove(at);
        let again = operation.again && !operation.orphan;
        if operation.opens {
            let attached = done && !operation.given_up;
            self.attachment = if attached { Attachment::Attached } else { Attachment::Absent };
            if attached {
                self.breaker = Breaking::Closed(0);
                self.nodes.iter_mut().for_each(|node| node.stored = false);
            }
        } else if operation.kind == Kind::Prefetch && again {
            if self.asks() && !self.storage_is_off() && self.has_room() && self.lets() {
                self.prefetches.extend(operation.parts);
            }
        } else if operation.kind == Kind::Store && !operation.orphan {
            if again && !self.storage_is_off() {
                self.stores.splice(0..0, operation.parts);
            } else {
                (self.store_failures, self.store_due) = (0, None);
            }
        }
    }
}
