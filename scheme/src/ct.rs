//! Constant-time comparison and selection, and the marks for the constant-time checker.
//!
//! [`secret`] says that bytes are secret from here on, [`declassify`] that the standard makes them
//! public. Both cost nothing unless the crate is built with `--cfg ctgrind`; then they tell
//! valgrind, which reports every branch and every address that depends on a secret byte.

#![allow(unsafe_code)]

/// Hides a value from the optimiser, so that it can't turn masks back into branches.
#[inline(always)]
pub fn barrier(x: u64) -> u64 {
    core::hint::black_box(x)
}

/// Returns all ones if `a == b`, otherwise zero. The lengths are public; different lengths give
/// zero.
pub fn eq_mask(a: &[u8], b: &[u8]) -> u64 {
    if a.len() != b.len() {
        return 0;
    }
    let mut acc = 0u64;
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (x, y) in a8.iter().zip(b8) {
        acc |= u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
    }
    for (x, y) in a_rest.iter().zip(b_rest) {
        acc |= u64::from(x ^ y);
    }
    let acc = barrier(acc);
    // The top bit of acc | -acc is set exactly when acc is not zero.
    ((acc | acc.wrapping_neg()) >> 63).wrapping_sub(1)
}

/// `out = a` where `mask` is all ones, `out = b` where it is zero.
pub fn select(mask: u64, a: &[u8; 32], b: &[u8; 32], out: &mut [u8; 32]) {
    let m = barrier(mask) as u8;
    for ((o, x), y) in out.iter_mut().zip(a).zip(b) {
        *o = (x & m) | (y & !m);
    }
}

/// Overwrites plain data with zeros in a way that the optimiser can't drop.
///
/// All at once: element-wise volatile writes cost a tenth of an ML-KEM operation.
pub fn wipe<T: Wipe>(data: &mut [T]) {
    // SAFETY: all zero bytes are a value of the type, and the pointer is good for the slice.
    unsafe { core::ptr::write_bytes(data.as_mut_ptr(), 0, data.len()) };
    // SAFETY: an empty instruction; the memory clobber makes the stores above observable.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) data.as_ptr(), options(nostack, preserves_flags))
    };
}

/// Plain data without pointers or padding.
///
/// # Safety
/// All zero bytes are a value of the type, and there is nothing to drop.
pub unsafe trait Wipe {}

macro_rules! wipe_as {
    ($($t:ty),*) => { $(
        // SAFETY: integers, or an array of them.
        unsafe impl Wipe for $t {}
    )* };
}

wipe_as!(u8, u32, u64, i16, i32, crate::poly::KemPoly, crate::poly::DsaPoly);

// SAFETY: integers.
unsafe impl<const N: usize> Wipe for [u8; N] {}

/// Sets the length of a buffer whose contents do not matter; new elements are `blank`.
///
/// All secrets stay in reach of a later [`wipe`] of the buffer: removed elements, and the old
/// memory after a move to a larger allocation, are zeroed.
pub fn resize<T: Wipe + Clone>(buffer: &mut Vec<T>, len: usize, blank: T) {
    if len > buffer.capacity() {
        wipe(buffer);
    } else if len < buffer.len() {
        wipe(&mut buffer[len..]);
    }
    buffer.resize(len, blank);
}

/// Marks bytes as secret for the constant-time checker.
#[inline(always)]
pub fn secret<T>(bytes: &[T]) {
    #[cfg(ctgrind)]
    memcheck::request(memcheck::MAKE_MEM_UNDEFINED, bytes);
    #[cfg(not(ctgrind))]
    let _ = bytes;
}

/// Marks bytes as public for the constant-time checker, at the line where the standard makes
/// them so. Each call says why.
#[inline(always)]
pub fn declassify<T>(bytes: &[T]) {
    #[cfg(ctgrind)]
    memcheck::request(memcheck::MAKE_MEM_DEFINED, bytes);
    #[cfg(not(ctgrind))]
    let _ = bytes;
}

/// Marks a value as public and returns it. For single values, which may live in registers.
#[inline(always)]
pub fn declassified<T: Copy>(value: T) -> T {
    #[cfg(ctgrind)]
    let value = {
        let place = core::hint::black_box(Box::new([value]));
        memcheck::request(memcheck::MAKE_MEM_DEFINED, &place[..]);
        // SAFETY: a live value behind a reference. The volatile read makes the compiler take it
        // from memory, where it is now public, and not from a register, where it is still secret.
        unsafe { core::ptr::read_volatile(&place[0]) }
    };
    value
}

/// Client requests to valgrind's memcheck (valgrind manual, section 4.7).
#[cfg(ctgrind)]
mod memcheck {
    /// `VG_USERREQ__MAKE_MEM_UNDEFINED`: tool base 'M','C' plus 1.
    pub const MAKE_MEM_UNDEFINED: u64 = 0x4d43_0001;
    /// `VG_USERREQ__MAKE_MEM_DEFINED`: tool base 'M','C' plus 2.
    pub const MAKE_MEM_DEFINED: u64 = 0x4d43_0002;

    /// Sends one request about the bytes of `data`; outside valgrind it does nothing.
    #[cfg(target_arch = "x86_64")]
    pub fn request<T>(code: u64, data: &[T]) {
        let args: [u64; 6] =
            [code, data.as_ptr() as u64, core::mem::size_of_val(data) as u64, 0, 0, 0];
        // SAFETY: the documented no-op sequence of rotations (3 + 13 + 61 + 51 = 128 bits) and
        // an exchange of rbx with itself; valgrind reads `args` and writes its answer to rdx.
        unsafe {
            core::arch::asm!(
                "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
                inout("rdx") 0u64 => _, in("rax") args.as_ptr(), out("rdi") _,
                options(nostack)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eq_mask_sees_every_bit() {
        let a = [0x5au8; 37];
        assert_eq!(eq_mask(&a, &a), u64::MAX);
        for bit in 0..37 * 8 {
            let mut b = a;
            b[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(eq_mask(&a, &b), 0, "bit {bit}");
        }
        assert_eq!(eq_mask(&a, &a[..36]), 0);
    }

    #[test]
    fn wipe_clears() {
        let mut a = [7u8; 65];
        wipe(&mut a);
        assert_eq!(a, [0; 65]);
    }

    #[test]
    fn a_buffer_that_shrinks_leaves_nothing_beyond_its_length() {
        let mut buffer = vec![[7u8; 3]; 20];
        resize(&mut buffer, 5, [0; 3]);
        assert_eq!(buffer, [[7; 3]; 5]);
        for item in &mut buffer.spare_capacity_mut()[..15] {
            // SAFETY: these items were initialised before they were cut off.
            assert_eq!(unsafe { item.assume_init_read() }, [0; 3]);
        }
    }

    #[test]
    fn a_buffer_that_moves_is_wiped_first() {
        let mut buffer = vec![7u8; 20];
        let room = buffer.capacity();
        resize(&mut buffer, room, 1);
        assert_eq!(buffer[..20], [7; 20], "it did not move");
        resize(&mut buffer, room + 1, 1);
        assert_eq!(buffer[..20], [0; 20], "the copy is as zero as what was left behind");
        assert_eq!(buffer.len(), room + 1);
    }

    #[test]
    fn select_takes_one_side() {
        let (a, b, mut out) = ([1u8; 32], [2u8; 32], [0u8; 32]);
        select(u64::MAX, &a, &b, &mut out);
        assert_eq!(out, a);
        select(0, &a, &b, &mut out);
        assert_eq!(out, b);
    }
}
