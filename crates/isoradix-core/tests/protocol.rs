//! The alignment protocol on four ranks: what becomes agreed and when, and that every way of parting is named.

#[path = "protocol/cluster.rs"]
mod cluster;
#[path = "common/random.rs"]
mod random;

use cluster::{Cluster, DEPTH, EPOCH, RANKS, WINDOW, k, member};
use isoradix_core::protocol::{
    AppliedControl, AppliedFrame, BALLOT_HEADER_WORDS, Board, Control, Divergence, FIFOS, FRAME_HEADER_BYTES, Frame,
    Leader, Member, Pace, Pacing, Patience, ProtocolError, RunAhead, SlotField, Stall, Stalled, StepDigest, Told,
    VoteMachine, Wait, blame,
};
use isoradix_core::{Ordinal, PerRank};
use random::Random;

fn all<T: PartialEq + std::fmt::Debug>(applied: &[AppliedFrame], what: impl Fn(&AppliedFrame) -> T) -> T {
    let values: Vec<T> = applied.iter().map(&what).collect();
    assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
    what(&applied[0])
}

fn told<T: Copy>(told: Told<T>) -> Option<T> {
    told.value().map(isoradix_core::Agreed::get)
}

fn slot_of(applied: &AppliedFrame, ordinal: u64) -> [Option<u64>; 4] {
    let Some(slot) = applied.vote().and_then(|vote| vote.slot(k(ordinal))) else { return [None; 4] };
    [told(slot.hit), told(slot.pages).map(u64::from), told(slot.progress), told(slot.ready).map(u64::from)]
}

#[test]
fn a_number_is_agreed_with_the_frame_at_one_step_and_is_the_smallest() {
    let mut cluster = Cluster::new();
    cluster.issue(0);
    for (rank, value) in [640, 512, 700, 576].into_iter().enumerate() {
        let board = &mut cluster.ranks[rank].board;
        board.post_hit(k(0), PerRank::observe(value)).unwrap();
        board.post_pages(k(0), PerRank::observe(10 + u32::try_from(rank).unwrap())).unwrap();
        board.post_progress(k(0), PerRank::observe(value / 64)).unwrap();
        board.post_ready(k(0), PerRank::observe(rank != 3)).unwrap();
        board.enqueue(2, k(0)).unwrap();
        if rank != 1 {
            board.finish(k(0)).unwrap();
        }
        board.post_backable(PerRank::observe(100 - u32::try_from(rank).unwrap()));
    }
    let before = cluster.step(&[]);
    assert!(before.iter().all(|applied| applied.vote().is_none()));
    cluster.vote();
    let applied = cluster.step(&[]);
    assert_eq!(all(&applied, |applied| slot_of(applied, 0)), [Some(512), Some(10), Some(8), Some(0)]);
    let finished = |applied: &AppliedFrame| [1, 2].map(|fifo| told(applied.vote().unwrap().finished(fifo)));
    assert_eq!(all(&applied, finished), [Some(1), Some(0)], "a FIFO with nothing open holds nobody back");
    assert_eq!(all(&applied, |applied| told(applied.vote().unwrap().backable())), Some(97));
    assert_eq!(all(&applied, |applied| applied.vote().unwrap().issued().get()), 1);
    assert_eq!(all(&applied, |applied| applied.now_ms().get()), 1020);
    let after = cluster.step(&[]);
    assert!(after.iter().all(|applied| applied.vote().is_none()), "a vote is framed once");
}

#[test]
fn not_yet_on_one_rank_is_not_yet_on_all_and_no_stake_gives_way() {
    let mut cluster = Cluster::new();
    cluster.issue(0);
    for rank in 0..3 {
        cluster.ranks[rank].board.post_hit(k(0), PerRank::observe(64)).unwrap();
        cluster.ranks[rank].board.abstain(k(0), SlotField::Pages).unwrap();
        cluster.ranks[rank].board.abstain(k(0), SlotField::Progress).unwrap();
    }
    cluster.ranks[3].board.post_pages(k(0), PerRank::observe(7)).unwrap();
    cluster.ranks[3].board.abstain(k(0), SlotField::Progress).unwrap();
    cluster.vote();
    let applied = cluster.step(&[]);
    let slot = applied[2].vote().unwrap().slot(k(0)).unwrap();
    assert_eq!((slot.hit, told(slot.pages), slot.progress), (Told::NotYet, Some(7), Told::NoStake));
    assert_eq!(slot.words().map(isoradix_core::Agreed::get), [-1, 7, i64::MAX, -1]);
}

