//! What XMSS hashes by SHA-256 (SP 800-208, sections 5.1 and 5.2), word by word, in N streams side by side.
//!
//! ```text
//!            n = 32: blocks of                            n = 24
//!   PRF      [3, SEED] <- address, end                    3, SEED, address, end | end
//!   F        0, key | value ^ mask, end                   0, key, value ^ mask, end
//!   H        1, key | (left, right) ^ masks | end         1, key, (left, right) ^ masks | and the rest, end
//!   secret   [4, secret] <- SEED, address | end           4, secret, SEED, address | and the rest, end
//! ```
//!
//! All fields are whole words, so a row, a word of all streams, goes into a block as it is. What is in brackets is
//! one block of the key, whose state comes with the context. An instruction set supplies the compression of a
//! row of blocks ([`Compress`]); what is portable has one stream.

use sha2::digest::generic_array::GenericArray;

use super::slh::SHA256_START;
use super::xmss::{
    XmssAddress, XmssChain, XmssContext, XmssHash, XmssSecret, XmssSecretSeed, domain,
};
use crate::ct;

/// A word of each of N streams.
pub type Row<const N: usize> = [u32; N];

/// SHA-256 on N streams.
pub trait Compress<const N: usize>: Copy {
    /// One block into each state.
    fn compress(self, state: &mut [Row<N>; 8], block: &[Row<N>; 16]);
}

/// N streams, and what each works on. Values have V words, 6 or 8.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Streams<const N: usize> {
    /// The state that PRF starts from, or PRF_keygen.
    pub start: [Row<N>; 8],
    /// SEED, of V words.
    pub seed: [Row<N>; 8],
    /// The address without its last word.
    pub address: [Row<N>; 8],
    /// A value of V words, or two.
    pub value: [Row<N>; 16],
    /// The secret seed, where V is 6.
    pub secret: [Row<N>; 8],
    /// Key of F or H.
    key: [Row<N>; 8],
    state: [Row<N>; 8],
    block: [Row<N>; 16],
}

/// The bit that ends a message.
const END: u32 = 1 << 31;

impl<const N: usize> Streams<N> {
    /// Nothing yet.
    pub const ZERO: Self = Streams {
        start: [[0; N]; 8],
        seed: [[0; N]; 8],
        address: [[0; N]; 8],
        value: [[0; N]; 16],
        secret: [[0; N]; 8],
        key: [[0; N]; 8],
        state: [[0; N]; 8],
        block: [[0; N]; 16],
    };

    /// Writes whole words into a stream's column.
    #[inline(always)]
    pub fn put(rows: &mut [Row<N>], stream: usize, bytes: &[u8]) {
        for (row, bytes) in rows.iter_mut().zip(bytes.as_chunks().0) {
            row[stream] = u32::from_be_bytes(*bytes);
            // One by one: LLVM would scatter them.
            core::hint::black_box(());
        }
    }

    /// Writes words into a stream's column.
    #[inline(always)]
    pub fn put_words(rows: &mut [Row<N>], stream: usize, words: &[u32]) {
        for (row, word) in rows.iter_mut().zip(words) {
            row[stream] = *word;
        }
    }

    /// Fills what PRF needs of a key and an address.
    #[inline(always)]
    pub fn begin(&mut self, stream: usize, context: &XmssContext, address: &XmssAddress) {
        Self::put_words(&mut self.start, stream, &context.prf);
        Self::put(&mut self.seed, stream, context.seed());
        Self::put_words(&mut self.address, stream, &address.0);
    }

    /// Fills what PRF_keygen needs of a key, a secret seed and an address.
    #[inline(always)]
    pub fn begin_secret(&mut self, stream: usize, job: &XmssSecret<'_>) {
        self.begin(stream, job.context, &job.address);
        Self::put_words(&mut self.start, stream, job.seed.state());
        Self::put(&mut self.secret, stream, job.seed.bytes());
    }

    /// Moves what is in one stream to another.
    #[inline(always)]
    pub fn move_stream(&mut self, from: usize, to: usize) {
        let Streams { start, seed, address, value, .. } = self;
        for row in start.iter_mut().chain(seed).chain(address).chain(value) {
            row[to] = row[from];
        }
    }

