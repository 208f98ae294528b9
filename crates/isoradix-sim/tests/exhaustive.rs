//! The exhaustive exploration: that it misses nothing by being thrifty, that the machines stand it, and that it can fail.

use isoradix_sim::exhaustive::{Defect, Event, Order, Outcome, Scope, Verb, run, run_with, scopes};
use std::collections::BTreeSet;

const BACKUP: Verb = Verb::Backup(&[1]);

/// Two ranks, one backup of a page, one copy that may fail, one decision of the leader.
const TINY: Scope = Scope {
    name: "tiny",
    script: &[(1, BACKUP)],
    frames: 4,
    votes: 2,
    decisions: 1,
    faults: &[0, 1],
    split_steps: false,
    ..Scope::SMALL
};

fn clean(scope: &Scope) -> Outcome {
    let outcome = run(scope, |_| {});
    if let Some(violation) = &outcome.violation {
        panic!("{violation}");
    }
    outcome
}

/// The mistake leads to a violation, and without it there is none.
fn caught(scope: &Scope, defect: Defect, expected: &str) {
    let outcome = run_with(scope, defect);
    let violation = outcome.violation.unwrap_or_else(|| panic!("{defect:?} is not caught"));
    assert!(violation.what.contains(expected), "{defect:?}: {violation}");
    assert!(violation.path.iter().any(|event| matches!(event, Event::Lead { .. })), "{violation}");
    let last = format!("violation on rank {}: {}", violation.rank, violation.what);
    assert!(violation.to_string().ends_with(&last), "{violation}");
    clean(scope);
}

#[test]
fn no_order_misses_anything() {
    const FETCH: Verb = Verb::Prefetch { pages: 1, least: 1 };
    let quiet = Scope { decisions: 0, faults: &[0, 0, 0], ..TINY };
    let scopes = [
        TINY,
        Scope { split_steps: true, votes: 1, frames: 3, ..TINY },
        Scope { script: &[(1, FETCH)], finds: &[0, 1], frames: 3, faults: &[0, 1], ..quiet },
        Scope { warm: &[BACKUP], script: &[(1, Verb::Store), (2, Verb::Evict)], frames: 3, ..TINY },
        Scope { script: &[(1, BACKUP), (1, Verb::LoadBack(1))], votes: 1, frames: 2, ..quiet },
        Scope { two_posts: true, losses: &[1, 0], frames: 3, ..quiet },
        Scope { ranks: 3, votes: 1, frames: 2, ..quiet },
    ];
    for scope in scopes {
        let [every, late, turns] = [Order::Every, Order::Late, Order::Turns].map(|order| {
            let outcome = clean(&Scope { order, ..scope });
            println!("{order:?} {outcome}");
            (outcome.histories, outcome.histories_sum)
        });
        assert!(every.0 > 10, "{scope:?}");
        assert_eq!((every, every), (late, turns), "{scope:?}");
    }
}

#[test]
fn a_run_is_the_same_every_time() {
    let scope = Scope { votes: 1, ..TINY };
    assert_eq!(clean(&scope), clean(&scope));
}

#[test]
fn pages_freed_under_a_copy_are_caught() {
    caught(&TINY, Defect::CancelFreesPages, "may touch page 0: Nobody");
    caught(&TINY, Defect::FinishedWhileCopying, "may touch page 0: Nobody");
}

#[test]
fn locks_that_are_not_looked_at_are_caught() {
    let script = &[(1, Verb::Store), (2, Verb::Evict)];
    let scope = Scope { warm: &[BACKUP], script, frames: 3, decisions: 0, ..TINY };
    caught(&scope, Defect::EvictsLocked, "may read page 0: Nobody");
}

#[test]
fn what_is_delivered_too_early_is_caught() {
    caught(&TINY, Defect::ReadyAtStart, "of which some rank has copied 0");
    let script = &[(1, Verb::Prefetch { pages: 2, least: 1 })];
    let scope = Scope { script, finds: &[2], faults: &[0, 0], frames: 3, ..TINY };
    caught(&scope, Defect::ProgressAhead, "of which some rank has copied");
}

#[test]
fn ranks_that_issue_at_different_steps_are_caught() {
    let scope = Scope { decisions: 0, faults: &[0, 0], script: &[(1, BACKUP), (2, BACKUP)], frames: 3, ..TINY };
    caught(&scope, Defect::IssueWaitsForOwnCopy, "has led to another state than elsewhere");
    let script = &[(1, BACKUP), (2, BACKUP), (3, BACKUP), (4, BACKUP)];
    let scope = Scope { window: 1, script, frames: 4, votes: 3, ..scope };
    caught(&scope, Defect::WindowSlidesByVote, "operations past the window are declined");
}

#[test]
fn a_vote_that_is_left_out_is_caught_by_what_never_ends() {
    caught(&TINY, Defect::IdleDoesNotVote, "not over after");
}

#[test]
fn capacity_that_never_rises_again_is_caught() {
    let scope = Scope { losses: &[0, 1], host_pages: 1, faults: &[0, 0], decisions: 0, ..TINY };
    caught(&scope, Defect::CapacityNeverRises, "not over after");
}

#[test]
fn scopes_have_names_and_bounds() {
    let names: BTreeSet<&str> = scopes().iter().map(|scope| scope.name).collect();
    assert_eq!(names.len(), scopes().len());
    for Scope { name, ranks, faults, losses, .. } in scopes() {
        assert!(
            (2..=3).contains(ranks) && faults.len() >= *ranks as usize && losses.len() >= *ranks as usize,
            "{name}"
        );
    }
}
