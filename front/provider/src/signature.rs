//! Signatures: the entry points behind EVP_DigestSign, EVP_PKEY_sign_message and their like.
//!
//! Every algorithm has what the default provider offers for ML-DSA in 3.5 and 4.0 together: signing
//! and verifying in one call, with or without the digest interface's name, and in pieces (of the
//! default provider's, in 4.0 only). If the standard hashes the message once and first (ML-DSA,
//! pre-hash variants), pieces are hashed as they come; else they are gathered. [`left_out`] says
//! which parameters an algorithm takes; all else is the same for all.

use std::borrow::Cow;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

use gabion_engine::host::CancellationGuard;
use gabion_engine::{
    Algorithm, Engine, Error, Family, Message, Pieces, SigningKey, VerifyKey, ml_dsa::CONTEXT_MAX,
};
use zeroize::Zeroizing;

use crate::border::{
    TakesParams, border, borrow, change, counted, dupctx, free, hand_over, set_ctx_params,
};
use crate::core::engine;
use crate::error::Failure;
use crate::ffi::{Dispatch, Param, ParamsIn, ParamsOut, bytes, c_text, entry, function, name};
use crate::key::{Key, WORD};
use crate::key_types::{KEY_TYPES, KeyType, algorithm_identifier, at, for_each_key_type};
use crate::provider::ProviderRef;
use crate::stateful::Signer;
use crate::stats::{self, Operation};
use crate::tls;

/// The dispatch tables, in the order of [`KEY_TYPES`]; only rows of signatures are
/// registered.
pub static TABLES: [[Dispatch; 20]; KEY_TYPES.len()] = for_each_key_type!(table);

const fn table<const PLACE: usize>() -> [Dispatch; 20] {
    use function as f;
    [
        entry!(f::SIGNATURE_NEWCTX, newctx::<PLACE>, New),
        entry!(f::SIGNATURE_DUPCTX, dupctx::<Context>, Duplicate),
        entry!(f::SIGNATURE_FREECTX, free::<Context>, Free),
        entry!(f::SIGNATURE_SIGN_MESSAGE_INIT, sign_init, Init),
        entry!(f::SIGNATURE_SIGN, sign, Sign),
        entry!(f::SIGNATURE_SIGN_MESSAGE_UPDATE, update, Update),
        entry!(f::SIGNATURE_SIGN_MESSAGE_FINAL, sign_final, SignFinal),
        entry!(f::SIGNATURE_VERIFY_MESSAGE_INIT, verify_init, Init),
        entry!(f::SIGNATURE_VERIFY, verify, Verify),
        entry!(f::SIGNATURE_VERIFY_MESSAGE_UPDATE, update, Update),
        entry!(f::SIGNATURE_VERIFY_MESSAGE_FINAL, verify_final, VerifyFinal),
        entry!(f::SIGNATURE_DIGEST_SIGN_INIT, digest_sign_init, DigestInit),
        entry!(f::SIGNATURE_DIGEST_SIGN, sign, Sign),
        entry!(f::SIGNATURE_DIGEST_VERIFY_INIT, digest_verify_init, DigestInit),
        entry!(f::SIGNATURE_DIGEST_VERIFY, verify, Verify),
        entry!(f::SIGNATURE_GET_CTX_PARAMS, get_ctx_params, GetParams),
        entry!(f::SIGNATURE_GETTABLE_CTX_PARAMS, gettable_ctx_params, Settable),
        entry!(f::SIGNATURE_SET_CTX_PARAMS, set_ctx_params::<Context>, SetParams),
        entry!(f::SIGNATURE_SETTABLE_CTX_PARAMS, settable_ctx_params::<PLACE>, Settable),
        Dispatch::END,
    ]
}

type New = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;
type Duplicate = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Init = unsafe extern "C" fn(*mut c_void, *mut c_void, *const Param) -> c_int;
type DigestInit =
    unsafe extern "C" fn(*mut c_void, *const c_char, *mut c_void, *const Param) -> c_int;
type Sign =
    unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, usize, *const u8, usize) -> c_int;
type SignFinal = unsafe extern "C" fn(*mut c_void, *mut u8, *mut usize, usize) -> c_int;
type Verify = unsafe extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> c_int;
type VerifyFinal = unsafe extern "C" fn(*mut c_void) -> c_int;
type Update = unsafe extern "C" fn(*mut c_void, *const u8, usize) -> c_int;
type GetParams = unsafe extern "C" fn(*mut c_void, *mut Param) -> c_int;
type SetParams = unsafe extern "C" fn(*mut c_void, *const Param) -> c_int;
type Settable = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const Param;

