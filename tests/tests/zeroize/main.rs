//! No freed memory holds a secret.
//!
//! ```text
//!   Recorder (kernels)  --windows of every secret value-->          TABLE
//!   Watch (allocator)   --every freed block, before it is freed-->  in TABLE? --> HITS
//! ```
//!
//! The kernels are watched, so that each intermediate value is searched for, and not only keys:
//! this holds for ML-KEM and ML-DSA. The other families have no such values at a kernel's border,
//! or are other people's crates; of them the keys, the randomness and the values that the tests
//! derive are searched for. Values that the standard makes public are removed from the hits at the
//! end. Every instruction set of the machine is watched. Stacks and registers are not seen, except
//! those that [`curves`] examines.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::Future;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};

use curve25519_dalek::scalar::{Scalar, clamp_integer};
use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, Cpu, Dsa, Kem, Keys, Operation};
use gabion_engine::{
    Algorithm, Config, Engine, Entropy, EntropyError, Family, KemPrivateKey, KeyCache, Limits,
    Message, Queue, SharedSecret, Status, Ticket, ml_dsa, ml_kem,
};
use gabion_scheme::kernels::{KemPoly, Kernels};
use recorder::{IS_KEM, Recorder};
use sha2::{Digest, Sha512};
use sha3::Sha3_256;

#[cfg(target_arch = "x86_64")]
mod curves;
mod recorder;
mod stateful;

/// The algorithm or key store whose secrets are searched for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretSource {
    MlKem,
    MlDsa,
    SlhDsa,
    /// Every other family: keys and randomness.
    Keys,
}

impl SecretSource {
    /// Bytes that are looked for at a time, from every eighth of a secret on, and anywhere: an array
    /// of bytes may begin at an odd place of the value it is in. SK.seed has 16 bytes. Others
    /// have 32 and more, and shorter windows would find what a value that is moved to the heap takes
    /// along from the stack in those of its bytes that are not in use.
    fn window(self) -> usize {
        if self == SecretSource::SlhDsa { 16 } else { 32 }
    }
}

/// Bytes of a window in the running test.
static WINDOW: AtomicUsize = AtomicUsize::new(32);
const SLOTS: usize = 1 << 20;
const HITS_MAX: usize = 4096;

/// Hashes of the secret windows, open addressing; 0 is free. Memory that no allocation touches.
static TABLE: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
/// Hash, and size of the block and place in it, of each find.
static HITS: [[AtomicU64; 2]; HITS_MAX] =
    [const { [AtomicU64::new(0), AtomicU64::new(0)] }; HITS_MAX];
static HITS_LEN: AtomicUsize = AtomicUsize::new(0);
static RECORDING: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether blocks that this thread frees and that are not all zero are counted, and how many were.
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static LEFT: Cell<usize> = const { Cell::new(0) };
}

