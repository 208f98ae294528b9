//! The cache's verbs as the scheduler uses them: each is noted, and an error that must not be ends the run.

use super::tape::{Tape, Verb};
use crate::request::{self, Request};
use crate::scenario::Scenario;
use crate::trailing::Trailing;
use crate::violation::{Wrong, ensure};
use crate::world::Device;
use isoradix_core::{
    Error, ErrorKind, HostLockReceipt, Insert, Ints, LockReceipt, NodeHandle, PinReceipt, PrefetchTicket, Resume,
    TieredCache, TieredMatch,
};

/// A receipt, and the number under which it is noted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hold<R> {
    pub(crate) receipt: R,
    pub(crate) number: u64,
}

/// What a scheduler works with.
pub(crate) struct Hands<'r, 'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) cache: &'r mut TieredCache,
    pub(crate) device: &'r mut Device,
    pub(crate) tape: &'r mut Tape,
    /// Holds given out so far.
    pub(crate) holds: &'r mut u64,
    /// A request of which this rank sees another token.
    pub(crate) corrupted: Option<u32>,
}

fn refused(verb: &'static str) -> impl FnOnce(Error) -> Wrong {
    move |error| Wrong::new("refused", format!("{verb}: {error}"))
}

impl<'a> Hands<'_, 'a> {
    pub(crate) fn request(&self, request: u32) -> &'a Request {
        self.scenario.request(request)
    }

    /// The first tokens of a request, as this rank got them.
    fn key(&self, request: u32, length: usize) -> std::borrow::Cow<'a, [u32]> {
        let key = &self.scenario.request(request).tokens[..length];
        if self.corrupted == Some(request) && length > 0 {
            let mut key = key.to_vec();
            key[length / 2] += 1;
            return key.into();
        }
        key.into()
    }

    pub(crate) fn sequence(&self, node: NodeHandle) -> Result<u64, Wrong> {
        Ok(self.cache.cache().info(node).map_err(refused("info"))?.sequence)
    }

    fn hold<R>(&mut self, receipt: R) -> Hold<R> {
        *self.holds += 1;
        Hold { receipt, number: *self.holds }
    }

    pub(crate) fn match_prefix(&mut self, request: u32, length: usize) -> Result<TieredMatch, Wrong> {
        let (key, namespace) = (self.key(request, length), request::namespace(self.request(request).namespace));
        let found = self.cache.match_prefix(Ints::U32(&key), &namespace, None).map_err(refused("match_prefix"))?;
        let [node, host_node] = [self.sequence(found.node)?, self.sequence(found.host_node)?];
        let answer = [found.hit_tokens, node, found.host_tokens, host_node];
        self.tape.note(Verb::Match { request, length }, answer);
        Ok(found)
    }

    /// `slots` begin at the resume point.
    pub(crate) fn insert(
        &mut self,
        request: u32,
        length: usize,
        slots: &[i64],
        resumed: Option<Resume>,
    ) -> Result<Insert, Wrong> {
        let (key, of) = (self.key(request, length), self.request(request));
        let namespace = request::namespace(of.namespace);
        let inserted = self
            .cache
            .insert(Ints::U32(&key), Ints::I64(slots), &namespace, of.priority, resumed)
            .map_err(refused("insert"))?;
        let node = self.sequence(inserted.node)?;
        let answer = [inserted.prefix_len, inserted.new_tokens, node, inserted.length];
        self.tape.note(Verb::Insert { request, length, resumed }, answer);
        Ok(inserted)
    }

    /// The path that ends at a node, as a verb has just given it, can be used on the device, by the parts that its pages have.
    pub(crate) fn expect_usable(&self, node: NodeHandle, verb: &'static str) -> Result<(), Wrong> {
        let Some(trailing) = self.scenario.trailing else { return Ok(()) };
        // An insert says nothing of states: they are kept by another verb.
        let trailing = Trailing { state: trailing.state && verb != "insert", ..trailing };
        let (mut at, mut parts) = (node, Vec::new());
        while at != NodeHandle::ROOT {
            let own = self.cache.parts(at).map_err(refused(verb))?.0;
            parts.splice(0..0, own);
            at = self.cache.cache().info(at).map_err(refused(verb))?.parent;
        }
        let page = self.scenario.page as usize;
        let usable = trailing.is_usable(page, &parts, parts.len() * page);
        let node = self.sequence(node)?;
        ensure(usable, "parts", || format!("{verb} gave node {node}, the pages of whose path have parts {parts:?}"))
    }

    pub(crate) fn lock(&mut self, node: NodeHandle) -> Result<Hold<LockReceipt>, Wrong> {
        let receipt = self.cache.lock(node).map_err(refused("lock"))?;
        let hold = self.hold(receipt);
        let node = self.sequence(node)?;
        self.tape.note(Verb::Lock { node, hold: hold.number }, [0; 4]);
        Ok(hold)
    }

    pub(crate) fn unlock(&mut self, hold: Hold<LockReceipt>) -> Result<(), Wrong> {
        self.cache.unlock(hold.receipt).map_err(refused("unlock"))?;
        self.tape.note(Verb::Unlock { hold: hold.number }, [0; 4]);
        Ok(())
    }

    pub(crate) fn pin(&mut self, node: NodeHandle) -> Result<Hold<PinReceipt>, Wrong> {
        let receipt = self.cache.pin(node).map_err(refused("pin"))?;
        let hold = self.hold(receipt);
        let node = self.sequence(node)?;
        self.tape.note(Verb::Pin { node, hold: hold.number }, [0; 4]);
        Ok(hold)
    }

    pub(crate) fn unpin(&mut self, hold: Hold<PinReceipt>) -> Result<(), Wrong> {
        self.cache.unpin(hold.receipt).map_err(refused("unpin"))?;
        self.tape.note(Verb::Unpin { hold: hold.number }, [0; 4]);
        Ok(())
    }

    pub(crate) fn touch(&mut self, node: NodeHandle) -> Result<(), Wrong> {
        let sequence = self.sequence(node)?;
        self.cache.touch(node).map_err(refused("touch"))?;
        self.tape.note(Verb::Touch { node: sequence }, [0; 4]);
        Ok(())
    }

    /// Keeps the states at a node's end, where the model has some.
    pub(crate) fn keep_states(&mut self, node: NodeHandle) -> Result<(), Wrong> {
        if self.scenario.trailing.is_none_or(|trailing| !trailing.state) || node == NodeHandle::ROOT {
            return Ok(());
        }
        let sequence = self.sequence(node)?;
        self.cache.keep_states(node).map_err(refused("keep_states"))?;
        self.tape.note(Verb::KeepStates { node: sequence }, [0; 4]);
        Ok(())
    }

    pub(crate) fn host_lock(&mut self, node: NodeHandle) -> Result<Hold<HostLockReceipt>, Wrong> {
        let receipt = self.cache.host_lock(node).map_err(refused("host_lock"))?;
        let hold = self.hold(receipt);
        let node = self.sequence(node)?;
        self.tape.note(Verb::HostLock { node, hold: hold.number }, [0; 4]);
        Ok(hold)
    }

    pub(crate) fn unlock_host(&mut self, hold: Hold<HostLockReceipt>) -> Result<(), Wrong> {
        self.cache.unlock_host(hold.receipt).map_err(refused("unlock_host"))?;
        self.tape.note(Verb::UnlockHost { hold: hold.number }, [0; 4]);
        Ok(())
    }

    /// Slots that a load-back takes, 0 if it is declined.
    pub(crate) fn load_back_need(&mut self, hold: Hold<HostLockReceipt>) -> Result<u64, Wrong> {
        let need = self.cache.load_back_need(hold.receipt).map_err(refused("load_back_need"))?;
        self.tape.note(Verb::LoadBackNeed { hold: hold.number }, [need, 0, 0, 0]);
        Ok(need)
    }

    pub(crate) fn load_back(&mut self, hold: Hold<HostLockReceipt>, slots: &[i64]) -> Result<u64, Wrong> {
        let loaded = self.cache.load_back(hold.receipt, Ints::I64(slots)).map_err(refused("load_back"))?;
        self.tape.note(Verb::LoadBack { hold: hold.number, slots: slots.len() as u64 }, [loaded, 0, 0, 0]);
        Ok(loaded)
    }

    pub(crate) fn prefetch(
        &mut self,
        request: u32,
        length: usize,
        anchor: NodeHandle,
    ) -> Result<Option<PrefetchTicket>, Wrong> {
        let (key, namespace) = (self.key(request, length), request::namespace(self.request(request).namespace));
        let sequence = self.sequence(anchor)?;
        let ticket = self.cache.prefetch(Ints::U32(&key), &namespace, anchor).map_err(refused("prefetch"))?;
        let answer = [u64::from(ticket.is_some()), 0, 0, 0];
        self.tape.note(Verb::Prefetch { request, length, anchor: sequence }, answer);
        Ok(ticket)
    }

    /// Evicts so many tokens, or as many as may go, and gives their slots back to the pool.
    pub(crate) fn evict(&mut self, tokens: u64) -> Result<(), Wrong> {
        let mut slots = Vec::new();
        let evicted = self.cache.evict(tokens, &mut slots).map_err(refused("evict"))?;
        let answer = [evicted.freed, evicted.demoted, evicted.dropped_dirty, slots.len() as u64];
        self.tape.note(Verb::Evict { tokens }, answer);
        self.device.free(&slots)
    }

    pub(crate) fn evict_host(&mut self, pages: u32) {
        let evicted = self.cache.evict_host(pages);
        self.tape.note(Verb::EvictHost { pages }, [evicted.into(), 0, 0, 0]);
    }

    /// Refused while any of it is held, which is an answer as any other.
    pub(crate) fn remove_namespace(&mut self, number: u8) -> Result<(), Wrong> {
        let mut slots = Vec::new();
        let verb = Verb::RemoveNamespace { namespace: number };
        match self.cache.remove_namespace(&request::namespace(number), &mut slots) {
            Ok(dropped) => {
                self.tape.note(verb, [dropped, slots.len() as u64, 0, 0]);
                self.device.free(&slots)
            }
            Err(error) if error.kind() == ErrorKind::Held => {
                self.tape.note(verb, [u64::MAX, 0, 0, 0]);
                Ok(())
            }
            Err(error) => Err(refused("remove_namespace")(error)),
        }
    }

    pub(crate) fn reset(&mut self) -> Result<(), Wrong> {
        let mut slots = Vec::new();
        let dropped = self.cache.reset(&mut slots);
        self.tape.note(Verb::Reset, [dropped, slots.len() as u64, 0, 0]);
        self.device.free(&slots)
    }

    /// Slots for so many tokens; what is cached makes room for them if it can.
    pub(crate) fn alloc(&mut self, tokens: usize) -> Result<Option<Vec<i64>>, Wrong> {
        let whole = tokens.next_multiple_of(self.scenario.page as usize) as u64;
        let missing = whole.saturating_sub(self.device.available());
        if missing > 0 {
            self.evict(missing)?;
        }
        Ok(self.device.alloc(tokens))
    }

    /// Whether so many tokens fit, once what is cached has made room.
    pub(crate) fn make_room(&mut self, tokens: u64) -> Result<bool, Wrong> {
        let missing = tokens.saturating_sub(self.device.available());
        if missing > 0 {
            self.evict(missing)?;
        }
        Ok(self.device.available() >= tokens)
    }

    /// The slots of the path down to a node.
    pub(crate) fn path_slots(&self, node: NodeHandle) -> Result<Vec<i64>, Wrong> {
        let mut slots = Vec::new();
        self.cache.cache().path_slots(node, &mut slots).map_err(refused("path_slots"))?;
        Ok(slots)
    }
}
