//! A scheduler thread: one step after the other.

use super::station::{EPOCH, Message, Phase};
use super::{Cluster, Event};
use crate::check::{Dump, check_memory};
use crate::coverage::Framed;
use crate::fault::FaultKind;
use crate::queue::Micros;
use crate::request::What;
use crate::rng::{self, Purpose, roll};
use crate::scheduler::Verb;
use crate::topology::Topology;
use crate::violation::{Wrong, ensure};
use crate::world::at;
use isoradix_core::protocol::{BatchHeader, Control, Divergence, Frame, Leader, Member, ProtocolError, RunAhead};
use isoradix_core::{DeviceRoom, PerRank, StepError};
use std::rc::Rc;

/// What follows a step at once.
const NEXT_STEP_US: Micros = 20;

/// Between two pieces of a message.
const PIECE_US: Micros = 40;

/// Every so many steps of a rank the costly checks are made.
const CHECK_STEPS: u64 = 16;

pub(super) fn refused(verb: &'static str) -> impl FnOnce(StepError) -> Wrong {
    move |error| {
        let kind = match &error {
            StepError::Operation(error) if !error.is_divergence() => "fatal",
            StepError::Operation(_) | StepError::Protocol(ProtocolError::Divergence(_)) => "divergence",
            _ => "refused",
        };
        Wrong::new(kind, format!("{verb}: {error}"))
    }
}

/// Form A, caught before the forward pass.
fn check_batch(own: &BatchHeader, other: &BatchHeader) -> Result<(), Wrong> {
    own.check(other).map_err(|parted| Wrong::new("batch", parted.to_string()))
}

