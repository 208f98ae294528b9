//! What only the leader decides, because physics or time has a say in it: what to give up and when, and when to stop.

use super::Cluster;
use crate::fault::FaultKind;
use crate::queue::Micros;
use crate::request::What;
use crate::rng::{self, Purpose, roll};
use isoradix_core::operation::{Kind, Operation, State};
use isoradix_core::protocol::{Control, TopTier};
use isoradix_core::{Attachment, Ordinal};
use std::collections::BTreeMap;

/// Quiet steps after which the leader stops.
const QUIET_STEPS: u64 = 8;

/// What the leader keeps in mind.
#[derive(Debug, Default)]
pub(super) struct Leading {
    /// Inputs of the scenario that have been taken.
    taken: usize,
    /// When each live prefetch was first seen.
    seen: BTreeMap<Ordinal, Micros>,
    /// When each request arrived, by its own clock.
    arrived: BTreeMap<u32, Micros>,
    /// The next frame is to be the last.
    pub(super) stops: bool,
    /// The last frame is on its way.
    pub(super) has_stopped: bool,
    /// Steps since the last one in which something was going on.
    quiet: u64,
    /// When the requests dried up.
    pub(super) dry_since: Option<Micros>,
}

impl Leading {
    /// Whether it stopped because everything was at rest.
    pub(super) fn quiet_stop(&self) -> bool {
        self.quiet >= QUIET_STEPS
    }
}

