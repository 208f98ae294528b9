//! What a rank is, in numbers: which of its states are one.

use super::check::owner;
use super::fingerprint::Fingerprint;
use super::rank::{Node, Rank, Role};
use super::scope::Defect;
use isoradix_core::Ordinal;
use isoradix_core::operation::Kind;
use isoradix_core::protocol::words;
use std::hash::Hash;

impl Rank {
    /// All that decisions may read: what must be equal on all ranks.
    pub(super) fn logical(&self) -> u128 {
        let mut fingerprint = Fingerprint::new();
        self.dead.hash(&mut fingerprint);
        self.table.iter().for_each(|entry| entry.hash(&mut fingerprint));
        (self.table.base(), self.table.retired(), self.table.issued()).hash(&mut fingerprint);
        Kind::ALL.map(|kind| self.table.finished(kind)).hash(&mut fingerprint);
        self.host.ledger().hash(&mut fingerprint);
        self.device.ledger().hash(&mut fingerprint);
        for Node { operation, kind, pages, locks } in &self.tree {
            (operation, kind, pages.len(), locks).hash(&mut fingerprint);
        }
        fingerprint.finish128()
    }

    /// The decision digest. No machine reads more of it than whether it equals another one, so a hash of the state that the
    /// decisions led to does; and states that were reached in different ways stay one.
    #[expect(clippy::cast_possible_truncation, reason = "half of it")]
    pub(super) fn digest(&self) -> u64 {
        self.logical() as u64
    }

    pub(super) fn take_fingerprints(&mut self) {
        let mut fingerprint = Fingerprint::new();
        self.board.hash(&mut fingerprint);
        self.table.hash(&mut fingerprint);
        self.device.hash(&mut fingerprint);
        self.hash_pages(&mut fingerprint);
        (self.votes.vote(), self.votes.is_in_flight()).hash(&mut fingerprint);
        (self.open_step, self.step, self.faults, self.losses, self.lost).hash(&mut fingerprint);
        (self.unseen_work, self.unseen_close, self.dead).hash(&mut fingerprint);
        self.framed.as_ref().map(|vector| (vector.vote, &vector.arrived)).hash(&mut fingerprint);
        // Only the leader stamps a vote; the others are told what it was.
        let unframed = self.unframed().filter(|_| self.id == 0);
        unframed.map(|(_, vector)| vector.told).hash(&mut fingerprint);
        if self.has(Defect::WindowSlidesByVote) {
            self.seen.as_ref().map(|(_, vector)| vector.fingerprint).hash(&mut fingerprint);
        }
        self.fingerprint = fingerprint.finish128();
        self.take_exact(fingerprint);
    }

    /// What physics and decisions have made of this rank.
    pub(super) fn met(&self) -> u128 {
        let mut fingerprint = Fingerprint::new();
        (self.id, self.step, self.logical()).hash(&mut fingerprint);
        self.hash_pages(&mut fingerprint);
        fingerprint.finish128()
    }

    /// Host pages, whatever their numbers: whose each is, as the pool has it, and who reads or writes it. Ranks that differ in the
    /// numbers alone have the same future, since a free page is as good as another.
    fn hash_pages(&self, fingerprint: &mut Fingerprint) {
        self.host.ledger().hash(fingerprint);
        self.tree.iter().for_each(|node| (node.operation, node.kind, node.pages.len(), &node.locks).hash(fingerprint));
        self.copies.iter().for_each(|copy| copy.facts().hash(fingerprint));
        let mut pages: Vec<u128> = (0..self.host_pages()).map(|page| self.page_fingerprint(page)).collect();
        pages.sort_unstable();
        pages.hash(fingerprint);
    }

    fn page_fingerprint(&self, page: u32) -> u128 {
        let mut fingerprint = Fingerprint::new();
        owner(&self.host, page).hash(&mut fingerprint);
        let place = |pages: &[u32]| pages.iter().position(|other| *other == page);
        for (k, copy) in (0..).map(Ordinal).zip(&self.copies) {
            let touched = if copy.kind == Kind::LoadBack { None } else { place(&copy.touches) };
            (place(self.host.pages(k)), touched, place(&copy.reads)).hash(&mut fingerprint);
        }
        let host = self.tree.iter().filter(|node| node.kind != Kind::LoadBack);
        host.for_each(|node| place(&node.pages).hash(&mut fingerprint));
        fingerprint.finish128()
    }

    fn take_exact(&mut self, mut fingerprint: Fingerprint) {
        let compared = self.seen.as_ref().map_or(-1, |(_, vector)| vector.words[words::APPLIED_STEP]);
        for step in u64::try_from(compared).unwrap_or(0)..=self.step {
            self.board.digests().get(step).hash(&mut fingerprint);
        }
        for vector in self.seen.iter().map(|(_, vector)| vector).chain(&self.framed).chain(&self.past) {
            (vector.vote, vector.fingerprint).hash(&mut fingerprint);
        }
        self.host.hash(&mut fingerprint);
        self.copies.iter().for_each(|copy| (&copy.touches, &copy.reads).hash(&mut fingerprint));
        if let Role::Leader(_, reaped) = &self.role {
            reaped.hash(&mut fingerprint);
        }
        self.exact = fingerprint.finish128();
    }
}
