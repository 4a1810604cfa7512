//! Key handles.

use std::ffi::c_char;
use std::ptr::{null, null_mut};

use gabion_engine::keys::Forms;
use gabion_engine::{
    Algorithm, Engine, KemPrivateKey, KemPublicKey, Kind, OsEntropy, SigningKey, Status, VerifyKey,
};

use crate::algorithms::name;
use crate::border::{Code, Failure, border, code, engine, of_lane};
use crate::input::{self, OutputRegions, Region};

/// `gabion_private_key` and `gabion_public_key`.
pub use gabion_engine::keys::{PrivateKey, PublicKey};

/// Returns the decapsulation key in a handle.
pub(crate) fn decaps_key(key: &PrivateKey) -> Result<&KemPrivateKey, Failure> {
    match key {
        PrivateKey::Kem(key) => Ok(key),
        PrivateKey::Signature(_) | PrivateKey::Exchange(_) => {
            Err(not_of(key.algorithm(), "decapsulate"))
        }
    }
}

/// Returns the signing key in a handle.
pub(crate) fn signing_key(key: &PrivateKey) -> Result<&SigningKey, Failure> {
    match key {
        PrivateKey::Signature(key) => Ok(key),
        PrivateKey::Kem(_) | PrivateKey::Exchange(_) => Err(not_of(key.algorithm(), "sign")),
    }
}

/// Returns the encapsulation key in a handle.
pub(crate) fn encaps_key(key: &PublicKey) -> Result<&KemPublicKey, Failure> {
    match key {
        PublicKey::Kem(key) => Ok(key),
        PublicKey::Signature(_) | PublicKey::Exchange(_) => {
            Err(not_of(key.algorithm(), "encapsulate"))
        }
    }
}

/// Returns the verification key in a handle.
pub(crate) fn verify_key(key: &PublicKey) -> Result<&VerifyKey, Failure> {
    match key {
        PublicKey::Signature(key) => Ok(key),
        PublicKey::Kem(_) | PublicKey::Exchange(_) => Err(not_of(key.algorithm(), "verify")),
    }
}

/// Returns the failure for an algorithm that does not support an operation.
pub fn not_of(algorithm: Algorithm, operation: &str) -> Failure {
    Failure::new(code::ALGORITHM, format!("{algorithm} can't {operation}"))
}

/// Returns the engine, if this interface supports keys of the algorithm.
fn engine_for(algorithm: Algorithm) -> Result<&'static Engine, Failure> {
    match algorithm.info().kind {
        Kind::Kem | Kind::Signature => engine(),
        Kind::KeyExchange => {
            Err(not_of(algorithm, "be used here: this interface has KEMs and signatures"))
        }
    }
}

/// Imports a private key from one or more of its forms.
fn import(algorithm: Algorithm, forms: Forms<'_>) -> Result<PrivateKey, Failure> {
    Ok(PrivateKey::import(engine_for(algorithm)?, algorithm, &forms)?)
}

/// Creates a handle at `out`, which is NULL until then, from the objects in `inputs`.
///
/// # Safety
/// `out` is NULL or a place for a pointer.
unsafe fn make<T>(
    out: *mut *mut T,
    inputs: impl IntoIterator<Item = Region>,
    body: impl FnOnce() -> Result<T, Failure>,
) -> Code {
    border(|| {
        let filled = OutputRegions::new([Region::new("the place of the key", out, 1)]).and(inputs);
        // SAFETY: the caller's condition.
        let out = unsafe { filled.output("key", out, 1, null_mut()) }?;
        out[0] = handle(body()?);
        Ok(())
    })
}

/// Boxes a key as a handle, which [`free`] takes back.
fn handle<T>(key: T) -> *mut T {
    Box::into_raw(Box::new(key))
}

/// Returns the arrays for `n` handles (NULL until they are created) and their codes; neither may
/// overlap `inputs`.
///
/// # Safety
/// `keys` is NULL or has `n` places for pointers, `status` is NULL or has room for `n` codes.
unsafe fn places<'a, T>(
    n: usize,
    keys: *mut *mut T,
    status: *mut Code,
    inputs: impl IntoIterator<Item = Region>,
) -> Result<(&'a mut [*mut T], &'a mut [Code]), Failure> {
    input::lanes(n)?;
    let regions = [Region::new("keys", keys, n), Region::new("status", status, n)];
    let filled = OutputRegions::new(regions).and(inputs);
    // SAFETY: the caller's condition, for both.
    let (keys, status) = unsafe {
        (
            filled.output("keys", keys, n, null_mut()),
            filled.output("status", status, n, of_lane(Status::NotRun)),
        )
    };
    Ok((keys?, status?))
}

