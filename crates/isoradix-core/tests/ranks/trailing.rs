//! Trailing state on several ranks: what storage has of it, what is agreed, what comes into the tree, and what a match offers.

use super::cluster::{Cluster, Setup, Station, ns};
use super::{k, on_host, tokens};
use isoradix_core::operation::{Event, Kind};
use isoradix_core::protocol::{Control, SlotField};
use isoradix_core::{
    Component, ComponentKind, Components, Ints, NodeHandle, Ordinal, PerRank, Presence, TieredCache, TieredMatch, Tiers,
};

const PAGE: u32 = 4;
/// A page of the index, of the window, of both, and with the state at its end.
const INDEX: u8 = 1;
const WINDOW: u8 = 2;
const BOTH: u8 = INDEX | WINDOW;
const STATE: u8 = 4;
const ALL: u8 = BOTH | STATE;

/// An index, a window of two pages and a state; a stage may have no layers of some.
fn components(elsewhere: u8) -> Components {
    let component = |(at, (name, kind)): (usize, (&str, ComponentKind))| Component {
        name: name.to_owned(),
        kind,
        is_here: elsewhere & 1 << at == 0,
    };
    let window = ComponentKind::Window { tokens: 2 * PAGE };
    let all = [("index", ComponentKind::SideCar), ("swa", window), ("mamba", ComponentKind::State)];
    Components::new(PAGE, all.into_iter().enumerate().map(component).collect()).unwrap()
}

/// Ranks whose stages lack layers of these.
fn cluster(elsewhere: &[u8]) -> Cluster {
    with_min(elsewhere, 1)
}

/// Fewer pages are not worth a prefetch.
fn with_min(elsewhere: &[u8], pages: u32) -> Cluster {
    let mut setup = Setup::of_pages(PAGE, 400, 100, elsewhere.len());
    setup.tiers = Tiers { storage: true, prefetch_min: (pages * PAGE).into(), patience: None, ..setup.tiers };
    Cluster::of(&setup, |rank, cache: TieredCache| cache.with_components(components(elsewhere[rank as usize])))
}

/// Wishes for ten pages, and lets each rank answer that it has these parts of the leading ones.
fn prefetch(cluster: &mut Cluster, anchor: fn(&mut Station) -> NodeHandle, answers: &[&[u8]]) -> Ordinal {
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    let key = tokens(0..10 * PAGE);
    let ticket = cluster.all(|station| {
        let anchor = anchor(station);
        station.cache().prefetch(Ints::U32(&key), &ns(), anchor).unwrap().expect("there is room")
    });
    cluster.close();
    let issued = cluster.all(|station| station.rank.cache().prefetch_ordinal(ticket)).expect("it is issued");
    for (station, parts) in cluster.stations.iter_mut().zip(answers) {
        station.rank.found_presence(&mut station.board, issued, &Presence::observe(parts.to_vec())).unwrap();
        station.take_effects();
    }
    issued
}

fn root(_: &mut Station) -> NodeHandle {
    NodeHandle::ROOT
}

/// Votes and steps until the ends are agreed; the pages that are fetched then, with their parts.
fn agree(cluster: &mut Cluster, k: Ordinal) -> (usize, Vec<u8>) {
    for _ in 0..12 {
        cluster.vote();
    }
    cluster.step(&[], |_| ());
    cluster.all(|station| {
        let parts = station.started.get(&k).map(|transfer| (transfer.pages.len(), transfer.parts.clone()));
        parts.unwrap_or_default()
    })
}

fn find(cluster: &mut Cluster, pages: u32) -> (u64, u64) {
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    let found = cluster.all(|station| {
        let TieredMatch { hit_tokens, host_tokens, .. } = station.find(&tokens(0..pages * PAGE));
        (hit_tokens / u64::from(PAGE), host_tokens / u64::from(PAGE))
    });
    cluster.close();
    found
}

