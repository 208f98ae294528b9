//! External storage attached and detached while ranks run.

use super::cluster::{Cluster, Setup, Station, ns};
use super::{k, on_host, tokens};
use isoradix_core::operation::Kind;
use isoradix_core::protocol::{Backoff, BreakerRule, Control};
use isoradix_core::{Attachment, Ints, NodeHandle, RecordKind, Tiers};

fn cluster(storage: bool) -> Cluster {
    let mut setup = Setup::of_pages(4, 400, 100, 3);
    let breaker = Some(BreakerRule { failures_max: 1, open_ms: 1_000, trials: 1, slow_ms: 500 });
    let retry = Backoff { first_ms: 0, longest_ms: 0, attempts_max: 2 };
    setup.tiers = Tiers { storage, prefetch_min: 4, breaker, patience: None, retry, ..setup.tiers };
    Cluster::new(&setup)
}

fn attachment(cluster: &mut Cluster) -> Attachment {
    cluster.all(|station| station.rank.cache().attachment())
}

/// What the ranks were told, the same at the end of each step.
fn told(cluster: &mut Cluster) -> Vec<&'static str> {
    cluster.all(|station| std::mem::take(&mut station.told))
}

fn open(cluster: &mut Cluster, well: [bool; 3]) {
    cluster.step(&[Control::Attach], |_| ());
    cluster.stations.iter_mut().zip(well).for_each(|(station, well)| station.open(well));
}

fn wishes(station: &mut Station) -> bool {
    station.cache().prefetch(Ints::U32(&tokens(500..540)), &ns(), NodeHandle::ROOT).unwrap().is_some()
}

fn said(cluster: &mut Cluster) -> Vec<u64> {
    cluster.all(|station| {
        let journal = station.rank.cache().cache().journal();
        journal.iter().filter(|record| record.kind == RecordKind::Attachment).map(|record| record.a).collect()
    })
}

#[test]
fn storage_is_there_once_every_rank_has_opened_it() {
    let mut cluster = cluster(false);
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.settle();
    open(&mut cluster, [true; 3]);
    assert_eq!(attachment(&mut cluster), Attachment::Opening);
    assert_eq!(told(&mut cluster), Vec::<&str>::new());
    cluster.vote();
    cluster.step(&[], |station| station.insert(&tokens(100..120)));
    assert_eq!((attachment(&mut cluster), told(&mut cluster)), (Attachment::Attached, vec!["attached"]));
    cluster.settle();
    let totals = cluster.all(|station| station.rank.cache().totals());
    assert_eq!((totals.stored_tokens, said(&mut cluster)), (20, vec![1]), "what comes to host from here on");
    cluster.assert_quiet();
}

#[test]
fn no_rank_attaches_what_one_cannot_open() {
    let mut cluster = cluster(false);
    open(&mut cluster, [true, false, true]);
    cluster.settle();
    assert_eq!((attachment(&mut cluster), told(&mut cluster)), (Attachment::Absent, vec!["refused"]));
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.settle();
    assert_eq!(cluster.all(|station| station.rank.cache().totals().of(Kind::Store).issued), 1, "the one that opened");
    open(&mut cluster, [true; 3]);
    cluster.settle();
    assert_eq!((attachment(&mut cluster), said(&mut cluster)), (Attachment::Attached, vec![2, 1]));
    cluster.assert_quiet();
}

#[test]
fn what_is_wanted_no_more_is_refused_though_it_could_be_opened() {
    let mut cluster = cluster(false);
    open(&mut cluster, [true; 3]);
    cluster.step(&[Control::Detach], |_| ());
    cluster.settle();
    assert_eq!((attachment(&mut cluster), told(&mut cluster)), (Attachment::Absent, vec!["refused"]));
    cluster.assert_quiet();
}

#[test]
fn an_opening_that_one_rank_never_answers_is_called_off() {
    let mut cluster = cluster(false);
    cluster.step(&[Control::Attach], |_| ());
    cluster.stations.iter_mut().take(2).for_each(|station| station.open(true));
    cluster.settle();
    assert_eq!(attachment(&mut cluster), Attachment::Opening, "the third is still at it");
    cluster.step(&[Control::Detach], |_| ());
    cluster.settle();
    assert_eq!((attachment(&mut cluster), told(&mut cluster)), (Attachment::Absent, vec!["refused"]));
    cluster.assert_quiet();
    cluster.stations.iter_mut().for_each(|station| station.opening.clear());
    open(&mut cluster, [true; 3]);
    cluster.settle();
    assert_eq!(attachment(&mut cluster), Attachment::Attached, "it can be attached anew");
}

#[test]
fn detaching_writes_what_was_to_be_stored_and_begins_nothing() {
    let mut cluster = cluster(true);
    cluster.step(&[], |station| {
        station.insert(&tokens(0..20));
        assert!(wishes(station));
    });
    cluster.end(k(1));
    cluster.vote();
    cluster.step(&[Control::Detach], |station| {
        assert!(!wishes(station), "nothing is asked for any more");
        station.insert(&tokens(100..120));
    });
    assert_eq!(attachment(&mut cluster), Attachment::Detaching);
    cluster.stations.iter_mut().for_each(|station| station.answer(k(0), 40));
    cluster.settle();
    let totals = cluster.all(|station| station.rank.cache().totals());
    assert_eq!((totals.stored_tokens, totals.given_up_tokens, totals.prefetched_tokens), (20, 0, 40));
    assert_eq!((attachment(&mut cluster), told(&mut cluster)), (Attachment::Absent, vec!["detached"]));
    assert_eq!((on_host(&mut cluster), said(&mut cluster)), (80, vec![3, 4]));
    cluster.step(&[], |station| assert!(!wishes(station)));
    open(&mut cluster, [true; 3]);
    cluster.settle();
    cluster.step(&[], |station| assert!(wishes(station), "other storage is asked again"));
}

