//! The naive reference model beside the first rank: it is told what the cache is told, and must answer and become the same.

use crate::coverage::{Framed, Taken};
use crate::naive::{self, Model, NodeState, Outcome, Settings, State};
use crate::request;
use crate::scenario::Scenario;
use crate::scheduler::{Call, Verb};
use crate::violation::{Wrong, ensure};
use isoradix_core::protocol::BreakerState;
use isoradix_core::{DeviceRoom, Error, Namespace, NodeHandle, TieredCache};
use std::collections::BTreeMap;

/// The model, and what its receipts are called.
#[derive(Debug)]
pub(crate) struct Reference<'a> {
    scenario: &'a Scenario,
    model: Model,
    /// Its receipts by the scheduler's numbers.
    receipts: BTreeMap<u64, u64>,
    /// Operations issued before this step.
    issued: u64,
}

impl<'a> Reference<'a> {
    /// The model of a scenario, if it models that scenario's eviction policy.
    pub(crate) fn new(scenario: &'a Scenario) -> Option<Self> {
        let tiers = scenario.tiers;
        let settings = Settings {
            page: scenario.page,
            writing: tiers.writing,
            load_back_min: tiers.load_back_min,
            prefetch_min: tiers.prefetch_min,
            storage: tiers.storage,
            window: tiers.window,
            breaker: tiers.breaker,
            retry: tiers.retry,
            capacity: scenario.host_pages.iter().copied().min().unwrap_or(0),
            trailing: scenario.trailing,
        };
        (scenario.eviction == "lru").then(|| Self {
            scenario,
            model: Model::new(settings),
            receipts: BTreeMap::new(),
            issued: 0,
        })
    }

    /// A frame was applied.
    pub(crate) fn frame(&mut self, framed: &Framed<'_>, taken: &[Taken], cache: &TieredCache) -> Result<(), Wrong> {
        self.model.begin_frame(cache.now_ms().unwrap_or_default(), framed.controls);
        self.model.slide(cache.operations().base());
        for operation in cache.operations().iter() {
            let outcome = Outcome { ended_by: operation.ended_by(), failed: operation.has_failed() };
            self.model.tell(operation.ordinal(), outcome);
        }
        for action in taken.iter().flat_map(|taken| taken.actions(cache.operations())) {
            self.model.apply(&action).map_err(|refused| Wrong::new("model", format!("{action:?}: {refused}")))?;
        }
        self.model.end_frame(framed.controls);
        // The capacity is what all ranks could back when they voted, up to the one agreed at start.
        if let Some(backable) = framed.backable() {
            self.model.lower(backable);
            self.model.raise(backable);
        }
        Ok(())
    }

    /// A verb was called.
    pub(crate) fn call(&mut self, call: &Call) -> Result<(), Wrong> {
        let refused = |refused| Wrong::new("model", format!("{call}: the model says: {refused}"));
        let answer = self.answer(&call.verb).map_err(refused)?;
        match answer {
            Some(answer) if answer != call.answer => {
                Err(Wrong::new("model", format!("{call}, the model answers {answer:?}")))
            }
            _ => Ok(()),
        }
    }

    fn answer(&mut self, verb: &Verb) -> Result<Option<[u64; 4]>, naive::Refused> {
        let scenario = self.scenario;
        let key = |request: u32, length: usize| &scenario.request(request).tokens[..length];
        let inside = |request: u32| request::namespace(scenario.request(request).namespace);
        Ok(Some(match *verb {
            Verb::Match { request, length } => {
                let found = self.model.match_prefix(key(request, length), &inside(request));
                [found.hit_tokens, found.node, found.host_tokens, found.host_node]
            }
            Verb::Insert { request, length, resumed } => {
                let (of, resumed) = (scenario.request(request), resumed.map_or(0, |resume| resume.length));
                let resumed = crate::world::at(resumed);
                let done = self.model.insert(key(request, length), &inside(request), of.priority, resumed)?;
                [done.prefix_len, done.new_tokens, done.node, done.length]
            }
            Verb::Lock { node, hold } => {
                let receipt = self.model.lock(node)?;
                self.give(hold, receipt)
            }
            Verb::Pin { node, hold } => {
                let receipt = self.model.pin(node)?;
                self.give(hold, receipt)
            }
            Verb::HostLock { node, hold } => {
                let receipt = self.model.host_lock(node)?;
                self.give(hold, receipt)
            }
            Verb::Unlock { hold } => self.model.unlock(self.receipt(hold)).map(|()| [0; 4])?,
            Verb::Unpin { hold } => self.model.unpin(self.receipt(hold)).map(|()| [0; 4])?,
            Verb::UnlockHost { hold } => self.model.unlock_host(self.receipt(hold)).map(|()| [0; 4])?,
            Verb::Touch { node } => self.model.touch(node).map(|()| [0; 4])?,
            Verb::KeepStates { node } => self.model.keep_states(node).map(|()| [0; 4])?,
            Verb::LoadBackNeed { hold } => [self.model.load_back_need(self.receipt(hold))?, 0, 0, 0],
            Verb::LoadBack { hold, .. } => [self.model.load_back(self.receipt(hold))?, 0, 0, 0],
            Verb::Prefetch { request, length, anchor } => {
                let ticket = self.model.prefetch(key(request, length), &inside(request), anchor)?;
                [u64::from(ticket.is_some()), 0, 0, 0]
            }
            Verb::Evict { tokens } => {
                let done = self.model.evict(tokens);
                [done.freed, done.demoted, done.dropped_dirty, done.freed]
            }
            Verb::EvictHost { pages } => [self.model.evict_host(pages).pages.into(), 0, 0, 0],
            Verb::RemoveNamespace { namespace } => {
                let dropped = self.model.remove_namespace(&request::namespace(namespace));
                dropped.map_or([u64::MAX, 0, 0, 0], |freed| [freed, freed, 0, 0])
            }
            Verb::Reset => {
                let done = self.model.reset();
                [done.dropped, done.free_now, 0, 0]
            }
            Verb::CloseStep { device_free: free, promised } => {
                self.model.close_step(DeviceRoom { free, promised });
                return Ok(None);
            }
            Verb::Batch { .. } => return Ok(None),
        }))
    }

