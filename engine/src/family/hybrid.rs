//! Hybrid KEMs: ML-KEM in lanes, combined with a curve.
//!
//! ```text
//!   TLS groups   public, private, ct, secret = first part || second part    (RFC 10024)
//!   X-Wing       secret = SHA3-256(K_M || K_X || ct_X || pk_X || label), private key = seed
//! ```
//!
//! The components and their order are a column of the table. A lane fails if either component does;
//! its outputs are then all zero.

use std::sync::Arc;

use gabion_scheme::algorithms::{Family, Part};
use gabion_scheme::{Algorithm, Status};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Digest, Sha3_256, Shake256};
use zeroize::Zeroizing;

use super::ml_kem::{PrivateKey as MlKemPrivate, PublicKey as MlKemPublic};
use super::{DecapsLanes, DecapsPart, EncapsLanes, EncapsPart, draw_seeds, seed_len};
use crate::ecc::{self, Curve, Peer, PeerKey};
use crate::entropy::{Entropy, EntropyBuffer, Randomness};
use crate::error::{Error, check_length, private_key, public_key, unknown};
use crate::route::Engine;

/// Bytes of X-Wing's private key, its seed.
const X_WING_SEED_LEN: usize = 32;

/// The components of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parts {
    algorithm: Algorithm,
    pub(crate) kem: Algorithm,
    pub(crate) curve: Curve,
    kem_first: bool,
    combiner: Combiner,
}

/// The derivation of the shared secret from those of the components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combiner {
    Concatenation,
    XWing,
}

impl Parts {
    /// The parts of a hybrid; none for every other algorithm.
    pub(crate) fn for_algorithm(algorithm: Algorithm) -> Option<Parts> {
        let info = algorithm.info();
        let [Part::Algorithm(first), Part::Algorithm(second)] = *info.parts else { return None };
        let kem_first = first.info().family == Family::MlKem;
        let (kem, curve) = if kem_first { (first, second) } else { (second, first) };
        // A composite's parts are two signatures, one of them on a curve too.
        let curve = Curve::of(curve).filter(|_| info.family == Family::Hybrid)?;
        let combiner = match algorithm {
            Algorithm::XWing => Combiner::XWing,
            _ => Combiner::Concatenation,
        };
        Some(Parts { algorithm, kem, curve, kem_first, combiner })
    }

    /// The parts, once the self-test of the hybrid has passed, which is that of both.
    fn tested(engine: &Engine, algorithm: Algorithm) -> Result<Parts, Error> {
        let parts = Parts::for_algorithm(algorithm).ok_or_else(|| unknown(algorithm))?;
        engine.backend_for(algorithm)?;
        Ok(parts)
    }

    /// Splits an encoding: ML-KEM's part of `kem_len` bytes, and the curve's.
    fn split(self, bytes: &[u8], kem_len: usize) -> (&[u8], &[u8]) {
        if self.kem_first {
            return bytes.split_at(kem_len);
        }
        let (curve, kem) = bytes.split_at(bytes.len() - kem_len);
        (kem, curve)
    }

    /// Puts ML-KEM's part and the curve's into `out`, which is as long as both.
    fn join(self, kem: &[u8], curve: &[u8], out: &mut [u8]) {
        let [first, second] = if self.kem_first { [kem, curve] } else { [curve, kem] };
        out[..first.len()].copy_from_slice(first);
        out[first.len()..].copy_from_slice(second);
    }

    /// The secret of both secrets, into `out`.
    fn combine(self, [kem, curve]: [&[u8]; 2], [ct, public]: [&[u8]; 2], out: &mut [u8]) {
        match self.combiner {
            Combiner::Concatenation => self.join(kem, curve, out),
            Combiner::XWing => out.copy_from_slice(&x_wing(kem, curve, ct, public)[..]),
        }
    }

