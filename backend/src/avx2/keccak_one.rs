//! Keccak-f[1600] on one state, in general registers.
//!
//! A round is 130 operations of the arithmetic units, of which a core does four a cycle: 24 rounds
//! take 780 cycles at least. Compiled code for the formulas is slower: it keeps the words that
//! theta adds in memory, on the critical path of every round (parity, theta, first row, parity).
//! Here this path stays in registers, and so does the last word of the last row, with which the
//! next round's first row begins. Two of the five words that theta adds are read from memory by the
//! later rows, which are not on the critical path.

use core::arch::asm;

use crate::portable::ROUND_CONSTANTS;

/// The round constants, in memory for the loop.
static CONSTANTS: [u64; 24] = ROUND_CONSTANTS;

// Registers: the parities of columns 0 to 4 in rax, rbx, rcx, rdx and rbp; what theta adds to columns
// 0 to 3 in rsi, r13, r14 and r15; the row that is worked on in r8 to r12, of which r12 begins a round
// with word 24. After the first row r15 is for anything.
//
// On the stack: the other state at 0, the next round's constant at 200, the end of the constants at
// 208, what theta adds to columns 3 and 4 at 216 and 224.

/// Word `$word` with what theta adds to its column, rotated to the left, in register `$to`.
macro_rules! bring {
    ($from:literal $to:literal $word:literal $theta:literal) => {
        concat!(
            "mov ", $to, ", [", $from, " + 8 * ", $word, "]\n",
            "xor ", $to, ", ", $theta, "\n"
        )
    };
    ($from:literal $to:literal $word:literal $theta:literal $left:literal) => {
        concat!(bring!($from $to $word $theta), "rol ", $to, ", ", $left, "\n")
    };
}

/// The value that theta adds to a column, from two parities.
macro_rules! theta {
    ($to:literal $rotated:literal $with:literal) => {
        concat!("rorx ", $to, ", ", $rotated, ", 63\n", "xor ", $to, ", ", $with, "\n")
    };
}

/// Chi of a word of the first row, `a ^ (!b & c)`: its column's parity begins with it.
macro_rules! begin {
    ($to:literal $parity:literal $word:literal $a:literal $b:literal $c:literal) => {
        concat!(
            "andn ", $parity, ", ", $b, ", ", $c, "\n", "xor ", $parity, ", ", $a, "\n", "mov [",
            $to, " + 8 * ", $word, "], ", $parity, "\n"
        )
    };
}

/// Chi of a word of another row.
macro_rules! chi {
    ($to:literal $parity:literal $word:literal $a:literal $b:literal $c:literal) => {
        concat!(
            "andn r15, ",
            $b,
            ", ",
            $c,
            "\n",
            "xor r15, ",
            $a,
            "\n",
            "xor ",
            $parity,
            ", r15\n",
            "mov [",
            $to,
            " + 8 * ",
            $word,
            "], r15\n"
        )
    };
}

/// Chi of the first four words of a row.
macro_rules! four {
    ($to:literal: $w0:literal $w1:literal $w2:literal $w3:literal) => {
        concat!(
            chi!($to "rax" $w0 "r8" "r9" "r10"),
            chi!($to "rbx" $w1 "r9" "r10" "r11"),
            chi!($to "rcx" $w2 "r10" "r11" "r12"),
            chi!($to "rdx" $w3 "r11" "r12" "r8")
        )
    };
}

