//! The actions, carried out on a host pool by the verbs that stand beside them.

use super::*;
use crate::host::{HostPool, Stage};
use crate::provenance::PerRank;
use std::collections::BTreeMap;

const CAPACITY: u32 = 24;

struct Host {
    table: OperationTable,
    pools: Pools,
    pool: HostPool,
    /// Pages that this rank has reserved for each operation: no grant is larger.
    reserved: BTreeMap<Ordinal, u32>,
    /// Pages that the tree got from each operation.
    tree: BTreeMap<Ordinal, Vec<u32>>,
}

impl Host {
    fn new(backing: Backing) -> Self {
        let pool = HostPool::new(PerRank::observe(CAPACITY), agreed(CAPACITY), backing).unwrap();
        let pools = Pools { host: backing, device: Backing::Fixed };
        Self { table: table(pools), pools, pool, reserved: BTreeMap::new(), tree: BTreeMap::new() }
    }

    fn issue(&mut self, kind: Kind, pages: u32, random: &mut SplitMix64) {
        if self.table.iter().count() == 4 || self.pool.ledger().room(pages).is_err() {
            return;
        }
        let k = issue(&mut self.table, kind, pages);
        self.pool.ask(k, pages).unwrap().unwrap();
        if self.table.operation(k).unwrap().transition(Event::Granted).is_some() {
            let most = PerRank::observe(random.below(pages + 1));
            self.reserved.insert(k, self.pool.reserve_up_to(k, most).unwrap().into_ballot());
        }
    }

    fn events(&self, random: &mut SplitMix64) -> Vec<AgreedEvent> {
        let mut events = Vec::new();
        for entry in self.table.iter() {
            let (k, pages) = (entry.ordinal(), entry.committed().map_or(entry.pages(), |share| share.pages));
            let some = u64::from(random.below(pages + 1)) * PAGE;
            let reserved = self.reserved.get(&k).copied().unwrap_or_default();
            events.extend([hit(k, some), granted(k, random.below(reserved + 1)), progress(k, some)]);
            events.extend([ready(k, true), ready(k, false), terminate(k), time_out(k), abort(k)]);
            events.push(finished(entry.kind(), k.0 + 1));
        }
        events
    }

    fn carry_out(&mut self, action: Action) {
        let pool = &mut self.pool;
        match action {
            Action::Commit { operation, share } => {
                pool.commit(operation, agreed(share.pages)).unwrap();
                assert_eq!(pool.pages(operation).len(), share.pages as usize);
            }
            Action::Deliver { operation, share } => {
                let delivered = pool.pages(operation)[..share.pages as usize].to_vec();
                self.tree.insert(operation, delivered);
            }
            Action::Settle { operation, keep } => pool.settle(operation, agreed(keep)).unwrap(),
            Action::Cancel { operation, keep: 0 } => pool.drain(operation).unwrap(),
            Action::Cancel { operation, keep } => pool.drain_rest(operation, agreed(keep)).unwrap(),
            Action::Return { operation, .. } => {
                pool.finished(operation).unwrap();
                pool.abort(operation).unwrap();
            }
            Action::Unlock { operation } => {
                let tree = self.tree.get(&operation).map_or(0, Vec::len);
                assert_eq!(pool.ledger().pages(operation) as usize, tree, "the tree has the rest");
            }
        }
    }

    fn apply(&mut self, event: AgreedEvent) {
        for action in self.table.apply(event).unwrap_or_default() {
            self.carry_out(action);
        }
        self.pool.check().unwrap();
        let tree = u32::try_from(self.tree.values().map(Vec::len).sum::<usize>()).unwrap();
        let held = |kind| held(&self.table, self.pools, kind);
        assert_eq!(self.pool.ledger().occupied(), held(Kind::Backup) + held(Kind::Prefetch) + tree);
    }

    /// The tree gives back what it got from an operation that is over.
    fn evict(&mut self) {
        let settled = |k: &Ordinal| self.pool.ledger().stage(*k) == Some(Stage::Settled);
        if let Some(k) = self.tree.keys().copied().find(settled)
            && let Some(pages) = self.tree.remove(&k)
        {
            self.pool.release(&pages).unwrap();
        }
    }
}

#[test]
fn a_host_pool_takes_every_action_and_agrees_on_every_page() {
    for seed in 0..20 {
        let mut random = SplitMix64(seed);
        let mut host = Host::new(if seed % 2 == 0 { Backing::Voting } else { Backing::Fixed });
        for _ in 0..1_500 {
            match random.below(8) {
                0 => {
                    let (kind, pages) = (random.pick(&[Kind::Backup, Kind::Prefetch]), 1 + random.below(6));
                    host.issue(kind, pages, &mut random);
                }
                1 => host.table.slide(agreed(host.table.retired())).unwrap(),
                2 => host.evict(),
                _ => {
                    let events = host.events(&mut random);
                    if !events.is_empty() {
                        host.apply(random.pick(&events));
                    }
                }
            }
        }
        assert!(host.table.base() > 20, "seed {seed}: {} operations came to an end", host.table.base());
    }
}
