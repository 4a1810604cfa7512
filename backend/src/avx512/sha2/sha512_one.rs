//! SHA-512 of one message, and of two in parallel (FIPS 180-4, section 6.4), for hashes without
//! parallel work: an HMAC tag, a message, a single node.
//!
//! ```text
//!   one   rounds in general registers | the schedule two words at a time in vector registers, 16 words ahead
//!   two   a word of each in one register of 128 bits, as in sha512
//! ```
//!
//! Two side by side take little longer than one, and less than one of RustCrypto's (ADR 0012), whose
//! schedule lacks the rotations of AVX-512, and whose rounds lack those that leave flags alone.
//!
//! Time depends on lengths only.

use core::arch::x86_64::*;

use crate::avx512::registers;
use crate::common::memory::{Table, wipe};
use crate::common::sha2::{SHA512_ROUNDS, four_rounds, nothing, sixteen_rounds};

/// Bytes of a block.
const BLOCK: usize = 128;

/// Pairs of constants, in memory.
static ROUNDS: Table<u64, 80> = Table(SHA512_ROUNDS);

/// The exclusive or of three.
macro_rules! xor {
    ($a:expr, $b:expr, $c:expr) => {
        _mm_ternarylogic_epi64::<0x96>($a, $b, $c)
    };
}

/// The terms of the word after the next fifteen that depend on the first of them and on the one
/// before the last.
macro_rules! sigmas {
    ($x:expr, $y:expr) => {{
        let (x, y) = ($x, $y);
        let sigma_0 = xor!(_mm_ror_epi64::<1>(x), _mm_ror_epi64::<8>(x), _mm_srli_epi64::<7>(x));
        let sigma_1 = xor!(_mm_ror_epi64::<19>(y), _mm_ror_epi64::<61>(y), _mm_srli_epi64::<6>(y));
        _mm_add_epi64(sigma_0, sigma_1)
    }};
}

/// A round in general registers, on a word with its constant added: h becomes the next a, and d the next e.
macro_rules! round {
    ($word:expr; $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let sum_1 = $e.rotate_right(14) ^ $e.rotate_right(18) ^ $e.rotate_right(41);
        let choice = ($e & $f).wrapping_add(!$e & $g);
        let t1 = $h.wrapping_add($word).wrapping_add(choice).wrapping_add(sum_1);
        let sum_0 = $a.rotate_right(28) ^ $a.rotate_right(34) ^ $a.rotate_right(39);
        let majority = ($a & $b) ^ ($c & ($a ^ $b));
        $d = $d.wrapping_add(t1);
        $h = t1.wrapping_add(sum_0).wrapping_add(majority);
    };
}

/// Two rounds, and the two words sixteen rounds on in place of theirs, with the constants of these.
macro_rules! two_rounds {
    ($w:ident $words:ident $next:ident, $i:expr;
     $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        round!($words[2 * $i]; $a $b $c $d $e $f $g $h);
        let old = _mm_add_epi64($w[$i], _mm_alignr_epi8::<8>($w[($i + 5) % 8], $w[($i + 4) % 8]));
        let first = _mm_alignr_epi8::<8>($w[($i + 1) % 8], $w[$i]);
        $w[$i] = _mm_add_epi64(old, sigmas!(first, $w[($i + 7) % 8]));
        round!($words[2 * $i + 1]; $h $a $b $c $d $e $f $g);
        [$words[2 * $i], $words[2 * $i + 1]] = with_constants($w[$i], $next + 2 * $i);
    };
}

/// Two rounds after which no words are needed.
macro_rules! last_two_rounds {
    ($w:ident $words:ident $next:ident, $i:expr;
     $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        round!($words[2 * $i]; $a $b $c $d $e $f $g $h);
        round!($words[2 * $i + 1]; $h $a $b $c $d $e $f $g);
    };
}

/// Sixteen rounds, two by two.
macro_rules! sixteen_by_twos {
    ($two:ident($w:ident $words:ident $next:ident);
     $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        $two!($w $words $next, 0; $a $b $c $d $e $f $g $h);
        $two!($w $words $next, 1; $g $h $a $b $c $d $e $f);
        $two!($w $words $next, 2; $e $f $g $h $a $b $c $d);
        $two!($w $words $next, 3; $c $d $e $f $g $h $a $b);
        $two!($w $words $next, 4; $a $b $c $d $e $f $g $h);
        $two!($w $words $next, 5; $g $h $a $b $c $d $e $f);
        $two!($w $words $next, 6; $e $f $g $h $a $b $c $d);
        $two!($w $words $next, 7; $c $d $e $f $g $h $a $b);
    };
}