/// An operation that was begun; used from one thread, as every EVP context.
#[derive(Clone)]
struct Context {
    provider: ProviderRef,
    algorithm: KeyType,
    role: Role,
    /// The context string of the standard.
    context: Vec<u8>,
    /// Whether the message comes formatted (the standard's internal functions).
    formatted: bool,
    /// Whether the message is mu, computed elsewhere.
    mu: bool,
    deterministic: bool,
    /// Randomness for signing, given by a test.
    test_entropy: Option<Zeroizing<Vec<u8>>>,
    /// The data passed to `update`; `None` before its first call.
    buffer: Option<MessageBuffer>,
    /// The signature that `verify_final` will check.
    signature: Vec<u8>,
}

/// A buffer for a message that comes in pieces.
#[derive(Clone)]
enum MessageBuffer {
    /// All of it.
    Whole(Vec<u8>),
    /// The digest of a pre-hash variant, or mu.
    Hashed(Pieces),
}

/// The message of an operation.
#[derive(Clone, Copy)]
enum MessageInput<'a> {
    /// In one piece.
    Whole(&'a [u8]),
    /// The digest of a pre-hash variant, or mu.
    Hashed(&'a [u8]),
}

#[derive(Clone)]
enum Role {
    None,
    Sign(SigningKey),
    /// By a key that signing uses up. The context has no index, for it may be copied.
    UseUp(Arc<Signer>),
    Verify(VerifyKey),
    /// By a key of LMS that came in bare, as its signatures do.
    VerifyBare(VerifyKey),
}

impl TakesParams for Context {
    fn provider(&self) -> ProviderRef {
        self.provider
    }

    fn set(&mut self, params: ParamsIn<'_>) -> Result<(), Failure> {
        // To pass over one would sign something else than what was asked for.
        if let Some(key) = params.first_of(&PARAMETERS[..left_out(self.algorithm)]) {
            return Err(Failure::NoSuchParameter { algorithm: self.algorithm, key });
        }
        // mu begins with what these say: what came already would be signed in another form.
        if let (true, Some(_)) = (self.came_to_mu(), params.first_of(&FORM)) {
            let why =
                "a piece of the message came already; set how it is signed before the first one";
            return Err(Failure::Misuse(why));
        }
        if let Some(context) = params.octets_or_empty(name::CONTEXT_STRING)? {
            if context.len() > CONTEXT_MAX {
                self.context.clear();
                return Err(Failure::Parameter {
                    key: "context-string",
                    expected: "at most 255 bytes",
                });
            }
            self.context = context.to_vec();
        }
        if let Some(entropy) = params.octets_or_empty(name::TEST_ENTROPY)? {
            self.test_entropy = None;
            let expected = entropy_len(self.algorithm);
            if entropy.len() != expected {
                let what = "the randomness `test-entropy`";
                return Err(Failure::seed(what, expected, entropy.len()));
            }
            self.test_entropy = Some(Zeroizing::new(entropy.to_vec()));
        }
        if let Some(deterministic) = params.int(name::DETERMINISTIC)? {
            // As in the default provider: SLH-DSA accepts every number except 0, ML-DSA only 1.
            let is_slh = self.algorithm.info().family == Family::SlhDsa;
            self.deterministic = if is_slh { deterministic != 0 } else { deterministic == 1 };
        }
        if let Some(encoding) = params.int(name::MESSAGE_ENCODING)? {
            self.formatted = match encoding {
                0 => true,
                1 => false,
                _ => {
                    return Err(Failure::Parameter {
                        key: "message-encoding",
                        expected: "0 (raw: the formatted message) or 1 (pure)",
                    });
                }
            };
        }
        if let Some(mu) = params.int(name::MU)? {
            self.mu = mu != 0;
        }
        if let Some(signature) = params.octets_or_empty(name::SIGNATURE)? {
            self.signature = signature.to_vec();
        }
        Ok(())
    }
}

impl Context {
    /// Begins an operation; without a key, once more with the one there is.
    fn begin(
        &mut self,
        key: Option<&Key>,
        params: ParamsIn<'_>,
        role: fn(&Key) -> Result<Role, Failure>,
    ) -> Result<c_int, Failure> {
        // A failed init must leave nothing that an operation could go on with.
        let before = std::mem::replace(&mut self.role, Role::None);
        let role = match key {
            Some(key) if key.algorithm != self.algorithm => {
                return Err(Failure::Misuse("the key is of another algorithm than the operation"));
            }
            Some(key) => role(key)?,
            None if matches!(before, Role::None) => {
                return Err(Failure::NoKey);
            }
            None => before,
        };
        self.mu = false;
        self.buffer = None;
        self.set(params)?;
        self.role = role;
        Ok(1)
    }

    /// Takes a piece of a message; none is a null pointer with a length.
    fn gather(&mut self, data: Option<&[u8]>) -> Result<c_int, Failure> {
        let data = data.ok_or(Failure::Misuse("no message was given"))?;
        if self.mu {
            return Err(Failure::Misuse("mu is given in one piece, with EVP_PKEY_sign or _verify"));
        }
        if self.buffer.is_none() {
            self.buffer = Some(self.nothing_yet()?);
        }
        match &mut self.buffer {
            Some(MessageBuffer::Hashed(pieces)) => pieces.add(data),
            Some(MessageBuffer::Whole(message)) => {
                message.try_reserve(data.len()).map_err(|_| Error::NoMemory("a message"))?;
                message.extend_from_slice(data);
            }
            None => {}
        }
        Ok(1)
    }

    /// Returns an empty buffer for the pieces of a message.
    fn nothing_yet(&self) -> Result<MessageBuffer, Failure> {
        if let Some(hash) = self.algorithm.hash {
            let pieces = Pieces::to_digest(hash).map(MessageBuffer::Hashed);
            return Ok(pieces.unwrap_or(MessageBuffer::Whole(Vec::new())));
        }
        let public = match (&self.role, self.algorithm.info().family) {
            (Role::Sign(key), Family::MlDsa) => key.public_bytes(),
            (Role::Verify(key), Family::MlDsa) => key.bytes(),
            _ => return Ok(MessageBuffer::Whole(Vec::new())),
        };
        let context = (!self.formatted).then_some(&self.context[..]);
        Ok(MessageBuffer::Hashed(Pieces::to_mu(public, context)?))
    }

    /// Returns whether pieces came that are hashed to mu.
    fn came_to_mu(&self) -> bool {
        self.algorithm.hash.is_none() && matches!(self.buffer, Some(MessageBuffer::Hashed(_)))
    }

    /// Does something with the message that came in pieces.
    fn with_gathered<T>(
        &self,
        missing: &'static str,
        use_it: impl FnOnce(MessageInput<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        match &self.buffer {
            None => Err(Failure::Misuse(missing)),
            Some(MessageBuffer::Whole(message)) => use_it(MessageInput::Whole(message)),
            Some(MessageBuffer::Hashed(pieces)) => use_it(MessageInput::Hashed(&pieces.so_far())),
        }
    }

    /// Returns the part of a message that is signed; `digest` holds that of a pre-hash variant.
    fn message<'a>(
        &'a self,
        message: MessageInput<'a>,
        digest: &'a mut Vec<u8>,
    ) -> Result<Message<'a>, Failure> {
        let context = &self.context;
        let message = match (message, self.algorithm.hash) {
            (MessageInput::Whole(message), _) => message,
            (MessageInput::Hashed(digest), Some(hash)) => {
                return Ok(Message::Prehash { context, hash, digest });
            }
            (MessageInput::Hashed(mu), None) => {
                let wrong = |_| Failure::length("the representative mu", 64, mu.len());
                return Ok(Message::Mu(mu.try_into().map_err(wrong)?));
            }
        };
        Ok(match self.algorithm.hash {
            _ if self.mu => {
                let wrong = |_| Failure::length("the representative mu", 64, message.len());
                Message::Mu(message.try_into().map_err(wrong)?)
            }
            _ if self.formatted => Message::Internal(message),
            Some(hash) => {
                *digest = hash.digest(message);
                Message::Prehash { context, hash, digest }
            }
            None => Message::Pure { context, message },
        })
    }

    /// Bytes of a signature, at most.
    fn signature_len(&self) -> usize {
        match &self.role {
            Role::UseUp(key) => key.signature_len(),
            Role::None | Role::Sign(_) | Role::Verify(_) | Role::VerifyBare(_) => {
                self.algorithm.info().output.max()
            }
        }
    }

    fn sign(
        &self,
        held: &CancellationGuard,
        message: MessageInput<'_>,
    ) -> Result<Vec<u8>, Failure> {
        let key = match (&self.role, message) {
            (Role::Sign(key), _) => key,
            (Role::UseUp(key), MessageInput::Whole(message)) => return key.sign(message),
            (Role::None | Role::UseUp(_) | Role::Verify(_) | Role::VerifyBare(_), _) => {
                return Err(Failure::Misuse("signing was not initialised"));
            }
        };
        let mut digest = Vec::new();
        let message = self.message(message, &mut digest)?;
        let engine = engine()?;
        Ok(match &self.test_entropy {
            Some(rnd) => engine.sign_with_randomness(key, message, &rnd[..])?,
            None if self.deterministic => engine.sign_deterministic(key, message)?,
            None => match self.sign_together(held, engine, key, message) {
                Some(signature) => signature?,
                None => engine.sign(key, message, &self.provider.core)?,
            },
        })
    }

    /// Signs together with others, where the thread is in an asynchronous job and that pays.
    fn sign_together(
        &self,
        held: &CancellationGuard,
        engine: &'static Engine,
        key: &SigningKey,
        message: Message<'_>,
    ) -> Option<Result<Vec<u8>, Error>> {
        if !engine.batching_pays(self.algorithm.algorithm) {
            return None;
        }
        let (provider, randomness) = (&self.provider, entropy_len(self.algorithm));
        let signature =
            provider.async_jobs.sign(held, engine, &provider.core, randomness, key, message)?;
        stats::counter(self.algorithm, Operation::Paused).call();
        Some(signature)
    }

    /// 1 if the signature is good, 0 if not: that is an answer, not an error.
    fn verify(&self, message: MessageInput<'_>, signature: &[u8]) -> Result<c_int, Failure> {
        let (key, signature) = match &self.role {
            Role::Verify(key) => (key, Cow::Borrowed(signature)),
            // Before it is copied, which no length bounds.
            Role::VerifyBare(key) if signature.len() + WORD > key.signature_len_max() => {
                return Ok(0);
            }
            Role::VerifyBare(key) => (key, Cow::Owned([&[0; WORD], signature].concat())),
            Role::None | Role::Sign(_) | Role::UseUp(_) => {
                return Err(Failure::Misuse("verification was not initialised"));
            }
        };
        let mut digest = Vec::new();
        let message = self.message(message, &mut digest)?;
        match engine()?.verify(key, message, &signature) {
            Ok(()) => Ok(1),
            Err(Error::BadSignature) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

unsafe extern "C" fn newctx<const PLACE: usize>(
    context: *mut c_void,
    _query: *const c_char,
) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), null_mut(), || {
        Ok(hand_over(Context {
            provider,
            algorithm: at::<PLACE>(),
            role: Role::None,
            context: Vec::new(),
            formatted: false,
            mu: false,
            deterministic: false,
            test_entropy: None,
            buffer: None,
            signature: Vec::new(),
        }))
    })
}

