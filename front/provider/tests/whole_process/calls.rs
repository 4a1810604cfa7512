//! The rules by which programs call libcrypto from many threads, held by our provider and by the FIPS
//! module alike: contexts are made for a call and freed with it, the error queue is the thread's own
//! and empty after every call that was done, and keys are shared for reading only.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use gabion_provider_testing::libcrypto::{Context, Key, Params};
use gabion_provider_testing::{LIB, TestFolder};

use crate::turn;

/// A library context, the query that its provider is asked by, and what that provider has.
struct Mode {
    context: Context,
    query: &'static str,
    signatures: &'static [&'static str],
}

const STANDARD: [&str; 3] = ["ML-DSA-44", "ML-DSA-65", "SLH-DSA-SHA2-128f"];
const OURS: [&str; 6] = [
    "ML-DSA-44",
    "ML-DSA-65",
    "SLH-DSA-SHA2-128f",
    "Falcon-512",
    "HashML-DSA-44-with-SHA512",
    "MLDSA44-Ed25519-SHA512-draft19",
];

/// Returns Gabion's provider together with the default one; and the FIPS module, if this OpenSSL
/// has it.
fn modes(place: &TestFolder) -> Vec<Mode> {
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    let ours = Mode { context, query: "provider=gabion", signatures: &OURS };
    let fips = place.fips_configuration().map(|conf| Mode {
        context: Context::with_config(&LIB, &conf),
        query: "fips=yes",
        signatures: &STANDARD,
    });
    [Some(ours), fips].into_iter().flatten().collect()
}

/// Returns the number of rounds: fewer for slow signatures.
fn rounds(name: &str, many: usize) -> usize {
    if name.starts_with("SLH-DSA") { many.div_ceil(20) } else { many }
}

/// A message with its key and signature.
struct SignedMessage<'a> {
    name: &'static str,
    query: &'static str,
    key: Key<'a>,
    message: Vec<u8>,
    signature: Vec<u8>,
}

impl<'a> SignedMessage<'a> {
    fn new(mode: &'a Mode, name: &'static str) -> SignedMessage<'a> {
        let (query, none) = (mode.query, Params::default());
        let key = mode.context.generate(name, query, &none).expect(name);
        let provider = if query == "fips=yes" { "fips" } else { "gabion" };
        assert_eq!(key.provider(), provider, "{name}");
        let message = format!("a message for {name}").into_bytes();
        let signature = key.sign(name, query, &none, &message).expect(name);
        SignedMessage { name, query, key, message, signature }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.key.verify(self.name, self.query, &Params::default(), message, signature)
    }

    /// Makes a call of each kind, with separate contexts: successful ones, and signatures that do
    /// not verify.
    fn calls(&self) {
        let none = Params::default();
        let made = self.key.sign(self.name, self.query, &none, &self.message).unwrap();
        assert!(self.verifies(&self.message, &made), "{}", self.name);
        assert!(!self.verifies(b"another message", &made), "{}", self.name);
        assert!(!self.verifies(&self.message, &made[1..]), "{}", self.name);
        assert!(!self.verifies(&self.message, &[]), "{}", self.name);
    }
}

/// Bytes that this process has from malloc, in all arenas.
fn in_use() -> usize {
    // SAFETY: no argument.
    unsafe { libc::mallinfo2() }.uordblks
}

/// Returns the growth that is tolerated for so many rounds, of five calls each whose smallest
/// context takes more than 100 bytes: a few hundred bytes vary with the size of malloc's blocks.
fn flat(rounds: usize) -> usize {
    2048 + 50 * rounds
}

/// Returns the memory growth of so many rounds: the minimum of three runs, since malloc counts
/// freed blocks that it caches as in use, and signatures of SLH-DSA use blocks of any size. A leak
/// grows in every run.
fn growth(count: usize, rounds: impl Fn()) -> usize {
    let mut least = usize::MAX;
    for _ in 0..3 {
        let before = in_use();
        rounds();
        least = least.min(in_use().saturating_sub(before));
        if least < flat(count) {
            break;
        }
    }
    least
}

#[test]
fn a_call_leaves_no_context_behind() {
    let _turn = turn();
    let place = TestFolder::new();
    for mode in modes(&place) {
        for &name in mode.signatures {
            let signed = SignedMessage::new(&mode, name);
            let count = rounds(name, 200);
            // Data that is created once (scratch, caches) comes first.
            (0..count.min(20)).for_each(|_| signed.calls());
            LIB.take_errors();
            let more = growth(count, || {
                (0..count).for_each(|_| signed.calls());
                LIB.take_errors();
            });
            assert!(more < flat(count), "{} {name}: {more} bytes by {count} rounds", mode.query);
        }
        let key = mode.context.generate("ML-KEM-768", mode.query, &Params::default()).unwrap();
        let exchange = || {
            let (mut ct, secret) = key.encapsulate(mode.query, &Params::default()).unwrap();
            assert_eq!(key.decapsulate(mode.query, &ct), Some(secret));
            ct.pop();
            assert_eq!(key.decapsulate(mode.query, &ct), None);
            LIB.take_errors();
        };
        (0..20).for_each(|_| exchange());
        let more = growth(200, || (0..200).for_each(|_| exchange()));
        assert!(more < flat(200), "{} ML-KEM-768: {more} bytes", mode.query);
    }
}