    /// Zeros all that may be secret, and the rest.
    pub fn wipe(&mut self) {
        let Streams { start, seed, address, value, secret, key, state, block } = self;
        for rows in [start, seed, address, secret, key, state] {
            ct::wipe(rows.as_flattened_mut());
        }
        ct::wipe(value.as_flattened_mut());
        ct::wipe(block.as_flattened_mut());
    }

    /// So many steps of a chain in each stream: the value becomes F of it, and word 6 of the address one more.
    #[inline(always)]
    pub fn steps<const V: usize>(&mut self, isa: impl Compress<N>, steps: u32) {
        for _ in 0..steps {
            self.prf::<V>(isa, 0);
            self.key[..V].copy_from_slice(&self.state[..V]);
            self.prf::<V>(isa, 1);
            self.mask::<V>(0);
            self.open::<V>(domain::F);
            if V == 8 {
                self.compress(isa);
                self.fill(0, 0, V);
            } else {
                self.fill(1 + V, 0, V);
            }
            self.close(if V == 8 { V } else { 1 + 2 * V }, if V == 8 { 96 } else { 52 });
            self.compress(isa);
            self.value[..V].copy_from_slice(&self.state[..V]);
            for hash in &mut self.address[XmssAddress::HASH] {
                *hash = hash.wrapping_add(1);
            }
        }
    }

    /// H in each stream: the two values become one.
    #[inline(always)]
    pub fn node<const V: usize>(&mut self, isa: impl Compress<N>) {
        self.prf::<V>(isa, 0);
        self.key[..V].copy_from_slice(&self.state[..V]);
        self.prf::<V>(isa, 1);
        self.mask::<V>(0);
        self.prf::<V>(isa, 2);
        self.mask::<V>(V);
        self.open::<V>(domain::H);
        if V == 8 {
            self.compress(isa);
            self.fill(0, 0, 16);
            self.compress(isa);
            self.close(0, 128);
        } else {
            self.fill(1 + V, 0, 9);
            self.compress(isa);
            self.fill(0, 9, 3);
            self.close(3, 76);
        }
        self.compress(isa);
        self.value[..V].copy_from_slice(&self.state[..V]);
    }

    /// PRF_keygen in each stream, into the value.
    #[inline(always)]
    pub fn secret<const V: usize>(&mut self, isa: impl Compress<N>) {
        self.state = self.start;
        if V == 8 {
            self.block[..8].copy_from_slice(&self.seed);
            self.block[8..].copy_from_slice(&self.address);
            self.compress(isa);
            self.close(0, 128);
        } else {
            self.block[0] = [domain::PRF_KEYGEN as u32; N];
            self.block[1..1 + V].copy_from_slice(&self.secret[..V]);
            self.block[1 + V..1 + 2 * V].copy_from_slice(&self.seed[..V]);
            self.block[13..].copy_from_slice(&self.address[..3]);
            self.compress(isa);
            self.block[..5].copy_from_slice(&self.address[3..]);
            self.close(5, 84);
        }
        self.compress(isa);
        self.value[..V].copy_from_slice(&self.state[..V]);
    }

    /// PRF of each stream's address, with this last word, into the state.
    #[inline(always)]
    fn prf<const V: usize>(&mut self, isa: impl Compress<N>, last: u32) {
        self.state = self.start;
        self.address[XmssAddress::KEY_AND_MASK] = [last; N];
        if V == 8 {
            self.block[..8].copy_from_slice(&self.address);
            self.close(8, 96);
        } else {
            self.block[0] = [domain::PRF as u32; N];
            self.block[1..1 + V].copy_from_slice(&self.seed[..V]);
            self.block[1 + V..9 + V].copy_from_slice(&self.address);
            self.block[9 + V] = [END; N];
            self.compress(isa);
            self.block[..15].fill([0; N]);
            self.block[15] = [8 * 60; N];
        }
        self.compress(isa);
    }

    /// The value from this word on, V words, gets a mask: the state.
    #[inline(always)]
    fn mask<const V: usize>(&mut self, at: usize) {
        // As one: row by row, LLVM gathers and scatters a word of all rows.
        let value = self.value[at..at + V].as_flattened_mut();
        for (word, mask) in value.iter_mut().zip(self.state.as_flattened()) {
            *word ^= mask;
        }
    }

