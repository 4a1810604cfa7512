//! Subtrees of FORS over lanes (FIPS 205, Algorithm 15): every lane has one and keeps it to its root, depth
//! first, so that nodes never leave the form in which the next hash takes them.
//!
//! ```text
//!   lane    0       1       2   ...
//!   leaf    0       0       0           PRF, F of all lanes, one leaf at a time
//!   leaf    1       1       1
//!     \---- H with the node that waits in stack[0], then perhaps with that in stack[1], ...
//!           the siblings on the path of the signing leaf are kept, lane by lane
//! ```
//!
//! A node is rows of words, one word of every lane in a register: eight of 64 bits (SHAKE), sixteen of 32 bits
//! (SHA-256), or two times eight of 64 bits, whose leaves are SHA-256 and whose nodes SHA-512.
//!
//! Time depends on heights and numbers of subtrees. A mask selects the lanes that keep a node.

use core::arch::x86_64::*;

use gabion_scheme::kernels::Xof;
use gabion_scheme::kernels::slh::address_type::{FORS_PRF, FORS_TREE};
use gabion_scheme::kernels::slh_fors::SlhForsTree;

use super::sha256;
use super::shake::HASH_ADDRESS;
use crate::avx512::keccak::{ShortBlock, State, permute_8, short_hash_8, transpose, words_to_rows};
use crate::avx512::registers;
use crate::avx512::sha2::sha256_lanes::{self, Rows};
use crate::avx512::sha2::sha512;
use crate::common::chains::sha2::ADDRESS as COMPRESSED_ADDRESS;
use crate::common::chains::sha256::{ADDRESS_ROW, HASH_ROW, OF_SECRET, SLH, VALUE_ROW};
use crate::common::chains::shake::{ADDRESS, hash_word, value_word};
use crate::common::memory::{Table, wipe};

/// The most subtrees side by side.
pub(crate) const LANES: usize = 16;

/// The subtrees of one call, of which lanes beyond them repeat the first.
fn lane<'j, 'a>(jobs: &'j [SlhForsTree<'a>], i: usize) -> &'j SlhForsTree<'a> {
    &jobs[if i < jobs.len() { i } else { 0 }]
}

/// The authentication paths and roots of subtrees whose nodes have R rows.
struct SubtreePaths<const R: usize> {
    /// The siblings of the paths' nodes, level by level; not on the stack, which is small in
    /// asynchronous jobs.
    path: Vec<[__m512i; R]>,
    root: [__m512i; R],
}

/// Grows all subtrees. `leaf` makes the leaves with an index, `parent` the nodes of a level with an index from
/// those to the left, and those to the right, which they replace; `keep` takes the lanes of a mask from the
/// second node into the first.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn grow<const R: usize>(
    jobs: &[SlhForsTree<'_>],
    mut leaf: impl FnMut(u32, &mut [__m512i; R]),
    mut parent: impl FnMut(u32, u32, &[__m512i; R], &mut [__m512i; R]),
    keep: impl Fn(&mut [__m512i; R], __mmask16, &[__m512i; R]),
) -> SubtreePaths<R> {
    let height = jobs[0].height;
    let zero = [_mm512_setzero_si512(); R];
    let mut stack = vec![zero; height as usize];
    let mut grown = SubtreePaths { path: vec![zero; height as usize], root: zero };
    let leaves =
        registers::table(&Table::<u32, LANES>(core::array::from_fn(|i| lane(jobs, i).leaf)));
    for first in 0..1u32 << height {
        let node = &mut grown.root;
        leaf(first, node);
        let (mut level, mut index) = (0, first);
        while level < height {
            let here = level as usize;
            // The sibling at this level is the node whose index differs from the path's in the last
            // bit.
            let on_path = _mm512_srlv_epi32(leaves, _mm512_set1_epi32(level as i32));
            let mask = _mm512_cmpeq_epi32_mask(on_path, _mm512_set1_epi32((index ^ 1) as i32));
            keep(&mut grown.path[here], mask, node);
            if index % 2 == 0 {
                stack[here] = *node;
                break;
            }
            (level, index) = (level + 1, index / 2);
            parent(level, index, &stack[here], node);
        }
    }
    wipe(stack.as_flattened_mut());
    grown
}

impl<const R: usize> SubtreePaths<R> {
    /// Writes all that was grown. `rows` turns a node into the bytes of each lane.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn store<const N: usize>(
        mut self,
        jobs: &mut [SlhForsTree<'_>],
        rows: impl Fn(&[__m512i; R]) -> [__m512i; N],
    ) {
        let n = jobs[0].root.len();
        for (job, row) in jobs.iter_mut().zip(rows(&self.root)) {
            registers::store_hash(job.root, row);
        }
        for (level, nodes) in self.path.iter().enumerate() {
            for (job, row) in jobs.iter_mut().zip(rows(nodes)) {
                if !job.path.is_empty() {
                    registers::store_hash(&mut job.path[level * n..][..n], row);
                }
            }
        }
        wipe(self.path.as_flattened_mut());
        wipe(&mut self.root);
    }
}

