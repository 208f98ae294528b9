//! Ranks that vote and step at times of their own, beside a plain account of what each has reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::provenance::PerRank;

const PATIENCE_MS: u64 = 400;

/// A small generator: equal seeds, equal schedules.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) % n.max(1)
    }
}

/// What all ranks do in a step, after its ruling.
#[derive(Clone, Copy)]
enum Act {
    Ask(u64),
    Retract(u64),
}

struct Member {
    queue: DecisionQueue,
    rulings: VecDeque<(Ruling, Vec<Act>)>,
    verdicts: Vec<(u64, Decided)>,
    digests: Vec<u64>,
    epochs: BTreeMap<u64, u32>,
    /// Of each request and epoch, the first report that was ready or failed.
    reported: BTreeMap<(u64, u32), Report>,
    /// Requests whose failure came too late for their epoch.
    late: BTreeSet<u64>,
}

struct Domain {
    members: Vec<Member>,
    newest: Option<DecisionVote>,
    now_ms: u64,
    asked: BTreeSet<(u64, u32)>,
    retracted: BTreeSet<(u64, u32)>,
}

impl Domain {
    fn new(ranks: usize, window: u32) -> Self {
        let member = |rank| Member {
            queue: DecisionQueue::new(rank, window, PATIENCE_MS).unwrap(),
            rulings: VecDeque::new(),
            verdicts: Vec::new(),
            digests: Vec::new(),
            epochs: BTreeMap::new(),
            reported: BTreeMap::new(),
            late: BTreeSet::new(),
        };
        let members = (0..u32::try_from(ranks).unwrap()).map(member).collect();
        Self { members, newest: None, now_ms: 0, asked: BTreeSet::new(), retracted: BTreeSet::new() }
    }

    /// The leader enters a step, and the others are sent its ruling.
    fn lead(&mut self, aborts: &[u64], acts: &[Act]) {
        self.now_ms += 10;
        let ruling = self.members[0].queue.rule(self.now_ms, self.newest.as_ref(), aborts);
        let ruling = Ruling::from_bytes(&ruling.to_bytes()).expect("rulings survive their bytes");
        for member in &mut self.members {
            member.rulings.push_back((ruling.clone(), acts.to_vec()));
        }
        self.step(0);
    }

    fn step(&mut self, rank: usize) {
        let member = &mut self.members[rank];
        let Some((ruling, acts)) = member.rulings.pop_front() else { return };
        let decided = member.queue.apply(&ruling).unwrap();
        member.verdicts.extend(decided.into_iter().map(|one| (ruling.step, one)));
        for act in acts {
            match act {
                Act::Ask(request) => {
                    let epoch = member.epochs.get(&request).map_or(1, |epoch| epoch + 1);
                    if member.queue.ask(request, epoch).is_ok() {
                        member.epochs.insert(request, epoch);
                        self.asked.insert((request, epoch));
                        if member.late.remove(&request) {
                            member.reported.insert((request, epoch), Report::Failed);
                        }
                    }
                }
                Act::Retract(request) => {
                    if member.queue.retract(request).is_ok() {
                        self.retracted.insert((request, member.epochs[&request]));
                    }
                }
            }
        }
        member.digests.push(member.queue.digest());
    }

    fn report(&mut self, rank: usize, request: u64, report: Report) {
        let member = &mut self.members[rank];
        let Some(epoch) = member.epochs.get(&request).copied() else { return };
        let counts = member.queue.report(request, epoch, PerRank::observe(report)).unwrap();
        if counts && report != Report::Pending {
            assert_eq!(member.reported.insert((request, epoch), report), None, "the first stays");
        } else if report == Report::Failed && member.reported.get(&(request, epoch)) != Some(&Report::Failed) {
            member.late.insert(request);
        }
    }

    fn vote(&mut self) {
        let words = self.members[0].queue.words();
        let mut reduced = vec![i64::MAX; words];
        for member in &mut self.members {
            let mut ballot = vec![0; words];
            member.queue.fill(&mut ballot).unwrap();
            for (all, one) in reduced.iter_mut().zip(&ballot) {
                *all = (*all).min(*one);
            }
        }
        for (rank, member) in self.members.iter_mut().enumerate() {
            let vote = member.queue.complete(&reduced).unwrap();
            if rank == 0 {
                self.newest = Some(vote);
            }
        }
    }