/// Returns whether a window says anything. One of fewer than five different bytes does not: small
/// polynomials have such ones in common with lists of pointers and lengths.
fn is_telling(window: &[u8]) -> bool {
    let mut seen = [0u64; 4];
    for &byte in window {
        seen[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
    seen.iter().map(|set| set.count_ones()).sum::<u32>() >= 5
}

/// A hash of one window, not 0. Each word is mixed by MurmurHash3's last steps: one product and one shift
/// gave windows of small numbers, some with the other sign, the same hash.
fn hash(window: &[u8]) -> u64 {
    let (words, _) = window.as_chunks::<8>();
    let mixed = words.iter().fold(0x9e37_79b9_7f4a_7c15, |hash: u64, word| {
        let mut mixed = hash ^ u64::from_le_bytes(*word);
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        mixed ^ (mixed >> 33)
    });
    mixed.max(1)
}

/// The windows at every `step`th place.
fn windows(bytes: &[u8], step: usize) -> impl Iterator<Item = (usize, &[u8])> {
    bytes.windows(WINDOW.load(Relaxed)).enumerate().step_by(step)
}

/// The slot of a hash: where it is, or where it would go.
fn slot(hash: u64) -> (&'static AtomicU64, bool) {
    let mut at = hash as usize % SLOTS;
    loop {
        match TABLE[at].load(Relaxed) {
            0 => return (&TABLE[at], false),
            found if found == hash => return (&TABLE[at], true),
            _ => at = (at + 1) % SLOTS,
        }
    }
}

/// These bytes are secret from here on.
fn record(bytes: &[u8]) {
    if RECORDING.load(Relaxed) {
        for (_, window) in windows(bytes, 8).filter(|(_, window)| is_telling(window)) {
            let hash = hash(window);
            slot(hash).0.store(hash, Relaxed);
        }
    }
}

/// The system's allocator, but each block is searched before it is freed.
struct Watch;

#[global_allocator]
static WATCH: Watch = Watch;

/// The block size in GABION_ZEROIZE_TRACE: who frees such a block with a secret is printed, once.
fn traced() -> Option<usize> {
    std::env::var("GABION_ZEROIZE_TRACE").ok()?.parse().ok()
}

fn search(block: &[u8]) {
    for (at, window) in windows(block, 1) {
        let hash = hash(window);
        if slot(hash).1 {
            let hit = HITS_LEN.fetch_add(1, Relaxed);
            if traced() == Some(block.len()) {
                RECORDING.store(false, Relaxed);
                eprintln!("{}", std::backtrace::Backtrace::force_capture());
            }
            if let Some([one, two]) = HITS.get(hit) {
                one.store(hash, Relaxed);
                two.store((block.len() as u64) << 32 | at as u64, Relaxed);
            }
        }
    }
}

// SAFETY: every call goes to the system's allocator; a block that is freed is read first, while it
// is still allocated. The default `realloc` frees through this `dealloc`.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Zeroed, so that reading a block is defined and an old secret is not found twice.
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        let (recording, counting) = (RECORDING.load(Relaxed), COUNTING.get());
        if recording || counting {
            // SAFETY: the caller says that the block is allocated with this layout, and `alloc`
            // initialised all of it.
            let block = unsafe { std::slice::from_raw_parts(block, layout.size()) };
            if recording {
                search(block);
            }
            if counting && block.iter().any(|&byte| byte != 0) {
                LEFT.set(LEFT.get() + 1);
            }
        }
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(block, layout) };
    }
}

/// The operating system's randomness, with a record of its output.
struct RecordingEntropy;

impl Entropy for RecordingEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        getrandom::fill(out).map_err(|error| EntropyError(error.to_string()))?;
        record(out);
        Ok(())
    }
}

/// Runs `work` over every backend, as [`watched_on`] does, and returns the hits of all.
fn watched(
    of: SecretSource,
    work: impl Fn(&'static Engine, &mut Vec<u8>) + Sync,
) -> Vec<(u64, u64)> {
    engines().iter().flat_map(|engine| watched_on(engine, of, &work)).collect()
}

/// Runs `work` in a separate thread, with everything recorded until the thread has ended and its
/// working memory is freed. Returns the hits, as (block size, place), that `work` did not name
/// public. Blocks that `work` returns are freed by the caller, unwatched.
fn watched_on(
    engine: &'static Engine,
    of: SecretSource,
    work: impl FnOnce(&'static Engine, &mut Vec<u8>) + Send,
) -> Vec<(u64, u64)> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    IS_KEM.store(of == SecretSource::MlKem, Relaxed);
    WINDOW.store(of.window(), Relaxed);
    HITS_LEN.store(0, Relaxed);
    TABLE.iter().for_each(|slot| slot.store(0, Relaxed));
    let mut public = Vec::new();
    std::thread::scope(|scope| {
        let ended = scope.spawn(|| {
            RECORDING.store(true, Relaxed);
            work(engine, &mut public);
        });
        // Joining waits until the thread's own storage is destroyed.
        ended.join().expect("the operations succeed");
    });
    RECORDING.store(false, Relaxed);
    let public: std::collections::HashSet<u64> =
        windows(&public, 1).map(|(_, window)| hash(window)).collect();
    let hits = HITS.iter().take(HITS_LEN.load(Relaxed));
    hits.map(|[hash, place]| (hash.load(Relaxed), place.load(Relaxed)))
        .filter(|(hash, _)| !public.contains(hash))
        .map(|(_, place)| (place >> 32, place & 0xffff_ffff))
        .collect()
}

/// An engine for each instruction set that this machine has, over watched kernels, self-tested.
fn engines() -> &'static [Engine] {
    static ENGINES: OnceLock<Vec<Engine>> = OnceLock::new();
    ENGINES.get_or_init(|| {
        let mut backends: Vec<Box<dyn Backend>> = vec![Box::new(Cpu::new(Recorder(Portable)))];
        #[cfg(target_arch = "x86_64")]
        {
            use gabion_backend::{avx2::Avx2, avx512::Avx512};
            backends.extend(Avx2::detect().map(|k| Box::new(Cpu::new(Recorder(k))) as _));
            backends.extend(Avx512::detect().map(|k| Box::new(Cpu::new(Recorder(k))) as _));
        }
        let engine = |backend| {
            let engine = Engine::with_backends(vec![backend], &Config::default());
            let engine = engine.expect("a backend");
            engine.report();
            engine
        };
        backends.into_iter().map(engine).collect()
    })
}

