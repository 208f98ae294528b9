//! Vote threads: fill, reduce over the group, complete, and again.

use super::station::{FATAL_MS, REPORT_MS, VoteEnd};
use super::{Cluster, Event};
use crate::fault::FaultKind;
use crate::queue::Micros;
use crate::rng::Purpose;
use crate::violation::{Wrong, ensure};
use isoradix_core::protocol::words::{FINISHED, VOTE};
use isoradix_core::protocol::{FIFOS, Pace, Patience, Wait, Waiting};
use std::rc::Rc;

impl Cluster<'_> {
    pub(super) fn fill(&mut self, rank: usize) -> Result<(), Wrong> {
        let (now_ms, votes) = (self.clock_ms(rank), self.plane.votes());
        let station = &mut self.stations[rank];
        if !station.alive.votes {
            return Ok(());
        }
        let (own, mut ballot) = (station.votes.vote(), vec![0; station.votes.words()]);
        let filled = station.votes.fill(&mut station.board, &mut ballot);
        filled.map_err(|error| Wrong::new("vote", error.to_string()))?;
        let idle = station.scheduler.running.is_empty();
        station.skipped += i64::from(self.scenario.defect.is_some_and(|defect| defect.skips_vote(rank, idle)));
        // A vote that it counted and took no part in: from there on it is one ahead of all others.
        ballot[VOTE] += station.skipped;
        ballot[VOTE + 1] = !ballot[VOTE];
        station.finished.copy_from_slice(&ballot[FINISHED..FINISHED + FIFOS]);
        let meets = ballot[VOTE].cast_unsigned();
        ensure(meets == votes, "conservation", || format!("its vote {meets} meets vote {votes} of the others"))?;
        let patience = Patience::new(REPORT_MS, FATAL_MS, FATAL_MS);
        station.waiting = patience.ok().map(|patience| Waiting::begin(patience, now_ms));
        if !std::mem::replace(&mut station.watched, true) {
            self.queue.after(REPORT_MS * 1000, Event::Watch { rank });
        }
        let Some(vector) = self.plane.fill(&ballot) else { return Ok(()) };
        for rank in 0..self.stations.len() {
            let delay = self.about(self.scenario.timings.vote, Purpose::VoteLatency, [rank as u64, own, 0]);
            self.queue.after(delay, Event::Voted { rank, vector: Rc::clone(&vector) });
        }
        Ok(())
    }

    pub(super) fn voted(&mut self, rank: usize, vector: &Rc<[i64]>) -> Result<(), Wrong> {
        let now_ms = self.clock_ms(rank);
        let station = &mut self.stations[rank];
        if !station.alive.votes {
            return Ok(());
        }
        let reduced = station
            .votes
            .complete(&mut station.board, vector)
            .map_err(|error| Wrong::new("vote", error.to_string()))?;
        station.waiting = None;
        let stalled = station.stall.look(&station.votes, now_ms);
        if matches!(stalled.wait, Wait::Fatal { .. }) {
            self.vote_ends(rank, VoteEnd::Stalled(stalled));
        }
        if rank == 0 {
            self.newest = Some((reduced, Rc::clone(vector)));
        }
        self.next_vote(rank);
        Ok(())
    }

    fn next_vote(&mut self, rank: usize) {
        let vote = self.stations[rank].votes.vote();
        match self.stations[rank].votes.pace() {
            Pace::After { ms } => {
                let slow = self.faults.size(FaultKind::SlowVotes, rank).unwrap_or(0);
                let pause = Micros::from(ms) * 1000 + slow;
                let jitter = self.about(300, Purpose::VotePause, [rank as u64, vote, 0]);
                self.queue.after(pause + jitter, Event::Fill { rank });
            }
            Pace::Leave => self.vote_ends(rank, VoteEnd::Left),
        }
    }

    /// A vote thread looks whether its wait for the others has lasted too long.
    pub(super) fn watch(&mut self, rank: usize) {
        let now_ms = self.clock_ms(rank);
        let station = &mut self.stations[rank];
        station.watched = false;
        let Some(waiting) = station.waiting.as_mut().filter(|_| station.alive.votes) else { return };
        match waiting.look(now_ms, false) {
            Wait::Fatal { .. } => self.vote_ends(rank, VoteEnd::Lost),
            Wait::Quiet | Wait::Report { .. } => {
                station.watched = true;
                self.queue.after(REPORT_MS * 1000, Event::Watch { rank });
            }
        }
    }
}
