//! Verbs, on both; panics where the answers part.

use isoradix_core::{Ints, Namespace, NodeHandle, Resume};

use super::super::super::node::Node;
use super::{PAGE, Twins, namespace};

impl Twins {
    pub(super) fn verb(&mut self) {
        let key = self.random.key();
        match self.random.below(20) {
            0..3 => self.match_prefix(&key),
            3..6 => {
                let space = namespace(self.random.below(3) / 2);
                self.insert(&key, &space, 0, NodeHandle::ROOT);
            }
            6 => self.insert_resumed(&key),
            7 => self.evict(),
            8 => self.evict_host(),
            9..12 => self.host_lock(),
            12..16 => self.load_back(),
            16 => self.prefetch(&key),
            17 => self.lock_or_pin(),
            18 => self.give_back(),
            _ => match self.random.below(12) {
                5..8 => self.keep_states(),
                0 => self.reset(),
                1 => self.remove_namespace(),
                _ => self.touch(),
            },
        }
    }

    fn match_prefix(&mut self, key: &[u32]) {
        let space = namespace(self.random.below(3) / 2);
        self.log.push(format!("match {key:?} in {space}"));
        let real = self.rank.cache_mut().match_prefix(Ints::U32(key), &space, None).unwrap();
        let model = self.model.match_prefix(key, &space);
        assert_eq!((real.hit_tokens, self.sequence(real.node)), (model.hit_tokens, model.node));
        assert_eq!((real.host_tokens, self.sequence(real.host_node)), (model.host_tokens, model.host_node));
        if real.host_tokens > 0 {
            self.count("match", "on host");
        }
        let (cached, found) = (self.model.cached(&space, key) as u64, model.hit_tokens + model.host_tokens);
        if found < cached {
            self.count("match", "clamped");
        } else if found > 0 && self.model.settings.trailing.is_some_and(|trailing| trailing.state) {
            self.count("match", "to a state");
        }
    }

    fn insert(&mut self, key: &[u32], space: &Namespace, resumed: usize, node: NodeHandle) {
        let (length, mut slots) = (key.len() / PAGE as usize * PAGE as usize, vec![]);
        if self.pool.alloc((length - resumed) as u64, &mut slots).is_err() {
            return self.evict();
        }
        let priority = i64::from(self.random.below(3)) - 1;
        self.log.push(format!("insert {key:?} in {space} from {resumed}, {priority}"));
        let point = (resumed > 0).then_some(Resume { node, length: resumed as u64 });
        let (given, was_on_host) = (Ints::I64(&slots), self.model.sizes().host_only);
        let real = self.rank.cache_mut().insert(Ints::U32(key), given, space, priority, point);
        let model = self.model.insert(key, space, priority, resumed);
        let (Ok(real), Ok(model)) = (&real, &model) else {
            assert!(real.is_err() && model.is_err(), "{real:?}, {model:?}");
            return self.free(slots);
        };
        assert_eq!((real.prefix_len, real.new_tokens), (model.prefix_len, model.new_tokens));
        assert_eq!((real.length, self.sequence(real.node)), (model.length, model.node));
        slots.truncate(usize::try_from(real.prefix_len).unwrap() - resumed);
        self.free(slots);
        if resumed > 0 {
            self.count("insert", "resumed");
        }
        if self.model.sizes().host_only < was_on_host {
            self.count("insert", "revived");
        }
    }

    fn keep_states(&mut self) {
        let (node, handle) = self.node();
        let may = self.model.settings.trailing.is_some_and(|trailing| trailing.state)
            && self.model.find(node).is_some_and(|node| node.on_device);
        self.log.push(format!("keep_states {node}"));
        assert_eq!(self.rank.cache_mut().keep_states(handle).is_ok(), may);
        if may {
            self.model.keep_states(node).unwrap();
        }
    }

    fn insert_resumed(&mut self, key: &[u32]) {
        let (node, handle) = self.node();
        let (space, mut whole) = self.model.place(node).unwrap();
        let resumed = whole.len();
        whole.extend(key);
        self.insert(&whole, &space, resumed, handle);
    }

    fn evict(&mut self) {
        let (tokens, mut slots) = (u64::from(self.random.below(24)), vec![]);
        self.log.push(format!("evict {tokens}"));
        let real = self.rank.cache_mut().evict(tokens, &mut slots).unwrap();
        let model = self.model.evict(tokens);
        assert_eq!((real.freed, real.demoted, real.dropped_dirty), (model.freed, model.demoted, model.dropped_dirty));
        self.free(slots);
        for (what, tokens) in [("demoted", model.demoted), ("dropped dirty", model.dropped_dirty)] {
            if tokens > 0 {
                self.count("evict", what);
            }
        }
    }

