//! How far each FIFO of copies has come on this rank.

use super::error::ProtocolError;
use super::layout::{self, FIFOS, NO_STAKE};
use crate::ordinal::Ordinal;
use std::array;
use std::collections::BTreeSet;

/// One queue of copies.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Fifo {
    /// Ordinals that are enqueued and not finished.
    open: BTreeSet<u64>,
    /// This rank has no such FIFO.
    absent: bool,
}

/// The finished watermarks of all FIFOs.
///
/// A watermark is the smallest ordinal that is enqueued and not finished. Copies may finish in any order: one that is ahead of its
/// turn is covered once those before it have finished. Where nothing is open, the watermark is the number of operations enqueued in
/// *any* FIFO, so that it never holds back operations of other kinds.
///
/// No watermark goes back: what is enqueued next has a larger ordinal than all before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Watermarks {
    fifos: [Fifo; FIFOS],
    /// Operations enqueued so far, in all FIFOs.
    enqueued: u64,
}

impl Watermarks {
    /// The next of `issued` operations joins a FIFO.
    pub(super) fn enqueue(&mut self, fifo: usize, k: Ordinal, issued: u64) -> Result<(), ProtocolError> {
        if k.0 >= issued {
            return Err(ProtocolError::NotIssued { operation: k, issued });
        }
        let hint = "each operation joins one FIFO, right after it is issued";
        ProtocolError::in_range("enqueued ordinal", k.0, self.enqueued, self.enqueued, hint)?;
        self.fifo(fifo)?.open.insert(k.0);
        self.enqueued += 1;
        Ok(())
    }

    /// The operation's copy touches no page any more, or never will.
    pub(super) fn finish(&mut self, k: Ordinal) -> Result<(), ProtocolError> {
        let was_open = self.fifos.iter_mut().any(|fifo| fifo.open.remove(&k.0));
        if was_open { Ok(()) } else { Err(self.not_open(k)) }
    }

    /// Whether the operation may finish.
    pub(super) fn check_open(&self, k: Ordinal) -> Result<(), ProtocolError> {
        let is_open = self.fifos.iter().any(|fifo| fifo.open.contains(&k.0));
        if is_open { Ok(()) } else { Err(self.not_open(k)) }
    }

    /// This rank has no such FIFO: what is enqueued there holds nobody back.
    pub(super) fn abstain(&mut self, fifo: usize) -> Result<(), ProtocolError> {
        self.fifo(fifo)?.absent = true;
        Ok(())
    }

    /// The words of all FIFOs in a ballot.
    pub(super) fn words(&self) -> [i64; FIFOS] {
        array::from_fn(|fifo| match &self.fifos[fifo] {
            Fifo { absent: true, .. } => NO_STAKE,
            Fifo { open, .. } => layout::counter(open.first().copied().unwrap_or(self.enqueued)),
        })
    }

    fn not_open(&self, k: Ordinal) -> ProtocolError {
        ProtocolError::NotOpen { operation: k, enqueued: self.enqueued }
    }