    /// Performs Diffie-Hellman for each pair of private and public key, and returns whether the
    /// secret may be used. X-Wing's draft calls X25519 of RFC 7748 as a function (revision 10,
    /// sections 5.4 and 5.5) and does not mention the all-zero value, which RFC 7748 lets callers
    /// reject; implementations differ. It is accepted here: every ciphertext then has a secret,
    /// which is hashed together with that of ML-KEM and is as secret as that.
    fn derive_many(
        self,
        engine: &Engine,
        private: &[&[u8]],
        public: &[PeerKey<'_>],
    ) -> Result<(Zeroizing<Vec<u8>>, Vec<bool>), Error> {
        let mut shared = Zeroizing::new(vec![0; private.len() * self.curve.scalar_len()]);
        let good = ecc::lanes::derive_many(engine, self.curve, private, public, &mut shared)?;
        let takes_all = self.combiner == Combiner::XWing;
        Ok((shared, good.into_iter().map(|good| good || takes_all).collect()))
    }
}

/// X-Wing's combiner (draft-connolly-cfrg-xwing-kem, section 5.3).
fn x_wing(kem: &[u8], curve: &[u8], ct: &[u8], public: &[u8]) -> Zeroizing<[u8; 32]> {
    const LABEL: &[u8; 6] = br"\.//^\";
    let mut hash = Sha3_256::new();
    for part in [kem, curve, ct, public, LABEL] {
        Digest::update(&mut hash, part);
    }
    Zeroizing::new(hash.finalize().into())
}

/// Tests the combiner of a hybrid: the expected answer is from Python's `hashlib.sha3_256`.
pub(crate) fn self_test(parts: Parts) -> Result<(), String> {
    if parts.combiner == Combiner::XWing && !is_known_answer(x_wing) {
        return Err(format!("{} self-test: the combiner's known answer differs", parts.algorithm));
    }
    Ok(())
}

/// Returns whether a combiner of X-Wing gives the known answer.
fn is_known_answer(
    combiner: impl FnOnce(&[u8], &[u8], &[u8], &[u8]) -> Zeroizing<[u8; 32]>,
) -> bool {
    const EXPECTED: &str = "5c6bfaf8c3ec48ab3cee7c12129b39913b8a7fa1234115da7e1c55608ad19fb6";
    let input: [[u8; 32]; 4] = std::array::from_fn(|part| [part as u8 + 1; 32]);
    let secret = combiner(&input[0], &input[1], &input[2], &input[3]);
    secret.iter().map(|byte| format!("{byte:02x}")).collect::<String>() == EXPECTED
}

/// Both private keys, with their public keys.
#[derive(Clone)]
pub(crate) struct PrivateKey(Arc<Pair>);

struct Pair {
    parts: Parts,
    kem: MlKemPrivate,
    scalar: Zeroizing<Vec<u8>>,
    /// The encoding: of X-Wing the seed.
    bytes: Zeroizing<Vec<u8>>,
    public: PublicKey,
}

/// Both public keys.
#[derive(Clone)]
pub(crate) struct PublicKey(Arc<Public>);

struct Public {
    parts: Parts,
    kem: MlKemPublic,
    point: Peer,
    bytes: Vec<u8>,
}

/// Puts key pairs together, the scalars one after the other; `encode` gives the private encoding of
/// each in turn.
fn pairs(
    engine: &Engine,
    parts: Parts,
    kems: Vec<MlKemPrivate>,
    scalars: &[u8],
    mut encode: impl FnMut(&MlKemPrivate, &[u8]) -> Zeroizing<Vec<u8>>,
) -> Result<Vec<PrivateKey>, Error> {
    let lanes: Vec<_> = scalars.chunks_exact(parts.curve.scalar_len()).collect();
    let points = ecc::lanes::public_keys(engine, parts.curve, &lanes)?;
    let keys = kems.into_iter().zip(lanes).zip(points);
    keys.map(|((kem, scalar), point)| {
        let bytes = encode(&kem, scalar);
        pair(parts, kem, Zeroizing::new(scalar.to_vec()), bytes, point)
    })
    .collect()
}

/// Puts a key pair together, given the point that was computed of the scalar; `bytes` is its
/// private encoding.
fn pair(
    parts: Parts,
    kem: MlKemPrivate,
    scalar: Zeroizing<Vec<u8>>,
    bytes: Zeroizing<Vec<u8>>,
    point: Option<Vec<u8>>,
) -> Result<PrivateKey, Error> {
    let refused =
        || private_key(parts.algorithm, "its component on the curve is not a private key");
    if !ecc::is_private(parts.curve, &scalar) {
        return Err(refused());
    }
    let point = point.ok_or_else(refused)?;
    let mut encoded = vec![0; parts.algorithm.info().public_key.max()];
    parts.join(kem.public_bytes(), &point, &mut encoded);
    let point = Peer::from_own_key(parts.curve, point);
    let public = Public { parts, kem: kem.public(), point, bytes: encoded };
    Ok(PrivateKey(Arc::new(Pair {
        parts,
        kem,
        scalar,
        bytes,
        public: PublicKey(Arc::new(public)),
    })))
}

/// Splits a private key; `kem` decodes ML-KEM's part, and the curve's determines one public key.
fn decode_with(
    engine: &Engine,
    algorithm: Algorithm,
    bytes: &[u8],
    kem: fn(&Engine, Algorithm, &[u8]) -> Result<MlKemPrivate, Error>,
) -> Result<PrivateKey, Error> {
    let parts = Parts::tested(engine, algorithm)?;
    check_length("a hybrid private key", algorithm.info().private_key.max(), bytes)?;
    if parts.combiner == Combiner::XWing {
        return PrivateKey::from_seed(engine, algorithm, bytes);
    }
    let (kem_bytes, scalar) = parts.split(bytes, parts.kem.info().private_key.max());
    let kem = kem(engine, parts.kem, kem_bytes)?;
    let point = ecc::public_key(parts.curve, scalar);
    let scalar = Zeroizing::new(scalar.to_vec());
    pair(parts, kem, scalar, Zeroizing::new(bytes.to_vec()), point)
}

impl DecapsPart for PrivateKey {
    type Public = PublicKey;