    fn give(&mut self, hold: u64, receipt: u64) -> [u64; 4] {
        self.receipts.insert(hold, receipt);
        [0; 4]
    }

    fn receipt(&self, hold: u64) -> u64 {
        self.receipts.get(&hold).copied().unwrap_or(u64::MAX)
    }

    /// What the step issued is what the model issues.
    pub(crate) fn issued(&mut self, cache: &TieredCache) -> Result<(), Wrong> {
        let operations = cache.operations().iter().filter(|operation| operation.ordinal().0 >= self.issued);
        let own: Vec<_> = operations
            .map(|operation| (operation.ordinal(), operation.kind(), operation.subjects().to_vec()))
            .collect();
        let expected: Vec<_> =
            self.model.issued().iter().map(|issued| (issued.ordinal, issued.kind, issued.subjects.clone())).collect();
        self.issued = cache.operations().issued();
        ensure(own == expected, "model", || format!("the step issued {own:?}, the model {expected:?}"))
    }

    /// Everything is as in the model.
    pub(crate) fn compare(&self, cache: &TieredCache) -> Result<(), Wrong> {
        self.model.check().map_err(|what| Wrong::new("model", what))?;
        let (own, expected) =
            (state(cache).map_err(|error| Wrong::new("model", error.to_string()))?, self.model.state());
        let storage = (cache.breaker().map(BreakerState::as_str), cache.attachment());
        let modelled = (self.model.breaker_name(), self.model.attachment());
        ensure(storage == modelled, "model", || format!("storage is {storage:?}, in the model {modelled:?}"))?;
        let (own, expected) = (visible(own), visible(expected));
        if own == expected {
            return Ok(());
        }
        let node = own.nodes.iter().zip(&expected.nodes).find(|(own, expected)| own != expected);
        let what = match node {
            Some((own, expected)) => format!("a node is\n  {own:?}, in the model\n  {expected:?}"),
            None => format!(
                "{} nodes and {} of {} host pages occupied, in the model {}, {} of {}",
                own.nodes.len(),
                own.occupied,
                own.capacity,
                expected.nodes.len(),
                expected.occupied,
                expected.capacity
            ),
        };
        Err(Wrong::new("model", what))
    }
}

/// What can be seen of a node from outside.
fn visible(mut state: State) -> State {
    for node in &mut state.nodes {
        (node.stored, node.pending) = (false, false);
    }
    state
}

fn state(cache: &TieredCache) -> Result<State, Error> {
    let mut nodes = Vec::new();
    let mut paths: BTreeMap<NodeHandle, Vec<u32>> = BTreeMap::new();
    let mut ages = Vec::new();
    for handle in cache.cache().walk(NodeHandle::ROOT)? {
        if handle == NodeHandle::ROOT {
            continue;
        }
        let info = cache.cache().info(handle)?;
        let (device_parts, host_parts) = cache.parts(handle)?;
        let mut tokens = Vec::new();
        cache.cache().node_tokens(handle, &mut tokens)?;
        let mut path = paths.get(&info.parent).cloned().unwrap_or_default();
        path.extend(tokens.into_iter().map(|token| u32::try_from(token).unwrap_or(u32::MAX)));
        paths.insert(handle, path.clone());
        ages.push(info.last_access);
        let namespace: Namespace = info.namespace.clone();
        nodes.push((
            info.last_access,
            NodeState {
                namespace,
                path,
                length: info.length,
                sequence: info.sequence,
                on_device: info.on_device,
                on_host: info.on_host,
                stored: false,
                pending: false,
                lock_ref: info.lock_ref as usize,
                pin_ref: info.pin_ref as usize,
                host_ref: info.host_ref as usize,
                hits: info.hits,
                priority: info.priority,
                device_parts,
                host_parts,
                age: 0,
            },
        ));
    }
    ages.sort_unstable();
    let aged = |(access, node): (_, NodeState)| NodeState { age: ages.partition_point(|age| *age < access), ..node };
    let mut nodes: Vec<NodeState> = nodes.into_iter().map(aged).collect();
    nodes.sort_unstable();
    let ledger = cache.host().ledger();
    Ok(State { nodes, occupied: ledger.occupied(), capacity: ledger.capacity() })
}
