//! Votes as they come: all numbers of an operation at once, again and again.

use super::*;

const UNKNOWN: i64 = -1;
const NO_STAKE: i64 = i64::MAX;

fn hear(table: &mut OperationTable, operation: Ordinal, words: [i64; 4]) -> Vec<Action> {
    table.apply_slot(operation, words.map(agreed)).unwrap()
}

fn tokens(pages: u64) -> i64 {
    (pages * PAGE).cast_signed()
}

#[test]
fn one_vote_may_carry_a_whole_life() {
    let mut table = table(Pools::USUAL);
    let operation = issue(&mut table, Kind::Prefetch, 10);
    let votes = [tokens(8), 6, tokens(5), 1];
    let expected = [
        Action::Commit { operation, share: share(6, 1) },
        Action::Deliver { operation, share: share(5, 1) },
        Action::Settle { operation, keep: 5 },
        Action::Unlock { operation },
    ];
    assert_eq!(hear(&mut table, operation, votes), expected);
    assert_eq!((state(&table, operation), table.retired()), (State::Done, 1));
    assert_eq!(hear(&mut table, operation, votes), []);
}

#[test]
fn votes_that_repeat_or_come_late_change_nothing() {
    let mut table = table(Pools::USUAL);
    let k = issue(&mut table, Kind::Prefetch, 4);
    assert_eq!(hear(&mut table, k, [UNKNOWN; 4]), []);
    for _ in 0..3 {
        hear(&mut table, k, [tokens(4), UNKNOWN, UNKNOWN, UNKNOWN]);
        assert_eq!(state(&table, k), State::Queried);
    }
    table.apply(terminate(k)).unwrap();
    for late in [[tokens(4), 4, UNKNOWN, UNKNOWN], [tokens(4), 4, tokens(3), UNKNOWN], [tokens(4), 4, tokens(3), 1]] {
        assert_eq!(hear(&mut table, k, late), []);
        assert_eq!(state(&table, k), State::Draining);
    }
    table.apply(finished(Kind::Prefetch, 1)).unwrap();
    table.slide(agreed(1)).unwrap();
    assert_eq!(hear(&mut table, k, [tokens(4), 4, tokens(3), 1]), [], "retired everywhere");
}

#[test]
fn pages_and_hit_are_agreed_in_either_order() {
    for pages_first in [false, true] {
        let mut table = table(Pools::USUAL);
        let operation = issue(&mut table, Kind::Prefetch, 8);
        let first = if pages_first { [UNKNOWN, 5, UNKNOWN, UNKNOWN] } else { [tokens(3), UNKNOWN, UNKNOWN, UNKNOWN] };
        assert_eq!(hear(&mut table, operation, first), []);
        let actions = hear(&mut table, operation, [tokens(3), 5, UNKNOWN, UNKNOWN]);
        assert_eq!(actions, [Action::Commit { operation, share: share(3, 1) }], "the smaller of hit and grant");
    }
}

#[test]
fn where_no_rank_has_a_stake_nothing_is_in_the_way() {
    let mut table = table(Pools::USUAL);
    let backup = issue(&mut table, Kind::Backup, 2);
    assert_eq!(hear(&mut table, backup, [NO_STAKE, UNKNOWN, NO_STAKE, UNKNOWN]), []);
    let actions = hear(&mut table, backup, [NO_STAKE, NO_STAKE, NO_STAKE, UNKNOWN]);
    assert_eq!(actions, [Action::Commit { operation: backup, share: share(2, 1) }]);
    assert_eq!(state(&table, backup), State::Copying);
    let store = issue(&mut table, Kind::Store, 2);
    hear(&mut table, store, [NO_STAKE; 4]);
    assert_eq!(state(&table, store), State::Done);
    // Votes on what the kind does not ask are not heard.
    let load = issue(&mut table, Kind::LoadBack, 2);
    hear(&mut table, load, [0, 0, UNKNOWN, UNKNOWN]);
    assert_eq!(state(&table, load), State::Committed);
}

