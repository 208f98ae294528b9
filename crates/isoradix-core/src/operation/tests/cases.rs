//! Inputs on which caches have gone wrong, as far as they concern this level.

use super::*;

#[test]
fn case_10_aborted_prefetches_hold_nothing_and_the_next_is_admitted() {
    let mut table = table(Pools::USUAL);
    let waiting: Vec<Ordinal> = (0..4).map(|_| issue(&mut table, Kind::Prefetch, 100)).collect();
    for k in waiting {
        assert_eq!(table.apply(abort(k)).unwrap(), [Action::Cancel { operation: k, keep: 0 }]);
    }
    assert_eq!(held(&table, Pools::USUAL, Kind::Prefetch), 400, "until no rank's copy touches them");
    table.apply(finished(Kind::Prefetch, 4)).unwrap();
    assert_eq!((held(&table, Pools::USUAL, Kind::Prefetch), table.retired()), (0, 4));
    table.slide(agreed(4)).unwrap();
    issue(&mut table, Kind::Prefetch, 100);
}

#[test]
fn case_13_two_load_backs_on_one_path_both_complete() {
    let mut table = table(Pools::USUAL);
    let [ancestor, below] = [3, 2].map(|pages| issue(&mut table, Kind::LoadBack, pages));
    let mut delivered = Vec::new();
    for event in [progress(below, PAGE), abort(ancestor), time_out(below), ready(below, true), ready(ancestor, true)] {
        delivered.extend(table.apply(event).unwrap().into_iter().filter(|a| matches!(a, Action::Deliver { .. })));
    }
    let deliver = |operation, pages| Action::Deliver { operation, share: share(pages, 1) };
    assert_eq!(delivered, [deliver(below, 2), deliver(ancestor, 3)], "each once, whole");
    assert_eq!((state(&table, below), state(&table, ancestor)), (State::Done, State::Done));
}

#[test]
fn case_14_a_failed_store_ends_and_the_next_one_succeeds() {
    let mut table = table(Pools::USUAL);
    let [bad, good] = [(); 2].map(|()| issue(&mut table, Kind::Store, 3));
    assert_eq!(table.apply(ready(bad, false)).unwrap(), [Action::Cancel { operation: bad, keep: 0 }]);
    let stored = Share { pages: 0, tokens: 3 * PAGE, subjects: 1 };
    let end = [Action::Deliver { operation: good, share: stored }, Action::Unlock { operation: good }];
    assert_eq!(table.apply(ready(good, true)).unwrap(), end);
    assert_eq!(table.apply(finished(Kind::Store, 2)).unwrap(), [Action::Unlock { operation: bad }]);
}

#[test]
fn case_15_an_operation_that_this_rank_lacks_is_form_b_and_nothing_is_popped() {
    let mut table = table(Pools::USUAL);
    let lacking = Ordinal(0);
    for (event, said) in [
        (hit(lacking, 64), "hit"),
        (granted(lacking, 1), "granted"),
        (progress(lacking, 64), "progress"),
        (ready(lacking, true), "ready"),
        (terminate(lacking), "terminate"),
        (time_out(lacking), "time_out"),
        (abort(lacking), "abort"),
    ] {
        let text = format!("divergence (form B): {said} of operation 0 is agreed, rank 2 has issued 0 operations\n");
        assert_eq!(refused(&mut table, event), text + "hint: isoradix diff DIR");
    }
    let error = refused(&mut table, finished(Kind::Backup, 1));
    assert!(error.starts_with("divergence (form B): finished watermark 1 is agreed, rank 2 has 0\n"), "{error}");
    let error = table.apply_slot(Ordinal(7), [-1, -1, -1, 1].map(agreed)).unwrap_err();
    assert_eq!(error, OperationError::NotIssued { rank: RANK, operation: Ordinal(7), said: "ready", issued: 0 });
    assert_eq!(table, super::table(Pools::USUAL));
}

#[test]
fn case_20_one_vote_of_no_pages_is_enough() {
    let mut table = table(Pools::USUAL);
    let operation = issue(&mut table, Kind::Backup, 3);
    assert_eq!(table.apply(granted(operation, 0)).unwrap(), [Action::Cancel { operation, keep: 0 }]);
    let end = table.apply(finished(Kind::Backup, 1)).unwrap();
    assert_eq!(end, [Action::Return { operation, from: 0 }, Action::Unlock { operation }]);
}

#[test]
fn case_21_a_failure_after_agreed_readiness_comes_too_late() {
    let mut table = table(Pools::USUAL);
    let k = issue(&mut table, Kind::Prefetch, 2);
    for event in [hit(k, 2 * PAGE), granted(k, 2), progress(k, 2 * PAGE), ready(k, true)] {
        table.apply(event).unwrap();
    }
    let before = table.clone();
    assert_eq!(table.apply(ready(k, false)).unwrap(), []);
    assert_eq!(table, before, "it was taken on every rank");
    // The failure is an input of what comes next.
    let next = issue(&mut table, Kind::Prefetch, 2);
    assert_eq!(table.apply(ready(next, false)).unwrap(), [Action::Cancel { operation: next, keep: 0 }]);
}

#[test]
fn a_terminated_prefetch_keeps_exactly_the_framed_progress() {
    for end in [terminate, time_out] {
        let mut table = table(Pools::USUAL);
        let operation = issue(&mut table, Kind::Prefetch, 10);
        for event in [hit(operation, 9 * PAGE), granted(operation, 8), progress(operation, 3 * PAGE)] {
            table.apply(event).unwrap();
        }
        let kept = [Action::Deliver { operation, share: share(3, 1) }, Action::Cancel { operation, keep: 3 }];
        assert_eq!(table.apply(end(operation)).unwrap(), kept);
        assert_eq!(held(&table, Pools::USUAL, Kind::Prefetch), 5, "a copy may still touch them");
        assert_eq!(table.apply(progress(operation, 7 * PAGE)).unwrap(), [], "too late to count");
        assert_eq!(table.apply(end(operation)).unwrap(), [], "terminated already");
        let rest = [Action::Return { operation, from: 3 }, Action::Unlock { operation }];
        assert_eq!(table.apply(finished(Kind::Prefetch, 1)).unwrap(), rest);
    }
}

#[test]
fn terminating_or_aborting_what_is_over_does_nothing() {
    for state in [State::Done, State::Aborted] {
        let mut table = at(Kind::Prefetch, Pools::USUAL, state).unwrap();
        let before = table.clone();
        for event in [terminate, time_out, abort] {
            assert_eq!(table.apply(event(Ordinal(0))).unwrap(), []);
        }
        assert_eq!(table, before);
        table.slide(agreed(1)).unwrap();
        assert_eq!(table.apply(terminate(Ordinal(0))).unwrap(), [], "retired on all ranks");
    }
}

#[test]
fn a_load_back_that_fails_after_commit_is_fatal_and_named() {
    let mut table = table(Pools::USUAL);
    let operation = issue(&mut table, Kind::LoadBack, 2);
    let error = table.apply(ready(operation, false)).unwrap_err();
    assert_eq!(error, OperationError::Fatal { rank: RANK, operation, kind: Kind::LoadBack });
    assert!(error.to_string().starts_with("load_back 0 failed after commit, seen on rank 2"), "{error}");
    assert!(!error.is_divergence(), "all ranks see it");
    assert_eq!(state(&table, operation), State::Committed);
}
