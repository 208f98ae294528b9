//! What one stage has in a batch, beside the activations that it sends: a mismatch is caught before the forward pass reads them.
//!
//! Whether two ranks hold the same tree is compared elsewhere. This compares what a scheduler has made of it: which requests, how much
//! of each is cached, how much is computed. All integers are unsigned and little-endian.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 0..4 | magic | `IRXB` |
//! | 4..6 | version | 1 |
//! | 6..8 | | 0 |
//! | 8..12 | rank | who has made it |
//! | 12..16 | requests `N` | at most 65,536 |
//! | 16..24 | step | the batch step |
//! | 24..32 | ordinal | number of the batch in its step, or of all batches: the scheduler's own count |
//! | 32..40 | chunk | tokens of a chunk of prefill, `u64::MAX` for none |
//! | 40..48 | checksum | of all other bytes |
//! | 48 + 24i.. | id | hash of the id of request `i` |
//! | 56 + 24i.. | prefix | its cached tokens |
//! | 64 + 24i.. | extend | its tokens to be computed |

use super::error::Divergence;
use super::frame::{bytes_at, u16_at, u32_at, u64_at};
use crate::hash;
use std::fmt;

/// Requests that a batch may have.
pub const BATCH_REQUESTS_MAX: usize = 1 << 16;

/// Bytes before the first request.
pub const BATCH_HEADER_BYTES: usize = 48;

/// Bytes of one request.
pub const BATCH_REQUEST_BYTES: usize = 24;

const MAGIC: u32 = u32::from_le_bytes(*b"IRXB");
const VERSION: u16 = 1;
const CHECKSUM: std::ops::Range<usize> = 40..48;
const NO_CHUNK: u64 = u64::MAX;

/// Seeds that keep the ids "7" and 7 apart.
const TEXT: u64 = 3;
const NUMBER: u64 = 4;

/// One request of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BatchRequest {
    id: u64,
    prefix: u64,
    extend: u64,
}

impl BatchRequest {
    /// A request whose id is a text.
    #[must_use]
    pub fn named(id: &str, prefix: u64, extend: u64) -> Self {
        Self { id: hash::bytes(TEXT, id.as_bytes()), prefix, extend }
    }

    /// A request whose id is a number.
    #[must_use]
    pub fn numbered(id: u64, prefix: u64, extend: u64) -> Self {
        Self { id: hash::mix(NUMBER, id), prefix, extend }
    }
}

/// What a rank has in one batch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BatchHeader {
    rank: u32,
    step: u64,
    ordinal: u64,
    chunk: Option<u64>,
    requests: Vec<BatchRequest>,
}

/// Why there is no such batch header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchError {
    /// More requests than a batch may have.
    Requests {
        /// How many.
        got: u64,
    },
    /// The bytes are too short or too long.
    Length {
        /// Bytes there are.
        got: u64,
        /// Bytes that the header asks for.
        expected: u64,
    },
    /// The bytes are damaged, or of another version.
    Damaged,
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Requests { got } => write!(
                f,
                "a batch of {got} requests, limit {BATCH_REQUESTS_MAX}\nhint: make one header for each forward pass"
            ),
            Self::Length { got, expected } => write!(
                f,
                "a batch header of {expected} bytes comes in {got} bytes\nhint: hand over what to_bytes gave, whole"
            ),
            Self::Damaged => write!(
                f,
                "bytes that are no batch header of version {VERSION}, undamaged\n\
                 hint: all ranks run one version of isoradix; two messages may have been paired on one tag"
            ),
        }
    }
}

impl std::error::Error for BatchError {}

impl BatchHeader {
    /// What a rank has in a batch.
    ///
    /// # Errors
    /// More requests than [`BATCH_REQUESTS_MAX`].
    pub fn new(
        rank: u32,
        step: u64,
        ordinal: u64,
        chunk: Option<u64>,
        requests: Vec<BatchRequest>,
    ) -> Result<Self, BatchError> {
        if requests.len() > BATCH_REQUESTS_MAX {
            return Err(BatchError::Requests { got: requests.len() as u64 });
        }
        Ok(Self { rank, step, ordinal, chunk, requests })
    }

    /// The rank that made it.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The batch step.
    #[must_use]
    pub fn step(&self) -> u64 {
        self.step
    }

    /// Number of the batch.
    #[must_use]
    pub fn ordinal(&self) -> u64 {
        self.ordinal
    }

    /// Tokens of a chunk of prefill.
    #[must_use]
    pub fn chunk(&self) -> Option<u64> {
        self.chunk
    }

