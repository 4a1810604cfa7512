//! LMS and HSS both ways with wolfSSL, in every set that it has, where its library is built: one seed gives one key in both,
//! an index and a message one signature, and what one signs the other verifies; verdicts on mutated signatures are the same.
//! A key that was used there is imported here, and goes on as it would have there.
//!
//! Keys that take wolfSSL long are made where `GABION_TEST_NEEDS_WOLFSSL` is set, and longer ones where `GABION_SOAK` is. Of
//! trees that are higher still both verify NIST's signatures.

use std::cell::{RefCell, UnsafeCell};
use std::ffi::{c_int, c_uchar, c_void};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::ptr::null_mut;

use gabion_engine::keys::stateful::hss::{HssSecret, Levels, StatefulKey};
use gabion_engine::keys::stateful::{Progress, Request};
use gabion_engine::lms::{LM_OTS, LMS, LmOts, Lms, LmsFamily};
use gabion_engine::{Algorithm, Engine, Message};
use gabion_state::{
    Encoding, Environment, Foreign, GeneratedKey, KeyFileOptions, Signer, SignerOptions,
};
use gabion_tests::vectors::{self, hex, list, text};
use libloading::Library;

use crate::{random, random_below, soak, tally};

/// Hashes of a key that is made in every run, in the longer one, and in a soak.
const QUICK: usize = 10_000_000;
const LONG: usize = 100_000_000;
const SOAK: usize = 700_000_000;

/// The numbers that wolfSSL has for hash functions.
const HASHES: [(c_int, LmsFamily, usize); 4] = [
    (0x0000, LmsFamily::Sha256, 32),
    (0x1000, LmsFamily::Sha256, 24),
    (0x2000, LmsFamily::Shake256, 32),
    (0x3000, LmsFamily::Shake256, 24),
];

/// The result of a callback that has stored the private key.
const SAVED: c_int = 4;

type Write = unsafe extern "C" fn(*const c_uchar, u32, *mut c_void) -> c_int;

/// wolfSSL as `bench/peers/build-wolfssl.sh --hbs` builds it.
struct Wolf {
    library: Library,
    rng: *mut c_void,
}

/// Calls a function of the library, whose type the version that is built has in its header.
macro_rules! call {
    ($wolf:expr, $name:ident($($type:ty),*) $(-> $result:ty)?; $($argument:expr),*) => {{
        let name = concat!(stringify!($name), "\0").as_bytes();
        // SAFETY: the types are those of the header; every pointer is live and has the length that
        // is passed with it.
        unsafe {
            let function = $wolf.library.get::<unsafe extern "C" fn($($type),*) $(-> $result)?>(name);
            function.unwrap()($($argument),*)
        }
    }};
}

impl Wolf {
    fn load() -> Option<Wolf> {
        let cache = std::env::var_os("GABION_CACHE").map(PathBuf::from);
        let cache =
            cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/gabion")));
        let path = cache?.join("peers/wolfssl-hbs-5.9.4/default/lib/libwolfssl.so");
        if !path.exists() {
            assert!(std::env::var_os("GABION_TEST_NEEDS_WOLFSSL").is_none(), "{}", path.display());
            println!(
                "not run: no wolfSSL with LMS here; bench/peers/build-wolfssl.sh --hbs builds it"
            );
            return None;
        }
        // SAFETY: the library has no constructors with preconditions.
        let library = unsafe { Library::new(&path) }.unwrap();
        let mut wolf = Wolf { library, rng: null_mut() };
        assert_eq!(call!(wolf, wolfCrypt_Init() -> c_int;), 0);
        wolf.rng = call!(wolf, wc_rng_new(*mut c_uchar, u32, *mut c_void) -> *mut c_void; null_mut(), 0, null_mut());
        assert!(!wolf.rng.is_null());
        Some(wolf)
    }
}

impl Drop for Wolf {
    fn drop(&mut self) {
        call!(self, wc_rng_free(*mut c_void); self.rng);
    }
}

/// A set by its number: levels, and the engine's sets of each.
struct ParameterSet {
    id: c_int,
    levels: usize,
    lms: &'static Lms,
    ots: &'static LmOts,
}

impl ParameterSet {
    /// Hashes of a key, with all levels.
    fn hashes(&self) -> usize {
        self.levels * (self.ots.chains() << self.ots.w << self.lms.h)
    }

    fn name(&self) -> String {
        format!("L{} {} W{}", self.levels, self.lms.name, self.ots.w)
    }
}

/// A key object of wolfSSL.
struct Key<'w> {
    wolf: &'w Wolf,
    /// Room enough, and aligned.
    object: Box<UnsafeCell<[u128; 1024]>>,
    /// The private key that it stored last.
    private: Box<RefCell<Vec<u8>>>,
}

