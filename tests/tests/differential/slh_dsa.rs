//! SLH-DSA against the crates slh-dsa and fips205, bit for bit: both take the randomness.
//!
//! A short run signs once with each quick set on every backend, lets the small sets be signed here
//! only, on the best backend (the crates take seconds), and compares verdicts on mutated signatures,
//! alone and in one batch. A soak goes round the backends.

use fips205::traits::{KeyGen, SerDes, Signer, Verifier};
use gabion_engine::{Algorithm, Engine, Message, Randomness, SigningKey, Status, VerifyKey};
use slh_dsa::{Signature, VerifyingKey};

use crate::{count, engines, random, random_below, soak, tally};

/// Signatures of a set, and verifications of each.
fn counts() -> (usize, usize) {
    let signatures = count(10_000, 1);
    (signatures, count(100, 12).div_ceil(signatures))
}

/// Lanes of a batch of signatures.
const LANES: usize = 5;

/// Another implementation of a set, bytes in and out.
trait ReferenceImplementation {
    /// The private key of a seed, by each.
    fn keys(seed: &[u8]) -> [Vec<u8>; 2];
    /// The signature of (text, context) with a private key, by each; deterministic without `rnd`.
    fn sign(private: &[u8], parts: (&[u8], &[u8]), rnd: Option<&[u8]>) -> [Vec<u8>; 2];
    /// The verdict of each.
    fn verify(public: &[u8], parts: (&[u8], &[u8]), sig: &[u8]) -> [bool; 2];
}

/// A generator that returns fixed bytes, once.
struct FixedRandomness<'a>(&'a [u8]);

impl fips205::RngCore for FixedRandomness<'_> {
    fn next_u32(&mut self) -> u32 {
        unreachable!("bytes are asked for")
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("bytes are asked for")
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        out.copy_from_slice(self.0);
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), fips205::RngError> {
        self.fill_bytes(out);
        Ok(())
    }
}

impl fips205::CryptoRng for FixedRandomness<'_> {}

/// A signature of the set as it might be forged: one bit, one value, or a piece moved.
fn mutated(sig: &[u8], n: usize, round: usize, kind: usize) -> Vec<u8> {
    let mut sig = sig.to_vec();
    let round = 10_000 * round + kind;
    let at = random_below("place", round, sig.len());
    let value = at / n * n;
    match kind % 5 {
        0 => {}
        1 | 2 => sig[at] ^= 1 << random_below("bit", round, 8),
        3 => sig[value..value + n].fill(random_below("value", round, 256) as u8),
        _ => {
            let to = (value + 7 * n) % (sig.len() - n);
            sig.copy_within(value..value + n, to);
        }
    }
    sig
}

/// The verdicts of all on mutated signatures; ours alone and in one batch.
fn compare_verdicts<O: ReferenceImplementation>(
    engine: &Engine,
    public: &VerifyKey,
    (text, context): (&[u8], &[u8]),
    sig: &[u8],
    round: usize,
) {
    let message = Message::Pure { context, message: text };
    let n = public.bytes().len() / 2;
    let count = counts().1;
    let sigs: Vec<Vec<u8>> = (0..count).map(|kind| mutated(sig, n, round, kind)).collect();
    let mut status = vec![Status::NotRun; count];
    let (keys, messages) = (vec![public; count], vec![message; count]);
    let lengths = vec![sig.len(); count];
    engine.verify_many(&keys, &messages, &sigs.concat(), &lengths, &mut status).unwrap();
    for (changed, status) in sigs.iter().zip(status) {
        let expected = changed == sig;
        let verdicts = O::verify(public.bytes(), (text, context), changed);
        assert_eq!(verdicts, [expected; 2], "round {round}: a change went unnoticed");
        assert_eq!(status.is_ok(), expected, "round {round}: in a batch");
        if soak().is_none() {
            assert_eq!(engine.verify(public, message, changed).is_ok(), expected, "round {round}");
        }
    }
    let short = &sig[..sig.len() - 1];
    assert!(engine.verify(public, message, short).is_err());
}

/// Keys and signatures of some rounds, in one batch; `is_signed` by the others as well.
fn compare<O: ReferenceImplementation>(
    algorithm: Algorithm,
    engine: &Engine,
    rounds: std::ops::Range<usize>,
    is_signed: bool,
) {
    let (n, name) = (algorithm.info().public_key.max() / 2, algorithm.name());
    let bytes = |label, round, len| random::<256>(label, round)[..len].to_vec();
    let seeds: Vec<_> = rounds.clone().map(|round| bytes(name, round, 3 * n)).collect();
    let texts: Vec<_> =
        rounds.clone().map(|round| bytes("text", round, 100 + round % 100)).collect();
    let parts: Vec<_> =
        rounds.clone().zip(&texts).map(|(round, text)| (&text[..], &text[..round % 100])).collect();
    let messages: Vec<_> =
        parts.iter().map(|&(message, context)| Message::Pure { context, message }).collect();
    // Hedged in one batch, deterministic in the next.
    let rnd: Vec<_> = rounds.clone().flat_map(|round| bytes("rnd", round, n)).collect();
    let is_hedged = (rounds.start / LANES).is_multiple_of(2);
    let randomness = if is_hedged { Randomness::Bytes(&rnd) } else { Randomness::Deterministic };
    let keys: Vec<SigningKey> =
        seeds.iter().map(|seed| engine.signature_from_seed(algorithm, seed).unwrap()).collect();
    let (count, room) = (rounds.len(), algorithm.info().output.max());
    let (mut sigs, mut lengths) = (vec![0; count * room], vec![0; count]);
    let mut status = vec![Status::NotRun; count];
    let signing: Vec<_> = keys.iter().collect();
    engine
        .sign_many(&signing, &messages, randomness, &mut sigs, &mut lengths, &mut status)
        .unwrap();
    assert!(status.iter().all(|status| status.is_ok()));
    for (lane, round) in rounds.enumerate() {
        let sig = &sigs[lane * room..][..room];
        if is_signed {
            let theirs = O::keys(&seeds[lane]);
            assert!(theirs.iter().all(|key| key == keys[lane].bytes()), "{name} round {round}");
            let rnd = is_hedged.then(|| &rnd[lane * n..][..n]);
            let theirs = O::sign(keys[lane].bytes(), parts[lane], rnd);
            assert!(theirs.iter().all(|theirs| theirs == sig), "{name} round {round}");
        }
        compare_verdicts::<O>(engine, &keys[lane].public(), parts[lane], sig, round);
    }
}