    fn fifo(&mut self, fifo: usize) -> Result<&mut Fifo, ProtocolError> {
        let hint = "one FIFO a kind of operation";
        ProtocolError::in_range("fifo", fifo as u64, 0, FIFOS as u64 - 1, hint)?;
        Ok(&mut self.fifos[fifo])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SplitMix64;
    use std::collections::BTreeMap;

    fn k(ordinal: u64) -> Ordinal {
        Ordinal(ordinal)
    }

    /// Operations 0.. in these FIFOs.
    fn enqueued(fifos: &[usize]) -> Watermarks {
        let mut marks = Watermarks::default();
        for (ordinal, &fifo) in (0..).zip(fifos) {
            marks.enqueue(fifo, k(ordinal), ordinal + 1).unwrap();
        }
        marks
    }

    #[test]
    fn a_watermark_waits_for_the_oldest_and_then_covers_all_that_were_ahead() {
        let mut marks = enqueued(&[0, 2, 0, 0]);
        assert_eq!(marks.words(), [0, 4, 1, 4]);
        for (finished, words) in [(2, [0, 4, 1, 4]), (0, [3, 4, 1, 4]), (1, [3, 4, 4, 4]), (3, [4; 4])] {
            marks.finish(k(finished)).unwrap();
            assert_eq!(marks.words(), words, "after {finished}");
        }
        marks.enqueue(1, k(4), 5).unwrap();
        assert_eq!(marks.words(), [5, 4, 5, 5]);
    }

    #[test]
    fn what_is_issued_and_in_no_fifo_yet_is_below_no_watermark() {
        let mut marks = enqueued(&[0]);
        marks.finish(k(0)).unwrap();
        marks.enqueue(3, k(1), 3).unwrap(); // 2 is issued, its FIFO not known yet
        assert_eq!(marks.words(), [2, 2, 2, 1]);
    }

    #[test]
    fn an_absent_fifo_holds_nobody_back() {
        let mut marks = enqueued(&[1]);
        marks.abstain(1).unwrap();
        assert_eq!(marks.words(), [1, NO_STAKE, 1, 1]);
        marks.finish(k(0)).unwrap();
        assert_eq!(marks.words(), [1, NO_STAKE, 1, 1]);
    }

    #[test]
    fn an_operation_is_enqueued_once_in_order_and_finishes_once() {
        let mut marks = enqueued(&[0, 1]);
        marks.finish(k(1)).unwrap();
        let text = |error: ProtocolError| error.to_string().split_once("\nhint: ").unwrap().0.to_owned();
        let before = marks.clone();
        let refusals = [
            (marks.finish(k(1)), "operation 1 has finished on this rank already"),
            (marks.finish(k(2)), "operation 2 is in no FIFO of this rank: 2 operations have been enqueued"),
            (marks.check_open(k(1)), "operation 1 has finished on this rank already"),
            (marks.enqueue(0, k(1), 9), "enqueued ordinal 1 is out of range: 2 to 2"),
            (marks.enqueue(0, k(3), 9), "enqueued ordinal 3 is out of range: 2 to 2"),
            (marks.enqueue(0, k(2), 2), "operation 2 is not issued on this rank: 2 are"),
            (marks.enqueue(4, k(2), 3), "fifo 4 is out of range: 0 to 3"),
            (marks.abstain(4), "fifo 4 is out of range: 0 to 3"),
        ];
        for (refused, expected) in refusals {
            assert_eq!(text(refused.unwrap_err()), expected);
        }
        assert_eq!(marks, before);
        assert_eq!(marks.check_open(k(0)), Ok(()));
    }

    /// Any order of enqueues and finishes, against a list that is searched: no watermark goes back or beyond what is issued.
    #[test]
    fn watermarks_are_what_a_search_finds() {
        for seed in 0..200 {
            let mut random = SplitMix64(seed);
            let (mut marks, mut open) = (Watermarks::default(), BTreeMap::new());
            let (mut issued, mut before) = (0, [0; FIFOS]);
            for _ in 0..100 {
                let keys: Vec<u64> = open.keys().copied().collect();
                if keys.is_empty() || random.below(2) == 0 {
                    let fifo = random.index(FIFOS);
                    issued += 1;
                    marks.enqueue(fifo, k(issued - 1), issued).unwrap();
                    open.insert(issued - 1, fifo);
                } else {
                    let ordinal = keys[random.index(keys.len())];
                    marks.finish(k(ordinal)).unwrap();
                    open.remove(&ordinal);
                    assert!(marks.finish(k(ordinal)).is_err());
                }
                let first = |fifo| open.iter().find(|(_, of)| **of == fifo).map_or(issued, |(ordinal, _)| *ordinal);
                let expected: [u64; FIFOS] = array::from_fn(first);
                assert_eq!(marks.words().map(i64::cast_unsigned), expected, "seed {seed}");
                assert!(before.iter().zip(&expected).all(|(before, now)| before <= now && *now <= issued));
                before = expected;
            }
        }
    }
}
