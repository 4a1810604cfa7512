//! The hashes of the kernels against other people's code, at every length around their blocks.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use gabion_cuda::HashArguments;
use gabion_cuda_emulator::{kernels, run_on};
use sha2::Digest;
use sha3::digest::{ExtendableOutput, XofReader};

/// Messages of a launch: more than a block, and no multiple of one.
const N: usize = 131;
/// Lengths on both sides of each block and of each length field: 72, 136 and 168 bytes of sponges, 64 and 128 of SHA-2.
const LENGTHS: [usize; 26] = [
    0, 1, 7, 8, 9, 55, 56, 63, 64, 65, 71, 72, 73, 111, 112, 119, 127, 128, 135, 136, 137, 167,
    168, 169, 272, 500,
];

/// Runs a kernel over `N` messages of `length` bytes, and compares each output.
fn check(kernel: &str, out_len: usize, expected: impl Fn(&[u8]) -> Vec<u8>) {
    let (_, jobs) = kernels().into_iter().find(|(name, _)| name == kernel).unwrap();
    for length in LENGTHS {
        let out_at = (N * length).next_multiple_of(16);
        let mut bytes = vec![0; out_at + N * out_len];
        getrandom::fill(&mut bytes[..N * length]).unwrap();
        let given = bytes.clone();
        let arguments = |at: u64| HashArguments {
            messages: at,
            out: at + out_at as u64,
            length: length as u32,
            n: N as u32,
        };
        // SAFETY: `N` messages and after them `N` outputs.
        unsafe { run_on(kernel, (N as u32).div_ceil(jobs), &mut bytes, arguments) }.unwrap();
        assert_eq!(bytes[..out_at], given[..out_at], "{kernel} changed its input");
        for (i, out) in bytes[out_at..].chunks_exact(out_len).enumerate() {
            let message = &given[i * length..(i + 1) * length];
            assert_eq!(out, expected(message), "{kernel}, {length} bytes, message {i}");
        }
    }
}

fn shake(mut hash: impl ExtendableOutput, message: &[u8], len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    hash.update(message);
    hash.finalize_xof().read(&mut out);
    out
}

#[test]
fn sha3_and_shake() {
    check("gabion_sha3_256", 32, |message| sha3::Sha3_256::digest(message).to_vec());
    check("gabion_sha3_512", 64, |message| sha3::Sha3_512::digest(message).to_vec());
    check("gabion_shake128", 32, |message| shake(sha3::Shake128::default(), message, 32));
    check("gabion_shake256", 64, |message| shake(sha3::Shake256::default(), message, 64));
}

#[test]
fn sha2() {
    check("gabion_sha256", 32, |message| sha2::Sha256::digest(message).to_vec());
    check("gabion_sha512", 64, |message| sha2::Sha512::digest(message).to_vec());
}

#[test]
fn keccak_f_in_place() {
    // The state of zeros after one permutation, and after two (the Keccak team's KeccakF-1600-IntermediateValues).
    let mut bytes = vec![0u8; 3 * 200];
    let arguments = |at: u64| HashArguments { messages: at, out: at, length: 200, n: 3 };
    for first in [0xf125_8f79_40e1_dde7u64, 0x2d5c_954d_f96e_cb3c] {
        // SAFETY: three states, which change in place.
        unsafe { run_on("gabion_keccak_f", 1, &mut bytes, arguments) }.unwrap();
        for state in bytes.chunks_exact(200) {
            assert_eq!(state[..8], first.to_le_bytes());
        }
    }
}

#[test]
fn repeated_permutations_and_compressions() {
    // The states of zeros and others, after five permutations at once and after one five times.
    let mut bytes = vec![0u8; N * 200];
    getrandom::fill(&mut bytes[200..]).unwrap();
    let mut one_by_one = bytes.clone();
    let times =
        |length: u32| move |at: u64| HashArguments { messages: at, out: at, length, n: N as u32 };
    let blocks = N.div_ceil(128) as u32;
    // SAFETY: as many states, which change in place.
    unsafe { run_on("gabion_keccak_repeated", blocks, &mut bytes, times(5)) }.unwrap();
    for _ in 0..5 {
        // SAFETY: likewise.
        unsafe { run_on("gabion_keccak_f", blocks, &mut one_by_one, times(200)) }.unwrap();
    }
    assert_eq!(bytes, one_by_one);

    let mut bytes = vec![0u8; N * 32];
    getrandom::fill(&mut bytes).unwrap();
    let mut expected = bytes.clone();
    // SAFETY: as many states, which change in place.
    unsafe { run_on("gabion_sha256_repeated", blocks, &mut bytes, times(3)) }.unwrap();
    for state in expected.chunks_exact_mut(32) {
        let (words, _) = state.as_chunks_mut::<4>();
        let mut h: [u32; 8] = std::array::from_fn(|i| u32::from_le_bytes(words[i]));
        for _ in 0..3 {
            let block: Vec<u8> = h.iter().chain(&h).flat_map(|word| word.to_be_bytes()).collect();
            let block: [u8; 64] = block.try_into().unwrap();
            sha2::block_api::compress256(&mut h, &[block]);
        }
        words.iter_mut().zip(h).for_each(|(word, h)| *word = h.to_le_bytes());
    }
    assert_eq!(bytes, expected);
}

#[test]
fn an_unknown_kernel_or_other_arguments_are_refused() {
    let mut bytes = vec![0; 256];
    let hash = |at: u64| HashArguments { messages: at, out: at, length: 0, n: 0 };
    // SAFETY: no message at all.
    let refused = [unsafe { run_on("gabion_sha1", 1, &mut bytes, hash) }, unsafe {
        run_on("gabion_kem768_seed", 1, &mut bytes, hash)
    }];
    assert!(refused.iter().all(Result::is_err), "{refused:?}");
}
