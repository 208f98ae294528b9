//! What unequal digests do in each mode.

use super::cluster::{Cluster, Setup, Station};
use super::tokens;
use isoradix_core::StepError;
use isoradix_core::protocol::{Control, Divergence, DivergenceMode, ProtocolError};

/// Two ranks; in step 2 the second one inserts something else.
fn parted(mode: DivergenceMode) -> Cluster {
    let mut cluster = Cluster::with_mode(&Setup::of_pages(1, 100, 50, 2), mode);
    cluster.step(&[], |station| station.insert(&tokens(0..10)));
    cluster.settle();
    enter(&mut cluster);
    cluster.stations[0].insert(&tokens(10..20));
    cluster.stations[1].insert(&tokens(20..30));
    close(&mut cluster);
    cluster
}

fn enter(cluster: &mut Cluster) {
    cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
}

/// As `Cluster::close`, but ranks need not be equal.
fn close(cluster: &mut Cluster) {
    for station in &mut cluster.stations {
        let free = station.device.available();
        station.rank.close_step(&mut station.board, free).unwrap();
        station.take_effects();
        station.rank.cache().check().unwrap();
    }
}

/// Steps and votes, as far as they go.
fn go_on(cluster: &mut Cluster) {
    for _ in 0..6 {
        enter(cluster);
        close(cluster);
        cluster.stations.iter_mut().for_each(Station::end_all);
        cluster.vote();
    }
}

#[test]
fn enforced_a_difference_ends_the_rank_before_it_applies_the_frame() {
    let mut cluster = parted(DivergenceMode::Enforce);
    let entered = cluster.enter(&[Control::Stop]);
    assert_eq!(entered[0], Ok(()));
    let Err(StepError::Protocol(ProtocolError::Divergence(Divergence::Leader { rank: 1, step, .. }))) = entered[1]
    else {
        panic!("{entered:?}")
    };
    assert_eq!(cluster.stations[1].rank.cache().cache().clock().step, step - 1);
    assert_eq!(cluster.stations[1].rank.parted(), None, "it was raised, and not kept");
}

#[test]
fn observed_the_first_difference_is_kept_and_the_ranks_go_on() {
    let mut cluster = parted(DivergenceMode::Observe);
    let before = cluster.stations[1].rank.cache().cache().clock().step;
    go_on(&mut cluster);
    let steps = [0, 1].map(|rank: usize| cluster.stations[rank].rank.cache().cache().clock().step);
    assert_eq!(steps, [before + 6; 2]);
    assert_eq!(cluster.stations[0].rank.parted(), None, "a leader finds it in votes");
    let Some(Divergence::Leader { rank: 1, step, .. }) = cluster.stations[1].rank.parted() else {
        panic!("it was kept")
    };
    assert_eq!(*step, before + 1, "the first one");
    let voted: Vec<_> = cluster.stations.iter().map(|station| station.votes.parted().cloned()).collect();
    let [Some(Divergence::Digest { vote, step, .. }), Some(Divergence::Digest { vote: other, step: same, .. })] =
        &voted[..]
    else {
        panic!("{voted:?}")
    };
    assert_eq!((vote, step), (other, same), "all see it in one vector");
    assert!(*step > before);
}

#[test]
fn off_nothing_is_compared() {
    let mut cluster = parted(DivergenceMode::Off);
    go_on(&mut cluster);
    for station in &cluster.stations {
        assert_eq!((station.rank.parted(), station.votes.parted()), (None, None));
    }
}

/// Form B: a number that this rank never voted is no matter of digests.
#[test]
fn what_cannot_be_carried_out_ends_the_rank_in_every_mode() {
    for mode in [DivergenceMode::Off, DivergenceMode::Observe] {
        let mut cluster = parted(mode);
        enter(&mut cluster);
        cluster.stations[0].insert(&tokens(30..40));
        close(&mut cluster);
        let ballots: Vec<Vec<i64>> = cluster.stations.iter_mut().map(Station::ballot).collect();
        // The leader's own ballot is framed in place of the smallest of all: it has issued an operation more.
        let leader = &mut cluster.stations[0];
        let newest = leader.votes.complete(&mut leader.board, &ballots[0]).unwrap();
        cluster.frame(newest);
        let entered = cluster.enter(&[]);
        let above = matches!(
            &entered[1],
            Err(StepError::Protocol(ProtocolError::Divergence(Divergence::AboveBallot { rank: 1, .. })))
        );
        assert!(above, "{mode:?}: {entered:?}");
    }
}
