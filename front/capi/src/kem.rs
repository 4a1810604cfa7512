//! Key encapsulation, one and many.

use gabion_engine::{Engine, KemPublicKey, OsEntropy, Randomness, SharedSecret, Status};

use crate::border::{Code, Failure, border, of_lane};
use crate::input::{self, wrong_length};
use crate::keys::{PrivateKey, PublicKey};

/// The ciphertexts and secrets of `n` lanes: each length of the caller's beside the one that fits.
fn check(
    info: &gabion_engine::AlgorithmInfo,
    n: usize,
    ciphertexts_len: usize,
    secrets_len: usize,
) -> Result<(), Failure> {
    for (what, got, each) in [
        ("the ciphertext", ciphertexts_len, info.output),
        ("the secret", secrets_len, info.shared_secret),
    ] {
        let expected = input::total(what, n, each)?;
        if got != expected {
            return Err(wrong_length(what, expected, got));
        }
    }
    Ok(())
}

/// One encapsulation, which `make` does.
///
/// # Safety
/// `key` is NULL or a handle; each buffer has the length beside it.
unsafe fn encaps(
    key: *const PublicKey,
    ciphertext: *mut u8,
    ciphertext_len: usize,
    secret: *mut u8,
    secret_len: usize,
    make: impl FnOnce(&Engine, &KemPublicKey) -> Result<(Vec<u8>, SharedSecret), Failure>,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition, for both.
        let (ciphertext, secret) = unsafe {
            (
                input::output("ciphertext", ciphertext, ciphertext_len, 0),
                input::output("secret", secret, secret_len, 0),
            )
        };
        let (ciphertext, secret) = (ciphertext?, secret?);
        // SAFETY: the caller's condition.
        let key = unsafe { input::reference("key", key) }?.kem()?;
        check(key.algorithm().info(), 1, ciphertext.len(), secret.len())?;
        let (made, shared) = make(Engine::global()?, key)?;
        ciphertext.copy_from_slice(&made);
        secret.copy_from_slice(&shared);
        Ok(())
    })
}

/// Encapsulates to a key.
///
/// # Safety
/// `key` is NULL or a handle; each buffer has the length beside it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_encaps(
    key: *const PublicKey,
    ciphertext: *mut u8,
    ciphertext_len: usize,
    secret: *mut u8,
    secret_len: usize,
) -> Code {
    // SAFETY: the caller's condition.
    unsafe {
        encaps(key, ciphertext, ciphertext_len, secret, secret_len, |engine, key| {
            engine.encaps(key, &OsEntropy).map_err(Failure::from)
        })
    }
}

/// Encapsulates to a key with the caller's randomness.
///
/// # Safety
/// `key` is NULL or a handle; each buffer has the length beside it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_encaps_with_randomness(
    key: *const PublicKey,
    randomness: *const u8,
    randomness_len: usize,
    ciphertext: *mut u8,
    ciphertext_len: usize,
    secret: *mut u8,
    secret_len: usize,
) -> Code {
    // SAFETY: the caller's condition.
    unsafe {
        encaps(key, ciphertext, ciphertext_len, secret, secret_len, |engine, key| {
            let randomness = input::slice("randomness", randomness, randomness_len)?;
            // The engine's door is named for its danger, which gabion.h states.
            engine.testing_only_encaps_with(key, randomness).map_err(Failure::from)
        })
    }
}

/// The secret of a ciphertext.
///
/// # Safety
/// `key` is NULL or a handle; each buffer has the length beside it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_decaps(
    key: *const PrivateKey,
    ciphertext: *const u8,
    ciphertext_len: usize,
    secret: *mut u8,
    secret_len: usize,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition.
        let secret = unsafe { input::output("secret", secret, secret_len, 0) }?;
        // SAFETY: the caller's condition, for both.
        let (key, ciphertext) = unsafe {
            (
                input::reference("key", key)?.kem()?,
                input::slice("ciphertext", ciphertext, ciphertext_len)?,
            )
        };
        check(key.algorithm().info(), 1, ciphertext.len(), secret.len())?;
        secret.copy_from_slice(&Engine::global()?.decaps(key, ciphertext)?);
        Ok(())
    })
}

