//! A ruling as bytes.
//!
//! A head of 64 bytes, then what was voted, then the aborts. All integers are little-endian and unsigned, but for the voted words, which
//! are i64.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..4 | magic | `IRXD` |
//! | 4..6 | version | 1 |
//! | 6..8 | words `W` | of the vote, at most 4,096 |
//! | 8..12 | aborts `A` | at most 4,096 |
//! | 12..16 | | 0 |
//! | 16..24 | step | the step at which every rank applies it |
//! | 24..32 | vote | its ordinal, `u64::MAX` for none |
//! | 32..40 | base | the question of its first word; 0 for no vote |
//! | 40..48 | `now_ms` | the leader's clock, in milliseconds |
//! | 48..56 | digest | the leader's, before the step |
//! | 56..64 | checksum | of all other bytes, as a frame's |
//! | 64.. | words | `W` times 8 bytes |
//! | .. | aborts | `A` times 8 bytes |
//!
//! Each ruling has one encoding: bytes that decode encode to themselves.

use super::queue::DECISION_WINDOW_MAX;
use super::ruling::Ruling;
use super::vote::DecisionVote;
use crate::protocol::FrameError;
use crate::protocol::frame::{CHECKSUM, checksum, exactly, field, length, u16_at, u32_at, u64_at};

/// Bytes of a ruling without a vote and without aborts.
pub const RULING_HEADER_BYTES: usize = 64;

/// Requests that one ruling may give up.
pub const RULING_ABORTS_MAX: usize = 4096;

const MAGIC: u32 = u32::from_le_bytes(*b"IRXD");
const VERSION: u16 = 1;
const NO_VOTE: u64 = u64::MAX;

impl Ruling {
    /// The ruling as bytes.
    ///
    /// # Panics
    /// It has more aborts than [`RULING_ABORTS_MAX`].
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a window is at most 4,096, and so are aborts")]
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.aborts.len() <= RULING_ABORTS_MAX, "{} aborts, limit {RULING_ABORTS_MAX}", self.aborts.len());
        let (vote, base) = self.vote.as_ref().map_or((NO_VOTE, 0), |vote| (vote.vote, vote.base));
        let words = self.vote.as_ref().map_or(&[][..], |vote| &vote.reports);
        let mut bytes = Vec::with_capacity(RULING_HEADER_BYTES + 8 * (words.len() + self.aborts.len()));
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((words.len() as u16).to_le_bytes());
        bytes.extend((self.aborts.len() as u64).to_le_bytes());
        for word in [self.step, vote, base, self.now_ms, self.digest, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(self.aborts.iter().flat_map(|request| request.to_le_bytes()));
        let sum = checksum(&bytes);
        bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The ruling that these bytes are.
    ///
    /// # Errors
    /// If they are not the bytes of a whole ruling of this version, undamaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FrameError> {
        let (words, aborts) = check_head(bytes)?;
        let aborts_at = RULING_HEADER_BYTES + 8 * words;
        length(bytes, aborts_at + 8 * aborts)?;
        let (got, expected) = (u64_at(bytes, CHECKSUM.start), checksum(bytes));
        if got != expected {
            return Err(FrameError::Checksum { got, expected });
        }
        exactly("reserved", u32_at(bytes, 12).into(), 0, 12)?;
        let (vote, base) = (u64_at(bytes, 24), u64_at(bytes, 32));
        if vote == NO_VOTE {
            exactly("words without a vote", words as u64, 0, 6)?;
            exactly("base without a vote", base, 0, 32)?;
        }
        let reports = bytes[RULING_HEADER_BYTES..aborts_at].chunks_exact(8).map(|word| u64_at(word, 0).cast_signed());
        let vote = (vote != NO_VOTE).then(|| DecisionVote { vote, base, reports: reports.collect() });
        Ok(Self {
            step: u64_at(bytes, 16),
            now_ms: u64_at(bytes, 40),
            digest: u64_at(bytes, 48),
            vote,
            aborts: bytes[aborts_at..].chunks_exact(8).map(|request| u64_at(request, 0)).collect(),
        })
    }
}

/// Words and aborts of bytes that have a ruling's head.
fn check_head(bytes: &[u8]) -> Result<(usize, usize), FrameError> {
    if bytes.len() < RULING_HEADER_BYTES {
        return length(bytes, RULING_HEADER_BYTES).map(|()| (0, 0));
    }
    exactly("magic", u32_at(bytes, 0).into(), MAGIC.into(), 0)?;
    exactly("version", u16_at(bytes, 4).into(), VERSION.into(), 4)?;
    let (words, aborts) = (u16_at(bytes, 6), u32_at(bytes, 8) as usize);
    if u32::from(words) > DECISION_WINDOW_MAX {
        return Err(field("words", words.into(), DECISION_WINDOW_MAX.into(), 6));
    }
    if aborts > RULING_ABORTS_MAX {
        return Err(field("aborts", aborts as u64, RULING_ABORTS_MAX as u64, 8));
    }
    Ok((words.into(), aborts))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rulings() -> [Ruling; 3] {
        let ruling = Ruling { step: 8123, now_ms: 99, digest: u64::MAX - 5, vote: None, aborts: vec![] };
        let vote = DecisionVote { vote: 17, base: 1 << 40, reports: vec![-4095, 0, 8192, i64::MAX] };
        let empty = DecisionVote { vote: 0, base: 3, reports: vec![] };
        [
            Ruling { vote: Some(vote), aborts: vec![7, u64::MAX], ..ruling.clone() },
            Ruling { vote: Some(empty), ..ruling.clone() },
            ruling,
        ]
    }

    #[test]
    fn rulings_survive_their_bytes() {
        for ruling in rulings() {
            assert_eq!(Ruling::from_bytes(&ruling.to_bytes()), Ok(ruling));
        }
    }

    /// Pins the format.
    #[test]
    fn bytes_lie_where_the_table_says() {
        let bytes = rulings()[0].to_bytes();
        assert_eq!(bytes.len(), 64 + 4 * 8 + 2 * 8);
        assert_eq!(bytes[..16], [b'I', b'R', b'X', b'D', 1, 0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let words: Vec<u64> = (16..56).step_by(8).map(|at| u64_at(&bytes, at)).collect();
        assert_eq!(words, [8123, 17, 1 << 40, 99, u64::MAX - 5]);
        assert_eq!(u64_at(&bytes, 64).cast_signed(), -4095);
        assert_eq!(u64_at(&bytes, 96), 7);
    }

    #[test]
    fn every_other_length_and_every_flipped_bit_is_refused() {
        let bytes = rulings()[0].to_bytes();
        for end in 0..bytes.len() {
            assert!(matches!(Ruling::from_bytes(&bytes[..end]), Err(FrameError::Length { .. })), "{end} bytes");
        }
        assert!(Ruling::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Ruling::from_bytes(&damaged).is_err(), "bit {bit}");
        }
    }

    /// Damage under a checksum that fits: what is read has one encoding.
    #[test]
    fn forged_rulings_decode_to_what_encodes_to_them() {
        let mut read = 0;
        for bytes in rulings().map(|ruling| ruling.to_bytes()) {
            for bit in 0..8 * bytes.len() {
                let mut forged = bytes.clone();
                forged[bit / 8] ^= 1 << (bit % 8);
                let sum = checksum(&forged);
                forged[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
                if let Ok(ruling) = Ruling::from_bytes(&forged) {
                    assert_eq!(ruling.to_bytes(), forged, "bit {bit}");
                    read += 1;
                }
            }
        }
        assert!(read > 500, "{read}");
    }
}
