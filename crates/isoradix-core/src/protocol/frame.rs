//! What the leader sends once a step.
//!
//! A frame is a head of 64 bytes, then the reduced vector if it carries one, then the control decisions. All integers are
//! unsigned and little-endian, but for the vector's words, which are i64.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..4 | magic | `IRXF` |
//! | 4..6 | version | 1 |
//! | 6..8 | window `W` | operations in the vector, 1 to 4,096; 0 if the frame carries no vote |
//! | 8..12 | domain | consensus domain |
//! | 12..16 | controls `C` | at most 1,024 |
//! | 16..24 | epoch | the group's incarnation |
//! | 24..32 | step | the batch step at which every rank applies the frame |
//! | 32..40 | vote | ordinal of the carried vote, `u64::MAX` for none |
//! | 40..48 | `now_ms` | the leader's monotonic clock, in milliseconds; never goes back |
//! | 48..56 | digest | the leader's decision digest when it entered the step |
//! | 56..64 | checksum | of all other bytes |
//! | 64.. | vector | `20 + 4 W` words of 8 bytes, laid out as a ballot; absent if `W` is 0 |
//! | .. | controls | `C` times 16 bytes: code u32, key u32, operand u64 |
//!
//! | code | control | key | operand |
//! |---|---|---|---|
//! | 1 | terminate | 0 | ordinal |
//! | 2 | time out | 0 | ordinal |
//! | 3 | abort | 0 | ordinal |
//! | 4 | mode | which switch | its value |
//! | 5 | stop | 0 | 0 |
//! | 6 | tiers | 0 | the highest one that is on, 1 to 3 |
//! | 7 | attach | 0 | 0 |
//! | 8 | detach | 0 | 0 |
//!
//! Each frame has one encoding: bytes that decode encode to themselves. A frame carries a vote only if it is newer than that of the
//! frame before, so an idle step costs 64 bytes.

use super::error::{FrameError, ProtocolError};
use super::layout::{self, WINDOW_MAX};
use super::reduced::Reduced;
use super::top_tier::TopTier;
use crate::hash::RunHasher;
use crate::ordinal::Ordinal;

/// Bytes of a frame that carries no vote and no controls.
pub const FRAME_HEADER_BYTES: usize = 64;

/// Control decisions that a frame may carry.
pub const FRAME_CONTROLS_MAX: usize = 1024;

const MAGIC: u32 = u32::from_le_bytes(*b"IRXF");
pub(super) const VERSION: u16 = 1;
const CONTROL_BYTES: usize = 16;
pub(crate) const CHECKSUM: std::ops::Range<usize> = 56..64;
const NO_VOTE: u64 = u64::MAX;

/// Who takes part: a rank of one consensus domain in one epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member {
    /// Ranks of one domain hold isomorphic state.
    pub domain: u32,
    /// The group's incarnation: a new one after every rebuild.
    pub epoch: u64,
    /// The rank in the domain.
    pub rank: u32,
}

/// One of the embedding program's switches, set on all ranks at one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode {
    /// Which switch.
    pub key: u32,
    /// Its new value.
    pub value: u64,
}

/// A decision that only the leader may take, because physics or time has a say in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Control {
    /// Enough of the prefetch has arrived: keep what is framed, drop the rest.
    Terminate(Ordinal),
    /// The operation's deadline has passed.
    TimeOut(Ordinal),
    /// The operation is wanted no more.
    Abort(Ordinal),
    /// A switch is set.
    Mode(Mode),
    /// The last frame.
    Stop,
    /// From here on the tiers up to this one are on.
    Tiers(TopTier),
    /// All ranks open external storage; it is there once all of them have.
    Attach,
    /// External storage is left, once what is under way has ended.
    Detach,
}

impl Control {
    fn parts(self) -> (u32, u32, u64) {
        match self {
            Self::Terminate(k) => (1, 0, k.0),
            Self::TimeOut(k) => (2, 0, k.0),
            Self::Abort(k) => (3, 0, k.0),
            Self::Mode(Mode { key, value }) => (4, key, value),
            Self::Stop => (5, 0, 0),
            Self::Tiers(top) => (6, 0, top.number()),
            Self::Attach => (7, 0, 0),
            Self::Detach => (8, 0, 0),
        }
    }