    /// All ranks catch up.
    fn rest(&mut self) {
        for rank in 0..self.members.len() {
            while !self.members[rank].rulings.is_empty() {
                self.step(rank);
            }
        }
    }

    fn end(&mut self) {
        for _ in 0..2 * PATIENCE_MS / 10 {
            self.lead(&[], &[]);
            self.rest();
            self.vote();
        }
        let first = &self.members[0];
        for member in &self.members {
            assert_eq!(member.queue.open(), 0);
            assert_eq!((&member.verdicts, &member.digests), (&first.verdicts, &first.digests));
        }
        let mut over = self.retracted.clone();
        for (_, Decided { request, epoch, verdict, rank }) in &first.verdicts {
            assert!(over.insert((*request, *epoch)), "request {request} of epoch {epoch} has two ends");
            let reports = self.members.iter().map(|member| member.reported.get(&(*request, *epoch)).copied());
            match verdict {
                Verdict::Ready => assert!(reports.clone().all(|report| report == Some(Report::Ready))),
                Verdict::Failed => {
                    let named = reports.clone().nth(rank.unwrap() as usize).unwrap();
                    assert_eq!(named, Some(Report::Failed), "rank {rank:?} is named");
                }
                Verdict::Aborted | Verdict::TimedOut | Verdict::Missing => {}
            }
        }
        assert_eq!(over, self.asked, "each token has one end");
    }
}

fn run(seed: u64, ranks: usize, window: u32) -> Domain {
    let (mut random, mut domain) = (Random(seed | 1), Domain::new(ranks, window));
    for _ in 0..300 {
        let rank = random.below(ranks as u64);
        let rank = usize::try_from(rank).unwrap();
        let request = random.below(30);
        match random.below(10) {
            0..=2 => {
                let acts = (0..random.below(4)).map(|_| match random.below(8) {
                    0 => Act::Retract(random.below(30)),
                    _ => Act::Ask(random.below(30)),
                });
                let acts: Vec<Act> = acts.collect();
                let aborts: Vec<u64> = (0..random.below(3) / 2).map(|_| random.below(30)).collect();
                domain.lead(&aborts, &acts);
            }
            3..=5 => domain.step(rank),
            6 => domain.vote(),
            7 => domain.report(rank, request, Report::Pending),
            8 if random.below(6) == 0 => domain.report(rank, request, Report::Failed),
            _ => {
                for rank in 0..ranks {
                    domain.report(rank, request, Report::Ready);
                }
            }
        }
    }
    domain
}

proptest! {
    #[test]
    fn ranks_decide_alike_and_each_token_has_one_end(seed in any::<u64>(), ranks in 1..5usize, window in 1..20u32) {
        run(seed, ranks, window).end();
    }
}

#[test]
fn every_verdict_is_given() {
    let mut seen = BTreeSet::new();
    for seed in 1..60 {
        let mut domain = run(seed * 77, 3, 16);
        domain.end();
        seen.extend(domain.members[0].verdicts.iter().map(|(_, one)| one.verdict));
    }
    assert_eq!(seen.len(), 5, "{seen:?}");
}

fn both(patience: bool) -> Domain {
    let mut domain = Domain::new(2, 4);
    domain.lead(&[], &[Act::Ask(7)]);
    domain.rest();
    if patience {
        domain.report(0, 7, Report::Ready);
    }
    domain
}

fn next(domain: &mut Domain) -> Vec<Verdict> {
    domain.vote();
    domain.lead(&[], &[]);
    domain.rest();
    domain.members.iter().filter_map(|member| member.verdicts.last().map(|(_, one)| one.verdict)).collect()
}

#[test]
fn all_have_to_be_ready() {
    let mut domain = both(true);
    assert_eq!(next(&mut domain), []);
    domain.report(1, 7, Report::Pending);
    assert_eq!(next(&mut domain), []);
    domain.report(1, 7, Report::Ready);
    assert_eq!(next(&mut domain), [Verdict::Ready; 2]);
}

