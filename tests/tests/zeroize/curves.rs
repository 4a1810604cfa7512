//! Leftovers of the curves' lanes on the heap, whatever they are, and on the stack.

use gabion_backend::avx512::Avx512;
use gabion_scheme::kernels::Kernels;

use super::{COUNTING, LEFT};

/// Words of the stack that are looked at, below the caller of a kernel: 32 KiB.
const STACK: usize = 4096;

/// Blocks that are not zero when `work` frees them.
fn left_on_the_heap(work: impl FnOnce()) -> usize {
    LEFT.set(0);
    COUNTING.set(true);
    work();
    COUNTING.set(false);
    LEFT.get()
}

/// Copies the memory below this function's frame.
#[inline(never)]
fn left_on_the_stack(words: &mut [u64; STACK]) {
    let here = 0u64;
    let top = std::hint::black_box(&raw const here);
    for (place, word) in words.iter_mut().enumerate() {
        // SAFETY: the stack of this thread has 2 MiB and is read where it was in use or will be;
        // every bit pattern is a word. The compiler assumes nothing about the values that are read
        // there.
        *word = unsafe { top.wrapping_sub(place + 1).read_volatile() };
    }
}

/// Scalars that are clamped (RFC 7748, section 5) and below L, too.
fn scalars(n: usize, salt: u8) -> Vec<[u8; 32]> {
    let scalar = |lane: usize| std::array::from_fn(|i| (lane * 83 + i * 29) as u8 ^ salt);
    let clamped = (0..n).map(scalar).map(|mut scalar: [u8; 32]| {
        scalar[0] &= 248;
        scalar[31] = 8;
        scalar
    });
    clamped.collect()
}

#[test]
fn lanes_of_curves_free_zeros() {
    let Some(k) = Avx512::detect() else { return };
    // Tables, which are public, are made at the first use.
    for is_first in [true, false] {
        for n in [1, 2, 3, 8, 9, 64, 65] {
            let scalars = scalars(n, 0x5a);
            let mut out = vec![[0; 32]; n];
            let mut points = vec![[9; 32]; n];
            let left = left_on_the_heap(|| {
                k.ed25519_base_multiples(&scalars, &mut out);
                k.x25519_base_multiples(&scalars, &mut points);
                k.x25519_multiples(&scalars, &points, &mut out);
            });
            assert!(is_first || left == 0, "{left} blocks of {n} lanes");
        }
    }
    // Data that is not wiped is counted.
    assert_eq!(left_on_the_heap(|| drop(vec![1u8; 7])), 1);
}

#[test]
fn exchanges_leave_no_shared_secret_on_the_stack() {
    let Some(k) = Avx512::detect() else { return };
    let mut words = Box::new([0u64; STACK]);
    for n in 1..=17 {
        let (scalars, others) = (scalars(n, 0x5a), scalars(n, 0x33));
        let mut points = vec![[0; 32]; n];
        k.x25519_base_multiples(&others, &mut points);
        let mut secrets = vec![[0; 32]; n];
        k.x25519_multiples(&scalars, &points, &mut secrets);
        left_on_the_stack(&mut words);
        for secret in &secrets {
            for word in secret.as_chunks::<8>().0 {
                let word = u64::from_le_bytes(*word);
                let found = words.iter().position(|&left| left == word);
                assert_eq!(found, None, "{n} lanes: words below the caller");
            }
        }
    }
}