    fn evict_host(&mut self) {
        let pages = self.random.below(4);
        self.log.push(format!("evict_host {pages}"));
        let real = self.rank.cache_mut().evict_host(pages);
        assert_eq!(real, self.model.evict_host(pages).pages);
    }

    fn host_lock(&mut self) {
        let tries = [self.node(), self.node(), self.node()];
        let on_host_only = |(node, _): &&(u64, NodeHandle)| self.model.find(*node).is_some_and(Node::is_host_only);
        let (node, handle) = *tries.iter().find(on_host_only).unwrap_or(&tries[0]);
        let Ok(model) = self.model.host_lock(node) else { return };
        self.log.push(format!("host_lock {node}"));
        let real = self.rank.cache_mut().host_lock(handle).unwrap();
        self.host_locks.push((real, model));
    }

    fn load_back(&mut self) {
        let Some((real, model)) = self.random.pick(&self.host_locks).copied() else { return };
        let need = self.rank.cache().load_back_need(real).unwrap();
        assert_eq!(Ok(need), self.model.load_back_need(model));
        let mut slots = vec![];
        if need > 0 && self.pool.alloc(need, &mut slots).is_ok() {
            self.log.push(format!("load_back {need}"));
            assert_eq!(self.rank.cache_mut().load_back(real, Ints::I64(&slots)).unwrap(), need);
            assert_eq!(self.model.load_back(model), Ok(need));
        } else if self.random.below(2) == 0 {
            self.log.push("unlock_host".to_owned());
            self.rank.cache_mut().unlock_host(real).unwrap();
            self.model.unlock_host(model).unwrap();
        } else {
            return;
        }
        self.host_locks.retain(|(receipt, _)| *receipt != real);
    }

    fn prefetch(&mut self, key: &[u32]) {
        let (anchor, handle) = self.node();
        let (space, mut whole) = self.model.place(anchor).unwrap();
        whole.extend(key);
        self.log.push(format!("prefetch {whole:?} in {space} at {anchor}"));
        let real = self.rank.cache_mut().prefetch(Ints::U32(&whole), &space, handle).unwrap();
        let model = self.model.prefetch(&whole, &space, anchor).unwrap();
        assert_eq!(real.is_some(), model.is_some(), "prefetch");
        self.tickets.extend(real.zip(model));
    }

    fn lock_or_pin(&mut self) {
        let (node, handle) = self.node();
        if self.random.below(2) == 0 {
            let real = self.rank.cache_mut().lock(handle).unwrap();
            self.locks.push((real, self.model.lock(node).unwrap()));
        } else {
            let real = self.rank.cache_mut().pin(handle).unwrap();
            self.pins.push((real, self.model.pin(node).unwrap()));
        }
    }

    fn give_back(&mut self) {
        for (real, model) in std::mem::take(&mut self.locks) {
            self.rank.cache_mut().unlock(real).unwrap();
            self.model.unlock(model).unwrap();
        }
        for (real, model) in std::mem::take(&mut self.pins) {
            self.rank.cache_mut().unpin(real).unwrap();
            self.model.unpin(model).unwrap();
        }
    }

    fn touch(&mut self) {
        let (node, handle) = self.node();
        self.log.push(format!("touch {node}"));
        self.rank.cache_mut().touch(handle).unwrap();
        self.model.touch(node).unwrap();
    }

    fn reset(&mut self) {
        let mut slots = vec![];
        self.log.push("reset".to_owned());
        let dropped = self.rank.cache_mut().reset(&mut slots);
        let model = self.model.reset();
        assert_eq!((dropped, slots.len() as u64), (model.dropped, model.free_now));
        self.free(slots);
        (self.locks, self.pins, self.host_locks) = (vec![], vec![], vec![]);
    }

    fn remove_namespace(&mut self) {
        let (space, mut slots) = (namespace(self.random.below(2)), vec![]);
        self.log.push(format!("remove_namespace {space}"));
        let real = self.rank.cache_mut().remove_namespace(&space, &mut slots).ok();
        assert_eq!(real, self.model.remove_namespace(&space).ok());
        self.free(slots);
    }

    /// Some node, the root included.
    fn node(&mut self) -> (u64, NodeHandle) {
        let mut handles = self.rank.cache().cache().walk(NodeHandle::ROOT).unwrap();
        handles.push(NodeHandle::ROOT);
        let handle = *self.random.pick(&handles).unwrap();
        (self.sequence(handle), handle)
    }

    fn sequence(&self, node: NodeHandle) -> u64 {
        self.rank.cache().cache().info(node).unwrap().sequence
    }
}
