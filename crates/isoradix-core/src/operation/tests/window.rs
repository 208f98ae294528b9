//! Admission, retirement, and what ties both to the other ranks.

use super::*;
use crate::protocol::WINDOW_MAX;

#[test]
fn a_window_lets_something_in_and_has_a_limit() {
    for width in [0, WINDOW_MAX + 1] {
        let refused = OperationTable::new(RANK, width, Pools::USUAL).unwrap_err().to_string();
        assert!(refused.starts_with(&format!("window {width} is out of range: 1 to 4096\nhint: ")), "{refused}");
    }
    let mut table = OperationTable::new(RANK, 1, Pools::USUAL).unwrap();
    issue(&mut table, Kind::Store, 1);
    assert!(table.issue(Kind::Store, 0, 64, 1).is_err());
}

#[test]
fn an_ordinal_past_the_window_is_declined_until_the_window_slides() {
    let mut table = table(Pools::USUAL);
    let issued: Vec<u64> = Kind::ALL.into_iter().map(|kind| issue(&mut table, kind, 1).0).collect();
    assert_eq!(issued, [0, 1, 2, 3]);
    let before = table.clone();
    let declined = table.issue(Kind::Store, 0, 64, 1).unwrap_err();
    assert_eq!(declined, Declined::WindowFull { next: Ordinal(4), base: 0, window: 4 });
    assert!(declined.to_string().starts_with("operation 4 is past the window of 4 operations from 0 on\nhint: "));
    assert_eq!(table, before, "no ordinal is taken");

    table.apply(abort(Ordinal(0))).unwrap();
    table.apply(finished(Kind::Backup, 1)).unwrap();
    assert_eq!((table.retired(), table.base()), (1, 0));
    assert!(table.issue(Kind::Store, 0, 64, 1).is_err(), "retired here, which is not enough");
    table.slide(agreed(1)).unwrap();
    assert_eq!(issue(&mut table, Kind::Store, 1), Ordinal(4));
}

#[test]
fn operations_retire_in_order() {
    let mut table = table(Pools::USUAL);
    let [a, b, c] = [(); 3].map(|()| issue(&mut table, Kind::LoadBack, 1));
    for (k, retired) in [(c, 0), (b, 0), (a, 3)] {
        table.apply(ready(k, true)).unwrap();
        assert_eq!(table.retired(), retired);
    }
    table.slide(agreed(2)).unwrap();
    assert_eq!((table.operation(b), state(&table, c)), (None, State::Done));
    assert_eq!((table.issued(), table.base(), table.retired()), (3, 2, 3));
}

#[test]
fn the_window_never_goes_back_nor_past_what_is_retired_here() {
    let mut table = table(Pools::USUAL);
    issue(&mut table, Kind::LoadBack, 1);
    issue(&mut table, Kind::LoadBack, 1);
    table.apply(ready(Ordinal(0), true)).unwrap();
    let text = |error: OperationError| error.to_string().lines().next().unwrap().to_owned();
    let error = table.slide(agreed(2)).unwrap_err();
    assert_eq!(text(error), "divergence (form B): retired 2 is agreed, rank 2 has 1");
    table.slide(agreed(1)).unwrap();
    table.slide(agreed(1)).unwrap();
    assert_eq!(
        text(table.slide(agreed(0)).unwrap_err()),
        "divergence: retired went back from 1 to 0, as rank 2 sees it"
    );
    assert_eq!((table.base(), table.issued()), (1, 2));
}

#[test]
fn a_watermark_passes_only_its_own_fifo_and_never_goes_back() {
    let mut table = table(Pools::USUAL);
    let [backup, prefetch] = [Kind::Backup, Kind::Prefetch].map(|kind| issue(&mut table, kind, 1));
    table.apply(abort(backup)).unwrap();
    table.apply(abort(prefetch)).unwrap();
    table.apply(finished(Kind::Prefetch, 2)).unwrap();
    assert_eq!((state(&table, backup), state(&table, prefetch)), (State::Draining, State::Aborted));
    let error = refused(&mut table, finished(Kind::Prefetch, 1));
    assert!(error.starts_with("divergence: finished watermark went back from 2 to 1"), "{error}");
    let error = refused(&mut table, finished(Kind::Backup, 3));
    assert!(error.starts_with("divergence (form B): finished watermark 3 is agreed, rank 2 has 2"), "{error}");
    let open = issue(&mut table, Kind::Backup, 1);
    let error = refused(&mut table, finished(Kind::Backup, 3));
    assert!(error.contains(&format!("backup {open} is issued on rank 2, where passed cannot happen")), "{error}");
    assert_eq!(state(&table, backup), State::Draining, "not even the one that it could have passed");
}

#[test]
fn what_makes_no_sense_is_declined() {
    let mut table = table(Pools::USUAL);
    let part = |pages, tokens| Subject { id: 1, pages, tokens };
    let cases: [(Kind, &[Subject], &str); 9] = [
        (Kind::Backup, &[], "a backup of 0 tokens or 0 pages"),
        (Kind::Backup, &[part(1, 64), part(0, 64)], "a backup of 0 tokens or 0 pages"),
        (Kind::Prefetch, &[part(1, 0)], "a prefetch of 0 tokens or 0 pages"),
        (Kind::Store, &[], "a store of 0 tokens or 0 pages"),
        (Kind::Store, &[part(2, 128)], "a store of 2 pages, limit 0"),
        (Kind::Prefetch, &[part(1, 64), part(1, 64)], "a prefetch of 2 pages and 128 tokens"),
        (Kind::Prefetch, &[part(2, 129)], "a prefetch of 2 pages and 129 tokens"),
        (Kind::Backup, &[part(u32::MAX, 1), part(1, 1)], "a backup of 4294967296 pages and 2 tokens"),
        (Kind::Store, &[part(0, u64::MAX), part(0, 9)], "a store of 0 pages and 18446744073709551615 tokens"),
    ];
    for (kind, subjects, text) in cases {
        let declined = table.issue_batch(kind, subjects).unwrap_err().to_string();
        assert!(declined.starts_with(&format!("{text}\nhint: ")), "{declined}");
    }
    assert_eq!((table.issued(), table.iter().count()), (0, 0));
}