unsafe extern "C" fn write(bytes: *const c_uchar, len: u32, context: *mut c_void) -> c_int {
    // SAFETY: the library hands over its private key with its length, and the pointer that `Key::new` gave it.
    let (bytes, private) = unsafe {
        (std::slice::from_raw_parts(bytes, len as usize), &*context.cast::<RefCell<Vec<u8>>>())
    };
    private.replace(bytes.to_vec());
    SAVED
}

impl<'w> Key<'w> {
    /// An object for keys of a set; `None` where the library has no such number.
    fn new(wolf: &'w Wolf, id: c_int) -> Option<Self> {
        let object = Box::new(UnsafeCell::new([0; 1024]));
        let key = Key { wolf, object, private: Box::default() };
        let object = key.pointer();
        let status = call!(wolf, wc_LmsKey_Init(*mut c_void, *mut c_void, c_int) -> c_int; object, null_mut(), -2);
        assert_eq!(status, 0);
        let status = call!(wolf, wc_LmsKey_SetLmsParm(*mut c_void, c_int) -> c_int; object, id);
        if status != 0 {
            return None;
        }
        let context = (&raw const *key.private).cast_mut().cast();
        call!(wolf, wc_LmsKey_SetWriteCb(*mut c_void, Write) -> c_int; object, write);
        call!(wolf, wc_LmsKey_SetContext(*mut c_void, *mut c_void) -> c_int; object, context);
        Some(key)
    }

    fn pointer(&self) -> *mut c_void {
        self.object.get().cast()
    }

    fn set(&self, id: c_int) -> ParameterSet {
        let [mut levels, mut h, mut w, mut hash] = [0; 4];
        let status = call!(self.wolf,
            wc_LmsKey_GetParameters_ex(*const c_void, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int;
            self.pointer(), &mut levels, &mut h, &mut w, &mut hash);
        assert_eq!(status, 0);
        let (_, family, n) = HASHES.into_iter().find(|(number, ..)| *number == hash).unwrap();
        let lms = LMS.iter().find(|set| (set.family, set.n, set.h as c_int) == (family, n, h));
        let ots = LM_OTS.iter().find(|set| (set.family, set.n, set.w as c_int) == (family, n, w));
        ParameterSet { id, levels: levels as usize, lms: lms.unwrap(), ots: ots.unwrap() }
    }

    fn make(&mut self) {
        let status = call!(self.wolf, wc_LmsKey_MakeKey(*mut c_void, *mut c_void) -> c_int; self.pointer(), self.wolf.rng);
        assert_eq!(status, 0);
    }

    fn public(&self) -> Vec<u8> {
        let (mut bytes, mut len) = (vec![0; 60], 60);
        let status = call!(self.wolf, wc_LmsKey_ExportPubRaw(*const c_void, *mut c_uchar, *mut u32) -> c_int;
            self.pointer(), bytes.as_mut_ptr(), &mut len);
        assert_eq!(status, 0);
        bytes.truncate(len as usize);
        bytes
    }

    fn import(&mut self, public: &[u8]) {
        let status = call!(self.wolf, wc_LmsKey_ImportPubRaw(*mut c_void, *const c_uchar, u32) -> c_int;
            self.pointer(), public.as_ptr(), public.len() as u32);
        assert_eq!(status, 0);
    }

    fn sign(&mut self, message: &[u8], most: usize) -> Vec<u8> {
        let (mut signature, mut len) = (vec![0; most], most as u32);
        let status = call!(self.wolf, wc_LmsKey_Sign(*mut c_void, *mut c_uchar, *mut u32, *const c_uchar, c_int) -> c_int;
            self.pointer(), signature.as_mut_ptr(), &mut len, message.as_ptr(), message.len() as c_int);
        assert_eq!(status, 0);
        signature.truncate(len as usize);
        signature
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let status = call!(self.wolf, wc_LmsKey_Verify(*mut c_void, *const c_uchar, u32, *const c_uchar, c_int) -> c_int;
            self.pointer(), signature.as_ptr(), signature.len() as u32, message.as_ptr(), message.len() as c_int);
        status == 0
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        call!(self.wolf, wc_LmsKey_Free(*mut c_void); self.pointer());
    }
}

fn generate(secret: &HssSecret) -> StatefulKey<'static> {
    let threads = NonZero::new(2).unwrap();
    let mut go_on = |_: gabion_engine::keys::stateful::hss::Progress<'_>| ControlFlow::Continue(());
    let engine = Engine::global().unwrap();
    StatefulKey::generate(engine, secret, &[], threads, &mut go_on).unwrap().unwrap()
}

