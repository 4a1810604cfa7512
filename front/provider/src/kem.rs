//! Key encapsulation: the entry points behind EVP_PKEY_encapsulate and EVP_PKEY_decapsulate.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use gabion_engine::{ALGORITHMS, Engine, Error, Family, KemPrivateKey, KemPublicKey};
use gabion_provider_stats::tls::Side;
use zeroize::Zeroizing;

use crate::border::{
    TakesParams, border, borrow, borrow_mut, change, counted, dupctx, free, hand_over,
    set_ctx_params,
};
use crate::core::engine;
use crate::error::Failure;
use crate::ffi::{Dispatch, Param, ParamsIn, bytes, entry, function, name};
use crate::key::Key;
use crate::key_types::{KEY_TYPES, KeyType, at, for_each_key_type};
use crate::provider::ProviderRef;
use crate::stats::{self, Operation};
use crate::tls;

/// The dispatch tables, in the order of [`KEY_TYPES`]; only rows of KEMs are registered.
pub static TABLES: [[Dispatch; 12]; KEY_TYPES.len()] = for_each_key_type!(table);

const fn table<const PLACE: usize>() -> [Dispatch; 12] {
    use function as f;
    [
        entry!(f::KEM_NEWCTX, newctx::<PLACE>, New),
        entry!(f::KEM_DUPCTX, dupctx::<Context>, New),
        entry!(f::KEM_FREECTX, free::<Context>, Free),
        entry!(f::KEM_ENCAPSULATE_INIT, encapsulate_init, Init),
        entry!(f::KEM_ENCAPSULATE, encapsulate, Encapsulate),
        entry!(f::KEM_DECAPSULATE_INIT, decapsulate_init, Init),
        entry!(f::KEM_DECAPSULATE, decapsulate, Decapsulate),
        entry!(f::KEM_SET_CTX_PARAMS, set_ctx_params::<Context>, SetParams),
        entry!(f::KEM_SETTABLE_CTX_PARAMS, settable_ctx_params::<PLACE>, Settable),
        // The last two are there for hybrids alone, as the default provider of OpenSSL 4.0 lists
        // nothing for these and has no list for the others.
        if is_hybrid(PLACE) {
            entry!(f::KEM_GET_CTX_PARAMS, get_ctx_params, GetParams)
        } else {
            Dispatch::END
        },
        entry!(f::KEM_GETTABLE_CTX_PARAMS, gettable_ctx_params, Settable),
        Dispatch::END,
    ]
}

const fn is_hybrid(place: usize) -> bool {
    place < ALGORITHMS.len() && matches!(ALGORITHMS[place].family, Family::Hybrid)
}

type New = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Init = unsafe extern "C" fn(*mut c_void, *mut c_void, *const Param) -> c_int;
type Encapsulate =
    unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, *mut u8, *mut usize) -> c_int;
type Decapsulate =
    unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, *const u8, usize) -> c_int;
type SetParams = unsafe extern "C" fn(*mut c_void, *const Param) -> c_int;
type GetParams = unsafe extern "C" fn(*mut c_void, *mut Param) -> c_int;
type Settable = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const Param;

/// An operation that was begun; used from one thread, as every EVP context.
#[derive(Clone)]
struct Context {
    provider: ProviderRef,
    algorithm: KeyType,
    role: Role,
    /// Whether the key is a key share of TLS.
    is_key_share: bool,
    /// Randomness for one encapsulation, given by a test.
    ikme: Option<Zeroizing<[u8; 32]>>,
}

#[derive(Clone)]
enum Role {
    None,
    Encapsulate(KemPublicKey),
    Decapsulate(KemPrivateKey),
}

impl TakesParams for Context {
    fn provider(&self) -> ProviderRef {
        self.provider
    }

    fn set(&mut self, params: ParamsIn<'_>) -> Result<(), Failure> {
        if !matches!(self.role, Role::Encapsulate(_)) {
            return Ok(());
        }
        if let Some(ikme) = params.octets_or_empty(name::IKME)? {
            if self.algorithm.info().family != Family::MlKem {
                return Err(Failure::Misuse("only ML-KEM takes given randomness (`ikme`)"));
            }
            let wrong = || Failure::seed("the randomness `ikme`", 32, ikme.len());
            self.ikme = Some(Zeroizing::new(ikme.try_into().map_err(|_| wrong())?));
        }
        Ok(())
    }
}

