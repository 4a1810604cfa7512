//! Operations on a curve: X25519 in a backend's lanes, public keys of P-384 with one inversion for
//! all, the others one by one.

use gabion_backend::{Backend, Batch, Operation, X25519};
use gabion_scheme::x25519::LEN;
use gabion_scheme::{Algorithm, Status};
use zeroize::Zeroizing;

use super::{Curve, PeerKey, derive, p384_public_keys, public_key};
use crate::error::Error;
use crate::route::Engine;

/// Public keys from which on lanes are worth it: eight take about as long as two by graviola. One
/// shared secret is quicker already: a lane is then a coordinate.
const PUBLIC_KEYS_MIN: usize = 3;
/// The minimum lanes of backends with a vectorized X25519; the others have the portable code, which
/// is slower than the library that serves single operations.
pub(crate) const LANES_OF_CURVES: usize = 8;

/// Returns whether a backend serves the operations on a curve.
fn serve(engine: &Engine, curve: Curve) -> Result<bool, Error> {
    Ok(curve == Curve::X25519 && engine.backend_for(Algorithm::X25519)?.lanes() >= LANES_OF_CURVES)
}

/// Byte strings of 32 bytes side by side; none if one has another length.
fn arrays<'a>(bytes: impl ExactSizeIterator<Item = &'a [u8]>) -> Option<Zeroizing<Vec<[u8; LEN]>>> {
    let mut all = Zeroizing::new(Vec::with_capacity(bytes.len()));
    for bytes in bytes {
        all.push(<[u8; LEN]>::try_from(bytes).ok()?);
    }
    Some(all)
}

/// Returns the public keys of private ones; `None` for an invalid private key.
///
/// # Errors
/// No healthy backend.
pub(crate) fn public_keys(
    engine: &Engine,
    curve: Curve,
    private: &[&[u8]],
) -> Result<Vec<Option<Vec<u8>>>, Error> {
    if curve == Curve::P384 {
        return Ok(p384_public_keys(private));
    }
    let one_by_one = || private.iter().map(|key| public_key(curve, key)).collect();
    if private.len() < PUBLIC_KEYS_MIN || !serve(engine, curve)? {
        return Ok(one_by_one());
    }
    let Some(private) = arrays(private.iter().copied()) else { return Ok(one_by_one()) };
    let mut public = vec![[0; LEN]; private.len()];
    let operation = X25519::Public { private: &private, public: &mut public };
    engine.run_all(Operation::X25519(operation), private.len())?;
    Ok(public.into_iter().map(|key| Some(key.to_vec())).collect())
}

/// Performs Diffie-Hellman for each pair of private and public key. Writes the secrets to `shared`,
/// one after the other, and whether each succeeded; see [`derive`].
///
/// # Errors
/// No healthy backend.
pub(crate) fn derive_many(
    engine: &Engine,
    curve: Curve,
    private: &[&[u8]],
    public: &[PeerKey<'_>],
    shared: &mut [u8],
) -> Result<Vec<bool>, Error> {
    if serve(engine, curve)?
        && let Some(private) = arrays(private.iter().copied())
        && let Some(peers) = arrays(public.iter().map(PeerKey::bytes))
    {
        let mut status = vec![Status::NotRun; private.len()];
        let shared = shared.as_chunks_mut().0;
        let operation = X25519::Derive { private: &private, peers: &peers, shared };
        let operation = Operation::X25519(operation);
        engine.run(&mut Batch { operation, status: &mut status })?;
        return Ok(status.iter().map(|status| status.is_ok()).collect());
    }
    let lanes = private.iter().zip(public).zip(shared.chunks_exact_mut(curve.scalar_len()));
    Ok(lanes.map(|((private, public), shared)| public.derive(curve, private, shared)).collect())
}

/// Tests a backend's X25519 against the library that serves single operations, which a known answer
/// tests; the error says what differed. One operation may have other kernels than several.
pub(crate) fn self_test(backend: &dyn Backend, lanes: usize) -> Result<(), String> {
    test_lanes(backend, 1, None)?;
    test_lanes(backend, 1, Some(0))?;
    test_lanes(backend, lanes, Some(1))
}

/// Tests lanes, one of them perhaps with a peer's key of small order, which is refused and leaves
/// its neighbours alone.
fn test_lanes(backend: &dyn Backend, lanes: usize, refused: Option<usize>) -> Result<(), String> {
    let bytes = |lane: usize, by: usize| std::array::from_fn(|j| (by * lane + 31 * j + 5) as u8);
    let private: Vec<[u8; LEN]> = (0..lanes).map(|lane| bytes(lane, 17)).collect();
    let mut peers: Vec<[u8; LEN]> = (0..lanes).map(|lane| bytes(lane, 23)).collect();
    if let Some(lane) = refused {
        peers[lane] = [0; LEN];
    }
    let (mut public, mut shared) = (vec![[0; LEN]; lanes], vec![[0; LEN]; lanes]);
    let mut status = vec![Status::NotRun; lanes];
    let operation = X25519::Public { private: &private, public: &mut public };
    let batch = &mut Batch { operation: Operation::X25519(operation), status: &mut status };
    backend.run(batch).check_done(&status)?;
    if !status.iter().all(|status| status.is_ok()) {
        return Err("X25519 self-test: a private key was refused".to_owned());
    }
    let operation = X25519::Derive { private: &private, peers: &peers, shared: &mut shared };
    let batch = &mut Batch { operation: Operation::X25519(operation), status: &mut status };
    backend.run(batch).check_done(&status)?;
    // The self-test's secrets are constants of this function.
    gabion_scheme::ct::declassify(&shared);
    for lane in 0..lanes {
        let mut expected = [0; LEN];
        let is_good = derive(Curve::X25519, &private[lane], &peers[lane], &mut expected);
        let key = public_key(Curve::X25519, &private[lane]);
        if key.as_deref() != Some(&public[lane][..])
            || status[lane].is_ok() != is_good
            || shared[lane] != expected
        {
            return Err(format!("X25519 self-test: the answers of lane {lane} differ"));
        }
    }
    Ok(())
}
