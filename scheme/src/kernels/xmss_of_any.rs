//! Chains, hashes and secrets of XMSS for instruction sets without vector lanes for them.
//!
//! ```text
//!   SHA-256             one stream of xmss_sha256 a job
//!   SHA-512, SHAKE      keys and masks of all jobs --> messages of all jobs --> sha512_many, sponge_many
//! ```

use super::sha512::Sha512;
use super::xmss::{
    STEPS_MAX, XmssAddress, XmssChain, XmssContext, XmssFamily, XmssHash, XmssSecret,
    XmssSecretSeed, domain, prefix,
};
use super::xmss_sha256;
use super::{Kernels, Sponge, Xof};
use crate::ct;

/// Runs every chain without vector lanes: SHA-256 one after the other, the other hashes step by
/// step.
pub fn chains<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [XmssChain<'_>]) {
    XmssChain::assert_all(jobs);
    match jobs.first().map(|job| job.context.family) {
        Some(XmssFamily::Sha256) => jobs.iter_mut().for_each(xmss_sha256::chain),
        Some(_) => chains_side_by_side(kernels, jobs),
        None => {}
    }
}

/// Runs every hash without vector lanes.
pub fn hashes<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [XmssHash<'_>]) {
    XmssHash::assert_all(jobs);
    match jobs.first().map(|job| job.context.family) {
        Some(XmssFamily::Sha256) => jobs.iter_mut().for_each(xmss_sha256::hash),
        Some(_) => hashes_side_by_side(kernels, jobs),
        None => {}
    }
}

/// Derives every secret without vector lanes.
pub fn secrets<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [XmssSecret<'_>]) {
    XmssSecret::assert_all(jobs);
    match jobs.first().map(|job| job.context.family) {
        Some(XmssFamily::Sha256) => jobs.iter_mut().for_each(xmss_sha256::secret),
        Some(family) => {
            let addresses: Vec<_> = jobs.iter().map(|job| job.address.bytes()).collect();
            let messages = jobs.iter_mut().zip(&addresses).map(|(job, address)| {
                let before = prefix(domain::PRF_KEYGEN, job.context.n);
                let pieces = [before, job.seed.bytes(), job.context.seed(), address];
                Sponge::new(xof(family), pieces, &mut *job.output)
            });
            kernels.sponge_many(&mut messages.collect::<Vec<_>>());
        }
        None => {}
    }
}

/// The randomizer of a signature (RFC 8391, Algorithm 12): PRF(SK_PRF, toByte(index, 32)), n bytes.
///
/// # Panics
/// If `output` has not as many bytes as the seed.
pub fn randomizer<K: Kernels + ?Sized>(
    kernels: &K,
    family: XmssFamily,
    seed: &XmssSecretSeed,
    index: u64,
    output: &mut [u8],
) {
    let n = seed.bytes().len();
    assert_eq!(output.len(), n, "n bytes");
    if family == XmssFamily::Sha256 {
        return xmss_sha256::randomizer(seed, index, output);
    }
    let mut number = [0; 32];
    number[24..].copy_from_slice(&index.to_be_bytes());
    let pieces = [prefix(domain::PRF, n), seed.bytes(), &number];
    kernels.sponge_many(&mut [Sponge::new(xof(family), pieces, output)]);
}

/// Returns the sponge of a family. SHA-512 is not a sponge and has no secrets: only sets of SP
/// 800-208 sign.
fn xof(family: XmssFamily) -> Xof {
    match family {
        XmssFamily::Shake128 => Xof::Shake128,
        XmssFamily::Shake256 => Xof::Shake256,
        XmssFamily::Sha256 | XmssFamily::Sha512 => unreachable!("a function that is no sponge"),
    }
}

/// A message of F, H or PRF: its prefix, its key and itself; and the output.
type Message<'a> = ([&'a [u8]; 3], &'a mut [u8]);

