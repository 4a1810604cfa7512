//! How a key gets from a decoder to a key management, and its parts out of the provider.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use gabion_engine::Family;

use crate::border::{borrow, counted};
use crate::error::Failure;
use crate::ffi::{Callback, Param, name, select};
use crate::key::Key;
use crate::stats::{self, Operation};

/// Passes the parts of a key to a callback: `export` of key managements and of decoders.
pub unsafe extern "C" fn export(
    key: *mut c_void,
    selection: c_int,
    callback: Option<Callback>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the core passes a key of this provider, or null.
    let Ok(key) = (unsafe { borrow::<Key>(key) }) else {
        return 0;
    };
    let counter = stats::counter(key.algorithm, Operation::Export);
    counted(&key.provider, counter, 0, |_| {
        let callback = callback.ok_or(Failure::Misuse("export needs a callback"))?;
        if selection & select::KEYPAIR == 0 {
            let why = "parameters alone were asked for; expected a key, which has no parameters";
            return Err(Failure::Misuse(why));
        }
        key.check_stays(selection)?;
        let missing = |part| {
            let (algorithm, operation) = (key.algorithm, "export");
            Failure::MissingKey { algorithm, part, operation }
        };
        let material = key.material().ok_or_else(|| missing("key material"))?;
        let mut params = [Param::END; 4];
        let mut filled = 0;
        let mut add = |key, bytes: Option<&[u8]>| {
            if let Some(bytes) = bytes {
                params[filled] = Param::octets(key, bytes);
                filled += 1;
            }
        };
        if selection & select::PRIVATE_KEY != 0
            && let Some(private) = material.private()
        {
            add(name::SEED, private.seed());
            add(name::PRIV, Some(private.bytes()));
        }
        if selection & select::PUBLIC_KEY != 0 {
            add(name::PUB, key.public_bytes());
        }
        // Where the default provider has the algorithm, it hands over no parts at all, but of
        // ML-DSA.
        let may_be_none = [Family::MlKem, Family::Hybrid, Family::SlhDsa];
        if filled == 0 && !may_be_none.contains(&key.algorithm.info().family) {
            return Err(missing("private key"));
        }
        // SAFETY: the core's callback; the list has an end and points into the key, which stays.
        Ok(unsafe { callback(params.as_ptr(), argument) })
    })
}

/// Takes over the key that a decoder of this provider has just made: `load` of key managements.
pub unsafe extern "C" fn load(reference: *const c_void, len: usize) -> *mut c_void {
    if reference.is_null() || len != size_of::<*mut c_void>() {
        return null_mut();
    }
    // SAFETY: the core passes what a decoder of this provider put into its parameters: the place of
    // a pointer to a key, which is the core's from here on.
    unsafe { std::ptr::replace(reference.cast_mut().cast::<*mut c_void>(), null_mut()) }
}