/// Keeps lanes of 64 bits of a node.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn keep_64(kept: &mut [__m512i], mask: __mmask8, node: &[__m512i]) {
    for (kept, node) in kept.iter_mut().zip(node) {
        *kept = _mm512_mask_mov_epi64(*kept, mask, *node);
    }
}

/// Eight subtrees at most of the SHAKE family, whose values have V words.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn shake<const V: usize>(jobs: &mut [SlhForsTree<'_>]) {
    let zero = _mm512_setzero_si512();
    let [s0, s1, s2, s3, a0, a1, a2, _] = transpose(core::array::from_fn(|i| {
        let job = lane(jobs, i);
        registers::halves(&job.context.pk_seed, &job.address.0)
    }));
    let mut secret = transpose(core::array::from_fn(|i| registers::load(lane(jobs, i).sk_seed, 0)));
    // PK.seed and the address; what is behind it is another for leaves and for nodes.
    let mut head: ShortBlock = [zero; 13];
    head[..V].copy_from_slice(&[s0, s1, s2, s3][..V]);
    head[V..V + ADDRESS - 1].copy_from_slice(&[a0, a1, a2]);
    let suffix = _mm512_set1_epi64(i64::from(Xof::Shake256.suffix()));
    let mut leaf_block = head;
    leaf_block[value_word(V) + V] = suffix;
    // The type is the topmost byte of the lower half.
    let of_secret = _mm512_xor_si512(a2, _mm512_set1_epi64(i64::from(FORS_TREE ^ FORS_PRF) << 24));
    let order = registers::table(&HASH_ADDRESS);
    let firsts =
        registers::table(&Table::<u64, 8>(core::array::from_fn(|i| lane(jobs, i).first.into())));
    // The last word of an address: height and index, the last bytes first.
    let place = |level: u32, index: u32| {
        let first = _mm512_srlv_epi64(firsts, _mm512_set1_epi64(level.into()));
        let index = _mm512_add_epi64(first, _mm512_set1_epi64(index.into()));
        let height = _mm512_set1_epi64(level.swap_bytes().into());
        _mm512_or_si512(height, _mm512_shuffle_epi8(index, order))
    };
    let mut output = [zero; 4];
    let leaf = |index, node: &mut [__m512i; V]| {
        let block = &mut leaf_block;
        block[hash_word(V)] = place(0, index);
        block[hash_word(V) - 1] = of_secret;
        block[value_word(V)..value_word(V) + V].copy_from_slice(&secret[..V]);
        short_hash_8(block, &mut output);
        block[hash_word(V) - 1] = a2;
        block[value_word(V)..value_word(V) + V].copy_from_slice(&output[..V]);
        short_hash_8(block, &mut output);
        node.copy_from_slice(&output[..V]);
    };
    let mut state: State = [zero; 25];
    let mut hashed = [zero; 4];
    let parent = |level, index, left: &[__m512i; V], right: &mut [__m512i; V]| {
        let values = value_word(V);
        if V == 2 {
            // One permutation of a short block.
            let mut block = head;
            block[hash_word(V)] = place(level, index);
            block[values..values + V].copy_from_slice(left);
            block[values + V..values + 2 * V].copy_from_slice(right);
            block[values + 2 * V] = suffix;
            short_hash_8(&block, &mut hashed);
            right.copy_from_slice(&hashed[..V]);
        } else {
            state[..values].copy_from_slice(&head[..values]);
            state[hash_word(V)] = place(level, index);
            state[values..values + V].copy_from_slice(left);
            state[values + V..values + 2 * V].copy_from_slice(right);
            state[values + 2 * V..].fill(zero);
            state[values + 2 * V] = suffix;
            // The last bit of the block, which is word 16 at most.
            state[16] = _mm512_xor_si512(state[16], _mm512_set1_epi64(i64::MIN));
            permute_8(&mut state);
            right.copy_from_slice(&state[..V]);
        }
    };
    let grown = grow(jobs, leaf, parent, |kept, mask, node| keep_64(kept, mask as u8, node));
    grown.store(jobs, |node| {
        let mut words = [_mm512_setzero_si512(); 8];
        words[..V].copy_from_slice(node);
        words_to_rows::<8>(words)
    });
    wipe(&mut secret);
    wipe(&mut leaf_block);
    wipe(&mut state);
    wipe(&mut output);
    wipe(&mut hashed);
}

