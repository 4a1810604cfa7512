//! Key management: the entry points behind EVP_PKEY.
//!
//! One set of functions serves every algorithm; [`TABLES`] binds a row of [`KEY_TYPES`] to
//! the two that are called before there is a key (`new` and `gen_init`).

use std::borrow::Cow;
use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};

use gabion_engine::keys::{self, Forms, PrivateKey, PublicKey};
use gabion_engine::{Algorithm, AlgorithmInfo, Family, Kind, Size, lms};
use zeroize::Zeroizing;

use crate::border::{
    TakesParams, border, borrow, borrow_mut, counted, free, hand_over, set_ctx_params,
};
use crate::core::engine;
use crate::error::Failure;
use crate::ffi::{Callback, Dispatch, Param, ParamsIn, ParamsOut, entry, function, name, select};
use crate::key::{self, Key, WORD};
use crate::key_types::{KEY_TYPES, KeyType, at, for_each_key_type};
use crate::provider::{Provider, ProviderRef};
use crate::stats::{self, Operation};
use crate::{tls, transfer};

/// The dispatch tables, in the order of [`KEY_TYPES`].
pub static TABLES: [[Dispatch; 21]; KEY_TYPES.len()] = for_each_key_type!(table);

/// The table of one algorithm, by its place in the table of algorithms.
const fn table<const PLACE: usize>() -> [Dispatch; 21] {
    use function as f;
    [
        entry!(f::KEYMGMT_NEW, new::<PLACE>, New),
        entry!(f::KEYMGMT_FREE, free::<Key>, Free),
        entry!(f::KEYMGMT_LOAD, transfer::load, Load),
        entry!(f::KEYMGMT_HAS, has, Has),
        entry!(f::KEYMGMT_MATCH, match_keys, Match),
        entry!(f::KEYMGMT_VALIDATE, validate, Validate),
        entry!(f::KEYMGMT_GEN_INIT, gen_init::<PLACE>, GenInit),
        entry!(f::KEYMGMT_GEN_SET_PARAMS, set_ctx_params::<Generation>, SetParams),
        entry!(f::KEYMGMT_GEN_SETTABLE_PARAMS, gen_settable_params::<PLACE>, SettableOfContext),
        entry!(f::KEYMGMT_GEN, generate, Generate),
        entry!(f::KEYMGMT_GEN_CLEANUP, free::<Generation>, Free),
        entry!(f::KEYMGMT_IMPORT, import, Import),
        entry!(f::KEYMGMT_IMPORT_TYPES, transfer_types::<PLACE>, TransferTypes),
        entry!(f::KEYMGMT_EXPORT, transfer::export, Export),
        entry!(f::KEYMGMT_EXPORT_TYPES, transfer_types::<PLACE>, TransferTypes),
        entry!(f::KEYMGMT_DUP, duplicate, Duplicate),
        entry!(f::KEYMGMT_GET_PARAMS, get_params, GetParams),
        entry!(f::KEYMGMT_GETTABLE_PARAMS, gettable_params::<PLACE>, Settable),
        entry!(f::KEYMGMT_SET_PARAMS, set_params, SetParams),
        entry!(f::KEYMGMT_SETTABLE_PARAMS, settable_params::<PLACE>, Settable),
        Dispatch::END,
    ]
}

type New = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type Load = unsafe extern "C" fn(*const c_void, usize) -> *mut c_void;
type Has = unsafe extern "C" fn(*const c_void, c_int) -> c_int;
type Match = unsafe extern "C" fn(*const c_void, *const c_void, c_int) -> c_int;
type Validate = unsafe extern "C" fn(*const c_void, c_int, c_int) -> c_int;
type GenInit = unsafe extern "C" fn(*mut c_void, c_int, *const Param) -> *mut c_void;
type SetParams = unsafe extern "C" fn(*mut c_void, *const Param) -> c_int;
type SettableOfContext = unsafe extern "C" fn(*mut c_void, *mut c_void) -> *const Param;
type Generate = unsafe extern "C" fn(*mut c_void, Option<Callback>, *mut c_void) -> *mut c_void;
type Import = unsafe extern "C" fn(*mut c_void, c_int, *const Param) -> c_int;
type TransferTypes = unsafe extern "C" fn(c_int) -> *const Param;
type Export = unsafe extern "C" fn(*mut c_void, c_int, Option<Callback>, *mut c_void) -> c_int;
type Duplicate = unsafe extern "C" fn(*const c_void, c_int) -> *mut c_void;
type GetParams = unsafe extern "C" fn(*mut c_void, *mut Param) -> c_int;
type Settable = unsafe extern "C" fn(*mut c_void) -> *const Param;