/// Runs one operation in a separate thread, whose working memory has to grow for it.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}

/// Makes `bytes` public, from a multiple of 8 on.
fn publish(public: &mut Vec<u8>, bytes: &[u8]) {
    public.resize(public.len().next_multiple_of(8), 0);
    public.extend_from_slice(bytes);
}

fn polys_of(pk: &[u8], public: &mut Vec<u8>) {
    for part in pk[..pk.len() - 32].chunks_exact(384) {
        let mut poly = KemPoly::default();
        Portable.kem_decode12(part, std::slice::from_mut(&mut poly));
        let bytes: Vec<u8> = poly.0.iter().flat_map(|x| x.to_le_bytes()).collect();
        publish(public, &bytes);
    }
}

/// Decapsulates; the secret stays in its place on the heap, which is wiped when it is freed.
fn decaps(engine: &Engine, key: &KemPrivateKey, ct: &[u8]) -> Box<SharedSecret> {
    alone(|| Box::new(engine.decaps(key, ct).expect("decaps")))
}

fn run_kem(engine: &Engine, algorithm: Algorithm, public: &mut Vec<u8>) {
    let key = alone(|| engine.kem_generate(algorithm, &RecordingEntropy)).expect("keygen");
    record(key.bytes());
    publish(public, key.public().bytes());
    polys_of(key.public().bytes(), public);
    publish(public, key.public().ml_kem().expect("an ML-KEM key").hash());
    let mut shared = Box::new([0u8; 32]);
    let ct = alone(|| {
        let (ct, secret) = engine.encaps(&key.public(), &RecordingEntropy).expect("encaps");
        shared.copy_from_slice(&secret);
        ct
    });
    publish(public, &ct);
    let opened = decaps(engine, &key, &ct);
    assert_eq!(shared[..], opened[..]);
    let mut bad = ct.clone();
    bad[0] ^= 1;
    publish(public, &bad);
    decaps(engine, &key, &bad);
    // The expanded form, and one whose hash is wrong.
    let again = alone(|| engine.kem_private(algorithm, key.bytes())).expect("decode");
    assert_eq!(decaps(engine, &again, &ct)[..], shared[..]);
    gabion_engine::ct::wipe(&mut shared[..]);
    let mut wrong = key.bytes().to_vec();
    let hash_at = wrong.len() - 64;
    wrong[hash_at] ^= 1;
    assert!(alone(|| engine.kem_private(algorithm, &wrong)).is_err());
    wrong.fill(0); // The caller's own copy.
}

/// Runs a batch of three lanes, all of which succeed.
fn run_batch(engine: &Engine, operation: Operation<'_>) {
    let mut status = [Status::NotRun; 3];
    let status = &mut status;
    alone(|| engine.run(&mut Batch { operation, status })).expect("a batch");
    assert!(status.iter().all(|status| status.is_ok()));
}

/// Batches with encoded keys: keys made, used and dropped inside.
fn run_kem_batches(engine: &Engine, p: &'static ml_kem::Params, public: &mut Vec<u8>) {
    const N: usize = 3;
    let mut seeds = [[0u8; 64]; N];
    RecordingEntropy.fill(seeds.as_flattened_mut()).expect("randomness");
    let (mut ek, mut dk) = (vec![0; N * p.ek_len()], vec![0; N * p.dk_len()]);
    let (seeds, params) = (&seeds, p);
    run_batch(engine, Operation::Kem(Kem::Keygen { params, seeds, ek: &mut ek, dk: &mut dk }));
    let mut ct = vec![0; N * p.ct_len()];
    let mut shared = [[0; 32]; N];
    let m: [[u8; 32]; N] = std::array::from_fn(|lane| {
        let mut m = [lane as u8; 32];
        RecordingEntropy.fill(&mut m).expect("randomness");
        m
    });
    let (keys, m) = (Keys::Fresh(&ek), &m);
    run_batch(
        engine,
        Operation::Kem(Kem::Encaps { params, keys, m, ct: &mut ct, shared: &mut shared }),
    );
    let keys = Keys::Fresh(&dk);
    run_batch(engine, Operation::Kem(Kem::Decaps { params, keys, ct: &ct, shared: &mut shared }));
    for ek in ek.chunks_exact(p.ek_len()) {
        publish(public, ek);
        polys_of(ek, public);
    }
    publish(public, &ct);
    dk.fill(0); // The caller's own copy.
}

