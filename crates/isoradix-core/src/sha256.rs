//! SHA-256 as FIPS 180-4 defines it: the hash that the field chains over pages.
//!
//! Plain 32-bit arithmetic, O(1) memory: whole blocks are hashed where they lie, and only the bytes of an
//! unfinished block are copied, into a fixed buffer.

const BLOCK: usize = 64;

/// The length of the message in bits, at the end of the last block.
const LENGTH: usize = 8;

/// First 32 bits of the fractional parts of the square roots of the first 8 primes.
const INITIAL: [u32; 8] =
    [0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19];

/// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
#[rustfmt::skip]
const ROUND: [u32; 64] = [
    0x428a_2f98, 0x7137_4491, 0xb5c0_fbcf, 0xe9b5_dba5, 0x3956_c25b, 0x59f1_11f1, 0x923f_82a4, 0xab1c_5ed5,
    0xd807_aa98, 0x1283_5b01, 0x2431_85be, 0x550c_7dc3, 0x72be_5d74, 0x80de_b1fe, 0x9bdc_06a7, 0xc19b_f174,
    0xe49b_69c1, 0xefbe_4786, 0x0fc1_9dc6, 0x240c_a1cc, 0x2de9_2c6f, 0x4a74_84aa, 0x5cb0_a9dc, 0x76f9_88da,
    0x983e_5152, 0xa831_c66d, 0xb003_27c8, 0xbf59_7fc7, 0xc6e0_0bf3, 0xd5a7_9147, 0x06ca_6351, 0x1429_2967,
    0x27b7_0a85, 0x2e1b_2138, 0x4d2c_6dfc, 0x5338_0d13, 0x650a_7354, 0x766a_0abb, 0x81c2_c92e, 0x9272_2c85,
    0xa2bf_e8a1, 0xa81a_664b, 0xc24b_8b70, 0xc76c_51a3, 0xd192_e819, 0xd699_0624, 0xf40e_3585, 0x106a_a070,
    0x19a4_c116, 0x1e37_6c08, 0x2748_774c, 0x34b0_bcb5, 0x391c_0cb3, 0x4ed8_aa4a, 0x5b9c_ca4f, 0x682e_6ff3,
    0x748f_82ee, 0x78a5_636f, 0x84c8_7814, 0x8cc7_0208, 0x90be_fffa, 0xa450_6ceb, 0xbef9_a3f7, 0xc671_78f2,
];

/// A SHA-256 computation under way.
#[derive(Clone)]
pub(crate) struct Sha256 {
    state: [u32; 8],
    /// The bytes of the unfinished block: the first `length % 64`.
    buffer: [u8; BLOCK],
    /// Bytes seen so far.
    length: u64,
}

impl Sha256 {
    /// The hash of nothing yet.
    pub(crate) fn new() -> Self {
        Self { state: INITIAL, buffer: [0; BLOCK], length: 0 }
    }

    /// Appends `bytes` to the message.
    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        let held = self.held();
        self.length += bytes.len() as u64;
        if held > 0 {
            let taken = bytes.len().min(BLOCK - held);
            self.buffer[held..held + taken].copy_from_slice(&bytes[..taken]);
            if held + taken < BLOCK {
                return;
            }
            compress(&mut self.state, &self.buffer);
            bytes = &bytes[taken..];
        }
        let (blocks, rest) = bytes.as_chunks();
        for block in blocks {
            compress(&mut self.state, block);
        }
        self.buffer[..rest.len()].copy_from_slice(rest);
    }

    /// The digest of the whole message.
    pub(crate) fn finish(mut self) -> [u8; 32] {
        let held = self.held();
        self.buffer[held] = 0x80;
        self.buffer[held + 1..].fill(0);
        if held + 1 + LENGTH > BLOCK {
            compress(&mut self.state, &self.buffer);
            self.buffer.fill(0);
        }
        self.buffer[BLOCK - LENGTH..].copy_from_slice(&(self.length * 8).to_be_bytes());
        compress(&mut self.state, &self.buffer);
        let mut digest = [0; 32];
        for (out, word) in digest.as_chunks_mut().0.iter_mut().zip(self.state) {
            *out = word.to_be_bytes();
        }
        digest
    }

    /// Bytes of the unfinished block.
    fn held(&self) -> usize {
        const IN_BLOCK: u64 = BLOCK as u64 - 1;
        usize::try_from(self.length & IN_BLOCK).expect("below 64")
    }
}