unsafe extern "C" fn new<const PLACE: usize>(context: *mut c_void) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), null_mut(), || Ok(hand_over(Key::empty(provider, at::<PLACE>()))))
}

unsafe extern "C" fn has(key: *const c_void, selection: c_int) -> c_int {
    border(None, 0, || {
        // SAFETY: the core passes a key of this provider, or null.
        let Ok(key) = (unsafe { borrow::<Key>(key) }) else {
            return Ok(0);
        };
        let answer = match selection & select::KEYPAIR {
            0 => true,
            select::PUBLIC_KEY => key.material().is_some(),
            _ => key.is_private(),
        };
        Ok(c_int::from(answer))
    })
}

unsafe extern "C" fn match_keys(a: *const c_void, b: *const c_void, selection: c_int) -> c_int {
    border(None, 0, || {
        // SAFETY: the core passes keys of this provider, or null.
        let (Ok(a), Ok(b)) = (unsafe { (borrow::<Key>(a), borrow::<Key>(b)) }) else {
            return Ok(0);
        };
        if selection & select::KEYPAIR == 0 {
            return Ok(c_int::from(a.algorithm == b.algorithm));
        }
        let private = selection & select::PRIVATE_KEY != 0;
        let same = match (a.material(), b.material()) {
            (Some(x), Some(y)) => a.algorithm == b.algorithm && key::matches(x, y, private),
            _ => false,
        };
        Ok(c_int::from(same))
    })
}

unsafe extern "C" fn validate(key: *const c_void, selection: c_int, _check: c_int) -> c_int {
    // SAFETY: the core passes a key of this provider, or null.
    let Ok(key) = (unsafe { borrow::<Key>(key) }) else {
        return 0;
    };
    border(Some(&key.provider), 0, || {
        let material = match (selection & select::KEYPAIR, key.material()) {
            (0, _) => return Ok(1),
            (_, None) => return Ok(0),
            (_, Some(material)) => material,
        };
        if selection & select::PRIVATE_KEY != 0 && !key.is_private() {
            return Ok(0);
        }
        // The standards' checks of a single half were done at import.
        if selection & select::KEYPAIR == select::KEYPAIR
            && let Some(private) = material.private()
        {
            private.pairwise_test(engine()?, &key.provider.core)?;
        }
        Ok(1)
    })
}

/// A generation that was begun.
struct Generation {
    provider: ProviderRef,
    algorithm: KeyType,
    selection: c_int,
    /// Used once: a second key from the same context is a fresh one.
    seed: Option<Zeroizing<Vec<u8>>>,
    /// Input keying material for X25519 keys of HPKE; it applies to every key of the context, as in
    /// the default provider.
    ikm: Option<Zeroizing<Vec<u8>>>,
    /// Whether libssl generates the key for a key share.
    is_key_share: bool,
}

/// Why a key cannot be made of a seed that came.
const NO_SEED: Failure = Failure::Misuse("keys of this algorithm cannot be made of a seed");

impl TakesParams for Generation {
    fn provider(&self) -> ProviderRef {
        self.provider
    }

    fn set(&mut self, params: ParamsIn<'_>) -> Result<(), Failure> {
        self.is_key_share |= tls::is_key_share(params);
        if self.algorithm.is_exchange() {
            return self.set_of_exchange(params);
        }
        if let Some(seed) = params.octets_or_empty(name::SEED)? {
            let expected = self.algorithm.seed_len().ok_or(NO_SEED)?;
            if seed.len() != expected {
                let what = "the seed to generate a key from";
                return Err(Failure::seed(what, expected, seed.len()));
            }
            self.seed = Some(Zeroizing::new(seed.to_vec()));
        }
        Ok(())
    }
}