    fn to_bytes(self) -> [u8; CONTROL_BYTES] {
        let (code, key, operand) = self.parts();
        let mut bytes = [0; CONTROL_BYTES];
        bytes[..4].copy_from_slice(&code.to_le_bytes());
        bytes[4..8].copy_from_slice(&key.to_le_bytes());
        bytes[8..].copy_from_slice(&operand.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8], at: usize) -> Result<Self, FrameError> {
        let (code, key, operand) = (u32_at(bytes, at), u32_at(bytes, at + 4), u64_at(bytes, at + 8));
        let control = match code {
            1 => Self::Terminate(Ordinal(operand)),
            2 => Self::TimeOut(Ordinal(operand)),
            3 => Self::Abort(Ordinal(operand)),
            4 => Self::Mode(Mode { key, value: operand }),
            5 => Self::Stop,
            6 => match TopTier::from_number(operand) {
                Some(top) => Self::Tiers(top),
                None => return Err(field("highest tier", operand, TopTier::Storage.number(), at + 8)),
            },
            7 => Self::Attach,
            8 => Self::Detach,
            _ => return Err(field("control code", code.into(), 8, at)),
        };
        // One encoding only: what a control does not use is 0.
        let (_, used_key, used_operand) = control.parts();
        exactly("control key", key.into(), used_key.into(), at + 4)?;
        exactly("control operand", operand, used_operand, at + 8)?;
        Ok(control)
    }
}

/// One step's message from the leader. Opaque until it is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    pub(super) domain: u32,
    pub(super) epoch: u64,
    pub(super) step: u64,
    pub(super) now_ms: u64,
    pub(super) digest: u64,
    pub(super) vote: Option<Reduced>,
    pub(super) controls: Vec<Control>,
}

impl Frame {
    /// The frame with another vote: a mistake that is planted.
    #[cfg(feature = "planted-defects")]
    pub(crate) fn with_vote(self, vote: Reduced) -> Self {
        Self { vote: Some(vote), ..self }
    }

    /// The step at which it is applied.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Ordinal of the vote that it carries, if it carries one.
    #[must_use]
    pub fn vote(&self) -> Option<u64> {
        self.vote.as_ref().map(Reduced::vote)
    }

    /// The last step that every rank had applied, as the vote that it carries says. For a report, not for a decision.
    #[must_use]
    pub fn applied_step(&self) -> Option<u64> {
        self.vote.as_ref().and_then(Reduced::applied_step)
    }

    /// The control decisions, in the order in which they are applied.
    #[must_use]
    pub fn controls(&self) -> &[Control] {
        &self.controls
    }

    pub(super) fn stops(&self) -> bool {
        self.controls.contains(&Control::Stop)
    }

    fn vector(&self) -> &[i64] {
        self.vote.as_ref().map_or(&[], Reduced::words)
    }