/// Eight rounds are written out: the variables change places from round to round, and so none is moved.
#[expect(clippy::many_single_char_names, reason = "the names of FIPS 180-4")]
fn compress(state: &mut [u32; 8], block: &[u8; BLOCK]) {
    let schedule = schedule(block);
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (words, constants) in schedule.as_chunks::<8>().0.iter().zip(ROUND.as_chunks::<8>().0) {
        let input = |t: usize| words[t].wrapping_add(constants[t]);
        (d, h) = round([a, b, c, d, e, f, g, h], input(0));
        (c, g) = round([h, a, b, c, d, e, f, g], input(1));
        (b, f) = round([g, h, a, b, c, d, e, f], input(2));
        (a, e) = round([f, g, h, a, b, c, d, e], input(3));
        (h, d) = round([e, f, g, h, a, b, c, d], input(4));
        (g, c) = round([d, e, f, g, h, a, b, c], input(5));
        (f, b) = round([c, d, e, f, g, h, a, b], input(6));
        (e, a) = round([b, c, d, e, f, g, h, a], input(7));
    }
    for (total, word) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *total = total.wrapping_add(word);
    }
}

/// The words of the 64 rounds: those of the block, then 48 made from them.
fn schedule(block: &[u8; BLOCK]) -> [u32; 64] {
    let mut schedule = [0; 64];
    for (word, bytes) in schedule.iter_mut().zip(block.as_chunks().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for t in 16..64 {
        let (w15, w2) = (schedule[t - 15], schedule[t - 2]);
        let s0 = w15.rotate_right(7) ^ w15.rotate_right(18) ^ (w15 >> 3);
        let s1 = w2.rotate_right(17) ^ w2.rotate_right(19) ^ (w2 >> 10);
        let sum = schedule[t - 16].wrapping_add(s0).wrapping_add(schedule[t - 7]);
        schedule[t] = sum.wrapping_add(s1);
    }
    schedule
}

/// The two words that a round changes: what becomes of `d` and of `h`.
#[inline]
#[expect(clippy::many_single_char_names, reason = "the names of FIPS 180-4")]
fn round([a, b, c, d, e, f, g, h]: [u32; 8], input: u32) -> (u32, u32) {
    let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
    let choice = g ^ (e & (f ^ g));
    let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(input);
    let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
    let majority = (a & b) | (c & (a | b));
    (d.wrapping_add(t1), t1.wrapping_add(s0).wrapping_add(majority))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    fn hex(digest: [u8; 32]) -> String {
        digest.iter().fold(String::new(), |mut text, byte| {
            write!(text, "{byte:02x}").unwrap();
            text
        })
    }

    fn of(message: &[u8]) -> String {
        let mut hash = Sha256::new();
        hash.update(message);
        hex(hash.finish())
    }

    #[test]
    fn the_published_vectors() {
        let long = vec![b'a'; 1_000_000];
        let vectors: [(&[u8], &str); 4] = [
            (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            (b"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (
                b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
            ),
            (&long, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"),
        ];
        for (message, digest) in vectors {
            assert_eq!(of(message), digest);
        }
    }

    /// Lengths around each padding case, against digests of zero bytes computed by another implementation.
    #[test]
    fn padding_at_every_edge() {
        let digests = [
            (55, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7"),
            (56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb"),
            (63, "c7723fa1e0127975e49e62e753db53924c1bd84b8ac1ac08df78d09270f3d971"),
            (64, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b"),
            (119, "f616b0d54e78571a9611f343c9f8e022e859e920381ab0e4d3da01e193a7bd7e"),
            (120, "6edd9f6f9cc92cded36e6c4a580933f9c9f1b90562b46903b806f21902a1a54f"),
        ];
        for (length, digest) in digests {
            assert_eq!(of(&vec![0; length]), digest, "{length} zero bytes");
        }
    }

    #[test]
    fn the_parts_of_a_message_do_not_matter() {
        let message: Vec<u8> = (0..=255).cycle().take(700).collect();
        let whole = of(&message);
        for step in 1..150 {
            let mut hash = Sha256::new();
            message.chunks(step).for_each(|part| hash.update(part));
            hash.update(&[]);
            assert_eq!(hex(hash.finish()), whole, "in parts of {step}");
        }
    }
}
