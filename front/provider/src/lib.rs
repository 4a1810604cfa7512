//! Gabion's OpenSSL provider: `gabion.so`, for OpenSSL 3.5 and newer.
//!
//! ```text
//!   libcrypto --OSSL_provider_init--> loaded, over core: what the core offers; border: what stops panics
//!       |
//!       +-- query_operation --> names: served -> keymgmt, kem, signature (one table a row), kdf
//!       +-- get_capabilities -> capabilities: TLS groups and schemes of the same rows
//!       |
//!       +-- EVP_PKEY_*  ------> keymgmt -> key --+   (fresh keys: pool; in and out: transfer, codec)
//!       +-- encaps, decaps ---> kem -------------+--> gabion_engine
//!       +-- EVP_PKEY_derive --> exchange --------+   (behind a switch)
//!       +-- sign, verify -----> signature -------+   (in asynchronous jobs: paused)
//!       +-- EVP_KDF_derive ---> kdf -------------+
//!       +-- OSSL_STORE -------> store --> stateful: keys that signing uses up, in files (gabion_state)
//!                                  |
//!                                  +--> stats: calls and errors, and (tls) handshakes, for GABION_STATS
//! ```
//!
//! It uses no symbol of libcrypto, only functions that the core passes in, so one file serves every
//! version. `unsafe` is confined to pointers that C passes; `key`, and everything below, is safe
//! code.

// The one symbol that the module exports needs its exact name.
#![allow(non_snake_case)]

mod async_jobs;
mod bio;
mod border;
mod cache;
mod capabilities;
mod codec;
mod core;
mod error;
mod exchange;
mod ffi;
mod fibre;
mod kdf;
mod kem;
mod key;
mod key_types;
mod keymgmt;
mod names;
mod pool;
mod process;
mod provider;
mod settings;
mod signature;
mod stateful;
mod stats;
mod stderr;
mod store;
mod tables;
mod tls;
mod tls_columns;
mod transfer;

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null;

use gabion_engine::{Engine, memory};

use crate::border::{border, take_back};
use crate::capabilities::CapabilityFilter;
use crate::core::{Core, engine};
use crate::error::Failure;
use crate::ffi::{
    AlgorithmEntry, Callback, CoreHandle, Dispatch, Param, ParamsOut, c_text, entry, function, name,
};
use crate::provider::{Provider, ProviderRef};

/// Starts the provider in a library context: the only exported symbol of the module.
///
/// Returns 1, or 0 if the arguments are not those of a core of OpenSSL 3.5 or newer, or 4. Programs
/// continue without the provider then.
///
/// # Safety
/// Called by OpenSSL, as provider-base(7) describes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn OSSL_provider_init(
    handle: *const CoreHandle,
    from_core: *const Dispatch,
    to_core: *mut *const Dispatch,
    context: *mut *mut c_void,
) -> c_int {
    border(None, 0, || {
        if to_core.is_null() || context.is_null() {
            return Ok(0);
        }
        // SAFETY: the core passes its dispatch table.
        let core = unsafe { Core::collect(handle, from_core) };
        if !core.is_known() {
            return Ok(0);
        }
        stats::count_load();
        // Reads the environment now: nginx empties it in its workers, which sign first. An error
        // stays in the engine, and every operation reports it.
        let _ = Engine::global();
        // SAFETY: the core passes its dispatch table.
        let provider = unsafe { Provider::new(core, from_core, names::tables) };
        if settings::tests_at_load(provider.core.setting(settings::SELF_TESTS.name)) {
            // A provider that must pass all self-tests at load and does not is not loaded.
            if let Err(failure) = test_all() {
                provider.core.raise(&failure);
                return Ok(0);
            }
        }
        // Allocations from the reserve would remain there for the lifetime of the provider.
        memory::check()?;
        // SAFETY: the core passes room for our table and context.
        unsafe {
            *context = provider.into_context();
            *to_core = TABLE.as_ptr();
        }
        Ok(1)
    })
}

