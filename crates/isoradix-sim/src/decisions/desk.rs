//! The scheduler of a rank: equal messages, equal steps. Only its queues know anything of the rank's own.

use super::deeds::{Chunk, Deeds, Ended};
use super::fate::About;
use super::message::Message;
use super::phase::{Group, Phase};
use super::plan::Plan;
use crate::violation::{Wrong, ensure};
use isoradix_core::chunking::ChunkModel;
use isoradix_core::decisions::{Decided, DecisionError, DecisionQueue, Report, Verdict};
use isoradix_core::{Ints, PerRank, SlotPool};
use std::collections::{BTreeMap, VecDeque};

/// How often a request is admitted, if it fails each time.
const EPOCHS_MAX: u32 = 3;

/// A request that is not over.
#[derive(Debug, Clone)]
struct Entry {
    epoch: u32,
    phase: Phase,
    /// Tokens of the prompt, and steps of the answer, that are computed.
    prefilled: u64,
    decoded: u64,
    slot: Vec<i64>,
    /// Groups that have asked about it.
    asked: [bool; 2],
}

/// The scheduler.
pub(super) struct Desk {
    queues: [DecisionQueue; 2],
    open: BTreeMap<u32, Entry>,
    waiting: VecDeque<u32>,
    /// In the order in which their prompts are computed.
    prefilling: VecDeque<u32>,
    prefilled: VecDeque<u32>,
    slots: SlotPool,
    model: Option<ChunkModel>,
}

impl Desk {
    pub(super) fn new(plan: &Plan, rank: u32) -> Result<Self, Wrong> {
        let queue = || DecisionQueue::new(rank, plan.window, plan.patience_ms).map_err(refused("queue"));
        let slots = SlotPool::new(plan.slots, 1, 1).map_err(|error| Wrong::new("setup", error.to_string()))?;
        Ok(Self {
            queues: [queue()?, queue()?],
            open: BTreeMap::new(),
            waiting: VecDeque::new(),
            prefilling: VecDeque::new(),
            prefilled: VecDeque::new(),
            slots,
            model: None,
        })
    }

    pub(super) fn queue(&self, group: Group) -> &DecisionQueue {
        &self.queues[group as usize]
    }

    pub(super) fn queue_mut(&mut self, group: Group) -> &mut DecisionQueue {
        &mut self.queues[group as usize]
    }

    /// Requests that are not over, and their phases.
    pub(super) fn open(&self) -> impl Iterator<Item = (u32, Phase)> {
        self.open.iter().map(|(request, entry)| (*request, entry.phase))
    }

    /// Whether this rank has the question open that a report is about.
    pub(super) fn asks(&self, about: About) -> bool {
        let entry = self.open.get(&about.request);
        entry.is_some_and(|entry| (entry.epoch, entry.phase) == (about.epoch, about.group.asks()))
    }

    /// What this rank sees of a request. Whether it counts; nothing if the request is over here.
    pub(super) fn report(&mut self, about: About, report: Report) -> Result<Option<bool>, Wrong> {
        let told = self.queue_mut(about.group).report(about.request.into(), about.epoch, PerRank::observe(report));
        match told {
            Err(DecisionError::Unknown { .. }) if !self.open.contains_key(&about.request) => Ok(None),
            told => told.map(Some).map_err(refused("report")),
        }
    }

    /// Enters a step: verdicts first, then what the leader decided, then questions and work.
    pub(super) fn enter(&mut self, plan: &Plan, message: &Message) -> Result<Deeds, Wrong> {
        let mut deeds = Deeds::default();
        for group in Group::ALL {
            let ruling = message.ruling(group)?;
            deeds.verdicts[group as usize] = self.queue_mut(group).apply(&ruling).map_err(refused("ruling"))?;
        }
        for group in Group::ALL {
            for decided in deeds.verdicts[group as usize].clone() {
                self.take(group, decided, &mut deeds)?;
            }
        }
        self.give_up(&message.aborts, &mut deeds)?;
        self.send_back(&message.retractions, &mut deeds)?;
        for request in &message.arrivals {
            let entry =
                Entry { epoch: 1, phase: Phase::Waiting, prefilled: 0, decoded: 0, slot: vec![], asked: [false; 2] };
            self.open.insert(*request, entry);
            self.waiting.push_back(*request);
        }
        self.ask_prefill(plan, &mut deeds)?;
        self.prefill(plan, &mut deeds);
        self.ask_decode(plan, &mut deeds)?;
        self.decode(plan, &mut deeds)?;
        deeds.digests = Group::ALL.map(|group| self.queue(group).digest());
        deeds.free = self.slots.available();
        Ok(deeds)
    }

    /// Coefficients that this step brings: what was heard last stays where they make no model.
    pub(super) fn hear(&mut self, (a, b): (u64, u64)) {
        self.model = ChunkModel::from_bits(a, b).ok().or(self.model);
    }