    /// Its requests.
    #[must_use]
    pub fn requests(&self) -> &[BatchRequest] {
        &self.requests
    }

    /// Tokens that the forward pass computes.
    #[must_use]
    pub fn extend_tokens(&self) -> u64 {
        self.requests.iter().fold(0, |sum, request| sum.saturating_add(request.extend))
    }

    /// The header as bytes; the module's page shows them.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 65,536 requests")]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(BATCH_HEADER_BYTES + BATCH_REQUEST_BYTES * self.requests.len());
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&self.rank.to_le_bytes());
        bytes.extend_from_slice(&(self.requests.len() as u32).to_le_bytes());
        for word in [self.step, self.ordinal, self.chunk.unwrap_or(NO_CHUNK), 0] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        for BatchRequest { id, prefix, extend } in &self.requests {
            for word in [id, prefix, extend] {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        let sum = checksum(&bytes);
        bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// What [`BatchHeader::to_bytes`] wrote.
    ///
    /// # Errors
    /// The bytes are no header of this version, undamaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BatchError> {
        let length = |expected: usize| BatchError::Length { got: bytes.len() as u64, expected: expected as u64 };
        if bytes.len() < BATCH_HEADER_BYTES {
            return Err(length(BATCH_HEADER_BYTES));
        }
        let (magic, version, requests) = (u32_at(bytes, 0), u16_at(bytes, 4), u32_at(bytes, 12) as usize);
        if (magic, version, u16_at(bytes, 6)) != (MAGIC, VERSION, 0) || requests > BATCH_REQUESTS_MAX {
            return Err(BatchError::Damaged);
        }
        let expected = BATCH_HEADER_BYTES + BATCH_REQUEST_BYTES * requests;
        if bytes.len() != expected {
            return Err(length(expected));
        }
        if u64_at(bytes, CHECKSUM.start) != checksum(bytes) {
            return Err(BatchError::Damaged);
        }
        let request = |part: &[u8]| {
            let [id, prefix, extend] = [0, 8, 16].map(|at| u64::from_le_bytes(bytes_at(part, at)));
            BatchRequest { id, prefix, extend }
        };
        let chunk = u64_at(bytes, 32);
        Ok(Self {
            rank: u32_at(bytes, 8),
            step: u64_at(bytes, 16),
            ordinal: u64_at(bytes, 24),
            chunk: (chunk != NO_CHUNK).then_some(chunk),
            requests: bytes[BATCH_HEADER_BYTES..].chunks_exact(BATCH_REQUEST_BYTES).map(request).collect(),
        })
    }

    /// Compares this rank's batch with the one that it received.
    ///
    /// # Errors
    /// [`Divergence::Batch`] (form A): they differ. Nothing has been computed yet.
    pub fn check(&self, received: &Self) -> Result<(), Divergence> {
        match self.difference(received) {
            None => Ok(()),
            Some(what) => Err(Divergence::Batch {
                rank: self.rank,
                step: self.step,
                batch: self.ordinal,
                from: received.rank,
                what,
            }),
        }
    }

    fn difference(&self, received: &Self) -> Option<BatchDifference> {
        let count = |header: &Self| header.requests.len() as u64;
        let number =
            |field, own, received| (own != received).then_some(BatchDifference::Number { field, own, received });
        number("step", Some(self.step), Some(received.step))
            .or_else(|| number("batch", Some(self.ordinal), Some(received.ordinal)))
            .or_else(|| self.first_other_request(received))
            .or_else(|| number("number of requests", Some(count(self)), Some(count(received))))
            .or_else(|| number("chunk", self.chunk, received.chunk))
    }

    fn first_other_request(&self, received: &Self) -> Option<BatchDifference> {
        let pairs = self.requests.iter().zip(&received.requests);
        let (request, (own, received)) = (0..).zip(pairs).find(|(_, (own, received))| own != received)?;
        Some(BatchDifference::Request { request, own: *own, received: *received })
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    hash::mix(hash::bytes(1, &bytes[..CHECKSUM.start]), hash::bytes(2, &bytes[CHECKSUM.end..]))
}

/// In what two batches differ first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BatchDifference {
    /// A number of the whole batch; `None` is one that is not set.
    Number {
        /// Which.
        field: &'static str,
        /// This rank's.
        own: Option<u64>,
        /// The one received.
        received: Option<u64>,
    },
    /// A request: another one, or of other lengths.
    Request {
        /// Its place, from 0.
        request: u64,
        /// This rank's.
        own: BatchRequest,
        /// The one received.
        received: BatchRequest,
    },
}

