//! Hashes of SLH-DSA and whole messages, of every length and in any number that round fills lanes.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::sha512::Sha512;
use gabion_scheme::kernels::slh::{SlhAddress, SlhContext, SlhFamily, SlhHash};

use super::on_every_instruction_set;
use crate::portable::Portable;

on_every_instruction_set!(every_length_of_input, every_length_of_message);

/// Numbers of messages, up to two rounds of eight lanes and one.
const COUNTS: [usize; 9] = [1, 2, 3, 4, 5, 7, 8, 9, 17];

/// The standard's inputs are whole hash values, which do not meet every case of the padding.
fn every_length_of_input(k: &dyn Kernels) {
    let sets = [(SlhFamily::Sha2, 16), (SlhFamily::Sha2, 24), (SlhFamily::Sha2, 32)];
    for (family, n) in sets.into_iter().chain([(SlhFamily::Shake, 16)]) {
        let contexts: Vec<_> = (0..17u8).map(|i| SlhContext::new(family, &vec![i; n])).collect();
        let input: Vec<u8> = (0..500u32).map(|i| (i * i % 251) as u8).collect();
        for (length, count) in (0..400).flat_map(|length| COUNTS.map(|count| (length, count))) {
            let [got, want] = [k, &Portable as &dyn Kernels].map(|kernels| {
                let mut out = vec![0u8; count * n];
                let mut jobs: Vec<_> = (out.chunks_exact_mut(n).zip(&contexts).enumerate())
                    .map(|(i, (output, context))| SlhHash {
                        context,
                        address: SlhAddress(core::array::from_fn(|j| (i + j) as u8)),
                        input: &input[i..i + length],
                        output,
                    })
                    .collect();
                kernels.slh_hash_many(&mut jobs);
                out
            });
            assert_eq!(got, want, "{family:?}, n = {n}, {count} of {length} bytes");
        }
    }
}

/// Messages of one length, and of lengths up to this one, which end in different blocks.
fn every_length_of_message(k: &dyn Kernels) {
    let message: Vec<u8> = (0..2200u32).map(|i| (i * i % 251) as u8).collect();
    let hash = |messages: &[&[u8]], kernels: &dyn Kernels| {
        let mut digests = vec![[0; 64]; messages.len()];
        let jobs = messages.iter().zip(&mut digests);
        let mut jobs: Vec<_> =
            jobs.map(|(message, digest)| Sha512 { pieces: [message, &[], &[]], digest }).collect();
        kernels.sha512_many(&mut jobs);
        digests
    };
    for (length, count) in (0..400).chain(2000..2100).flat_map(|length| COUNTS.map(|c| (length, c)))
    {
        for step in [0, 37] {
            let messages: Vec<_> =
                (0..count).map(|i| &message[i..i + length - (i * step).min(length)]).collect();
            let (got, want) = (hash(&messages, k), hash(&messages, &Portable));
            assert_eq!(got, want, "{count} of {length} bytes, {step} less each");
        }
    }
}