impl Context {
    /// Does an operation: `together` with others where the thread is in an asynchronous job and
    /// that pays, or else `alone`.
    fn together_or_alone<T>(
        &self,
        together: impl FnOnce(&'static Engine) -> Option<Result<T, Error>>,
        alone: impl FnOnce(&'static Engine) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let engine = engine()?;
        if engine.batching_pays(self.algorithm.algorithm)
            && let Some(result) = together(engine)
        {
            stats::counter(self.algorithm, Operation::Paused).call();
            return Ok(result?);
        }
        Ok(alone(engine)?)
    }

    fn accept(&self, key: &Key) -> Result<(), Failure> {
        if key.algorithm != self.algorithm {
            return Err(Failure::Misuse("the key is of another algorithm than the operation"));
        }
        Ok(())
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(context: *mut c_void) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), null_mut(), || {
        let algorithm = at::<PLACE>();
        let (role, is_key_share, ikme) = (Role::None, false, None);
        Ok(hand_over(Context { provider, algorithm, role, is_key_share, ikme }))
    })
}

/// Initializes an operation with a key; `role` describes its purpose.
unsafe fn init(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
    role: fn(&Key) -> Result<Role, Failure>,
) -> c_int {
    let begin = |context: &mut Context| {
        // SAFETY: the core passes a key of this provider, or null.
        let key = unsafe { borrow::<Key>(key) }?;
        // A failed init must leave nothing that an operation could go on with.
        context.role = Role::None;
        context.ikme = None;
        context.accept(key)?;
        context.role = role(key)?;
        context.is_key_share = key.is_key_share;
        // SAFETY: the core passes a list with an end, or null.
        context.set(unsafe { ParamsIn::new(params) }).inspect_err(|_| context.role = Role::None)?;
        Ok(1)
    };
    // SAFETY: the core passes a context of newctx, and uses it from one thread.
    unsafe { change(context, begin) }
}

unsafe extern "C" fn encapsulate_init(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: as the core vouches for this entry point.
    unsafe { init(context, key, params, |key| Ok(Role::Encapsulate(key.kem_public()?))) }
}

unsafe extern "C" fn decapsulate_init(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: as the core vouches for this entry point.
    unsafe { init(context, key, params, |key| Ok(Role::Decapsulate(key.kem_private()?))) }
}

/// Takes the room that the caller says there is and leaves the length that will be written.
///
/// # Safety
/// `room` points to a length. It may be another buffer's length, too, so that there is no reference
/// to it.
unsafe fn claim(room: *mut usize, what: &'static str, expected: usize) -> Result<(), Failure> {
    // SAFETY: as the caller vouches.
    unsafe {
        let got = room.read();
        if got < expected {
            return Err(Failure::TooSmall { what, expected, got });
        }
        room.write(expected);
    }
    Ok(())
}

/// Leaves the length that a caller asks for, where there is room for it.
///
/// # Safety
/// `place` is null or points to a length.
unsafe fn write_len(place: *mut usize, len: usize) -> bool {
    if !place.is_null() {
        // SAFETY: as the caller vouches.
        unsafe { place.write(len) };
    }
    !place.is_null()
}

unsafe extern "C" fn encapsulate(
    context: *mut c_void,
    ciphertext: *mut u8,
    ciphertext_len: *mut usize,
    secret: *mut u8,
    secret_len: *mut usize,
) -> c_int {
    // SAFETY: the core passes a context of newctx, used from one thread.
    let Ok(context) = (unsafe { borrow_mut::<Context>(context) }) else {
        return 0;
    };
    let info = context.algorithm.info();
    if ciphertext.is_null() {
        // SAFETY: the caller's lengths are null or places for one.
        let told = unsafe {
            [
                write_len(ciphertext_len, info.output.max()),
                write_len(secret_len, info.shared_secret),
            ]
        };
        return c_int::from(told.contains(&true));
    }
    let provider = context.provider;
    counted(&provider, stats::counter(context.algorithm, Operation::Encaps), 0, |held| {
        // Given randomness serves one call, whether it succeeds or not.
        let ikme = context.ikme.take();
        let Role::Encapsulate(key) = &context.role else {
            return Err(Failure::Misuse("encapsulation was not initialised"));
        };
        if secret.is_null() {
            return Err(Failure::NoRoom(
                "the shared secret has no buffer; expected one in addition to the ciphertext's",
            ));
        }
        if ciphertext_len.is_null() || secret_len.is_null() {
            return Err(Failure::NoLength("encapsulation needs both lengths"));
        }
        // SAFETY: the caller's lengths, which are not null.
        unsafe {
            claim(ciphertext_len, "the ciphertext", info.output.max())?;
            claim(secret_len, "the shared secret", info.shared_secret)?;
        }
        let (made, shared) = match ikme {
            Some(m) => engine()?.encaps_with_randomness(key, &m[..])?,
            None => context.together_or_alone(
                |engine| provider.async_jobs.encaps(held, engine, &provider.core, key),
                |engine| engine.encaps(key, &provider.core),
            )?,
        };
        // SAFETY: the caller vouches for the room that was claimed above.
        unsafe {
            ciphertext.copy_from_nonoverlapping(made.as_ptr(), info.output.max());
            secret.copy_from_nonoverlapping(shared.as_ptr(), info.shared_secret);
        }
        if context.is_key_share {
            tls::count_kem(context.algorithm, Side::Server);
        }
        Ok(1)
    })
}

unsafe extern "C" fn decapsulate(
    context: *mut c_void,
    secret: *mut u8,
    secret_len: *mut usize,
    ciphertext: *const u8,
    ciphertext_len: usize,
) -> c_int {
    // SAFETY: the core passes a context of newctx.
    let Ok(context) = (unsafe { borrow::<Context>(context) }) else {
        return 0;
    };
    let info = context.algorithm.info();
    if secret.is_null() {
        // SAFETY: the caller's length is null or a place for one.
        return c_int::from(unsafe { write_len(secret_len, info.shared_secret) });
    }
    counted(&context.provider, stats::counter(context.algorithm, Operation::Decaps), 0, |held| {
        let Role::Decapsulate(key) = &context.role else {
            return Err(Failure::Misuse("decapsulation was not initialised"));
        };
        // A null length is tolerated, as the default provider does.
        if !secret_len.is_null() {
            // SAFETY: the caller's length, which is not null.
            unsafe { claim(secret_len, "the shared secret", info.shared_secret)? };
        }
        // SAFETY: the caller vouches for the ciphertext.
        let ciphertext = unsafe { bytes(ciphertext, ciphertext_len) };
        let ciphertext = ciphertext.ok_or(Failure::Misuse("no ciphertext was given"))?;
        if ciphertext.len() != info.output.max() {
            return Err(Failure::Ciphertext { expected: info.output.max(), got: ciphertext.len() });
        }
        let provider = &context.provider;
        let shared = context.together_or_alone(
            |engine| provider.async_jobs.decaps(held, engine, &provider.core, key, ciphertext),
            |engine| engine.decaps(key, ciphertext),
        )?;
        // SAFETY: the caller vouches for the room.
        unsafe { secret.copy_from_nonoverlapping(shared.as_ptr(), info.shared_secret) };
        if context.is_key_share {
            tls::count_kem(context.algorithm, Side::Client);
        }
        Ok(1)
    })
}

/// There is nothing to get.
unsafe extern "C" fn get_ctx_params(_: *mut c_void, _: *mut Param) -> c_int {
    1
}

unsafe extern "C" fn gettable_ctx_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static NONE: [Param; 1] = [Param::END];
    NONE.as_ptr()
}

unsafe extern "C" fn settable_ctx_params<const PLACE: usize>(
    _: *mut c_void,
    _: *mut c_void,
) -> *const Param {
    static ML_KEM: [Param; 2] = [Param::takes_octets(name::IKME), Param::END];
    static NONE: [Param; 1] = [Param::END];
    let takes_ikme = at::<PLACE>().info().family == Family::MlKem;
    if takes_ikme { ML_KEM.as_ptr() } else { NONE.as_ptr() }
}
