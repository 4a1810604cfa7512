//! Keccak-f[1600] (FIPS 202) on general registers, and sponges run one after the other.

use gabion_scheme::ct;
use gabion_scheme::kernels::Sponge;

/// Rounds of Keccak-f[1600].
const ROUNDS: usize = 24;

/// Round constants of iota, from the LFSR of FIPS 202, Algorithm 5.
pub const ROUND_CONSTANTS: [u64; ROUNDS] = round_constants();

const fn round_constants() -> [u64; ROUNDS] {
    let mut constants = [0u64; ROUNDS];
    let mut lfsr = 1u8;
    let mut round = 0;
    while round < ROUNDS {
        let mut j = 0;
        while j <= 6 {
            // rc(j + 7 round) is the register's lowest bit; it lands at bit 2^j - 1 of the lane.
            constants[round] |= ((lfsr & 1) as u64) << ((1 << j) - 1);
            // One step of x^8 + x^6 + x^5 + x^4 + 1.
            lfsr = (lfsr << 1) ^ if lfsr & 0x80 != 0 { 0x71 } else { 0 };
            j += 1;
        }
        round += 1;
    }
    constants
}

/// One round on named lanes: theta, rho, pi, chi and iota from the first set into the second.
///
/// Lane names are row (y) then column (x): `a[5 * y + x]`. The rotations are FIPS 202, table 2.
macro_rules! round {
    ($a:ident, $e:ident, $rc:expr) => {{
        let c0 = $a[0] ^ $a[5] ^ $a[10] ^ $a[15] ^ $a[20];
        let c1 = $a[1] ^ $a[6] ^ $a[11] ^ $a[16] ^ $a[21];
        let c2 = $a[2] ^ $a[7] ^ $a[12] ^ $a[17] ^ $a[22];
        let c3 = $a[3] ^ $a[8] ^ $a[13] ^ $a[18] ^ $a[23];
        let c4 = $a[4] ^ $a[9] ^ $a[14] ^ $a[19] ^ $a[24];
        let d0 = c4 ^ c1.rotate_left(1);
        let d1 = c0 ^ c2.rotate_left(1);
        let d2 = c1 ^ c3.rotate_left(1);
        let d3 = c2 ^ c4.rotate_left(1);
        let d4 = c3 ^ c0.rotate_left(1);

        let b0 = $a[0] ^ d0;
        let b1 = ($a[6] ^ d1).rotate_left(44);
        let b2 = ($a[12] ^ d2).rotate_left(43);
        let b3 = ($a[18] ^ d3).rotate_left(21);
        let b4 = ($a[24] ^ d4).rotate_left(14);
        $e[0] = b0 ^ (!b1 & b2) ^ $rc;
        $e[1] = b1 ^ (!b2 & b3);
        $e[2] = b2 ^ (!b3 & b4);
        $e[3] = b3 ^ (!b4 & b0);
        $e[4] = b4 ^ (!b0 & b1);

        let b0 = ($a[3] ^ d3).rotate_left(28);
        let b1 = ($a[9] ^ d4).rotate_left(20);
        let b2 = ($a[10] ^ d0).rotate_left(3);
        let b3 = ($a[16] ^ d1).rotate_left(45);
        let b4 = ($a[22] ^ d2).rotate_left(61);
        $e[5] = b0 ^ (!b1 & b2);
        $e[6] = b1 ^ (!b2 & b3);
        $e[7] = b2 ^ (!b3 & b4);
        $e[8] = b3 ^ (!b4 & b0);
        $e[9] = b4 ^ (!b0 & b1);

        let b0 = ($a[1] ^ d1).rotate_left(1);
        let b1 = ($a[7] ^ d2).rotate_left(6);
        let b2 = ($a[13] ^ d3).rotate_left(25);
        let b3 = ($a[19] ^ d4).rotate_left(8);
        let b4 = ($a[20] ^ d0).rotate_left(18);
        $e[10] = b0 ^ (!b1 & b2);
        $e[11] = b1 ^ (!b2 & b3);
        $e[12] = b2 ^ (!b3 & b4);
        $e[13] = b3 ^ (!b4 & b0);
        $e[14] = b4 ^ (!b0 & b1);

        let b0 = ($a[4] ^ d4).rotate_left(27);
        let b1 = ($a[5] ^ d0).rotate_left(36);
        let b2 = ($a[11] ^ d1).rotate_left(10);
        let b3 = ($a[17] ^ d2).rotate_left(15);
        let b4 = ($a[23] ^ d3).rotate_left(56);
        $e[15] = b0 ^ (!b1 & b2);
        $e[16] = b1 ^ (!b2 & b3);
        $e[17] = b2 ^ (!b3 & b4);
        $e[18] = b3 ^ (!b4 & b0);
        $e[19] = b4 ^ (!b0 & b1);

        let b0 = ($a[2] ^ d2).rotate_left(62);
        let b1 = ($a[8] ^ d3).rotate_left(55);
        let b2 = ($a[14] ^ d4).rotate_left(39);
        let b3 = ($a[15] ^ d0).rotate_left(41);
        let b4 = ($a[21] ^ d1).rotate_left(2);
        $e[20] = b0 ^ (!b1 & b2);
        $e[21] = b1 ^ (!b2 & b3);
        $e[22] = b2 ^ (!b3 & b4);
        $e[23] = b3 ^ (!b4 & b0);
        $e[24] = b4 ^ (!b0 & b1);
    }};
}