// No reason strings: see `Failure::code`.
static TABLE: [Dispatch; 7] = [
    entry!(function::PROVIDER_TEARDOWN, teardown, Teardown),
    entry!(function::PROVIDER_GETTABLE_PARAMS, gettable_params, GettableParams),
    entry!(function::PROVIDER_GET_PARAMS, get_params, GetParams),
    entry!(function::PROVIDER_QUERY_OPERATION, query_operation, QueryOperation),
    entry!(function::PROVIDER_GET_CAPABILITIES, get_capabilities, GetCapabilities),
    entry!(function::PROVIDER_SELF_TEST, self_test, SelfTest),
    Dispatch::END,
];

type Teardown = unsafe extern "C" fn(*mut c_void);
type GettableParams = unsafe extern "C" fn(*mut c_void) -> *const Param;
type GetParams = unsafe extern "C" fn(*mut c_void, *mut Param) -> c_int;
type QueryOperation = unsafe extern "C" fn(*mut c_void, c_int, *mut c_int) -> *const AlgorithmEntry;
type GetCapabilities =
    unsafe extern "C" fn(*mut c_void, *const c_char, Option<Callback>, *mut c_void) -> c_int;
type SelfTest = unsafe extern "C" fn(*mut c_void) -> c_int;

unsafe extern "C" fn teardown(context: *mut c_void) {
    // SAFETY: the core tears a provider down once, when nothing made by it is left.
    unsafe { take_back::<Provider>(context) }
}

unsafe extern "C" fn gettable_params(_: *mut c_void) -> *const Param {
    static GETTABLE: [Param; 5] = [
        Param::takes_utf8(name::PROVIDER_NAME),
        Param::takes_utf8(name::PROVIDER_VERSION),
        Param::takes_utf8(name::PROVIDER_BUILDINFO),
        Param::takes_int(name::PROVIDER_STATUS),
        Param::END,
    ];
    GETTABLE.as_ptr()
}

unsafe extern "C" fn get_params(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), 0, || {
        // SAFETY: the core passes a list with an end that is ours for the call, or null.
        let mut params = unsafe { ParamsOut::new(params) };
        params.utf8(name::PROVIDER_NAME, c"Gabion provider")?;
        params.utf8(name::PROVIDER_VERSION, VERSION)?;
        params.utf8(name::PROVIDER_BUILDINFO, VERSION)?;
        params.int(name::PROVIDER_STATUS, c_int::from(engine().is_ok()))?;
        Ok(1)
    })
}

/// This crate's version as a C string.
const VERSION: &std::ffi::CStr = match std::ffi::CStr::from_bytes_with_nul(
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => c"unknown",
};

unsafe extern "C" fn query_operation(
    context: *mut c_void,
    operation: c_int,
    no_cache: *mut c_int,
) -> *const AlgorithmEntry {
    // SAFETY: the core passes the context that this provider gave it, and room for an answer.
    let provider = unsafe {
        if !no_cache.is_null() {
            *no_cache = 0;
        }
        ProviderRef::new(context)
    };
    border(Some(&provider), null(), || Ok(provider.tables.of(operation)))
}

unsafe extern "C" fn get_capabilities(
    context: *mut c_void,
    capability: *const c_char,
    callback: Option<Callback>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the core passes the context that this provider gave it, and a C string.
    let (provider, capability) = unsafe { (ProviderRef::new(context), c_text(capability)) };
    border(Some(&provider), 0, || match (capability, callback) {
        (Some(capability), Some(callback)) => {
            capabilities::report(capability, CapabilityFilter::of(&provider), callback, argument)
        }
        _ => Ok(1),
    })
}

/// Tests every algorithm of a key type, if that was not done; the first that no backend passes.
fn test_all() -> Result<(), Failure> {
    let engine = engine()?;
    for key_type in key_types::KEY_TYPES.into_iter().filter(|key_type| key_type.is_built()) {
        engine.backend_for(key_type.algorithm).map_err(Failure::from)?;
    }
    Ok(())
}

/// Returns whether every served algorithm has a backend that passed its self-test. After this call,
/// operations of this process need no test, no thread and no file.
unsafe extern "C" fn self_test(context: *mut c_void) -> c_int {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), 0, || {
        test_all()?;
        Ok(1)
    })
}
