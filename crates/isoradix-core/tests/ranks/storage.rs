//! External storage that fails, hangs or is away: what all ranks make of it, at one step.

use super::cluster::{Cluster, Setup, Station, ns};
use super::{k, kinds, on_host, tokens};
use isoradix_core::operation::{Event, Kind};
use isoradix_core::protocol::{Backoff, BreakerRule, BreakerState, Control, TopTier};
use isoradix_core::{
    Ints, Namespace, NodeHandle, Ordinal, PerRank, PrefetchPatience, PrefetchState, PrefetchTicket, RecordKind,
    TierTotals, Tiers,
};

const RULE: BreakerRule = BreakerRule { failures_max: 2, open_ms: 1_000, trials: 1, slow_ms: 500 };
const ONCE: Backoff = Backoff { first_ms: 100, longest_ms: 100, attempts_max: 1 };
const TWICE: Backoff = Backoff { attempts_max: 2, ..ONCE };

fn cluster(retry: Backoff) -> Cluster {
    let mut setup = Setup::of_pages(4, 400, 100, 3);
    setup.tiers = Tiers { storage: true, prefetch_min: 4, breaker: Some(RULE), patience: None, retry, ..setup.tiers };
    Cluster::new(&setup)
}

fn wish(station: &mut Station, from: u32) -> Option<PrefetchTicket> {
    let key = tokens(from..from + 40);
    station.cache().prefetch(Ints::U32(&key), &ns(), NodeHandle::ROOT).unwrap()
}

/// A step in which a prefetch is wished for; its ticket, and the operation that it became.
fn prefetch(cluster: &mut Cluster, from: u32) -> (PrefetchTicket, Ordinal) {
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    let ticket = cluster.all(|station| wish(station, from)).expect("it is let through");
    cluster.close();
    let k = cluster.all(|station| station.rank.cache().prefetch_ordinal(ticket)).expect("it is issued");
    (ticket, k)
}

fn state(cluster: &mut Cluster) -> &'static str {
    cluster.all(|station| station.rank.cache().breaker().map(BreakerState::as_str)).expect("there is one")
}

fn totals(cluster: &mut Cluster) -> TierTotals {
    cluster.all(|station| station.rank.cache().totals())
}

/// Storage fails one rank's question; the others find all.
fn fail(cluster: &mut Cluster, from: u32) {
    let (_, k) = prefetch(cluster, from);
    cluster.stations[1].fail_question(k);
    for rank in [0, 2] {
        cluster.stations[rank].answer(k, 40);
    }
    cluster.settle();
}

fn miss(cluster: &mut Cluster, from: u32) {
    let (_, k) = prefetch(cluster, from);
    cluster.stations.iter_mut().for_each(|station| station.answer(k, 0));
    cluster.settle();
}

#[test]
fn failures_of_one_rank_open_the_breaker_of_all_and_misses_do_not() {
    let mut cluster = cluster(ONCE);
    for round in 0..4 {
        miss(&mut cluster, 1_000 * round);
    }
    assert_eq!((state(&mut cluster), totals(&mut cluster).of(Kind::Prefetch).aborted(Event::Miss)), ("closed", 4));
    fail(&mut cluster, 5_000);
    miss(&mut cluster, 6_000);
    fail(&mut cluster, 7_000);
    assert_eq!(state(&mut cluster), "closed", "in a row, it is one");
    fail(&mut cluster, 8_000);
    assert_eq!(state(&mut cluster), "open");
    cluster.step(&[], |station| {
        assert_eq!(wish(station, 9_000), None);
        station.insert(&tokens(0..20));
    });
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 20, "host is not storage");
    assert_eq!(totals(&mut cluster).of(Kind::Store).issued, 0, "a store waits until storage is asked again");
    let changes = cluster.all(|station| station.rank.cache().breaker_changes().collect::<Vec<_>>());
    let record = cluster.all(|station| {
        let journal = station.rank.cache().cache().journal();
        *journal.iter().find(|record| record.kind == RecordKind::Breaker).unwrap()
    });
    assert_eq!((changes.len(), changes[0].step, record.a, record.b), (1, record.step, 1, 0));
    cluster.assert_quiet();
}