impl Generation {
    /// libssl names the group, of which an algorithm has only one; there are no properties to look
    /// up.
    fn set_of_exchange(&mut self, params: ParamsIn<'_>) -> Result<(), Failure> {
        let expected = self.algorithm.name();
        if let Some(group) = params.text(name::GROUP)?
            && !group.eq_ignore_ascii_case(expected.as_bytes())
        {
            return Err(Failure::Parameter { key: "group", expected });
        }
        params.text(name::PROPERTIES)?;
        if let Some(ikm) = params.octets(name::DHKEM_IKM)? {
            self.ikm = Some(Zeroizing::new(ikm.to_vec()));
        }
        Ok(())
    }

    /// A key of what was set, or a fresh one.
    fn material(&mut self) -> Result<keys::Key, Failure> {
        let Generation { provider, algorithm, .. } = *self;
        if let Some(ikm) = &self.ikm {
            let key = engine()?.exchange_from_ikm(algorithm.algorithm, ikm)?;
            return Ok(keys::Key::Private(PrivateKey::Exchange(key)));
        }
        match self.seed.take() {
            Some(seed) => {
                let forms = Forms { seed: Some(&seed), ..Forms::default() };
                key::import(algorithm, forms, false)
            }
            None => key::generate(algorithm, provider),
        }
    }
}

unsafe extern "C" fn gen_init<const PLACE: usize>(
    context: *mut c_void,
    selection: c_int,
    params: *const Param,
) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), null_mut(), || {
        if selection & (select::PRIVATE_KEY | select::DOMAIN_PARAMETERS) == 0 {
            return Err(Failure::Misuse("only a key pair can be generated, not a public key"));
        }
        let algorithm = at::<PLACE>();
        let (seed, ikm, is_key_share) = (None, None, false);
        let mut generation = Generation { provider, algorithm, selection, seed, ikm, is_key_share };
        // SAFETY: the core passes a list with an end, or null.
        generation.set(unsafe { ParamsIn::new(params) })?;
        Ok(hand_over(generation))
    })
}

unsafe extern "C" fn gen_settable_params<const PLACE: usize>(
    _: *mut c_void,
    _: *mut c_void,
) -> *const Param {
    // Queries for components that keys of some providers have; this provider's keys have no
    // components.
    static SETTABLE: [Param; 3] =
        [Param::takes_octets(name::SEED), Param::takes_utf8(name::PROPERTIES), Param::END];
    static EXCHANGE: [Param; 4] = [
        Param::takes_utf8(name::GROUP),
        Param::takes_utf8(name::PROPERTIES),
        Param::takes_octets(name::DHKEM_IKM),
        Param::END,
    ];
    match at::<PLACE>().seed_len() {
        _ if at::<PLACE>().is_exchange() => EXCHANGE.as_ptr(),
        Some(_) => SETTABLE.as_ptr(),
        None => SETTABLE[1..].as_ptr(),
    }
}

/// Makes the key. Without the key pair in the selection it is an empty one, into which a TLS server
/// then puts the public key of its peer; one of a signature, which nothing can be put into, is made
/// whole, as at the default provider.
unsafe extern "C" fn generate(
    generation: *mut c_void,
    _progress: Option<Callback>,
    _argument: *mut c_void,
) -> *mut c_void {
    // SAFETY: the core passes what gen_init gave, and uses it from one thread.
    let Ok(generation) = (unsafe { borrow_mut::<Generation>(generation) }) else {
        return null_mut();
    };
    let Generation { provider, algorithm, selection, is_key_share, .. } = *generation;
    if selection & select::KEYPAIR == 0 && algorithm.info().kind != Kind::Signature {
        return border(Some(&provider), null_mut(), || {
            Ok(hand_over(Key::empty(provider, algorithm).for_key_share(is_key_share)))
        });
    }
    counted(&provider, stats::counter(algorithm, Operation::Keygen), null_mut(), |_| {
        let key = Key::with(provider, algorithm, generation.material()?);
        Ok(hand_over(key.for_key_share(is_key_share)))
    })
}