#[test]
fn a_refused_vote_changes_nothing() {
    let cases: [([i64; 4], &str); 5] = [
        ([tokens(2), UNKNOWN, UNKNOWN, UNKNOWN], "hit of operation 0 went back from 256 to 128"),
        ([UNKNOWN; 4], "hit of operation 0 went back from 256 to -1"),
        ([tokens(4), 5, UNKNOWN, UNKNOWN], "grant 5 of prefetch 0 is agreed, rank 2 has 4"),
        ([tokens(4), 3, tokens(4), UNKNOWN], "progress 256 of prefetch 0 is agreed, rank 2 has 192"),
        ([tokens(4), UNKNOWN, UNKNOWN, 1], "prefetch 0 is queried on rank 2, where succeeded cannot happen"),
    ];
    for (votes, text) in cases {
        let mut table = table(Pools::USUAL);
        let k = issue(&mut table, Kind::Prefetch, 4);
        hear(&mut table, k, [tokens(4), UNKNOWN, UNKNOWN, UNKNOWN]);
        let before = table.clone();
        let error = table.apply_slot(k, votes.map(agreed)).unwrap_err();
        assert!(error.to_string().contains(text) && error.is_divergence(), "{error}");
        assert_eq!(table, before);
    }
}

#[test]
fn a_short_grant_is_enough_for_the_leading_subjects_of_a_batch() {
    let part = |id, pages: u32| Subject { id, pages, tokens: u64::from(pages) * PAGE };
    let mut table = table(Pools::USUAL);
    let operation = table.issue_batch(Kind::Backup, &[part(7, 4), part(8, 3), part(9, 5)]).unwrap();
    let actions = hear(&mut table, operation, [NO_STAKE, 8, UNKNOWN, UNKNOWN]);
    assert_eq!(actions, [Action::Commit { operation, share: share(7, 2) }]);
    assert_eq!(held(&table, Pools::USUAL, Kind::Backup), 7);
    let actions = hear(&mut table, operation, [NO_STAKE, 8, UNKNOWN, 1]);
    let end = [
        Action::Deliver { operation, share: share(7, 2) },
        Action::Settle { operation, keep: 7 },
        Action::Unlock { operation },
    ];
    assert_eq!(actions, end);
    let next = table.issue_batch(Kind::Backup, &[part(7, 4), part(8, 3)]).unwrap();
    let actions = hear(&mut table, next, [NO_STAKE, 3, UNKNOWN, UNKNOWN]);
    assert_eq!(actions, [Action::Cancel { operation: next, keep: 0 }], "not even the first one fits");
}

#[test]
fn a_prefetch_below_its_minimum_ends() {
    for votes in
        [[tokens(3), UNKNOWN, UNKNOWN, UNKNOWN], [tokens(8), 3, UNKNOWN, UNKNOWN], [UNKNOWN, 3, UNKNOWN, UNKNOWN]]
    {
        let mut table = table(Pools::USUAL);
        let operation = table.issue_prefetch(8, 8 * PAGE, 4, 1).unwrap();
        assert_eq!(hear(&mut table, operation, votes), [Action::Cancel { operation, keep: 0 }]);
        assert_eq!(held(&table, Pools::USUAL, Kind::Prefetch), 8, "another rank's copy may be under way");
        let returned = table.apply(finished(Kind::Prefetch, 1)).unwrap();
        assert_eq!(returned, [Action::Return { operation, from: 0 }, Action::Unlock { operation }]);
    }
}

#[test]
fn a_part_of_a_page_is_no_page() {
    let mut table = table(Pools::USUAL);
    let operation = issue(&mut table, Kind::Prefetch, 4);
    let actions = hear(&mut table, operation, [150, 4, 140, UNKNOWN]);
    assert_eq!(actions, [Action::Commit { operation, share: share(2, 1) }]);
    let kept = [Action::Deliver { operation, share: share(2, 1) }, Action::Cancel { operation, keep: 2 }];
    assert_eq!(table.clone().apply(terminate(operation)).unwrap(), kept);
    let error = table.apply_slot(operation, [150, 4, 151, UNKNOWN].map(agreed)).unwrap_err().to_string();
    assert!(error.contains("progress 151 of prefetch 0 is agreed, rank 2 has 150"), "{error}");
}