/// Generates a key pair.
///
/// # Safety
/// `algorithm` is NULL or a text; `key` is NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_generate(
    algorithm: *const c_char,
    key: *mut *mut PrivateKey,
) -> Code {
    let body = || {
        // SAFETY: the caller's condition.
        let algorithm = unsafe { input::algorithm(algorithm) }?;
        Ok(PrivateKey::generate(engine_for(algorithm)?, algorithm, &OsEntropy)?)
    };
    // SAFETY: the caller's condition, for both.
    unsafe { make(key, [Region::text("algorithm", algorithm)], body) }
}

/// Generates many key pairs.
///
/// # Safety
/// `algorithm` is NULL or a text; `keys` has `n` places for pointers, `status` room for `n` codes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_generate_many(
    algorithm: *const c_char,
    n: usize,
    keys: *mut *mut PrivateKey,
    status: *mut Code,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition, for both.
        let (keys, status) =
            unsafe { places(n, keys, status, [Region::text("algorithm", algorithm)]) }?;
        // SAFETY: the caller's condition.
        let algorithm = unsafe { input::algorithm(algorithm) }?;
        // No seed is longer than the expanded private key.
        input::total("keys", n, algorithm.info().private_key.max())?;
        let made = PrivateKey::generate_many(engine_for(algorithm)?, algorithm, n, &OsEntropy)?;
        // The engine creates all keys or none. Nothing can fail from here on, so no key is leaked.
        for ((place, status), key) in keys.iter_mut().zip(status).zip(made) {
            *place = handle(key);
            *status = of_lane(Status::Ok);
        }
        Ok(())
    })
}

/// Derives the key pair of a seed.
///
/// # Safety
/// `algorithm` is NULL or a text; `seed` has `seed_len` bytes; `key` is NULL or a place for a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_from_seed(
    algorithm: *const c_char,
    seed: *const u8,
    seed_len: usize,
    key: *mut *mut PrivateKey,
) -> Code {
    let body = || {
        // SAFETY: the caller's condition, for both.
        let (algorithm, seed) =
            unsafe { (input::algorithm(algorithm)?, input::slice("seed", seed, seed_len)?) };
        import(algorithm, Forms { seed: Some(seed), ..Forms::default() })
    };
    // SAFETY: the caller's condition, for both.
    unsafe {
        let inputs = [Region::text("algorithm", algorithm), Region::new("seed", seed, seed_len)];
        make(key, inputs, body)
    }
}

/// Decodes and checks a private key.
///
/// # Safety
/// `algorithm` is NULL or a text; `bytes` has `len` bytes; `key` is NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_import(
    algorithm: *const c_char,
    bytes: *const u8,
    len: usize,
    key: *mut *mut PrivateKey,
) -> Code {
    let body = || {
        // SAFETY: the caller's condition, for both.
        let (algorithm, bytes) =
            unsafe { (input::algorithm(algorithm)?, input::slice("bytes", bytes, len)?) };
        import(algorithm, Forms { expanded: Some(bytes), ..Forms::default() })
    };
    // SAFETY: the caller's condition, for both.
    unsafe {
        let inputs = [Region::text("algorithm", algorithm), Region::new("bytes", bytes, len)];
        make(key, inputs, body)
    }
}

/// Decodes and checks a public key.
///
/// # Safety
/// `algorithm` is NULL or a text; `bytes` has `len` bytes; `key` is NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_public_key_import(
    algorithm: *const c_char,
    bytes: *const u8,
    len: usize,
    key: *mut *mut PublicKey,
) -> Code {
    let body = || {
        // SAFETY: the caller's condition, for both.
        let (algorithm, bytes) =
            unsafe { (input::algorithm(algorithm)?, input::slice("bytes", bytes, len)?) };
        Ok(PublicKey::import(engine_for(algorithm)?, algorithm, bytes)?)
    };
    // SAFETY: the caller's condition, for both.
    unsafe {
        let inputs = [Region::text("algorithm", algorithm), Region::new("bytes", bytes, len)];
        make(key, inputs, body)
    }
}

