//! Key encapsulation, single and in batches.

use gabion_engine::{Engine, KemPublicKey, OsEntropy, Randomness, SharedSecret, Status, memory};

use crate::border::{Code, Failure, border, engine, of_lane};
use crate::input::{self, OutputRegions, Region, wrong_length};
use crate::keys::{PrivateKey, PublicKey, decaps_key, encaps_key};

/// Checks that the lengths of the ciphertexts and secrets fit `n` lanes.
fn check(
    info: &gabion_engine::AlgorithmInfo,
    n: usize,
    ciphertexts_len: usize,
    secrets_len: usize,
) -> Result<(), Failure> {
    for (what, got, each) in [
        ("the ciphertext", ciphertexts_len, info.output.max()),
        ("the secret", secrets_len, info.shared_secret),
    ] {
        let expected = input::total(what, n, each)?;
        if got != expected {
            return Err(wrong_length(what, expected, got));
        }
    }
    Ok(())
}

/// Encapsulates with `make`, which may use the randomness in the region `randomness`.
///
/// # Safety
/// `key` is NULL or a handle; each buffer has the length that follows it.
unsafe fn encaps(
    key: *const PublicKey,
    randomness: Region,
    ciphertext: *mut u8,
    ciphertext_len: usize,
    secret: *mut u8,
    secret_len: usize,
    make: impl FnOnce(&Engine, &KemPublicKey) -> Result<(Vec<u8>, SharedSecret), Failure>,
) -> Code {
    border(|| {
        let filled = OutputRegions::new([
            Region::new("ciphertext", ciphertext, ciphertext_len),
            Region::new("secret", secret, secret_len),
        ])
        .and([Region::new("the key", key, 1), randomness]);
        // SAFETY: the caller's condition, for both.
        let (ciphertext, secret) = unsafe {
            (
                filled.output("ciphertext", ciphertext, ciphertext_len, 0),
                filled.output("secret", secret, secret_len, 0),
            )
        };
        let (ciphertext, secret) = (ciphertext?, secret?);
        // SAFETY: the caller's condition.
        let key = encaps_key(unsafe { input::reference("key", key) }?)?;
        check(key.algorithm().info(), 1, ciphertext.len(), secret.len())?;
        let (made, shared) = make(engine()?, key)?;
        ciphertext.copy_from_slice(&made);
        secret.copy_from_slice(&shared);
        Ok(())
    })
}

/// Encapsulates to a key.
///
/// # Safety
/// `key` is NULL or a handle; each buffer has the length that follows it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_encaps(
    key: *const PublicKey,
    ciphertext: *mut u8,
    ciphertext_len: usize,
    secret: *mut u8,
    secret_len: usize,
) -> Code {
    let drawn = Region::new("randomness", std::ptr::null::<u8>(), 0);
    // SAFETY: the caller's condition.
    unsafe {
        encaps(key, drawn, ciphertext, ciphertext_len, secret, secret_len, |engine, key| {
            engine.encaps(key, &OsEntropy).map_err(Failure::from)
        })
    }
}

/// Encapsulates to a key with the caller's randomness.
///
/// # Safety
/// `key` is NULL or a handle; each buffer has the length that follows it.
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
    let given = Region::new("randomness", randomness, randomness_len);
    // SAFETY: the caller's condition.
    unsafe {
        encaps(key, given, ciphertext, ciphertext_len, secret, secret_len, |engine, key| {
            let randomness = input::slice("randomness", randomness, randomness_len)?;
            engine.encaps_with_randomness(key, randomness).map_err(Failure::from)
        })
    }
}

/// Decapsulates a ciphertext.
///
/// # Safety
/// `key` is NULL or a handle; each buffer has the length that follows it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_decaps(
    key: *const PrivateKey,
    ciphertext: *const u8,
    ciphertext_len: usize,
    secret: *mut u8,
    secret_len: usize,
) -> Code {
    border(|| {
        let inputs =
            [Region::new("the key", key, 1), Region::new("ciphertext", ciphertext, ciphertext_len)];
        let filled = OutputRegions::new([Region::new("secret", secret, secret_len)]).and(inputs);
        // SAFETY: the caller's condition.
        let secret = unsafe { filled.output("secret", secret, secret_len, 0) }?;
        // SAFETY: the caller's condition, for both.
        let (key, ciphertext) = unsafe {
            (
                decaps_key(input::reference("key", key)?)?,
                input::slice("ciphertext", ciphertext, ciphertext_len)?,
            )
        };
        check(key.algorithm().info(), 1, ciphertext.len(), secret.len())?;
        secret.copy_from_slice(&engine()?.decaps(key, ciphertext)?);
        Ok(())
    })
}

