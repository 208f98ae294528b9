//! The end of a step: what it wished for is issued.

use isoradix_core::operation::{Kind, Subject};
use isoradix_core::{DeviceRoom, Ordinal};

use super::answers::Issued;
use super::breaker::Outcome;
use super::model::Model;
use super::node::{Node, Span};
use super::operation::{Operation, Part};

impl Model {
    /// Ends the step: one load-back, the prefetches in the order of their calls, one store, one backup. Of `device`, the free
    /// tokens are what write-back looks at; backups wait whose locks would take what was promised. Before that, host has no more than its capacity, if eviction can see to it.
    pub(crate) fn close_step(&mut self, device: impl Into<DeviceRoom>) {
        let device = device.into();
        let device_free = device.free;
        self.issued.clear();
        self.make_room(0, 0, device_free, &[]);
        let loads = std::mem::take(&mut self.loads);
        self.issue(Kind::LoadBack, loads);
        while let Some(part) = self.prefetches.first().cloned() {
            // It keeps its anchor until it is issued or forgotten.
            self.issue_prefetch(part, device_free);
            self.prefetches.remove(0);
        }
        self.issue_opening();
        self.issue_store();
        self.end_detach();
        self.wish_back(device_free);
        self.issue_backup(device);
    }

    /// Issues the one load-back of the step so far, before its end.
    #[cfg(test)] // the simulated schedulers begin theirs with the close
    pub(crate) fn begin_loads(&mut self) {
        self.issued.clear();
        let loads = std::mem::take(&mut self.loads);
        self.issue(Kind::LoadBack, loads);
    }

    /// What the last step issued, or [`begin_loads`](Self::begin_loads), in order.
    #[must_use]
    pub(crate) fn issued(&self) -> &[Issued] {
        &self.issued
    }

    /// A prefetch that does not fit is forgotten, and its anchor is free. Nothing is evicted for one that cannot fit. Its place in the window was kept.
    fn issue_prefetch(&mut self, part: Part, device_free: u64) {
        let pages = self.part_pages(&part);
        let fetches = self.operations.iter().filter(|operation| operation.kind == Kind::Prefetch);
        let in_flight: u32 = fetches.map(|operation| operation.held).sum();
        if in_flight + pages > self.capacity / 2 {
            return;
        }
        if u64::from(pages) <= self.obtainable_pages(device_free) {
            self.make_room(pages, 0, device_free, &[]);
        }
        if pages <= self.available() && self.admits() {
            self.issue(Kind::Prefetch, vec![part]);
        }
    }

    /// Of these, in their order, those that fit into so many pages; below what is left out, nothing is taken.
    fn fitting(&self, parts: Vec<Part>, pages: u64) -> Vec<Part> {
        let (mut left, mut fit, mut out): (u64, Vec<Part>, Vec<Part>) = (pages, vec![], vec![]);
        for part in parts {
            let below = |other: &Part| {
                other.span.namespace == part.span.namespace && part.span.above().starts_with(&other.span.path)
            };
            let needed = u64::from(self.part_pages(&part));
            if needed > left || out.iter().any(below) {
                out.push(part);
            } else {
                left -= needed;
                fit.push(part);
            }
        }
        fit
    }

    /// Free host pages, those on host alone, and copies that may be given up: some of them may be locked.
    pub(super) fn obtainable_pages(&self, device_free: u64) -> u64 {
        let spare = self.tokens(|node| node.on_device && node.on_host) - self.safe();
        let copies = if self.may_give_up_copies() { spare + self.surplus(device_free) } else { 0 };
        let copies = self.pages(copies) - self.pages_read();
        u64::from(self.available() + self.pages(self.sizes().host_only) + copies)
    }

    /// Host pages that load-backs read, where copies are given up: those go once they are over.
    fn pages_read(&self) -> u32 {
        let reading = |operation: &&Operation| operation.kind == Kind::LoadBack && !operation.orphan;
        let read = self.operations.iter().filter(reading).map(|operation| self.all_pages(&operation.parts)).sum();
        if self.may_give_up_copies() { read } else { 0 }
    }

