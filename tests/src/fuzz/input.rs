//! The fuzzer's bytes as a target reads them.

use super::fixtures::{self, KeyFixture};

/// Bytes that are read from the front; where they end, zeros follow.
pub struct Input<'a>(&'a [u8]);

/// Numbers that decoders of 32-byte strings have to tell apart, little-endian: 0, 1, the prime
/// 2^255 - 19 and its successor, the order of edwards25519's base point, all ones.
const EDGES: [[u8; 32]; 6] = {
    let mut one = [0; 32];
    one[0] = 1;
    let mut prime = [0xff; 32];
    (prime[0], prime[31]) = (0xed, 0x7f);
    let mut after = prime;
    after[0] = 0xee;
    let mut order = [0; 32];
    let low = [
        0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde,
        0x14,
    ];
    let mut at = 0;
    while at < low.len() {
        order[at] = low[at];
        at += 1;
    }
    order[31] = 0x10;
    [[0; 32], one, prime, after, order, [0xff; 32]]
};

impl<'a> Input<'a> {
    /// All of an input.
    pub fn new(data: &'a [u8]) -> Self {
        Input(data)
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&first, rest)) => {
                self.0 = rest;
                first
            }
            None => 0,
        }
    }

    /// The next two bytes as a number below `n`, or 0 if `n` is.
    pub fn below(&mut self, n: usize) -> usize {
        let number = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        number.checked_rem(n).unwrap_or(0)
    }

    /// Returns whether anything is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the next `n` bytes, or the rest.
    pub fn bytes(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }

    /// The known material of an algorithm of the `choices`.
    pub fn known(&mut self, choices: &[gabion_engine::Algorithm]) -> &'static KeyFixture {
        fixtures::of(choices[usize::from(self.byte()) % choices.len()])
    }

    /// `original` after up to seven edits.
    pub fn edited(&mut self, original: &[u8]) -> Vec<u8> {
        let mut bytes = original.to_vec();
        for _ in 0..self.byte() % 8 {
            self.edit(&mut bytes);
        }
        bytes
    }

    fn edit(&mut self, bytes: &mut Vec<u8>) {
        let what = self.byte() % 8;
        let at = self.below(bytes.len());
        let value = self.byte();
        let len = bytes.len();
        match what {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = if what == 0 { *byte ^ value } else { value };
                }
            }
            2 => bytes[at..len.min(at + 4)].fill(value),
            3 => bytes.truncate(at),
            4 => bytes.resize(len + usize::from(value), value),
            5 => {
                let edge = EDGES[usize::from(value) % EDGES.len()];
                // At a multiple of 32, where the parts of keys and signatures begin.
                let at = at / 32 * 32;
                let end = len.min(at + 32);
                bytes[at..end].copy_from_slice(&edge[..end - at]);
            }
            6 => {
                let from = self.below(len);
                let count = usize::from(value).min(len - at.max(from));
                bytes.copy_within(from..from + count, at);
            }
            _ => {
                let raw = self.bytes(usize::from(value));
                let end = len.min(at + raw.len());
                bytes[at..end].copy_from_slice(&raw[..end - at]);
            }
        }
    }
}

/// Every row of `choices` with every one of `scripts` behind it.
pub fn with_every_algorithm(
    choices: &[gabion_engine::Algorithm],
    scripts: &[&[u8]],
) -> Vec<Vec<u8>> {
    let rows = 0..u8::try_from(choices.len()).expect("fewer rows than 256");
    rows.flat_map(|row| scripts.iter().map(move |script| [&[row], *script].concat())).collect()
}