fn run_dsa(engine: &Engine, algorithm: Algorithm, public: &mut Vec<u8>) {
    let key = alone(|| engine.signature_generate(algorithm, &RecordingEntropy)).expect("keygen");
    record(key.bytes());
    publish(public, key.public().bytes());
    let p = ml_dsa::params(algorithm).expect("an ML-DSA set");
    publish(public, key.public().ml_dsa().expect("an ML-DSA key").tr());
    let message = Message::Pure { context: b"", message: b"zeroise" };
    for _ in 0..4 {
        let sig = alone(|| engine.sign(&key, message, &RecordingEntropy)).expect("sign");
        publish_signature(&sig, p, public);
    }
    let again = alone(|| engine.signature_private(algorithm, key.bytes())).expect("decode");
    let sig = alone(|| engine.sign_deterministic(&again, message)).expect("sign");
    publish_signature(&sig, p, public);
    let mut wrong = key.bytes().to_vec();
    wrong[64] ^= 1; // tr
    assert!(alone(|| engine.signature_private(algorithm, &wrong)).is_err());
    wrong.fill(0); // The caller's own copy.
}

fn publish_signature(sig: &[u8], p: &ml_dsa::Params, public: &mut Vec<u8>) {
    assert_eq!(sig.len(), p.sig_len());
    publish(public, sig);
}

fn run_dsa_batches(engine: &Engine, p: &'static ml_dsa::Params, public: &mut Vec<u8>) {
    const N: usize = 3;
    let mut seeds = [[0u8; 32]; N];
    RecordingEntropy.fill(seeds.as_flattened_mut()).expect("randomness");
    let (mut pk, mut sk) = (vec![0; N * p.pk_len()], vec![0; N * p.sk_len()]);
    let (seeds, params) = (&seeds, p);
    run_batch(engine, Operation::Dsa(Dsa::Keygen { params, seeds, pk: &mut pk, sk: &mut sk }));
    let mut rnd = [[0u8; 32]; N];
    RecordingEntropy.fill(rnd.as_flattened_mut()).expect("randomness");
    let mut sig = vec![0; N * p.sig_len()];
    let message = Message::Pure { context: b"", message: b"zeroise" };
    let (keys, rnd) = (Keys::Fresh(&sk), &rnd);
    run_batch(
        engine,
        Operation::Dsa(Dsa::Sign { params, keys, messages: &[message; N], rnd, sig: &mut sig }),
    );
    for (pk, sk) in pk.chunks_exact(p.pk_len()).zip(sk.chunks_exact(p.sk_len())) {
        publish(public, pk);
        publish(public, &sk[64..128]); // tr
    }
    for sig in sig.chunks_exact(p.sig_len()) {
        publish_signature(sig, p, public);
    }
    sk.fill(0); // The caller's own copy.
}

/// Records a private key, and its parts where they begin in it: who takes them out of it puts them
/// at a place of their own.
fn record_private(algorithm: Algorithm, bytes: &[u8]) {
    // Without what is public at the end: a window of one coefficient, often zero, and 31 bytes of the public key's
    // hash stands in the public key, too, where a zero comes before the hash.
    let bytes = &bytes[..bytes.len() - public_end(algorithm)];
    record(bytes);
    match algorithm.info().family {
        Family::Hybrid if bytes.len() > 32 => {
            let first = algorithm.info().part_algorithms().next().expect("a part");
            let (first, second) = bytes.split_at(first.info().private_key.max());
            record(first);
            record(second);
        }
        Family::Composite => record(&bytes[32..]),
        // F, whose coefficients have a byte each, stands at the end.
        Family::FnDsa => {
            let end = bytes.len();
            record(&bytes[end - ((end / 2) & !511)..]);
        }
        Family::MlKem
        | Family::MlDsa
        | Family::SlhDsa
        | Family::Ed25519
        | Family::Hss
        | Family::Xmss
        | Family::Ecdh
        | Family::Ecdsa
        | Family::Hybrid => {}
    }
}

