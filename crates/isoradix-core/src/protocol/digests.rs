//! A rank's own digests by step, and who is to blame when rings of several ranks part.

use super::error::{Divergence, parting};
use std::hash::{Hash, Hasher};

/// The digest with which a rank entered a step: all its decisions before that step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepDigest {
    /// The step that was entered.
    pub step: u64,
    /// The decision digest then.
    pub digest: u64,
}

/// Digests of the last steps. It takes memory as it fills, up to its capacity.
#[derive(Debug, Clone)]
pub struct DigestRing {
    entries: Vec<Option<StepDigest>>,
    capacity: u32,
    newest: u64,
}

/// What the ring holds is history: two boards that go on alike may have come here on different ways. So the hash of a board
/// leaves it out.
impl Hash for DigestRing {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.capacity, self.newest).hash(state);
    }
}

impl DigestRing {
    pub(super) fn new(capacity: u32) -> Self {
        Self { entries: Vec::new(), capacity, newest: 0 }
    }

    fn place(&self, step: u64) -> usize {
        usize::try_from(step % u64::from(self.capacity)).unwrap_or_default()
    }

    pub(super) fn record(&mut self, step: u64, digest: u64) {
        let place = self.place(step);
        if place >= self.entries.len() {
            self.entries.resize(place + 1, None);
        }
        self.entries[place] = Some(StepDigest { step, digest });
        self.newest = self.newest.max(step);
    }

    /// The digest with which this rank entered the step, while the ring holds it.
    #[must_use]
    pub fn get(&self, step: u64) -> Option<u64> {
        let entry = self.entries.get(self.place(step)).copied().flatten()?;
        (entry.step == step).then_some(entry.digest)
    }

    /// All that the ring holds, oldest first.
    #[must_use]
    pub fn records(&self) -> Vec<StepDigest> {
        let (newer, older) = self.entries.split_at(self.entries.len().min(self.place(self.newest) + 1));
        older.iter().chain(newer).copied().flatten().collect()
    }

    /// The ring as bytes, for gathering: 16 bytes a step, oldest first. Bytes 0..8 the step, 8..16 the digest, little-endian.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = self.records().into_iter().flat_map(|entry| [entry.step, entry.digest]);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// What [`DigestRing::to_bytes`] wrote; a part of an entry at the end is left out.
    #[must_use]
    pub fn records_from_bytes(bytes: &[u8]) -> Vec<StepDigest> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        let entry = |bytes: &[u8]| StepDigest { step: word(&bytes[..8]), digest: word(&bytes[8..]) };
        bytes.chunks_exact(16).map(entry).collect()
    }
}

/// Where rings of several ranks, in the order of their ranks, part first: the divergence that names rank and step.
///
/// Only steps that every ring holds are compared. Nothing if all of those are equal.
#[must_use]
pub fn blame(rings: &[Vec<StepDigest>]) -> Option<Divergence> {
    let mut last_common = None;
    for entry in rings.first()? {
        let find =
            |ring: &Vec<StepDigest>| ring.binary_search_by_key(&entry.step, |other| other.step).ok().map(|at| ring[at]);
        let Some(all) = rings.iter().map(find).collect::<Option<Vec<StepDigest>>>() else { continue };
        let before = entry.step.checked_sub(1);
        if all.iter().any(|other| other.digest != entry.digest) {
            return Some(parting(before.unwrap_or_default(), last_common, (0..).zip(all)));
        }
        last_common = before;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(capacity: u32, steps: impl Iterator<Item = (u64, u64)>) -> DigestRing {
        let mut ring = DigestRing::new(capacity);
        steps.for_each(|(step, digest)| ring.record(step, digest));
        ring
    }

    #[test]
    fn holds_the_last_steps_in_order() {
        let ring = ring(4, (1..=10).map(|step| (step, step * 100)));
        let steps: Vec<u64> = ring.records().iter().map(|entry| entry.step).collect();
        assert_eq!(steps, [7, 8, 9, 10]);
        assert_eq!(ring.get(7), Some(700));
        assert_eq!(ring.get(6), None);
        assert_eq!(ring.get(11), None);
        assert_eq!(DigestRing::records_from_bytes(&ring.to_bytes()), ring.records());
    }

    #[test]
    fn the_odd_rank_and_its_first_wrong_step_are_named() {
        let good = |step| (step, step * 7);
        let bad = |step| (step, if step < 24 { step * 7 } else { step * 9 });
        // Ranks are at different steps, so their rings overlap only in part.
        let rings = [
            ring(16, (1..=30).map(good)).records(),
            ring(16, (1..=28).map(good)).records(),
            ring(16, (1..=29).map(bad)).records(),
            ring(16, (1..=27).map(good)).records(),
        ];
        let found = blame(&rings).expect("rank 2 differs");
        let Divergence::Ranks { step, last_common, groups } = &found else { panic!("{found}") };
        assert_eq!((*step, *last_common), (23, Some(22)));
        assert_eq!(groups[1].1, [2]);
        assert_eq!(
            found.to_string(),
            "divergence at step 23: rank 2 has digest 0x00000000000000d8, ranks 0,1,3 have digest 0x00000000000000a8; \
             last common step 22\nhint: isoradix diff DIR"
        );
    }

    #[test]
    fn equal_rings_blame_nobody() {
        let rings = [ring(8, (1..=9).map(|s| (s, s))).records(), ring(8, (1..=5).map(|s| (s, s))).records()];
        assert_eq!(blame(&rings), None);
        assert_eq!(blame(&[]), None);
    }
}