#[test]
fn an_operation_that_one_rank_has_not_issued_has_no_slot_yet() {
    let mut cluster = Cluster::new();
    for rank in 0..3 {
        cluster.ranks[rank].board.issue(k(0)).unwrap();
        cluster.ranks[rank].board.post_hit(k(0), PerRank::observe(64)).unwrap();
    }
    cluster.vote();
    let applied = cluster.step(&[]);
    assert!(applied.iter().all(|applied| applied.vote().unwrap().slot(k(0)).is_none()));
    assert_eq!(applied[0].vote().unwrap().slots().count(), 0);
}

#[test]
fn a_ballot_that_is_not_sent_yet_is_written_anew_with_what_has_come_in_since() {
    let mut cluster = Cluster::new();
    let refused = cluster.ranks[3].refill().unwrap_err().to_string();
    assert!(refused.starts_with("refill out of order: no vote is in flight\nhint: "), "{refused}");
    cluster.vote();
    cluster.issue(0);
    let reduced = cluster.reduce(|ballots| {
        // Rank 3 has posted nothing; the others are done.
        assert!(ballots.iter().all(|ballot| ballot[BALLOT_HEADER_WORDS] == -1));
    });
    assert_eq!(reduced[BALLOT_HEADER_WORDS], -1);
    for rank in &mut cluster.ranks {
        rank.board.post_hit(k(0), PerRank::observe(64)).unwrap();
    }
    let vote = cluster.ranks[0].votes.vote();
    let ballots: Vec<Vec<i64>> = cluster.ranks.iter_mut().map(|rank| rank.refill().unwrap()).collect();
    assert!(ballots.iter().all(|ballot| (ballot[0], ballot[BALLOT_HEADER_WORDS]) == (vote.cast_signed(), 64)));
    // All ranks have the new ballots, so 64 is above nobody's own: neither in the vote nor in the frame.
    assert!(cluster.complete(&ballots[0]).iter().all(Result::is_ok));
    let applied = cluster.step(&[]);
    assert_eq!(all(&applied, |applied| slot_of(applied, 0)[0]), Some(64));
    assert_eq!(cluster.ranks[0].votes.vote(), vote + 1, "it was one vote");
}

#[test]
fn a_number_that_went_back_is_named_by_the_ballot_that_is_written_anew() {
    let mut cluster = Cluster::new();
    cluster.vote();
    cluster.issue(0);
    let reduced = cluster.reduce(|_| ());
    cluster.ranks[2].board = Board::new(2, WINDOW).unwrap();
    let refused = cluster.ranks[2].refill().unwrap_err();
    let expected =
        Divergence::Backwards { rank: 2, vote: 1, operation: None, field: "issued", before: 1, now: 0, own: true };
    assert_eq!(refused, ProtocolError::Divergence(expected));
    assert!(cluster.ranks[2].votes.is_in_flight());
    let cluster::Rank { votes, board, .. } = &mut cluster.ranks[1];
    let short = votes.refill(board, &mut [0; 3]).unwrap_err();
    assert!(matches!(short, ProtocolError::Length { .. }), "{short}");
    assert!(cluster.ranks[1].complete(&reduced).is_ok(), "what was refused changed nothing");
}

#[test]
fn controls_come_after_the_vote_in_the_leaders_order() {
    let mut cluster = Cluster::new();
    cluster.issue(0);
    let controls = [Control::TimeOut(k(0)), Control::Terminate(k(0)), Control::Abort(k(0))];
    let applied = cluster.step(&controls);
    let ordinals = all(&applied, |applied| {
        let ordinal = |control| match control {
            AppliedControl::TimeOut(k) => (1, k.get()),
            AppliedControl::Terminate(k) => (2, k.get()),
            AppliedControl::Abort(k) => (3, k.get()),
            _ => (0, Ordinal(9)),
        };
        applied.controls().map(ordinal).collect::<Vec<_>>()
    });
    assert_eq!(ordinals, [(1, k(0)), (2, k(0)), (3, k(0))]);
}