/// Returns how much of a private key's end is public: FN-DSA's holds a hash of the public key.
fn public_end(algorithm: Algorithm) -> usize {
    if algorithm.name().starts_with("FN-DSA") { 64 } else { 0 }
}

/// Keys made, read and used; all that depends on the private key and is not in the signature.
fn run_signatures(engine: &Engine, algorithm: Algorithm, public: &mut Vec<u8>) {
    let key = alone(|| engine.signature_generate(algorithm, &RecordingEntropy)).expect("keygen");
    record_private(algorithm, key.bytes());
    publish(public, key.public_bytes());
    publish(public, &key.bytes()[key.bytes().len() - public_end(algorithm)..]);
    let message = Message::Pure { context: b"", message: b"zeroise this" };
    let again = alone(|| engine.signature_private(algorithm, key.bytes())).expect("decode");
    for key in [&key, &again] {
        if algorithm.info().family == Family::Ed25519 {
            record_ed25519(key.bytes(), b"zeroise this");
        }
        let sig = alone(|| engine.sign(key, message, &RecordingEntropy)).expect("sign");
        publish(public, &sig);
    }
    let three =
        alone(|| engine.signature_generate_many(algorithm, 3, &RecordingEntropy)).expect("keygen");
    for key in three {
        record_private(algorithm, key.bytes());
        publish(public, key.public_bytes());
        publish(public, &key.bytes()[key.bytes().len() - public_end(algorithm)..]);
    }
}

/// The scalar, the prefix and the nonce that RFC 8032, section 5.1.6, makes of a seed.
fn record_ed25519(seed: &[u8], message: &[u8]) {
    let digest = Sha512::digest(seed);
    record(&digest);
    let scalar = digest[..32].try_into().expect("a half of it");
    record(&Scalar::from_bytes_mod_order(clamp_integer(scalar)).to_bytes());
    let nonce = Sha512::new().chain_update(&digest[32..]).chain_update(message).finalize();
    record(&nonce);
    record(&Scalar::from_bytes_mod_order_wide(&nonce.into()).to_bytes());
}

/// Keys of a key exchange, alone and in lanes, and their secrets.
fn run_exchange(engine: &Engine, algorithm: Algorithm, public: &mut Vec<u8>) {
    let one = alone(|| engine.exchange_generate(algorithm, &RecordingEntropy)).expect("keygen");
    let many =
        alone(|| engine.exchange_generate_many(algorithm, 3, &RecordingEntropy)).expect("keygen");
    let again = alone(|| engine.exchange_private(algorithm, one.bytes())).expect("decode");
    let mut seen = Box::new([0u8; 66]);
    let seen = &mut seen[..algorithm.info().shared_secret];
    for key in &many {
        record(key.bytes());
        publish(public, key.public_bytes());
        alone(|| {
            let secret = engine.derive(&again, &key.public()).expect("derive");
            record(&secret);
            seen.copy_from_slice(&secret);
        });
        let other = alone(|| engine.derive(key, &one.public()).map(Box::new)).expect("derive");
        assert_eq!(other[..], seen[..]);
    }
    publish(public, one.public_bytes());
    gabion_engine::ct::wipe(seen);
    let public = one.public();
    let lanes: Vec<_> = many.iter().map(|key| (key, &public)).collect();
    let mut secrets = alone(|| engine.derive_many(&lanes)).expect("derive");
    assert!(secrets.iter().all(Result::is_ok));
    secrets.clear();
}