#[test]
fn it_comes_back_by_a_trial_and_writes_what_has_waited() {
    let mut cluster = cluster(ONCE);
    (0..2).for_each(|round| fail(&mut cluster, 1_000 * round));
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.settle();
    cluster.now_ms += RULE.open_ms;
    cluster.step(&[], |_| ());
    assert_eq!(state(&mut cluster), "trial");
    let store = cluster.all(|station| station.rank.cache().operations().issued()) - 1;
    assert_eq!(cluster.all(|station| kinds(station.rank.cache()).pop()), Some(Kind::Store));
    cluster.step(&[], |station| assert_eq!(wish(station, 3_000), None, "one trial at a time"));
    cluster.end(k(store));
    cluster.settle();
    assert_eq!((state(&mut cluster), totals(&mut cluster).stored_tokens), ("closed", 20));
    prefetch(&mut cluster, 3_000);
    assert_eq!((totals(&mut cluster).breaker_opened, totals(&mut cluster).breaker_closed), (1, 1));
}

#[test]
fn a_trial_that_fails_opens_it_again() {
    let mut cluster = cluster(ONCE);
    (0..2).for_each(|round| fail(&mut cluster, 1_000 * round));
    cluster.now_ms += RULE.open_ms;
    fail(&mut cluster, 4_000);
    assert_eq!((state(&mut cluster), totals(&mut cluster).breaker_opened), ("open", 2));
    cluster.now_ms += RULE.open_ms;
    miss(&mut cluster, 5_000);
    assert_eq!(state(&mut cluster), "closed", "who answers that it has nothing is there");
}

/// Of several wishes of one step only the first is the trial.
#[test]
fn one_step_has_one_trial() {
    let mut cluster = cluster(ONCE);
    (0..2).for_each(|round| fail(&mut cluster, 1_000 * round));
    cluster.now_ms += RULE.open_ms;
    cluster.step(&[], |_| ());
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    let tickets = cluster.all(|station| [wish(station, 4_000), wish(station, 5_000)].map(Option::unwrap));
    cluster.close();
    let states = cluster.all(|station| tickets.map(|ticket| station.rank.cache().prefetch_state(ticket)));
    assert_eq!(states, [PrefetchState::Issued(k(2)), PrefetchState::Over]);
}

/// No vote brings a failure on a rank that hangs: the framed clock does.
#[test]
fn what_takes_too_long_has_failed_and_is_judged_once() {
    let mut cluster = cluster(ONCE);
    let (_, first) = prefetch(&mut cluster, 0);
    cluster.now_ms += RULE.slow_ms;
    let (_, second) = prefetch(&mut cluster, 1_000);
    assert_eq!(state(&mut cluster), "closed", "the first is one failure");
    cluster.now_ms += RULE.slow_ms;
    cluster.step(&[], |_| ());
    assert_eq!(state(&mut cluster), "open");
    for k in [first, second] {
        cluster.stations.iter_mut().for_each(|station| station.answer(k, 40));
        cluster.settle();
    }
    assert_eq!((state(&mut cluster), on_host(&mut cluster)), ("open", 80), "late, and not lost");
}

/// Nobody waits for a deadline where one rank has nothing and another one's storage is away.
#[test]
fn a_miss_beside_a_failure_is_a_failure_at_once() {
    let mut cluster = cluster(ONCE);
    let (ticket, k) = prefetch(&mut cluster, 0);
    cluster.stations[0].answer(k, 0);
    cluster.stations[1].fail_question(k);
    cluster.stations[2].answer(k, 0);
    cluster.vote();
    cluster.step(&[], |_| ());
    assert_eq!(cluster.all(|station| station.rank.cache().prefetch_state(ticket)), PrefetchState::Over);
    let prefetches = totals(&mut cluster).of(Kind::Prefetch);
    assert_eq!((prefetches.aborted(Event::Failed), prefetches.aborted(Event::Miss)), (1, 0));
    cluster.settle();
    cluster.assert_quiet();
}