#[test]
fn ranks_go_down_to_the_end_that_all_of_them_have() {
    let mut cluster = cluster(&[0, 0]);
    // Usable ends are pages 4 and 8 here, 4 and 6 there: the smallest of the deepest is 6, and 4 is right.
    let left = [BOTH, BOTH, BOTH, ALL, BOTH, BOTH, BOTH, ALL, BOTH];
    let right = [BOTH, BOTH, BOTH, ALL, BOTH, ALL, BOTH, BOTH];
    let k = prefetch(&mut cluster, root, &[&left, &right]);
    assert_eq!(agree(&mut cluster, k), (4, vec![INDEX, INDEX, BOTH, ALL]), "only what the end needs");
    cluster.settle();
    assert_eq!((on_host(&mut cluster), find(&mut cluster, 10)), (16, (0, 4)));
    assert_eq!(find(&mut cluster, 3), (0, 0), "without the state at its end a part of it is of no use");
    cluster.assert_quiet();
}

#[test]
fn one_vote_is_enough_for_all_that_is_asked_for_and_no_common_end_is_a_miss() {
    let mut cluster = cluster(&[0, 0]);
    let all = [ALL; 10];
    let first = prefetch(&mut cluster, root, &[&all, &all]);
    cluster.vote();
    cluster.step(&[], |_| ());
    assert!(cluster.stations.iter().all(|station| station.started[&first].pages.len() == 10));
    cluster.settle();
    cluster.step(&[], |station| _ = station.cache().evict_host(100));
    let (even, odd) = ([BOTH, ALL, BOTH, ALL], [ALL, BOTH, ALL, BOTH]);
    let second = prefetch(&mut cluster, root, &[&even, &odd]);
    assert_eq!(agree(&mut cluster, second).0, 0);
    cluster.settle();
    let missed = cluster.all(|station| station.rank.cache().totals().of(Kind::Prefetch).aborted(Event::Miss));
    assert_eq!((missed, on_host(&mut cluster)), (1, 0));
    cluster.assert_quiet();
}

#[test]
fn a_stage_without_layers_has_no_stake() {
    let mut cluster = cluster(&[WINDOW | STATE, INDEX]);
    let k = prefetch(&mut cluster, root, &[&[INDEX; 7], &[0, WINDOW, WINDOW, WINDOW, WINDOW | STATE, 0]]);
    assert_eq!(agree(&mut cluster, k).0, 5, "of the first the index counts, of the second window and state");
    cluster.settle();
    assert_eq!(find(&mut cluster, 10), (0, 5));
}

#[test]
fn what_is_ended_early_brings_nothing_on_any_rank() {
    for control in [Control::Terminate, Control::TimeOut] {
        let mut cluster = cluster(&[0, 0]);
        let all = [ALL; 10];
        let k = prefetch(&mut cluster, root, &[&all, &all]);
        assert_eq!(agree(&mut cluster, k).0, 10);
        let arrived = |station: &mut Station, pages: u64| {
            let tokens = PerRank::observe(pages * u64::from(PAGE));
            station.board.post_progress(k, tokens).unwrap();
        };
        arrived(&mut cluster.stations[0], 10);
        arrived(&mut cluster.stations[1], 9);
        cluster.vote();
        cluster.step(&[control(k)], |_| ());
        assert_eq!(on_host(&mut cluster), 0);
        cluster.settle();
        assert_eq!((on_host(&mut cluster), find(&mut cluster, 10)), (0, (0, 0)));
        cluster.assert_quiet();
    }
}