#[test]
fn what_cannot_be_stored_while_it_is_detached_is_given_up_and_counted() {
    let mut cluster = cluster(true);
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.end(k(0));
    cluster.vote();
    cluster.step(&[Control::Detach], |_| ());
    cluster.stations.iter_mut().enumerate().for_each(|(rank, station)| station.end(k(1), rank != 2));
    cluster.settle();
    let totals = cluster.all(|station| station.rank.cache().totals());
    assert_eq!((totals.stored_tokens, totals.given_up_tokens, totals.breaker_opened), (0, 20, 1));
    assert_eq!((attachment(&mut cluster), told(&mut cluster)), (Attachment::Absent, vec!["detached"]));
    cluster.assert_quiet();
}

/// What is on its way to host when storage is detached was to be stored.
#[test]
fn detaching_waits_for_backups_that_were_under_way() {
    let mut cluster = cluster(true);
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.step(&[Control::Detach], |station| station.insert(&tokens(100..120)));
    cluster.step(&[], |_| ());
    assert_eq!(attachment(&mut cluster), Attachment::Detaching);
    cluster.settle();
    let totals = cluster.all(|station| station.rank.cache().totals());
    assert_eq!((totals.backed_up_tokens, totals.stored_tokens, totals.given_up_tokens), (40, 20, 0));
    assert_eq!((attachment(&mut cluster), told(&mut cluster)), (Attachment::Absent, vec!["detached"]));
    cluster.assert_quiet();
}

#[test]
fn detaching_waits_for_no_backup_whose_nodes_are_gone() {
    let mut cluster = cluster(true);
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.step(&[Control::Detach], |station| {
        let mut freed = Vec::new();
        station.cache().reset(&mut freed);
        station.device.free(Ints::I64(&freed)).unwrap();
    });
    assert_eq!(attachment(&mut cluster), Attachment::Absent);
    cluster.settle();
    cluster.assert_quiet();
}

/// The breaker waits for one trial, and may close.
#[test]
fn detaching_during_a_trial_waits_for_what_comes_of_it() {
    for well in [true, false] {
        let mut cluster = cluster(true);
        cluster.step(&[], |station| assert!(wishes(station)));
        cluster.stations[0].fail_question(k(0));
        cluster.stations.iter_mut().skip(1).for_each(|station| station.answer(k(0), 40));
        cluster.settle();
        cluster.step(&[], |station| station.insert(&tokens(0..20)));
        cluster.settle();
        cluster.now_ms += 1_000;
        cluster.step(&[], |_| ());
        let trial = cluster.all(|station| station.rank.cache().breaker().unwrap().as_str().to_owned());
        assert_eq!(trial, "trial");
        cluster.step(&[], |station| station.insert(&tokens(100..120)));
        let backup = cluster.all(|station| station.rank.cache().operations().issued()) - 1;
        cluster.end(k(backup));
        cluster.vote();
        cluster.step(&[Control::Detach], |_| ());
        assert_eq!(attachment(&mut cluster), Attachment::Detaching);
        cluster.stations.iter_mut().for_each(|station| station.end(k(backup - 1), well));
        cluster.settle();
        let totals = cluster.all(|station| station.rank.cache().totals());
        let expected = if well { (40, 0) } else { (0, 40) };
        assert_eq!((totals.stored_tokens, totals.given_up_tokens), expected);
        assert_eq!(attachment(&mut cluster), Attachment::Absent);
        cluster.assert_quiet();
    }
}

/// What came to host without storage, or went to another one, is stored with what comes below it.
#[test]
fn new_storage_gets_what_is_above_too() {
    let mut cluster = cluster(false);
    let insert = |cluster: &mut Cluster, to| {
        cluster.step(&[], |station| station.insert(&tokens(0..to)));
        cluster.settle();
        cluster.all(|station| station.rank.cache().totals().stored_tokens)
    };
    assert_eq!(insert(&mut cluster, 20), 0);
    open(&mut cluster, [true; 3]);
    cluster.settle();
    assert_eq!(insert(&mut cluster, 40), 40);
    assert_eq!(insert(&mut cluster, 60), 60);
    cluster.step(&[Control::Detach], |_| ());
    open(&mut cluster, [true; 3]);
    cluster.settle();
    assert_eq!(insert(&mut cluster, 80), 60 + 80);
    cluster.assert_quiet();
}

#[test]
fn a_change_that_makes_no_sense_is_refused_before_any_rank_hears_of_it() {
    let mut cluster = cluster(true);
    let refused = |cluster: &mut Cluster, control| cluster.enter(&[control])[0].clone().unwrap_err().to_string();
    assert!(refused(&mut cluster, Control::Attach).contains("detach it first"));
    cluster.step(&[Control::Detach], |_| ());
    cluster.step(&[], |_| ());
    assert!(refused(&mut cluster, Control::Detach).contains("no storage"));
    cluster.step(&[Control::Attach], |_| ());
    assert!(refused(&mut cluster, Control::Attach).contains("under way"));
}
