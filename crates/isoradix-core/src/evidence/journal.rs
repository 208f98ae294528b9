//! The hash chain over all decisions, and a ring of the last ones.

use super::record::Record;
use crate::clock::Stamp;

/// The decision digest and the last records. Always on; costs some nanoseconds a decision.
#[derive(Debug)]
pub(crate) struct Journal {
    digest: u64,
    ring: Vec<Record>,
    capacity: usize,
    /// Where the next record goes once the ring is full.
    oldest: usize,
    /// Records that nobody has taken yet, once somebody wants all of them.
    stream: Option<Vec<Record>>,
    #[cfg(feature = "planted-defects")]
    pub(crate) planted: crate::defects::Planted,
}

impl Journal {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            digest: 0,
            ring: Vec::new(),
            capacity: capacity as usize,
            oldest: 0,
            stream: None,
            #[cfg(feature = "planted-defects")]
            planted: crate::defects::Planted::default(),
        }
    }

    /// Chains a decision.
    #[inline]
    pub(crate) fn append(&mut self, record: Record, now: Stamp) {
        #[cfg(feature = "planted-defects")]
        let record = self.planted_order(record);
        let record = record.chained(now, self.digest);
        self.digest = record.digest;
        if let Some(stream) = &mut self.stream {
            stream.push(record);
        }
        if self.ring.len() < self.capacity {
            self.ring.push(record);
        } else if let Some(oldest) = self.ring.get_mut(self.oldest) {
            *oldest = record;
            self.oldest = if self.oldest + 1 == self.capacity { 0 } else { self.oldest + 1 };
        }
    }

    /// The record as a big-endian machine that forgets its byte order would chain it.
    #[cfg(feature = "planted-defects")]
    fn planted_order(&self, record: Record) -> Record {
        let swaps = self.planted.is(crate::defects::Defect::HostOrderDigest);
        Record { content: if swaps { record.content.swap_bytes() } else { record.content }, ..record }
    }

    /// The hash chain over all decisions so far.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// The last records, oldest first.
    pub(crate) fn records(&self) -> Vec<Record> {
        let (newer, older) = self.ring.split_at(self.oldest);
        [older, newer].concat()
    }

    /// The records since the last call, oldest first; none in the first, from which on they are kept.
    pub(crate) fn take(&mut self) -> Vec<Record> {
        self.stream.replace(Vec::new()).unwrap_or_default()
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let stream = self.stream.as_ref().map_or(0, Vec::capacity);
        (self.ring.capacity() + stream) * size_of::<Record>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::RecordKind;

    fn touch(node: u64) -> Record {
        Record::new(RecordKind::Touch, node, 0, 0, 0)
    }

    #[test]
    fn keeps_the_last_records_in_order() {
        let mut journal = Journal::new(3);
        for seq in 1..=7 {
            journal.append(touch(seq), Stamp { step: 0, seq });
        }
        let nodes: Vec<u64> = journal.records().iter().map(|record| record.node).collect();
        assert_eq!(nodes, [5, 6, 7]);
        assert_eq!(journal.records()[2].digest, journal.digest());
    }

    #[test]
    fn what_is_taken_is_whole_whatever_the_ring_holds() {
        let mut journal = Journal::new(2);
        journal.append(touch(1), Stamp { step: 0, seq: 1 });
        assert_eq!(journal.take(), [], "kept from the first call on");
        for seq in 2..=6 {
            journal.append(touch(seq), Stamp { step: 0, seq });
        }
        let nodes: Vec<u64> = journal.take().iter().map(|record| record.node).collect();
        assert_eq!(nodes, [2, 3, 4, 5, 6]);
        assert_eq!(journal.take(), []);
    }

    #[test]
    fn every_field_is_in_the_digest() {
        let base = Record::new(RecordKind::Match, 1, 2, 3, 4);
        let now = Stamp { step: 5, seq: 6 };
        let variants = [
            base,
            Record { node: 9, ..base },
            Record { a: 9, ..base },
            Record { b: 9, ..base },
            Record { content: 9, ..base },
            Record { kind: RecordKind::Insert, ..base },
            base.resumed_at(9),
        ];
        let mut digests: Vec<u64> = variants.iter().map(|record| record.chained(now, 7).digest).collect();
        digests.push(base.chained(Stamp { step: 9, ..now }, 7).digest);
        digests.push(base.chained(Stamp { seq: 9, ..now }, 7).digest);
        digests.push(base.chained(now, 8).digest);
        let count = digests.len();
        digests.sort_unstable();
        digests.dedup();
        assert_eq!(digests.len(), count);
    }

    #[test]
    fn bytes_are_little_endian_words() {
        let record = Record::new(RecordKind::Insert, 3, 4, 5, 6).resumed_at(0x10).chained(Stamp { step: 1, seq: 2 }, 0);
        let bytes = record.to_bytes();
        assert_eq!(bytes[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], [2, 0x10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[56..], record.digest.to_le_bytes());
        assert_eq!(Record::from_bytes(&bytes), Some(record));
    }

    #[test]
    fn a_kind_that_is_not_known_is_no_record() {
        let mut bytes = Record::new(RecordKind::Attachment, 3, 4, 5, 6).to_bytes();
        assert!(Record::from_bytes(&bytes).is_some(), "the last kind that there is");
        bytes[16] += 1;
        assert_eq!(Record::from_bytes(&bytes), None);
    }
}
