//! One line of the ledger: 96 bytes, little-endian.

use crate::checksum::Checksum;
use crate::names::KEY_BYTES_MAX;

pub(crate) const RECORD_BYTES: usize = 96;
const KEY_AT: usize = 24;
const SUM_AT: usize = KEY_AT + KEY_BYTES_MAX;
const MAGIC: [u8; 4] = *b"IRXL";

/// What the ledger is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Record {
    /// A page is there, with so many bytes on the disk; or it was used.
    Used { key: Vec<u8>, bytes: u64 },
    /// The page that was used at this place of the ledger is gone, unless it was used again since.
    Gone { key: Vec<u8>, place: u64 },
    /// Nothing behind counts: the ledger goes on in the one of this number.
    Sealed { next: u64 },
}

impl Record {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let (kind, key, number): (u8, &[u8], u64) = match self {
            Self::Used { key, bytes } => (1, key, *bytes),
            Self::Gone { key, place } => (2, key, *place),
            Self::Sealed { next } => (3, &[], *next),
        };
        let mut record = [0; RECORD_BYTES];
        record[..4].copy_from_slice(&MAGIC);
        record[4] = kind;
        record[5] = u8::try_from(key.len()).expect("at most 64");
        record[8..16].copy_from_slice(&number.to_le_bytes());
        record[KEY_AT..KEY_AT + key.len()].copy_from_slice(key);
        let sum = sum(&record);
        record[SUM_AT..].copy_from_slice(&sum);
        out.extend_from_slice(&record);
    }

    /// The record that these bytes are, if they are one.
    pub(crate) fn read(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        if bytes[..4] != MAGIC || bytes[SUM_AT..] != sum(bytes) {
            return None;
        }
        let key = bytes[KEY_AT..].get(..usize::from(bytes[5])).filter(|key| key.len() <= KEY_BYTES_MAX)?.to_vec();
        let number = u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes"));
        match bytes[4] {
            1 => Some(Self::Used { key, bytes: number }),
            2 => Some(Self::Gone { key, place: number }),
            3 => Some(Self::Sealed { next: number }),
            _ => None,
        }
    }
}

fn sum(record: &[u8; RECORD_BYTES]) -> [u8; RECORD_BYTES - SUM_AT] {
    let mut sum = Checksum::new();
    sum.update(&record[..SUM_AT]);
    sum.finish()[0].to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read() {
        let records = [
            Record::Used { key: vec![7; 64], bytes: u64::MAX },
            Record::Used { key: vec![1], bytes: 0 },
            Record::Gone { key: vec![1, 2], place: 9 },
            Record::Sealed { next: 1 },
        ];
        for record in records {
            let mut bytes = vec![];
            record.write(&mut bytes);
            let mut bytes: [u8; RECORD_BYTES] = bytes.try_into().unwrap();
            assert_eq!(Record::read(&bytes), Some(record));
            for bit in 0..RECORD_BYTES * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Record::read(&bytes), None, "bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}
