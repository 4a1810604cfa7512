//! Examples of leaks in a kernel, for the scanner to flag, and a kernel that does not leak.

use std::arch::x86_64::*;
use std::hint::black_box;

/// Each function here, and the finding that it must cause.
pub const EXPECTED: &[(&str, Option<&str>)] = &[
    ("branch", Some("branch")),
    ("index", Some("address")),
    ("division", Some("division")),
    ("early_exit", Some("branch")),
    ("spilled", Some("branch")),
    ("mixture", Some("mixture")),
    ("none", None),
];

type Coefficients = [i16; 256];

/// A branch on a coefficient.
#[inline(never)]
fn branch(p: &Coefficients, out: &mut Coefficients) {
    if p[7] > 1664 {
        out.copy_from_slice(p);
    }
}

/// A table looked up at a coefficient.
#[inline(never)]
fn index(p: &Coefficients, table: &[i16; 65536]) -> i16 {
    table[usize::from(p[3] as u16)]
}

/// A division of a coefficient: its time depends on the operands.
#[inline(never)]
fn division(p: &Coefficients, divisor: u32) -> u32 {
    (p[1] as u16 as u32).checked_div(divisor).unwrap_or(0)
}

/// A comparison that ends at the first difference.
#[inline(never)]
fn early_exit(a: &[u64], b: &[u64]) -> bool {
    for (x, y) in a.iter().zip(b) {
        if x != y {
            return false;
        }
    }
    true
}

/// A branch on a value that went through the stack.
#[inline(never)]
fn spilled(p: &Coefficients, out: &mut Coefficients) {
    let x = black_box(p[9]);
    if x & 1 == 1 {
        out.copy_from_slice(p);
    }
}

/// Two rounds of SHA-256 between a load and a store of 32 bytes.
#[inline(never)]
#[target_feature(enable = "sha,avx2")]
fn mixture(p: &[__m256i; 2], out: &mut [__m256i; 2]) {
    let [a, b] = black_box(*p).map(|wide| _mm256_castsi256_si128(wide));
    out[0] = _mm256_broadcastsi128_si256(_mm_sha256rnds2_epu32(a, b, a));
}

/// Branches on lengths only.
#[inline(never)]
fn none(p: &[Coefficients], out: &mut Coefficients) {
    for p in p {
        for (out, x) in out.iter_mut().zip(p) {
            *out = out.wrapping_add(*x ^ (*x >> 15));
        }
    }
}

/// Keeps all functions in the program, with their declared arguments.
pub fn keep() {
    let (p, mut out) = ([1; 256], [0; 256]);
    black_box(branch as fn(&Coefficients, &mut Coefficients))(&p, &mut out);
    black_box(spilled as fn(&Coefficients, &mut Coefficients))(&p, &mut out);
    black_box(none as fn(&[Coefficients], &mut Coefficients))(&[p], &mut out);
    let table = Box::new([0i16; 65536]);
    black_box(index as fn(&Coefficients, &[i16; 65536]) -> i16)(&p, &table);
    black_box(division as fn(&Coefficients, u32) -> u32)(&p, 7);
    // Kept, and not run: the processor need not have the instructions.
    let keep = mixture as unsafe fn(&[__m256i; 2], &mut [__m256i; 2]);
    black_box(keep);
    black_box(early_exit as fn(&[u64], &[u64]) -> bool)(&[1, 2, 3], &[1, 2, 4]);
}