/// Each rank's storage said that it had all of it, and one has evicted pages since: what all have come to counts.
#[test]
fn what_is_gone_by_the_read_is_a_shorter_hit_and_no_failure() {
    let mut cluster = cluster(TWICE);
    for round in 0..4 {
        let (ticket, k) = prefetch(&mut cluster, 1_000 * round);
        cluster.stations.iter_mut().for_each(|station| station.answer(k, 40));
        cluster.vote();
        cluster.step(&[], |_| ());
        cluster.stations[1].end_short(k, 12);
        cluster.settle();
        assert_eq!(cluster.all(|station| station.rank.cache().prefetch_state(ticket)), PrefetchState::Over);
    }
    assert_eq!(on_host(&mut cluster), 4 * 12);
    let prefetches = totals(&mut cluster).of(Kind::Prefetch);
    assert_eq!((prefetches.issued, prefetches.retried, state(&mut cluster)), (4, 0, "closed"));
    cluster.assert_quiet();
}

/// One rank's storage goes away in the middle of a download, and the retry finds nothing.
#[test]
fn a_prefetch_that_fails_part_way_keeps_what_all_ranks_have() {
    let mut cluster = cluster(TWICE);
    let (ticket, first) = prefetch(&mut cluster, 0);
    cluster.stations.iter_mut().for_each(|station| station.answer(first, 40));
    cluster.vote();
    cluster.step(&[], |_| ());
    cluster.stations[1].fail_after(first, 18);
    cluster.settle();
    let second = Ordinal(first.0 + 1);
    assert_eq!(cluster.all(|station| station.rank.cache().prefetch_state(ticket)), PrefetchState::Issued(second));
    assert_eq!(on_host(&mut cluster), 16, "whole pages");
    cluster.stations.iter_mut().for_each(|station| station.answer(second, 0));
    cluster.settle();
    assert_eq!(cluster.all(|station| station.find(&tokens(0..40)).host_tokens), 16);
    let done = totals(&mut cluster);
    assert_eq!((done.prefetched_tokens, done.of(Kind::Prefetch).aborted(Event::Failed)), (16, 1));
    cluster.assert_quiet();
}

#[test]
fn a_prefetch_that_is_tried_again_brings_what_was_lacking() {
    let mut cluster = cluster(TWICE);
    let (_, first) = prefetch(&mut cluster, 0);
    cluster.stations.iter_mut().for_each(|station| station.answer(first, 40));
    cluster.vote();
    cluster.step(&[], |_| ());
    cluster.stations[1].fail_after(first, 16);
    cluster.settle();
    cluster.stations.iter_mut().for_each(|station| station.answer(Ordinal(first.0 + 1), 40));
    cluster.settle();
    assert_eq!((on_host(&mut cluster), totals(&mut cluster).prefetched_tokens), (40, 40));
    cluster.assert_quiet();
}

#[test]
fn a_prefetch_that_failed_is_tried_again_under_its_ticket() {
    let mut cluster = cluster(TWICE);
    let (ticket, first) = prefetch(&mut cluster, 0);
    cluster.stations[2].fail_question(first);
    for rank in [0, 1] {
        cluster.stations[rank].answer(first, 40);
    }
    cluster.settle();
    let second = Ordinal(first.0 + 1);
    assert_eq!(cluster.all(|station| station.rank.cache().prefetch_state(ticket)), PrefetchState::Issued(second));
    cluster.stations.iter_mut().for_each(|station| station.answer(second, 40));
    cluster.settle();
    assert_eq!((on_host(&mut cluster), totals(&mut cluster).of(Kind::Prefetch).retried), (40, 1));
    assert_eq!(cluster.all(|station| station.rank.cache().prefetch_state(ticket)), PrefetchState::Over);
    cluster.assert_quiet();
}