/// Begins an operation with a key, or with the one that the context has.
unsafe fn init(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
    role: fn(&Key) -> Result<Role, Failure>,
) -> c_int {
    // SAFETY: the core passes a context of newctx, and uses it from one thread; a key of this
    // provider, or null; a list with an end, or null.
    unsafe {
        let (key, params) = (borrow::<Key>(key).ok(), ParamsIn::new(params));
        change::<Context>(context, |context| context.begin(key, params, role))
    }
}

unsafe extern "C" fn sign_init(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: as the core vouches for this entry point.
    unsafe {
        init(context, key, params, |key| match key.signer() {
            Some(signer) => Ok(Role::UseUp(Arc::clone(signer))),
            None => Ok(Role::Sign(key.signing()?)),
        })
    }
}

unsafe extern "C" fn verify_init(
    context: *mut c_void,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: as the core vouches for this entry point.
    unsafe {
        init(context, key, params, |key| {
            let role: fn(VerifyKey) -> Role =
                if key.is_bare() { Role::VerifyBare } else { Role::Verify };
            Ok(role(key.verify()?))
        })
    }
}

/// The algorithms hash the message themselves: no digest may be named.
unsafe fn no_digest(context: *mut c_void, digest: *const c_char) -> bool {
    // SAFETY: the core passes a C string, or null.
    let named = unsafe { c_text(digest) }.is_some_and(|name| !name.is_empty());
    // SAFETY: the core passes a context of newctx.
    let Ok(context) = (unsafe { borrow::<Context>(context) }) else {
        return false;
    };
    border(Some(&context.provider), false, || match named {
        true => Err(Failure::Digest),
        false => Ok(true),
    })
}