/// A KEM combined with a curve: both private keys, both secrets, and the values derived from them.
fn run_hybrid(engine: &Engine, algorithm: Algorithm, public: &mut Vec<u8>) {
    let key = alone(|| engine.kem_generate(algorithm, &RecordingEntropy)).expect("keygen");
    record_private(algorithm, key.bytes());
    let parts: Vec<Algorithm> = algorithm.info().part_algorithms().collect();
    let kem_first = parts[0].info().family == Family::MlKem;
    let kem = parts[usize::from(!kem_first)];
    // ML-KEM's part is copied to a separate buffer once it is extracted.
    let part = |bytes: &[u8], len: usize| match kem_first {
        true => bytes[..len].to_vec(),
        false => bytes[bytes.len() - len..].to_vec(),
    };
    let ek = &part(key.public_bytes(), kem.info().public_key.max())[..];
    publish(public, ek);
    publish(public, key.public_bytes());
    publish(public, &Sha3_256::digest(ek));
    polys_of(ek, public);
    let mut seen = Box::new([0u8; 98]);
    let seen = &mut seen[..algorithm.info().shared_secret];
    let ct = alone(|| {
        let (ct, secret) = engine.encaps(&key.public(), &RecordingEntropy).expect("encaps");
        record(&secret);
        // ML-KEM's secret and the curve's, where they are side by side.
        let [first, last] = [32, secret.len() - 32].map(|at| at.min(secret.len() - 32));
        record(&secret[first..]);
        record(&secret[last..]);
        seen.copy_from_slice(&secret);
        ct
    });
    publish(public, &ct);
    publish(public, &part(&ct, kem.info().output.max()));
    let opened = decaps(engine, &key, &ct);
    assert_eq!(seen[..], opened[..]);
    gabion_engine::ct::wipe(seen);
    let again = alone(|| engine.kem_private(algorithm, key.bytes())).expect("decode");
    decaps(engine, &again, &ct);
}

/// Randomness that is the same each time, so that what is made of it is known before it is made.
struct FixedEntropy;

impl Entropy for FixedEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        out.iter_mut().enumerate().for_each(|(at, byte)| *byte = 11 + 7 * (at % 16) as u8);
        Ok(())
    }
}

/// Runs `work` on a queue where more threads want to run than may, each many times; then on one with
/// workers. Both are gone when it returns, and their threads with them.
fn queues(engine: &'static Engine, work: impl Fn(&Queue, bool) + Sync) {
    let limits = Limits { leaders_max: NonZero::<usize>::MIN, ..Limits::default() };
    let queue = Queue::new(engine, FixedEntropy, limits);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| work(&queue, false)));
        }
    });
    let queue = Queue::new(engine, FixedEntropy, limits).with_workers(NonZero::<usize>::MIN);
    (0..5).for_each(|_| work(queue.as_ref().expect("a thread"), true));
}

/// Fetches the result of each ticket in another way; `check` sees them.
fn fetch<T: Send + 'static>(tickets: [Ticket<T>; 4], check: impl Fn(T) + Send + Sync + 'static) {
    let [waited, mut polled, awaited, told] = tickets;
    let check = Arc::new(check);
    check(waited.wait().expect("the job succeeds"));
    let result = loop {
        if let Some(result) = polled.poll() {
            break result;
        }
        std::thread::yield_now();
    };
    check(result.expect("the job succeeds"));
    let mut awaited = std::pin::pin!(awaited);
    let mut context = Context::from_waker(Waker::noop());
    let result = loop {
        if let Poll::Ready(result) = awaited.as_mut().poll(&mut context) {
            break result;
        }
        std::thread::yield_now();
    };
    check(result.expect("the job succeeds"));
    told.then(move |result| check(result.expect("the job succeeds")));
}

