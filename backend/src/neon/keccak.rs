//! Keccak-f[1600] on two states (FIPS 202, section 3.3), by the SHA3 extension.
//!
//! ```text
//!   state[w] = word w of lane 0 | word w of lane 1
//! ```
//!
//! The extension has the operations of a round: two exclusive ors in one (`EOR3`), one with a
//! rotation by 1 (`RAX1`) or with any rotation behind it (`XAR`), and chi (`BCAX`). A round of both
//! states takes 10 + 5 + 25 + 25 + 1 = 66 of them, and 30 registers at its fullest, of 32. (As
//! rustc 1.95 compiles the loop, there are 17 additional moves, and two registers are spilled to
//! the stack.)
//!
//! Without the extension there is no kernel here: a rotation is then two instructions, which makes
//! about 160 for both states, on two vector units as a rule, where the general registers take a little
//! over 100 for one state (their exclusive ors rotate an operand for nothing) and have three or four
//! units. By the published measurements, too, plain lanes do not gain over general registers (Becker
//! and Kannwischer, eprint 2022/1243, and the choices of mlkem-native that follow it), and mixing both
//! in one stream of instructions, which does, is a matter of assembly for one processor at a time.
//! None of this was measured here: there was no aarch64 processor to do it on.

use core::arch::aarch64::*;

use crate::portable::ROUND_CONSTANTS;

/// Two states, word by word.
pub(super) type State = [uint64x2_t; 25];

/// Words to be rotated to the left by `$left`, after theta has added `$d`.
macro_rules! turned {
    ($word:expr, $d:expr, 0) => {
        veorq_u64($word, $d)
    };
    ($word:expr, $d:expr, $left:literal) => {
        vxarq_u64::<{ 64 - $left }>($word, $d)
    };
}

/// One row of the next state, from word $i of column $x for each of its columns.
macro_rules! row {
    ($a:ident, $d:ident: $($i:literal $x:literal $left:tt),*) => {{
        let b = [$(turned!($a[$i], $d[$x], $left)),*];
        [
            vbcaxq_u64(b[0], b[2], b[1]),
            vbcaxq_u64(b[1], b[3], b[2]),
            vbcaxq_u64(b[2], b[4], b[3]),
            vbcaxq_u64(b[3], b[0], b[4]),
            vbcaxq_u64(b[4], b[1], b[0]),
        ]
    }};
}

/// The sum of a column.
macro_rules! parity {
    ($a:ident, $x:literal) => {
        veor3q_u64(veor3q_u64($a[$x], $a[$x + 5], $a[$x + 10]), $a[$x + 15], $a[$x + 20])
    };
}

/// Theta, rho, pi, chi and iota; the rotations are those of FIPS 202, table 2.
#[inline]
#[target_feature(enable = "neon,sha3")]
fn round(a: State, constant: u64) -> State {
    let c = [parity!(a, 0), parity!(a, 1), parity!(a, 2), parity!(a, 3), parity!(a, 4)];
    let d = [
        vrax1q_u64(c[4], c[1]),
        vrax1q_u64(c[0], c[2]),
        vrax1q_u64(c[1], c[3]),
        vrax1q_u64(c[2], c[4]),
        vrax1q_u64(c[3], c[0]),
    ];
    let [a0, a1, a2, a3, a4] = row!(a, d: 0 0 0, 6 1 44, 12 2 43, 18 3 21, 24 4 14);
    let [b0, b1, b2, b3, b4] = row!(a, d: 3 3 28, 9 4 20, 10 0 3, 16 1 45, 22 2 61);
    let [c0, c1, c2, c3, c4] = row!(a, d: 1 1 1, 7 2 6, 13 3 25, 19 4 8, 20 0 18);
    let [d0, d1, d2, d3, d4] = row!(a, d: 4 4 27, 5 0 36, 11 1 10, 17 2 15, 23 3 56);
    let [e0, e1, e2, e3, e4] = row!(a, d: 2 2 62, 8 3 55, 14 4 39, 15 0 41, 21 1 2);
    let a0 = veorq_u64(a0, vdupq_n_u64(constant));
    [
        a0, a1, a2, a3, a4, b0, b1, b2, b3, b4, c0, c1, c2, c3, c4, d0, d1, d2, d3, d4, e0, e1, e2,
        e3, e4,
    ]
}

/// Permutes both states.
#[inline(never)]
#[target_feature(enable = "neon,sha3")]
pub(super) fn permute_2(state: &mut State) {
    let mut a = *state;
    for constant in ROUND_CONSTANTS {
        a = round(a, constant);
    }
    *state = a;
}
