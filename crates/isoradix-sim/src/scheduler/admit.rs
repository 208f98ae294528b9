//! From the queue into the batch: what is cached is held, what is on host is loaded, the rest gets slots to be computed in.

use super::{Hands, Hold, Running, Scheduler};
use crate::violation::{Wrong, ensure};
use crate::world::at;
use isoradix_core::{LockReceipt, NodeHandle, TieredMatch};

/// What came of a waiting request.
enum Admitted {
    Runs(Running),
    /// It waits for storage.
    Prefetches,
    /// There is no room for it now.
    Waits,
}

impl Scheduler {
    /// Requests join the batch in their order, until one does not fit.
    pub(super) fn admit(&mut self, hands: &mut Hands<'_, '_>) -> Result<(), Wrong> {
        while self.running.len() < hands.scenario.running_max {
            let Some(request) = self.waiting.pop_front() else { break };
            match self.try_one(request, hands)? {
                Admitted::Runs(running) => self.running.push(running),
                Admitted::Prefetches => {}
                Admitted::Waits => {
                    self.waiting.push_front(request);
                    break;
                }
            }
        }
        Ok(())
    }

    fn try_one(&mut self, request: u32, hands: &mut Hands<'_, '_>) -> Result<Admitted, Wrong> {
        let prompt = hands.request(request).prompt;
        // The last token of a prompt is computed in any case: its output is what is asked for.
        let found = hands.match_prefix(request, prompt - 1)?;
        if self.prefetch(request, &found, hands)? {
            return Ok(Admitted::Prefetches);
        }
        let hold = hands.lock(found.node)?;
        let whole = prompt.next_multiple_of(hands.scenario.page as usize) as u64;
        if !hands.make_room(whole - found.hit_tokens)? {
            hands.unlock(hold)?;
            return Ok(Admitted::Waits);
        }
        let (node, lock, cached) = load(&found, hold, hands)?;
        let mut slots = hands.path_slots(node)?;
        ensure(slots.len() == cached, "answer", || format!("a path of {cached} tokens has {} slots", slots.len()))?;
        let rest = hands.device.alloc(prompt - cached);
        let Some(rest) = rest else {
            return Err(Wrong::new("slots", "there was room, and now there is none"));
        };
        slots.extend(rest);
        Ok(Admitted::Runs(Running { request, slots, cached, node, lock, computed: cached, wanted: prompt }))
    }

    /// Whether the request waits for what storage may have; it asks once.
    fn prefetch(&mut self, request: u32, found: &TieredMatch, hands: &mut Hands<'_, '_>) -> Result<bool, Wrong> {
        let anchor = found.host_node;
        let on_host = |hands: &Hands<'_, '_>| hands.cache.is_on_host(anchor).unwrap_or(false);
        let may = anchor == NodeHandle::ROOT || on_host(hands);
        if !hands.scenario.tiers.storage || !may || !self.prefetched.insert(request) {
            return Ok(false);
        }
        let ticket = hands.prefetch(request, hands.request(request).prompt - 1, anchor)?;
        if let Some(ticket) = ticket {
            self.prefetching.insert(request, ticket);
        }
        Ok(ticket.is_some())
    }
}

/// Brings onto the device what of a match is on host only, if that is worth it. Gives the deepest node that is there, locked.
fn load(
    found: &TieredMatch,
    hold: Hold<LockReceipt>,
    hands: &mut Hands<'_, '_>,
) -> Result<(NodeHandle, Hold<LockReceipt>, usize), Wrong> {
    let stay = (found.node, hold, at(found.hit_tokens));
    if found.host_tokens == 0 {
        return Ok(stay);
    }
    let host = hands.host_lock(found.host_node)?;
    let need = hands.load_back_need(host)?;
    // Of a model with trailing state, a part of what follows may be on the device, and of no use there alone.
    let may_be_less = hands.scenario.trailing.is_some() && need < found.host_tokens;
    ensure(need == 0 || need == found.host_tokens || may_be_less, "answer", || {
        format!("{} tokens are on host only, {need} are to be loaded", found.host_tokens)
    })?;
    if need == 0 {
        hands.unlock_host(host)?;
        return Ok(stay);
    }
    let Some(slots) = hands.device.alloc(at(need)) else {
        return Err(Wrong::new("slots", "there was room, and now there is none"));
    };
    let loaded = hands.load_back(host, &slots)?;
    if loaded == 0 {
        hands.device.free(&slots)?;
        hands.unlock_host(host)?;
        return Ok(stay);
    }
    ensure(loaded == need, "answer", || format!("{loaded} tokens of {need} were loaded: all or none"))?;
    hands.expect_usable(found.host_node, "load_back")?;
    let lock = hands.lock(found.host_node)?;
    hands.unlock(hold)?;
    Ok((found.host_node, lock, at(found.hit_tokens + found.host_tokens)))
}