/// Two words with the constants of their rounds added.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn with_constants(words: __m128i, round: usize) -> [u64; 2] {
    let pair: &[u64; 2] = &ROUNDS.0.as_chunks().0[round / 2];
    // SAFETY: two words of 64 bits are a register, which needs no alignment here, and the other way round.
    unsafe {
        let constants = _mm_loadu_si128(pair.as_ptr().cast());
        let mut sums = [0; 2];
        _mm_storeu_si128(sums.as_mut_ptr().cast(), _mm_add_epi64(words, constants));
        sums
    }
}

/// The bytes of each 64-bit word the other way round.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn big_endian(words: __m128i) -> __m128i {
    _mm_shuffle_epi8(words, _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607))
}

/// The block's words, two to a register.
#[inline]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
fn words_of(block: &[u8; BLOCK]) -> [__m128i; 8] {
    core::array::from_fn(|i| {
        // SAFETY: a block has eight times 16 bytes, which need no alignment here.
        big_endian(unsafe { _mm_loadu_si128(block.as_ptr().cast::<__m128i>().add(i)) })
    })
}

/// Blocks into a state, one after the other.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn compress(state: &mut [u64; 8], blocks: &[[u8; BLOCK]]) {
    let mut words = [0u64; 16];
    for block in blocks {
        let mut w = words_of(block);
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
        for (i, (pair, &w)) in words.as_chunks_mut::<2>().0.iter_mut().zip(&w).enumerate() {
            *pair = with_constants(w, 2 * i);
        }
        for next in [16, 32, 48, 64] {
            sixteen_by_twos!(two_rounds(w words next); a b c d e f g h);
        }
        sixteen_by_twos!(last_two_rounds(w words next); a b c d e f g h);
        for (word, new) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *word = word.wrapping_add(new);
        }
    }
    wipe(&mut words);
    registers::clear();
}

/// A round of two messages: h becomes the next a, and d the next e.
macro_rules! round_of_two {
    ($w:expr, $constant:expr; $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        let sum_1 = xor!(_mm_ror_epi64::<14>($e), _mm_ror_epi64::<18>($e), _mm_ror_epi64::<41>($e));
        let choice = _mm_ternarylogic_epi64::<0xca>($e, $f, $g);
        let word = _mm_add_epi64($w, _mm_set_epi64x($constant as i64, $constant as i64));
        let t1 = _mm_add_epi64(_mm_add_epi64(_mm_add_epi64($h, word), choice), sum_1);
        let sum_0 = xor!(_mm_ror_epi64::<28>($a), _mm_ror_epi64::<34>($a), _mm_ror_epi64::<39>($a));
        let majority = _mm_ternarylogic_epi64::<0xe8>($a, $b, $c);
        $d = _mm_add_epi64($d, t1);
        $h = _mm_add_epi64(t1, _mm_add_epi64(sum_0, majority));
    };
}

/// The word after the last sixteen, in place of the first of them.
macro_rules! schedule_of_two {
    ($w:ident, $i:expr) => {
        let old = _mm_add_epi64($w[$i], $w[($i + 9) % 16]);
        $w[$i] = _mm_add_epi64(old, sigmas!($w[($i + 1) % 16], $w[($i + 14) % 16]));
    };
}

/// One block into each of two states.
#[inline(never)]
#[target_feature(enable = "avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512vnni,bmi2,popcnt")]
pub(crate) fn compress_two(states: &mut [[u64; 8]; 2], first: &[u8; BLOCK], second: &[u8; BLOCK]) {
    let zero = _mm_setzero_si128();
    let (mut w, low, high) = ([zero; 16], words_of(first), words_of(second));
    for (pair, (low, high)) in w.as_chunks_mut::<2>().0.iter_mut().zip(low.into_iter().zip(high)) {
        *pair = [_mm_unpacklo_epi64(low, high), _mm_unpackhi_epi64(low, high)];
    }
    let word = |i: usize| _mm_set_epi64x(states[1][i] as i64, states[0][i] as i64);
    let before: [__m128i; 8] = core::array::from_fn(word);
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = before;
    let (scheduled, last) = ROUNDS.0.as_chunks::<16>().0.split_at(4);
    for k in scheduled {
        sixteen_rounds!(round_of_two(), schedule_of_two(), w, k; a b c d e f g h);
    }
    let k = &last[0];
    sixteen_rounds!(round_of_two(), nothing(), w, k; a b c d e f g h);
    for (i, (before, new)) in before.into_iter().zip([a, b, c, d, e, f, g, h]).enumerate() {
        let mut sums = [0; 2];
        // SAFETY: two words of 64 bits are a register, which needs no alignment here.
        unsafe { _mm_storeu_si128(sums.as_mut_ptr().cast(), _mm_add_epi64(before, new)) };
        [states[0][i], states[1][i]] = sums;
    }
    registers::clear();
}
