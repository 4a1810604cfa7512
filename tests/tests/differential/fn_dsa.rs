//! FN-DSA, of which there is one implementation: the crate under ours. So its signatures are judged
//! by a verifier that is written here from the draft's definition, with no transform and no other
//! trick, and its keys by pqcrypto-falcon: f, g and F are Falcon's with the bits of each byte in the
//! other order, and the C code signs and verifies with them. The public key is encoded after a
//! transform in FN-DSA and before it in Falcon, so it is h of the Falcon key that is taken here.

use gabion_engine::{Algorithm, Engine, Message, OsEntropy, Randomness, SigningKey, Status};
use pqcrypto_falcon::{falconpadded512, falconpadded1024};
use pqcrypto_traits::sign::{DetachedSignature, PublicKey, SecretKey};
use sha3::Shake256;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use crate::falcon::{KEY_ROUNDS, ReferenceImplementation, damage, other};
use crate::{count, engines, random, random_below, tally};

const Q: i64 = 12289;

/// The bits of bytes, from the bottom of each as in FN-DSA or from the top as in Falcon.
fn bits(bytes: &[u8], from_top: bool) -> Vec<bool> {
    let place = |i: usize| if from_top { 7 - i } else { i };
    bytes.iter().flat_map(|byte| (0..8).map(move |i| byte >> place(i) & 1 == 1)).collect()
}

/// Numbers of `width` bits each, packed from the other end of each byte.
fn repack(bytes: &[u8], width: usize, from_top: bool) -> Vec<u8> {
    let mut packed = bits(bytes, from_top);
    packed.chunks_mut(width).for_each(<[bool]>::reverse);
    let byte = |bits: &[bool]| {
        let set = |at: usize| if from_top { at } else { 7 - at };
        bits.iter().enumerate().fold(0, |byte, (at, &bit)| byte | u8::from(bit) << set(at))
    };
    packed.chunks(8).map(byte).collect()
}

/// 64 bytes of SHAKE256.
fn shake(parts: &[&[u8]]) -> [u8; 64] {
    let mut sponge = Shake256::default();
    parts.iter().for_each(|part| sponge.update(part));
    let mut out = [0; 64];
    sponge.finalize_xof().read(&mut out);
    out
}

/// The number of bits from the bottom.
fn number(bits: &[bool]) -> i64 {
    bits.iter().rev().fold(0, |n, &bit| n << 1 | i64::from(bit))
}

/// The number of bits from the top.
fn from_top(bits: &[bool]) -> i64 {
    bits.iter().fold(0, |n, &bit| n << 1 | i64::from(bit))
}

/// The format of a signature, and the rules for it other than its norm.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// Bits count from the top of each byte, and words to hash come with the high byte first.
    from_top: bool,
    /// The largest coefficient of s2.
    size_max: i64,
    /// The largest coefficient of s1, if there is such a rule.
    other_max: i64,
    /// Zeros fill the signature up to its one length; otherwise it ends where s2 does.
    is_padded: bool,
}

/// FN-DSA as drafted.
const FN_DSA: Form = Form { from_top: false, size_max: 840, other_max: 840, is_padded: true };
/// Falcon of round 3, of one length and of as many bytes as it takes.
pub(crate) const FALCON_PADDED: Form =
    Form { from_top: true, size_max: 2047, other_max: i64::MAX, is_padded: true };
pub(crate) const FALCON: Form = Form { is_padded: false, ..FALCON_PADDED };

/// s2 from its compressed form: sign, seven low bits, the rest as so many zeros and a one; then
/// zeros. Zero has no sign.
fn decompress(bytes: &[u8], n: usize, form: Form) -> Option<Vec<i64>> {
    let bits = bits(bytes, form.from_top);
    let (mut rest, mut out) = (&bits[..], Vec::new());
    for _ in 0..n {
        let (low, after) = rest.split_at_checked(8)?;
        let high = after.iter().position(|&bit| bit)?;
        let low_bits = if form.from_top { from_top(&low[1..]) } else { number(&low[1..]) };
        let size = low_bits + 128 * high as i64;
        if size > form.size_max || size == 0 && low[0] {
            return None;
        }
        out.push(if low[0] { -size } else { size });
        rest = &after[high + 1..];
    }
    let ends = form.is_padded || rest.len() < 8;
    (ends && !rest.contains(&true)).then_some(out)
}

/// Returns whether a signature of what follows its nonce into the hash verifies, under a public key
/// in Falcon's form: s1 = c - s2 h in Z_q[x] / (x^n + 1), and (s1, s2) is short.
pub(crate) fn is_valid(falcon: &[u8], hashed: &[u8], sig: &[u8], form: Form) -> bool {
    let (n, bound) = if falcon.len() == 897 { (512_usize, 34_034_726) } else { (1024, 70_265_242) };
    let padded = if n == 512 { 666 } else { 1280 };
    if form.is_padded && sig.len() != padded || sig.first() != Some(&(0x30 + n.ilog2() as u8)) {
        return false;
    }
    let h: Vec<i64> = bits(&falcon[1..], true).chunks(14).map(from_top).collect();
    assert!(falcon[0] == n.ilog2() as u8 && h.len() == n && h.iter().all(|&h| h < Q));
    let Some((nonce, s2)) = sig[1..].split_at_checked(40) else { return false };
    let Some(s2) = decompress(s2, n, form) else { return false };
    let mut sponge = Shake256::default();
    sponge.update(nonce);
    sponge.update(hashed);
    let mut source = sponge.finalize_xof();
    let mut s1 = Vec::new();
    while s1.len() < n {
        let mut word = [0; 2];
        source.read(&mut word);
        let read = if form.from_top { u16::from_be_bytes } else { u16::from_le_bytes };
        let word = i64::from(read(word));
        if word < 5 * Q {
            s1.push(word);
        }
    }
    for (i, s2) in s2.iter().enumerate() {
        for (j, h) in h.iter().enumerate() {
            // x^n = -1. Sums stay below 1024 * 2047 * q.
            let at = (i + j) % n;
            s1[at] -= if i + j < n { s2 * h } else { -s2 * h };
        }
    }
    let centred = |x: &i64| (x.rem_euclid(Q) + Q / 2) % Q - Q / 2;
    let s1: Vec<i64> = s1.iter().map(centred).collect();
    let norm: i64 = s1.iter().chain(&s2).map(|x| x * x).sum();
    norm <= bound && s1.iter().all(|x| x.abs() <= form.other_max)
}

