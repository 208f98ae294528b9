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
            format!("{report:?} of {about:?} counts: {counts}; its question is open: {asks}, said before: {before:?}")
        })?;
        let key = (about.group, about.request, rank);
        if counts && report != Report::Pending {
            self.said.insert((about, rank), report);
        } else if report == Report::Failed && before != Some(Report::Failed) && self.last.get(&key) == Some(&about.epoch) {
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
            ensure(before.is_none(), "verdict", || format!("{about:?} is asked twice, {before:?} before"))?;
            self.open.insert(*about);
        }
        Ok(())
    }

    /// Every question has one end, and so has every request.
    pub(super) fn check_rest(&self, requests: usize) -> Result<(), Wrong> {
        ensure(self.open.is_empty(), "verdict", || format!("without a verdict: {:?}", self.open))?;
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
            format!("{about:?} is {verdict:?} by rank {rank:?}; the ranks said {said:?}, {question:?}")
        })?;
        self.close(about, Question::Decided)
    }

    fn close(&mut self, about: About, how: Question) -> Result<(), Wrong> {
        let before = self.questions.insert(about, how);
        self.open.remove(&about);
        let was_open = matches!(before, Some(Question::Open { .. }));
        ensure(was_open, "verdict", || format!("{about:?} comes to an end, {before:?} before"))
    }

    /// No question is open beyond its patience.
    fn none_late(&self) -> Result<(), Wrong> {
        for about in &self.open {
            let question = self.questions.get(about);
            let late = matches!(question, Some(Question::Open { deadline_ms }) if self.now_ms >= *deadline_ms);
            ensure(!late, "verdict", || format!("{about:?} is open at {} ms, {question:?}", self.now_ms))?;
        }
        Ok(())
    }
}
