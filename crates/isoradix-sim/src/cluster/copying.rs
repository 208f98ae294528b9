//! Copy engines and storage: what the cores ask for, and what they are told.

use super::step::refused;
use super::{Cluster, Event};
use crate::fault::FaultKind;
use crate::queue::Micros;
use crate::rng::{self, Purpose, roll};
use crate::violation::Wrong;
use crate::world::{Ended, Job, at};
use isoradix_core::operation::Kind;
use isoradix_core::protocol::{Posted, ProtocolError};
use isoradix_core::{Effect, Ordinal, PerRank, Transfer};

fn posted(result: Result<Posted, ProtocolError>) -> Result<(), Wrong> {
    ended(result.map(|_| ()))
}

fn ended(result: Result<(), ProtocolError>) -> Result<(), Wrong> {
    result.map_err(|error| Wrong::new("post", error.to_string()))
}

fn of_storage(kind: Kind) -> bool {
    matches!(kind, Kind::Prefetch | Kind::Store)
}

impl Cluster<'_> {
    /// Does what a rank's core asks for.
    pub(super) fn effects(&mut self, rank: usize) -> Result<(), Wrong> {
        for effect in self.stations[rank].core.take_effects() {
            match effect {
                Effect::Query { operation, run } => {
                    self.stations[rank].questions.insert(operation, run);
                    let delay = self.about(self.scenario.timings.query, Purpose::Query, [rank as u64, operation.0, 0]);
                    let delay = delay * self.faults.size(FaultKind::SlowStorage, rank).unwrap_or(1);
                    let delay = delay + self.storage_hangs(rank);
                    self.queue.after(delay, Event::Answer { rank, operation });
                }
                Effect::Start(transfer) => self.start(rank, transfer)?,
                Effect::Cancel { operation } => self.cancel(rank, operation)?,
                Effect::Open { operation } => {
                    let delay = self.about(self.scenario.timings.query, Purpose::Open, [rank as u64, operation.0, 0]);
                    let delay = delay + self.storage_hangs(rank);
                    self.stations[rank].opening = Some(operation);
                    self.queue.after(delay, Event::Opened { rank, operation });
                }
                Effect::Attached | Effect::Refused | Effect::Detached => self.stations[rank].opening = None,
                Effect::FreeSlots(slots) => self.stations[rank].world.device.free(&slots)?,
            }
        }
        Ok(())
    }

    /// A copy joins its queue.
    fn start(&mut self, rank: usize, transfer: Transfer) -> Result<(), Wrong> {
        let (kind, operation) = (transfer.kind, transfer.operation);
        if kind == Kind::Prefetch {
            self.check_found(rank, &transfer)?;
        }
        let world = &mut self.stations[rank].world;
        if matches!(kind, Kind::Backup | Kind::Prefetch) {
            world.host.claim(&transfer.pages, operation)?;
        }
        let mut job = Job::new(transfer, self.scenario.page as usize);
        let of = [rank as u64, operation.0, 0];
        let fails = if kind == Kind::LoadBack { FaultKind::FailingLoads } else { FaultKind::FailingCopies };
        let ambient = if kind == Kind::LoadBack { 0 } else { self.scenario.ambient.copies };
        let permille = self.faults.size(fails, rank).unwrap_or(ambient);
        if permille > 0 {
            let word = roll(self.scenario.seed, Purpose::CopyFails, of);
            let page = rng::below(rng::mix(word, 1), job.pages() as u64 + 1);
            job.fails_at = (rng::below(word, 1000) < permille).then_some(at(page).min(job.pages().saturating_sub(1)));
        }
        let loss = self.faults.size(FaultKind::StorageDiffers, rank).unwrap_or(0);
        job.loses = (loss, rng::mix(self.scenario.seed, rank as u64));
        job.unreadable = self.faults.size(FaultKind::UnreadablePages, rank).unwrap_or(0);
        if of_storage(kind) {
            job.orphans = self.orphans();
            job.fails_at = if self.store_is_down() { Some(0) } else { job.fails_at };
        }
        if self.stations[rank].world.engine.push(job) {
            self.first_turn(rank, kind);
        }
        Ok(())
    }

    /// The first page of the copy at the head of a queue, unless it hangs.
    fn first_turn(&mut self, rank: usize, kind: Kind) {
        let now = self.queue.now();
        let hangs = self.faults.ends(FaultKind::HungOperation, rank, kind.fifo() as u64);
        let Some(job) = self.stations[rank].world.engine.head(kind) else { return };
        let operation = job.transfer.operation;
        let delay = hangs.map_or(0, |until| until.saturating_sub(now));
        let delay = delay.max(if of_storage(kind) { self.storage_hangs(rank) } else { 0 });
        self.queue.after(delay, Event::Turn { rank, kind, operation });
    }

    /// A turn of a copy is over: what it has done is posted, and its next turn begins or that of the copy behind it.
    pub(super) fn turn(&mut self, rank: usize, kind: Kind, operation: Ordinal) -> Result<(), Wrong> {
        let now = self.queue.now();
        let station = &mut self.stations[rank];
        let world = &mut station.world;
        let turned = world.engine.turn(kind, now, (&mut world.device, &mut world.host, &mut world.storage))?;
        let Some(job) = world.engine.head(kind) else { return Ok(()) };
        let (done, leaving) = (job.done, job.leaves.is_some());
        // Which subjects of a backup are committed is not known here; the first page belongs to the first of them.
        let pages = if kind == Kind::Backup { done.min(1) } else { done };
        // Whether a copy says how far it is, is its engine's own affair; a prefetch that does not brings nothing.
        let word = roll(self.scenario.seed, Purpose::Progress, [rank as u64, operation.0, 0]);
        let says = !word.is_multiple_of(if kind == Kind::Prefetch { 24 } else { 8 });
        if says && !leaving {
            let tokens = PerRank::observe(pages as u64 * u64::from(self.scenario.page));
            posted(station.board.post_progress(operation, tokens))?;
        }
        match turned {
            Ended::Not => {
                let page = self.page_delay(rank, kind, operation, done);
                self.queue.after(page, Event::Turn { rank, kind, operation });
                return Ok(());
            }
            Ended::Well => ended(station.board.ended(operation, PerRank::observe(true)))?,
            Ended::Badly if self.scenario.defect.is_some_and(|defect| defect.skips_ack(rank)) => {}
            Ended::Badly => ended(station.board.ended(operation, PerRank::observe(false)))?,
            Ended::Left => ended(station.board.finish(operation))?,
        }
        station.world.engine.pop(kind);
        station.doomed |= kind == Kind::LoadBack && turned == Ended::Badly;
        self.copy_ended(rank, operation, turned);
        self.first_turn(rank, kind);
        if kind == Kind::LoadBack { self.try_compute(rank) } else { Ok(()) }
    }

    /// For planted mistakes: a copy is off its pages.
    fn copy_ended(&mut self, rank: usize, operation: Ordinal, how: Ended) {
        let station = &mut self.stations[rank];
        if let Some(defect) = self.scenario.defect {
            defect.copy_ended(rank, operation, &mut station.core);
            if how == Ended::Badly {
                defect.storage_failed(rank, operation, &mut station.core);
            }
            station.waits_forever |= how != Ended::Well && defect.waits_forever(rank);
        }
    }

    /// For how long the rank's storage says nothing yet.
    fn storage_hangs(&self, rank: usize) -> Micros {
        self.faults.ends(FaultKind::HungStorage, rank, 0).map_or(0, |until| until.saturating_sub(self.queue.now()))
    }

    /// The rank has opened its storage, or could not; what is not wanted any more is closed without a word.
    pub(super) fn opened(&mut self, rank: usize, operation: Ordinal) -> Result<(), Wrong> {
        let fails = self.faults.size(FaultKind::UnopenedStorage, rank).unwrap_or(0);
        let word = roll(self.scenario.seed, Purpose::Open, [rank as u64, operation.0, 1]);
        let station = &mut self.stations[rank];
        if station.opening != Some(operation) {
            return Ok(());
        }
        station.opening = None;
        station.world.engine.fail(operation);
        ended(station.board.ended(operation, PerRank::observe(rng::below(word, 1000) >= fails)))
    }

    fn page_delay(&self, rank: usize, kind: Kind, operation: Ordinal, page: usize) -> Micros {
        let stored = of_storage(kind);
        let slow = self.faults.size(FaultKind::SlowCopies, rank).unwrap_or(1);
        let slow = slow * self.faults.size(FaultKind::SlowStorage, rank).filter(|_| stored).unwrap_or(1);
        let of = [rank as u64, operation.0, page as u64];
        self.about(self.scenario.timings.page[kind.fifo()], Purpose::CopyPage, of) * slow
    }

    fn cancel(&mut self, rank: usize, operation: Ordinal) -> Result<(), Wrong> {
        let late = self.faults.size(FaultKind::LateDrains, rank).unwrap_or(0);
        let leaves = self.queue.now() + late;
        let station = &mut self.stations[rank];
        station.questions.remove(&operation);
        station.opening = station.opening.filter(|opening| *opening != operation);
        if station.world.engine.cancel(operation, leaves) != Some(true) {
            return Ok(());
        }
        ended(station.board.finish(operation))?;
        self.copy_ended(rank, operation, Ended::Left);
        Ok(())
    }

    /// Storage answers how much it has; an answer that nobody waits for any more is dropped.
    pub(super) fn answer(&mut self, rank: usize, operation: Ordinal) -> Result<(), Wrong> {
        let fails = self.faults.size(FaultKind::StorageErrors, rank).unwrap_or(self.scenario.ambient.queries);
        let fails = if self.store_is_down() { 1000 } else { fails };
        let short = self.faults.size(FaultKind::ShortHits, rank).unwrap_or(1000);
        let word = roll(self.scenario.seed, Purpose::Query, [rank as u64, operation.0, 1]);
        let station = &mut self.stations[rank];
        let question = station.questions.remove(&operation);
        let page = u64::from(self.scenario.page);
        let run = |run| station.world.storage.run(run, self.scenario.page as usize) / page * short / 1000 * page;
        let failed = rng::below(word, 1000) < fails;
        let tokens = if failed { 0 } else { question.as_ref().map_or(0, run) };
        let Some(question) = question else { return Ok(()) };
        if failed {
            station.world.engine.fail(operation);
            if let Some(defect) = self.scenario.defect {
                defect.storage_failed(rank, operation, &mut station.core);
            }
            return ended(station.board.ended(operation, PerRank::observe(false)));
        }
        let found = if self.scenario.trailing.is_some() {
            let here = self.presence(rank, operation, &question, tokens);
            let station = &mut self.stations[rank];
            station.core.found_presence(&mut station.board, operation, &here)
        } else {
            station.core.found(&mut station.board, operation, PerRank::observe(tokens))
        };
        found.map_err(refused("found"))?;
        self.effects(rank)
    }
}