/// Takes a key from another provider or from the program. Refusing makes OpenSSL go on with the
/// provider that the key came from, so every refusal is counted and raised.
unsafe extern "C" fn import(key: *mut c_void, selection: c_int, params: *const Param) -> c_int {
    // SAFETY: the core passes a key of this provider, or null.
    let Ok(key) = (unsafe { borrow::<Key>(key) }) else {
        return 0;
    };
    let counter = stats::counter(key.algorithm, Operation::Import);
    counted(&key.provider, counter, 0, |_| {
        if selection & select::KEYPAIR == 0 {
            return Err(Failure::Misuse("only keys can be imported; there are no parameters"));
        }
        // SAFETY: the core passes a list with an end, or null.
        let params = unsafe { ParamsIn::new(params) };
        let mut forms = Forms { public: params.octets(name::PUB)?, ..Forms::default() };
        if selection & select::PRIVATE_KEY != 0 {
            if key.algorithm.keeps_seed() {
                forms.seed = params.octets(name::SEED)?;
            }
            forms.expanded = params.octets(name::PRIV)?;
        }
        match forms {
            Forms { seed: None, expanded: None, public: Some(public) } => {
                let (public, is_bare) = as_hss(key.algorithm, public);
                key.fill_as(key::public_of(&key.provider, key.algorithm, &public)?, is_bare)?;
            }
            forms => {
                let is_kem = key.algorithm.info().kind == Kind::Kem;
                let untested = is_kem && forms.expanded.is_some() && is_untested(&key.provider);
                key.fill(key::import(key.algorithm, forms, untested)?)?;
            }
        }
        Ok(1)
    })
}

/// A raw public key in the form of its algorithm, and whether it is one of LMS that came bare,
/// without the number of levels that HSS has in front.
fn as_hss(algorithm: KeyType, public: &[u8]) -> (Cow<'_, [u8]>, bool) {
    if algorithm.info().family != Family::Hss {
        return (Cow::Borrowed(public), false);
    }
    let public = lms::with_levels(public);
    let is_bare = matches!(public, Cow::Owned(_));
    (public, is_bare)
}

/// Returns whether the configuration disables the pairwise test of imported expanded KEM private
/// keys, with the values of the default provider. Its choice between random and fixed test
/// randomness has no effect here, where none is needed.
fn is_untested(provider: &Provider) -> bool {
    let told = provider.core.setting(c"ml-kem.import_pct_type");
    told.is_some_and(|told| told.to_bytes().eq_ignore_ascii_case(b"none"))
}

unsafe extern "C" fn transfer_types<const PLACE: usize>(selection: c_int) -> *const Param {
    static TYPES: [Param; 4] = [
        Param::takes_octets(name::SEED),
        Param::takes_octets(name::PRIV),
        Param::takes_octets(name::PUB),
        Param::END,
    ];
    match (selection & select::KEYPAIR, at::<PLACE>().keeps_seed()) {
        (0, _) => null(),
        (_, true) => TYPES.as_ptr(),
        (_, false) => TYPES[1..].as_ptr(),
    }
}

unsafe extern "C" fn duplicate(key: *const c_void, selection: c_int) -> *mut c_void {
    // SAFETY: the core passes a key of this provider, or null.
    let Ok(key) = (unsafe { borrow::<Key>(key) }) else {
        return null_mut();
    };
    border(Some(&key.provider), null_mut(), || {
        key.check_stays(selection)?;
        let copy = Key::empty(key.provider, key.algorithm);
        let is_bare = key.is_bare();
        match (selection & select::KEYPAIR, key.material()) {
            (0, _) | (_, None) => {}
            (select::PUBLIC_KEY, Some(material)) => {
                copy.fill_as(keys::Key::Public(material.public()), is_bare)?
            }
            (_, Some(material)) => copy.fill_as(key::shared(material), is_bare)?,
        }
        Ok(hand_over(copy))
    })
}