/// Nobody waits for it while its request has no place in a batch. The leader's first poll counts, and only that: other ranks
/// may look sooner, and a retry does not begin anew.
#[test]
fn patience_begins_with_the_leaders_first_poll() {
    let mut setup = Setup::of_pages(4, 400, 100, 3);
    let patience = Some(PrefetchPatience { base_ms: 100, per_ki_token_ms: 50, most_ms: 1_000 });
    setup.tiers = Tiers { storage: true, prefetch_min: 4, breaker: None, patience, retry: TWICE, ..setup.tiers };
    let mut cluster = Cluster::new(&setup);
    cluster.step(&[], |_| ());
    let (ticket, first) = prefetch(&mut cluster, 0);
    let poll = |cluster: &mut Cluster, rank: usize| cluster.stations[rank].cache().poll_prefetch(ticket);
    let later = |cluster: &mut Cluster, ms: u64| {
        cluster.now_ms += ms;
        cluster.step(&[], |_| ());
        cluster.all(|station| station.rank.cache().prefetch_state(ticket))
    };
    assert_eq!(poll(&mut cluster, 1), PrefetchState::Issued(first));
    assert_eq!(later(&mut cluster, 5_000), PrefetchState::Issued(first), "a follower waits, and the leader does not");
    assert_eq!(poll(&mut cluster, 0), PrefetchState::Issued(first));
    assert_eq!(later(&mut cluster, 100), PrefetchState::Issued(first));
    cluster.stations.iter_mut().for_each(|station| station.fail_question(first));
    cluster.settle();
    let second = Ordinal(first.0 + 1);
    assert_eq!(poll(&mut cluster, 0), PrefetchState::Issued(second));
    later(&mut cluster, 50);
    assert_eq!(later(&mut cluster, 0), PrefetchState::Over, "150 ms after the first poll");
    cluster.stations.iter_mut().for_each(|station| station.answer(second, 0));
    cluster.settle();
    assert_eq!(totals(&mut cluster).of(Kind::Prefetch).aborted(Event::TimeOut), 1);
    cluster.assert_quiet();
}

#[test]
fn who_gives_up_a_prefetch_that_failed_gives_up_its_retry() {
    let mut cluster = cluster(TWICE);
    let (ticket, k) = prefetch(&mut cluster, 0);
    cluster.stations[2].fail_question(k);
    for rank in [0, 1] {
        cluster.stations[rank].answer(k, 40);
    }
    for rank in [0, 1] {
        cluster.stations[rank].board.post_ready(k, PerRank::observe(true)).unwrap();
    }
    cluster.vote();
    cluster.step(&[], |_| ());
    assert_eq!(cluster.all(|station| station.rank.cache().prefetch_ordinal(ticket)), Some(k), "it is waited for");
    cluster.step(&[Control::Abort(k)], |_| ());
    assert_eq!(cluster.all(|station| station.rank.cache().prefetch_state(ticket)), PrefetchState::Over);
    cluster.settle();
    assert_eq!(totals(&mut cluster).of(Kind::Prefetch).issued, 1);
    cluster.assert_quiet();
}

/// The store of a node that is on host fails on one rank, so often.
fn failing_store(cluster: &mut Cluster, times: u32) {
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.end(k(0));
    cluster.vote();
    cluster.step(&[], |_| ());
    for _ in 0..times {
        let store = Ordinal(cluster.all(|station| station.rank.cache().operations().issued()) - 1);
        cluster.stations.iter_mut().enumerate().for_each(|(rank, station)| station.end(store, rank != 1));
        cluster.settle();
        cluster.now_ms += 100;
        cluster.step(&[], |_| ());
    }
}

#[test]
fn a_store_that_failed_is_tried_again_after_a_pause() {
    let mut cluster = cluster(TWICE);
    failing_store(&mut cluster, 1);
    assert_eq!(totals(&mut cluster).of(Kind::Store).issued, 2);
    cluster.settle();
    let done = totals(&mut cluster);
    assert_eq!((done.stored_tokens, done.given_up_tokens, done.of(Kind::Store).retried), (20, 0, 1));
    cluster.assert_quiet();
}

/// A storage write that raises is a vote of 0: nothing is locked any more, and the node is on host and not in storage.
#[test]
fn a_store_that_fails_as_often_as_it_may_is_given_up_and_said_so() {
    let mut cluster = cluster(TWICE);
    failing_store(&mut cluster, 2);
    cluster.settle();
    let done = totals(&mut cluster);
    assert_eq!((done.of(Kind::Store).issued, done.stored_tokens, done.given_up_tokens), (2, 0, 20));
    assert_eq!((on_host(&mut cluster), state(&mut cluster)), (20, "open"));
    cluster.assert_quiet();
}

