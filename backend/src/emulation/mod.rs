//! AVX-512 and the SHA extensions in plain Rust, for checkers that know neither.
//!
//! ```text
//!   avx512/, x86/sha_ni.rs --build.rs--> the same text, where
//!        core::arch::x86_64::*        is emulation::*           types and intrinsics of this module
//!        core::arch::asm!             is emulation::asm!        the text is read and carried out
//!        #[target_feature(..)]        is gone
//!        is_x86_feature_detected!(..) is true
//! ```
//!
//! Built with `--cfg emulated_lanes` the crate has these kernels instead of the real ones, under the
//! name "avx512-emulated", and valgrind's memcheck can follow secrets through them, which it can't
//! where an instruction set is unknown to it (`tests/constant-time/ctgrind.sh`). Otherwise this
//! module is compiled for tests only, which compare every function with the instruction of its name.
//!
//! Functions have the names and arguments of `core::arch` and do what Intel's manual says of the
//! instruction (Software Developer's Manual, volume 2). Instructions with constant time in hardware
//! have it here, in the sense of memcheck: no branch and no address depends on a vector or on an
//! operand that selects its lanes. Masks of loads and stores are the exception, because their
//! purpose is not to touch some addresses: a secret mask is reported.
//!
//! Functions stay functions (`inline(never)`): inlined, their loops make one function of a kernel's
//! thousands, in which LLVM's analyses take minutes.

#![allow(non_camel_case_types)] // Names are those of `core::arch`.

use core::hint::black_box;

mod arithmetic;
mod assembly;
mod masks;
mod memory;
mod quads;
mod sha;
mod shuffles;
#[cfg(all(test, not(emulated_lanes)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests;

pub(crate) use arithmetic::*;
pub(crate) use assembly::{Machine, Program, asm};
pub(crate) use masks::*;
pub(crate) use memory::*;
pub(crate) use quads::*;
pub(crate) use sha::*;
pub(crate) use shuffles::*;

/// A 512-bit register, its lowest 64 bits first.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct __m512i([u64; 8]);

/// A 256-bit register.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(crate) struct __m256i([u64; 4]);

/// A 128-bit register.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
pub(crate) struct __m128i([u64; 2]);

pub(crate) type __mmask8 = u8;
pub(crate) type __mmask16 = u16;
pub(crate) type __mmask32 = u32;
pub(crate) type __mmask64 = u64;

/// Plain data of any bits without padding: registers, and arrays of integers.
///
/// # Safety
/// That is so for the type.
unsafe trait Bits: Copy {}

// SAFETY: arrays of integers.
unsafe impl Bits for __m512i {}
// SAFETY: as above.
unsafe impl Bits for __m256i {}
// SAFETY: as above.
unsafe impl Bits for __m128i {}
// SAFETY: as above.
unsafe impl<T: Word, const N: usize> Bits for [T; N] {}

/// Reinterprets the bits as another type.
#[inline(always)]
fn cast<A: Bits, B: Bits>(a: A) -> B {
    const { assert!(size_of::<A>() == size_of::<B>()) };
    // SAFETY: same size (asserted above), and any bits are a value of both.
    unsafe { core::mem::transmute_copy(&a) }
}

/// An element of a register.
trait Word: Copy {
    const ZERO: Self;
    /// Returns all ones if `bit` is 1, and zero if it is 0.
    fn spread(bit: u64) -> Self;
    /// `self` where `mask` is all ones, `other` where it is zero.
    fn or_else(self, mask: Self, other: Self) -> Self;
}

macro_rules! words {
    ($($t:ty)*) => { $(
        impl Word for $t {
            const ZERO: Self = 0;
            #[inline(always)]
            fn spread(bit: u64) -> Self {
                (bit as $t).wrapping_neg()
            }
            #[inline(always)]
            fn or_else(self, mask: Self, other: Self) -> Self {
                (self & mask) | (other & !mask)
            }
        }
    )* };
}

words!(u8 i8 u16 i16 u32 i32 u64 i64);

/// The element of a table at an index, all of which is read.
#[inline(always)]
fn look_up<T: Word, const N: usize>(table: &[T; N], index: usize) -> T {
    let mut masks = [T::ZERO; N];
    for (i, mask) in masks.iter_mut().enumerate() {
        *mask = T::spread(is_zero((i ^ index) as u64));
    }
    // The compiler is not to see that these are masks: it would choose between addresses.
    let masks = black_box(masks);
    let mut found = T::ZERO;
    for (item, mask) in table.iter().zip(masks) {
        found = item.or_else(mask, found);
    }
    found
}

/// 1 for zero and 0 for anything below 2^63.
#[inline(always)]
fn is_zero(x: u64) -> u64 {
    x.wrapping_sub(1) >> 63
}

/// The nearest number from `low` to `high`. The library's function is a branch at times.
#[inline(always)]
fn clamp(x: i32, low: i32, high: i32) -> i32 {
    let x = i64::from(x);
    let x = i64::from(low).or_else(black_box((x - i64::from(low)) >> 63), x);
    i64::from(high).or_else(black_box((i64::from(high) - x) >> 63), x) as i32
}

/// Elements of `a` where a bit of `mask` is set, and of `b` elsewhere.
#[inline(always)]
fn choose<T: Word, const N: usize>(mask: u64, a: [T; N], b: [T; N]) -> [T; N] {
    let mut masks = [T::ZERO; N];
    for (i, item) in masks.iter_mut().enumerate() {
        *item = T::spread(mask >> i & 1);
    }
    let masks = black_box(masks); // As in `look_up`.
    let mut out = b;
    for i in 0..N {
        out[i] = a[i].or_else(masks[i], b[i]);
    }
    out
}

/// `f` of each element.
#[inline(always)]
fn each<T: Word, U: Word, const N: usize>(a: [T; N], f: impl Fn(T) -> U) -> [U; N] {
    let mut out = [U::ZERO; N];
    for i in 0..N {
        out[i] = f(a[i]);
    }
    out
}

/// `f` of the elements of two registers that are at the same place.
#[inline(always)]
fn both<T: Word, U: Word, V: Word, const N: usize>(
    a: [T; N],
    b: [U; N],
    f: impl Fn(T, U) -> V,
) -> [V; N] {
    let mut out = [V::ZERO; N];
    for i in 0..N {
        out[i] = f(a[i], b[i]);
    }
    out
}