unsafe extern "C" fn get_params(key: *mut c_void, params: *mut Param) -> c_int {
    // SAFETY: the core passes a key of this provider, or null.
    let Ok(key) = (unsafe { borrow::<Key>(key) }) else {
        return 0;
    };
    border(Some(&key.provider), 0, || {
        // SAFETY: the core passes a list with an end that is ours for the call, or null.
        let mut params = unsafe { ParamsOut::new(params) };
        let info = key.algorithm.info();
        // A key of HSS or XMSS says itself how long it and its signatures are.
        let is_of_key = matches!(info.output, Size::OfKey(_));
        let public = key.material().filter(|_| is_of_key).map(keys::Key::public);
        let (key_len, size) = match (&public, info.kind) {
            (Some(PublicKey::Signature(public)), _) => {
                let word = if key.is_bare() { WORD } else { 0 };
                (public.bytes().len() - word, public.signature_len_max() - word)
            }
            (_, Kind::KeyExchange) => (info.public_key.max(), info.shared_secret),
            (_, Kind::Kem | Kind::Signature) => (info.public_key.max(), info.output.max()),
        };
        params.int(name::BITS, bits(key.algorithm, key_len))?;
        params.int(name::SECURITY_BITS, i32::from(info.security_bits))?;
        params.int(name::SECURITY_CATEGORY, info.category.map_or(0, i32::from))?;
        params.int(name::MAX_SIZE, size as i32)?;
        if info.kind == Kind::Signature {
            // Programs may pass no digest, or the empty one; nothing else fits.
            params.utf8(name::MANDATORY_DIGEST, c"")?;
        }
        if info.family == Family::MlKem {
            params.int(name::CMS_RI_TYPE, CMS_RECIPINFO_KEM)?;
            params.octets(name::CMS_KEMRI_KDF_ALGORITHM, &HKDF_WITH_SHA256)?;
        }
        let Some(material) = key.material() else {
            return Ok(1);
        };
        params.octets(name::PUB, key.public_bytes().unwrap_or_default())?;
        if info.kind != Kind::Signature {
            params.octets(name::ENCODED_PUB, material.public_bytes())?;
        }
        if let Some(private) = material.private() {
            params.octets(name::PRIV, private.bytes())?;
            if let Some(seed) = private.seed() {
                params.octets(name::SEED, seed)?;
            }
        }
        Ok(1)
    })
}

/// How CMS encrypts to an ML-KEM key, from OpenSSL 3.6 on: as a KEMRecipientInfo (RFC 9629).
const CMS_RECIPINFO_KEM: i32 = 5;

/// The default key derivation for the wrapping key in this use: the AlgorithmIdentifier of
/// id-alg-hkdf-with-sha256 (RFC 8619), without parameters. All recipients with ML-KEM support it
/// (RFC 9936), and it is the default provider's choice.
const HKDF_WITH_SHA256: [u8; 15] = *b"\x30\x0d\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x03\x1c";

/// Returns the key size as the default provider reports it: degree times rank for ML-KEM, also
/// within a hybrid; the bits of the public key for ML-DSA.
fn bits(algorithm: KeyType, key_len: usize) -> i32 {
    let info = algorithm.info();
    match info.kind {
        Kind::Kem => {
            let mut all = std::iter::once(info).chain(info.part_algorithms().map(Algorithm::info));
            all.find(|part| part.family == Family::MlKem).map_or(0, ml_kem_bits)
        }
        // X25519_BITS: of the order of the base point's group.
        Kind::KeyExchange => 253,
        Kind::Signature => (key_len * 8) as i32,
    }
}

/// The degree times the rank: the public key is k polynomials of 384 bytes and 32 bytes (FIPS 203,
/// table 3).
fn ml_kem_bits(info: &AlgorithmInfo) -> i32 {
    ((info.public_key.max() - 32) / 384 * 256) as i32
}