unsafe extern "C" fn digest_sign_init(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: as the core vouches for this entry point.
    unsafe { if no_digest(context, digest) { sign_init(context, key, params) } else { 0 } }
}

unsafe extern "C" fn digest_verify_init(
    context: *mut c_void,
    digest: *const c_char,
    key: *mut c_void,
    params: *const Param,
) -> c_int {
    // SAFETY: as the core vouches for this entry point.
    unsafe { if no_digest(context, digest) { verify_init(context, key, params) } else { 0 } }
}

/// Writes a signature of `message`, or of what was gathered; without a buffer, tells its length. A
/// message may come with the call and yet be missing: a null pointer with a length.
unsafe fn write_signature(
    context: *mut c_void,
    signature: *mut u8,
    signature_len: *mut usize,
    room: usize,
    message: Option<Option<&[u8]>>,
) -> c_int {
    // SAFETY: the core passes a context of newctx, and a valid length.
    let (context, signature_len) = unsafe {
        let Ok(context) = borrow::<Context>(context) else {
            return 0;
        };
        (context, signature_len.as_mut())
    };
    let expected = context.signature_len();
    if signature.is_null() {
        let asked = signature_len.is_some();
        signature_len.into_iter().for_each(|len| *len = expected);
        return c_int::from(asked);
    }
    counted(&context.provider, stats::counter(context.algorithm, Operation::Sign), 0, |held| {
        if room < expected {
            return Err(Failure::TooSmall { what: "the signature", expected, got: room });
        }
        let missing = "no message was given to sign";
        let made = match message {
            Some(message) => {
                context.sign(held, MessageInput::Whole(message.ok_or(Failure::Misuse(missing))?))?
            }
            None => context.with_gathered(missing, |message| context.sign(held, message))?,
        };
        if made.len() > room {
            return Err(Failure::TooSmall {
                what: "the signature",
                expected: made.len(),
                got: room,
            });
        }
        // SAFETY: the caller vouches for the room that was checked above.
        unsafe { signature.copy_from_nonoverlapping(made.as_ptr(), made.len()) };
        if let Some(Some(message)) = message {
            tls::count_signature(context.algorithm, message, true);
        }
        signature_len.into_iter().for_each(|len| *len = made.len());
        Ok(1)
    })
}