#[test]
fn a_question_that_fails_on_one_rank_is_a_failure_on_all_and_asked_again() {
    let mut cluster = cluster(&[0, 0]);
    let k = prefetch(&mut cluster, root, &[&[ALL; 4]]);
    cluster.stations[1].fail_question(k);
    assert_eq!(agree(&mut cluster, k).0, 0);
    cluster.settle();
    let totals = cluster.all(|station| station.rank.cache().totals());
    assert_eq!((totals.of(Kind::Prefetch).aborted(Event::Failed), totals.of(Kind::Prefetch).retried), (1, 1));
    let again = Ordinal(k.0 + 1);
    for station in &mut cluster.stations {
        station.rank.found_presence(&mut station.board, again, &Presence::observe(vec![ALL; 4])).unwrap();
    }
    assert_eq!(agree(&mut cluster, again).0, 4);
    cluster.settle();
    assert_eq!(find(&mut cluster, 10), (0, 4));
    cluster.assert_quiet();
}

#[test]
fn ends_that_are_not_worth_it_are_a_miss() {
    let mut cluster = with_min(&[0, 0], 3);
    let k = prefetch(&mut cluster, root, &[&[ALL, ALL, BOTH], &[ALL, ALL]]);
    assert_eq!(agree(&mut cluster, k).0, 0);
    cluster.settle();
    let missed = cluster.all(|station| station.rank.cache().totals().of(Kind::Prefetch).aborted(Event::Miss));
    assert_eq!(missed, 1);
    cluster.assert_quiet();
}

#[test]
fn all_of_it_counts_though_it_is_ended_before_it_has_ended() {
    let mut cluster = cluster(&[0, 0]);
    let k = prefetch(&mut cluster, root, &[&[ALL; 10], &[ALL; 10]]);
    agree(&mut cluster, k);
    for station in &mut cluster.stations {
        station.board.post_progress(k, PerRank::observe(10 * u64::from(PAGE))).unwrap();
    }
    cluster.vote();
    cluster.step(&[Control::Terminate(k)], |_| ());
    cluster.settle();
    assert_eq!(find(&mut cluster, 10), (0, 10));
    cluster.assert_quiet();
}

#[test]
fn a_grant_that_is_too_short_for_the_end_is_a_miss_for_all() {
    let mut cluster = cluster(&[0, 0]);
    drop(cluster.stations[1].rank.withdraw(PerRank::observe(97)).unwrap());
    let k = prefetch(&mut cluster, root, &[&[ALL; 10], &[ALL; 10]]);
    assert_eq!(agree(&mut cluster, k).0, 0, "three pages of ten end in no state");
    cluster.settle();
    let totals = cluster.all(|station| station.rank.cache().totals());
    let ended = [Event::Miss, Event::Short].map(|event| totals.of(Kind::Prefetch).aborted(event));
    assert_eq!((ended.iter().sum::<u64>(), on_host(&mut cluster)), (1, 0));
    cluster.assert_quiet();
}

#[test]
fn a_window_may_look_back_to_what_is_above_the_anchor() {
    let mut cluster = cluster(&[0, 0]);
    cluster.step(&[], |station| {
        station.insert(&tokens(0..3 * PAGE));
        let node = station.cache().match_prefix(Ints::U32(&tokens(0..3 * PAGE)), &ns(), None).unwrap();
        assert_eq!(node.hit_tokens, 0, "no state is kept yet");
        let leaf = *station.cache().cache().walk(NodeHandle::ROOT).unwrap().last().unwrap();
        station.cache().keep_states(leaf).unwrap();
    });
    cluster.settle();
    let anchor = |station: &mut Station| station.find(&tokens(0..3 * PAGE)).node;
    let k = prefetch(&mut cluster, anchor, &[&[ALL, BOTH], &[ALL]]);
    assert_eq!(agree(&mut cluster, k), (1, vec![ALL]), "the page before is on the device, and on host");
    cluster.settle();
    assert_eq!(find(&mut cluster, 10), (3, 1));
    cluster.assert_quiet();
}