    /// The frame as bytes; the module's page shows them.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let vector = self.vector();
        let controls_at = FRAME_HEADER_BYTES + 8 * vector.len();
        let mut bytes = vec![0; controls_at + CONTROL_BYTES * self.controls.len()];
        for (to, word) in bytes[FRAME_HEADER_BYTES..controls_at].chunks_exact_mut(8).zip(vector) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        for (to, control) in bytes[controls_at..].chunks_exact_mut(CONTROL_BYTES).zip(&self.controls) {
            to.copy_from_slice(&control.to_bytes());
        }
        self.write_header(&mut bytes);
        let sum = checksum(&bytes);
        bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[expect(clippy::cast_possible_truncation, reason = "a window is at most 4,096, controls at most 1,024")]
    fn write_header(&self, bytes: &mut [u8]) {
        let window = self.vector().len().saturating_sub(layout::BALLOT_HEADER_WORDS) / layout::SLOT_WORDS;
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&(window as u16).to_le_bytes());
        bytes[8..12].copy_from_slice(&self.domain.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.controls.len() as u32).to_le_bytes());
        let words = [self.epoch, self.step, self.vote().unwrap_or(NO_VOTE), self.now_ms, self.digest];
        for (to, word) in bytes[16..56].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// The frame that these bytes are.
    ///
    /// # Errors
    /// If they are not the bytes of a whole frame of this version, undamaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FrameError> {
        let (window, controls) = check_head(bytes)?;
        let words = if window == 0 { 0 } else { layout::ballot_words(window) };
        let controls_at = FRAME_HEADER_BYTES + 8 * words;
        length(bytes, controls_at + CONTROL_BYTES * controls)?;
        let (got, expected) = (u64_at(bytes, CHECKSUM.start), checksum(bytes));
        if got != expected {
            return Err(FrameError::Checksum { got, expected });
        }
        let vote = vector(&bytes[FRAME_HEADER_BYTES..controls_at]);
        exactly("vote", u64_at(bytes, 32), vote.as_ref().map_or(NO_VOTE, Reduced::vote), 32)?;
        let starts = (controls_at..bytes.len()).step_by(CONTROL_BYTES);
        Ok(Self {
            domain: u32_at(bytes, 8),
            epoch: u64_at(bytes, 16),
            step: u64_at(bytes, 24),
            now_ms: u64_at(bytes, 40),
            digest: u64_at(bytes, 48),
            vote,
            controls: starts.map(|at| Control::from_bytes(bytes, at)).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn check_controls(controls: &[Control]) -> Result<(), ProtocolError> {
        let hint = "give the rest to the next step's frame";
        ProtocolError::in_range("controls", controls.len() as u64, 0, FRAME_CONTROLS_MAX as u64, hint)
    }
}

/// Window and number of controls of bytes that have a frame's head.
fn check_head(bytes: &[u8]) -> Result<(u32, usize), FrameError> {
    if bytes.len() < FRAME_HEADER_BYTES {
        return length(bytes, FRAME_HEADER_BYTES).map(|()| (0, 0));
    }
    exactly("magic", u32_at(bytes, 0).into(), MAGIC.into(), 0)?;
    exactly("version", u16_at(bytes, 4).into(), VERSION.into(), 4)?;
    let (window, controls) = (u32::from(u16_at(bytes, 6)), u32_at(bytes, 12) as usize);
    if window > WINDOW_MAX {
        return Err(field("window", window.into(), WINDOW_MAX.into(), 6));
    }
    if controls > FRAME_CONTROLS_MAX {
        return Err(field("controls", controls as u64, FRAME_CONTROLS_MAX as u64, 12));
    }
    Ok((window, controls))
}

fn vector(bytes: &[u8]) -> Option<Reduced> {
    let words = bytes.chunks_exact(8).map(|word| u64_at(word, 0).cast_signed());
    (!bytes.is_empty()).then(|| Reduced::from_words(words.collect()))
}

/// Hash of all bytes but those that hold it, 56 to 63. It finds damage and mix-ups; it proves no origin.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mut head = [0; FRAME_HEADER_BYTES];
    head[..CHECKSUM.start].copy_from_slice(&bytes[..CHECKSUM.start]);
    let mut hasher = RunHasher::new();
    for block in std::iter::once(&head[..]).chain(bytes[FRAME_HEADER_BYTES..].chunks(4 * RunHasher::BLOCK)) {
        let mut tokens = [0; RunHasher::BLOCK];
        for (token, bytes) in tokens.iter_mut().zip(block.chunks_exact(4)) {
            *token = u32_at(bytes, 0);
        }
        hasher.update(&tokens[..block.len() / 4]);
    }
    hasher.finish()
}

pub(crate) fn length(bytes: &[u8], expected: usize) -> Result<(), FrameError> {
    let (got, expected) = (bytes.len() as u64, expected as u64);
    if got == expected { Ok(()) } else { Err(FrameError::Length { got, expected }) }
}

pub(crate) fn field(field: &'static str, value: u64, expected: u64, at: usize) -> FrameError {
    FrameError::Field { field, value, expected, at: at as u64 }
}

pub(crate) fn exactly(name: &'static str, value: u64, expected: u64, at: usize) -> Result<(), FrameError> {
    if value == expected { Ok(()) } else { Err(field(name, value, expected, at)) }
}