/// A KEM by every door for many: queue, tickets, several threads, a cached key.
fn run_kem_doors(engine: &'static Engine, algorithm: Algorithm, public: &mut Vec<u8>) {
    let key = alone(|| engine.kem_generate(algorithm, &RecordingEntropy)).expect("keygen");
    record_private(algorithm, key.bytes());
    let kem =
        if algorithm.info().family == Family::Hybrid { Algorithm::MlKem768 } else { algorithm };
    let ek = &key.public_bytes()[..kem.info().public_key.max()];
    for bytes in [ek, key.public_bytes(), &Sha3_256::digest(ek)] {
        publish(public, bytes);
    }
    polys_of(ek, public);
    let (ct, shared) = engine.encaps(&key.public(), &FixedEntropy).expect("encaps");
    record(&shared);
    publish(public, &ct);
    let shared = Arc::new(shared);
    queues(engine, |queue, with_workers| {
        if !with_workers {
            assert_eq!(queue.decaps(&key, &ct).expect("decaps"), *shared);
            assert_eq!(queue.encaps(&key.public()).expect("encaps").1, *shared);
            return;
        }
        let expected = Arc::clone(&shared);
        let opened = std::array::from_fn(|_| queue.submit_decaps(&key, &ct).expect("room"));
        fetch(opened, move |secret| assert_eq!(secret, *expected));
        let expected = Arc::clone(&shared);
        let made = std::array::from_fn(|_| queue.submit_encaps(&key.public()).expect("room"));
        fetch(made, move |(_, secret)| assert_eq!(secret, *expected));
    });
    const N: usize = 2 * 64; // Where a second thread begins.
    let cores = engine.parallel(NonZero::<usize>::MIN.saturating_add(1));
    let mut secrets = vec![0; N * shared.len()];
    let mut status = [Status::NotRun; N];
    let (mut cts, keys) = (vec![0; N * ct.len()], [&key; N]);
    let cache = KeyCache::new(1 << 20);
    let ek = cache.kem_public(engine, algorithm, key.public_bytes()).expect("a key");
    cores
        .encaps_many(&[&ek; N], &FixedEntropy, &mut cts, &mut secrets, &mut status)
        .expect("encaps");
    cores.decaps_many(&keys, &cts, &mut secrets, &mut status).expect("decaps");
    assert!(secrets.chunks_exact(shared.len()).all(|secret| *secret == shared[..]));
    gabion_engine::ct::wipe(&mut secrets);
}

/// A key exchange by the same doors.
fn run_exchange_doors(engine: &'static Engine, algorithm: Algorithm, public: &mut Vec<u8>) {
    let [one, other] = [(); 2].map(|()| {
        let key = alone(|| engine.exchange_generate(algorithm, &RecordingEntropy)).expect("keygen");
        record(key.bytes());
        publish(public, key.public_bytes());
        key
    });
    let peer = other.public();
    let shared = Arc::new(engine.derive(&one, &peer).expect("derive"));
    record(&shared);
    queues(engine, |queue, with_workers| {
        if !with_workers {
            assert_eq!(queue.derive(&one, &peer).expect("derive"), *shared);
            return;
        }
        let expected = Arc::clone(&shared);
        let tickets = std::array::from_fn(|_| queue.submit_derive(&one, &peer).expect("room"));
        fetch(tickets, move |secret| assert_eq!(secret, *expected));
    });
    let lanes = [(&one, &peer); 2 * 64];
    let cores = engine.parallel(NonZero::<usize>::MIN.saturating_add(1));
    for secrets in [engine.derive_many(&lanes[..9]), cores.derive_many(&lanes)] {
        // Taken one by one, as a caller may who keeps some.
        for secret in secrets.expect("derive") {
            assert_eq!(secret.expect("a secret"), *shared);
        }
    }
}

/// Keys of every kind made by a queue.
fn run_keys_of_queues(engine: &'static Engine, algorithm: Algorithm, public: &mut Vec<u8>) {
    let limits = Limits { leaders_max: NonZero::<usize>::MIN, ..Limits::default() };
    let queue = Queue::new(engine, RecordingEntropy, limits).with_workers(NonZero::<usize>::MIN);
    let queue = queue.expect("a thread");
    let message = Message::Pure { context: b"", message: b"zeroise this" };
    for _ in 0..3 {
        let tickets: Vec<_> =
            (0..5).map(|_| queue.submit_signature_generate(algorithm).expect("room")).collect();
        for ticket in tickets {
            let key = ticket.wait().expect("keygen");
            record_private(algorithm, key.bytes());
            publish(public, key.public_bytes());
            if algorithm.info().family == Family::MlDsa {
                publish(public, &key.bytes()[64..128]); // tr
            }
            let ticket = queue.submit_sign(&key, message).expect("room");
            publish(public, &ticket.wait().expect("sign"));
        }
    }
}

fn of_family(family: Family) -> impl Iterator<Item = Algorithm> {
    Algorithm::all().filter(move |algorithm| algorithm.info().family == family)
}

