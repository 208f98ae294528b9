//! The scopes.

use super::scope::{Order, Scope, Verb};

/// All scopes.
#[must_use]
pub fn scopes() -> &'static [Scope] {
    SCOPES
}

const PAGE_BACKUP: Verb = Verb::Backup(&[1]);
const PAGE_FETCH: Verb = Verb::Prefetch { pages: 1, least: 1 };

/// Two ranks, on each of which one thing may go wrong, and a leader that takes one decision.
const ONE: Scope = Scope { faults: &[1, 1], decisions: 1, split_steps: false, ..Scope::SMALL };

/// As it is on a good day.
const FAIR: Scope = Scope { faults: &[0, 0, 0], decisions: 0, ..ONE };

const SCOPES: &[Scope] = &[
    Scope {
        name: "A backup, every order",
        script: &[(1, Verb::Backup(&[2]))],
        reserves: &[1],
        order: Order::Every,
        ..ONE
    },
    Scope {
        name: "B backup, split steps",
        script: &[(1, Verb::Backup(&[2]))],
        reserves: &[1],
        split_steps: true,
        ..ONE
    },
    Scope { name: "C backup batch", script: &[(1, Verb::Backup(&[1, 1]))], reserves: &[0, 1], ..ONE },
    Scope {
        name: "D prefetch",
        script: &[(1, Verb::Prefetch { pages: 2, least: 1 })],
        finds: &[0, 1, 2],
        reserves: &[1],
        faults: &[0, 1],
        ..ONE
    },
    Scope {
        name: "E prefetch, unordered",
        script: &[(1, Verb::Prefetch { pages: 2, least: 2 })],
        finds: &[1, 2],
        find_first: false,
        faults: &[0, 1],
        decisions: 0,
        frames: 4,
        ..ONE
    },
    Scope {
        name: "F prefetch terminated",
        script: &[(1, Verb::Prefetch { pages: 2, least: 1 })],
        finds: &[2],
        decisions: 2,
        ..FAIR
    },
    Scope {
        name: "G sliding window",
        window: 1,
        script: &[(1, PAGE_BACKUP), (2, PAGE_BACKUP), (3, PAGE_BACKUP), (4, PAGE_BACKUP), (5, PAGE_BACKUP)],
        frames: 6,
        votes: 4,
        ..FAIR
    },
    Scope { name: "H two backups", script: &[(1, PAGE_BACKUP), (2, PAGE_BACKUP)], faults: &[0, 1], ..FAIR },
    Scope {
        name: "I prefetch and backup",
        script: &[(1, PAGE_FETCH), (2, PAGE_BACKUP)],
        finds: &[1],
        decisions: 1,
        frames: 4,
        votes: 2,
        ..FAIR
    },
    Scope {
        name: "J readers and eviction",
        warm: &[PAGE_BACKUP],
        script: &[(1, Verb::LoadBack(1)), (1, Verb::Store), (2, Verb::Evict), (3, Verb::Evict)],
        faults: &[0, 1],
        decisions: 1,
        frames: 4,
        ..FAIR
    },
    Scope {
        name: "K load-back fails",
        script: &[(1, Verb::LoadBack(1)), (1, PAGE_BACKUP)],
        fatal: true,
        faults: &[1, 1],
        decisions: 1,
        frames: 4,
        votes: 2,
        ..FAIR
    },
    Scope {
        name: "L three ranks, backup",
        ranks: 3,
        script: &[(1, PAGE_BACKUP)],
        faults: &[0, 1, 1],
        reserves: &[0],
        decisions: 1,
        frames: 4,
        votes: 2,
        ..FAIR
    },
    Scope {
        name: "M backpressure",
        in_flight: 2,
        script: &[(1, Verb::Backup(&[2]))],
        reserves: &[1],
        idle_frames: 1,
        order: Order::Late,
        ..ONE
    },
    Scope {
        name: "N memory lost",
        script: &[(1, Verb::Backup(&[2])), (3, Verb::Evict)],
        losses: &[1, 1],
        host_pages: 2,
        ..FAIR
    },
    Scope { name: "O ends posted in two", script: &[(1, Verb::Backup(&[2]))], two_posts: true, ..ONE },
    Scope {
        name: "P sole writer",
        warm: &[PAGE_BACKUP],
        script: &[(1, Verb::Store), (2, Verb::Evict), (3, Verb::Evict)],
        sole_writer: true,
        split_steps: true,
        ..ONE
    },
    Scope {
        name: "Q pages used again",
        host_pages: 2,
        script: &[(1, Verb::Prefetch { pages: 2, least: 1 }), (3, PAGE_BACKUP), (4, PAGE_BACKUP)],
        finds: &[2],
        faults: &[1, 1],
        reserves: &[1],
        frames: 4,
        ..FAIR
    },
    Scope {
        name: "R three ranks, prefetch",
        ranks: 3,
        script: &[(1, PAGE_FETCH)],
        finds: &[0, 1],
        decisions: 1,
        frames: 4,
        votes: 2,
        ..FAIR
    },
    Scope {
        name: "S three operations",
        window: 3,
        script: &[(1, PAGE_FETCH), (1, PAGE_BACKUP), (2, Verb::LoadBack(1))],
        finds: &[1],
        frames: 3,
        votes: 2,
        ..FAIR
    },
    Scope {
        name: "T three ranks, two backups",
        ranks: 3,
        script: &[(1, PAGE_BACKUP), (2, PAGE_BACKUP)],
        frames: 4,
        votes: 2,
        ..FAIR
    },
];
