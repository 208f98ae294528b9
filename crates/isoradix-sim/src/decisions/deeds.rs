//! What a rank does in a step: the same on all ranks.

use super::fate::About;
use super::phase::{Group, Phase};
use crate::rng::mix;
use isoradix_core::decisions::{Decided, Verdict};
use std::fmt;

/// How a request ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Its answer is complete.
    Finished,
    /// By a verdict.
    By(Verdict),
    /// It was given up in this phase, without an open question.
    Aborted(Phase),
}

/// A chunk of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) request: u32,
    pub(super) history: u64,
    pub(super) length: u64,
    /// Whether agreed coefficients made it so long.
    pub(super) fitted: bool,
}

/// A step of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Deeds {
    /// By group.
    pub(super) verdicts: [Vec<Decided>; 2],
    pub(super) asked: Vec<About>,
    /// Questions that were taken back.
    pub(super) retracted: Vec<About>,
    /// Requests that went back to the queue by the leader's word.
    pub(super) readmitted: Vec<u32>,
    pub(super) ended: Vec<(u32, Ended)>,
    pub(super) chunks: Vec<Chunk>,
    /// Digests of the queues.
    pub(super) digests: [u64; 2],
    /// Free slots.
    pub(super) free: u64,
}

impl fmt::Display for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tokens of request {} behind {}", self.length, self.request, self.history)
    }
}

/// A verdict in words.
fn show(decided: &Decided) -> String {
    let Decided { request, epoch, verdict, rank } = decided;
    let rank = rank.map(|rank| format!(" because of rank {rank}")).unwrap_or_default();
    format!("request {request}, epoch {epoch} {verdict:?}{rank}")
}

impl Deeds {
    /// What is otherwise than with the leader, if something is.
    pub(super) fn difference(&self, leaders: &Self) -> Option<String> {
        for group in Group::ALL {
            let verdicts = |deeds: &Self| deeds.verdicts[group as usize].clone();
            if let Some(other) = first(&verdicts(self), &verdicts(leaders), show) {
                return Some(format!("its first other verdict of {} is {other}", group.as_str()));
            }
        }
        let about = |(request, how): &(u32, Ended)| format!("request {request} {how:?}");
        let chunk = first(&self.chunks, &leaders.chunks, Chunk::to_string);
        let other = chunk.map(|other| format!("its first other chunk is {other}"));
        let other =
            other.or(first(&self.asked, &leaders.asked, About::to_string).map(|other| format!("it asks {other}")));
        let retracted = first(&self.retracted, &leaders.retracted, About::to_string);
        let other = other.or(retracted.map(|other| format!("it takes back {other}")));
        let other = other.or(first(&self.ended, &leaders.ended, about).map(|other| format!("it ends {other}")));
        other.or_else(|| {
            let same = self == leaders;
            let what = |deeds: &Self| format!("digests {:x?}, {} slots free", deeds.digests, deeds.free);
            (!same).then(|| format!("it has {}, the leader {}", what(self), what(leaders)))
        })
    }

    /// One word about all of it.
    pub(super) fn word(&self) -> u64 {
        let [prefill, decode] = self.digests;
        let tokens = self.chunks.iter().fold(0, |word, chunk| mix(word, mix(chunk.request.into(), chunk.length)));
        [prefill, decode, self.free, tokens].into_iter().fold(self.ended.len() as u64, mix)
    }
}

/// The first thing in which two lists differ, in words.
fn first<T: PartialEq>(own: &[T], leaders: &[T], show: impl Fn(&T) -> String) -> Option<String> {
    let place = own.iter().zip(leaders).position(|(own, leaders)| own != leaders);
    let place = place.unwrap_or(own.len().min(leaders.len()));
    let show = |list: &[T]| list.get(place).map_or_else(|| "none".to_owned(), &show);
    (own != leaders).then(|| format!("{}; the leader's is {}", show(own), show(leaders)))
}