    fn algorithm(&self) -> Algorithm {
        self.0.parts.algorithm
    }

    fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    fn seed(&self) -> Option<&[u8]> {
        (self.0.parts.combiner == Combiner::XWing).then_some(&self.0.bytes[..])
    }

    fn public(&self) -> PublicKey {
        self.0.public.clone()
    }

    fn public_bytes(&self) -> &[u8] {
        &self.0.public.0.bytes
    }

    /// The parts of ML-KEM in lanes, and those of X25519. X-Wing's come from seeds.
    fn generate_many(
        engine: &Engine,
        algorithm: Algorithm,
        n: usize,
        entropy: &dyn Entropy,
    ) -> Result<Vec<Self>, Error> {
        let parts = Parts::tested(engine, algorithm)?;
        if parts.combiner == Combiner::XWing {
            return Self::from_seeds(engine, algorithm, &draw_seeds(algorithm, n, entropy)?);
        }
        let len = n * parts.curve.scalar_len();
        let drawn = EntropyBuffer::draw(entropy, n * seed_len(parts.kem)? + len)?;
        let kems = MlKemPrivate::generate_many(engine, parts.kem, n, &drawn)?;
        let mut scalars = Zeroizing::new(vec![0; len]);
        ecc::fill(parts.curve, &drawn, &mut scalars)?;
        pairs(engine, parts, kems, &scalars, |kem, scalar| {
            let mut bytes = Zeroizing::new(vec![0; algorithm.info().private_key.max()]);
            parts.join(kem.bytes(), scalar, &mut bytes);
            bytes
        })
    }

    /// X-Wing's expandDecapsulationKey (section 5.2): SHAKE256 of a seed gives d, z and the scalar.
    fn from_seeds(engine: &Engine, algorithm: Algorithm, seeds: &[u8]) -> Result<Vec<Self>, Error> {
        let parts = Parts::tested(engine, algorithm)?;
        let seeds = seeds.chunks_exact(X_WING_SEED_LEN);
        let mut kem_seeds = Zeroizing::new(Vec::with_capacity(64 * seeds.len()));
        let mut scalars = Zeroizing::new(Vec::with_capacity(32 * seeds.len()));
        let mut expanded = Zeroizing::new([0; 96]);
        for seed in seeds.clone() {
            Shake256::default().chain(seed).finalize_xof().read(&mut expanded[..]);
            kem_seeds.extend_from_slice(&expanded[..64]);
            scalars.extend_from_slice(&expanded[64..]);
        }
        let kems = MlKemPrivate::from_seeds(engine, parts.kem, &kem_seeds)?;
        let mut seeds = seeds.map(|seed| Zeroizing::new(seed.to_vec()));
        pairs(engine, parts, kems, &scalars, |_, _| seeds.next().unwrap_or_default())
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        decode_with(engine, algorithm, bytes, MlKemPrivate::decode)
    }