    /// At the end of a run nothing is left over.
    pub(super) fn check_rest(&self) -> Result<(), Wrong> {
        for group in Group::ALL {
            let (open, remembered) = (self.queue(group).open(), self.queue(group).remembered());
            ensure((open, remembered) == (0, 0), "leak", || {
                let name = group.as_str();
                format!("{open} questions of {name} are open and {remembered} requests remembered; all are over")
            })?;
        }
        let occupied = self.slots.total() - self.slots.available();
        ensure(occupied == 0 && self.open.is_empty(), "leak", || {
            format!("{occupied} slots are occupied, and every request is over")
        })
    }

    fn entry(&mut self, request: u32) -> Result<&mut Entry, Wrong> {
        self.open.get_mut(&request).ok_or_else(|| Wrong::new("verdict", format!("request {request} is over already")))
    }

    /// A verdict, whatever this rank knows meanwhile.
    fn take(&mut self, group: Group, decided: Decided, deeds: &mut Deeds) -> Result<(), Wrong> {
        let request = u32::try_from(decided.request).unwrap_or(u32::MAX);
        let entry = self.entry(request)?;
        let asked = (entry.epoch, entry.phase) == (decided.epoch, group.asks());
        ensure(asked, "verdict", || format!("{decided:?} of {} is about no open question", group.as_str()))?;
        match (decided.verdict, group) {
            (Verdict::Ready, Group::Prefill) => {
                entry.phase = Phase::Prefilling;
                self.prefilling.push_back(request);
            }
            (Verdict::Ready, Group::Decode) => entry.phase = Phase::Decoding,
            (Verdict::Failed, _) if entry.epoch < EPOCHS_MAX => self.readmit(request)?,
            (verdict, _) => self.end(request, Ended::By(verdict), deeds)?,
        }
        Ok(())
    }

    /// Whoever had an open question has had a verdict about it; of the others, nothing is left either.
    fn give_up(&mut self, aborts: &[u32], deeds: &mut Deeds) -> Result<(), Wrong> {
        for request in aborts {
            let Some(phase) = self.open.get(request).map(|entry| entry.phase) else { continue };
            let is_open = self.is_open(*request);
            ensure(!is_open, "verdict", || format!("request {request} is given up, and its question is open still"))?;
            self.end(*request, Ended::Aborted(phase), deeds)?;
        }
        Ok(())
    }

    fn send_back(&mut self, retractions: &[u32], deeds: &mut Deeds) -> Result<(), Wrong> {
        for request in retractions {
            let Some(entry) = self.open.get(request).filter(|entry| entry.phase != Phase::Waiting) else { continue };
            let (epoch, phase) = (entry.epoch, entry.phase);
            if let Some(group) = Group::ALL.into_iter().find(|group| group.asks() == phase) {
                self.queue_mut(group).retract((*request).into()).map_err(refused("retract"))?;
                deeds.retracted.push(About { group, request: *request, epoch });
            }
            deeds.readmitted.push(*request);
            self.readmit(*request)?;
        }
        Ok(())
    }

    fn is_open(&self, request: u32) -> bool {
        self.queues.iter().any(|queue| queue.is_open(request.into()))
    }

    fn ask_prefill(&mut self, plan: &Plan, deeds: &mut Deeds) -> Result<(), Wrong> {
        for _ in 0..plan.asks_a_step {
            let Some(request) = self.waiting.front().copied().filter(|_| self.slots.available() > 0) else { break };
            if !self.ask(Group::Prefill, request, deeds)? {
                break;
            }
            self.waiting.pop_front();
            let (entry, slots) = (self.open.get_mut(&request), &mut self.slots);
            if let Some(entry) = entry {
                slots.alloc(1, &mut entry.slot).map_err(|error| Wrong::new("refused", error.to_string()))?;
            }
        }
        Ok(())
    }

    fn ask_decode(&mut self, plan: &Plan, deeds: &mut Deeds) -> Result<(), Wrong> {
        for _ in 0..plan.asks_a_step {
            let Some(request) = self.prefilled.front().copied() else { break };
            if !self.ask(Group::Decode, request, deeds)? {
                break;
            }
            self.prefilled.pop_front();
        }
        Ok(())
    }

    /// Whether there was room for the question.
    fn ask(&mut self, group: Group, request: u32, deeds: &mut Deeds) -> Result<bool, Wrong> {
        let epoch = self.entry(request)?.epoch;
        match self.queue_mut(group).ask(request.into(), epoch) {
            Err(DecisionError::Full { .. }) => return Ok(false),
            asked => asked.map_err(refused("ask"))?,
        }
        let entry = self.entry(request)?;
        entry.phase = group.asks();
        entry.asked[group as usize] = true;
        deeds.asked.push(About { group, request, epoch });
        Ok(true)
    }