#[test]
fn a_window_that_would_look_back_to_a_page_without_its_part_is_none() {
    let mut cluster = cluster(&[0, 0]);
    let first = prefetch(&mut cluster, root, &[&[BOTH, BOTH, BOTH, ALL], &[BOTH, BOTH, BOTH, ALL]]);
    assert_eq!(agree(&mut cluster, first).0, 4);
    cluster.settle();
    // It splits the node there. What came of its upper half is the index alone.
    assert_eq!(find(&mut cluster, 2), (0, 0));
    let upper = |station: &mut Station| {
        let tree = station.rank.cache().cache();
        let nodes = tree.walk(NodeHandle::ROOT).unwrap();
        let ends_there = |node: &NodeHandle| tree.info(*node).unwrap().depth == 2 * u64::from(PAGE);
        nodes.into_iter().find(ends_there).unwrap()
    };
    let parts = cluster.all(|station| {
        let node = upper(station);
        station.rank.cache().parts(node).unwrap()
    });
    assert_eq!(parts, (vec![0, 0], vec![INDEX, INDEX]));
    let second = prefetch(&mut cluster, upper, &[&[ALL, ALL], &[ALL, BOTH]]);
    assert_eq!(agree(&mut cluster, second).0, 0, "the first page has a state, and no window; the second has no state");
    cluster.settle();
    let third = prefetch(&mut cluster, upper, &[&[ALL, ALL, ALL], &[ALL, ALL, ALL]]);
    assert_eq!(agree(&mut cluster, third).0, 3, "beyond what is in the tree");
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn parts_go_with_their_pages_through_backup_eviction_and_load_back() {
    let mut cluster = cluster(&[0, 0]);
    cluster.step(&[], |station| {
        station.insert(&tokens(0..6 * PAGE));
        let leaf = *station.cache().cache().walk(NodeHandle::ROOT).unwrap().last().unwrap();
        station.cache().keep_states(leaf).unwrap();
    });
    let backup = cluster.all(|station| station.started[&k(0)].parts.clone());
    assert_eq!(backup, [BOTH, BOTH, BOTH, BOTH, BOTH, ALL]);
    cluster.settle();
    assert_eq!(find(&mut cluster, 6), (6, 0));
    assert_eq!(find(&mut cluster, 5), (0, 0), "the split's upper half has no state");
    assert_eq!(find(&mut cluster, 6), (6, 0), "and the lower one has it still");
    let stored = cluster.all(|station| station.rank.cache().totals().stored_tokens);
    assert_eq!(stored, 24, "what came to host is stored");
    cluster.step(&[], Station::evict_all);
    assert_eq!(find(&mut cluster, 6), (0, 6));
    cluster.step(&[], |station| {
        let found = station.find(&tokens(0..6 * PAGE));
        assert_eq!(station.load(found), 24);
        assert_eq!(station.find(&tokens(0..6 * PAGE)).hit_tokens, 24);
    });
    let load = cluster.all(|station| {
        let loads = station.started.values().filter(|transfer| transfer.kind == Kind::LoadBack);
        loads.map(|transfer| transfer.parts.clone()).collect::<Vec<_>>()
    });
    assert_eq!(load, [[BOTH, BOTH, BOTH, BOTH, BOTH, ALL]]);
    cluster.settle();
    cluster.step(&[], |station| {
        station.evict_all();
        station.cache().evict_host(100);
        assert_eq!(station.find(&tokens(0..6 * PAGE)).host_tokens, 0);
        station.insert(&tokens(0..6 * PAGE));
        assert_eq!(station.find(&tokens(0..6 * PAGE)).hit_tokens, 0, "its state went with it");
    });
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn states_are_kept_on_the_device_and_only_where_there_are_some() {
    let mut cluster = cluster(&[0]);
    cluster.step(&[], |station| station.insert(&tokens(0..2 * PAGE)));
    cluster.settle();
    cluster.step(&[], Station::evict_all);
    let node = *cluster.stations[0].cache().cache().walk(NodeHandle::ROOT).unwrap().last().unwrap();
    let refused = cluster.stations[0].cache().keep_states(node).unwrap_err().to_string();
    assert!(refused.starts_with("states were to be kept at node 1"), "{refused}");
    assert!(cluster.stations[0].cache().keep_states(NodeHandle::ROOT).is_err());
}

/// A window of two pages, and ten pages that came from storage with the parts of the last two; on the device, if they are loaded.
fn with_a_window(loads: bool) -> Cluster {
    let mut setup = Setup::of_pages(PAGE, 400, 100, 2);
    setup.tiers = Tiers { storage: true, prefetch_min: PAGE.into(), patience: None, ..setup.tiers };
    let swa = Component { name: "swa".to_owned(), kind: ComponentKind::Window { tokens: 2 * PAGE }, is_here: true };
    let components = Components::new(PAGE, vec![swa]).unwrap();
    let mut cluster = Cluster::of(&setup, |_, cache| cache.with_components(components.clone()));
    let k = prefetch(&mut cluster, root, &[&[1; 10], &[1; 10]]);
    assert_eq!(agree(&mut cluster, k), (10, [[0; 8].as_slice(), &[1; 2]].concat()));
    cluster.settle();
    if loads {
        cluster.step(&[], |station| {
            let found = station.find(&tokens(0..10 * PAGE));
            assert_eq!(station.load(found), 40);
        });
        cluster.settle();
    }
    cluster
}

/// Five pages of that, and one of its own.
fn branch() -> Vec<u32> {
    [tokens(0..5 * PAGE), tokens(900..900 + PAGE)].concat()
}

#[test]
fn what_was_computed_takes_the_place_of_what_lacks_its_parts() {
    let mut cluster = with_a_window(true);
    let free = cluster.all(|station| station.device.available());
    cluster.step(&[], |station| {
        assert_eq!(station.find(&branch()).hit_tokens, 0);
        let slots = station.slots(6 * u64::from(PAGE));
        let insert = station.cache().insert(Ints::U32(&branch()), Ints::I64(&slots), &ns(), 0, None).unwrap();
        assert_eq!((insert.prefix_len, insert.new_tokens, insert.length), (0, 24, 24));
        let mut own = Vec::new();
        station.cache().cache().path_slots(insert.node, &mut own).unwrap();
        assert_eq!(own, slots, "nothing of what was computed is to be given up");
        assert_eq!((station.find(&branch()).hit_tokens, station.find(&tokens(0..5 * PAGE)).hit_tokens), (24, 20));
        assert_eq!(station.find(&tokens(0..10 * PAGE)).hit_tokens, 40, "what hangs below is as it was");
    });
    assert_eq!(cluster.all(|station| station.device.available()), free - 4, "the tree's former slots have come back");
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn an_insert_ends_where_what_is_held_is_usable() {
    let mut cluster = with_a_window(true);
    let insert = |station: &mut Station, key: &[u32]| {
        let slots = station.slots(key.len() as u64);
        let insert = station.cache().insert(Ints::U32(key), Ints::I64(&slots), &ns(), 0, None).unwrap();
        station.device.free(Ints::I64(&slots[..usize::try_from(insert.prefix_len).unwrap()])).unwrap();
        station.device.free(Ints::I64(&slots[usize::try_from(insert.length).unwrap()..])).unwrap();
        (insert.prefix_len / 4, insert.length / 4, station.find(key).hit_tokens / 4)
    };
    cluster.step(&[], |station| {
        let node = station.find(&tokens(0..10 * PAGE)).node;
        let lock = station.cache().lock(node).unwrap();
        assert_eq!(insert(station, &branch()), (0, 0, 0), "a window without its fifth page is no use");
        let longer = [branch(), tokens(950..950 + PAGE)].concat();
        assert_eq!(insert(station, &longer), (5, 7, 7), "this one does not look back to it");
        assert_eq!(insert(station, &tokens(0..11 * PAGE)), (10, 11, 11), "a request goes on from what it has matched");
        station.cache().unlock(lock).unwrap();
        assert_eq!(insert(station, &branch()), (0, 6, 6));
    });
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn what_is_in_the_tree_is_not_fetched_again() {
    let mut cluster = with_a_window(false);
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    let tickets = cluster.all(|station| {
        assert_eq!(station.find(&tokens(0..8 * PAGE)).host_tokens, 0, "it lacks the window");
        let mut wish = |pages| station.cache().prefetch(Ints::U32(&tokens(0..pages * PAGE)), &ns(), NodeHandle::ROOT);
        [8, 10, 11].map(|pages| wish(pages).unwrap().is_some())
    });
    assert_eq!(tickets, [false, false, true]);
    cluster.close();
    let again = k(1);
    for station in &mut cluster.stations {
        station.rank.found_presence(&mut station.board, again, &Presence::observe(vec![1; 10])).unwrap();
    }
    assert_eq!(agree(&mut cluster, again).0, 0, "storage has no more than the tree");
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn an_end_on_host_that_rested_on_the_device_is_not_loaded() {
    let mut cluster = cluster(&[0, 0]);
    let k = prefetch(&mut cluster, root, &[&[ALL; 10], &[ALL; 10]]);
    assert_eq!(agree(&mut cluster, k).0, 10);
    cluster.settle();
    cluster.step(&[], |station| station.insert(&tokens(0..5 * PAGE)));
    cluster.settle();
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
    let ticket =
        cluster.all(|station| station.cache().prefetch(Ints::U32(&branch()), &ns(), NodeHandle::ROOT).unwrap());
    cluster.close();
    let k = cluster.all(|station| station.rank.cache().prefetch_ordinal(ticket.unwrap())).unwrap();
    for station in &mut cluster.stations {
        station.rank.found_presence(&mut station.board, k, &Presence::observe(vec![ALL; 6])).unwrap();
    }
    assert_eq!(agree(&mut cluster, k).0, 6);
    cluster.settle();
    cluster.step(&[], |station| {
        let found = station.find(&branch());
        assert_eq!((found.hit_tokens, found.host_tokens), (0, 24));
        let lock = station.cache().lock(found.node).unwrap();
        let host = station.cache().host_lock(found.host_node).unwrap();
        assert_eq!(station.cache().load_back_need(host).unwrap(), 4, "five pages are on the device");
        station.evict_all();
        assert_eq!(station.cache().load_back_need(host).unwrap(), 0, "on host they have no window");
        assert_eq!(station.cache().load_back(host, Ints::I64(&[])).unwrap(), 0);
        station.cache().unlock_host(host).unwrap();
        station.cache().unlock(lock).unwrap();
        let found = station.find(&branch());
        assert_eq!((found.hit_tokens, found.host_tokens), (0, 0));
    });
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn a_deepest_end_below_the_minimum_is_a_miss_whatever_is_heard_first() {
    let mut cluster = with_min(&[0, 0], 3);
    // Both have ends at two pages at most, and no common one: what they reserve is heard a vote before.
    let k = prefetch(&mut cluster, root, &[&[ALL, BOTH], &[BOTH, ALL]]);
    cluster.step(&[], |_| ());
    for _ in 0..6 {
        cluster.vote();
        cluster.step(&[], |_| ());
    }
    let totals = cluster.all(|station| station.rank.cache().totals());
    let ended = [Event::Miss, Event::Short].map(|event| totals.of(Kind::Prefetch).aborted(event));
    assert_eq!((ended, totals.of(Kind::Prefetch).done), ([1, 0], 0), "operation {k}");
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn a_board_takes_no_hit_of_what_is_searched() {
    let mut cluster = cluster(&[0]);
    let k = prefetch(&mut cluster, root, &[&[ALL; 10]]);
    let board = &mut cluster.stations[0].board;
    let refused = board.post_hit(k, PerRank::observe(4)).unwrap_err().to_string();
    assert!(refused.starts_with("post_hit out of order: ranks search for the end"), "{refused}");
    assert!(board.abstain(k, SlotField::Hit).is_err());
    assert_eq!(agree(&mut cluster, k).0, 10, "the search goes on as if nothing was said");
}