#[test]
fn a_failure_after_ready_is_for_the_next_epoch() {
    let mut domain = both(true);
    domain.report(1, 7, Report::Ready);
    domain.report(1, 7, Report::Failed);
    assert_eq!(next(&mut domain), [Verdict::Ready; 2]);
    domain.lead(&[], &[Act::Ask(7)]);
    domain.rest();
    domain.report(0, 7, Report::Ready);
    assert_eq!(next(&mut domain), [Verdict::Failed; 2]);
}

#[test]
fn who_says_nothing_is_missing_and_who_waits_is_late() {
    for (says, verdict) in [(false, Verdict::Missing), (true, Verdict::TimedOut)] {
        let mut domain = both(true);
        if says {
            domain.report(1, 7, Report::Pending);
        }
        let last = (0..60).map(|_| next(&mut domain)).last();
        assert_eq!(last, Some(vec![verdict; 2]));
        let decided = domain.members[0].verdicts.last().unwrap().1;
        assert_eq!(decided.rank, Some(1), "who holds the others up is named");
    }
}

/// A monotonic clock does not begin at 0.
#[test]
fn what_is_asked_before_the_first_step_is_not_late() {
    let mut queue = DecisionQueue::new(0, 2, PATIENCE_MS).unwrap();
    queue.ask(1, 1).unwrap();
    for (now_ms, verdicts) in [(1_000_000, 0), (1_000_000 + PATIENCE_MS, 1)] {
        let ruling = queue.rule(now_ms, None, &[]);
        assert_eq!(queue.apply(&ruling).unwrap().len(), verdicts);
    }
}

#[test]
fn a_refused_call_changes_nothing() {
    let mut queue = DecisionQueue::new(0, 2, PATIENCE_MS).unwrap();
    queue.ask(1, 5).unwrap();
    queue.ask(2, 5).unwrap();
    let digest = queue.digest();
    assert_eq!(queue.ask(3, 1), Err(DecisionError::Full { window: 2 }));
    assert_eq!(queue.ask(1, 6), Err(DecisionError::Open { request: 1, epoch: 5 }));
    assert_eq!(queue.retract(9), Err(DecisionError::Unknown { request: 9 }));
    assert_eq!(queue.forget(1), Err(DecisionError::Open { request: 1, epoch: 5 }));
    assert_eq!(queue.report(1, 6, PerRank::observe(Report::Ready)), Err(DecisionError::Unknown { request: 1 }));
    assert_eq!(queue.report(1, 4, PerRank::observe(Report::Failed)), Ok(false), "of an earlier epoch");
    let ruling = queue.rule(5, None, &[]);
    for wrong in [Ruling { step: 2, ..ruling.clone() }, Ruling { digest: 1, ..ruling.clone() }] {
        assert!(matches!(queue.apply(&wrong), Err(DecisionError::Mismatch { .. })));
    }
    assert!(matches!(queue.complete(&[0; 7]), Err(DecisionError::Mismatch { .. })));
    assert_eq!((queue.digest(), queue.open()), (digest, 2));
    queue.retract(1).unwrap();
    assert_eq!(queue.ask(1, 5), Err(DecisionError::Epoch { request: 1, epoch: 5, last: 5 }));
    assert!(DecisionQueue::new(0, 0, 1).is_err());
    assert!(DecisionQueue::new(DECISION_RANKS_MAX, 1, 1).is_err());
}

#[test]
fn requests_are_remembered_until_they_are_forgotten() {
    let mut queue = DecisionQueue::new(0, 1, PATIENCE_MS).unwrap();
    for request in 0..u64::from(DECISION_REQUESTS_MAX) {
        queue.ask(request, 1).unwrap();
        queue.retract(request).unwrap();
        // the window slides by votes
        let mut ballot = vec![0; queue.words()];
        queue.fill(&mut ballot).unwrap();
        queue.complete(&ballot).unwrap();
        queue.fill(&mut ballot).unwrap();
        let vote = queue.complete(&ballot).unwrap();
        let ruling = queue.rule(0, Some(&vote), &[]);
        queue.apply(&ruling).unwrap();
    }
    assert_eq!(queue.ask(u64::MAX, 1), Err(DecisionError::Crowded { limit: DECISION_REQUESTS_MAX }));
    queue.ask(7, 2).unwrap();
    queue.retract(7).unwrap();
    queue.forget(7).unwrap();
    assert_eq!(queue.remembered(), DECISION_REQUESTS_MAX as usize - 1);
}
