//! A scheduler: the same code on every rank, driven by the request stream and by what its own cache answers.
//!
//! Nothing in here sees time, a copy, or a number that is this rank's alone. That is what makes it a fair user of the cache: if
//! two ranks part, one of them was told something else.

mod admit;
mod hands;
mod tape;

pub(crate) use hands::{Hands, Hold};
pub(crate) use tape::{Call, Tape, Verb};

use crate::request::{Request, What};
use crate::violation::{Wrong, ensure};
use isoradix_core::{LockReceipt, NodeHandle, Ordinal, PinReceipt, PrefetchState, PrefetchTicket, Resume, TieredCache};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A request in the batch.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) request: u32,
    /// One a token, and the rest of the last page.
    pub(crate) slots: Vec<i64>,
    /// Leading tokens whose slots are the cache's: the depth of `node`.
    cached: usize,
    node: NodeHandle,
    lock: Hold<LockReceipt>,
    /// Leading tokens that have been computed.
    pub(crate) computed: usize,
    /// Leading tokens that will have been after this step's forward pass.
    pub(crate) wanted: usize,
}

/// The scheduler of one rank.
#[derive(Debug, Default)]
pub(crate) struct Scheduler {
    waiting: VecDeque<u32>,
    pub(crate) running: Vec<Running>,
    /// Requests that wait for their prefetch.
    pub(crate) prefetching: BTreeMap<u32, PrefetchTicket>,
    /// Requests that had their prefetch, if they could have one.
    prefetched: BTreeSet<u32>,
    /// Requests that have ended.
    ended: BTreeSet<u32>,
    arrived: u64,
    pins: Vec<(u64, Hold<PinReceipt>)>,
}

impl Scheduler {
    /// Whether everything that arrived has ended and nothing is held.
    pub(crate) fn is_quiet(&self) -> bool {
        self.ended.len() as u64 == self.arrived && self.pins.is_empty()
    }

    /// Requests that have arrived and not ended.
    pub(crate) fn open(&self) -> Vec<u32> {
        let running = self.running.iter().map(|running| running.request);
        let mut open: Vec<u32> = running.chain(self.waiting.iter().copied()).collect();
        open.extend(self.prefetching.keys());
        open.sort_unstable();
        open
    }

    /// Tokens that the batch has still to compute after this step.
    pub(crate) fn to_come(&self, requests: &[Request]) -> u64 {
        let left = |running: &Running| requests[running.request as usize].tokens.len() - running.wanted;
        self.running.iter().map(left).sum::<usize>() as u64
    }

    /// The prefetches that are issued and still move.
    pub(crate) fn live_prefetches(&self, cache: &TieredCache) -> Vec<(u32, Ordinal)> {
        let live = |(request, ticket): (&u32, &PrefetchTicket)| Some((*request, cache.prefetch_ordinal(*ticket)?));
        self.prefetching.iter().filter_map(live).collect()
    }

    /// Everything that a step decides before its forward pass.
    pub(crate) fn step(&mut self, step: u64, inputs: &[What], hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        for input in inputs {
            self.take(*input, hands)?;
        }
        self.unpin(step, hands)?;
        self.end_prefetches(hands);
        if !self.decode(hands)? {
            self.admit(hands)?;
        }
        for running in &self.running {
            let Running { request, computed, wanted, .. } = *running;
            hands.tape.note(Verb::Batch { request, prefix: computed, extend: wanted - computed }, [0; 4]);
        }
        Ok(())
    }

    /// What follows from a forward pass.
    pub(crate) fn finish(&mut self, step: u64, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        for mut running in std::mem::take(&mut self.running) {
            let prefilled = running.computed < hands.request(running.request).prompt;
            running.computed = running.wanted;
            let of = hands.request(running.request);
            if running.computed == of.tokens.len() {
                self.leave(&running, Some(step + of.pin_steps), hands)?;
            } else {
                if prefilled && of.caches_prompt {
                    cache_prompt(&mut running, hands)?;
                }
                self.running.push(running);
            }
        }
        Ok(())
    }

    /// Something has reached the rank.
    pub(crate) fn take(&mut self, input: What, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        match input {
            What::Arrive(request) => {
                self.arrived += 1;
                self.waiting.push_back(request);
            }
            What::Abort(request) => self.abort(request, hands)?,
            What::Flush => self.flush(hands)?,
            What::Retract => {
                if let Some(last) = self.running.pop() {
                    self.retract(&last, hands)?;
                }
            }
            What::Forget(namespace) => hands.remove_namespace(namespace)?,
            What::Touch(request) => {
                let found = hands.match_prefix(request, hands.request(request).tokens.len())?;
                if found.host_node != NodeHandle::ROOT {
                    hands.touch(found.host_node)?;
                }
            }
            What::EvictHost(pages) => hands.evict_host(pages),
            What::Evict(tokens) => hands.evict(tokens)?,
        }
        Ok(())
    }

    /// Whatever state it is in. One that has not come, or has ended, is no news.
    fn abort(&mut self, request: u32, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        if let Some(place) = self.running.iter().position(|running| running.request == request) {
            let running = self.running.remove(place);
            if hands.request(request).caches_when_aborted {
                return self.leave(&running, None, hands);
            }
            hands.unlock(running.lock)?;
            hands.device.free(&running.slots[running.cached..])?;
            self.ended.insert(request);
        } else if let Some(place) = self.waiting.iter().position(|waiting| *waiting == request) {
            self.waiting.remove(place);
            self.ended.insert(request);
        } else if self.prefetching.remove(&request).is_some() {
            // The prefetch itself ends by the leader's decision, or when it is done.
            self.ended.insert(request);
        }
        Ok(())
    }