#[test]
fn what_failed_is_not_tried_again_where_storage_is_switched_off() {
    let mut cluster = cluster(TWICE);
    let (ticket, k) = prefetch(&mut cluster, 0);
    cluster.stations.iter_mut().for_each(|station| station.fail_question(k));
    cluster.vote();
    cluster.step(&[Control::Tiers(TopTier::Host)], |_| ());
    cluster.settle();
    assert_eq!(cluster.all(|station| station.rank.cache().prefetch_state(ticket)), PrefetchState::Over);
    cluster.assert_quiet();
}

/// Prefetches that are under way hold half of the host pool at most; whatever is beyond that is declined on every rank.
#[test]
fn open_prefetches_hold_half_of_the_host_pool_at_most() {
    let mut cluster = cluster(ONCE);
    let mut tickets = Vec::new();
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    for from in 0..6 {
        tickets.push(cluster.all(|station| wish(station, 1_000 * from)).unwrap());
    }
    cluster.close();
    let over = |cluster: &mut Cluster, ticket| {
        cluster.all(|station| station.rank.cache().prefetch_state(ticket)) == PrefetchState::Over
    };
    assert_eq!(
        tickets.iter().map(|ticket| over(&mut cluster, *ticket)).collect::<Vec<_>>(),
        [false, false, false, false, false, true]
    );
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 50);
    assert_eq!(totals(&mut cluster).of(Kind::Prefetch).declined, 1);
    let end = [Control::Abort(k(0))];
    cluster.step(&end, |_| ());
    prefetch_declined(&mut cluster, 7_000);
    cluster.stations.iter_mut().for_each(Station::end_all);
    cluster.vote();
    cluster.step(&[], |_| ());
    prefetch(&mut cluster, 7_000);
    cluster.step(&[], |station| assert!(wish(station, 8_000).is_some(), "the wish is taken, the issue is declined"));
    assert_eq!(totals(&mut cluster).of(Kind::Prefetch).declined, 3);
}

/// What drains holds its pages still.
fn prefetch_declined(cluster: &mut Cluster, from: u32) {
    cluster.step(&[], |station| assert!(wish(station, from).is_some()));
    assert_eq!(totals(cluster).of(Kind::Prefetch).declined, 2);
}

/// Runs of the store that is under way, from where to where.
fn runs(cluster: &mut Cluster) -> Vec<(u64, usize)> {
    cluster.all(|station| {
        let stores = station.started.values().filter(|transfer| transfer.kind == Kind::Store);
        stores.flat_map(|store| &store.stored).map(|run| (run.from, run.key.len())).collect()
    })
}

/// A key is inserted and comes to host; its store is under way.
fn store_begins(cluster: &mut Cluster, to: u32) -> Ordinal {
    let backup = Ordinal(cluster.all(|station| station.rank.cache().operations().issued()));
    cluster.step(&[], |station| station.insert(&tokens(0..to)));
    cluster.end(backup);
    cluster.vote();
    cluster.step(&[], |_| ());
    Ordinal(backup.0 + 1)
}

fn store_fails(cluster: &mut Cluster, store: Ordinal) {
    cluster.stations.iter_mut().enumerate().for_each(|(rank, station)| station.end(store, rank != 1));
    cluster.settle();
}

/// Later turns of a conversation are of no use in storage without the first.
#[test]
fn what_was_given_up_is_stored_with_what_comes_below_it() {
    let mut cluster = cluster(ONCE);
    let first = store_begins(&mut cluster, 20);
    store_fails(&mut cluster, first);
    assert_eq!((totals(&mut cluster).given_up_tokens, state(&mut cluster)), (20, "closed"));
    let second = store_begins(&mut cluster, 40);
    assert_eq!(runs(&mut cluster), [(0, 40)]);
    store_fails(&mut cluster, second);
    assert_eq!(totals(&mut cluster).stored_tokens, 0, "nothing of a store that failed counts");
    cluster.now_ms += RULE.open_ms;
    store_begins(&mut cluster, 60);
    assert_eq!(runs(&mut cluster), [(0, 60)]);
    cluster.settle();
    store_begins(&mut cluster, 80);
    assert_eq!(runs(&mut cluster), [(60, 80)], "what is in storage is not stored again");
    cluster.settle();
    assert_eq!(totals(&mut cluster).stored_tokens, 80);
    cluster.assert_quiet();
}