/// The leaves of sixteen subtrees of the SHA-2 family on lanes of SHA-256, whose values have V words.
struct Leaves<const V: usize> {
    /// The input rows of the next hash.
    rows: Rows,
    /// SK.seed.
    secret: [__m512i; V],
    /// The word of the address with its type, as leaves have it.
    of_leaf: __m512i,
    /// Tree indices of the first leaves.
    firsts: __m512i,
}

impl<const V: usize> Leaves<V> {
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn new(jobs: &[SlhForsTree<'_>]) -> Self {
        let rows = sha256::rows_of::<V>(|i| {
            let job = lane(jobs, i);
            (job.context, &job.address, job.sk_seed)
        });
        let mut secret = [_mm512_setzero_si512(); V];
        secret.copy_from_slice(&rows[VALUE_ROW..VALUE_ROW + V]);
        let firsts = Table::<u32, LANES>(core::array::from_fn(|i| lane(jobs, i).first));
        Leaves { rows, secret, of_leaf: rows[ADDRESS_ROW + 2], firsts: registers::table(&firsts) }
    }

    /// Runs PRF and F of the leaves with an index, into the values.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn hash(&mut self, index: u32) {
        let index = _mm512_add_epi32(self.firsts, _mm512_set1_epi32(index as i32));
        let rows = &mut self.rows;
        // The upper half has the height.
        rows[ADDRESS_ROW + 4] = _mm512_setzero_si512();
        rows[ADDRESS_ROW + 2] = _mm512_xor_si512(self.of_leaf, _mm512_set1_epi32(OF_SECRET));
        rows[HASH_ROW] = index;
        rows[VALUE_ROW..VALUE_ROW + V].copy_from_slice(&self.secret);
        sha256_lanes::advance::<V, SLH>(rows, 1);
        rows[ADDRESS_ROW + 2] = self.of_leaf;
        rows[HASH_ROW] = index;
        sha256_lanes::advance::<V, SLH>(rows, 1);
    }

    /// The values.
    fn values(&self) -> &[__m512i] {
        &self.rows[VALUE_ROW..VALUE_ROW + V]
    }

    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn wipe(&mut self) {
        wipe(&mut self.rows);
        wipe(&mut self.secret);
    }
}

/// Sixteen subtrees at most of the SHA-2 family with n = 16, on lanes of SHA-256.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn sha256(jobs: &mut [SlhForsTree<'_>]) {
    const V: usize = 4;
    let mut leaves = Leaves::<V>::new(jobs);
    let mut rows = leaves.rows;
    let firsts = leaves.firsts;
    let leaf = |index, node: &mut [__m512i; V]| {
        leaves.hash(index);
        node.copy_from_slice(leaves.values());
    };
    // A node is a step over a value twice as long.
    let parent = |level: u32, index: u32, left: &[__m512i; V], right: &mut [__m512i; V]| {
        let first = _mm512_srlv_epi32(firsts, _mm512_set1_epi32(level as i32));
        rows[ADDRESS_ROW + 4] = _mm512_set1_epi32((level << 16) as i32);
        rows[HASH_ROW] = _mm512_add_epi32(first, _mm512_set1_epi32(index as i32));
        rows[VALUE_ROW..VALUE_ROW + V].copy_from_slice(left);
        rows[VALUE_ROW + V..VALUE_ROW + 2 * V].copy_from_slice(right);
        sha256_lanes::advance::<{ 2 * V }, SLH>(&mut rows, 1);
        right.copy_from_slice(&rows[VALUE_ROW..VALUE_ROW + V]);
    };
    let keep = |kept: &mut [__m512i; V], mask, node: &[__m512i; V]| {
        for (kept, node) in kept.iter_mut().zip(node) {
            *kept = _mm512_mask_mov_epi32(*kept, mask, *node);
        }
    };
    grow(jobs, leaf, parent, keep).store(jobs, |node| {
        let mut words = [_mm512_setzero_si512(); 8];
        words[..V].copy_from_slice(node);
        sha256_lanes::words_to_rows(words)
    });
    leaves.wipe();
    wipe(&mut rows);
}

/// Nodes of SHA-512 in eight lanes, whose values have V words.
struct Parents<const V: usize> {
    /// The states after PK.seed.
    start: [__m512i; 8],
    /// Words 0 and 1 of the block; the height is in the next.
    head: [__m512i; 2],
    /// Tree indices of the first leaves.
    firsts: __m512i,
    /// Messages are used up.
    block: [__m512i; 16],
}

