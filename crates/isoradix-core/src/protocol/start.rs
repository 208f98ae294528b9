//! The start-up agreement: what must be equal on all ranks before the first step, and the capacity that all can serve.
//!
//! Each rank writes one record of a fixed width, 4,032 bytes, and reads those of all. All integers are unsigned and little-endian.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..4 | magic | `IRXS` |
//! | 4..6 | version | 1 |
//! | 6..8 | settings `S` | at most 62 |
//! | 8..12 | rank | |
//! | 12..16 | ranks | how many there are |
//! | 16..20 | capacity | host pages that this rank can back: 0 if its pinning failed, `u32::MAX` if it has no host pool |
//! | 20..56 | | 0 |
//! | 56..64 | checksum | of all other bytes |
//! | 64 + 64i | name | of setting `i`, as below; settings are ordered by name |
//! | 96 + 64i | value | likewise |
//! | .. | | 0 up to byte 4,032 |
//!
//! A text takes 32 bytes: the first 24 of its UTF-8, padded with 0, and a u64 hash of the whole. Texts are equal if their 32 bytes
//! are; what a message shows of a longer one ends in `..`.

use super::frame;
use crate::hash;
use crate::provenance::{Agreed, Applied, PerRank};
use std::collections::BTreeMap;
use std::fmt;

/// Settings that a record may hold.
pub const START_SETTINGS_MAX: usize = 62;

/// Bytes of a record.
pub const START_BYTES: usize = 64 + 64 * START_SETTINGS_MAX;

const MAGIC: u32 = u32::from_le_bytes(*b"IRXS");
const VERSION: u16 = 1;
const SHOWN: usize = 24;
const CHECKSUM: std::ops::Range<usize> = 56..64;
const NO_POOL: u32 = u32::MAX;

/// A text as the record holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Text {
    shown: [u8; SHOWN],
    hash: u64,
}

impl Text {
    fn new(text: &str) -> Self {
        let mut shown = [0; SHOWN];
        let length = text.len().min(SHOWN);
        shown[..length].copy_from_slice(&text.as_bytes()[..length]);
        Self { shown, hash: hash::bytes(0, text.as_bytes()) }
    }

    fn to_bytes(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..SHOWN].copy_from_slice(&self.shown);
        bytes[SHOWN..].copy_from_slice(&self.hash.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; 32]) -> Self {
        let (shown, hash) = (frame::bytes_at(bytes, 0), frame::u64_at(bytes, SHOWN));
        Self { shown, hash }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.shown.iter().position(|byte| *byte == 0).unwrap_or(SHOWN);
        let shown = String::from_utf8_lossy(&self.shown[..length]);
        let whole = hash::bytes(0, &self.shown[..length]) == self.hash;
        write!(f, "{shown}{}", if whole { "" } else { ".." })
    }
}

/// What one rank brings to the agreement.
#[derive(Clone, PartialEq, Eq)]
pub struct StartRecord {
    rank: u32,
    ranks: u32,
    capacity: u32,
    settings: BTreeMap<Text, Text>,
}

impl fmt::Debug for StartRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StartRecord").field("rank", &self.rank).finish_non_exhaustive()
    }
}

impl StartRecord {
    /// The record of a rank that can back so many host pages; 0 if its pinning failed. Versions are set already.
    #[must_use]
    pub fn new(rank: u32, ranks: u32, capacity_pages: PerRank<u32>) -> Self {
        let capacity = capacity_pages.into_ballot().min(NO_POOL - 1);
        let versions = [
            ("isoradix", env!("CARGO_PKG_VERSION").to_owned()),
            ("frame format", frame::VERSION.to_string()),
            ("start format", VERSION.to_string()),
        ];
        let settings = versions.iter().map(|(name, value)| (Text::new(name), Text::new(value))).collect();
        Self { rank, ranks, capacity, settings }
    }

    /// The record of a rank without a host pool.
    #[must_use]
    pub fn without_pool(rank: u32, ranks: u32) -> Self {
        Self { capacity: NO_POOL, ..Self::new(rank, ranks, PerRank::observe(0)) }
    }