    /// What cannot fit is left out and forgotten; nothing is evicted for it. With a full window, all wishes are kept.
    fn issue_backup(&mut self, device: DeviceRoom) {
        if !self.has_room() {
            return;
        }
        let device_free = device.free;
        let wished = self.take_wishes();
        let wished = self.within_promises(wished, device);
        let parts = self.fitting(wished, self.obtainable_pages(device_free));
        if parts.is_empty() {
            return;
        }
        let kept: Vec<Span> = parts.iter().map(|part| part.span.clone()).collect();
        self.make_room(self.all_pages(&parts), self.pages_read(), device_free, &kept);
        let parts = self.fitting(parts, self.available().into());
        let parts = parts.into_iter().map(|part| Part { beside: self.beside(&part.span), ..part }).collect();
        self.issue(Kind::Backup, parts);
    }

    /// Of these, those that may be locked together, with all above them, while what was promised stays free or evictable; the
    /// others are wished for again.
    fn within_promises(&mut self, parts: Vec<Part>, device: DeviceRoom) -> Vec<Part> {
        let (mut taken, mut again): (Vec<Part>, Vec<u64>) = (vec![], vec![]);
        let below = |part: &Part, node: &Node| node.leads_to(&part.span.namespace, &part.span.path);
        for part in parts {
            let unheld = |node: &Node| node.on_device && !self.is_held(node);
            let stays =
                |node: &Node| unheld(node) && !below(&part, node) && !taken.iter().any(|part| below(part, node));
            let adds = |node: &Node| unheld(node) && below(&part, node) && !taken.iter().any(|part| below(part, node));
            let left = device.free + self.tokens(stays);
            if left >= device.promised || self.tokens(adds) == 0 {
                taken.push(part);
            } else {
                again.push(part.id);
            }
        }
        self.wishes.extend(again);
        taken
    }

    /// What has left host meanwhile is not stored. With a full window, or while a store is under way, all of it waits.
    fn issue_store(&mut self) {
        let stores = self.operations.iter().any(|operation| operation.kind == Kind::Store && !operation.opens);
        let due = self.store_due.zip(self.now_ms).is_none_or(|(due, now)| now >= due);
        if self.stores.is_empty() || !self.has_room() || stores || !due || !self.lets() {
            return;
        }
        let mut parts = std::mem::take(&mut self.stores);
        parts.retain(|part| self.find(part.id).is_some_and(|node| node.on_host));
        let parts = self.with_all_above(&parts);
        if !parts.is_empty() {
            self.admits();
        }
        self.issue(Kind::Store, parts);
    }

    /// Of the paths of these, what storage does not have, each node once.
    fn with_all_above(&self, parts: &[Part]) -> Vec<Part> {
        let mut chosen: Vec<Part> = vec![];
        for Part { id, span, .. } in parts {
            let lacks = |node: &&Node| !node.stored && !chosen.iter().any(|part| part.span.covers(node));
            let path = self.path(&span.namespace, &span.path);
            let tokens = path.into_iter().filter(lacks).map(|node| node.path.len() - node.start).sum();
            if tokens > 0 {
                chosen.push(Part::of(*id, Span { tokens, ..span.clone() }));
            }
        }
        chosen
    }

    pub(super) fn issue(&mut self, kind: Kind, parts: Vec<Part>) {
        if parts.is_empty() {
            return;
        }
        let ordinal = Ordinal(self.next_ordinal);
        self.next_ordinal += 1;
        let subject = |part: &Part| Subject {
            id: part.id,
            pages: if kind == Kind::Store { 0 } else { self.part_pages(part) },
            tokens: part.span.tokens as u64,
        };
        self.issued.push(Issued { ordinal, kind, subjects: parts.iter().map(subject).collect() });
        let asked = self.all_pages(&parts);
        let slow_at = if matches!(kind, Kind::Prefetch | Kind::Store) { self.slow_at() } else { None };
        let mut operation = Operation {
            ordinal,
            kind,
            parts,
            held: 0,
            delivered: 0,
            draining: false,
            orphan: false,
            opens: false,
            slow_at,
            given_up: false,
            again: false,
            outcome: Outcome::default(),
        };
        if operation.takes_host_pages() {
            operation.held = asked;
        }
        self.operations.push(operation);
    }

    fn part_pages(&self, part: &Part) -> u32 {
        self.pages(part.span.tokens as u64)
    }

    fn all_pages(&self, parts: &[Part]) -> u32 {
        parts.iter().map(|part| self.part_pages(part)).sum()
    }
}