impl<const V: usize> Parents<V> {
    /// Lanes from one on.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn new(jobs: &[SlhForsTree<'_>], from: usize) -> Self {
        let lane = |i: usize| lane(jobs, from + i);
        // SAFETY: eight words of 64 bits are a register.
        let start = |i| unsafe { _mm512_loadu_si512(lane(i).context.sha512.as_ptr().cast()) };
        let table = |word: &dyn Fn(&SlhForsTree<'_>) -> u64| {
            registers::table(&Table::<u64, 8>(core::array::from_fn(|i| word(lane(i)))))
        };
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
        Parents {
            start: transpose(core::array::from_fn(start)),
            head: [
                table(&|job| word(&job.address.compressed()[..8])),
                table(&|job| word(&job.address.compressed()[8..16])),
            ],
            firsts: table(&|job| job.first.into()),
            block: [_mm512_setzero_si512(); 16],
        }
    }

    /// H of two values into the second.
    #[inline]
    #[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
    fn hash(&mut self, level: u32, index: u32, left: &[__m512i], right: &mut [__m512i]) {
        let first = _mm512_srlv_epi64(self.firsts, _mm512_set1_epi64(level.into()));
        let index = _mm512_add_epi64(first, _mm512_set1_epi64(index.into()));
        let block = &mut self.block;
        block[..2].copy_from_slice(&self.head);
        // ADRSc takes 22 bytes, so a word of the block has 16 bits of one word of the values and 48 of the
        // one before; in word 2 these are height and index.
        let mut before = _mm512_or_si512(_mm512_set1_epi64(i64::from(level) << 32), index);
        for (word, value) in block[2..].iter_mut().zip(left.iter().chain(&*right)) {
            *word = _mm512_shrdi_epi64::<48>(*value, before);
            before = *value;
        }
        block[2 + 2 * V] =
            _mm512_or_si512(_mm512_slli_epi64::<16>(before), _mm512_set1_epi64(0x8000));
        block[3 + 2 * V..].fill(_mm512_setzero_si512());
        block[15] = _mm512_set1_epi64(8 * (sha512::BLOCK + COMPRESSED_ADDRESS + 16 * V) as i64);
        let mut state = self.start;
        sha512::compress(&mut state, block);
        right.copy_from_slice(&state[..V]);
    }
}

/// Sixteen subtrees at most of the SHA-2 family with n above 16, whose values have V words of 64 bits, so nodes
/// twice as many rows: lanes 0 to 7, and 8 to 15.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn sha2<const V: usize, const R: usize>(jobs: &mut [SlhForsTree<'_>]) {
    // A value has twice as many words of 32 bits, too.
    const { assert!(R == 2 * V) };
    let is_wide = jobs.len() > 8;
    let mut leaves = Leaves::<R>::new(jobs);
    let [low, high] = &WORDS_OF_64;
    let (low, high) = (registers::table(low), registers::table(high));
    let leaf = |index, node: &mut [__m512i; R]| {
        leaves.hash(index);
        for (i, pair) in leaves.values().as_chunks::<2>().0.iter().enumerate() {
            node[i] = _mm512_permutex2var_epi32(pair[1], low, pair[0]);
            node[V + i] = _mm512_permutex2var_epi32(pair[1], high, pair[0]);
        }
    };
    let mut parents = [Parents::<V>::new(jobs, 0), Parents::<V>::new(jobs, 8)];
    let parent = |level: u32, index: u32, left: &[__m512i; R], right: &mut [__m512i; R]| {
        let [low, high] = &mut parents;
        low.hash(level, index, &left[..V], &mut right[..V]);
        if is_wide {
            high.hash(level, index, &left[V..], &mut right[V..]);
        }
    };
    let keep = |kept: &mut [__m512i; R], mask: __mmask16, node: &[__m512i; R]| {
        keep_64(&mut kept[..V], mask as u8, &node[..V]);
        keep_64(&mut kept[V..], (mask >> 8) as u8, &node[V..]);
    };
    let order = registers::table(&sha512::BIG_ENDIAN);
    grow(jobs, leaf, parent, keep).store(jobs, |node| {
        let mut rows = [_mm512_setzero_si512(); LANES];
        for (rows, node) in rows.as_chunks_mut::<8>().0.iter_mut().zip(node.chunks_exact(V)) {
            let mut words = [_mm512_setzero_si512(); 8];
            words[..V].copy_from_slice(node);
            *rows = transpose(words).map(|row| _mm512_shuffle_epi8(row, order));
        }
        rows
    });
    leaves.wipe();
    for parents in &mut parents {
        wipe(&mut parents.block);
    }
}

/// Indices for `vpermt2d`: words of 64 bits of lanes 0 to 7, and of lanes 8 to 15, from their lower halves and
/// their upper.
static WORDS_OF_64: [Table<u32, 16>; 2] = {
    let mut tables = [Table([0; 16]), Table([0; 16])];
    let mut i = 0;
    while i < 8 {
        let mut half = 0;
        while half < 2 {
            let lane = (8 * half + i) as u32;
            tables[half].0[2 * i] = lane;
            tables[half].0[2 * i + 1] = 16 + lane;
            half += 1;
        }
        i += 1;
    }
    tables
};