unsafe extern "C" fn gettable_params<const PLACE: usize>(_: *mut c_void) -> *const Param {
    const SEED: Param = Param::takes_octets(name::SEED);
    const ENCODED: Param = Param::takes_octets(name::ENCODED_PUB);
    const DIGEST: Param = Param::takes_utf8(name::MANDATORY_DIGEST);
    static ML_KEM: [Param; 11] = gettable([
        SEED,
        ENCODED,
        Param::takes_int(name::CMS_RI_TYPE),
        Param::takes_octets(name::CMS_KEMRI_KDF_ALGORITHM),
    ]);
    static HYBRID: [Param; 11] = gettable([ENCODED, Param::END, Param::END, Param::END]);
    static SIGNATURE: [Param; 11] = gettable([DIGEST, Param::END, Param::END, Param::END]);
    static WITH_SEED: [Param; 11] = gettable([DIGEST, SEED, Param::END, Param::END]);
    static EXCHANGE: [Param; 8] = [
        Param::takes_int(name::BITS),
        Param::takes_int(name::SECURITY_BITS),
        Param::takes_int(name::SECURITY_CATEGORY),
        Param::takes_int(name::MAX_SIZE),
        Param::takes_octets(name::PRIV),
        Param::takes_octets(name::PUB),
        ENCODED,
        Param::END,
    ];
    let key_type = at::<PLACE>();
    match (key_type.info().kind, key_type.keeps_seed()) {
        (Kind::Kem, true) => ML_KEM.as_ptr(),
        (Kind::Kem, false) => HYBRID.as_ptr(),
        (Kind::KeyExchange, _) => EXCHANGE.as_ptr(),
        (_, true) => WITH_SEED.as_ptr(),
        (_, false) => SIGNATURE.as_ptr(),
    }
}

/// A list with what only some kinds of key answer; it may end before its last place.
const fn gettable([first, second, third, fourth]: [Param; 4]) -> [Param; 11] {
    [
        Param::takes_int(name::BITS),
        Param::takes_int(name::SECURITY_BITS),
        Param::takes_int(name::SECURITY_CATEGORY),
        Param::takes_int(name::MAX_SIZE),
        Param::takes_octets(name::PRIV),
        Param::takes_octets(name::PUB),
        first,
        second,
        third,
        fourth,
        Param::END,
    ]
}

/// Puts a peer's public key into an empty key: what TLS does with a key share.
unsafe extern "C" fn set_params(key: *mut c_void, params: *const Param) -> c_int {
    // SAFETY: the core passes a key of this provider, or null.
    let Ok(key) = (unsafe { borrow::<Key>(key) }) else {
        return 0;
    };
    // SAFETY: the core passes a list with an end, or null.
    let params = unsafe { ParamsIn::new(params) };
    let public = border(Some(&key.provider), Err(()), || {
        if key.algorithm.info().kind == Kind::Signature {
            return Ok(Ok(None));
        }
        if key.algorithm.info().family != Family::MlKem {
            params.text(name::PROPERTIES)?;
        }
        params.octets_ptr(name::ENCODED_PUB).map(Ok)
    });
    match public {
        Err(()) => 0,
        Ok(None) => 1,
        Ok(Some(public)) => {
            counted(&key.provider, stats::counter(key.algorithm, Operation::Import), 0, |_| {
                if key.material().is_some() {
                    return Err(Failure::Misuse("the key already holds a key; make a new one"));
                }
                let forms = Forms { public: Some(public), ..Forms::default() };
                key.fill(key::import(key.algorithm, forms, false)?)?;
                Ok(1)
            })
        }
    }
}

unsafe extern "C" fn settable_params<const PLACE: usize>(_: *mut c_void) -> *const Param {
    static SETTABLE: [Param; 3] =
        [Param::takes_utf8(name::PROPERTIES), Param::takes_octets(name::ENCODED_PUB), Param::END];
    let info = at::<PLACE>().info();
    // A query for the parts of a hybrid that are keys of their own elsewhere, and for what X25519
    // needs.
    let left_out = match info.kind {
        Kind::Signature => 2,
        Kind::Kem | Kind::KeyExchange => usize::from(info.family == Family::MlKem),
    };
    SETTABLE[left_out..].as_ptr()
}
