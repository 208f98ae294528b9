//! A scheduler thread: one step after the other.

use super::station::{Message, Phase};
use super::{Cluster, Event};
use crate::check::{Dump, check_memory};
use crate::coverage::Framed;
use crate::fault::FaultKind;
use crate::queue::Micros;
use crate::request::What;
use crate::rng::Purpose;
use crate::scheduler::Verb;
use crate::violation::{Wrong, ensure};
use isoradix_core::protocol::{Control, Frame, ProtocolError};
use isoradix_core::{DeviceRoom, PerRank, StepError};

/// What follows a step at once.
const NEXT_STEP_US: Micros = 20;

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

impl Cluster<'_> {
    /// Begins a step, if there is one to begin.
    pub(super) fn begin(&mut self, rank: usize) -> Result<(), Wrong> {
        self.stations[rank].wakes = false;
        if !self.stations[rank].is_free() || self.is_halted(rank) || self.end.is_some() {
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
        let now = PerRank::observe(self.queue.now() / 1000);
        let station = &mut self.stations[0];
        self.mirror.before(station.core.cache().operations());
        let newest = self.newest.as_ref().map(|(reduced, _)| reduced);
        let frame = station.core.lead(&mut station.board, newest, now, &controls).map_err(refused("lead"))?;
        self.follow_operations(&frame)?;
        let message = Message { frame: frame.to_bytes().into(), inputs: inputs.into() };
        self.leading.has_stopped = frame.controls().contains(&Control::Stop);
        self.send(0, &message);
        let stops = self.leading.has_stopped;
        self.decide(0, &message.inputs, stops)
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
        let station = &mut self.stations[rank];
        station.core.follow(&mut station.board, frame).map_err(refused("follow"))?;
        if !station.receivers.is_empty() {
            station.ahead.send().map_err(|pressure| Wrong::new("frame", pressure.to_string()))?;
            self.send(rank, &message);
        }
        self.decide(rank, &message.inputs, stops)
    }

    fn enter(&mut self, rank: usize, step: u64) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        station.step = step;
        station.steps += 1;
        if let Some(defect) = self.scenario.defect {
            defect.tell_time(rank, self.queue.now(), &mut station.core);
        }
        let digest = station.core.digest();
        self.history.enter(rank, step, digest).map_err(|parted| self.parted(&parted))?;
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
        left.map_err(|parted| self.parted(&parted))?;
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
        let step = station.step;
        let peers = self.scenario.topology.peers(stage);
        let ready = self.barriers.entry((stage, step)).or_default();
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
        let (scenario, station) = (self.scenario, &mut self.stations[rank]);
        let step = station.step;
        let (scheduler, mut hands) = station.scheduler(scenario, rank);
        scheduler.finish(step, &mut hands)?;
        if self.scenario.trace && rank == 0 {
            let calls = station.tape.calls[station.told..].iter();
            self.trace.extend(calls.map(|call| format!("step {step}, computed: {call}")));
        }
        station.phase = Phase::Free;
        let below = rank + scenario.topology.tp as usize;
        if below < self.stations.len() {
            self.queue.after(self.hop_delay(below, step), Event::Activate { rank: below, step });
        }
        self.leave(rank)?;
        self.wake(rank, NEXT_STEP_US);
        Ok(())
    }

    pub(super) fn activate(&mut self, rank: usize, step: u64) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        station.activated = station.activated.max(step);
        self.try_compute(rank)
    }

    // ---- frames

    /// A message leaves on every edge; on one edge messages keep their order.
    fn send(&mut self, from: usize, message: &Message) {
        let now = self.queue.now();
        for to in self.stations[from].receivers.clone() {
            let due = now + self.hop_delay(to, self.stations[from].step);
            let arrival = due.max(self.stations[to].arrival);
            self.stations[to].arrival = arrival;
            self.queue.after(arrival - now, Event::Deliver { to, message: message.clone() });
        }
    }

    /// A receiver has taken a message: after a while the sender knows.
    fn taken_by(&mut self, receiver: usize) {
        let sender = (0..self.stations.len()).find_map(|rank| {
            let edge = self.stations[rank].receivers.iter().position(|to| *to == receiver)?;
            Some((rank, u32::try_from(edge).unwrap_or(u32::MAX)))
        });
        if let Some((rank, edge)) = sender {
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

    fn hop_delay(&self, to: usize, step: u64) -> Micros {
        let slow = self.faults.size(FaultKind::SlowMessages, to).unwrap_or(0);
        self.about(self.scenario.timings.hop, Purpose::Hop, [to as u64, step, 0]) + slow
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