/// Encapsulates to many keys.
///
/// # Safety
/// `keys` has `n` handles, `status` room for `n` codes; each buffer has the length beside it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_encaps_many(
    keys: *const *const PublicKey,
    n: usize,
    ciphertexts: *mut u8,
    ciphertexts_len: usize,
    secrets: *mut u8,
    secrets_len: usize,
    status: *mut Code,
) -> Code {
    border(|| {
        input::lanes(n)?;
        // SAFETY: the caller's condition, for all three.
        let (ciphertexts, secrets, status) = unsafe {
            (
                input::output("ciphertexts", ciphertexts, ciphertexts_len, 0),
                input::output("secrets", secrets, secrets_len, 0),
                input::output("status", status, n, of_lane(Status::NotRun)),
            )
        };
        let (ciphertexts, secrets, status) = (ciphertexts?, secrets?, status?);
        // SAFETY: the caller's condition.
        let keys = unsafe { handles(keys, n) }?;
        let keys: Vec<_> = keys.iter().map(|key| key.kem()).collect::<Result<_, _>>()?;
        let Some(first) = keys.first() else { return Ok(()) };
        check(first.algorithm().info(), n, ciphertexts.len(), secrets.len())?;
        let mut verdicts = vec![Status::NotRun; n];
        let randomness = Randomness::Fresh(&OsEntropy);
        let engine = Engine::global()?;
        engine.encaps_many(&keys, randomness, ciphertexts, secrets, &mut verdicts)?;
        tell(status, &verdicts);
        Ok(())
    })
}

/// Opens many ciphertexts.
///
/// # Safety
/// `keys` has `n` handles, `status` room for `n` codes; each buffer has the length beside it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_decaps_many(
    keys: *const *const PrivateKey,
    n: usize,
    ciphertexts: *const u8,
    ciphertexts_len: usize,
    secrets: *mut u8,
    secrets_len: usize,
    status: *mut Code,
) -> Code {
    border(|| {
        input::lanes(n)?;
        // SAFETY: the caller's condition, for both.
        let (secrets, status) = unsafe {
            (
                input::output("secrets", secrets, secrets_len, 0),
                input::output("status", status, n, of_lane(Status::NotRun)),
            )
        };
        let (secrets, status) = (secrets?, status?);
        // SAFETY: the caller's condition, for both.
        let (ciphertexts, keys) = unsafe {
            (input::slice("ciphertexts", ciphertexts, ciphertexts_len)?, handles(keys, n)?)
        };
        let keys: Vec<_> = keys.iter().map(|key| key.kem()).collect::<Result<_, _>>()?;
        let Some(first) = keys.first() else { return Ok(()) };
        check(first.algorithm().info(), n, ciphertexts.len(), secrets.len())?;
        let mut verdicts = vec![Status::NotRun; n];
        Engine::global()?.decaps_many(&keys, ciphertexts, secrets, &mut verdicts)?;
        tell(status, &verdicts);
        Ok(())
    })
}

/// The keys of a batch.
///
/// # Safety
/// `keys` is NULL or has `n` pointers, each NULL or a handle.
pub unsafe fn handles<'a, T>(keys: *const *const T, n: usize) -> Result<Vec<&'a T>, Failure> {
    // SAFETY: the caller's condition.
    let keys = unsafe { input::slice("keys", keys, n) }?;
    // SAFETY: as above.
    keys.iter().map(|&key| unsafe { input::reference("a lane's key", key) }).collect()
}

/// Gives the lanes' verdicts to the caller.
pub fn tell(status: &mut [Code], verdicts: &[Status]) {
    for (status, verdict) in status.iter_mut().zip(verdicts) {
        *status = of_lane(*verdict);
    }
}