    /// Adds a setting that must be equal on all ranks: page size, dtype, window, eviction policy, an environment variable.
    ///
    /// # Errors
    /// If there is a setting of that name, or no room for one more.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), Disagreement> {
        let setting = Text::new(name);
        if self.settings.contains_key(&setting) {
            return Err(Disagreement::Malformed { what: format!("setting {name} is given twice") });
        }
        if self.settings.len() == START_SETTINGS_MAX {
            let what = format!("setting {name} would exceed the limit of {START_SETTINGS_MAX} settings");
            return Err(Disagreement::Malformed { what });
        }
        self.settings.insert(setting, Text::new(value));
        Ok(())
    }

    /// The record as bytes; the module's page shows them.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 62 settings")]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; START_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&(self.settings.len() as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.rank.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.ranks.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.capacity.to_le_bytes());
        for (to, (name, value)) in bytes[64..].chunks_exact_mut(64).zip(&self.settings) {
            to[..32].copy_from_slice(&name.to_bytes());
            to[32..].copy_from_slice(&value.to_bytes());
        }
        let sum = checksum(&bytes);
        bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What [`StartRecord::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are no record of this version, undamaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Disagreement> {
        let malformed = |what: String| Err(Disagreement::Malformed { what });
        if bytes.len() != START_BYTES {
            return malformed(format!("a start record of {} bytes, expected {START_BYTES}", bytes.len()));
        }
        let (magic, version) = (frame::u32_at(bytes, 0), frame::u16_at(bytes, 4));
        if (magic, version) != (MAGIC, VERSION) {
            return malformed(format!("a start record of magic {magic:#x}, version {version}, expected {VERSION}"));
        }
        if frame::u64_at(bytes, CHECKSUM.start) != checksum(bytes) {
            return malformed("a start record with a wrong checksum".to_owned());
        }
        let count = usize::from(frame::u16_at(bytes, 6)).min(START_SETTINGS_MAX);
        let text = |at| Text::from_bytes(&frame::bytes_at(bytes, at));
        let settings = (0..count).map(|setting| (text(64 + 64 * setting), text(96 + 64 * setting))).collect();
        let [rank, ranks, capacity] = [8, 12, 16].map(|at| frame::u32_at(bytes, at));
        Ok(Self { rank, ranks, capacity, settings })
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    hash::mix(hash::bytes(1, &bytes[..CHECKSUM.start]), hash::bytes(2, &bytes[CHECKSUM.end..]))
}

/// What all ranks agreed upon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    /// Host pages: the most that every rank with a pool can back; 0 if none has a pool.
    pub capacity_pages: Agreed<u32>,
}

/// Why ranks refuse to start together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Disagreement {
    /// Settings differ. All of them are named, and all ranks see the same list.
    Settings(Vec<Difference>),
    /// A record is missing, or is one of another group.
    Records {
        /// Its place.
        place: u32,
        /// What it says: its rank, and how many ranks there are.
        got: (u32, u32),
        /// What was expected.
        expected: (u32, u32),
    },
    /// A record cannot be made or read.
    Malformed {
        /// Why.
        what: String,
    },
}

/// One setting that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The setting's name.
    pub name: String,
    /// Values, in the order of their first rank, with the ranks that have them.
    pub values: Vec<(String, Vec<u32>)>,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(differences) => {
                f.write_str("start refused")?;
                for (at, Difference { name, values }) in differences.iter().enumerate() {
                    write!(f, "{} {name} is ", if at == 0 { ":" } else { ";" })?;
                    for (at, (value, ranks)) in values.iter().enumerate() {
                        write!(f, "{}{value} on {}", if at == 0 { "" } else { ", " }, super::error::Ranks(ranks))?;
                    }
                }
                write!(f, "\nhint: start all ranks with the same version, settings and environment")
            }
            Self::Records { place, got, expected } => write!(
                f,
                "start refused: record {place} is of rank {} of {}, expected rank {} of {}\n\
                 hint: gather one record a rank, in the order of ranks, over the consensus domain's own group",
                got.0, got.1, expected.0, expected.1
            ),
            Self::Malformed { what } => write!(
                f,
                "start refused: {what}\nhint: all ranks run one version of isoradix, and name each setting once"
            ),
        }
    }
}

impl std::error::Error for Disagreement {}

/// Compares the records of all ranks, in the order of their ranks. Every rank calls this on the same records, and so gets the same
/// answer.
///
/// # Errors
/// If anything but the capacity differs, or a record is missing.
pub fn agree(records: &[StartRecord]) -> Result<Agreement, Disagreement> {
    if records.is_empty() {
        return Err(Disagreement::Malformed { what: "no record at all".to_owned() });
    }
    for (place, record) in (0..).zip(records) {
        let (got, expected) = ((record.rank, record.ranks), (place, u32::try_from(records.len()).unwrap_or(u32::MAX)));
        if got != expected {
            return Err(Disagreement::Records { place, got, expected });
        }
    }
    let differences = differences(records);
    if !differences.is_empty() {
        return Err(Disagreement::Settings(differences));
    }
    let capacity = records.iter().map(|record| record.capacity).min().filter(|pages| *pages != NO_POOL);
    Ok(Agreement { capacity_pages: Agreed::mint(&Applied::after_all_checks(), capacity.unwrap_or(0)) })
}

fn differences(records: &[StartRecord]) -> Vec<Difference> {
    let mut names: Vec<Text> = records.iter().flat_map(|record| record.settings.keys().copied()).collect();
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(|name| difference(records, name)).collect()
}

fn difference(records: &[StartRecord], name: Text) -> Option<Difference> {
    let mut values: Vec<(Option<Text>, Vec<u32>)> = Vec::new();
    for record in records {
        let value = record.settings.get(&name).copied();
        match values.iter_mut().find(|(other, _)| *other == value) {
            Some((_, ranks)) => ranks.push(record.rank),
            None => values.push((value, vec![record.rank])),
        }
    }
    let shown = |value: Option<Text>| value.map_or("not set".to_owned(), |value| value.to_string());
    let differs = values.len() > 1;
    let values = values.into_iter().map(|(value, ranks)| (shown(value), ranks)).collect();
    differs.then(|| Difference { name: name.to_string(), values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(ranks: u32) -> Vec<StartRecord> {
        let record = |rank| {
            let mut record = StartRecord::new(rank, ranks, PerRank::observe(1000 + rank));
            for (name, value) in [("page_size", "64"), ("dtype", "bfloat16"), ("eviction", "lru"), ("window", "64")] {
                record.set(name, value).unwrap();
            }
            record
        };
        (0..ranks).map(record).collect()
    }

    fn through_bytes(records: &[StartRecord]) -> Vec<StartRecord> {
        let bytes = records.iter().map(StartRecord::to_bytes);
        bytes.map(|bytes| StartRecord::from_bytes(&bytes).unwrap()).collect()
    }

    #[test]
    fn equal_records_agree_on_the_smallest_capacity() {
        let mut records = records(4);
        assert_eq!(through_bytes(&records), records);
        assert_eq!(agree(&through_bytes(&records)).unwrap().capacity_pages.get(), 1000);
        records[0] = StartRecord { capacity: NO_POOL, ..records[0].clone() };
        assert_eq!(agree(&records).unwrap().capacity_pages.get(), 1001, "a rank without a pool has no say");
        records[2] = StartRecord { capacity: 0, ..records[2].clone() };
        assert_eq!(agree(&records).unwrap().capacity_pages.get(), 0, "a rank whose pinning failed has");
    }

    #[test]
    fn without_any_pool_the_capacity_is_0() {
        let records: Vec<StartRecord> = (0..2).map(|rank| StartRecord::without_pool(rank, 2)).collect();
        assert_eq!(agree(&through_bytes(&records)).unwrap().capacity_pages.get(), 0);
    }

    #[test]
    fn every_difference_is_named_with_its_ranks() {
        let mut records = records(3);
        let long = "a value that is longer than what a record shows of it";
        for record in &mut records {
            let value = if record.rank == 1 { format!("{long}!") } else { long.to_owned() };
            record.set("LONG", &value).unwrap();
        }
        records[2].settings.insert(Text::new("page_size"), Text::new("32"));
        records[1].set("NCCL_ALGO", "Ring").unwrap();
        let refused = agree(&through_bytes(&records)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "start refused: LONG is a value that is longer t.. on ranks 0,2, a value that is longer t.. on rank 1; \
             NCCL_ALGO is not set on ranks 0,2, Ring on rank 1; page_size is 64 on ranks 0,1, 32 on rank 2\n\
             hint: start all ranks with the same version, settings and environment"
        );
    }

    #[test]
    fn missing_and_foreign_records_are_refused() {
        let mut records = records(3);
        records.pop();
        let expected = Disagreement::Records { place: 0, got: (0, 3), expected: (0, 2) };
        assert_eq!(agree(&records), Err(expected));
        records.swap(0, 1);
        assert!(matches!(agree(&records), Err(Disagreement::Records { .. })));
    }

    #[test]
    fn settings_are_given_once_and_are_bounded() {
        let mut record = StartRecord::without_pool(0, 1);
        record.set("a", "1").unwrap();
        assert!(record.set("a", "1").is_err());
        let refused = (0..100).find(|i| record.set(&format!("setting {i}"), "").is_err());
        assert_eq!(refused, Some(START_SETTINGS_MAX - 4));
        assert_eq!(StartRecord::from_bytes(&record.to_bytes()), Ok(record));
    }

    #[test]
    fn damage_is_refused() {
        let bytes = records(1)[0].to_bytes();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(StartRecord::from_bytes(&damaged).is_err(), "bit {bit}");
        }
        for length in [0, 63, START_BYTES - 1] {
            assert!(StartRecord::from_bytes(&bytes[..length]).is_err());
        }
    }
}
