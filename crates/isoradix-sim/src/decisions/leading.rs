//! What only the leader decides: what to give up, what to send back, when to stop.

use super::fit::fit;
use super::message::Message;
use super::phase::{Group, Phase};
use super::world::World;
use crate::fault::FaultKind;
use crate::queue::Micros;
use crate::rng::{self, Purpose, roll};
use std::collections::BTreeMap;

/// Quiet steps after which the leader stops.
const QUIET_STEPS: u64 = 8;

/// Steps from one fit to the next.
const FIT_STEPS: u64 = 16;

/// What the leader keeps in mind.
#[derive(Debug, Default)]
pub(super) struct Leading {
    /// Requests that have arrived.
    pub(super) taken: usize,
    /// Since which step a storm's request is where it is to be given up.
    due: BTreeMap<u32, u64>,
    /// When each request arrived, by its own clock.
    arrived: BTreeMap<u32, Micros>,
    /// Steps in which nothing was open.
    quiet: u64,
    /// When there was nothing left to arrive, and no fault.
    pub(super) dry_since: Option<Micros>,
}

impl Leading {
    /// Whether it stopped because everything was over.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet >= QUIET_STEPS
    }
}

impl World<'_> {
    /// The leader's next step.
    pub(super) fn message(&mut self) -> Message {
        let step = self.stations[0].step + 1;
        let now = self.stations[0].clock.at(self.queue.now());
        let open: Vec<(u32, Phase)> = self.stations[0].desk.open().collect();
        let aborts = self.aborts(step, now, &open);
        let retractions = self.retractions(step, &open, &aborts);
        let arrivals = self.arrivals(step, now);
        let requests: Vec<u64> = aborts.iter().map(|request| u64::from(*request)).collect();
        let rulings = Group::ALL.map(|group| {
            let newest = self.newest[group as usize].as_ref();
            let ruling = self.stations[0].desk.queue(group).rule(now / 1000, newest, &requests);
            ruling.to_bytes().into()
        });
        self.tally.requests += arrivals.len() as u64;
        for (_, phase) in open.iter().filter(|(request, _)| aborts.contains(request)) {
            self.tally.aborted_in[*phase as usize] += 1;
        }
        let coefficients = (step % FIT_STEPS == 1).then(|| self.fitted(0, step));
        Message { step, rulings, coefficients, arrivals, aborts, retractions, last: self.is_last(step) }
    }

    /// What a rank has fitted by the leader's step of a message.
    pub(super) fn fitted(&self, rank: usize, step: u64) -> (u64, u64) {
        let (a, b) = fit(self.plan, rank, step);
        (a ^ self.faults.size(FaultKind::NudgedFit, rank).unwrap_or(0), b)
    }

    fn arrivals(&mut self, step: u64, now: Micros) -> Vec<u32> {
        let numbers = self.plan.input_numbers[self.leading.taken..].iter();
        let due = numbers.take_while(|number| self.plan.requests[**number].at_step <= step);
        let arrivals: Vec<u32> = due.map(|number| u32::try_from(*number).unwrap_or(u32::MAX)).collect();
        self.leading.taken += arrivals.len();
        self.leading.arrived.extend(arrivals.iter().map(|request| (*request, now)));
        arrivals
    }

    /// By the plan of a storm, by chance, and after too long.
    fn aborts(&mut self, step: u64, now: Micros, open: &[(u32, Phase)]) -> Vec<u32> {
        let mut aborts: Vec<u32> =
            open.iter().filter(|one| self.storms(step, **one)).map(|(request, _)| *request).collect();
        let permille = self.faults.largest(FaultKind::Aborts).unwrap_or(self.plan.ambient.aborts);
        aborts.extend(self.picked(step, 1, permille, open));
        if let Some(patience_ms) = self.faults.largest(FaultKind::RequestTimeouts) {
            let late = |request: &u32| now > self.leading.arrived[request] + patience_ms * 1000;
            aborts.extend(open.iter().map(|(request, _)| *request).filter(late));
        }
        aborts.sort_unstable();
        aborts.dedup();
        aborts
    }

    fn storms(&mut self, step: u64, (request, phase): (u32, Phase)) -> bool {
        let Some(abort) = self.plan.request(request).abort.filter(|abort| phase >= abort.phase) else { return false };
        step >= *self.leading.due.entry(request).or_insert(step) + abort.steps
    }

    /// Whoever holds a slot may be sent back.
    fn retractions(&self, step: u64, open: &[(u32, Phase)], aborts: &[u32]) -> Vec<u32> {
        let permille = self.faults.largest(FaultKind::Retractions).unwrap_or(self.plan.ambient.retractions);
        let may = |(request, phase): &&(u32, Phase)| *phase != Phase::Waiting && !aborts.contains(request);
        let open: Vec<(u32, Phase)> = open.iter().filter(may).copied().collect();
        self.picked(step, 2, permille, &open).into_iter().collect()
    }

    /// One of these, in so many of a thousand steps with requests.
    fn picked(&self, step: u64, what: u64, permille: u64, of: &[(u32, Phase)]) -> Option<u32> {
        let word = |which| roll(self.plan.seed, Purpose::Meddle, [step, what, which]);
        let happens = rng::below(word(0), 1000) < permille && self.leading.dry_since.is_none();
        let place = usize::try_from(rng::below(word(1), of.len() as u64)).unwrap_or(0);
        of.get(place).filter(|_| happens).map(|(request, _)| *request)
    }

    fn is_last(&mut self, step: u64) -> bool {
        let leading = &mut self.leading;
        let is_dry = leading.taken == self.plan.input_numbers.len() && step > self.plan.steps && self.faults.are_over();
        if is_dry && leading.dry_since.is_none() {
            leading.dry_since = Some(self.queue.now());
        }
        let at_rest = is_dry && self.stations[0].desk.open().next().is_none();
        leading.quiet = if at_rest { leading.quiet + 1 } else { 0 };
        leading.is_quiet() || step >= self.plan.limit
    }
}
