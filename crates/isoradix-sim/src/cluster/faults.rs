//! Which faults are on, and what happens when one begins or ends.

use super::station::Station;
use super::step::refused;
use super::{Cluster, Event};
use crate::fault::{Fault, FaultKind};
use crate::request::Tag;
use crate::rng::{self, Purpose, roll};
use crate::violation::Wrong;
use crate::world::{Orphans, at};
use isoradix_core::PerRank;

/// Steps of the leader for which a fault is still to be seen after it is over: what it held up all comes then.
const WAKE_STEPS: u64 = 10;

impl Cluster<'_> {
    /// The leader enters a step: some faults begin. After the last step none does.
    pub(super) fn faults_begin(&mut self, step: u64) -> Result<(), Wrong> {
        if step >= self.scenario.steps {
            return Ok(());
        }
        for fault in self.faults.due(step) {
            let Fault { kind, rank, micros, size, .. } = self.faults.plan[fault];
            let now = self.queue.now();
            self.faults.set(fault, kind.is_temporary().then_some(now + micros));
            let station = &mut self.stations[rank];
            match kind {
                FaultKind::ShortPool => {
                    let pages = u64::from(self.scenario.host_pages[rank]) * size / 1000;
                    withdraw(station, u32::try_from(pages).unwrap_or(u32::MAX))?;
                }
                FaultKind::LostMemory => withdraw(station, u32::MAX)?,
                FaultKind::PausedRank => station.board.pause(true),
                FaultKind::SchedulerDies => station.alive.scheduler = false,
                FaultKind::RankDies => (station.alive.scheduler, station.alive.votes) = (false, false),
                FaultKind::EarlyStop => self.leading.stops = true,
                FaultKind::SkewedClock => station.clock.run(now, size),
                FaultKind::StorageLoses => {
                    let word = rng::mix(self.scenario.seed, rng::mix(rank as u64, fault as u64));
                    station.world.storage.lose(|name| rng::below(rng::mix(word, name), 1000) < size);
                }
                FaultKind::LyingCaller => self.lie.begin(rank),
                _ => {}
            }
            if kind.is_temporary() {
                self.queue.after(micros, Event::FaultEnds { fault });
            }
        }
        Ok(())
    }

    pub(super) fn fault_ends(&mut self, fault: usize) -> Result<(), Wrong> {
        let Fault { kind, rank, .. } = self.faults.plan[fault];
        self.faults.set(fault, None);
        self.faults.wakes.push((kind, self.stations[0].step + WAKE_STEPS));
        let orphaned = self.orphaned(fault);
        match kind {
            FaultKind::OwnerDies => self.all_lose(|name| orphaned.has(name)),
            FaultKind::StoreRestarts => self.all_lose(|_| true),
            _ => {}
        }
        let again = self.faults.size(kind, rank).is_some();
        let station = &mut self.stations[rank];
        match kind {
            FaultKind::ShortPool | FaultKind::LostMemory => drop(station.core.restore(PerRank::observe(u32::MAX))),
            FaultKind::PausedRank if !again => station.board.pause(false),
            FaultKind::SkewedClock if !again => station.clock.run(self.queue.now(), 1000),
            _ => {}
        }
        self.wake(rank, 0);
        self.try_compute(rank)
    }

    /// All ranks' shards of pages are gone.
    fn all_lose(&mut self, lost: impl Fn(Tag) -> bool) {
        self.stations.iter_mut().for_each(|station| station.world.storage.lose(&lost));
    }

    /// Whether the store of all ranks is down.
    pub(super) fn store_is_down(&self) -> bool {
        self.faults.largest(FaultKind::StoreRestarts).is_some()
    }

    /// The pages whose owner is dead, if one is.
    pub(super) fn orphans(&self) -> Option<Orphans> {
        self.faults.first(FaultKind::OwnerDies).map(|fault| self.orphaned(fault))
    }

    fn orphaned(&self, fault: usize) -> Orphans {
        let word = rng::mix(self.scenario.seed, fault as u64);
        Orphans { word, permille: self.faults.plan[fault].size }
    }

    /// Now and then a rank loses its free host pages for a moment, whatever the plan says.
    pub(super) fn forget_memory(&mut self, step: u64) -> Result<(), Wrong> {
        let ranks = self.stations.len() as u64;
        let word = roll(self.scenario.seed, Purpose::Memory, [step, 0, 0]);
        if rng::below(word, 1000) >= self.scenario.ambient.memory || step >= self.scenario.steps {
            return Ok(());
        }
        let rank = at(rng::below(rng::mix(word, 1), ranks));
        let delay = 2_000 + rng::below(rng::mix(word, 2), 60_000);
        self.queue.after(delay, Event::Remember { rank });
        withdraw(&mut self.stations[rank], u32::MAX)
    }

    /// A rank has its memory back, unless a fault of the plan has taken it.
    pub(super) fn remember(&mut self, rank: usize) {
        let planned = [FaultKind::ShortPool, FaultKind::LostMemory];
        if planned.into_iter().all(|kind| self.faults.size(kind, rank).is_none()) {
            drop(self.stations[rank].core.restore(PerRank::observe(u32::MAX)));
        }
    }

    /// Whether a fault keeps a rank's scheduler from beginning a step.
    pub(super) fn is_halted(&self, rank: usize) -> bool {
        let halts = [FaultKind::PausedRank, FaultKind::StalledFollower];
        halts.into_iter().any(|kind| self.faults.size(kind, rank).is_some())
    }
}

/// What a rank lost stays lost until it is restored; how much that is, only its ballots say.
fn withdraw(station: &mut Station, pages: u32) -> Result<(), Wrong> {
    let lost = station.core.withdraw(PerRank::observe(pages));
    lost.map(drop).map_err(refused("withdraw"))
}