    fn decode_untested(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        decode_with(engine, algorithm, bytes, MlKemPrivate::decode_untested)
    }

    fn decaps_many(engine: &Engine, keys: &[&Self], lanes: DecapsLanes<'_>) -> Result<(), Error> {
        let Some(first) = keys.first() else { return Ok(()) };
        let parts = Parts::tested(engine, first.algorithm())?;
        let DecapsLanes { ct, shared, status } = lanes;
        let (info, kem_info) = (parts.algorithm.info(), parts.kem.info());
        let split: Vec<_> = ct
            .chunks_exact(info.output.max())
            .map(|ct| parts.split(ct, kem_info.output.max()))
            .collect();
        let kem_ct: Vec<u8> = split.iter().flat_map(|ct| ct.0).copied().collect();
        let mut kem_shared = Zeroizing::new(vec![0; keys.len() * kem_info.shared_secret]);
        let kem_keys: Vec<_> = keys.iter().map(|key| &key.0.kem).collect();
        let kem_lanes = DecapsLanes { ct: &kem_ct, shared: &mut kem_shared, status };
        MlKemPrivate::decaps_many(engine, &kem_keys, kem_lanes)?;
        let private: Vec<_> = keys.iter().map(|key| &key.0.scalar[..]).collect();
        let points: Vec<_> = split.iter().map(|ct| PeerKey::Encoded(ct.1)).collect();
        let (secrets, good) = parts.derive_many(engine, &private, &points)?;
        let secrets = secrets.chunks_exact(parts.curve.scalar_len());
        let kem_secrets = kem_shared.chunks_exact(kem_info.shared_secret).zip(secrets);
        for (lane, (out, (kem, secret))) in
            shared.chunks_exact_mut(info.shared_secret).zip(kem_secrets).enumerate()
        {
            let (key, ct) = (&keys[lane].0, split[lane].1);
            out.fill(0);
            if !status[lane].is_ok() {
                continue;
            }
            if good[lane] {
                parts.combine([kem, secret], [ct, key.public.0.point.bytes()], out);
            } else {
                status[lane] = Status::InvalidInput;
            }
        }
        Ok(())
    }
}

impl EncapsPart for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.0.parts.algorithm
    }

    fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    fn decode(engine: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let parts = Parts::tested(engine, algorithm)?;
        check_length("a hybrid public key", algorithm.info().public_key.max(), bytes)?;
        let (kem, point) = parts.split(bytes, parts.kem.info().public_key.max());
        let refused =
            || public_key(algorithm, "its component on the curve is not an uncompressed point");
        let point = Peer::decode(parts.curve, point).ok_or_else(refused)?;
        let kem = MlKemPublic::decode(engine, parts.kem, kem)?;
        Ok(PublicKey(Arc::new(Public { parts, kem, point, bytes: bytes.to_vec() })))
    }

    /// Randomness a lane: m of ML-KEM (32 bytes), then the ephemeral scalar.
    fn encaps_many(engine: &Engine, keys: &[&Self], lanes: EncapsLanes<'_>) -> Result<(), Error> {
        let Some(first) = keys.first() else { return Ok(()) };
        let parts = Parts::tested(engine, first.algorithm())?;
        let EncapsLanes { randomness, ct, shared, status } = lanes;
        let (info, kem_info) = (parts.algorithm.info(), parts.kem.info());
        let n = keys.len();
        let (m, scalars) = ephemeral(parts, randomness, n)?;
        let mut kem_ct = vec![0; n * kem_info.output.max()];
        let mut kem_shared = Zeroizing::new(vec![0; n * kem_info.shared_secret]);
        let kem_keys: Vec<_> = keys.iter().map(|key| &key.0.kem).collect();
        let kem_lanes = EncapsLanes {
            // Drawn above, together with the scalars.
            randomness: Randomness::Bytes(&m),
            ct: &mut kem_ct,
            shared: &mut kem_shared,
            status,
        };
        MlKemPublic::encaps_many(engine, &kem_keys, kem_lanes)?;
        let len = parts.curve.scalar_len();
        let private: Vec<_> = scalars.chunks_exact(len).collect();
        let points: Vec<_> = keys.iter().map(|key| PeerKey::Checked(&key.0.point)).collect();
        let shares = ecc::lanes::public_keys(engine, parts.curve, &private)?;
        let (secrets, good) = parts.derive_many(engine, &private, &points)?;
        for (lane, key) in keys.iter().enumerate() {
            let ct = &mut ct[lane * info.output.max()..(lane + 1) * info.output.max()];
            let shared = &mut shared[lane * info.shared_secret..(lane + 1) * info.shared_secret];
            ct.fill(0);
            shared.fill(0);
            if !status[lane].is_ok() {
                continue;
            }
            let secret = &secrets[lane * len..(lane + 1) * len];
            let kem = &kem_shared[lane * kem_info.shared_secret..][..kem_info.shared_secret];
            let Some(share) = &shares[lane] else {
                status[lane] = Status::InvalidInput;
                continue;
            };
            if good[lane] {
                parts.combine([kem, secret], [share, key.0.point.bytes()], shared);
                parts.join(
                    &kem_ct[lane * kem_info.output.max()..][..kem_info.output.max()],
                    share,
                    ct,
                );
            } else {
                status[lane] = Status::InvalidKey;
            }
        }
        Ok(())
    }
}