#[test]
fn windows_of_small_numbers_have_hashes_of_their_own() {
    // Every window of words that are 0, 1 or 2 in either half, and of either sign.
    let numbers = [0u32, 1, 2, 1u32.wrapping_neg(), 2u32.wrapping_neg()];
    let word = |i: usize| u64::from(numbers[i % 5]) << 32 | u64::from(numbers[i / 5]);
    let mut hashes = std::collections::HashSet::new();
    for i in 0..25usize.pow(4) {
        let words = [0, 1, 2, 3].map(|place| word(i / 25usize.pow(place) % 25).to_le_bytes());
        assert!(hashes.insert(hash(words.as_flattened())), "{words:?}");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_ml_kem() {
    for algorithm in of_family(Family::MlKem) {
        let hits =
            watched(SecretSource::MlKem, |engine, public| run_kem(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_ml_kem_batches() {
    for algorithm in of_family(Family::MlKem) {
        let p = ml_kem::params(algorithm).expect("an ML-KEM set");
        let hits =
            watched(SecretSource::MlKem, |engine, public| run_kem_batches(engine, p, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_ml_dsa() {
    for algorithm in of_family(Family::MlDsa) {
        let hits =
            watched(SecretSource::MlDsa, |engine, public| run_dsa(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_ml_dsa_batches() {
    for algorithm in of_family(Family::MlDsa) {
        let p = ml_dsa::params(algorithm).expect("an ML-DSA set");
        let hits =
            watched(SecretSource::MlDsa, |engine, public| run_dsa_batches(engine, p, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_slh_dsa() {
    // Quick sets of every size and both hashes: the small ones differ in numbers alone.
    for algorithm in of_family(Family::SlhDsa).filter(|algorithm| algorithm.name().ends_with('f')) {
        let hits = watched(SecretSource::SlhDsa, |engine, public| {
            run_signatures(engine, algorithm, public)
        });
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_ed25519() {
    for algorithm in of_family(Family::Ed25519) {
        let hits =
            watched(SecretSource::Keys, |engine, public| run_signatures(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_ecdsa() {
    for algorithm in of_family(Family::Ecdsa) {
        let hits =
            watched(SecretSource::Keys, |engine, public| run_signatures(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_key_exchanges() {
    for algorithm in of_family(Family::Ecdh) {
        let hits =
            watched(SecretSource::Keys, |engine, public| run_exchange(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_fn_dsa() {
    for algorithm in of_family(Family::FnDsa) {
        let hits =
            watched(SecretSource::Keys, |engine, public| run_signatures(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_hybrids() {
    for algorithm in of_family(Family::Hybrid) {
        let hits =
            watched(SecretSource::MlKem, |engine, public| run_hybrid(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_composites() {
    // RSA's numbers belong to its crate, which wipes its memory.
    for algorithm in
        of_family(Family::Composite).filter(|algorithm| !algorithm.name().contains("RSA"))
    {
        let hits =
            watched(SecretSource::Keys, |engine, public| run_signatures(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn freed_memory_holds_no_secret_of_queues_and_threads() {
    for algorithm in [Algorithm::MlKem768, Algorithm::SecP256r1MlKem768, Algorithm::XWing] {
        let hits =
            watched(SecretSource::MlKem, |engine, public| run_kem_doors(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
    for algorithm in of_family(Family::Ecdh) {
        let hits = watched(SecretSource::Keys, |engine, public| {
            run_exchange_doors(engine, algorithm, public)
        });
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
    for algorithm in [Algorithm::MlDsa44, Algorithm::Ed25519, Algorithm::EcdsaP384] {
        let of =
            if algorithm == Algorithm::MlDsa44 { SecretSource::MlDsa } else { SecretSource::Keys };
        let hits = watched(of, |engine, public| run_keys_of_queues(engine, algorithm, public));
        assert_eq!(hits, [], "{algorithm}: (size, place) in freed blocks");
    }
}

#[test]
fn a_secret_that_is_not_wiped_is_found() {
    let mut secret = vec![0u8; 200];
    let hits = watched_on(&engines()[0], SecretSource::MlKem, |_, _| {
        RecordingEntropy.fill(&mut secret).expect("randomness");
        drop(secret.clone());
        let mut wiped = secret.clone();
        gabion_engine::ct::wipe(&mut wiped);
    });
    let places: Vec<_> = (0..=168).step_by(8).map(|place| (200, place)).collect();
    assert_eq!(hits, places, "the unwiped copy, and not the wiped one");
    let hits = watched_on(&engines()[0], SecretSource::MlKem, |_, public| {
        drop(secret.clone());
        publish(public, &secret);
    });
    assert_eq!(hits, [], "nothing is recorded here");
}