/// A round from one state to the other one; the rotations are those of FIPS 202, table 2.
macro_rules! round {
    ($from:literal $to:literal) => {
        concat!(
            theta!("r8" "rax" "rdx"),
            "mov [rsp + 224], r8\n",
            "xor r12, r8\n",
            "rol r12, 14\n",
            theta!("rsi" "rbx" "rbp"), theta!("r13" "rcx" "rax"), theta!("r14" "rdx" "rbx"),
            theta!("r15" "rbp" "rcx"),
            "mov [rsp + 216], r15\n",
            bring!($from "r8" 0 "rsi"), bring!($from "r9" 6 "r13" 44),
            bring!($from "r10" 12 "r14" 43),
            "mov r11, [rsp + 200]\n",
            "andn rax, r9, r10\n",
            "xor rax, r8\n",
            "xor rax, [r11]\n",
            "add r11, 8\n",
            "mov [rsp + 200], r11\n",
            "mov [", $to, "], rax\n",
            bring!($from "r11" 18 "r15" 21),
            begin!($to "rbx" 1 "r9" "r10" "r11"), begin!($to "rcx" 2 "r10" "r11" "r12"),
            begin!($to "rdx" 3 "r11" "r12" "r8"), begin!($to "rbp" 4 "r12" "r8" "r9"),
            bring!($from "r8" 3 "[rsp + 216]" 28), bring!($from "r9" 9 "[rsp + 224]" 20),
            bring!($from "r10" 10 "rsi" 3), bring!($from "r11" 16 "r13" 45),
            bring!($from "r12" 22 "r14" 61),
            four!($to: 5 6 7 8), chi!($to "rbp" 9 "r12" "r8" "r9"),
            bring!($from "r8" 1 "r13" 1), bring!($from "r9" 7 "r14" 6),
            bring!($from "r10" 13 "[rsp + 216]" 25), bring!($from "r11" 19 "[rsp + 224]" 8),
            bring!($from "r12" 20 "rsi" 18),
            four!($to: 10 11 12 13), chi!($to "rbp" 14 "r12" "r8" "r9"),
            bring!($from "r8" 4 "[rsp + 224]" 27), bring!($from "r9" 5 "rsi" 36),
            bring!($from "r10" 11 "r13" 10), bring!($from "r11" 17 "r14" 15),
            bring!($from "r12" 23 "[rsp + 216]" 56),
            four!($to: 15 16 17 18), chi!($to "rbp" 19 "r12" "r8" "r9"),
            bring!($from "r8" 2 "r14" 62), bring!($from "r9" 8 "[rsp + 216]" 55),
            bring!($from "r10" 14 "[rsp + 224]" 39), bring!($from "r11" 15 "rsi" 41),
            bring!($from "r12" 21 "r13" 2),
            four!($to: 20 21 22 23),
            "andn r8, r8, r9\n",
            "xor r12, r8\n",
            "xor rbp, r12\n"
        )
    };
}

/// The parity of a column of the state at hand, but for its last word.
macro_rules! parity {
    ($to:literal $w0:literal $w1:literal $w2:literal $w3:literal) => {
        concat!(
            "mov ",
            $to,
            ", [rdi + 8 * ",
            $w0,
            "]\n",
            "xor ",
            $to,
            ", [rdi + 8 * ",
            $w1,
            "]\n",
            "xor ",
            $to,
            ", [rdi + 8 * ",
            $w2,
            "]\n",
            "xor ",
            $to,
            ", [rdi + 8 * ",
            $w3,
            "]\n"
        )
    };
}

/// Permutes a state.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn permute_1(state: &mut [u64; 25]) {
    // SAFETY: reads and writes the 25 words of the state and 232 bytes of the stack, which are taken
    // below everything else, given back and zeroed, and reads the 24 constants. The two registers that
    // may not be named are saved and restored; all others are declared.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "sub rsp, 232",
            "mov [rsp + 200], rdx",
            "mov [rsp + 208], rcx",
            parity!("rax" 0 5 10 15),
            parity!("rbx" 1 6 11 16),
            parity!("rcx" 2 7 12 17),
            parity!("rdx" 3 8 13 18),
            parity!("rbp" 4 9 14 19),
            "mov r12, [rdi + 8 * 24]",
            "xor rax, [rdi + 8 * 20]",
            "xor rbx, [rdi + 8 * 21]",
            "xor rcx, [rdi + 8 * 22]",
            "xor rdx, [rdi + 8 * 23]",
            "xor rbp, r12",
            "2:",
            round!("rdi" "rsp"),
            round!("rsp" "rdi"),
            "mov r15, [rsp + 200]",
            "cmp r15, [rsp + 208]",
            "jne 2b",
            "mov [rdi + 8 * 24], r12",
            "vpxor xmm0, xmm0, xmm0",
            "vmovdqu [rsp], ymm0",
            "vmovdqu [rsp + 32], ymm0",
            "vmovdqu [rsp + 64], ymm0",
            "vmovdqu [rsp + 96], ymm0",
            "vmovdqu [rsp + 128], ymm0",
            "vmovdqu [rsp + 160], ymm0",
            "vmovdqu [rsp + 192], ymm0",
            "vmovq [rsp + 224], xmm0",
            "add rsp, 232",
            "pop rbp",
            "pop rbx",
            in("rdi") state.as_mut_ptr(),
            inout("rdx") CONSTANTS.as_ptr() => _,
            inout("rcx") CONSTANTS.as_ptr_range().end => _,
            out("rax") _, out("rsi") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _, out("ymm0") _,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::avx2::Avx2;
    use crate::portable::keccak_f1600;

    #[test]
    fn single_state_permutation_matches_portable() {
        if Avx2::detect().is_none() {
            return;
        }
        let mut state: [u64; 25] =
            core::array::from_fn(|i| (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for states in [1, 10, 100] {
            for _ in 0..states {
                let mut expected = state;
                keccak_f1600(&mut expected);
                // SAFETY: the processor has AVX2 and what comes with it, as just detected.
                unsafe { permute_1(&mut state) };
                assert_eq!(state, expected);
            }
            state = [!0; 25];
        }
    }
}
