//! Tables of constants, and plain working memory that held secrets: what every instruction set's
//! kernels need of memory.

use core::arch::asm;
use core::mem::MaybeUninit;

/// Registers' worth of bytes, words or double words in memory.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Table<T, const N: usize>(pub(crate) [T; N]);

/// Plain data: any bytes are a value, all zero included.
///
/// # Safety
/// That is so for the type, which has no padding either.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: integers without padding, of which any bits are a value.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for i8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for i16 {}
// SAFETY: as above.
unsafe impl Plain for u32 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for i64 {}
// SAFETY: arrays have no padding between items.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Returns the reference unchanged, in a way that hides its value from the compiler.
///
/// Around a loop over polynomials LLVM otherwise loads a kernel's tables ahead, widened to 32 bits
/// for a 16-bit multiplication, and then narrows and spills them: half again as slow.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block)] // The address passes through; nothing is read.
pub(crate) fn opaque<T>(table: &'static T) -> &'static T {
    let mut address: *const T = table;
    // SAFETY: an empty instruction that leaves the register, and so the reference, as it is.
    unsafe {
        asm!("/* {0} */", inout(reg) address, options(nomem, nostack, preserves_flags));
        &*address
    }
}

/// Plain data of which nothing is known: room that is filled before it matters.
#[inline(always)]
pub(crate) fn unspecified<T: Plain>() -> T {
    let mut data = MaybeUninit::<T>::uninit();
    // SAFETY: for all that the compiler knows, the empty instruction writes all of the memory it is
    // given the address of, and any bytes are a value of the type.
    unsafe {
        asm!("/* {0} */", in(reg) data.as_mut_ptr(), options(nostack, preserves_flags));
        data.assume_init()
    }
}

/// Zeros plain data that held secrets, in a way that the optimiser can't drop.
#[inline(always)]
pub(crate) fn wipe<T: Plain>(data: &mut [T]) {
    // SAFETY: all zero bytes are a value of the type, and the pointer is good for the slice.
    unsafe { core::ptr::write_bytes(data.as_mut_ptr(), 0, data.len()) };
    // SAFETY: an empty instruction; for all that the compiler knows it reads the memory.
    unsafe { asm!("/* {0} */", in(reg) data.as_ptr(), options(nostack, preserves_flags)) };
}