    /// Every receipt dies with the cache; requests begin anew.
    fn flush(&mut self, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        for running in std::mem::take(&mut self.running).into_iter().rev() {
            hands.device.free(&running.slots[running.cached..])?;
            self.waiting.push_front(running.request);
        }
        self.waiting.extend(std::mem::take(&mut self.prefetching).into_keys());
        self.pins.clear();
        hands.reset()
    }

    fn unpin(&mut self, step: u64, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        for (until, hold) in std::mem::take(&mut self.pins) {
            if until <= step {
                hands.unpin(hold)?;
            } else {
                self.pins.push((until, hold));
            }
        }
        Ok(())
    }

    /// Requests whose prefetch has come to its end go back to the front of the queue, in their order.
    fn end_prefetches(&mut self, hands: &mut Hands<'_, '_>) {
        let mut over = |ticket: &PrefetchTicket| hands.cache.poll_prefetch(*ticket) == PrefetchState::Over;
        let ended: Vec<u32> =
            self.prefetching.iter().filter(|(_, ticket)| over(ticket)).map(|(request, _)| *request).collect();
        for request in ended.into_iter().rev() {
            self.prefetching.remove(&request);
            self.waiting.push_front(request);
        }
    }

    /// One more token for each running request. For want of a slot the one that joined last goes back to the queue, so that the
    /// first always gets on. Gives whether one did.
    fn decode(&mut self, hands: &mut Hands<'_, '_>) -> Result<bool, Wrong> {
        let (mut place, mut retracted) = (0, false);
        while place < self.running.len() {
            let running = &mut self.running[place];
            running.wanted = running.computed + 1;
            if running.wanted > running.slots.len() {
                if let Some(slots) = hands.alloc(1)? {
                    running.slots.extend(slots);
                } else {
                    let Some(last) = self.running.pop() else { break };
                    self.retract(&last, hands)?;
                    retracted = true;
                    continue;
                }
            }
            place += 1;
        }
        Ok(retracted)
    }

    fn retract(&mut self, running: &Running, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        hands.unlock(running.lock)?;
        hands.device.free(&running.slots[running.cached..])?;
        self.waiting.push_front(running.request);
        Ok(())
    }

    /// Caches what was computed, gives back what is not cached, and lets go.
    fn leave(&mut self, running: &Running, pin: Option<u64>, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        let of = hands.request(running.request);
        let inserted = insert(running, hands)?;
        let (before, length) = (inserted.before, inserted.length);
        hands.device.free(&running.slots[running.cached..before])?;
        hands.device.free(&running.slots[length..])?;
        if let Some(until) = pin.filter(|_| of.pin_steps > 0 && inserted.node != NodeHandle::ROOT) {
            self.pins.push((until, hands.pin(inserted.node)?));
        }
        hands.unlock(running.lock)?;
        self.ended.insert(running.request);
        Ok(())
    }
}

/// What an insert said, as indices.
struct Inserted {
    before: usize,
    length: usize,
    node: NodeHandle,
}

/// Caches what was computed; the duplicates are still the caller's.
fn insert(running: &Running, hands: &mut Hands<'_, '_>) -> Result<Inserted, Wrong> {
    let Running { request, cached, node, computed, .. } = *running;
    let resumes = hands.request(request).resumes && cached > 0;
    let resumed = resumes.then_some(Resume { node, length: cached as u64 });
    let from = if resumes { cached } else { 0 };
    let inserted = hands.insert(request, computed, &running.slots[from..computed], resumed)?;
    let page = hands.scenario.page as usize;
    // A state is that of the last token, so of no other end.
    let is_whole = crate::world::at(inserted.length) == computed / page * page;
    if !request.is_multiple_of(4) && is_whole {
        hands.keep_states(inserted.node)?;
    }
    hands.expect_usable(inserted.node, "insert")?;
    let (before, length) = (crate::world::at(inserted.prefix_len), crate::world::at(inserted.length));
    ensure(cached <= before && before <= length && length <= computed, "answer", || {
        format!("insert of {computed} tokens, {cached} of them locked, found {before} and cached {length}")
    })?;
    ensure(inserted.new_tokens == (length - before) as u64, "answer", || {
        format!("insert of {length} tokens, {before} of them there before, cached {} new ones", inserted.new_tokens)
    })?;
    Ok(Inserted { before, length, node: inserted.node })
}

/// A running request's prompt is cached for others while it runs.
fn cache_prompt(running: &mut Running, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
    let inserted = insert(running, hands)?;
    hands.device.free(&running.slots[running.cached..inserted.before])?;
    let lock = hands.lock(inserted.node)?;
    hands.unlock(running.lock)?;
    let mut slots = hands.path_slots(inserted.node)?;
    ensure(slots.len() == inserted.length, "answer", || {
        format!("the path of an insert of {} tokens has {} slots", inserted.length, slots.len())
    })?;
    slots.extend(&running.slots[inserted.length..]);
    (running.slots, running.cached, running.node, running.lock) = (slots, inserted.length, inserted.node, lock);
    Ok(())
}