/// A whole set: on every backend, or in turns.
fn compare_set<O: ReferenceImplementation>(algorithm: Algorithm, is_quick: bool) {
    let (engines, is_soak) = (engines(), soak().is_some());
    let (signatures, verifications) = counts();
    let is_signed = is_soak || is_quick;
    for (index, start) in (0..signatures).step_by(LANES).enumerate() {
        let rounds = start..signatures.min(start + LANES);
        let chosen = match (is_soak, is_quick) {
            (true, _) => index % engines.len()..index % engines.len() + 1,
            (false, true) => 0..engines.len(),
            (false, false) => 0..1,
        };
        for engine in &engines[chosen] {
            compare::<O>(algorithm, engine, rounds.clone(), is_signed);
        }
    }
    let signed = if is_signed { signatures } else { 0 };
    for other in ["slh-dsa", "fips205"] {
        tally(algorithm, &format!("{other}, signatures"), signed);
        tally(algorithm, &format!("{other}, verifications"), signatures * verifications);
    }
}

macro_rules! sets {
    ($($test:ident: $algorithm:ident = $parameters:ident, $module:ident, $quick:expr;)*) => {
        $(#[test]
        fn $test() {
            compare_set::<slh_dsa::$parameters>(Algorithm::$algorithm, $quick);
        }

        impl ReferenceImplementation for slh_dsa::$parameters {
            fn keys(seed: &[u8]) -> [Vec<u8>; 2] {
                let (a, b, c) = thirds(seed);
                let first = slh_dsa::SigningKey::<Self>::slh_keygen_internal(a, b, c);
                let [a, b, c] = [a, b, c].map(|part| part.try_into().unwrap());
                let (_, second) = fips205::$module::KG::keygen_from_seed::<{ fips205::$module::N }>(a, b, c);
                [first.to_vec(), second.into_bytes().to_vec()]
            }

            fn sign(private: &[u8], parts: (&[u8], &[u8]), rnd: Option<&[u8]>) -> [Vec<u8>; 2] {
                let (text, context) = parts;
                let key = slh_dsa::SigningKey::<Self>::try_from(private).unwrap();
                let first = key.try_sign_with_context(text, context, rnd).unwrap();
                let private: [u8; _] = private.try_into().unwrap();
                let key = fips205::$module::PrivateKey::try_from_bytes(private).unwrap();
                let source = &mut FixedRandomness(rnd.unwrap_or_default());
                let second = key.try_sign_with_rng(source, text, context, rnd.is_some()).unwrap();
                [first.to_vec(), second.to_vec()]
            }

            fn verify(public: &[u8], parts: (&[u8], &[u8]), sig: &[u8]) -> [bool; 2] {
                let (text, context) = parts;
                let key = VerifyingKey::<Self>::try_from(public).unwrap();
                let theirs = Signature::<Self>::try_from(sig).unwrap();
                let first = key.try_verify_with_context(text, context, &theirs).is_ok();
                let public: [u8; _] = public.try_into().unwrap();
                let key = fips205::$module::PublicKey::try_from_bytes(public).unwrap();
                [first, key.verify(text, sig.try_into().unwrap(), context)]
            }
        })*
    };
}

/// SK.seed, SK.prf and PK.seed.
fn thirds(seed: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let n = seed.len() / 3;
    (&seed[..n], &seed[n..2 * n], &seed[2 * n..])
}

sets! {
    sha2_128s: SlhDsaSha2_128s = Sha2_128s, slh_dsa_sha2_128s, false;
    sha2_128f: SlhDsaSha2_128f = Sha2_128f, slh_dsa_sha2_128f, true;
    sha2_192s: SlhDsaSha2_192s = Sha2_192s, slh_dsa_sha2_192s, false;
    sha2_192f: SlhDsaSha2_192f = Sha2_192f, slh_dsa_sha2_192f, true;
    sha2_256s: SlhDsaSha2_256s = Sha2_256s, slh_dsa_sha2_256s, false;
    sha2_256f: SlhDsaSha2_256f = Sha2_256f, slh_dsa_sha2_256f, true;
    shake_128s: SlhDsaShake128s = Shake128s, slh_dsa_shake_128s, false;
    shake_128f: SlhDsaShake128f = Shake128f, slh_dsa_shake_128f, true;
    shake_192s: SlhDsaShake192s = Shake192s, slh_dsa_shake_192s, false;
    shake_192f: SlhDsaShake192f = Shake192f, slh_dsa_shake_192f, true;
    shake_256s: SlhDsaShake256s = Shake256s, slh_dsa_shake_256s, false;
    shake_256f: SlhDsaShake256f = Shake256f, slh_dsa_shake_256f, true;
}