/// Returns whether ours says yes; wolfSSL has to say the same, of a signature and of what becomes
/// of it by a changed byte or length.
fn same_verdicts(
    theirs: &Key<'_>,
    public: &[u8],
    message: &[u8],
    signature: &[u8],
    label: &str,
) -> usize {
    let engine = Engine::global().unwrap();
    let key = engine.signature_public(Algorithm::Hss, public).unwrap();
    let ours = |message: &[u8], signature: &[u8]| {
        engine.verify(&key, Message::Pure { context: &[], message }, signature).is_ok()
    };
    assert!(ours(message, signature) && theirs.verifies(message, signature), "{label}");
    let mut compared = 1;
    let mut refused = |message: &[u8], signature: &[u8], what: usize| {
        let verdicts = [ours(message, signature), theirs.verifies(message, signature)];
        assert_eq!(verdicts, [false; 2], "{label}: {what}");
        compared += 1;
    };
    for round in 0..12 {
        let (mut changed, at) = (signature.to_vec(), random_below(label, round, signature.len()));
        changed[at] ^= 1 << random_below(label, at, 8);
        refused(message, &changed, at);
    }
    refused(message, &signature[..signature.len() - 1], 0);
    refused(message, &[signature, &[0]].concat(), 1);
    refused(&[message, b"."].concat(), signature, 2);
    compared
}

/// Keys of a set both ways; how many operations were compared.
fn both_ways(wolf: &Wolf, set: &ParameterSet) -> usize {
    let (label, mut compared) = (set.name(), 0);
    let levels = Levels::new(&vec![(set.lms, set.ots); set.levels]).unwrap();
    let (n, len) = (levels.n(), levels.signature_len());
    let mut theirs = Key::new(wolf, set.id).unwrap();
    theirs.make();
    let public = theirs.public();
    // Index, sets, seed, I.
    let private = theirs.private.borrow().clone();
    assert_eq!(private.len(), 16 + n + 16, "{label}");
    let id = private[16 + n..].try_into().unwrap();
    let mut ours = generate(&HssSecret::new(levels.clone(), id, &private[16..][..n]).unwrap());
    assert_eq!(ours.verify_key().bytes(), public, "{label}");
    for index in 0..3u64 {
        let message: [u8; 40] = random(&label, index as usize);
        assert_eq!(theirs.private.borrow()[..8], index.to_be_bytes(), "{label}");
        let signature = theirs.sign(&message, len);
        let same = ours.testing_only_sign_at(index, &[&message]).unwrap();
        assert!(same[0] == signature, "{label}, index {index}");
        compared += 1 + same_verdicts(&theirs, &public, &message, &signature, &label);
    }
    // A key that wolfSSL has not made, from its first index to its last.
    let seed: [u8; 32] = random(&label, 7);
    let mut ours = generate(&HssSecret::new(levels, random(&label, 8), &seed[..n]).unwrap());
    let mut theirs = Key::new(wolf, set.id).unwrap();
    let public = ours.verify_key().bytes().to_vec();
    theirs.import(&public);
    let border = 1u64 << set.lms.h;
    let last = ours.signatures() - 1;
    for index in [0, border - 1, border.min(last), last] {
        let message: [u8; 33] = random(&label, index as usize);
        let signature = ours.testing_only_sign_at(index, &[&message]).unwrap();
        compared += same_verdicts(&theirs, &public, &message, &signature[0], &label);
    }
    compared
}

