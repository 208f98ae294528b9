//! The model on examples worked by hand, and its own rules on random walks.

mod cases;
mod operations;
mod tiers;
mod twin;
mod walks;

use isoradix_core::operation::{Action, Kind, Share};
use isoradix_core::protocol::Backoff;
use isoradix_core::{Namespace, Ordinal, Writing};

use super::answers::Issued;
use super::{Model, NodeState, Settings};

const SETTINGS: Settings = Settings {
    page: 1,
    writing: Writing::Through { hits: 1 },
    load_back_min: 10,
    prefetch_min: 1,
    storage: false,
    window: 8,
    capacity: 1000,
    breaker: None,
    retry: Backoff { first_ms: 0, longest_ms: 0, attempts_max: 1 },
    trailing: None,
};

/// A key of so many tokens, all the same.
fn key(tokens: usize, token: u32) -> Vec<u32> {
    vec![token; tokens]
}

fn space() -> Namespace {
    Namespace::default()
}

impl Model {
    fn insert_whole(&mut self, key: &[u32]) -> u64 {
        self.insert(key, &space(), 0, 0).unwrap().node
    }

    fn node(&self, sequence: u64) -> NodeState {
        self.state().nodes.into_iter().find(|node| node.sequence == sequence).expect("the node is in the tree")
    }

    /// The only operation of the last step.
    fn only_issued(&self) -> Issued {
        let [issued] = self.issued() else { panic!("one operation, not {:?}", self.issued()) };
        issued.clone()
    }

    /// The nodes that it is about.
    fn issued_ids(&self) -> Vec<u64> {
        self.only_issued().subjects.into_iter().map(|subject| subject.id).collect()
    }

    fn apply_all(&mut self, actions: &[Action]) -> u64 {
        let freed = actions.iter().map(|action| self.apply(action).unwrap()).sum();
        self.check().unwrap();
        freed
    }

    /// Runs an operation to its good end.
    fn complete(&mut self, issued: &Issued) -> u64 {
        self.apply_all(&good_end(issued))
    }

    /// Inserts a key and has it on host too.
    fn insert_backed(&mut self, key: &[u32]) -> u64 {
        let node = self.insert_whole(key);
        self.close_step(0);
        for issued in self.issued().to_vec() {
            self.complete(&issued);
        }
        assert!(self.node(node).on_host);
        node
    }
}

/// All of an operation.
fn whole(Issued { subjects, .. }: &Issued) -> Share {
    Share {
        pages: subjects.iter().map(|subject| subject.pages).sum(),
        tokens: subjects.iter().map(|subject| subject.tokens).sum(),
        subjects: u32::try_from(subjects.len()).unwrap(),
    }
}

/// What the table asks for when all goes well.
fn good_end(issued: &Issued) -> Vec<Action> {
    let (operation, share) = (issued.ordinal, whole(issued));
    let mut actions = vec![Action::Deliver { operation, share }];
    if matches!(issued.kind, Kind::Backup | Kind::Prefetch) {
        actions.insert(0, Action::Commit { operation, share });
    }
    if issued.kind != Kind::Store {
        actions.push(Action::Settle { operation, keep: share.pages });
    }
    actions.push(Action::Unlock { operation });
    actions
}

/// What the table asks for once a given-up operation has drained.
fn drained(operation: Ordinal, from: u32) -> [Action; 2] {
    [Action::Return { operation, from }, Action::Unlock { operation }]
}