/// Encapsulates to many keys.
///
/// # Safety
/// `keys` has `n` handles, `status` room for `n` codes; each buffer has the length that follows it.
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
        let mut filled = OutputRegions::new([
            Region::new("ciphertexts", ciphertexts, ciphertexts_len),
            Region::new("secrets", secrets, secrets_len),
            Region::new("status", status, n),
        ]);
        // SAFETY: the caller's condition.
        unsafe { read_handles(&mut filled, keys, n) };
        // SAFETY: the caller's condition, for all three.
        let (ciphertexts, secrets, status) = unsafe {
            (
                filled.output("ciphertexts", ciphertexts, ciphertexts_len, 0),
                filled.output("secrets", secrets, secrets_len, 0),
                filled.output("status", status, n, of_lane(Status::NotRun)),
            )
        };
        let (ciphertexts, secrets, status) = (ciphertexts?, secrets?, status?);
        // SAFETY: the caller's condition.
        let keys = unsafe { handles(keys, n) }?;
        let keys: Vec<_> = keys.iter().map(|key| encaps_key(key)).collect::<Result<_, _>>()?;
        let Some(first) = keys.first() else { return Ok(()) };
        check(first.algorithm().info(), n, ciphertexts.len(), secrets.len())?;
        let mut verdicts = memory::filled(n, Status::NotRun)?;
        let randomness = Randomness::Fresh(&OsEntropy);
        let engine = engine()?;
        engine.encaps_many(&keys, randomness, ciphertexts, secrets, &mut verdicts)?;
        write_verdicts(status, &verdicts);
        Ok(())
    })
}

/// Decapsulates many ciphertexts.
///
/// # Safety
/// `keys` has `n` handles, `status` room for `n` codes; each buffer has the length that follows it.
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
        let mut filled = OutputRegions::new([
            Region::new("secrets", secrets, secrets_len),
            Region::new("status", status, n),
        ])
        .and([Region::new("ciphertexts", ciphertexts, ciphertexts_len)]);
        // SAFETY: the caller's condition.
        unsafe { read_handles(&mut filled, keys, n) };
        // SAFETY: the caller's condition, for both.
        let (secrets, status) = unsafe {
            (
                filled.output("secrets", secrets, secrets_len, 0),
                filled.output("status", status, n, of_lane(Status::NotRun)),
            )
        };
        let (secrets, status) = (secrets?, status?);
        // SAFETY: the caller's condition, for both.
        let (ciphertexts, keys) = unsafe {
            (input::slice("ciphertexts", ciphertexts, ciphertexts_len)?, handles(keys, n)?)
        };
        let keys: Vec<_> = keys.iter().map(|key| decaps_key(key)).collect::<Result<_, _>>()?;
        let Some(first) = keys.first() else { return Ok(()) };
        check(first.algorithm().info(), n, ciphertexts.len(), secrets.len())?;
        let mut verdicts = memory::filled(n, Status::NotRun)?;
        engine()?.decaps_many(&keys, ciphertexts, secrets, &mut verdicts)?;
        write_verdicts(status, &verdicts);
        Ok(())
    })
}

/// Returns the keys of a batch.
///
/// # Safety
/// `keys` is NULL or has `n` pointers, each NULL or a handle.
pub unsafe fn handles<'a, T>(keys: *const *const T, n: usize) -> Result<Vec<&'a T>, Failure> {
    // SAFETY: the caller's condition.
    let keys = unsafe { input::slice("keys", keys, n) }?;
    // SAFETY: as above.
    keys.iter().map(|&key| unsafe { input::reference("a lane's key", key) }).collect()
}

/// Registers the keys of a batch, and the array of their handles, as inputs. Unreadable arrays are
/// rejected later, by [`handles`].
///
/// # Safety
/// `keys` is NULL or has `n` pointers.
pub unsafe fn read_handles<T, const N: usize>(
    filled: &mut OutputRegions<N>,
    keys: *const *const T,
    n: usize,
) {
    filled.read(Region::new("the array of keys", keys, n));
    // SAFETY: the caller's condition.
    let keys = unsafe { input::slice("keys", keys, n) }.unwrap_or_default();
    keys.iter().for_each(|&key| filled.read(Region::new("a lane's key", key, 1)));
}

/// Writes the statuses of the lanes.
pub fn write_verdicts(status: &mut [Code], verdicts: &[Status]) {
    for (status, verdict) in status.iter_mut().zip(verdicts) {
        *status = of_lane(*verdict);
    }
}
