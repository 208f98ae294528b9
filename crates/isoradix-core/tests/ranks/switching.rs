//! Tiers switched off and on by frames.

use super::cluster::{Cluster, Setup};
use super::{kinds, on_host, tokens};
use isoradix_core::operation::Kind;
use isoradix_core::protocol::{Control, TopTier};
use isoradix_core::{Ints, NodeHandle, PrefetchState, RecordKind, Tiers, Writing};

fn top(tier: TopTier) -> [Control; 1] {
    [Control::Tiers(tier)]
}

fn setup(writing: Writing, storage: bool) -> Setup {
    let tiers = Tiers { writing, storage, load_back_min: 1, prefetch_min: 1, ..Tiers::default() };
    Setup { tiers, ..Setup::of_pages(1, 100, 50, 2) }
}

const THROUGH: Writing = Writing::Through { hits: 1 };

#[test]
fn what_is_under_way_ends_and_nothing_new_begins() {
    let mut cluster = Cluster::new(&setup(THROUGH, true));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.step(&top(TopTier::Device), |station| {
        assert_eq!(station.rank.cache().top_tier(), TopTier::Device);
        station.insert(&tokens(100..110));
    });
    assert_eq!(cluster.all(|station| kinds(station.rank.cache())), [Kind::Backup], "the one that was under way");
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 10, "it has come to its end");
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 1, "and no store follows it");
    cluster.assert_quiet();
}

#[test]
fn what_is_on_host_is_not_offered_and_not_lost() {
    let mut cluster = Cluster::new(&setup(THROUGH, false));
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.settle();
    let promise = cluster.all(|station| {
        station.evict_all();
        let found = station.find(&tokens(0..10));
        assert_eq!((found.hit_tokens, found.host_tokens), (0, 10));
        station.cache().host_lock(found.host_node).unwrap()
    });
    cluster.step(&top(TopTier::Device), |station| {
        let found = station.find(&tokens(0..10));
        assert_eq!((found.hit_tokens, found.host_tokens), (0, 0));
        assert_eq!((found.node, found.host_node), (NodeHandle::ROOT, NodeHandle::ROOT));
        assert_eq!(station.cache().load_back_need(promise).unwrap(), 0, "what was promised before is declined");
        assert_eq!(station.cache().load_back(promise, Ints::I64(&[])).unwrap(), 0);
        station.cache().unlock_host(promise).unwrap();
    });
    cluster.step(&top(TopTier::Host), |station| {
        let found = station.find(&tokens(0..10));
        assert_eq!((found.hit_tokens, found.host_tokens), (0, 10));
        assert_eq!(station.load(found), 10);
    });
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn what_was_inserted_meanwhile_comes_to_host_with_the_next_insert() {
    let mut cluster = Cluster::new(&setup(THROUGH, false));
    cluster.step(&top(TopTier::Device), |station| station.insert(&tokens(0..10)));
    cluster.step(&top(TopTier::Storage), |_| ());
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 0);
    cluster.step(&[], |station| station.insert(&tokens(0..20)));
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 20);
    cluster.assert_quiet();
}

#[test]
fn cleaning_rests_while_host_is_off() {
    let mut cluster = Cluster::new(&setup(Writing::Back { low_water: 80 }, false));
    cluster.step(&top(TopTier::Device), |station| station.insert(&tokens(0..40)));
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 0);
    cluster.step(&top(TopTier::Host), |_| ());
    assert_eq!(cluster.all(|station| kinds(station.rank.cache())), [Kind::Backup]);
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn storage_goes_off_by_itself() {
    let mut cluster = Cluster::new(&setup(THROUGH, true));
    let wish = |station: &mut super::Station| {
        station.cache().prefetch(Ints::U32(&tokens(0..10)), &super::ns(), NodeHandle::ROOT).unwrap()
    };
    cluster.step(&top(TopTier::Host), |station| {
        assert_eq!(wish(station), None);
        station.insert(&tokens(100..110));
    });
    cluster.settle();
    assert_eq!(on_host(&mut cluster), 10);
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 1, "a backup, and no store");
    cluster.step(&top(TopTier::Storage), |station| {
        let ticket = wish(station).expect("it is on again");
        assert_eq!(station.rank.cache().prefetch_state(ticket), PrefetchState::Wished);
    });
    for station in &mut cluster.stations {
        station.rank.found(&mut station.board, super::k(1), isoradix_core::PerRank::observe(0)).unwrap();
    }
    cluster.settle();
    cluster.assert_quiet();
}

#[test]
fn a_switch_is_a_decision_in_the_digest() {
    let mut cluster = Cluster::new(&setup(THROUGH, false));
    cluster.step(&top(TopTier::Host), |_| ());
    let record = cluster.all(|station| {
        let journal = station.rank.cache().cache().journal();
        *journal.iter().find(|record| record.kind == RecordKind::Tiers).unwrap()
    });
    assert_eq!((record.step, record.a, record.b), (1, 2, 3));
}