    /// A chunk of each of the first prompts, as long as the agreed coefficients say.
    fn prefill(&mut self, plan: &Plan, deeds: &mut Deeds) {
        for _ in 0..plan.prefills_a_step.min(self.prefilling.len()) {
            let Some(request) = self.prefilling.pop_front() else { break };
            let Some(entry) = self.open.get_mut(&request) else { continue };
            let (history, left) = (entry.prefilled, plan.request(request).prompt - entry.prefilled);
            let fitted = self.model.as_ref().and_then(|model| plan.rule.next_chunk(model, history));
            let length = fitted.unwrap_or(plan.chunk_base).min(left);
            deeds.chunks.push(Chunk { request, history, length, fitted: fitted.is_some() });
            entry.prefilled += length;
            if entry.prefilled == plan.request(request).prompt {
                entry.phase = Phase::Prefilled;
                self.prefilled.push_back(request);
            } else {
                self.prefilling.push_back(request);
            }
        }
    }

    fn decode(&mut self, plan: &Plan, deeds: &mut Deeds) -> Result<(), Wrong> {
        let mut over = Vec::new();
        for (request, entry) in self.open.iter_mut().filter(|(_, entry)| entry.phase == Phase::Decoding) {
            entry.decoded += 1;
            over.extend((entry.decoded >= plan.request(*request).answer).then_some(*request));
        }
        over.into_iter().try_for_each(|request| self.end(request, Ended::Finished, deeds))
    }

    /// Back to the queue, in its next epoch.
    fn readmit(&mut self, request: u32) -> Result<(), Wrong> {
        self.leave(request)?;
        let entry = self.entry(request)?;
        (entry.epoch, entry.phase, entry.prefilled, entry.decoded) = (entry.epoch + 1, Phase::Waiting, 0, 0);
        self.waiting.push_back(request);
        Ok(())
    }

    fn end(&mut self, request: u32, how: Ended, deeds: &mut Deeds) -> Result<(), Wrong> {
        self.leave(request)?;
        let asked = self.entry(request)?.asked;
        for group in Group::ALL.into_iter().filter(|group| asked[*group as usize]) {
            self.queue_mut(group).forget(request.into()).map_err(refused("forget"))?;
        }
        self.open.remove(&request);
        deeds.ended.push((request, how));
        Ok(())
    }

    /// Out of every list, and off its slot.
    fn leave(&mut self, request: u32) -> Result<(), Wrong> {
        for list in [&mut self.waiting, &mut self.prefilling, &mut self.prefilled] {
            list.retain(|other| *other != request);
        }
        let slot = std::mem::take(&mut self.entry(request)?.slot);
        let freed = if slot.is_empty() { Ok(()) } else { self.slots.free(Ints::I64(&slot)) };
        freed.map_err(|error| Wrong::new("refused", error.to_string()))
    }
}

/// What the queue refuses: ranks that have parted, or a call that makes no sense.
fn refused(verb: &'static str) -> impl Fn(DecisionError) -> Wrong {
    move |error| {
        let kind = if matches!(error, DecisionError::Mismatch { .. }) { "divergence" } else { "refused" };
        Wrong::new(kind, format!("{verb}: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Family, Options};

    fn message(desk: &Desk, arrivals: Vec<u32>, aborts: Vec<u32>) -> Message {
        let requests: Vec<u64> = aborts.iter().map(|request| u64::from(*request)).collect();
        let ruling = |group| desk.queue(group).rule(1, None, &requests).to_bytes().into();
        let (rulings, step) = (Group::ALL.map(ruling), desk.queue(Group::Prefill).step() + 1);
        Message { step, rulings, coefficients: None, arrivals, aborts, retractions: vec![], last: false }
    }

    #[test]
    fn what_is_left_over_is_told_and_an_abort_leaves_nothing() {
        let options = Options { family: Family::Decisions, ..Options::default() };
        let plan = Plan::new(1, "pp2".parse().expect("a topology"), 0, &options);
        let mut desk = Desk::new(&plan, 0).expect("a desk");
        assert_eq!(desk.check_rest(), Ok(()));
        let asked = desk.enter(&plan, &message(&desk, vec![0], vec![])).expect("a step");
        assert_eq!((asked.asked.len(), plan.slots - asked.free), (1, 1));
        let left = desk.check_rest().expect_err("its question is open");
        assert!(left.what.starts_with("1 questions of prefill are open and 1 requests remembered"), "{}", left.what);
        let ended = desk.enter(&plan, &message(&desk, vec![], vec![0])).expect("a step");
        assert_eq!(ended.ended, [(0, Ended::By(Verdict::Aborted))]);
        assert_eq!(desk.check_rest(), Ok(()));
        desk.slots.alloc(1, &mut vec![]).expect("a slot");
        assert!(desk.check_rest().is_err_and(|left| left.what.starts_with("1 slots are occupied")));
    }
}