/// A private key without the hash of the public key, packed from the other end: f and g with 6 or 5
/// bits a coefficient, F with 8.
fn repack_private(bytes: &[u8], n: usize, from_top: bool) -> Vec<u8> {
    let width = if n == 512 { 6 } else { 5 };
    let (short, long) = bytes[1..].split_at(2 * n * width / 8);
    [&bytes[..1], &repack(short, width, from_top), long].concat()
}

/// A key pair, and the public key in Falcon's form, which works on the other side.
fn key(
    engine: &Engine,
    algorithm: Algorithm,
    other: &ReferenceImplementation,
) -> (SigningKey, Vec<u8>) {
    let (n, falcon) = match algorithm {
        Algorithm::FnDsa512 => (512, Algorithm::FalconPadded512),
        _ => (1024, Algorithm::FalconPadded1024),
    };
    let key = engine.signature_generate(algorithm, &OsEntropy).unwrap();
    let (basis, hash) = key.bytes().split_at(key.bytes().len() - 64);
    assert_eq!(hash, shake(&[key.public_bytes()]), "{algorithm}");
    let private = repack_private(basis, n, false);
    let public = engine.signature_private(falcon, &private).unwrap().public_bytes().to_vec();
    let sig = (other.sign)(&private, b"a key is a key");
    assert!((other.verify)(&public, b"a key is a key", &sig), "{algorithm}");
    (key, public)
}

/// One key: signatures made in a batch and judged above, then damaged and judged on both sides.
fn compare(
    engine: &Engine,
    algorithm: Algorithm,
    other: &ReferenceImplementation,
    rounds: std::ops::Range<usize>,
) {
    let n = rounds.len();
    let (key, falcon) = key(engine, algorithm, other);
    let public = key.public();
    let texts: Vec<_> = rounds
        .clone()
        .map(|round| random::<300>("text", round)[..random_below("length", round, 300)].to_vec())
        .collect();
    let parts: Vec<_> = texts.iter().map(|text| (&text[..text.len() * 2 / 3], text)).collect();
    let messages: Vec<_> =
        parts.iter().map(|&(context, message)| Message::Pure { context, message }).collect();
    let room = algorithm.info().output.max();
    let (mut sigs, mut lengths) = (vec![0; n * room], vec![0; n]);
    let mut status = vec![Status::NotRun; n];
    let fresh = Randomness::Fresh(&OsEntropy);
    let signing = vec![&key; n];
    engine.sign_many(&signing, &messages, fresh, &mut sigs, &mut lengths, &mut status).unwrap();
    assert!(status.iter().all(|status| status.is_ok()), "{algorithm}: {status:?}");
    let mut verdicts = Vec::new();
    for ((sig, round), (context, text)) in sigs.chunks_exact_mut(room).zip(rounds).zip(parts) {
        let hash = shake(&[public.bytes()]);
        let mu = shake(&[&hash, &[0, context.len() as u8], context, text]);
        assert!(is_valid(&falcon, &mu, sig, FN_DSA), "{algorithm}, round {round}");
        damage(sig, round);
        verdicts.push(is_valid(&falcon, &mu, sig, FN_DSA));
        assert_eq!(verdicts.last(), Some(&matches!(round % 6, 0 | 1)), "{algorithm}, {round}");
    }
    let keys = vec![&public; n];
    engine.verify_many(&keys, &messages, &sigs, &lengths, &mut status).unwrap();
    for (lane, status) in status.iter().enumerate() {
        let sig = &sigs[lane * room..][..room];
        assert_eq!(status.is_ok(), verdicts[lane], "{algorithm}: {sig:02x?}");
    }
}

/// Compares as many signatures as verifications, spread over the backends.
fn compare_set(algorithm: Algorithm, other: &ReferenceImplementation) {
    let (engines, rounds) = (engines(), count(200, 3 * KEY_ROUNDS));
    for (index, start) in (0..rounds).step_by(KEY_ROUNDS).enumerate() {
        let rounds = start..rounds.min(start + KEY_ROUNDS);
        compare(&engines[index % engines.len()], algorithm, other, rounds);
    }
    tally(algorithm, "the definition; keys: pqcrypto-falcon", 2 * rounds);
}

#[test]
fn fn_dsa_512() {
    compare_set(Algorithm::FnDsa512, &other!(falconpadded512));
}

#[test]
fn fn_dsa_1024() {
    compare_set(Algorithm::FnDsa1024, &other!(falconpadded1024));
}