    /// The initial state, and what stands before the message of F or H: `toByte(x, padding) || key`.
    #[inline(always)]
    fn open<const V: usize>(&mut self, domain: usize) {
        for (row, word) in self.state.iter_mut().zip(SHA256_START) {
            *row = [word; N];
        }
        let padding = if V == 8 { 8 } else { 1 };
        self.block[..padding].fill([0; N]);
        self.block[padding - 1] = [domain as u32; N];
        self.block[padding..padding + V].copy_from_slice(&self.key[..V]);
    }

    /// Words of the value, from one on, into the block.
    #[inline(always)]
    fn fill(&mut self, at: usize, from: usize, count: usize) {
        self.block[at..at + count].copy_from_slice(&self.value[from..from + count]);
    }

    /// The end of a message of so many bytes, from this word of the block on.
    #[inline(always)]
    fn close(&mut self, at: usize, bytes: u32) {
        self.block[at] = [END; N];
        self.block[at + 1..15].fill([0; N]);
        self.block[15] = [8 * bytes; N];
    }

    #[inline(always)]
    fn compress(&mut self, isa: impl Compress<N>) {
        isa.compress(&mut self.state, &self.block);
    }

    /// Writes n bytes of a stream's value.
    #[inline(always)]
    pub fn take(&self, stream: usize, value: &mut [u8]) {
        for (bytes, row) in value.as_chunks_mut().0.iter_mut().zip(&self.value) {
            *bytes = row[stream].to_be_bytes();
            // One by one: LLVM would gather them. A value put through `black_box` would stay on the stack.
            core::hint::black_box(());
        }
    }
}

/// One stream, portably.
#[derive(Clone, Copy)]
struct One;

impl Compress<1> for One {
    #[inline(always)]
    fn compress(self, state: &mut [Row<1>; 8], block: &[Row<1>; 16]) {
        let mut bytes = [0u8; 64];
        for (bytes, [word]) in bytes.as_chunks_mut().0.iter_mut().zip(block) {
            *bytes = word.to_be_bytes();
        }
        let mut words = state.map(|[word]| word);
        sha2::compress256(&mut words, core::slice::from_ref(GenericArray::from_slice(&bytes)));
        *state = words.map(|word| [word]);
        ct::wipe(&mut bytes);
        ct::wipe(&mut words);
    }
}

/// Runs a chain by itself.
pub(super) fn chain(job: &mut XmssChain<'_>) {
    let mut one = Streams::<1>::ZERO;
    one.begin(0, job.context, &job.address.with(XmssAddress::HASH, job.start));
    Streams::put(&mut one.value, 0, job.value);
    match job.context.n {
        24 => one.steps::<6>(One, job.steps),
        _ => one.steps::<8>(One, job.steps),
    }
    one.take(0, job.value);
    one.wipe();
}

/// Runs a hash by itself.
pub(super) fn hash(job: &mut XmssHash<'_>) {
    let mut one = Streams::<1>::ZERO;
    one.begin(0, job.context, &job.address);
    Streams::put(&mut one.value, 0, job.input);
    match job.context.n {
        24 => one.node::<6>(One),
        _ => one.node::<8>(One),
    }
    one.take(0, job.output);
    one.wipe();
}

/// Makes a secret by itself.
pub(super) fn secret(job: &mut XmssSecret<'_>) {
    let mut one = Streams::<1>::ZERO;
    one.begin_secret(0, job);
    match job.context.n {
        24 => one.secret::<6>(One),
        _ => one.secret::<8>(One),
    }
    one.take(0, job.output);
    one.wipe();
}

/// PRF of an index, keyed with a secret: its number stands where an address does.
pub(super) fn randomizer(seed: &XmssSecretSeed, index: u64, output: &mut [u8]) {
    let mut one = Streams::<1>::ZERO;
    Streams::put_words(&mut one.start, 0, seed.state());
    Streams::put(&mut one.seed, 0, seed.bytes());
    one.address[XmssAddress::HASH] = [(index >> 32) as u32];
    match seed.bytes().len() {
        24 => one.prf::<6>(One, index as u32),
        _ => one.prf::<8>(One, index as u32),
    }
    one.value[..8].copy_from_slice(&one.state);
    one.take(0, output);
    one.wipe();
}
