//! How a run comes to its end, and what must be true then.

use super::Cluster;
use super::station::{Phase, Station, VoteEnd};
use crate::check::check_memory;
use crate::outcome::End;
use crate::queue::Micros;
use crate::violation::{Violation, Wrong, ensure};
use crate::world::at;

/// Once requests have dried up and faults are over, everything has come to rest after so long.
const QUIET_US_MAX: Micros = 20_000_000;

/// A step of the leader, stalls included, takes no longer than this on average.
const STEP_US_MAX: Micros = 2_000_000;

/// Where no step comes to an end for a while, the run may take so much longer.
const STALL_US_MAX: Micros = 60_000_000;

impl Cluster<'_> {
    /// Every run comes to its end in bounded virtual time.
    pub(super) fn check_liveness(&self) -> Result<(), Wrong> {
        let now = self.queue.now();
        if let Some(since) = self.leading.dry_since {
            return if now <= since + QUIET_US_MAX { Ok(()) } else { Err(self.restless()) };
        }
        let limit = STALL_US_MAX + self.stations[0].step * STEP_US_MAX;
        if now <= limit { Ok(()) } else { Err(self.restless()) }
    }

    /// The run does not come to rest; the rank is named that all others wait for, if it is one.
    fn restless(&self) -> Wrong {
        Wrong { rank: self.behind(), ..Wrong::new("liveness", self.unrest()) }
    }

    /// The one rank that has finished fewer copies than all others.
    fn behind(&self) -> Option<usize> {
        let finished = |station: &Station| station.finished.iter().copied().min().unwrap_or_default();
        let least = self.stations.iter().map(finished).min()?;
        let mut behind = (0..self.stations.len()).filter(|rank| finished(&self.stations[*rank]) == least);
        behind.next().filter(|_| behind.next().is_none())
    }

    /// What still goes on.
    fn unrest(&self) -> String {
        let station = &self.stations[0];
        let operations = station.core.cache().operations();
        let open: Vec<String> = operations
            .iter()
            .filter(|operation| !operation.state().is_terminal())
            .map(|operation| {
                format!("{} {} {}", operation.kind().as_str(), operation.ordinal(), operation.state().as_str())
            })
            .collect();
        let steps: Vec<String> =
            self.stations.iter().map(|station| format!("{} {:?}", station.step, station.phase)).collect();
        let requests = station.scheduler.open();
        format!(
            "the run does not come to rest: open requests {requests:?}, open operations {open:?}, {} issued, {} retired \
             everywhere; ranks are at steps {steps:?}",
            operations.issued(),
            operations.base()
        )
    }

    /// A vote thread has come to its end: once all that live have, the run is over.
    pub(super) fn vote_ends(&mut self, rank: usize, end: VoteEnd) {
        self.stations[rank].vote_end.get_or_insert(end);
        let living: Vec<&Station> = self.stations.iter().filter(|station| station.alive.votes).collect();
        if living.iter().any(|station| station.vote_end.is_none()) {
            return;
        }
        let left = living.iter().all(|station| station.vote_end == Some(VoteEnd::Left));
        let died = self.stations.iter().any(|station| !station.alive.scheduler || !station.alive.votes);
        self.end = Some(match left {
            // A rank whose batch is another one waits for peers that never come, and they for it.
            false if self.lie.is_told() && !died => End::Detected,
            false => End::Crashed,
            true if self.leading.quiet_stop() => End::Clean,
            true => End::Stopped,
        });
    }

    /// What must be true at the end of a run.
    pub(super) fn check_end(&mut self, end: End) -> Result<End, Violation> {
        for rank in 0..self.stations.len() {
            let checked = self.check_rank(rank, end);
            checked.map_err(|wrong| self.at(Some(rank), wrong))?;
        }
        let together = match end {
            End::Crashed => self.check_crash(),
            End::Fatal | End::Detected => Ok(()),
            End::Clean | End::Stopped => self.check_conservation().and_then(|()| self.check_no_lie()),
        };
        together.map(|()| end).map_err(|wrong| self.at(None, wrong))
    }

    fn check_rank(&mut self, rank: usize, end: End) -> Result<(), Wrong> {
        let station = &mut self.stations[rank];
        // What a failed load-back was to bring is not there, and nobody computes with it.
        if !station.doomed {
            check_memory(station.core.cache(), &station.world)?;
        }
        station.core.cache().check().map_err(|error| Wrong::new("invariant", error.to_string()))?;
        if end != End::Clean {
            return Ok(());
        }
        let cache = station.core.cache();
        cache.host().leaks().map_err(|error| Wrong::new("leak", error.to_string()))?;
        let operations = cache.operations();
        ensure(operations.retired() == operations.issued(), "leak", || {
            format!("{} operations are issued, {} ended", operations.issued(), operations.retired())
        })?;
        let sizes = cache.sizes().device;
        ensure(sizes.protected == 0 && sizes.pinned == 0, "leak", || {
            format!(
                "{} tokens are locked or pinned, {} of them pinned; every request has ended",
                sizes.protected, sizes.pinned
            )
        })?;
        drained(station)
    }

    /// As many frames applied as sent, as many votes on each rank, and no message left.
    fn check_conservation(&self) -> Result<(), Wrong> {
        ensure(!self.plane.is_open(), "conservation", || "a vote is open, and everyone has left".to_owned())?;
        let (frames, votes) = (self.stations[0].steps, self.plane.votes());
        for (rank, station) in self.stations.iter().enumerate() {
            ensure(station.steps == frames, "conservation", || {
                format!("{frames} frames were sent, rank {rank} has applied {}", station.steps)
            })?;
            ensure(station.votes.vote() == votes, "conservation", || {
                format!("{votes} votes were held, rank {rank} has completed {}", station.votes.vote())
            })?;
            ensure(station.mailbox.is_empty() && station.phase == Phase::Stopped, "conservation", || {
                format!("rank {rank} has {} messages left, its scheduler is {:?}", station.mailbox.len(), station.phase)
            })?;
        }
        Ok(())
    }

    /// A crash is noticed for what it is.
    fn check_crash(&self) -> Result<(), Wrong> {
        let died = |station: &Station| !station.alive.scheduler || !station.alive.votes || station.doomed;
        let expected = self.stations.iter().any(died);
        if !expected {
            let named = |station: &Station| match station.vote_end {
                Some(VoteEnd::Stalled(stalled)) => stalled.rank.map(at),
                _ => None,
            };
            let rank = self.stations.iter().find_map(named);
            let what = format!("a wait is fatal, and no rank has died: {}", self.unrest());
            return Err(Wrong { rank, ..Wrong::new("liveness", what) });
        }
        for (rank, station) in self.stations.iter().enumerate() {
            if let (false, Some(VoteEnd::Stalled(stalled))) = (station.alive.scheduler, station.vote_end) {
                let named = stalled.rank == u32::try_from(rank).ok();
                ensure(named, "crash", || {
                    format!("the scheduler of rank {rank} is dead, and its vote thread says nothing")
                })?;
            }
        }
        Ok(())
    }
}

/// Once everything is evicted, nothing is left anywhere.
fn drained(station: &mut Station) -> Result<(), Wrong> {
    let mut slots = Vec::new();
    let cache = station.core.cache_mut();
    cache.evict(u64::MAX, &mut slots).map_err(|error| Wrong::new("leak", error.to_string()))?;
    station.world.device.free(&slots)?;
    let cache = station.core.cache_mut();
    cache.evict_host(u32::MAX);
    let (sizes, occupied) = (cache.sizes(), cache.host().ledger().occupied());
    let (free, total) = (station.world.device.available(), station.world.device.total());
    ensure(free == total, "leak", || format!("{free} of {total} device tokens are free, and everything is evicted"))?;
    ensure(sizes.device.total == 0 && sizes.host_total == 0 && occupied == 0, "leak", || {
        format!(
            "everything is evicted: {} tokens are on the device, {} on host, {occupied} host pages occupied",
            sizes.device.total, sizes.host_total
        )
    })?;
    cache.check().map_err(|error| Wrong::new("invariant", error.to_string()))
}
