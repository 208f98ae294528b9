//! A plain account of what was asked, reported and decided: each verdict is held against it, by the leader's step.

use super::deeds::{Deeds, Ended};
use super::fate::About;
use super::message::Message;
use super::phase::Group;
use super::plan::Plan;
use crate::violation::{Wrong, ensure};
use isoradix_core::decisions::{Decided, Report, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// A question, as the leader asked it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Question {
    /// When it is late, by the clock in rulings.
    Open { deadline_ms: u64 },
    /// It has its verdict.
    Decided,
    /// It was taken back.
    Retracted,
}

/// The account.
#[derive(Debug, Default)]
pub(super) struct Account {
    questions: BTreeMap<About, Question>,
    /// Of those, the open ones.
    open: BTreeSet<About>,
    /// What each rank has reported as its last word.
    said: BTreeMap<(About, usize), Report>,
    /// Failures that came too late for their epoch: this rank's word in the next one.
    late: BTreeSet<(Group, u32, usize)>,
    /// The epoch in which each rank has asked last.
    last: BTreeMap<(Group, u32, usize), u32>,
    ended: BTreeMap<u32, Ended>,
    now_ms: u64,
}

impl Account {
    /// A rank has asked.
    pub(super) fn asked(&mut self, rank: usize, about: About) {
        let key = (about.group, about.request, rank);
        self.last.insert(key, about.epoch);
        if self.late.remove(&key) {
            self.said.insert((about, rank), Report::Failed);
        }
    }

    /// A rank has reported. Its first word that it is ready or failed stays, as long as its question is open there.
    pub(super) fn reported(
        &mut self,
        rank: usize,
        about: About,
        report: Report,
        asks: bool,
        counts: bool,
    ) -> Result<(), Wrong> {
        let before = self.said.get(&(about, rank)).copied();
        ensure(counts == (asks && before.is_none()), "verdict", || {
            format!("{report:?} about {about} counts: {counts}; its question is open: {asks}, said before: {before:?}")
        })?;
        let key = (about.group, about.request, rank);
        if counts && report != Report::Pending {
            self.said.insert((about, rank), report);
        } else if report == Report::Failed
            && before != Some(Report::Failed)
            && self.last.get(&key) == Some(&about.epoch)
        {
            self.late.insert(key);
        }
        Ok(())
    }

    /// The leader has entered a step.
    pub(super) fn ruled(&mut self, plan: &Plan, message: &Message, deeds: &Deeds) -> Result<(), Wrong> {
        let now_ms = message.ruling(Group::Prefill)?.now_ms;
        ensure(now_ms >= self.now_ms, "verdict", || format!("the clock goes back from {} to {now_ms}", self.now_ms))?;
        self.now_ms = now_ms;
        for group in Group::ALL {
            for decided in &deeds.verdicts[group as usize] {
                self.decided(plan, group, *decided, message)?;
            }
        }
        for about in &deeds.retracted {
            self.close(*about, Question::Retracted)?;
        }
        for (request, how) in &deeds.ended {
            let before = self.ended.insert(*request, *how);
            ensure(before.is_none(), "verdict", || format!("request {request} ends twice: {before:?}, {how:?}"))?;
        }
        self.none_late()?;
        for about in &deeds.asked {
            let deadline_ms = now_ms + plan.patience_ms;
            let before = self.questions.insert(*about, Question::Open { deadline_ms });
            ensure(before.is_none(), "verdict", || format!("{about} is asked twice, {before:?} before"))?;
            self.open.insert(*about);
        }
        Ok(())
    }

    /// Every question has one end, and so has every request.
    pub(super) fn check_rest(&self, requests: usize) -> Result<(), Wrong> {
        let open: Vec<String> = self.open.iter().map(About::to_string).collect();
        ensure(open.is_empty(), "verdict", || format!("without a verdict: {}", open.join("; ")))?;
        ensure(self.ended.len() == requests, "verdict", || {
            format!("{requests} requests arrived, {} have come to an end", self.ended.len())
        })
    }

    /// A verdict is the first one about its question, and what the ranks have said, or the clock, is why.
    fn decided(&mut self, plan: &Plan, group: Group, decided: Decided, message: &Message) -> Result<(), Wrong> {
        let Decided { request, epoch, verdict, rank } = decided;
        let request = u32::try_from(request).unwrap_or(u32::MAX);
        let about = About { group, request, epoch };
        let question = self.questions.get(&about).copied();
        let said = |rank: usize| self.said.get(&(about, rank)).copied();
        let named = rank.and_then(|rank| usize::try_from(rank).ok());
        let late = matches!(question, Some(Question::Open { deadline_ms }) if self.now_ms >= deadline_ms);
        let holds = match verdict {
            Verdict::Ready => (0..plan.topology.members()).all(|rank| said(rank) == Some(Report::Ready)),
            Verdict::Failed => named.is_some_and(|rank| said(rank) == Some(Report::Failed)),
            Verdict::Aborted => message.aborts.contains(&request),
            Verdict::TimedOut => late && named.is_some(),
            Verdict::Missing => late,
        };
        ensure(holds && (verdict == Verdict::Aborted || !message.aborts.contains(&request)), "verdict", || {
            let said: Vec<_> = (0..plan.topology.members()).map(said).collect();
            format!("{about} is {verdict:?} by rank {rank:?}; the ranks said {said:?}, {question:?}")
        })?;
        self.close(about, Question::Decided)
    }