#[test]
fn the_window_opens_by_frames_and_not_by_votes() {
    let mut cluster = Cluster::new();
    let width = u64::from(WINDOW);
    (0..width).for_each(|ordinal| cluster.issue(ordinal));
    assert!(cluster.ranks.iter_mut().all(|rank| rank.board.issue(k(width)).is_err()));
    cluster.retire(3);
    cluster.step(&[]); // now `retired` is 3 in a frame applied on every rank
    cluster.vote();
    assert!(cluster.ranks.iter_mut().all(|rank| rank.board.issue(k(width)).is_err()), "the vote alone opens nothing");
    cluster.lead(&[]).unwrap();
    assert_eq!(cluster.ranks[0].board.admission().end(), width + 3);
    assert_eq!(cluster.ranks[1].board.admission().end(), width);
    // The leader issues into the slots of 0..3 while the followers still hold those; the next vote has base 3 on all ranks.
    (width..width + 3).for_each(|ordinal| cluster.ranks[0].board.issue(k(ordinal)).unwrap());
    cluster.vote();
    (1..RANKS).for_each(|rank| drop(cluster.follow(rank)));
    let applied = cluster.step(&[]);
    let slots = all(&applied, |applied| applied.vote().unwrap().slots().map(|(k, _)| k.0).collect::<Vec<_>>());
    assert_eq!(slots, [3, 4, 5, 6, 7]);
}

#[test]
fn the_leader_runs_ahead_up_to_its_bound() {
    let mut cluster = Cluster::new();
    for _ in 0..=DEPTH {
        cluster.vote();
        cluster.lead(&[]).unwrap();
    }
    let refused = cluster.lead(&[]).unwrap_err();
    assert!(matches!(refused, ProtocolError::Backpressure(pressure) if pressure.in_flight == DEPTH + 1), "{refused}");
    let step = cluster.leader.next_step();
    (1..RANKS).for_each(|rank| drop(cluster.follow(rank).unwrap()));
    assert_eq!(cluster.lead(&[]).unwrap().step(), step, "a refused stamp takes no step");
    for rank in 1..RANKS {
        while cluster.follow(rank).is_some() {}
        assert_eq!(cluster.followers[rank - 1].next_step(), step + 1);
        assert_eq!(cluster.ranks[rank].digest, cluster.ranks[0].digest);
    }
}

/// Row 19 of the regression inputs.
#[test]
fn ten_thousand_idle_steps_keep_the_frames_in_flight_bounded_and_small() {
    let mut cluster = Cluster::new();
    let mut refused = 0;
    while cluster.leader.next_step() <= 10_000 {
        match cluster.lead(&[]) {
            Ok(_) => {}
            Err(ProtocolError::Backpressure(_)) => {
                refused += 1;
                (1..RANKS).for_each(|rank| drop(cluster.follow(rank).unwrap()));
            }
            Err(other) => panic!("{other}"),
        }
        let bound = DEPTH as usize + 1;
        assert!(cluster.wires.iter().all(|wire| wire.len() <= bound));
        assert!(cluster.wires.iter().flatten().all(|bytes| bytes.len() == FRAME_HEADER_BYTES));
    }
    assert!(refused > 9_000, "the leader is never held back otherwise: {refused}");
}

#[test]
fn a_scheduler_far_behind_its_vote_thread_still_applies() {
    let mut cluster = Cluster::new();
    cluster.issue(0);
    for vote in 0..400 {
        cluster.ranks[0].board.post_progress(k(0), PerRank::observe(vote)).unwrap();
        (1..RANKS).for_each(|rank| {
            cluster.ranks[rank].board.post_progress(k(0), PerRank::observe(2 * vote)).unwrap();
        });
        cluster.vote();
        if vote == 10 {
            cluster.lead(&[]).unwrap();
        }
    }
    let applied = cluster.follow(2).unwrap();
    assert_eq!(slot_of(&applied, 0)[2], Some(10));
}