/// The bytes at a place; the caller has checked the length.
#[inline]
pub(super) fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(bytes_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(bytes, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(window: u32, controls: Vec<Control>) -> Frame {
        let words = (0..layout::ballot_words(window)).map(|word| 3 * i64::try_from(word).unwrap() - 40);
        let mut words: Vec<i64> = words.collect();
        layout::set_pair(&mut words, layout::VOTE, 17);
        let vote = (window > 0).then(|| Reduced::from_words(words.into()));
        Frame { domain: 3, epoch: 1 << 40, step: 8123, now_ms: 99, digest: u64::MAX - 5, vote, controls }
    }

    fn all_controls() -> Vec<Control> {
        let mode = Control::Mode(Mode { key: 7, value: u64::MAX });
        vec![
            Control::Terminate(Ordinal(1)),
            Control::TimeOut(Ordinal(2)),
            Control::Abort(Ordinal(3)),
            mode,
            Control::Tiers(TopTier::Host),
            Control::Stop,
        ]
    }

    #[test]
    fn frames_survive_their_bytes() {
        for window in [0, 1, 2, 5, 64, WINDOW_MAX] {
            for controls in [vec![], all_controls()] {
                let frame = frame(window, controls);
                assert_eq!(Frame::from_bytes(&frame.to_bytes()), Ok(frame));
            }
        }
    }

    /// Pins the format: a frame written today must be read by tomorrow's peer.
    #[test]
    fn bytes_lie_where_the_table_says() {
        let bytes = frame(1, vec![Control::Mode(Mode { key: 7, value: 9 })]).to_bytes();
        assert_eq!(bytes.len(), 64 + 24 * 8 + 16);
        assert_eq!(bytes[..8], [b'I', b'R', b'X', b'F', 1, 0, 1, 0]);
        assert_eq!(bytes[8..16], [3, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(u64_at(&bytes, 16), 1 << 40);
        assert_eq!([u64_at(&bytes, 24), u64_at(&bytes, 32), u64_at(&bytes, 40)], [8123, 17, 99]);
        assert_eq!(u64_at(&bytes, 48), u64::MAX - 5);
        assert_eq!(u64_at(&bytes, 56), 2_319_907_851_063_632_330);
        assert_eq!(u64_at(&bytes, 64 + 8 * 23).cast_signed(), 29);
        assert_eq!(bytes[bytes.len() - 16..], [4, 0, 0, 0, 7, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn every_truncation_and_extension_is_refused() {
        let bytes = frame(2, all_controls()).to_bytes();
        for end in 0..bytes.len() {
            assert!(matches!(Frame::from_bytes(&bytes[..end]), Err(FrameError::Length { .. })), "{end} bytes");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(matches!(Frame::from_bytes(&longer), Err(FrameError::Length { .. })));
    }

    #[test]
    fn every_flipped_bit_is_refused() {
        let bytes = frame(2, all_controls()).to_bytes();
        for bit in 0..8 * bytes.len() {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::from_bytes(&damaged).is_err(), "bit {bit}");
        }
    }

    /// Damage under a checksum that fits, as an ill-behaved peer could send it: read or refused, never a panic, and what is
    /// read has one encoding.
    #[test]
    fn forged_frames_decode_to_what_encodes_to_them() {
        let bytes = frame(2, all_controls()).to_bytes();
        let mut read = 0;
        for bit in 0..8 * bytes.len() {
            let mut forged = bytes.clone();
            forged[bit / 8] ^= 1 << (bit % 8);
            let sum = checksum(&forged);
            forged[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
            if let Ok(frame) = Frame::from_bytes(&forged) {
                assert_eq!(frame.to_bytes(), forged, "bit {bit}");
                read += 1;
            }
        }
        assert!(read > 1000, "{read}");
    }

    #[test]
    fn random_bytes_never_panic() {
        let mut state = 1_u64;
        for length in 0..600 {
            let mut bytes: Vec<u8> = Vec::new();
            for _ in 0..length {
                state = crate::hash::mix(state, 77);
                bytes.push(state.to_le_bytes()[3]);
            }
            assert!(Frame::from_bytes(&bytes).is_err());
            if length >= FRAME_HEADER_BYTES {
                bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
                bytes[4..8].copy_from_slice(&[1, 0, 1, 0]);
                assert!(Frame::from_bytes(&bytes).is_err());
            }
        }
    }

    #[test]
    fn errors_say_which_byte() {
        let mut bytes = frame(0, vec![]).to_bytes();
        bytes[4] = 2;
        let error = Frame::from_bytes(&bytes).unwrap_err().to_string();
        assert!(error.starts_with("byte 4 of a frame: version is 0x2, expected 0x1"), "{error}");
    }
}