    fn close(&mut self, about: About, how: Question) -> Result<(), Wrong> {
        let before = self.questions.insert(about, how);
        self.open.remove(&about);
        let was_open = matches!(before, Some(Question::Open { .. }));
        ensure(was_open, "verdict", || format!("{about} comes to an end, {before:?} before"))
    }

    /// No question is open beyond its patience.
    fn none_late(&self) -> Result<(), Wrong> {
        for about in &self.open {
            let question = self.questions.get(about);
            let late = matches!(question, Some(Question::Open { deadline_ms }) if self.now_ms >= *deadline_ms);
            ensure(!late, "verdict", || format!("{about} is open at {} ms, {question:?}", self.now_ms))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Family, Options};
    use isoradix_core::decisions::DecisionQueue;

    const ABOUT: About = About { group: Group::Prefill, request: 7, epoch: 1 };

    fn plan() -> Plan {
        let options = Options { family: Family::Decisions, ..Options::default() };
        Plan::new(1, "pp2".parse().expect("a topology"), 0, &options)
    }

    /// A step at this time, of an account alone.
    fn step(account: &mut Account, now_ms: u64, aborts: &[u32], deeds: &Deeds) -> Result<(), String> {
        let queue = DecisionQueue::new(0, 1, 1).expect("a queue");
        let ruling = || queue.rule(now_ms, None, &[]).to_bytes().into();
        let message = Message {
            step: 1,
            rulings: [ruling(), ruling()],
            coefficients: None,
            arrivals: vec![],
            aborts: aborts.to_vec(),
            retractions: vec![],
            last: false,
        };
        account.ruled(&plan(), &message, deeds).map_err(|wrong| wrong.what)
    }

    fn by(verdict: Verdict, rank: Option<u32>) -> Deeds {
        let decided = Decided { request: 7, epoch: 1, verdict, rank };
        Deeds { verdicts: [vec![decided], vec![]], ..Deeds::default() }
    }

    fn asked() -> Account {
        let mut account = Account::default();
        let deeds = Deeds { asked: vec![ABOUT], ..Deeds::default() };
        step(&mut account, 10, &[], &deeds).expect("it may be asked");
        (0..2).for_each(|rank| account.asked(rank, ABOUT));
        account
    }

    fn say(account: &mut Account, rank: usize, report: Report, counts: bool) -> bool {
        account.reported(rank, ABOUT, report, true, counts).is_ok()
    }

    #[test]
    fn a_verdict_without_a_reason_is_refused() {
        let mut account = asked();
        assert!(say(&mut account, 0, Report::Ready, true));
        let late_ms = 10 + plan().patience_ms;
        for (now_ms, verdict, rank) in [
            (11, Verdict::Ready, None),
            (11, Verdict::Failed, Some(1)),
            (11, Verdict::Aborted, None),
            (late_ms - 1, Verdict::TimedOut, Some(1)),
            (late_ms - 1, Verdict::Missing, Some(1)),
        ] {
            let said = step(&mut account, now_ms, &[], &by(verdict, rank)).expect_err("there is no reason");
            assert!(said.starts_with("prefill of request 7, epoch 1 is "), "{said}");
        }
        assert_eq!(step(&mut account, late_ms, &[], &by(Verdict::Missing, Some(1))), Ok(()));
    }

    #[test]
    fn a_question_has_one_verdict_and_none_is_open_too_long() {
        let mut account = asked();
        assert!([0, 1].into_iter().all(|rank| say(&mut account, rank, Report::Ready, true)));
        assert!(step(&mut account, 11, &[7], &by(Verdict::Ready, None)).is_err(), "it is given up");
        assert_eq!(step(&mut account, 11, &[], &by(Verdict::Ready, None)), Ok(()));
        assert!(step(&mut account, 12, &[7], &by(Verdict::Aborted, None)).is_err(), "it has its verdict");
        assert!(step(&mut account, 9, &[], &Deeds::default()).is_err(), "the clock goes back");
        let late_ms = 10 + plan().patience_ms;
        assert!(step(&mut asked(), late_ms, &[], &Deeds::default()).is_err(), "it is open still");
    }

    #[test]
    fn the_first_word_stays_and_every_request_has_one_end() {
        let mut account = asked();
        assert!(say(&mut account, 0, Report::Ready, true));
        assert!(!say(&mut account, 0, Report::Failed, true), "it has said that it is ready");
        assert!(say(&mut account, 0, Report::Failed, false));
        account.asked(0, About { epoch: 2, ..ABOUT });
        assert_eq!(account.said.get(&(About { epoch: 2, ..ABOUT }, 0)), Some(&Report::Failed), "in the next epoch");
        let ends = Deeds { ended: vec![(9, Ended::Finished)], ..Deeds::default() };
        assert_eq!(step(&mut account, 11, &[], &ends), Ok(()));
        assert!(step(&mut account, 12, &[], &ends).is_err(), "it ends twice");
        assert!(account.check_rest(1).is_err(), "a question is open");
    }
}