impl Cluster<'_> {
    /// What has reached the leader when it enters a step, and what it gives up in it.
    pub(super) fn inputs(&mut self, step: u64) -> Vec<What> {
        let due = self.scenario.inputs[self.leading.taken..].iter().take_while(|input| input.at_step <= step);
        let mut inputs: Vec<What> = due.map(|input| input.what).collect();
        self.leading.taken += inputs.len();
        if let Some(word) = self.meddles(step, 0) {
            let open = self.stations[0].scheduler.open();
            inputs.extend(pick(&open, word).map(|request| What::Abort(*request)));
        }
        inputs.extend(self.timed_out(&inputs));
        let word = roll(self.scenario.seed, Purpose::Meddle, [step, 8, 0]);
        let retracts = self.faults.largest(FaultKind::Retractions);
        inputs.extend(retracts.filter(|permille| rng::below(word, 1000) < *permille).map(|_| What::Retract));
        inputs
    }

    /// Requests that have been open for too long, by the leader's clock.
    fn timed_out(&mut self, inputs: &[What]) -> Vec<What> {
        let station = &self.stations[0];
        let now = station.clock.at(self.queue.now());
        for input in inputs {
            if let What::Arrive(request) = input {
                self.leading.arrived.insert(*request, now);
            }
        }
        let Some(patience_ms) = self.faults.largest(FaultKind::RequestTimeouts) else { return Vec::new() };
        let late = |request: &u32| {
            let arrived = self.leading.arrived.get(request);
            arrived.is_some_and(|arrived| now > arrived + patience_ms * 1000)
        };
        station.scheduler.open().into_iter().filter(late).map(What::Abort).collect()
    }

    /// A word to choose by, if the leader gives something up in this step.
    fn meddles(&self, step: u64, what: u64) -> Option<u64> {
        let kind = FaultKind::Aborts;
        let planned = self.faults.largest(kind);
        let busy = step < self.scenario.steps;
        let permille = planned.or(busy.then_some(self.scenario.ambient.aborts))?;
        let word = |which| roll(self.scenario.seed, Purpose::Meddle, [step, what, which]);
        (rng::below(word(0), 1000) < permille).then(|| word(1))
    }

    /// The decisions that the next frame carries.
    pub(super) fn controls(&mut self, step: u64, inputs: &[What]) -> Vec<Control> {
        let station = &self.stations[0];
        let live = station.scheduler.live_prefetches(station.core.cache());
        let now = station.clock.at(self.queue.now());
        let mut controls = Vec::new();
        for (request, operation) in &live {
            let since = *self.leading.seen.entry(*operation).or_insert(now);
            let word = roll(self.scenario.seed, Purpose::Patience, [operation.0, 0, 0]);
            let patience = 1_000 + rng::below(word, 200_000);
            if inputs.contains(&What::Abort(*request)) {
                controls.push(Control::Abort(*operation));
            } else if now > since + patience {
                controls.push(Control::Terminate(*operation));
            }
        }
        self.leading.seen.retain(|operation, _| live.iter().any(|(_, live)| live == operation));
        controls.extend(self.meddled(step));
        controls.extend(self.meddled_load(step));
        controls.extend(self.switched(step));
        controls.extend(self.attached(step));
        if self.leading.stops {
            controls.push(Control::Stop);
        }
        controls
    }

    /// Any operation, whatever it is and wherever it stands; more often one of the newest, before much is known of it, or one
    /// whose copy is under way.
    fn meddled(&self, step: u64) -> Option<Control> {
        let word = self.meddles(step, 1)?;
        let mut operations: Vec<_> = self.stations[0].core.cache().operations().iter().collect();
        match rng::below(rng::mix(word, 2), 3) {
            0 => drop(operations.drain(..operations.len().saturating_sub(2))),
            1 => operations.retain(|operation| matches!(operation.state(), State::Committed | State::Copying)),
            _ => {}
        }
        let operation = pick(&operations, rng::mix(word, 3))?;
        let (ordinal, prefetch) = (operation.ordinal(), operation.kind() == Kind::Prefetch);
        Some(match rng::below(rng::mix(word, 5), if prefetch { 3 } else { 2 }) {
            0 => Control::TimeOut(ordinal),
            1 => Control::Abort(ordinal),
            _ => Control::Terminate(ordinal),
        })
    }

    /// A load-back that is open when a frame is stamped is rare, and promises its tokens whatever the leader decides.
    fn meddled_load(&self, step: u64) -> Option<Control> {
        let operations = self.stations[0].core.cache().operations().iter();
        let open = |operation: &&Operation| operation.kind() == Kind::LoadBack && !operation.state().is_terminal();
        let load = operations.filter(open).last()?.ordinal();
        let word = (2..8).find_map(|again| self.meddles(step, again))?;
        Some(if word.is_multiple_of(2) { Control::TimeOut(load) } else { Control::Abort(load) })
    }

    /// Tiers go off and on while that fault is on; after it all are on again.
    fn switched(&self, step: u64) -> Option<Control> {
        let top = self.stations[0].core.cache().top_tier();
        let Some(permille) = self.faults.largest(FaultKind::SwitchedTiers) else {
            return (top != TopTier::Storage).then_some(Control::Tiers(TopTier::Storage));
        };
        let word = |which| roll(self.scenario.seed, Purpose::Meddle, [step, 9, which]);
        let throws = rng::below(word(0), 1000) < permille;
        throws.then(|| pick(&TopTier::ALL, word(1))).flatten().map(|top| Control::Tiers(*top))
    }

    /// Storage attached, or detached; once the fault is over, it stays as it is.
    fn attached(&self, step: u64) -> Option<Control> {
        let word = roll(self.scenario.seed, Purpose::Meddle, [step, 10, 0]);
        let permille = self.faults.largest(FaultKind::Attachments)?;
        let cache = self.stations[0].core.cache();
        let control = match cache.attachment() {
            Attachment::Attached | Attachment::Opening => Control::Detach,
            Attachment::Absent => Control::Attach,
            Attachment::Detaching => return None,
        };
        (rng::below(word, 1000) < permille).then_some(control)
    }

    /// After each of the leader's steps: once requests have dried up and everything is at rest, the next frame is the last.
    pub(super) fn rest(&mut self) {
        let station = &self.stations[0];
        self.leading.stops |= station.step >= self.scenario.limit;
        if station.step < self.scenario.steps || self.leading.taken < self.scenario.inputs.len() {
            return;
        }
        let operations = station.core.cache().operations();
        let at_rest =
            self.faults.are_over() && station.scheduler.is_quiet() && operations.issued() == operations.base();
        self.leading.quiet = if at_rest { self.leading.quiet + 1 } else { 0 };
        self.leading.stops |= self.leading.quiet >= QUIET_STEPS;
        if self.leading.dry_since.is_none() && self.faults.are_over() {
            self.leading.dry_since = Some(self.queue.now());
        }
    }
}

fn pick<T>(items: &[T], word: u64) -> Option<&T> {
    items.get(crate::world::at(rng::below(word, items.len() as u64)))
}
