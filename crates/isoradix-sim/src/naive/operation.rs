//! Operations, as far as they touch nodes and pages.

use isoradix_core::operation::Kind;
use isoradix_core::{Namespace, Ordinal};

use super::breaker::Outcome;
use super::node::{Node, Span};

/// A subject and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// The node at whose end the span ends; of a prefetch, the ticket.
    pub(super) id: u64,
    /// What is moved. Of a prefetch, the part of the key below the anchor, which need not be in the tree.
    pub(super) span: Span,
    /// Of a prefetch, how often storage has failed it.
    pub(super) failures: u32,
    /// Of a backup, what is copied beside each page of the path.
    pub(super) beside: Vec<u8>,
}

impl Part {
    pub(super) fn of(id: u64, span: Span) -> Self {
        Self { id, span, failures: 0, beside: vec![] }
    }

    /// The path that an operation of this kind holds for it: what it reads, or what it is to hang below.
    pub(super) fn held_path(&self, kind: Kind) -> &[u32] {
        if kind == Kind::Prefetch { self.span.above() } else { &self.span.path }
    }

    pub(super) fn holds(&self, kind: Kind, node: &Node) -> bool {
        node.leads_to(&self.span.namespace, self.held_path(kind))
    }
}

/// An operation from issue to its end.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Operation {
    pub(super) ordinal: Ordinal,
    pub(super) kind: Kind,
    pub(super) parts: Vec<Part>,
    /// Host pages of its own: as asked, then as committed, less what it has delivered.
    pub(super) held: u32,
    /// Pages that it has delivered, of whatever pool.
    pub(super) delivered: u32,
    /// It was given up; a copy may still touch its pages.
    pub(super) draining: bool,
    /// What it was about went with a reset, or with its namespace: what it delivers is nobody's.
    pub(super) orphan: bool,
    /// It is the opening of storage.
    pub(super) opens: bool,
    /// The moment from which on it is too slow; nothing, once it has been judged.
    pub(super) slow_at: Option<u64>,
    /// The leader has ended it.
    pub(super) given_up: bool,
    /// It is tried again once it is over.
    pub(super) again: bool,
    pub(super) outcome: Outcome,
}

impl Operation {
    /// Whether it touches the span's nodes on the device.
    pub(super) fn touches_device(&self) -> bool {
        matches!(self.kind, Kind::Backup | Kind::LoadBack)
    }

    /// Whether it takes pages from the host pool.
    pub(super) fn takes_host_pages(&self) -> bool {
        matches!(self.kind, Kind::Backup | Kind::Prefetch)
    }

    /// Whether it reads the span's nodes on host.
    pub(super) fn reads_host(&self) -> bool {
        matches!(self.kind, Kind::LoadBack | Kind::Store)
    }

    pub(super) fn covers(&self, node: &Node) -> bool {
        !self.orphan && self.parts.iter().any(|part| part.span.covers(node))
    }

    /// How often it keeps the node's host copy, where copies are given up: a load-back what it reads, a backup what is above it.
    pub(super) fn keeps_copies(&self, node: &Node) -> usize {
        if self.orphan {
            return 0;
        }
        let inside = |part: &Part| {
            let above = part.span.above();
            self.parts.iter().any(|other| other.span.namespace == part.span.namespace && other.span.path == above)
        };
        let keeps = |part: &&Part| match self.kind {
            Kind::LoadBack => part.holds(self.kind, node),
            // What it brings to host itself is not there yet.
            _ => !inside(part) && node.leads_to(&part.span.namespace, part.span.above()),
        };
        self.parts.iter().filter(keeps).count()
    }

    /// How often it holds the node.
    pub(super) fn holds(&self, node: &Node) -> usize {
        if self.orphan { 0 } else { self.parts.iter().filter(|part| part.holds(self.kind, node)).count() }
    }
}

/// What a reset left behind: it is free once these operations have ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limbo {
    pub(super) waits_for: Vec<Ordinal>,
    pub(super) host_pages: u32,
    pub(super) device_tokens: u64,
}

/// A receipt and what it holds: a node and all above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Receipt {
    pub(super) id: u64,
    pub(super) node: u64,
    pub(super) namespace: Namespace,
    pub(super) path: Vec<u32>,
}
