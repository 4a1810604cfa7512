//! Common parts of the kernels of SHA-2: the round constants (FIPS 180-4, section 4.2), computed at
//! compile time, the order of rounds and words on lanes, and which messages are hashed in parallel.

#[cfg(target_arch = "x86_64")]
use gabion_scheme::kernels::sha512::{BLOCK, Sha512};

#[cfg(target_arch = "x86_64")]
use crate::common::memory::wipe;

/// The round constants of SHA-512: 64 bits of the fractional parts of the cube roots of the first
/// 80 primes.
pub(crate) const SHA512_ROUNDS: [u64; 80] = {
    let mut constants = [0; 80];
    let (mut found, mut candidate) = (0, 2);
    while found < 80 {
        if is_prime(candidate) {
            constants[found] = fraction_of_cube_root(candidate);
            found += 1;
        }
        candidate += 1;
    }
    constants
};

/// The round constants of SHA-256: 32 bits of the fractional parts of the cube roots of the first
/// 64 primes.
pub(crate) const SHA256_ROUNDS: [u32; 64] = {
    let mut constants = [0; 64];
    let mut i = 0;
    while i < 64 {
        constants[i] = (SHA512_ROUNDS[i] >> 32) as u32;
        i += 1;
    }
    constants
};

/// Replaces the schedule in the last rounds.
#[cfg(target_arch = "x86_64")]
macro_rules! nothing {
    ($w:ident, $i:expr) => {};
}
#[cfg(target_arch = "x86_64")]
pub(crate) use nothing;

/// Four rounds on lanes, each followed by the word of the schedule that replaces the one it used,
/// for sixteen rounds later: a round waits for the one before it, the schedule fills the gaps.
/// `$kept` is passed from a round to the next in addition to the words a to h, which come out as e
/// to h, a to d.
#[cfg(target_arch = "x86_64")]
macro_rules! four_rounds {
    ($round:ident($($kept:ident),*), $next:ident($($more:ident),*), $w:ident, $k:ident, $i:expr;
     $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        $round!($w[$i], $k[$i] $(, $kept)*; $a $b $c $d $e $f $g $h);
        $next!($w, $i $(, $more)*);
        $round!($w[$i + 1], $k[$i + 1] $(, $kept)*; $h $a $b $c $d $e $f $g);
        $next!($w, $i + 1 $(, $more)*);
        $round!($w[$i + 2], $k[$i + 2] $(, $kept)*; $g $h $a $b $c $d $e $f);
        $next!($w, $i + 2 $(, $more)*);
        $round!($w[$i + 3], $k[$i + 3] $(, $kept)*; $f $g $h $a $b $c $d $e);
        $next!($w, $i + 3 $(, $more)*);
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use four_rounds;

/// Sixteen rounds on lanes, as [`four_rounds`].
#[cfg(target_arch = "x86_64")]
macro_rules! sixteen_rounds {
    ($round:ident $kept:tt, $next:ident $more:tt, $w:ident, $k:ident;
     $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        four_rounds!($round $kept, $next $more, $w, $k, 0; $a $b $c $d $e $f $g $h);
        four_rounds!($round $kept, $next $more, $w, $k, 4; $e $f $g $h $a $b $c $d);
        four_rounds!($round $kept, $next $more, $w, $k, 8; $a $b $c $d $e $f $g $h);
        four_rounds!($round $kept, $next $more, $w, $k, 12; $e $f $g $h $a $b $c $d);
    };
}
#[cfg(target_arch = "x86_64")]
pub(crate) use sixteen_rounds;

/// The maximum blocks of messages whose padded copies are made; longer ones are hashed
/// individually.
#[cfg(target_arch = "x86_64")]
const COPIED_BLOCKS: usize = 16;

/// Calls `hash` with at most N messages, their padded copies and the number of blocks of the
/// longest. Messages that are too long to be copied, or alone, are hashed here, one by one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn in_lanes<const N: usize>(
    jobs: &mut [Sha512<'_>],
    mut hash: impl FnMut(&mut [Sha512<'_>], &[[[u8; BLOCK]; COPIED_BLOCKS]], usize),
) {
    let mut padded = Vec::new();
    for jobs in jobs.chunks_mut(N) {
        let most = jobs.iter().map(Sha512::blocks).max().unwrap_or(0);
        if most > COPIED_BLOCKS || jobs.len() == 1 {
            jobs.iter_mut().for_each(Sha512::run);
            continue;
        }
        padded.resize(N, [[0; BLOCK]; COPIED_BLOCKS]);
        for (job, padded) in jobs.iter().zip(&mut padded) {
            job.pad(padded[..job.blocks()].as_flattened_mut());
        }
        hash(jobs, &padded, most);
    }
    wipe(&mut padded);
}

const fn is_prime(n: u32) -> bool {
    let mut divisor = 2;
    while divisor * divisor <= n {
        if n.is_multiple_of(divisor) {
            return false;
        }
        divisor += 1;
    }
    true
}

/// The largest x with x^3 < p * 2^192, less its whole part, which lies above 64 bits.
const fn fraction_of_cube_root(p: u32) -> u64 {
    // Below 2^67, bit by bit from the top.
    let mut x = 0u128;
    let mut bit = 67;
    while bit > 0 {
        bit -= 1;
        if cube_over_2_192(x | 1 << bit) < p {
            x |= 1 << bit;
        }
    }
    x as u64
}

/// x^3 / 2^192 for x below 2^67, with limbs of 32 bits.
const fn cube_over_2_192(x: u128) -> u32 {
    let x = [x as u32, (x >> 32) as u32, (x >> 64) as u32];
    let mut product = [1, 0, 0, 0, 0, 0, 0];
    let mut power = 0;
    while power < 3 {
        let mut next = [0u32; 7];
        let mut i = 0;
        while i < 3 {
            let (mut carry, mut j) = (0u64, 0);
            while i + j < 7 {
                let sum = next[i + j] as u64 + x[i] as u64 * product[j] as u64 + carry;
                next[i + j] = sum as u32;
                carry = sum >> 32;
                j += 1;
            }
            i += 1;
        }
        product = next;
        power += 1;
    }
    product[6]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_are_those_of_the_standard() {
        assert_eq!(SHA512_ROUNDS[0], 0x428a_2f98_d728_ae22);
        assert_eq!(SHA512_ROUNDS[79], 0x6c44_198c_4a47_5817);
        assert_eq!(SHA256_ROUNDS[63], 0xc671_78f2);
    }
}