/// Returns whether the queue says why a call failed, as far as that is ours: OpenSSL refuses some
/// lengths without a word.
fn says_why(mode: &Mode) -> bool {
    LIB.take_errors() > 0 || mode.query == "fips=yes"
}

/// Returns the number of errors that libcrypto itself queues when the default provider's signature
/// does not verify.
fn libcryptos_own(place: &TestFolder) -> usize {
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    let (stock, none) = ("provider=default", Params::default());
    let key = context.generate("ML-DSA-44", stock, &none).unwrap();
    let signature = key.sign("ML-DSA-44", stock, &none, b"message").unwrap();
    LIB.take_errors();
    assert!(!key.verify("ML-DSA-44", stock, &none, b"another message", &signature));
    LIB.take_errors()
}

#[test]
fn the_error_queue_is_empty_after_a_call_and_says_why_after_an_error() {
    let _turn = turn();
    let place = TestFolder::new();
    let own = libcryptos_own(&place);
    for mode in modes(&place) {
        let none = Params::default();
        LIB.take_errors();
        for &name in mode.signatures {
            let what = format!("{} {name}", mode.query);
            let signed = SignedMessage::new(&mode, name);
            assert_eq!(LIB.take_errors(), 0, "{what}: key generation and signing");
            assert!(signed.verifies(&signed.message, &signed.signature));
            assert_eq!(LIB.take_errors(), 0, "{what}: a signature that verifies");
            // An invalid signature is a regular answer: libcrypto queues an error for it, the
            // provider does not.
            assert!(!signed.verifies(b"another message", &signed.signature));
            assert_eq!(LIB.take_errors(), own, "{what}: another message");

            // The next call does not find an earlier call's error in the queue.
            let public = Params::default().octets("pub", &signed.key.part("pub").unwrap());
            let public = mode.context.import(name, mode.query, &public).expect(name);
            LIB.take_errors();
            assert!(public.sign(name, mode.query, &none, b"message").is_none(), "{what}");
            assert!(LIB.take_errors() > 0, "{what}: signing without a private key says why");
            let verified =
                public.verify(name, mode.query, &none, &signed.message, &signed.signature);
            assert!(verified, "{what}");
            assert_eq!(LIB.take_errors(), 0, "{what}: after an error");
            let wrong = Params::default().octets("pub", b"too short");
            assert!(mode.context.import(name, mode.query, &wrong).is_none(), "{what}");
            assert!(says_why(&mode), "{what}: a key of the wrong length");
        }
        let key = mode.context.generate("ML-KEM-768", mode.query, &none).unwrap();
        let (mut ct, secret) = key.encapsulate(mode.query, &none).unwrap();
        assert_eq!(key.decapsulate(mode.query, &ct), Some(secret.clone()));
        assert_eq!(LIB.take_errors(), 0, "{} ML-KEM-768", mode.query);
        // Implicit rejection: another secret, and no error.
        ct[0] ^= 1;
        assert!(key.decapsulate(mode.query, &ct).is_some_and(|other| other != secret));
        assert_eq!(LIB.take_errors(), 0, "{} ML-KEM-768, another ciphertext", mode.query);
        ct.pop();
        assert_eq!(key.decapsulate(mode.query, &ct), None);
        assert!(says_why(&mode), "{}: a ciphertext of the wrong length", mode.query);
    }
}

/// Twelve threads verify by shared keys and never clear their queues; as many others make errors all
/// the while.
#[test]
fn errors_of_one_thread_are_not_seen_by_another() {
    const EACH: usize = 12;
    let _turn = turn();
    let place = TestFolder::new();
    for mode in modes(&place) {
        let all: Vec<SignedMessage<'_>> =
            mode.signatures.iter().map(|name| SignedMessage::new(&mode, name)).collect();
        let (begin, over) = (Barrier::new(2 * EACH), AtomicBool::new(false));
        let right: usize = std::thread::scope(|scope| {
            let (all, begin, over, mode) = (&all, &begin, &over, &mode);
            let verifier = move |thread: usize| {
                begin.wait();
                let mut right = 0;
                for round in 0..40 {
                    let signed = &all[(thread + round) % all.len()];
                    right += usize::from(signed.verifies(&signed.message, &signed.signature));
                    // SAFETY: no argument.
                    assert_eq!(unsafe { (LIB.ERR_peek_error)() }, 0, "thread {thread}");
                }
                right
            };
            let maker = move || {
                begin.wait();
                while !over.load(Ordering::Acquire) {
                    let wrong = Params::default().octets("pub", b"too short");
                    assert!(mode.context.import("ML-DSA-65", mode.query, &wrong).is_none());
                    assert!(LIB.take_errors() > 0);
                }
            };
            (0..EACH).for_each(|_| drop(scope.spawn(maker)));
            let verifiers: Vec<_> =
                (0..EACH).map(|thread| scope.spawn(move || verifier(thread))).collect();
            let results: Vec<_> = verifiers.into_iter().map(|thread| thread.join()).collect();
            over.store(true, Ordering::Release);
            results.into_iter().map(Result::unwrap).sum()
        });
        assert_eq!(right, EACH * 40, "{}", mode.query);
    }
}