/// The randomness of `n` encapsulations: m of every lane, and every lane's ephemeral scalar.
#[allow(clippy::type_complexity)] // Two arrays, both wiped.
fn ephemeral(
    parts: Parts,
    randomness: Randomness<'_>,
    n: usize,
) -> Result<(Zeroizing<Vec<u8>>, Zeroizing<Vec<u8>>), Error> {
    let len = parts.curve.scalar_len();
    let mut m = Zeroizing::new(vec![0; 32 * n]);
    let mut scalars = Zeroizing::new(vec![0; len * n]);
    match randomness {
        Randomness::Fresh(entropy) => {
            let drawn = EntropyBuffer::draw(entropy, m.len() + scalars.len())?;
            drawn.fill(&mut m)?;
            ecc::fill(parts.curve, &drawn, &mut scalars)?;
        }
        Randomness::Deterministic => {
            return Err(Error::WrongAlgorithm {
                algorithm: parts.algorithm,
                operation: "work without randomness",
                expected: "an algorithm that has a deterministic variant",
            });
        }
        Randomness::Bytes(bytes) => {
            check_length("the given randomness", n * (32 + len), bytes)?;
            for (lane, given) in bytes.chunks_exact(32 + len).enumerate() {
                m[32 * lane..][..32].copy_from_slice(&given[..32]);
                scalars[len * lane..][..len].copy_from_slice(&given[32..]);
            }
        }
    }
    Ok((m, scalars))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_parts() {
        let mut seen = 0;
        for algorithm in Algorithm::all() {
            let info = algorithm.info();
            let parts = Parts::for_algorithm(algorithm);
            assert_eq!(parts.is_some(), info.family == Family::Hybrid, "{algorithm}");
            let Some(parts) = parts else { continue };
            let mut others = info.part_algorithms().filter(|part| *part != parts.kem);
            let curve = others.next().unwrap();
            assert_eq!((others.next(), Curve::of(curve)), (None, Some(parts.curve)), "{algorithm}");
            let curve = curve.info();
            assert_eq!(
                info.public_key.max(),
                parts.kem.info().public_key.max() + curve.public_key.max()
            );
            assert_eq!(info.output.max(), parts.kem.info().output.max() + curve.public_key.max());
            if parts.combiner == Combiner::Concatenation {
                assert_eq!(
                    info.private_key.max(),
                    parts.kem.info().private_key.max() + curve.private_key.max()
                );
                assert_eq!(info.shared_secret, 32 + curve.shared_secret);
            }
            seen += 1;
        }
        assert_eq!(seen, 8);
    }

    #[test]
    fn a_wrong_combiner_fails_the_self_test() {
        assert_eq!(self_test(Parts::for_algorithm(Algorithm::XWing).unwrap()), Ok(()));
        assert!(is_known_answer(x_wing));
        assert!(!is_known_answer(|kem, curve, ct, public| x_wing(curve, kem, ct, public)));
        assert!(!is_known_answer(|kem, curve, ct, public| x_wing(kem, curve, public, ct)));
        assert!(!is_known_answer(|kem, _, _, _| Zeroizing::new(kem.try_into().unwrap())));
    }
}