impl Cluster<'_> {
    /// Begins a step, if there is one to begin.
    pub(super) fn begin(&mut self, rank: usize) -> Result<(), Wrong> {
        self.stations[rank].wakes = false;
        let waits = self.stations[rank].waits_forever;
        if !self.stations[rank].is_free() || self.is_halted(rank) || self.end.is_some() || waits {
            return Ok(());
        }
        if rank == 0 { self.lead() } else { self.follow(rank) }
    }

    fn lead(&mut self) -> Result<(), Wrong> {
        let step = self.stations[0].step + 1;
        self.faults_begin(step)?;
        self.forget_memory(step)?;
        if !self.stations[0].is_free() || self.is_halted(0) {
            return Ok(());
        }
        // Held back by a receiver: a completed send wakes it.
        if self.stations[0].core.run_ahead().is_some_and(|ahead| ahead.pressure().is_some()) {
            return Ok(());
        }
        self.enter(0, step)?;
        let inputs = self.inputs(step);
        let controls = self.controls(step, &inputs);
        let now = PerRank::observe(self.clock_ms(0));
        let station = &mut self.stations[0];
        self.mirror.before(station.core.cache().operations());
        let newest = self.newest.as_ref().map(|(reduced, _)| reduced);
        let frame = station.core.lead(&mut station.board, newest, now, &controls).map_err(refused("lead"))?;
        self.follow_operations(&frame)?;
        let message = Message { frame: frame.to_bytes().into(), inputs: inputs.into() };
        self.leading.has_stopped = frame.controls().contains(&Control::Stop);
        self.send(0, &message);
        let (stops, handed) = (self.leading.has_stopped, self.handed(0, &message.inputs));
        self.decide(0, &handed, stops)
    }

    /// What the frame did to the operations: counted, mirrored, and told to the reference model.
    fn follow_operations(&mut self, frame: &Frame) -> Result<(), Wrong> {
        let words = self.newest.as_ref().filter(|_| frame.vote().is_some() && frame.vote() != self.framed);
        let framed = Framed { vote: words.map(|(_, words)| &words[..]), controls: frame.controls() };
        self.framed = frame.vote().or(self.framed);
        let cache = self.stations[0].core.cache();
        let taken = self.mirror.after(&framed, cache.operations())?;
        if self.scenario.trace {
            let time = self.queue.now() / 1000;
            let lines = taken.iter().map(|taken| format!("step {} at {time} ms: {taken}", frame.step()));
            self.trace.extend(lines);
        }
        self.coverage.count(taken, &self.faults.felt(frame.step()));
        match &mut self.reference {
            Some(reference) => reference.frame(&framed, taken, cache),
            None => Ok(()),
        }
    }

    fn follow(&mut self, rank: usize) -> Result<(), Wrong> {
        // Its own receivers hold it back; or nothing has come.
        if self.stations[rank].ahead.pressure().is_some() {
            return Ok(());
        }
        let Some(message) = self.stations[rank].mailbox.pop_front() else { return Ok(()) };
        self.taken_by(rank);
        let frame = Frame::from_bytes(&message.frame).map_err(|error| Wrong::new("frame", error.to_string()))?;
        self.enter(rank, frame.step())?;
        let stops = frame.controls().contains(&Control::Stop);
        // It is sent on before it is looked at: who is below need not wait for that.
        if !self.stations[rank].receivers.is_empty() {
            let sent = self.stations[rank].ahead.send();
            sent.map_err(|pressure| Wrong::new("frame", pressure.to_string()))?;
            self.send(rank, &message);
        }
        self.refuse_other_domain(rank, &frame)?;
        let (step, station) = (frame.step(), &mut self.stations[rank]);
        station.core.follow(&mut station.board, frame).map_err(refused("follow"))?;
        self.check_found_out(rank, step)?;
        let mut inputs = self.early_aborts(rank);
        inputs.extend(self.handed(rank, &message.inputs));
        self.decide(rank, &inputs, stops)
    }

    /// Now and then a frame of another domain comes to the wrong rank. It is refused, and nothing has changed.
    fn refuse_other_domain(&mut self, rank: usize, frame: &Frame) -> Result<(), Wrong> {
        let (domain, domains) = (self.scenario.domain, self.scenario.topology.dp);
        if domains == 1 || !frame.step().is_multiple_of(CHECK_STEPS) {
            return Ok(());
        }
        let stray = |error: &dyn std::fmt::Display| Wrong::new("stray", error.to_string());
        let other = Member { domain: (domain + 1) % domains, epoch: EPOCH, rank: 0 };
        let mut leader = Leader::new(other, frame.step(), RunAhead::new(0, 1));
        let station = &mut self.stations[rank];
        let (before, now) = (station.core.digest(), PerRank::observe(0));
        let foreign = leader.stamp(None, now, before, &[]).map_err(|error| stray(&error))?;
        let taken = station.core.follow(&mut station.board, foreign);
        let refused = matches!(
            taken,
            Err(StepError::Protocol(ProtocolError::Divergence(Divergence::Frame { field: "domain", .. })))
        );
        ensure(refused && station.core.digest() == before, "stray", || {
            format!("a frame of domain {} is not refused by name: {taken:?}", other.domain)
        })
    }

    /// For a planted mistake: the ends of requests that have come with frames whose turn it is not yet.
    fn early_aborts(&self, rank: usize) -> Vec<What> {
        if !self.scenario.defect.is_some_and(|defect| defect.takes_aborts_early(rank)) {
            return Vec::new();
        }
        let waiting = self.stations[rank].mailbox.iter().flat_map(|message| message.inputs.iter());
        waiting.filter(|input| matches!(input, What::Abort(_))).copied().collect()
    }

    fn enter(&mut self, rank: usize, step: u64) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        station.step = step;
        station.steps += 1;
        if let Some(defect) = self.scenario.defect {
            let own_ms = station.clock.at(self.queue.now()) / 1000;
            defect.tell_time(rank, self.queue.now(), own_ms, &mut station.core);
        }
        let digest = station.core.digest();
        let entered = self.history.enter(rank, step, digest);
        self.compared(step, entered)?;
        self.check_now(rank)
    }

    /// The costly checks, now and then, each rank at its own times.
    fn check_now(&self, rank: usize) -> Result<(), Wrong> {
        let station = &self.stations[rank];
        if (station.step + 3 * rank as u64).is_multiple_of(CHECK_STEPS) && !station.doomed {
            check_memory(station.core.cache(), &station.world)?;
            station.core.cache().check().map_err(|error| Wrong::new("invariant", error.to_string()))?;
        }
        Ok(())
    }

    /// The verbs of a step, and its close.
    fn decide(&mut self, rank: usize, inputs: &[What], stops: bool) -> Result<(), Wrong> {
        self.effects(rank)?;
        let (scenario, station) = (self.scenario, &mut self.stations[rank]);
        let step = station.step;
        if !stops {
            let (scheduler, mut hands) = station.scheduler(scenario, rank);
            scheduler.step(step, inputs, &mut hands)?;
        }
        if self.scenario.trace && rank == 0 {
            let calls = station.tape.calls[station.told..].iter();
            self.trace.extend(calls.map(|call| format!("step {step}: {call}")));
        }
        let free = station.world.device.available();
        // Every other step, what the batch has still to take was promised to it.
        let promised = if step.is_multiple_of(2) { station.scheduler.to_come(&self.scenario.requests) } else { 0 };
        let room = DeviceRoom { free, promised };
        let before = station.core.cache().sizes().device.evictable;
        station.core.close_step(&mut station.board, room).map_err(refused("close_step"))?;
        let evictable = station.core.cache().sizes().device.evictable;
        let keeps = free + evictable >= promised || evictable == before;
        ensure(keeps, "promise", || {
            format!("{promised} tokens were promised, {free} are free and {evictable} evictable")
        })?;
        station.tape.note(Verb::CloseStep { device_free: free, promised }, [0; 4]);
        let decided = self.history.decide(rank, step, &station.tape.calls);
        self.compared(step, decided)?;
        self.tell(rank)?;
        if rank == 0
            && let Some(reference) = &mut self.reference
        {
            reference.issued(self.stations[0].core.cache())?;
        }
        self.effects(rank)?;
        if stops {
            self.stations[rank].phase = Phase::Stopped;
            return self.leave(rank);
        }
        if self.stations[rank].scheduler.running.is_empty() {
            self.leave(rank)?;
            let delay = if rank == 0 { self.idle_delay(0) } else { NEXT_STEP_US };
            self.wake(rank, delay);
            return Ok(());
        }
        self.stations[rank].phase = Phase::Blocked;
        self.try_compute(rank)
    }

    /// The reference model hears what the first rank's scheduler has asked since the last time.
    fn tell(&mut self, rank: usize) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        if let Some(reference) = self.reference.as_mut().filter(|_| rank == 0) {
            station.tape.calls[station.told..].iter().try_for_each(|call| reference.call(call))?;
        }
        station.told = station.tape.calls.len();
        Ok(())
    }

    /// The end of a step: it goes into the history.
    fn leave(&mut self, rank: usize) -> Result<(), Wrong> {
        self.tell(rank)?;
        let station = &mut self.stations[rank];
        station.told = 0;
        let cache = station.core.cache();
        if let Some(reference) = self.reference.as_ref().filter(|_| rank == 0) {
            if station.tape.calls.len() > 1 || station.step.is_multiple_of(CHECK_STEPS) {
                reference.compare(cache)?;
            }
            self.modelled += 1;
        }
        let dump = Dump::of(cache, station.world.device.available());
        let (step, calls) = (station.step, &mut station.tape.calls);
        let left = self.history.leave(rank, step, calls, dump);
        self.compared(step, left)?;
        if rank == 0 {
            self.rest();
        }
        Ok(())
    }

    // ---- forward pass

    /// Begins the forward pass once the rank's own load-backs are done, the stage above has sent its activations, and all peers
    /// are as far.
    pub(super) fn try_compute(&mut self, rank: usize) -> Result<(), Wrong> {
        let stage = self.scenario.topology.stage(rank);
        let station = &mut self.stations[rank];
        let halted = !station.alive.scheduler || station.doomed || station.phase != Phase::Blocked;
        if halted || station.world.engine.is_loading() || (stage > 0 && station.activated < station.step) {
            return Ok(());
        }
        station.phase = Phase::Ready;
        let (step, above) = (station.step, station.above.take());
        let own = self.header(rank)?;
        if let Some(above) = above.filter(|above| above.step() == step) {
            check_batch(&own, &above)?;
        }
        let peers = self.scenario.topology.peers(stage);
        let (ready, first) = self.barriers.entry((stage, step)).or_insert_with(|| (0, Rc::clone(&own)));
        check_batch(&own, first)?;
        *ready += 1;
        if *ready < peers.len() {
            return Ok(());
        }
        self.barriers.remove(&(stage, step));
        let skew = peers.clone().filter_map(|rank| self.faults.size(FaultKind::SkewedStage, rank)).max().unwrap_or(1);
        let forward = self.about(self.scenario.timings.forward, Purpose::Forward, [stage as u64, step, 0]) * skew;
        for rank in peers {
            self.compute(rank)?;
            self.stations[rank].phase = Phase::Forward;
            self.queue.after(forward, Event::Computed { rank });
        }
        Ok(())
    }

    /// What a forward pass reads and writes.
    fn compute(&mut self, rank: usize) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        for running in &station.scheduler.running {
            let (of, device) = (self.scenario.request(running.request), &mut station.world.device);
            let slots = running.slots.iter().zip(&of.tags);
            let (computed, wanted) = (running.computed, running.wanted);
            for (place, (slot, tag)) in slots.clone().take(computed).enumerate() {
                let what = || format!("the forward pass of request {} at token {place} of {computed}", running.request);
                device.expect(*slot, *tag, what)?;
            }
            slots.take(wanted).skip(computed).try_for_each(|(slot, tag)| device.write(*slot, *tag))?;
        }
        Ok(())
    }

    pub(super) fn computed(&mut self, rank: usize) -> Result<(), Wrong> {
        if !self.stations[rank].alive.scheduler {
            return Ok(());
        }
        let (early, header) = (self.early_aborts(rank), self.header(rank)?);
        let (scenario, station) = (self.scenario, &mut self.stations[rank]);
        let step = station.step;
        let (scheduler, mut hands) = station.scheduler(scenario, rank);
        early.into_iter().try_for_each(|input| scheduler.take(input, &mut hands))?;
        scheduler.finish(step, &mut hands)?;
        if self.scenario.trace && rank == 0 {
            let calls = station.tape.calls[station.told..].iter();
            self.trace.extend(calls.map(|call| format!("step {step}, computed: {call}")));
        }
        station.phase = Phase::Free;
        let below = rank + scenario.topology.lanes();
        if below < self.stations.len() {
            let delay = self.hop_delay(rank, below, step);
            self.queue.after(delay, Event::Activate { rank: below, step, header });
        }
        self.leave(rank)?;
        self.wake(rank, NEXT_STEP_US);
        Ok(())
    }

    pub(super) fn activate(&mut self, rank: usize, step: u64, header: Rc<BatchHeader>) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        if step > station.activated {
            (station.activated, station.above) = (step, Some(header));
        }
        self.try_compute(rank)
    }

    // ---- frames

    /// A message leaves on every edge; on one edge messages keep their order.
    fn send(&mut self, from: usize, message: &Message) {
        let now = self.queue.now();
        for to in self.stations[from].receivers.clone() {
            let pieces = self.faults.size(FaultKind::PartialMessages, to).unwrap_or(1);
            let due = now + self.hop_delay(from, to, self.stations[from].step);
            let first = due.max(self.stations[to].arrival);
            for piece in 1..pieces {
                let frame = Rc::clone(&message.frame);
                let bytes = frame.len() * at(piece) / at(pieces);
                self.queue.after(first + piece * PIECE_US - now, Event::Piece { to, frame, bytes });
            }
            let arrival = first + pieces * PIECE_US;
            self.stations[to].arrival = arrival;
            self.queue.after(arrival - now, Event::Deliver { to, message: message.clone() });
        }
    }

    /// A receiver has taken a message: after a while the sender knows.
    fn taken_by(&mut self, receiver: usize) {
        if let Some((rank, edge)) = Topology::source(receiver) {
            let edge = u32::try_from(edge).unwrap_or(u32::MAX);
            let step = self.stations[receiver].step;
            let delay = self.about(self.scenario.timings.hop / 4, Purpose::Reap, [receiver as u64, step, 0]);
            self.queue.after(delay, Event::Reap { rank, edge });
        }
    }

    pub(super) fn reap(&mut self, rank: usize, edge: u32) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        let ahead = station.core.run_ahead().filter(|_| rank == 0);
        let reaped = match ahead {
            Some(ahead) => ahead.delivered(edge, 1),
            None => station.ahead.delivered(edge, 1),
        };
        reaped.map_err(|error| Wrong::new("frame", error.to_string()))?;
        self.wake(rank, NEXT_STEP_US);
        Ok(())
    }

    /// How long a message takes on the link between two ranks.
    fn hop_delay(&self, from: usize, to: usize, step: u64) -> Micros {
        let slow = self.faults.size(FaultKind::SlowMessages, to).unwrap_or(0);
        let most = self.faults.size(FaultKind::JitteryLinks, to).unwrap_or(0);
        let jitter = rng::below(roll(self.scenario.seed, Purpose::Jitter, [from as u64, to as u64, step]), most + 1);
        self.about(self.scenario.timings.hop, Purpose::Hop, [to as u64, step, 0]) + slow + jitter
    }

    /// How long the leader's idle loop waits before it turns again.
    fn idle_delay(&self, rank: usize) -> Micros {
        let odd = self.faults.size(FaultKind::OddIdleLoop, rank);
        odd.unwrap_or_else(|| self.about(self.scenario.timings.idle, Purpose::Poll, [0, self.stations[rank].step, 1]))
    }

    /// How long a follower takes to see a message.
    pub(super) fn poll_delay(&self, rank: usize) -> Micros {
        let odd = self.faults.size(FaultKind::OddIdleLoop, rank);
        odd.unwrap_or_else(|| self.about(200, Purpose::Poll, [rank as u64, self.stations[rank].step, 0]))
    }
}
