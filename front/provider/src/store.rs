//! The store loader of `gabion-hbs:` addresses: how a program that takes a URI for its private key
//! gets one that signing uses up.
//!
//! ```text
//!   OSSL_STORE_open(gabion-hbs:/path/key?reserve=8) --> open: the address is read, no file is
//!   OSSL_STORE_load --> load --> stateful::open --> Key --reference--> keymgmt load (transfer)
//!                        '--> where a public key is expected, that alone, without a lock
//! ```

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;

use gabion_engine::host::CancellationGuard;

use crate::border::{TakesParams, border, borrow_mut, counted, free, hand_over, set_ctx_params};
use crate::codec::decoder;
use crate::codec::encoder::{Password, ask};
use crate::error::Failure;
use crate::ffi::{
    AlgorithmEntry, Callback, Dispatch, Param, ParamsIn, c_text, entry, function, name, select,
};
use crate::key::Key;
use crate::key_types::HSS;
use crate::provider::ProviderRef;
use crate::stateful::{self, Address, SCHEME};
use crate::stats::{self, Operation};
use crate::transfer;

/// The entry of the core's list.
pub fn entry(properties: &'static CStr) -> AlgorithmEntry {
    AlgorithmEntry {
        names: SCHEME.as_ptr(),
        properties: properties.as_ptr(),
        implementation: TABLE.as_ptr(),
        description: c"Gabion: private keys of HSS, XMSS and XMSS^MT with their state".as_ptr(),
    }
}

static TABLE: [Dispatch; 8] = [
    entry!(function::STORE_OPEN, open, Open),
    entry!(function::STORE_SETTABLE_CTX_PARAMS, settable_ctx_params, Settable),
    entry!(function::STORE_SET_CTX_PARAMS, set_ctx_params::<Loader>, SetParams),
    entry!(function::STORE_LOAD, load, Load),
    entry!(function::STORE_EOF, eof, Eof),
    entry!(function::STORE_CLOSE, close, Eof),
    entry!(function::STORE_EXPORT_OBJECT, export_object, ExportObject),
    Dispatch::END,
];

type Open = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Settable = unsafe extern "C" fn(*mut c_void) -> *const Param;
type SetParams = unsafe extern "C" fn(*mut c_void, *const Param) -> c_int;
type Load = unsafe extern "C" fn(
    *mut c_void,
    Option<Callback>,
    *mut c_void,
    Option<Password>,
    *mut c_void,
) -> c_int;
type Eof = unsafe extern "C" fn(*mut c_void) -> c_int;
type ExportObject =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, Option<Callback>, *mut c_void) -> c_int;

/// OSSL_STORE_INFO_PUBKEY and OSSL_STORE_INFO_PKEY: what a caller may expect that is here.
const EXPECTS_PUBLIC: c_int = 3;
const EXPECTS_PRIVATE: c_int = 4;

/// A store that was opened; used from one thread.
struct Loader {
    provider: ProviderRef,
    address: Address,
    /// The object type that the caller expects; 0 accepts any.
    expected: c_int,
    /// Whether the key was handed over, or could not be: there is one, and one try.
    is_over: bool,
}

impl TakesParams for Loader {
    fn provider(&self) -> ProviderRef {
        self.provider
    }

    fn set(&mut self, params: ParamsIn<'_>) -> Result<(), Failure> {
        if let Some(expected) = params.int(name::EXPECT)? {
            self.expected = expected;
        }
        Ok(())
    }
}

unsafe extern "C" fn open(context: *mut c_void, uri: *const c_char) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it, and a C string.
    let (provider, uri) = unsafe { (ProviderRef::new(context), c_text(uri)) };
    border(Some(&provider), null_mut(), || {
        let address = Address::read(uri.unwrap_or_default())?;
        Ok(hand_over(Loader { provider, address, expected: 0, is_over: false }))
    })
}

unsafe extern "C" fn settable_ctx_params(_: *mut c_void) -> *const Param {
    static SETTABLE: [Param; 3] =
        [Param::takes_int(name::EXPECT), Param::takes_utf8(name::PROPERTIES), Param::END];
    SETTABLE.as_ptr()
}

unsafe extern "C" fn load(
    loader: *mut c_void,
    callback: Option<Callback>,
    argument: *mut c_void,
    password: Option<Password>,
    password_argument: *mut c_void,
) -> c_int {
    // Over all of it: what is between the borders here owns something.
    let _held = CancellationGuard::hold();
    // SAFETY: the core passes what open gave, and uses it from one thread.
    let Ok(loader) = (unsafe { borrow_mut::<Loader>(loader) }) else {
        return 0;
    };
    // A caller that reads a store to its end would otherwise retry a permanent failure forever.
    let was_over = std::mem::replace(&mut loader.is_over, true);
    let (provider, expected) = (loader.provider, loader.expected);
    let Some(callback) = callback.filter(|_| !was_over) else {
        return 0;
    };
    if ![0, EXPECTS_PUBLIC, EXPECTS_PRIVATE].contains(&expected) {
        // Nothing of the kind is here, which is no error.
        return 1;
    }
    let key = counted(&provider, stats::counter(HSS, Operation::Import), None, |_| {
        // SAFETY: the core's source of passwords, with its argument.
        let password = || unsafe { ask(password, password_argument) };
        let is_public = expected == EXPECTS_PUBLIC;
        let opened = stateful::open(&provider, &loader.address, is_public, password)?;
        Ok(Some(Key::stateful(provider, opened)))
    });
    match key {
        None => 0,
        // SAFETY: the core's callback and its argument.
        Some(key) => unsafe { decoder::hand_to_core(key, callback, argument) },
    }
}

unsafe extern "C" fn eof(loader: *mut c_void) -> c_int {
    // SAFETY: the core passes what open gave, and uses it from one thread.
    unsafe { borrow_mut::<Loader>(loader) }.map_or(1, |loader| c_int::from(loader.is_over))
}

unsafe extern "C" fn close(loader: *mut c_void) -> c_int {
    // SAFETY: the core closes a store once, after its last use.
    unsafe { free::<Loader>(loader) };
    1
}

/// For a key management that is another provider's: a public key. One that signs is refused, since
/// its private part stays here.
unsafe extern "C" fn export_object(
    _: *mut c_void,
    reference: *const c_void,
    len: usize,
    callback: Option<Callback>,
    argument: *mut c_void,
) -> c_int {
    if reference.is_null() || len != size_of::<*mut c_void>() {
        return 0;
    }
    // SAFETY: as in `transfer::load`; the key stays where it is.
    unsafe {
        transfer::export(*reference.cast::<*mut c_void>(), select::KEYPAIR, callback, argument)
    }
}