/// Hashes all messages by the family's function, side by side.
fn run<'a, K: Kernels + ?Sized>(
    kernels: &K,
    family: XmssFamily,
    messages: impl Iterator<Item = Message<'a>>,
) {
    if family == XmssFamily::Sha512 {
        // A digest is n bytes: what is cut here is nothing.
        let jobs = messages.filter_map(|(pieces, output)| {
            Some(Sha512 { pieces, digest: output.try_into().ok()? })
        });
        return kernels.sha512_many(&mut jobs.collect::<Vec<_>>());
    }
    let sponges = messages.map(|(pieces, output)| Sponge::new(xof(family), pieces, output));
    kernels.sponge_many(&mut sponges.collect::<Vec<_>>());
}

/// Keys and masks of addresses, `[address][M][n]`: PRF with 0 to M - 1 in their last words.
fn keys_and_masks<K: Kernels + ?Sized, const M: usize>(
    kernels: &K,
    addresses: &[(&XmssContext, XmssAddress)],
    out: &mut [u8],
) {
    let Some(&(XmssContext { family, n, .. }, _)) = addresses.first() else { return };
    let bytes: Vec<[[u8; 32]; M]> = (addresses.iter())
        .map(|(_, address)| {
            std::array::from_fn(|i| address.with(XmssAddress::KEY_AND_MASK, i as u32).bytes())
        })
        .collect();
    let seeds = addresses.iter().flat_map(|(context, _)| [context.seed(); M]);
    let messages = seeds.zip(bytes.as_flattened()).zip(out.chunks_exact_mut(*n));
    let messages =
        messages.map(|((seed, address), out)| ([prefix(domain::PRF, *n), seed, &address[..]], out));
    run(kernels, *family, messages);
}

/// `bytes ^= mask`.
fn mask(bytes: &mut [u8], mask: &[u8]) {
    for (byte, mask) in bytes.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

/// Step j of all chains that have one, side by side, for one j after the other.
fn chains_side_by_side<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [XmssChain<'_>]) {
    let XmssContext { family, n, .. } = *jobs[0].context;
    let mut room = vec![0; jobs.len() * 2 * n];
    for j in 0..STEPS_MAX {
        let mut chains: Vec<_> = (jobs.iter_mut())
            .filter(|job| (job.start..job.start + job.steps).contains(&j))
            .collect();
        let addresses =
            chains.iter().map(|job| (job.context, job.address.with(XmssAddress::HASH, j)));
        let room = &mut room[..chains.len() * 2 * n];
        keys_and_masks::<K, 2>(kernels, &addresses.collect::<Vec<_>>(), room);
        for (job, room) in chains.iter().zip(room.chunks_exact_mut(2 * n)) {
            mask(&mut room[n..], job.value);
        }
        let messages = chains.iter_mut().zip(room.chunks_exact(2 * n)).map(|(job, room)| {
            let (key, message) = room.split_at(n);
            ([prefix(domain::F, n), key, message], &mut *job.value)
        });
        run(kernels, family, messages);
    }
    ct::wipe(&mut room);
}

/// All hashes, side by side.
fn hashes_side_by_side<K: Kernels + ?Sized>(kernels: &K, jobs: &mut [XmssHash<'_>]) {
    let XmssContext { family, n, .. } = *jobs[0].context;
    let mut room = vec![0; jobs.len() * 3 * n];
    let addresses: Vec<_> = jobs.iter().map(|job| (job.context, job.address)).collect();
    keys_and_masks::<K, 3>(kernels, &addresses, &mut room);
    for (job, room) in jobs.iter().zip(room.chunks_exact_mut(3 * n)) {
        mask(&mut room[n..], job.input);
    }
    let messages = jobs.iter_mut().zip(room.chunks_exact(3 * n)).map(|(job, room)| {
        let (key, message) = room.split_at(n);
        ([prefix(domain::H, n), key, message], &mut *job.output)
    });
    run(kernels, family, messages);
}