#[test]
fn siblings_that_are_stored_together_bring_what_is_above_them_once() {
    let mut cluster = cluster(ONCE);
    let first = store_begins(&mut cluster, 20);
    store_fails(&mut cluster, first);
    let forked: Vec<u32> = (0..20).chain(500..512).collect();
    cluster.step(&[], |station| {
        station.insert(&tokens(0..40));
        station.insert(&forked);
    });
    cluster.stations.iter_mut().for_each(Station::end_all);
    cluster.vote();
    cluster.step(&[], |_| ());
    assert_eq!(runs(&mut cluster), [(0, 40), (20, 32)]);
    cluster.settle();
    assert_eq!(totals(&mut cluster).stored_tokens, 52);
    cluster.assert_quiet();
}

/// What a prefetch brings below it is there, but nobody finds it from the start.
#[test]
fn what_came_from_storage_below_what_is_not_there_is_stored_with_it() {
    let mut cluster = cluster(ONCE);
    let first = store_begins(&mut cluster, 20);
    store_fails(&mut cluster, first);
    cluster.step(&[], |station| {
        let anchor = station.find(&tokens(0..20)).node;
        assert!(station.cache().prefetch(Ints::U32(&tokens(0..40)), &ns(), anchor).unwrap().is_some());
    });
    cluster.stations.iter_mut().for_each(|station| station.answer(k(2), 20));
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 40);
    store_begins(&mut cluster, 60);
    assert_eq!(runs(&mut cluster), [(0, 60)]);
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn what_is_not_stored_while_storage_is_off_is_stored_with_what_comes_below_it() {
    let mut cluster = cluster(ONCE);
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.end(k(0));
    cluster.vote();
    cluster.step(&[Control::Tiers(TopTier::Host)], |_| ());
    assert_eq!(totals(&mut cluster).given_up_tokens, 20);
    cluster.step(&[Control::Tiers(TopTier::Storage)], |_| ());
    store_begins(&mut cluster, 40);
    assert_eq!(runs(&mut cluster), [(0, 40)]);
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn what_leaves_host_before_it_is_stored_is_given_up_and_what_is_removed_is_not() {
    let mut cluster = cluster(ONCE);
    (0..2).for_each(|round| fail(&mut cluster, 1_000 * round));
    let other = Namespace::new(Some("other"), None);
    cluster.step(&[], |station| {
        station.insert(&tokens(0..20));
        let slots = station.slots(12);
        station.cache().insert(Ints::U32(&tokens(0..12)), Ints::I64(&slots), &other, 0, None).unwrap();
    });
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 32);
    cluster.step(&[], |station| {
        let mut freed = Vec::new();
        station.cache().remove_namespace(&other, &mut freed).unwrap();
        station.device.free(Ints::I64(&freed)).unwrap();
        station.evict_all();
        station.cache().evict_host(100);
    });
    cluster.now_ms += RULE.open_ms;
    cluster.step(&[], |_| ());
    let done = totals(&mut cluster);
    assert_eq!((done.given_up_tokens, done.of(Kind::Store).issued), (20, 0));
    cluster.assert_quiet();
}

/// 256 tokens unless told otherwise, and a page at least: what is shorter by a token is a page shorter.
#[test]
fn a_prefetch_brings_256_tokens_and_a_page_at_least() {
    for (page, shortest) in [(1, 256), (64, 256), (512, 512)] {
        let mut setup = Setup::of_pages(page, 4096, 8192 / page, 2);
        setup.tiers = Tiers { storage: true, ..Tiers::default() };
        let mut cluster = Cluster::new(&setup);
        let mut asked = |length: u32| {
            let key = tokens(0..length);
            cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
            let ticket = cluster
                .all(|station| station.cache().prefetch(Ints::U32(&key), &ns(), NodeHandle::ROOT).unwrap().is_some());
            cluster.close();
            ticket
        };
        assert_eq!([asked(shortest - 1), asked(shortest)], [false, true], "pages of {page}");
    }
}
