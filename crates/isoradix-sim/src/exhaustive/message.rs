//! What travels between ranks: ballots and reduced vectors, and frames as bytes.

use super::fingerprint::Fingerprint;
use isoradix_core::Ordinal;
use isoradix_core::operation::Event as Decision;
use isoradix_core::protocol::reduce_min;
use isoradix_core::protocol::words::{BACKABLE, FINISHED, ISSUED, RETIRED};
use std::rc::Rc;

/// A ballot or a reduced vector. Beside it, what the checker wants to know: pages of each operation that were whole when it was
/// filled, on that rank or on all of them.
#[derive(Debug)]
pub(super) struct Vector {
    pub(super) vote: u64,
    pub(super) words: Vec<i64>,
    pub(super) arrived: Vec<u32>,
    /// All of it.
    pub(super) fingerprint: u128,
    /// What the application of a frame reads of it: all but the pairs, the step applied and the flags.
    pub(super) told: u128,
}

impl Vector {
    pub(super) fn new(vote: u64, words: Vec<i64>, arrived: Vec<u32>) -> Self {
        let told = (&words[ISSUED..=RETIRED], words[BACKABLE], &words[FINISHED..], &arrived);
        let told = Fingerprint::of(&told);
        Self { vote, fingerprint: Fingerprint::of(&(&words, &arrived)), told, words, arrived }
    }

    /// The MIN over all ranks.
    pub(super) fn reduce(ballots: &[Rc<Self>]) -> Self {
        let (mut words, mut arrived) = (ballots[0].words.clone(), ballots[0].arrived.clone());
        for ballot in &ballots[1..] {
            reduce_min(&mut words, &ballot.words);
            arrived.truncate(ballot.arrived.len());
            arrived.iter_mut().zip(&ballot.arrived).for_each(|(least, arrived)| *least = (*least).min(*arrived));
        }
        Self::new(ballots[0].vote, words, arrived)
    }
}

/// A frame on its way.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) bytes: Vec<u8>,
    /// The vote that it brings.
    pub(super) vote: Option<Rc<Vector>>,
    /// What the future of a receiver depends on.
    pub(super) fingerprint: u128,
    /// All of it.
    pub(super) exact: u128,
}

impl Message {
    pub(super) fn new(bytes: Vec<u8>, vote: Option<Rc<Vector>>, decision: Option<(Decision, Ordinal)>) -> Self {
        let fingerprint = Fingerprint::of(&(vote.as_ref().map(|vote| vote.told), decision));
        let exact = Fingerprint::of(&(&bytes, vote.as_ref().map(|vote| vote.fingerprint)));
        Self { bytes, vote, fingerprint, exact }
    }
}