unsafe extern "C" fn sign(
    context: *mut c_void,
    signature: *mut u8,
    signature_len: *mut usize,
    room: usize,
    message: *const u8,
    message_len: usize,
) -> c_int {
    // SAFETY: as the core vouches for this entry point; the message stays for the call.
    unsafe {
        let message = bytes(message, message_len);
        write_signature(context, signature, signature_len, room, Some(message))
    }
}

unsafe extern "C" fn sign_final(
    context: *mut c_void,
    signature: *mut u8,
    signature_len: *mut usize,
    room: usize,
) -> c_int {
    // SAFETY: as the core vouches for this entry point.
    unsafe { write_signature(context, signature, signature_len, room, None) }
}

unsafe extern "C" fn update(context: *mut c_void, data: *const u8, len: usize) -> c_int {
    // SAFETY: the core passes a context of newctx, used from one thread, and `len` bytes of data.
    unsafe {
        let data = bytes(data, len);
        change::<Context>(context, |context| context.gather(data))
    }
}

unsafe extern "C" fn verify(
    context: *mut c_void,
    signature: *const u8,
    signature_len: usize,
    message: *const u8,
    message_len: usize,
) -> c_int {
    // SAFETY: the core passes a context of newctx, and bytes as long as it says.
    let (context, signature, message) = unsafe {
        let Ok(context) = borrow::<Context>(context) else {
            return 0;
        };
        (context, bytes(signature, signature_len), bytes(message, message_len))
    };
    counted(&context.provider, stats::counter(context.algorithm, Operation::Verify), 0, |_| {
        let message = message.ok_or(Failure::Misuse("no message was given to verify"))?;
        let signature = signature.ok_or(Failure::Misuse("no signature was given"))?;
        let answer = context.verify(MessageInput::Whole(message), signature)?;
        if answer == 1 {
            tls::count_signature(context.algorithm, message, false);
        }
        Ok(answer)
    })
}