/// A key that wolfSSL made and signed with, imported with its files: it signs at the next index as wolfSSL does, and behind
/// a margin as wolfSSL does there.
fn imported(wolf: &Wolf, set: &ParameterSet) {
    let label = set.name();
    let mut theirs = Key::new(wolf, set.id).unwrap();
    theirs.make();
    let len = Levels::new(&vec![(set.lms, set.ots); set.levels]).unwrap().signature_len();
    for index in 0..5 {
        theirs.sign(&random::<20>(&label, index), len);
    }
    let private = theirs.private.borrow().clone();
    let Foreign { secret, next } = Foreign::decode(&private).unwrap();
    assert_eq!(next, 5, "{label}");
    let (around, engine) = (Environment::real(), Engine::global().unwrap());
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let made = GeneratedKey::from_secret(engine, secret, NonZero::<usize>::MIN, &mut go_on);
    let made = made.unwrap().unwrap();
    assert_eq!(made.public(), theirs.public(), "{label}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("keys")).unwrap();
    let mut next = next;
    for margin in [0, 3] {
        let key = folder.path().join(format!("keys/{margin}"));
        let making = KeyFileOptions {
            key: &key,
            passphrase: None,
            encoding: Encoding::Hss,
            next: next + margin,
            warn_at: None,
            anchors: &[folder.path().join(format!("home/{margin}"))],
            allow_network: true,
            note: "imported",
        };
        made.write(&around, &making).unwrap();
        let signer = Signer::open(&around, engine, &key, None, &SignerOptions::default()).unwrap();
        for _ in 0..margin {
            // Signatures that are skipped here are not recorded there.
            theirs.sign(b"not remembered", len);
        }
        for round in 0..2 {
            let message: [u8; 40] = random(&label, 100 + round);
            let ours = signer.sign(&[Request { message: &message, id: None }]).unwrap().remove(0);
            let signature = theirs.sign(&message, len);
            assert!(ours.bytes == signature, "{label}, index {}", ours.index);
            assert!(theirs.verifies(&message, &ours.bytes), "{label}");
            next = ours.index + 1;
        }
        signer.close().unwrap();
    }
    assert_eq!(next, 5 + 2 + 3 + 2);
}

/// NIST's signatures of a set, as pqc-kat has them.
fn of_nist(wolf: &Wolf, set: &ParameterSet) -> usize {
    let hash = if set.lms.family == LmsFamily::Sha256 { "SHA256" } else { "SHAKE" };
    let path = format!("pqc-kat/LMS/LMS-sigGen-1.0-{hash}-M{}-H{}.json", set.lms.n, set.lms.h);
    let Some(file) = vectors::json(&path) else { return 0 };
    let mut compared = 0;
    let is_its = |group: &&serde_json::Value| {
        (text(&group["lmsMode"]), text(&group["lmOtsMode"])) == (set.lms.name, set.ots.name)
    };
    for group in list(&file["testGroups"]).iter().filter(is_its) {
        let public = [&[0, 0, 0, 1], &hex(&group["publicKey"])[..]].concat();
        let mut theirs = Key::new(wolf, set.id).unwrap();
        theirs.import(&public);
        for test in list(&group["tests"]).iter().take(2) {
            let (message, signature) = (hex(&test["message"]), hex(&test["signature"]));
            let signature = [&[0; 4], &signature[..]].concat();
            compared += same_verdicts(&theirs, &public, &message, &signature, &set.name());
        }
    }
    compared
}

/// Every set of a hash function.
fn every_set(hash: usize) {
    let Some(wolf) = Wolf::load() else { return };
    let most = match (soak(), std::env::var_os("GABION_TEST_NEEDS_WOLFSSL")) {
        (Some(_), _) => SOAK,
        (None, Some(_)) => LONG,
        (None, None) => QUICK,
    };
    let (_, family, n) = HASHES[hash];
    let (mut sets, mut made, mut compared) = (0, 0, 0);
    for id in 1..256 {
        let Some(set) = Key::new(&wolf, id).map(|key| key.set(id)) else { continue };
        if (set.lms.family, set.lms.n) != (family, n) {
            continue;
        }
        sets += 1;
        // SHAKE has no lanes there.
        let costs = if family == LmsFamily::Shake256 { 4 } else { 1 };
        if set.hashes() * costs <= most {
            made += 1;
            compared += both_ways(&wolf, &set);
        } else if set.levels == 1 && set.lms.h >= 15 {
            compared += of_nist(&wolf, &set);
        }
    }
    assert!(sets >= 20 && made >= 6, "{sets} sets, {made} of them made");
    println!("keys were made of {made} of wolfSSL's {sets} sets of this hash");
    tally(Algorithm::Hss, "wolfSSL", compared);
}

#[test]
fn hss_of_sha256_is_that_of_wolfssl() {
    every_set(0);
}

#[test]
fn hss_of_sha256_with_24_bytes_is_that_of_wolfssl() {
    every_set(1);
}

#[test]
fn hss_of_shake256_is_that_of_wolfssl() {
    every_set(2);
}

#[test]
fn hss_of_shake256_with_24_bytes_is_that_of_wolfssl() {
    every_set(3);
}

#[test]
fn keys_of_wolfssl_are_imported_and_go_on() {
    let Some(wolf) = Wolf::load() else { return };
    let sets = (1..256).filter_map(|id| Key::new(&wolf, id).map(|key| key.set(id)));
    let low: Vec<ParameterSet> = sets.filter(|set| set.hashes() <= 2_000_000).collect();
    low.iter().for_each(|set| imported(&wolf, set));
    let has = |n, levels| low.iter().any(|set| (set.lms.n, set.levels) == (n, levels));
    assert!(has(24, 1) && has(32, 1) && has(32, 2), "{} sets", low.len());
}