fn pair_fields() -> [(usize, &'static str); 4] {
    [(0, "vote"), (2, "epoch"), (4, "base"), (6, "digest_step")]
}

#[test]
fn whatever_must_be_equal_before_a_vote_is_named_on_all_ranks() {
    for (word, field) in pair_fields() {
        let mut cluster = Cluster::new();
        cluster.vote();
        let refused = cluster.vote_refused(|ballots| {
            ballots[2][word] += 9;
            ballots[2][word + 1] = !ballots[2][word];
        });
        for (rank, divergence) in (0..).zip(refused) {
            let Divergence::Unequal { rank: by, vote: 1, field: named, min, max, .. } = divergence else {
                panic!("{divergence:?}")
            };
            assert_eq!((by, named, max - min), (rank, field, 9));
        }
    }
}

#[test]
fn a_rank_that_skips_a_vote_is_found() {
    let mut cluster = Cluster::new();
    cluster.vote();
    let own = cluster.ranks[3].fill().unwrap();
    cluster.ranks[3].complete(&own).unwrap();
    let refused = cluster.vote_refused(|_| ());
    assert_eq!(
        refused[0].to_string(),
        "divergence at vote 1: ranks voted vote 1 to 2, rank 0 voted 1\n\
         hint: a rank skipped or repeated a vote, or is of another epoch; vote is 1 on this rank"
    );
}

/// Steps and votes until something is refused; rank 2 decides differently in step 6.
fn drift(cluster: &mut Cluster) {
    for step in 1..=6 {
        cluster.step(&[]);
        cluster.vote();
        if step == 6 {
            cluster.ranks[2].digest ^= 1;
        }
    }
}

#[test]
fn a_follower_that_drifted_says_so_before_it_applies_anything() {
    let mut cluster = Cluster::new();
    drift(&mut cluster);
    let frame = cluster.stamp(&[]).unwrap();
    let before = (cluster.ranks[2].board.admission(), cluster.followers[1].next_step());
    assert!(cluster.check(1, frame.clone()).is_ok());
    let divergence = cluster.check(2, frame).unwrap_err();
    assert!(matches!(divergence, Divergence::Leader { rank: 2, step: 7, .. }));
    assert!(
        divergence.to_string().ends_with("the last frame that rank 2 applied is of step 6\nhint: isoradix diff DIR")
    );
    assert_eq!((cluster.ranks[2].board.admission(), cluster.followers[1].next_step()), before);
}

#[test]
fn a_voted_digest_mismatch_reaches_all_ranks_within_two_votes() {
    let mut cluster = Cluster::new();
    for _ in 0..5 {
        cluster.step(&[]);
    }
    cluster.vote(); // reduces applied_step 5, so the next vote compares step 5
    let refused = cluster.vote_refused(|ballots| {
        ballots[2][8] ^= 1;
        ballots[2][9] = !ballots[2][8];
    });
    for (rank, divergence) in (0..).zip(&refused) {
        assert!(matches!(divergence, Divergence::Digest { rank: by, vote: 1, step: 5, own: Some(_) } if *by == rank));
    }
    let mut rings: Vec<Vec<StepDigest>> = cluster.ranks.iter().map(|rank| rank.board.digests().records()).collect();
    rings[2][3].digest ^= 1;
    rings[2][4].digest ^= 1;
    let Some(Divergence::Ranks { step, last_common, groups }) = blame(&rings) else { panic!("nobody to blame") };
    assert_eq!((step, last_common), (3, Some(2)));
    assert_eq!((&groups[0].1, &groups[1].1), (&vec![0, 1, 3], &vec![2]));
}

#[test]
fn a_rank_without_the_digest_takes_no_part_in_the_comparison() {
    let mut cluster = Cluster::new();
    cluster.step(&[]);
    cluster.vote();
    let reduced = cluster.reduce(|ballots| ballots[1][8..10].fill(i64::MAX));
    assert!(cluster.complete(&reduced).iter().all(Result::is_ok));
}

#[test]
fn a_vector_above_an_own_ballot_is_refused_by_that_rank() {
    let mut cluster = Cluster::new();
    cluster.issue(0);
    let at = BALLOT_HEADER_WORDS + SlotField::Progress as usize;
    let mut reduced = cluster.reduce(|_| ());
    reduced[at] = 3;
    let refused = cluster.ranks[1].complete(&reduced).unwrap_err();
    let expected = Divergence::AboveBallot {
        rank: 1,
        step: None,
        vote: 0,
        operation: Some(k(0)),
        field: "progress",
        agreed: 3,
        own: -1,
    };
    assert_eq!(refused, ProtocolError::Divergence(expected));
}

/// Row 15 of the regression inputs: the leader is told of an operation that this rank's queue lacks.
#[test]
fn a_framed_number_that_this_rank_lacks_is_form_b_by_name() {
    let mut cluster = Cluster::new();
    for rank in 0..3 {
        cluster.ranks[rank].board.issue(k(0)).unwrap();
        cluster.ranks[rank].board.post_ready(k(0), PerRank::observe(true)).unwrap();
    }
    // A vote that went round rank 3.
    let reduced = cluster.reduce(|ballots| ballots[3] = ballots[2].clone());
    cluster.newest = Some(cluster.ranks[0].complete(&reduced).unwrap());
    let frame = cluster.stamp(&[]).unwrap();
    assert!(cluster.check(2, frame.clone()).is_ok());
    let divergence = cluster.check(3, frame).unwrap_err();
    assert_eq!(
        divergence.to_string(),
        "divergence at step 1 (form B): vote 0 says ready of operation 0 is 1, but rank 3 voted \
         -1 (not issued or not known here); nothing was taken\nhint: isoradix diff DIR"
    );
    assert!(cluster.ranks[3].board.issue(k(0)).is_ok(), "the board is as it was");
    assert_eq!(cluster.followers[2].next_step(), 1);
}

/// A vote in which operation 0 has so many tokens, and the frame of it.
fn framed_hit(cluster: &mut Cluster, tokens: u64, completes: &[usize]) -> Frame {
    cluster.issue(0);
    for rank in &mut cluster.ranks {
        rank.board.post_hit(k(0), PerRank::observe(tokens)).unwrap();
    }
    let reduced = cluster.reduce(|_| ());
    for &rank in completes {
        cluster.newest = Some(cluster.ranks[rank].complete(&reduced).unwrap());
    }
    cluster.stamp(&[]).unwrap()
}

/// Less than this rank voted, so it lacks nothing; but other ranks will decide by more.
#[test]
fn a_framed_vector_is_what_this_rank_reduced_as_soon_as_it_has() {
    let mut cluster = Cluster::new();
    framed_hit(&mut cluster, 640, &[0, 2]);
    let frame = framed_hit(&mut Cluster::new(), 512, &[0]);
    assert!(cluster.check(1, frame.clone()).is_ok(), "rank 1 has voted 640, and not seen what came of it");
    let board = cluster.ranks[2].board.admission();
    let divergence = cluster.check(2, frame.clone()).unwrap_err();
    assert_eq!(
        divergence.to_string(),
        "divergence at step 1: the frame says of vote 0 that hit of operation 0 is 512, rank 2 has reduced 640; \
         nothing was taken\nhint: the reduction gave unequal results, or the frame is of another group or was altered"
    );
    assert_eq!((cluster.ranks[2].board.admission(), cluster.followers[1].next_step()), (board, 1));
    let good = framed_hit(&mut Cluster::new(), 640, &[0]);
    assert!(cluster.check(2, good).is_ok());
}

#[test]
fn a_vector_is_compared_while_it_is_kept() {
    let (mut cluster, mut other) = (Cluster::new(), Cluster::new());
    framed_hit(&mut cluster, 640, &[0, 1, 2, 3]);
    let frame = framed_hit(&mut other, 512, &[0]);
    (0..127).for_each(|_| cluster.vote());
    assert!(matches!(cluster.check(1, frame.clone()), Err(Divergence::Reduction { rank: 1, vote: 0, .. })));
    cluster.vote();
    assert!(cluster.check(1, frame).is_ok(), "as long as ballots are, and no longer");
}

#[test]
fn a_digest_that_could_not_be_compared_is_counted() {
    let mut cluster = Cluster::new();
    let uncompared = |cluster: &Cluster| cluster.ranks.iter().map(|rank| rank.votes.uncompared()).collect::<Vec<u64>>();
    cluster.vote();
    cluster.step(&[]);
    (0..2).for_each(|_| cluster.vote());
    assert_eq!(uncompared(&cluster), [0; RANKS], "at first there is no step to compare, then there is its digest");
    (0..4_096).for_each(|_| drop(cluster.step(&[])));
    cluster.vote();
    assert_eq!(uncompared(&cluster), [1; RANKS], "step 1 is 4,096 steps ago");
    cluster.vote();
    assert_eq!(uncompared(&cluster), [1; RANKS]);
}

#[test]
fn a_counter_that_is_reset_is_named_by_its_own_rank_and_by_all() {
    let mut cluster = Cluster::new();
    cluster.issue(0);
    cluster.vote();
    cluster.ranks[2].board = Board::new(2, WINDOW).unwrap();
    let mut ballot = vec![0; cluster.ranks[2].votes.words()];
    let cluster::Rank { board, votes, .. } = &mut cluster.ranks[2];
    let refused = votes.fill(board, &mut ballot).unwrap_err().to_string();
    assert!(refused.starts_with("divergence at vote 1: issued went back from 1 to 0 on rank 2\n"), "{refused}");
    // The ballot is out all the same, so nobody waits; every rank sees the vector go back.
    let mut reduced = ballot;
    for rank in [0, 1, 3] {
        isoradix_core::protocol::reduce_min(&mut reduced, &cluster.ranks[rank].fill().unwrap());
    }
    let refused = cluster.complete(&reduced);
    assert!(refused.iter().all(|refused| matches!(
        refused,
        Err(ProtocolError::Divergence(Divergence::Backwards { field: "issued", before: 1, now: 0, own: false, .. }))
    )));
}

fn frame_of(member: Member, first_step: u64, now_ms: u64) -> Frame {
    let mut leader = Leader::new(member, first_step, RunAhead::new(0, 1));
    leader.stamp(None, PerRank::observe(now_ms), 0, &[]).unwrap()
}

#[test]
fn a_frame_that_is_not_the_next_one_is_named_by_field() {
    let good = member(0);
    let cases = [
        ("domain", frame_of(Member { domain: 4, ..good }, 1, 1000)),
        ("epoch", frame_of(Member { epoch: EPOCH + 1, ..good }, 1, 1000)),
        ("step", frame_of(good, 2, 1000)),
    ];
    for (field, frame) in cases {
        let mut cluster = Cluster::new();
        let refused = cluster.check(1, frame).unwrap_err();
        assert!(matches!(refused, Divergence::Frame { rank: 1, step: 1, field: named, .. } if named == field));
    }
    let mut cluster = Cluster::new();
    assert!(cluster.check(1, frame_of(good, 1, 1000)).is_ok());
    assert!(matches!(cluster.check(1, frame_of(good, 1, 1000)), Err(Divergence::Frame { field: "step", .. })), "twice");
    assert!(matches!(cluster.check(1, frame_of(good, 2, 999)), Err(Divergence::Frame { got: 999, .. })), "clock");
    assert!(cluster.check(1, frame_of(good, 2, 1000)).is_ok());
}

#[test]
fn framed_votes_never_go_back_and_none_is_made_up() {
    let mut cluster = Cluster::new();
    cluster.vote();
    let old = cluster.newest.clone();
    cluster.vote();
    cluster.step(&[]);
    let digest = cluster.ranks[0].digest;
    for (got, vote) in [(0, old), (1, cluster.newest.clone())] {
        let mut other = Leader::new(member(0), 2, RunAhead::new(0, 1));
        let frame = other.stamp(vote.as_ref(), PerRank::observe(9999), digest, &[]).unwrap();
        let refused = cluster.check(1, frame).unwrap_err();
        assert_eq!(refused, Divergence::Frame { rank: 1, step: 2, field: "vote", got, expected: 2 });
    }

    let mut lonely = Cluster::new();
    (0..3).for_each(|_| lonely.vote());
    let frame = lonely.stamp(&[]).unwrap();
    let refused = Cluster::new().check(1, frame).unwrap_err();
    assert_eq!(refused, Divergence::NeverVoted { rank: 1, step: 1, vote: 2, filled: 0 });
}

#[test]
fn a_framed_vector_of_another_window_is_refused() {
    let mut board = Board::new(0, 2).unwrap();
    let mut votes = VoteMachine::new(0, EPOCH, 2, Pacing::default()).unwrap();
    let mut ballot = vec![0; votes.words()];
    votes.fill(&mut board, &mut ballot).unwrap();
    let reduced = votes.complete(&mut board, &ballot).unwrap();
    let mut cluster = Cluster::new();
    cluster.vote();
    let mut leader = Leader::new(member(0), 1, RunAhead::new(0, 1));
    let frame = leader.stamp(Some(&reduced), PerRank::observe(1), 0, &[]).unwrap();
    assert!(matches!(cluster.check(1, frame), Err(Divergence::Shape { rank: 1, got: 28, expected: 52 })));
    let reduced = cluster.reduce(|_| ());
    let refused = cluster.ranks[0].complete(&reduced[..51]).unwrap_err();
    assert!(matches!(refused, ProtocolError::Divergence(Divergence::Shape { got: 51, .. })));
}

#[test]
fn calls_out_of_order_are_refused() {
    let mut cluster = Cluster::new();
    let out_of_order = |result: Result<(), ProtocolError>| matches!(result, Err(ProtocolError::OutOfOrder { .. }));
    let mut ballot = cluster.ranks[0].fill().unwrap();
    assert!(out_of_order(cluster.ranks[0].fill().map(drop)));
    assert!(out_of_order(cluster.ranks[1].complete(&ballot).map(drop)));
    ballot.push(0);
    let cluster::Rank { board, votes, .. } = &mut cluster.ranks[1];
    assert!(matches!(votes.fill(board, &mut ballot), Err(ProtocolError::Length { got: 53, expected: 52, .. })));
    let frame = cluster.stamp(&[]).unwrap();
    assert!(out_of_order(cluster.stamp(&[]).map(drop)));
    let other = frame_of(member(0), 9, 0);
    assert!(out_of_order(cluster.leader.apply(other, &mut cluster.ranks[0].board).map(drop)));
    assert!(cluster.leader.apply(frame.clone(), &mut cluster.ranks[0].board).is_ok());
    assert!(out_of_order(cluster.leader.apply(frame, &mut cluster.ranks[0].board).map(drop)));
    let many = vec![Control::Stop; 1025];
    assert!(matches!(cluster.stamp(&many), Err(ProtocolError::OutOfRange { what: "controls", .. })));
}

#[test]
fn a_clock_that_goes_back_on_the_leader_stands_still_in_frames() {
    let mut cluster = Cluster::new();
    cluster.step(&[]);
    cluster.now_ms = 5;
    let applied = cluster.step(&[]);
    assert_eq!(all(&applied, |applied| applied.now_ms().get()), 1010);
}

fn paces(cluster: &Cluster) -> Pace {
    let paces: Vec<Pace> = cluster.ranks.iter().map(|rank| rank.votes.pace()).collect();
    assert!(paces.iter().all(|pace| *pace == paces[0]), "{paces:?}");
    paces[0]
}

#[test]
fn one_paused_rank_slows_the_votes_of_all() {
    let Pacing { busy_ms, idle_ms, paused_ms } = Pacing::default();
    let mut cluster = Cluster::new();
    cluster.vote();
    assert_eq!(paces(&cluster), Pace::After { ms: idle_ms });
    cluster.issue(0);
    cluster.vote();
    assert_eq!(paces(&cluster), Pace::After { ms: busy_ms });
    cluster.ranks[2].board.pause(true);
    cluster.vote();
    assert_eq!(paces(&cluster), Pace::After { ms: paused_ms });
    assert!(all(&cluster.step(&[]), |applied| applied.vote().unwrap().paused().get()));
    cluster.ranks[2].board.pause(false);
    cluster.retire(1);
    cluster.step(&[]);
    cluster.vote();
    assert_eq!(paces(&cluster), Pace::After { ms: idle_ms });
}

#[test]
fn all_vote_threads_leave_after_the_vote_that_every_rank_stopped_before() {
    let mut cluster = Cluster::new();
    cluster.lead(&[Control::Stop]).unwrap();
    for rank in 1..RANKS {
        cluster.vote();
        assert_ne!(paces(&cluster), Pace::Leave, "rank {rank} has not applied the stop frame");
        assert!(cluster.follow(rank).unwrap().stops());
    }
    cluster.vote();
    assert_eq!(paces(&cluster), Pace::Leave);
    assert!(cluster.ranks.iter_mut().all(|rank| rank.fill().is_err()));
    assert!(matches!(cluster.stamp(&[]), Err(ProtocolError::OutOfOrder { call: "stamp", .. })));
    let refused = cluster.check(2, frame_of(member(0), 2, 9999)).unwrap_err();
    assert_eq!(refused, Divergence::AfterStop { rank: 2, step: 2, stopped: 1 });
}

#[test]
fn a_rank_whose_scheduler_died_names_itself_by_its_frozen_step() {
    let mut cluster = Cluster::new();
    let patience = Patience::new(1_000, 5_000, 5_000).unwrap();
    let mut stalls: Vec<Stall> = (0..RANKS).map(|_| Stall::begin(patience, 0)).collect();
    cluster.step(&[]);
    cluster.vote();
    let mut look = |cluster: &Cluster, now| -> Vec<Stalled> {
        stalls.iter_mut().zip(&cluster.ranks).map(|(stall, rank)| stall.look(&rank.votes, now)).collect()
    };
    look(&cluster, 0);
    // Rank 2 applies nothing from here on, but votes.
    cluster.lead(&[]).unwrap();
    drop((cluster.follow(1), cluster.follow(3)));
    cluster.vote();
    let seen = look(&cluster, 1_000);
    assert!(seen.iter().all(|seen| seen.wait == Wait::Report { waited_ms: 1_000 } && seen.step == Some(1)));
    assert_eq!(seen.iter().map(|seen| seen.rank).collect::<Vec<_>>(), [None, None, Some(2), None]);
    cluster.ranks[1].board.pause(true);
    cluster.vote();
    assert!(look(&cluster, 900_000).iter().all(|seen| seen.wait == Wait::Quiet), "a capture is no fault");
    cluster.ranks[1].board.pause(false);
    cluster.vote();
    assert!(look(&cluster, 904_000).iter().all(|seen| seen.wait == Wait::Fatal { waited_ms: 5_000 }));
}

impl Random {
    fn rank(&mut self) -> usize {
        usize::try_from(self.below(RANKS as u64)).unwrap()
    }
}

/// Issues on one rank as many operations as its window lets in, up to what the shared request stream holds.
fn issue_up_to(cluster: &mut Cluster, rank: usize, issued: &mut [u64], stream: u64) {
    while issued[rank] < stream && cluster.ranks[rank].board.issue(k(issued[rank])).is_ok() {
        let fifo = usize::try_from(issued[rank] * 7 / 3).unwrap() % FIFOS;
        cluster.ranks[rank].board.enqueue(fifo, k(issued[rank])).unwrap();
        issued[rank] += 1;
    }
}

/// What a rank took from one frame.
fn taken(applied: &AppliedFrame) -> Vec<i64> {
    let mut taken = vec![applied.step().cast_signed(), applied.now_ms().get().cast_signed()];
    if let Some(vote) = applied.vote() {
        taken.extend([vote.ordinal(), vote.retired(), vote.issued()].map(|value| value.get().cast_signed()));
        taken.extend(vote.slots().flat_map(|(_, slot)| slot.words()).map(isoradix_core::Agreed::get));
        let finished: Vec<u64> = (0..FIFOS).filter_map(|fifo| told(vote.finished(fifo))).collect();
        assert!(finished.len() == FIFOS && finished.iter().all(|below| *below <= vote.issued().get()));
        // Whatever a watermark has passed, it says how it ended.
        let passed = |k: Ordinal| k.0 < *finished.iter().min().unwrap_or(&0);
        assert!(vote.slots().filter(|(k, _)| passed(*k)).all(|(_, slot)| slot.ready != Told::NotYet));
        taken.extend(finished.into_iter().map(u64::cast_signed));
    }
    taken
}

/// Any schedule of issue, posts, votes and frames: every rank takes the same from the same step, and none is refused.
#[test]
fn any_schedule_gives_all_ranks_the_same_history() {
    for seed in 0..40 {
        let (mut random, mut cluster) = (Random(seed), Cluster::new());
        let mut issued = [0; RANKS];
        let mut histories: Vec<Vec<Vec<i64>>> = vec![Vec::new(); RANKS];
        let mut retired = [0_u64; RANKS];
        for turn in 0..2_000_u64 {
            let rank = random.rank();
            let applied = match random.below(8) {
                0 => {
                    issue_up_to(&mut cluster, rank, &mut issued, turn / 8);
                    None
                }
                1..=3 if issued[rank] > 0 => {
                    let ordinal = k(issued[rank] - 1 - random.below(issued[rank].min(u64::from(WINDOW))));
                    let value = random.below(100);
                    let board = &mut cluster.ranks[rank].board;
                    board.post_hit(ordinal, PerRank::observe(value)).unwrap();
                    board.post_progress(ordinal, PerRank::observe(value)).unwrap();
                    let _ = board.ended(ordinal, PerRank::observe(value > 20)); // refused if it has ended before
                    None
                }
                4 => {
                    cluster.vote();
                    paces(&cluster);
                    None
                }
                5 => cluster.lead(&[]).ok().map(|applied| (0, applied)),
                _ if rank > 0 => cluster.follow(rank).map(|applied| (rank, applied)),
                _ => None,
            };
            if let Some((rank, applied)) = applied {
                histories[rank].push(taken(&applied));
                // An operation is over once it is ready everywhere: the same rule on every rank, from agreed numbers alone.
                if let Some(vote) = applied.vote() {
                    let over = |k| vote.slot(k).is_some_and(|slot| slot.ready != Told::NotYet);
                    while over(k(retired[rank])) {
                        cluster.ranks[rank].board.terminal(k(retired[rank])).unwrap();
                        retired[rank] += 1;
                    }
                    cluster.ranks[rank].retired = retired[rank];
                }
            }
        }
        for rank in 1..RANKS {
            let steps = histories[rank].len();
            assert!(steps > 50, "seed {seed} rank {rank}: {steps} steps");
            assert_eq!(histories[rank], histories[0][..steps], "seed {seed} rank {rank}");
        }
        assert!(retired.iter().all(|retired| *retired > u64::from(WINDOW)), "seed {seed}: {retired:?}");
    }
}