unsafe extern "C" fn verify_final(context: *mut c_void) -> c_int {
    // SAFETY: the core passes a context of newctx.
    let Ok(context) = (unsafe { borrow::<Context>(context) }) else {
        return 0;
    };
    counted(&context.provider, stats::counter(context.algorithm, Operation::Verify), 0, |_| {
        let missing = "no message was given to verify";
        context.with_gathered(missing, |message| context.verify(message, &context.signature))
    })
}

unsafe extern "C" fn get_ctx_params(context: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the core passes a context of newctx.
    let Ok(context) = (unsafe { borrow::<Context>(context) }) else {
        return 0;
    };
    border(Some(&context.provider), 0, || {
        // SAFETY: the core passes a list with an end that is ours for the call, or null.
        let mut params = unsafe { ParamsOut::new(params) };
        // Without an identifier there can be no certificate: nothing is answered.
        if let Some(identifier) = algorithm_identifier(context.algorithm) {
            params.octets(name::ALGORITHM_ID, &identifier)?;
        }
        Ok(1)
    })
}

unsafe extern "C" fn gettable_ctx_params(_: *mut c_void, _: *mut c_void) -> *const Param {
    static GETTABLE: [Param; 2] = [Param::takes_octets(name::ALGORITHM_ID), Param::END];
    GETTABLE.as_ptr()
}

unsafe extern "C" fn settable_ctx_params<const PLACE: usize>(
    _: *mut c_void,
    _: *mut c_void,
) -> *const Param {
    PARAMETERS[left_out(at::<PLACE>())..].as_ptr()
}

/// Every parameter that can be set. Each algorithm takes the end of the list, from its own start
/// on.
static PARAMETERS: [Param; 7] = [
    Param::takes_int(name::MU),
    Param::takes_int(name::MESSAGE_ENCODING),
    Param::takes_octets(name::TEST_ENTROPY),
    Param::takes_int(name::DETERMINISTIC),
    Param::takes_octets(name::CONTEXT_STRING),
    Param::takes_octets(name::SIGNATURE),
    Param::END,
];

/// The parameters that say in which form a message is signed.
static FORM: [Param; 4] = [
    Param::takes_int(name::MU),
    Param::takes_int(name::MESSAGE_ENCODING),
    Param::takes_octets(name::CONTEXT_STRING),
    Param::END,
];

/// Returns how many of [`PARAMETERS`] an algorithm does not take.
fn left_out(key_type: KeyType) -> usize {
    use Algorithm as A;
    match key_type.info().family {
        Family::MlDsa | Family::SlhDsa if key_type.hash.is_some() => 2,
        Family::MlDsa => 0,
        Family::SlhDsa => 1,
        Family::FnDsa => match key_type.algorithm {
            // Before FIPS 206 there is a message and nothing else.
            A::Falcon512 | A::Falcon1024 | A::FalconPadded512 | A::FalconPadded1024 => 5,
            _ => 4,
        },
        // A message and nothing else.
        Family::Hss | Family::Xmss => 5,
        Family::Ed25519
        | Family::Ecdsa
        | Family::Composite
        | Family::MlKem
        | Family::Ecdh
        | Family::Hybrid => 4,
    }
}

/// Bytes of randomness of one signature: rnd (FIPS 204, Algorithm 2), opt_rand of n bytes (FIPS
/// 205, Algorithm 22).
fn entropy_len(key_type: KeyType) -> usize {
    let is_slh = key_type.info().family == Family::SlhDsa;
    if is_slh { key_type.info().public_key.max() / 2 } else { 32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_parameters_follow_the_algorithm() {
        let takes = |name: &str| {
            let key_type = KEY_TYPES.into_iter().find(|key_type| key_type.name() == name).unwrap();
            let count = |key| PARAMETERS[left_out(key_type)..].iter().filter(|p| p.is(key)).count();
            [name::MU, name::MESSAGE_ENCODING, name::DETERMINISTIC, name::CONTEXT_STRING].map(count)
        };
        assert_eq!(takes("ML-DSA-44"), [1, 1, 1, 1]);
        assert_eq!(takes("SLH-DSA-SHA2-128s"), [0, 1, 1, 1]);
        assert_eq!(takes("HashML-DSA-87-with-SHA512"), [0, 0, 1, 1]);
        assert_eq!(takes("MLDSA65-Ed25519-SHA512-draft19"), [0, 0, 0, 1]);
        assert_eq!(takes("FN-DSA-512-draft"), [0, 0, 0, 1]);
        assert_eq!(takes("Falcon-1024"), [0; 4]);
    }
}
