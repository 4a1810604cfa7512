//! X25519 alone: the entry points behind EVP_PKEY_derive, and the parts that only its keys have.
//!
//! It is behind a switch (`settings::X25519`): every classical handshake depends on which provider
//! serves it. Answers and errors are the default provider's (EVP_KEYEXCH-X25519(7),
//! EVP_PKEY-X25519(7)), which goes on writing the key files.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use gabion_engine::{ExchangePrivateKey, ExchangePublicKey};

use crate::border::{border, borrow, borrow_mut, counted, dupctx, free, hand_over};
use crate::core::engine;
use crate::error::Failure;
use crate::ffi::{Dispatch, Param, entry, function};
use crate::key::Key;
use crate::key_types::KeyType;
use crate::provider::ProviderRef;
use crate::stats::{self, Operation};
use crate::tls;

/// The dispatch table: which algorithm it is, the keys say.
pub static TABLE: [Dispatch; 9] = [
    entry!(function::KEYEXCH_NEWCTX, newctx, New),
    entry!(function::KEYEXCH_DUPCTX, dupctx::<Context>, New),
    entry!(function::KEYEXCH_FREECTX, free::<Context>, Free),
    entry!(function::KEYEXCH_INIT, init, Init),
    entry!(function::KEYEXCH_SET_PEER, set_peer, SetPeer),
    entry!(function::KEYEXCH_DERIVE, derive, Derive),
    entry!(function::KEYEXCH_GET_CTX_PARAMS, get_ctx_params, GetParams),
    entry!(function::KEYEXCH_GETTABLE_CTX_PARAMS, gettable_ctx_params, Gettable),
    Dispatch::END,
];

type New = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Init = unsafe extern "C" fn(*mut c_void, *mut c_void, *const Param) -> c_int;
type SetPeer = unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int;
type Derive = unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, usize) -> c_int;
type GetParams = unsafe extern "C" fn(*mut c_void, *mut Param) -> c_int;
type Gettable = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const Param;

/// An exchange that was begun; used from one thread, as every EVP context.
#[derive(Clone)]
struct Context {
    provider: ProviderRef,
    /// Our key, which the default provider takes without its private half, too: a derivation says
    /// so.
    key: Option<(KeyType, Option<ExchangePrivateKey>)>,
    peer: Option<ExchangePublicKey>,
    /// Whether our key, and the peer's, is a key share of TLS.
    is_key_share: [bool; 2],
}

unsafe extern "C" fn newctx(context: *mut c_void) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), null_mut(), || {
        Ok(hand_over(Context { provider, key: None, peer: None, is_key_share: [false; 2] }))
    })
}

unsafe extern "C" fn init(context: *mut c_void, key: *mut c_void, _: *const Param) -> c_int {
    // SAFETY: the core passes a context of newctx, used from one thread, and a key of this
    // provider.
    let (Ok(context), Ok(key)) = (unsafe { (borrow_mut::<Context>(context), borrow::<Key>(key)) })
    else {
        return 0;
    };
    border(Some(&key.provider), 0, || {
        context.key = None;
        key.material().ok_or(missing(key.algorithm, "key material"))?;
        context.key = Some((key.algorithm, key.exchange_private().cloned()));
        context.is_key_share[0] = key.is_key_share;
        Ok(1)
    })
}

unsafe extern "C" fn set_peer(context: *mut c_void, peer: *mut c_void) -> c_int {
    // SAFETY: the core passes a context of newctx, used from one thread, and a key of this
    // provider.
    let (Ok(context), Ok(peer)) =
        (unsafe { (borrow_mut::<Context>(context), borrow::<Key>(peer)) })
    else {
        return 0;
    };
    let counter = stats::counter(peer.algorithm, Operation::Peer);
    counted(&peer.provider, counter, 0, |_| {
        context.peer = Some(peer.exchange_public()?);
        context.is_key_share[1] = peer.is_key_share;
        Ok(1)
    })
}

unsafe extern "C" fn derive(
    context: *mut c_void,
    secret: *mut u8,
    secret_len: *mut usize,
    room: usize,
) -> c_int {
    // SAFETY: the core passes a context of newctx, and room for a length.
    let (context, secret_len) = unsafe {
        let Ok(context) = borrow::<Context>(context) else {
            return 0;
        };
        (context, secret_len.as_mut())
    };
    let provider = context.provider;
    let Some((algorithm, key)) = &context.key else {
        let none = || Err(Failure::Misuse("the key exchange was not initialised"));
        return border(Some(&provider), 0, none);
    };
    let body = || {
        let key = key.as_ref().ok_or(missing(*algorithm, "private key"))?;
        let peer = context.peer.as_ref().ok_or(missing(*algorithm, "peer's key"))?;
        let expected = algorithm.info().shared_secret;
        let len = secret_len.ok_or(Failure::Misuse("a derivation needs room for a length"))?;
        if secret.is_null() {
            *len = expected;
            return Ok(1);
        }
        if room < expected {
            return Err(Failure::TooSmall { what: "the shared secret", expected, got: room });
        }
        let shared = engine()?.derive(key, peer)?;
        // SAFETY: the caller vouches for `room` bytes, which are enough.
        unsafe { secret.copy_from_nonoverlapping(shared.as_ptr(), expected) };
        *len = expected;
        if context.is_key_share.contains(&true) {
            tls::count_x25519();
        }
        Ok(1)
    };
    if secret.is_null() {
        return border(Some(&provider), 0, body);
    }
    counted(&provider, stats::counter(*algorithm, Operation::Derive), 0, |_| body())
}

fn missing(algorithm: KeyType, part: &'static str) -> Failure {
    Failure::MissingKey { algorithm, part, operation: "key exchange" }
}

/// There are no such parameters, as in the default provider.
unsafe extern "C" fn get_ctx_params(_: *mut c_void, _: *mut Param) -> c_int {
    1
}

unsafe extern "C" fn gettable_ctx_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static NONE: [Param; 1] = [Param::END];
    NONE.as_ptr()
}
