//! Requests that end while their prefetch is in whatever state: nothing of it stays.

use super::cluster::{Cluster, Setup, Station, ns};
use super::{k, tokens};
use isoradix_core::operation::{Operation, State};
use isoradix_core::protocol::Control;
use isoradix_core::{Ints, NodeHandle, PerRank, PrefetchState, PrefetchTicket, Tiers};

const ASKED: u64 = 40;

fn cluster() -> Cluster {
    let mut setup = Setup::of_pages(4, 400, 100, 3);
    setup.tiers = Tiers { storage: true, prefetch_min: 4, patience: None, ..setup.tiers };
    Cluster::new(&setup)
}

/// Below what is on host, so that there is an anchor to be kept.
fn wish(station: &mut Station) -> PrefetchTicket {
    let key: Vec<u32> = [tokens(0..20), tokens(500..540)].concat();
    let anchor = station.find(&key).node;
    station.cache().prefetch(Ints::U32(&key), &ns(), anchor).unwrap().unwrap()
}

fn answer(cluster: &mut Cluster) {
    cluster.stations.iter_mut().for_each(|station| station.answer(k(2), ASKED));
}

/// What has to be known, everywhere, for a state.
fn bring_to(cluster: &mut Cluster, state: State) {
    match state {
        State::Issued => {}
        State::Queried => cluster.stations.iter_mut().for_each(|station| {
            station.board.post_hit(k(2), PerRank::observe(ASKED)).unwrap();
        }),
        State::Reserved => cluster.stations.iter_mut().for_each(|station| {
            station.board.post_pages(k(2), PerRank::observe(10)).unwrap();
        }),
        State::Committed => answer(cluster),
        State::Copying | State::Draining | State::Done | State::Aborted => {
            answer(cluster);
            for station in &mut cluster.stations {
                station.board.post_progress(k(2), PerRank::observe(8)).unwrap();
            }
        }
    }
    if state == State::Done {
        cluster.end(k(2));
    }
    cluster.vote();
    cluster.step(&[], |_| ());
    if matches!(state, State::Draining | State::Aborted) {
        cluster.step(&[Control::TimeOut(k(2))], |_| ());
    }
    if state == State::Aborted {
        cluster.settle();
    }
    let now = cluster.all(|station| station.rank.cache().operations().operation(k(2)).map(Operation::state));
    // What is over may have left the table.
    assert!(now == Some(state) || now.is_none() && state.is_terminal(), "{now:?} is not {state:?}");
}

#[test]
fn a_request_that_ends_in_any_state_of_its_prefetch_leaves_nothing() {
    for state in State::ALL {
        let mut cluster = cluster();
        cluster.step(&[], |station| station.insert(&tokens(0..20)));
        cluster.settle();
        cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
        let ticket = cluster.all(wish);
        cluster.close();
        bring_to(&mut cluster, state);
        cluster.step(&[Control::Abort(k(2))], |_| ());
        let over = cluster.all(|station| station.rank.cache().prefetch_state(ticket));
        assert_eq!(over, PrefetchState::Over, "{state:?}");
        cluster.settle();
        cluster.assert_quiet();
        cluster.step(&[], |station| {
            station.evict_all();
            station.cache().evict_host(u32::MAX);
        });
        let left = cluster.all(|station| {
            let (sizes, ledger) = (station.rank.cache().sizes(), station.rank.cache().host().ledger());
            (ledger.occupied(), sizes.host_total, sizes.device.protected, sizes.device.pinned)
        });
        assert_eq!(left, (0, 0, 0, 0), "{state:?}");
    }
}

/// Requests aborted while their prefetches wait hold nothing, and the next one is admitted.
#[test]
fn requests_aborted_while_their_prefetches_wait_make_room_for_the_next() {
    let mut cluster = cluster();
    let wish = |station: &mut Station, from: u32| {
        let key = tokens(from..from + 40);
        station.cache().prefetch(Ints::U32(&key), &ns(), NodeHandle::ROOT).unwrap()
    };
    cluster.step(&[], |station| (0..5).for_each(|each| assert!(wish(station, 100 * each).is_some())));
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 50, "half of the pool");
    let aborts: Vec<Control> = (0..5).map(|each| Control::Abort(k(each))).collect();
    cluster.step(&aborts, |_| ());
    cluster.settle();
    assert_eq!(cluster.all(|station| station.rank.cache().host().ledger().occupied()), 0);
    cluster.step(&[], |station| assert!(wish(station, 900).is_some()));
    assert_eq!(cluster.all(|station| station.rank.cache().operations().issued()), 6);
}
