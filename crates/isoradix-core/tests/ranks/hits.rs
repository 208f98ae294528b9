//! How much of a prompt every stage has, on device and host, is no vote of each request: what a match found is in the digest.

use super::cluster::{Cluster, Setup, Station};
use super::tokens;
use isoradix_core::protocol::{BatchHeader, BatchRequest, Divergence, ProtocolError};
use isoradix_core::{StepError, TieredMatch};

/// Tokens of the prompt.
const PROMPT: u64 = 60;

/// Three ranks with 40 tokens of a prompt in two nodes, on the device or on host alone.
fn ranks(on_host: bool) -> Cluster {
    let mut cluster = Cluster::new(&Setup::of_pages(1, 100, 100, 3));
    cluster.step(&[], |station| station.insert(&tokens(0..30)));
    cluster.step(&[], |station| station.insert(&tokens(0..40)));
    cluster.settle();
    if on_host {
        cluster.step(&[], Station::evict_all);
    }
    cluster
}

/// What each rank finds; the second one finds less.
fn find(cluster: &mut Cluster) -> Vec<TieredMatch> {
    let other: Vec<u32> = tokens(0..30).into_iter().chain(tokens(1000..1030)).collect();
    let key = |rank: usize| if rank == 1 { other.clone() } else { tokens(0..60) };
    cluster.stations.iter_mut().enumerate().map(|(rank, station)| station.find(&key(rank))).collect()
}

fn header(rank: u32, step: u64, found: &TieredMatch) -> BatchHeader {
    let cached = found.hit_tokens + found.host_tokens;
    BatchHeader::new(rank, step, 0, None, vec![BatchRequest::numbered(7, cached, PROMPT - cached)]).unwrap()
}

#[test]
fn a_match_that_is_shorter_on_one_rank_is_named_before_a_forward_pass() {
    for on_host in [false, true] {
        let mut cluster = ranks(on_host);
        cluster.enter(&[]).into_iter().for_each(|entered| entered.unwrap());
        cluster.all(|station| station.rank.digest());
        let found = find(&mut cluster);
        let cached: Vec<_> = found.iter().map(|found| (found.hit_tokens, found.host_tokens)).collect();
        let on = |cached: u64| if on_host { (0, cached) } else { (cached, 0) };
        assert_eq!(cached, [40, 30, 40].map(on));

        // the digest has it at once, though the trees are equal
        cluster.all(|station| station.rank.cache().cache().tree_digest());
        let digests: Vec<u64> = cluster.stations.iter().map(|station| station.rank.digest()).collect();
        assert!(digests[0] == digests[2] && digests[0] != digests[1], "{digests:x?}");

        // in this step, the header beside the activations keeps it from being computed
        let step = cluster.stations[0].rank.cache().cache().clock().step;
        let headers: Vec<BatchHeader> = (0..).zip(&found).map(|(rank, found)| header(rank, step, found)).collect();
        assert_eq!(headers[2].check(&headers[0]), Ok(()));
        let refused = headers[1].check(&headers[0]).unwrap_err();
        assert!(matches!(refused, Divergence::Batch { rank: 1, from: 0, .. }), "{refused:?}");
        assert!(refused.to_string().starts_with(&format!("divergence at step {step} (form A): ")), "{refused}");

        // and where none is sent, the next frame names the rank, which applies nothing of it
        for station in &mut cluster.stations {
            station.rank.close_step(&mut station.board, 0).unwrap();
        }
        let entered = cluster.enter(&[]);
        assert_eq!((&entered[0], &entered[2]), (&Ok(()), &Ok(())));
        let Err(StepError::Protocol(ProtocolError::Divergence(Divergence::Leader { rank: 1, step: named, .. }))) =
            entered[1]
        else {
            panic!("{entered:?}")
        };
        assert_eq!(named, step + 1);
        assert_eq!(cluster.stations[1].rank.cache().cache().clock().step, step);
    }
}