/// Keccak-f\[1600\] (FIPS 202, 3.3), in place. Lane (x, y) is `state[5 * y + x]`. Constant time.
///
/// On x86-64 it takes the compilation with and-not and three-operand rotates where the CPU has
/// them, which is quicker. Complementing lanes to save the baseline its negations gained half as much,
/// for a second set of formulas.
pub fn keccak_f1600(state: &mut [u64; 25]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("bmi1") && std::arch::is_x86_feature_detected!("bmi2") {
        // SAFETY: this CPU has BMI1 and BMI2.
        unsafe { permute_bmi(state) };
        return;
    }
    permute(state);
}

/// [`permute`], compiled with BMI1 and BMI2. No vector extension is enabled, so that the
/// compiler's vectoriser has nothing to rebuild the rounds with (it halves their speed).
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2")]
#[inline(never)]
fn permute_bmi(state: &mut [u64; 25]) {
    permute(state);
}

#[inline(always)]
fn permute(state: &mut [u64; 25]) {
    let mut other = [0u64; 25];
    // Two rounds a turn, so that the state returns to its own place without a copy.
    for pair in ROUND_CONSTANTS.chunks_exact(2) {
        round!(state, other, pair[0]);
        round!(other, state, pair[1]);
    }
    ct::wipe(&mut other);
}

/// Runs one sponge: KECCAK[c] with pad10*1 (FIPS 202, section 4). Time depends on lengths only.
pub(super) fn run(job: &mut Sponge<'_>) {
    let rate = job.xof.rate();
    let mut state = [0u64; 25];
    let mut at = 0;
    for part in job.input {
        at = absorb(&mut state, rate, at, part);
    }
    // `at` is below the rate here, so both padding bytes belong to the block being filled.
    state[at / 8] ^= u64::from(job.xof.suffix()) << (8 * (at % 8));
    state[rate / 8 - 1] ^= 0x80 << 56;
    for block in job.output.chunks_mut(rate) {
        keccak_f1600(&mut state);
        for (bytes, lane) in block.chunks_mut(8).zip(&state) {
            bytes.copy_from_slice(&lane.to_le_bytes()[..bytes.len()]);
        }
    }
    ct::wipe(&mut state);
}

/// Adds `part` to the block whose first `at` bytes are filled, permuting as blocks fill up;
/// returns how many bytes of the last block are filled then, below the rate.
fn absorb(state: &mut [u64; 25], rate: usize, mut at: usize, mut part: &[u8]) -> usize {
    while !part.is_empty() {
        let (head, rest) = part.split_at(part.len().min(rate - at));
        xor_into(state, at, head);
        part = rest;
        at += head.len();
        if at == rate {
            keccak_f1600(state);
            at = 0;
        }
    }
    at
}

/// XORs `bytes` into the state from byte `at` on; they end within the block.
fn xor_into(state: &mut [u64; 25], mut at: usize, bytes: &[u8]) {
    // Bytes up to the next lane, whole lanes, and the rest.
    let (head, rest) = bytes.split_at(bytes.len().min((8 - at % 8) % 8));
    for &byte in head {
        state[at / 8] ^= u64::from(byte) << (8 * (at % 8));
        at += 1;
    }
    if rest.is_empty() {
        return;
    }
    for (lane, chunk) in state[at / 8..].iter_mut().zip(rest.chunks(8)) {
        let mut le = [0u8; 8];
        le[..chunk.len()].copy_from_slice(chunk);
        *lane ^= u64::from_le_bytes(le);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_constants_are_those_of_the_standard() {
        assert_eq!(ROUND_CONSTANTS[..3], [0x1, 0x8082, 0x8000_0000_0000_808a]);
        assert_eq!(ROUND_CONSTANTS[23], 0x8000_0000_8000_8008);
    }

    #[test]
    fn the_zero_state_becomes_the_published_one() {
        let mut state = [0; 25];
        keccak_f1600(&mut state);
        assert_eq!(state[0], 0xf125_8f79_40e1_dde7);
        assert_eq!(state[1], 0x84d5_ccf9_33c0_478a);
        assert_eq!(state[24], 0xeaf1_ff7b_5cec_a249);
    }

    /// Compares both compilations, whichever one this machine selects.
    #[test]
    fn every_compilation_gives_the_same_state() {
        let mut chosen: [u64; 25] = std::array::from_fn(|i| (i as u64).wrapping_mul(!0 / 7));
        let mut baseline = chosen;
        for _ in 0..1000 {
            keccak_f1600(&mut chosen);
            permute(&mut baseline);
            assert_eq!(chosen, baseline);
        }
    }
}
