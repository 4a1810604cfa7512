//! One key, many threads: a key is immutable, so every thread must get correct answers. The key
//! comes from the default provider if that has such keys, so that the threads also race for its
//! import. The rules for contexts and error queues are in `whole_process::calls`.

use std::sync::Barrier;

use gabion_provider_testing::libcrypto::{Context, Params};
use gabion_provider_testing::libssl::{Libssl, Step};
use gabion_provider_testing::{
    GROUPS, KEMS, LIB, OURS, PRIVATE_GROUPS, STOCK, Side, TestFolder, both,
};

const THREADS: usize = 24;
const ROUNDS: usize = 60;

/// Runs `work` on every thread at once and counts what came out right.
fn on_all_threads(rounds: usize, work: impl Fn(usize, usize) -> bool + Sync) -> usize {
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    (0..rounds).filter(|&round| work(thread, round)).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

const FIPS: &str = "fips=yes";

/// Every thread signs with the key and verifies its signature, against its message and another one.
fn sign_and_verify(context: &Context, name: &str, maker: &str, query: &str, rounds: usize) {
    let key = context.generate(name, maker, &Params::default()).unwrap();
    let right = on_all_threads(rounds, |thread, round| {
        let message = format!("thread {thread}, round {round}");
        let params = Params::default();
        let signature = key.sign(name, query, &params, message.as_bytes()).unwrap();
        let other = format!("thread {thread}, round {}", round + 1);
        key.verify(name, query, &params, message.as_bytes(), &signature)
            && !key.verify(name, query, &params, other.as_bytes(), &signature)
    });
    assert_eq!(right, THREADS * rounds, "{name} {query}");
}

/// Every thread encapsulates to the key and decapsulates its ciphertext, and a modified one.
fn encapsulate_and_decapsulate(
    context: &Context,
    name: &str,
    maker: &str,
    query: &str,
    rounds: usize,
) {
    let key = context.generate(name, maker, &Params::default()).expect(name);
    let right = on_all_threads(rounds, |_, round| {
        let (mut ct, secret) = key.encapsulate(query, &Params::default()).unwrap();
        let opened = key.decapsulate(query, &ct);
        // In the middle stands ML-KEM's part, of hybrids too: what was changed there opens to another
        // secret.
        let at = ct.len() / 2 + round;
        ct[at] ^= 1;
        let rejected = key.decapsulate(query, &ct);
        opened.as_ref() == Some(&secret) && rejected.is_some() && rejected != opened
    });
    assert_eq!(right, THREADS * rounds, "{name} {query}");
}

#[test]
fn signing_and_verifying_with_one_key() {
    let (_place, context) = both();
    for (name, maker, rounds) in [
        ("ML-DSA-44", STOCK, ROUNDS),
        ("ML-DSA-65", STOCK, ROUNDS),
        ("ML-DSA-87", STOCK, ROUNDS),
        ("HashML-DSA-44-with-SHA512", OURS, ROUNDS),
        ("Falcon-512", OURS, ROUNDS),
        ("FN-DSA-512-draft", OURS, ROUNDS),
        ("MLDSA44-Ed25519-SHA512-draft19", OURS, ROUNDS),
        ("SLH-DSA-SHA2-128f", STOCK, 3),
        ("SLH-DSA-SHAKE-128f", STOCK, 3),
    ] {
        sign_and_verify(&context, name, maker, OURS, rounds);
    }
}

#[test]
fn encapsulating_and_decapsulating_with_one_key() {
    let (_place, context) = both();
    for name in KEMS.into_iter().chain(["X25519MLKEM768"]) {
        encapsulate_and_decapsulate(&context, name, STOCK, OURS, ROUNDS);
    }
    // The default provider gives no private key of a hybrid with a NIST curve away, and has no private
    // groups, so that these are ours from the beginning; of the first of them there is a key of ours, too.
    for name in GROUPS.into_iter().chain(PRIVATE_GROUPS) {
        encapsulate_and_decapsulate(&context, name, OURS, OURS, ROUNDS);
    }
}

/// One SSL_CTX of a server and one of its clients, with a certificate of ours: every handshake looks
/// signature algorithms up in what the context has of them, the provider's own among them.
#[test]
fn handshakes_of_one_context() {
    const ROUNDS: usize = 4;
    let place = TestFolder::new();
    place.configure("tls-draft-signatures = yes");
    let words =
        "req -x509 -newkey ML-DSA-65 -nodes -keyout leaf.key -out leaf.pem -subj /CN=leaf -days 2";
    place.openssl(Side::Stock, words);
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    let ssl = Libssl::load(&gabion_provider_testing::prefix());
    let files = (place.path("leaf.pem"), place.path("leaf.key"));
    let server = ssl.end(&context, None, Some((&files.0, &files.1))).unwrap();
    let client = ssl.end(&context, None, None).unwrap();
    let expected = std::sync::OnceLock::new();
    let right = on_all_threads(ROUNDS, |_, _| {
        let mut sides = [ssl.connection(&client), ssl.connection(&server)];
        let mut done = [false; 2];
        for side in [0, 1, 0, 1] {
            match sides[side].advance() {
                Step::Done => done[side] = true,
                Step::WantsRead => {}
                _ => return false,
            }
            let bytes = sides[side].sent();
            sides[1 - side].receive(&bytes);
        }
        let known = sides[1].signature_algorithms();
        done == [true; 2]
            && known.1 > 10
            && known == *expected.get_or_init(|| known)
            && sides[0].exported() == sides[1].exported()
    });
    assert_eq!(right, THREADS * ROUNDS, "{}", LIB.last_error());
}

/// The FIPS module, in the same way: 24 threads on one key, every result checked.
#[test]
fn shared_key_in_the_fips_module_across_threads() {
    let place = TestFolder::new();
    let Some(conf) = place.fips_configuration() else { return };
    let context = Context::with_config(&LIB, &conf);
    for (name, rounds) in [("ML-DSA-65", 10), ("ML-DSA-87", 5), ("SLH-DSA-SHA2-128f", 1)] {
        sign_and_verify(&context, name, FIPS, FIPS, rounds);
    }
    encapsulate_and_decapsulate(&context, "ML-KEM-768", FIPS, FIPS, ROUNDS);
}