impl BatchDifference {
    /// What this rank has and what the other has sent, in words.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, rank: u32, from: u32) -> fmt::Result {
        match self {
            Self::Number { field, own, received } => {
                let shown = |number: &Option<u64>| number.map_or("not set".to_owned(), |number| number.to_string());
                let (own, received) = (shown(own), shown(received));
                write!(f, "{field} is {own} on rank {rank}, {received} in what rank {from} sent")
            }
            Self::Request { request, own, received } if own.id != received.id => write!(
                f,
                "request {request} is another one on rank {rank} (id hash {:#018x}) than in what rank {from} sent ({:#018x})",
                own.id, received.id
            ),
            Self::Request { request, own, received } => write!(
                f,
                "request {request} has {} cached and {} new tokens on rank {rank}, {} and {} in what rank {from} sent",
                own.prefix, own.extend, received.prefix, received.extend
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests() -> Vec<BatchRequest> {
        vec![
            BatchRequest::named("chat-7", 64, 32),
            BatchRequest::numbered(7, 0, 96),
            BatchRequest::named("7", u64::MAX - 1, 1),
        ]
    }

    fn header(rank: u32) -> BatchHeader {
        BatchHeader::new(rank, 8123, 2, Some(8192), requests()).unwrap()
    }

    fn refused(change: impl FnOnce(&mut BatchHeader)) -> String {
        let mut received = header(0);
        change(&mut received);
        let refused = header(3).check(&received).unwrap_err().to_string();
        let (what, hint) = refused.split_once("\nhint: ").unwrap();
        assert!(hint.starts_with("compare the inputs of both schedulers"), "{hint}");
        what.strip_prefix("divergence at step 8123 (form A): in batch 2, ").unwrap().to_owned()
    }

    #[test]
    fn bytes_decode_to_what_was_encoded_and_all_damage_is_seen() {
        for header in [header(3), BatchHeader::new(0, 0, 0, None, vec![]).unwrap()] {
            let bytes = header.to_bytes();
            assert_eq!(bytes.len(), 48 + 24 * header.requests().len());
            assert_eq!(BatchHeader::from_bytes(&bytes), Ok(header));
            for bit in 0..8 * bytes.len() {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(BatchHeader::from_bytes(&damaged).is_err(), "bit {bit}");
            }
            for length in 0..bytes.len() {
                assert!(BatchHeader::from_bytes(&bytes[..length]).is_err());
            }
        }
    }

    #[test]
    fn the_format_is_fixed() {
        let bytes = BatchHeader::new(1, 2, 3, None, vec![BatchRequest::numbered(7, 64, 32)]).unwrap().to_bytes();
        assert_eq!(bytes[..16], [b'I', b'R', b'X', b'B', 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!([16, 24, 32].map(|at| u64_at(&bytes, at)), [2, 3, u64::MAX]);
        assert_eq!([56, 64].map(|at| u64_at(&bytes, at)), [64, 32]);
    }

    #[test]
    fn equal_batches_of_two_ranks_pass() {
        assert_eq!(header(3).check(&header(0)), Ok(()));
        assert_eq!(header(0).extend_tokens(), 129);
    }

    #[test]
    fn the_first_difference_is_named_with_both_values() {
        let lengths = refused(|batch| {
            batch.requests[1] = BatchRequest::numbered(7, 64, 32);
            batch.requests[2].extend = 9;
        });
        let expected = "request 1 has 0 cached and 96 new tokens on rank 3, 64 and 32 in what rank 0 sent";
        assert_eq!(lengths, expected);
        let other = refused(|batch| batch.requests.swap(0, 1));
        assert!(other.starts_with("request 0 is another one on rank 3 (id hash 0x"), "{other}");
        let fewer = refused(|batch| batch.requests.truncate(2));
        assert_eq!(fewer, "number of requests is 3 on rank 3, 2 in what rank 0 sent");
        assert_eq!(refused(|batch| batch.chunk = None), "chunk is 8192 on rank 3, not set in what rank 0 sent");
        assert_eq!(refused(|batch| batch.ordinal = 1), "batch is 2 on rank 3, 1 in what rank 0 sent");
        assert_eq!(refused(|batch| batch.step = 8122), "step is 8123 on rank 3, 8122 in what rank 0 sent");
    }

    #[test]
    fn the_number_of_requests_is_bounded() {
        let many = vec![BatchRequest::numbered(0, 0, 1); BATCH_REQUESTS_MAX + 1];
        let refused = BatchHeader::new(0, 1, 0, None, many).unwrap_err();
        assert_eq!(refused, BatchError::Requests { got: 65_537 });
    }
}