/// Decodes and checks many public keys.
///
/// # Safety
/// `algorithm` is NULL or a text; `bytes` has `n * len` bytes; `keys` has `n` places for pointers,
/// `status` room for `n` codes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_public_key_import_many(
    algorithm: *const c_char,
    bytes: *const u8,
    len: usize,
    n: usize,
    keys: *mut *mut PublicKey,
    status: *mut Code,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition, for both.
        let (keys, status) = unsafe {
            let text = Region::text("algorithm", algorithm);
            let bytes = Region::new("bytes", bytes, n.saturating_mul(len));
            places(n, keys, status, [text, bytes])
        }?;
        // SAFETY: the caller's condition, for both.
        let (algorithm, bytes) = unsafe {
            let total = input::total("bytes", n, len)?;
            (input::algorithm(algorithm)?, input::slice("bytes", bytes, total)?)
        };
        let encoded: Vec<&[u8]> = (0..n).map(|i| &bytes[i * len..][..len]).collect();
        let decoded = PublicKey::import_many(engine_for(algorithm)?, algorithm, &encoded)?;
        for ((place, status), key) in keys.iter_mut().zip(status).zip(decoded) {
            *status = match key {
                Ok(key) => {
                    *place = handle(key);
                    of_lane(Status::Ok)
                }
                Err(error) => Failure::from(error).code,
            };
        }
        Ok(())
    })
}

/// Returns the public key of a private key.
///
/// # Safety
/// `key` is NULL or a handle; `out` is NULL or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_public(
    key: *const PrivateKey,
    out: *mut *mut PublicKey,
) -> Code {
    let body = || {
        // SAFETY: the caller's condition.
        Ok(unsafe { input::reference("key", key) }?.public())
    };
    // SAFETY: the caller's condition.
    unsafe { make(out, [Region::new("the key", key, 1)], body) }
}

/// Writes a private key.
///
/// # Safety
/// `key` is NULL or a handle; `len` is NULL or a place; `bytes` is NULL or has `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_export(
    key: *const PrivateKey,
    bytes: *mut u8,
    len: *mut usize,
) -> Code {
    let encoded = || {
        // SAFETY: the caller's condition.
        Ok(unsafe { input::reference("key", key) }?.bytes())
    };
    // SAFETY: the caller's condition.
    border(|| unsafe {
        input::give("room for the private key", Region::new("the key", key, 1), bytes, len, encoded)
    })
}

/// Writes the seed of a private key, if it is known.
///
/// # Safety
/// `key` is NULL or a handle; `len` is NULL or a place; `seed` is NULL or has `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_seed(
    key: *const PrivateKey,
    seed: *mut u8,
    len: *mut usize,
) -> Code {
    let known = || {
        // SAFETY: the caller's condition.
        let known = unsafe { input::reference("key", key) }?.seed();
        known.ok_or_else(|| {
            Failure::new(code::KEY, "the seed of this key is not known: it came without one")
        })
    };
    // SAFETY: the caller's condition.
    border(|| unsafe {
        input::give("room for the seed", Region::new("the key", key, 1), seed, len, known)
    })
}

/// Writes a public key.
///
/// # Safety
/// `key` is NULL or a handle; `len` is NULL or a place; `bytes` is NULL or has `*len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_public_key_export(
    key: *const PublicKey,
    bytes: *mut u8,
    len: *mut usize,
) -> Code {
    let encoded = || {
        // SAFETY: the caller's condition.
        Ok(unsafe { input::reference("key", key) }?.bytes())
    };
    // SAFETY: the caller's condition.
    border(|| unsafe {
        input::give("room for the public key", Region::new("the key", key, 1), bytes, len, encoded)
    })
}

/// Returns the name of a private key's algorithm; NULL for NULL.
///
/// # Safety
/// `key` is NULL or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_algorithm(key: *const PrivateKey) -> *const c_char {
    // SAFETY: the caller's condition.
    unsafe { key.as_ref() }.map_or(null(), |key| name(key.algorithm()))
}

/// Returns the name of a public key's algorithm; NULL for NULL.
///
/// # Safety
/// `key` is NULL or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_public_key_algorithm(key: *const PublicKey) -> *const c_char {
    // SAFETY: the caller's condition.
    unsafe { key.as_ref() }.map_or(null(), |key| name(key.algorithm()))
}

/// Frees a private key and wipes it.
///
/// # Safety
/// `key` is NULL or a handle that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_private_key_free(key: *mut PrivateKey) {
    // SAFETY: the caller's condition.
    unsafe { free(key) }
}

/// Frees a public key.
///
/// # Safety
/// `key` is NULL or a handle that is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_public_key_free(key: *mut PublicKey) {
    // SAFETY: the caller's condition.
    unsafe { free(key) }
}

/// # Safety
/// `key` is NULL or came from [`handle`] and is not used any more.
unsafe fn free<T>(key: *mut T) {
    border(|| {
        if !key.is_null() {
            // SAFETY: `handle` boxed it, and the caller gives it up.
            drop(unsafe { Box::from_raw(key) });
        }
        Ok(())
    });
}
