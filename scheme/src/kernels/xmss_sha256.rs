//! The hashes of XMSS by SHA-256 (SP 800-208, sections 5.1 and 5.2), word by word, in N parallel
//! streams.
//!
//! ```text
//!            n = 32: blocks of                            n = 24
//!   PRF      [3, SEED] <- address, end                    3, SEED, address, end | end
//!   F        0, key | value ^ mask, end                   0, key, value ^ mask, end
//!   H        1, key | (left, right) ^ masks | end         1, key, (left, right) ^ masks | and the rest, end
//!   secret   [4, secret] <- SEED, address | end           4, secret, SEED, address | and the rest, end
//! ```
//!
//! All fields are whole words, so a row (one word of each stream) is a word of the blocks and is
//! not copied: a compression gets the positions of its rows. The brackets mark one block of the
//! key, whose state comes with the context. An instruction set supplies the compression of a row of
//! blocks ([`Compress`]); the portable one has one stream.

use sha2::block_api::compress256;

use super::slh::SHA256_START;
use super::xmss::{
    XmssAddress, XmssChain, XmssContext, XmssHash, XmssSecret, XmssSecretSeed, domain,
};
use crate::ct;

/// A word of each of N streams.
pub type Row<const N: usize> = [u32; N];

/// SHA-256 on N streams.
pub trait Compress<const N: usize>: Copy {
    /// One block into each state, which goes elsewhere.
    fn compress(self, from: &[Row<N>; 8], block: [&Row<N>; 16], into: &mut [Row<N>; 8]);
}

/// N streams with their inputs. Values have V words, 6 or 8.
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
    mask: [Row<N>; 8],
    /// The value with its masks.
    masked: [Row<N>; 16],
    /// Between two blocks of a message.
    state: [Row<N>; 8],
}

/// The bit that ends a message.
const END: u32 = 1 << 31;

impl<const N: usize> Streams<N> {
    /// Empty streams.
    pub const ZERO: Self = Streams {
        start: [[0; N]; 8],
        seed: [[0; N]; 8],
        address: [[0; N]; 8],
        value: [[0; N]; 16],
        secret: [[0; N]; 8],
        key: [[0; N]; 8],
        mask: [[0; N]; 8],
        masked: [[0; N]; 16],
        state: [[0; N]; 8],
    };

    /// A word that is the same in all streams.
    const ZEROS: Row<N> = [0; N];
    const END: Row<N> = [END; N];
    /// The states before the first block.
    const START: [Row<N>; 8] = {
        let mut rows = [[0; N]; 8];
        let mut i = 0;
        while i < 8 {
            rows[i] = [SHA256_START[i]; N];
            i += 1;
        }
        rows
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

    /// Fills the inputs of PRF from a key and an address.
    #[inline(always)]
    pub fn begin(&mut self, stream: usize, context: &XmssContext, address: &XmssAddress) {
        Self::put_words(&mut self.start, stream, &context.prf);
        Self::put(&mut self.seed, stream, context.seed());
        Self::put_words(&mut self.address, stream, &address.0);
    }

    /// Fills the inputs of PRF_keygen from a key, a secret seed and an address.
    #[inline(always)]
    pub fn begin_secret(&mut self, stream: usize, job: &XmssSecret<'_>) {
        self.begin(stream, job.context, &job.address);
        Self::put_words(&mut self.start, stream, job.seed.state());
        Self::put(&mut self.secret, stream, job.seed.bytes());
    }

    /// Moves the contents of one stream to another.
    #[inline(always)]
    pub fn move_stream(&mut self, from: usize, to: usize) {
        let Streams { start, seed, address, value, .. } = self;
        for row in start.iter_mut().chain(seed).chain(address).chain(value) {
            row[to] = row[from];
        }
    }

    /// Zeros all that may be secret, and the rest.
    pub fn wipe(&mut self) {
        let Streams { start, seed, address, value, secret, key, mask, masked, state } = self;
        for rows in [start, seed, address, secret, key, mask, state] {
            ct::wipe(rows.as_flattened_mut());
        }
        ct::wipe(value.as_flattened_mut());
        ct::wipe(masked.as_flattened_mut());
    }

    /// So many steps of a chain in each stream: the value becomes F of it, and word 6 of the address one more.
    #[inline(always)]
    pub fn steps<const V: usize>(&mut self, isa: impl Compress<N>, steps: u32) {
        let (zero, end, length) = (&Self::ZEROS, &Self::END, Length::<N, V>::F);
        for _ in 0..steps {
            self.key::<V>(isa);
            self.mask::<V>(isa, const { &[1; N] }, 0);
            let Streams { value, key, masked, state, .. } = &mut *self;
            let value = &mut value.as_chunks_mut().0[0];
            let (k, v) = (key.each_ref(), masked.each_ref());
            if V == 8 {
                let mut block = [zero; 16];
                block[8..].copy_from_slice(&k);
                isa.compress(&Self::START, block, state);
                let mut block = [zero; 16];
                block[..8].copy_from_slice(&v[..8]);
                (block[8], block[15]) = (end, length);
                isa.compress(state, block, value);
            } else {
                let mut block = [zero; 16];
                block[1..1 + V].copy_from_slice(&k[..V]);
                block[1 + V..1 + 2 * V].copy_from_slice(&v[..V]);
                (block[1 + 2 * V], block[15]) = (end, length);
                isa.compress(&Self::START, block, value);
            }
            for hash in &mut self.address[XmssAddress::HASH] {
                *hash = hash.wrapping_add(1);
            }
        }
    }

    /// H in each stream: the two values become one.
    #[inline(always)]
    pub fn node<const V: usize>(&mut self, isa: impl Compress<N>) {
        let (zero, end, length) = (&Self::ZEROS, &Self::END, Length::<N, V>::H);
        self.key::<V>(isa);
        self.mask::<V>(isa, const { &[1; N] }, 0);
        self.mask::<V>(isa, const { &[2; N] }, V);
        let Streams { value, key, mask, masked, state, .. } = self;
        let value = &mut value.as_chunks_mut().0[0];
        let (k, v) = (key.each_ref(), masked.each_ref());
        let (mut first, mut last) = ([zero; 16], [zero; 16]);
        last[15] = length;
        if V == 8 {
            first[7] = const { &[domain::H as u32; N] };
            first[8..].copy_from_slice(&k);
            isa.compress(&Self::START, first, state);
            isa.compress(state, v, mask);
            last[0] = end;
            isa.compress(mask, last, value);
        } else {
            first[0] = const { &[domain::H as u32; N] };
            first[1..1 + V].copy_from_slice(&k[..V]);
            first[1 + V..].copy_from_slice(&v[..9]);
            isa.compress(&Self::START, first, state);
            last[..3].copy_from_slice(&v[9..12]);
            last[3] = end;
            isa.compress(state, last, value);
        }
    }

    /// PRF_keygen in each stream, into the value.
    #[inline(always)]
    pub fn secret<const V: usize>(&mut self, isa: impl Compress<N>) {
        let (zero, end) = (&Self::ZEROS, &Self::END);
        let Streams { start, seed, address, value, secret, state, .. } = self;
        let value = &mut value.as_chunks_mut().0[0];
        let (seed, address) = (seed.each_ref(), address.each_ref());
        let (mut first, mut last) = ([zero; 16], [zero; 16]);
        last[15] = Length::<N, V>::SECRET;
        if V == 8 {
            first[..8].copy_from_slice(&seed);
            first[8..].copy_from_slice(&address);
            last[0] = end;
        } else {
            first[0] = const { &[domain::PRF_KEYGEN as u32; N] };
            first[1..1 + V].copy_from_slice(&secret.each_ref()[..V]);
            first[1 + V..1 + 2 * V].copy_from_slice(&seed[..V]);
            first[13..].copy_from_slice(&address[..3]);
            last[..5].copy_from_slice(&address[3..]);
            last[5] = end;
        }
        isa.compress(start, first, state);
        isa.compress(state, last, value);
    }

    /// The key of F or H: PRF of each stream's address, with 0 as its last word.
    #[inline(always)]
    fn key<const V: usize>(&mut self, isa: impl Compress<N>) {
        let Streams { start, seed, address, state, key, .. } = self;
        prf::<N, V>(isa, (start, seed, address, &Self::ZEROS), state, key);
    }

    /// The value from this word on, V words, with its mask: PRF of each stream's address, with this last word.
    #[inline(always)]
    fn mask<const V: usize>(&mut self, isa: impl Compress<N>, last: &Row<N>, at: usize) {
        let Streams { start, seed, address, value, state, mask, masked, .. } = self;
        prf::<N, V>(isa, (start, seed, address, last), state, mask);
        // As one: row by row, LLVM gathers and scatters a word of all rows.
        let value = value[at..at + V].as_flattened().iter().zip(mask.as_flattened());
        for (word, (value, mask)) in masked[at..at + V].as_flattened_mut().iter_mut().zip(value) {
            *word = value ^ mask;
        }
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

/// The end of a message of V values of n bytes: its length in bits.
struct Length<const N: usize, const V: usize>;

impl<const N: usize, const V: usize> Length<N, V> {
    const PRF: &Row<N> = &[8 * if V == 8 { 96 } else { 60 }; N];
    const F: &Row<N> = &[8 * if V == 8 { 96 } else { 52 }; N];
    const H: &Row<N> = &[8 * if V == 8 { 128 } else { 76 }; N];
    const SECRET: &Row<N> = &[8 * if V == 8 { 128 } else { 84 }; N];
}

/// PRF of each stream's address, with this last word: of where PRF starts, SEED, address and that.
#[inline(always)]
fn prf<const N: usize, const V: usize>(
    isa: impl Compress<N>,
    (start, seed, address, last): (&[Row<N>; 8], &[Row<N>; 8], &[Row<N>; 8], &Row<N>),
    state: &mut [Row<N>; 8],
    into: &mut [Row<N>; 8],
) {
    let (zero, end) = (&Streams::<N>::ZEROS, &Streams::<N>::END);
    let mut address = address.each_ref();
    address[XmssAddress::KEY_AND_MASK] = last;
    let mut block = [zero; 16];
    if V == 8 {
        block[..8].copy_from_slice(&address);
        (block[8], block[15]) = (end, Length::<N, V>::PRF);
        isa.compress(start, block, into);
    } else {
        block[0] = const { &[domain::PRF as u32; N] };
        block[1..1 + V].copy_from_slice(&seed.each_ref()[..V]);
        block[1 + V..9 + V].copy_from_slice(&address);
        block[9 + V] = end;
        isa.compress(start, block, state);
        let mut block = [zero; 16];
        block[15] = Length::<N, V>::PRF;
        isa.compress(state, block, into);
    }
}

/// Portable compression of a single stream.
#[derive(Clone, Copy)]
struct SingleStream;

impl Compress<1> for SingleStream {
    #[inline(always)]
    fn compress(self, from: &[Row<1>; 8], block: [&Row<1>; 16], into: &mut [Row<1>; 8]) {
        let mut bytes = [0u8; 64];
        for (bytes, [word]) in bytes.as_chunks_mut().0.iter_mut().zip(block) {
            *bytes = word.to_be_bytes();
        }
        let mut words = from.map(|[word]| word);
        compress256(&mut words, core::slice::from_ref(&bytes));
        *into = words.map(|word| [word]);
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
        24 => one.steps::<6>(SingleStream, job.steps),
        _ => one.steps::<8>(SingleStream, job.steps),
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
        24 => one.node::<6>(SingleStream),
        _ => one.node::<8>(SingleStream),
    }
    one.take(0, job.output);
    one.wipe();
}

/// Makes a secret by itself.
pub(super) fn secret(job: &mut XmssSecret<'_>) {
    let mut one = Streams::<1>::ZERO;
    one.begin_secret(0, job);
    match job.context.n {
        24 => one.secret::<6>(SingleStream),
        _ => one.secret::<8>(SingleStream),
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
    let Streams { start, seed: rows, address, state, value, .. } = &mut one;
    let (last, value) = ([index as u32], &mut value.as_chunks_mut().0[0]);
    let of = (&*start, &*rows, &*address, &last);
    match seed.bytes().len() {
        24 => prf::<1, 6>(SingleStream, of, state, value),
        _ => prf::<1, 8>(SingleStream, of, state, value),
    }
    one.take(0, output);
    one.wipe();
}
