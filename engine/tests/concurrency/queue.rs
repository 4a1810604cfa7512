//! The queue as its callers see it: many threads, single jobs.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::num::NonZero;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use gabion_backend::cpus;
use gabion_engine::{
    Algorithm, Backend, Batch, BatchOutcome, Config, Dsa, Engine, Entropy, EntropyError, Error,
    ExchangePublicKey, Limits, Message, Operation, OsEntropy, Prehash, Queue, SharedSecret,
    SigningKey, Task, Ticket,
};

const KEM: Algorithm = Algorithm::MlKem512;
const DSA: Algorithm = Algorithm::MlDsa44;
const EXCHANGE: Algorithm = Algorithm::X25519;

fn some(n: usize) -> NonZero<usize> {
    NonZero::new(n).unwrap()
}

/// One batch at a time, so that everything else waits and is run together.
fn narrow(depth: usize) -> Limits {
    Limits { depth, leaders_max: some(1), ..Limits::default() }
}

fn pure(message: &[u8]) -> Message<'_> {
    Message::Pure { context: b"c", message }
}

/// The calls of a [`WatchedBackend`], and the gate that blocks it.
#[derive(Default)]
struct Watch {
    /// The most lanes of a batch for each task but the self-test's, which are two or nine.
    lanes: AtomicUsize,
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Watch {
    fn set(&self, is_closed: bool) {
        *self.is_closed.lock().unwrap() = is_closed;
        self.opened.notify_all();
    }

    fn wait(&self) {
        let is_closed = self.is_closed.lock().unwrap();
        drop(self.opened.wait_while(is_closed, |is_closed| *is_closed).unwrap());
    }
}

/// A backend that counts lanes, waits while its gate is closed, and panics on the text "nuts".
struct WatchedBackend(Box<dyn Backend>, Arc<Watch>);

impl Backend for WatchedBackend {
    fn name(&self) -> &'static str {
        "watched"
    }

    /// At least eight: with fewer, X25519 would not come here.
    fn lanes(&self) -> usize {
        self.0.lanes().max(8)
    }

    fn run(&self, batch: &mut Batch<'_>) -> BatchOutcome {
        self.1.lanes.fetch_max(batch.lanes(), Ordering::Relaxed);
        if let Operation::Dsa(Dsa::Sign { messages, .. }) = &batch.operation {
            let is_nuts = |message: &Message<'_>| match message {
                Message::Pure { message, .. } => *message == b"nuts",
                _ => false,
            };
            assert!(!messages.iter().any(is_nuts), "a fault that a test put in");
        }
        self.1.wait();
        self.0.run(batch)
    }
}

/// An engine over a watched backend whose self-tests are over.
fn watched() -> (Arc<Engine>, Arc<Watch>) {
    let watch = Arc::<Watch>::default();
    let backend = WatchedBackend(cpus().remove(0), Arc::clone(&watch));
    let engine = Engine::with_backends(vec![Box::new(backend)], &Config::default()).unwrap();
    engine.report();
    watch.lanes.store(0, Ordering::Relaxed);
    (Arc::new(engine), watch)
}

/// Sleeps until a condition holds that other threads bring about.
fn until(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
}

#[test]
fn every_operation_gives_what_the_engine_gives() {
    let engine = Engine::global().unwrap();
    let queue = Queue::new(engine, OsEntropy, Limits::default());
    let key = queue.kem_generate(KEM).unwrap();
    let (ct, shared) = queue.encaps(&key.public()).unwrap();
    assert_eq!(queue.decaps(&key, &ct).unwrap(), shared);
    assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
    assert_eq!(queue.decaps(&key, &ct[1..]).err(), engine.decaps(&key, &ct[1..]).err());
    let signing = queue.signature_generate(DSA).unwrap();
    let digest = [7; 32];
    for message in [
        pure(b"text"),
        Message::Prehash { context: b"", hash: Prehash::Sha2_256, digest: &digest },
        Message::Mu(&[5; 64]),
        Message::Internal(b"formatted"),
    ] {
        let signature = queue.sign(&signing, message).unwrap();
        let public = signing.public();
        assert_eq!(engine.verify(&public, message, &signature), Ok(()));
        assert_eq!(queue.verify(&public, message, &signature), Ok(()));
        for bad in [&signature[1..], &[&signature[..], &[0]].concat(), &[]] {
            assert_eq!(queue.verify(&public, message, bad), Err(Error::BadSignature));
        }
    }
    let long = Message::Pure { context: &[0; 256], message: b"" };
    assert_eq!(queue.sign(&signing, long), engine.sign(&signing, long, &OsEntropy));
    assert!(matches!(queue.kem_generate(DSA), Err(Error::WrongAlgorithm { .. })));
    assert!(matches!(queue.signature_generate(KEM), Err(Error::WrongAlgorithm { .. })));
    assert!(matches!(queue.exchange_generate(KEM), Err(Error::WrongAlgorithm { .. })));
}

#[test]
fn an_exchange_gives_what_the_engine_gives() {
    let engine = Engine::global().unwrap();
    let queue = Queue::new(engine, OsEntropy, Limits::default());
    let other = engine.exchange_generate(Algorithm::EcdhP521, &OsEntropy).unwrap();
    for algorithm in [EXCHANGE, Algorithm::EcdhP256, Algorithm::EcdhP384] {
        let [ours, theirs] = [(); 2].map(|()| queue.exchange_generate(algorithm).unwrap());
        let secret = queue.derive(&ours, &theirs.public()).unwrap();
        assert_eq!(engine.derive(&theirs, &ours.public()).unwrap(), secret);
        let ticket = queue.submit_derive(&theirs, &ours.public()).unwrap();
        assert!(ticket.is_ready());
        assert_eq!(ticket.wait().unwrap(), secret);
        let made = queue.submit_exchange_generate(algorithm).unwrap().wait().unwrap();
        assert_eq!(made.algorithm(), algorithm);
        // Rejected immediately, because a batch takes keys of one algorithm.
        let refused = engine.derive(&ours, &other.public()).err();
        assert!(matches!(refused, Some(Error::WrongAlgorithm { .. })));
        assert_eq!(queue.derive(&ours, &other.public()).err(), refused);
        assert_eq!(queue.submit_derive(&ours, &other.public()).err(), refused);
    }
    let key = queue.exchange_generate(EXCHANGE).unwrap();
    let small = engine.exchange_public(EXCHANGE, &[0; 32]).unwrap();
    let refused = engine.derive(&key, &small).err();
    assert!(matches!(refused, Some(Error::Input(_))));
    assert_eq!(queue.derive(&key, &small).err(), refused);
    assert_eq!(queue.submit_derive(&key, &small).unwrap().wait().err(), refused);
    queue.shutdown();
    assert_eq!(queue.derive(&key, &key.public()).err(), Some(Error::Closed));
    assert_eq!(queue.submit_derive(&key, &key.public()).err(), Some(Error::Closed));
    assert_eq!(queue.exchange_generate(EXCHANGE).err(), Some(Error::Closed));
}

#[test]
fn queued_jobs_run_as_one_batch_for_every_message_form() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(64));
    let key = engine.signature_generate(DSA, &OsEntropy).unwrap();
    watch.lanes.store(0, Ordering::Relaxed);
    watch.set(true);
    let digest = [7; 32];
    std::thread::scope(|scope| {
        let (queue, key, digest) = (&queue, &key, &digest);
        let signers: Vec<_> = (0..20u8)
            .map(|thread| {
                scope.spawn(move || {
                    let text = [thread; 9];
                    let message = match thread % 4 {
                        0 => pure(&text),
                        1 => Message::Prehash { context: &text, hash: Prehash::Sha2_256, digest },
                        2 => Message::Mu(&[9; 64]),
                        _ => Message::Internal(&text),
                    };
                    let signature = queue.sign(key, message).unwrap();
                    assert_eq!(queue.verify(&key.public(), message, &signature), Ok(()));
                })
            })
            .collect();
        until(|| queue.waiting() == 19);
        watch.set(false);
        signers.into_iter().for_each(|signer| signer.join().unwrap());
    });
    assert_eq!(queue.waiting(), 0);
    // One ran alone, and the others as one batch; no batch of verifications was larger.
    assert_eq!(watch.lanes.load(Ordering::Relaxed), 19);
}

/// Runs `count` calls at once, all but the first of which wait until the first is let through.
fn crowd<T: Send>(
    queue: &Queue,
    watch: &Watch,
    count: usize,
    call: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    watch.set(true);
    std::thread::scope(|scope| {
        let call = &call;
        let callers: Vec<_> = (0..count).map(|i| scope.spawn(move || call(i))).collect();
        until(|| queue.waiting() == count - 1);
        watch.set(false);
        callers.into_iter().map(|caller| caller.join().unwrap()).collect()
    })
}

#[test]
fn a_bad_job_fails_alone() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(64));
    let key = engine.signature_generate(DSA, &OsEntropy).unwrap();
    let good = engine.sign(&key, pure(b"m"), &OsEntropy).unwrap();
    let signatures: Vec<Vec<u8>> = (0..16)
        .map(|i| {
            let mut signature = good.clone();
            match i % 4 {
                1 => signature[40] ^= 1,
                // Shorter than any, and then padded as its neighbours are long.
                2 => signature.truncate(100),
                _ => {}
            }
            signature
        })
        .collect();
    let verdicts =
        crowd(&queue, &watch, 16, |i| queue.verify(&key.public(), pure(b"m"), &signatures[i]));
    for (i, verdict) in verdicts.into_iter().enumerate() {
        assert_eq!(verdict, engine.verify(&key.public(), pure(b"m"), &signatures[i]), "job {i}");
        assert_eq!(verdict.is_ok(), i % 4 == 0 || i % 4 == 3);
    }
}

#[test]
fn a_job_that_makes_the_backend_panic_fails_alone() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(64));
    let key = engine.signature_generate(DSA, &OsEntropy).unwrap();
    let texts: Vec<&[u8]> = (0..9).map(|i| if i == 5 { &b"nuts"[..] } else { b"bread" }).collect();
    let results = crowd(&queue, &watch, 9, |i| queue.sign(&key, pure(texts[i])));
    for (i, result) in results.into_iter().enumerate() {
        if i == 5 {
            assert_eq!(result, Err(Error::Panicked { algorithm: DSA, task: Task::Sign }));
        } else {
            assert_eq!(engine.verify(&key.public(), pure(texts[i]), &result.unwrap()), Ok(()));
        }
    }
}

#[test]
fn kem_jobs_of_a_crowd_get_their_own_results() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(64));
    let keys = crowd(&queue, &watch, 12, |_| queue.kem_generate(KEM).unwrap());
    let sent = crowd(&queue, &watch, 12, |i| queue.encaps(&keys[i].public()).unwrap());
    let got = crowd(&queue, &watch, 12, |i| queue.decaps(&keys[i], &sent[i].0).unwrap());
    for i in 0..12 {
        assert_eq!(got[i], sent[i].1);
        assert!((0..i).all(|other| keys[i].bytes() != keys[other].bytes()));
        assert!((0..i).all(|other| got[i] != got[other]));
    }
    let signing = crowd(&queue, &watch, 12, |_| queue.signature_generate(DSA).unwrap());
    assert!((1..12).all(|i| signing[i].bytes() != signing[i - 1].bytes()));
    assert_eq!(watch.lanes.load(Ordering::Relaxed), 11);
}

/// A source that counts how often it is asked, and waits while a watch is closed.
struct HeldEntropy(Arc<Watch>, Arc<AtomicUsize>);

impl Entropy for HeldEntropy {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.wait();
        OsEntropy.fill(out)
    }
}

#[test]
fn exchanges_of_a_crowd_get_their_own_secrets_and_a_bad_one_fails_alone() {
    let (engine, watch) = watched();
    let asked = Arc::<AtomicUsize>::default();
    let held = HeldEntropy(Arc::clone(&watch), Arc::clone(&asked));
    let queue = Queue::new(Arc::clone(&engine), held, narrow(64));
    let keys = crowd(&queue, &watch, 12, |_| queue.exchange_generate(EXCHANGE).unwrap());
    assert_eq!(asked.load(Ordering::Relaxed), 2, "once for each batch");
    assert_eq!(watch.lanes.swap(0, Ordering::Relaxed), 11);
    let peers: Vec<ExchangePublicKey> = (0..12)
        .map(|i| match i % 4 {
            // Of small order: the secret would be all zero.
            1 => engine.exchange_public(EXCHANGE, &[0; 32]).unwrap(),
            _ => keys[(i + 1) % 12].public(),
        })
        .collect();
    let secrets = crowd(&queue, &watch, 12, |i| queue.derive(&keys[i], &peers[i]));
    assert_eq!(watch.lanes.load(Ordering::Relaxed), 11);
    for (i, secret) in secrets.iter().enumerate() {
        assert_eq!(*secret, engine.derive(&keys[i], &peers[i]), "job {i}");
        assert_eq!(secret.is_err(), i % 4 == 1, "job {i}");
        assert!(secret.is_err() || secrets[..i].iter().all(|other| other != secret));
    }
    assert!((1..12).all(|i| keys[..i].iter().all(|other| other.bytes() != keys[i].bytes())));
    assert_eq!(asked.load(Ordering::Relaxed), 2, "nothing is drawn for a secret");
}

/// Curves without lanes too: threads that come as they like, some with tickets.
#[test]
fn exchanges_of_a_storm_agree_on_both_sides() {
    let engine = Engine::global().unwrap();
    let queue = Queue::new(engine, OsEntropy, narrow(64)).with_workers(some(2)).unwrap();
    for algorithm in [EXCHANGE, Algorithm::EcdhP256, Algorithm::EcdhP384] {
        std::thread::scope(|scope| {
            let agree = || {
                let ours = queue.exchange_generate(algorithm).unwrap();
                let theirs = queue.submit_exchange_generate(algorithm).unwrap().wait().unwrap();
                let ticket: Ticket<SharedSecret> =
                    queue.submit_derive(&ours, &theirs.public()).unwrap();
                let secret = queue.derive(&theirs, &ours.public()).unwrap();
                assert_eq!(secret, engine.derive(&ours, &theirs.public()).unwrap());
                assert_eq!(ticket.wait().unwrap(), secret);
            };
            for _ in 0..12 {
                scope.spawn(move || (0..5).for_each(|_| agree()));
            }
        });
    }
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_full_line_of_exchanges_says_busy() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(2));
    let key = engine.exchange_generate(EXCHANGE, &OsEntropy).unwrap();
    let derive = || queue.derive(&key, &key.public());
    watch.set(true);
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..3).map(|_| scope.spawn(derive)).collect();
        until(|| queue.waiting() == 2);
        assert_eq!(derive().err(), Some(Error::Busy));
        assert_eq!(queue.submit_derive(&key, &key.public()).err(), Some(Error::Busy));
        watch.set(false);
        for caller in callers {
            assert_eq!(caller.join().unwrap(), engine.derive(&key, &key.public()));
        }
    });
    assert_eq!(derive(), engine.derive(&key, &key.public()));
}

#[test]
fn a_full_queue_says_busy_and_long_messages_do_not_wait() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(2));
    let key = engine.signature_generate(DSA, &OsEntropy).unwrap();
    let long = vec![1; Limits::default().message_max + 1];
    watch.set(true);
    std::thread::scope(|scope| {
        let signers: Vec<_> =
            (0..3).map(|_| scope.spawn(|| queue.sign(&key, pure(b"m")))).collect();
        until(|| queue.waiting() == 2);
        assert_eq!(queue.sign(&key, pure(b"m")), Err(Error::Busy));
        assert_eq!(queue.submit_sign(&key, pure(b"m")).err(), Some(Error::Busy));
        let beside = scope.spawn(|| queue.sign(&key, pure(&long)));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(queue.waiting(), 2);
        watch.set(false);
        for signer in signers {
            let signature = signer.join().unwrap().unwrap();
            assert_eq!(engine.verify(&key.public(), pure(b"m"), &signature), Ok(()));
        }
        let signature = beside.join().unwrap().unwrap();
        assert_eq!(engine.verify(&key.public(), pure(&long), &signature), Ok(()));
    });
}

#[test]
fn tickets_of_long_messages_hold_a_bounded_number_of_bytes() {
    let (engine, watch) = watched();
    let limits = Limits { message_max: 100, long_max: 1000, ..narrow(8) };
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, limits).with_workers(some(2)).unwrap();
    let key = engine.signature_generate(DSA, &OsEntropy).unwrap();
    let public = key.public();
    let texts = [vec![1; 300], vec![2; 300], vec![3; 300]];
    // Longer than all that may be held, and taken since none is.
    let giant = vec![4; 5000];
    let signature = queue.submit_sign(&key, pure(&giant)).unwrap().wait().unwrap();
    assert_eq!(engine.verify(&public, pure(&giant), &signature), Ok(()));
    watch.set(true);
    let submit = |text: &[u8]| queue.submit_sign(&key, pure(text));
    let tickets = texts.each_ref().map(|text| submit(text).unwrap());
    let verified = queue.submit_verify(&public, pure(&giant[..96]), &signature);
    assert_eq!(submit(&texts[2][..200]).err(), Some(Error::Busy));
    assert_eq!(submit(&giant).err(), Some(Error::Busy));
    let refused = queue.submit_verify(&public, pure(&giant), &signature);
    assert_eq!(refused.err(), Some(Error::Busy));
    assert!(tickets.iter().all(|ticket| !ticket.is_ready()));
    watch.set(false);
    for (ticket, text) in tickets.into_iter().zip(&texts) {
        let signature = ticket.wait().unwrap();
        assert_eq!(engine.verify(&public, pure(text), &signature), Ok(()));
    }
    assert_eq!(verified.unwrap().wait(), Err(Error::BadSignature));
    // The room comes back with the copy, which goes after the result has come.
    let verify = || queue.submit_verify(&public, pure(&giant), &signature);
    until(|| verify().is_ok_and(|ticket| ticket.wait() == Ok(())));
    assert_eq!(watch.lanes.load(Ordering::Relaxed), 1);
    queue.shutdown();
    assert_eq!(verify().err(), Some(Error::Closed));
}

/// A generator that counts how often it is asked, and fails every other batch of several lanes.
#[derive(Default)]
struct Fickle {
    asked: AtomicUsize,
    asked_for_many: AtomicUsize,
}

impl Entropy for &'static Fickle {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if out.len() > 32 && self.asked_for_many.fetch_add(1, Ordering::Relaxed) % 2 == 1 {
            out.fill(0);
            return Err(EntropyError("played".into()));
        }
        OsEntropy.fill(out)
    }
}

#[test]
fn entropy_failure_affects_one_batch_only() {
    static FICKLE: Fickle =
        Fickle { asked: AtomicUsize::new(0), asked_for_many: AtomicUsize::new(0) };
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), &FICKLE, narrow(64));
    let key = engine.kem_generate(KEM, &OsEntropy).unwrap();
    for round in 1..=6 {
        let sent = crowd(&queue, &watch, 10, |_| queue.encaps(&key.public()));
        let asked = FICKLE.asked.load(Ordering::Relaxed);
        assert_eq!(asked, 2 * round, "once for each batch");
        let failed = sent.iter().filter(|result| result.is_err()).count();
        assert_eq!(failed, if round % 2 == 0 { 9 } else { 0 });
        for result in sent {
            match result {
                Ok((ct, shared)) => assert_eq!(engine.decaps(&key, &ct).unwrap(), shared),
                Err(error) => assert!(matches!(error, Error::Entropy(_)), "{error}"),
            }
        }
    }
}

/// Blocks on a future, as a runtime would.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

fn check(engine: &Engine, key: &SigningKey, text: &[u8], result: Result<Vec<u8>, Error>) {
    assert_eq!(engine.verify(&key.public(), pure(text), &result.unwrap()), Ok(()));
}

#[test]
fn tickets_are_fetched_in_every_way() {
    let (engine, watch) = watched();
    for workers in [1, 3] {
        let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(64));
        let queue = queue.with_workers(some(workers)).unwrap();
        let key = engine.signature_generate(DSA, &OsEntropy).unwrap();
        watch.lanes.store(0, Ordering::Relaxed);
        watch.set(true);
        let texts: Vec<[u8; 1]> = (0..40).map(|i| [i]).collect();
        let submit = |text: &[u8; 1]| queue.submit_sign(&key, pure(text)).unwrap();
        let mut tickets: Vec<Ticket<Vec<u8>>> = texts.iter().map(submit).collect();
        assert!(!tickets.iter().any(|ticket| ticket.is_ready()));
        assert_eq!(tickets[0].poll(), None);
        let (sender, called) = std::sync::mpsc::channel();
        for i in (30..40).rev() {
            let sender = sender.clone();
            tickets.pop().unwrap().then(move |result| {
                sender.send((i, result)).unwrap();
                panic!("a callback that panics");
            });
        }
        watch.set(false);
        for (i, mut ticket) in tickets.into_iter().enumerate() {
            match i % 3 {
                0 => check(&engine, &key, &texts[i], ticket.wait()),
                1 => check(&engine, &key, &texts[i], block_on(ticket)),
                _ => {
                    until(|| ticket.is_ready());
                    check(&engine, &key, &texts[i], ticket.poll().unwrap());
                    assert_eq!(ticket.poll(), None);
                    assert_eq!(ticket.wait(), Err(Error::Lost));
                }
            }
        }
        drop(sender);
        for _ in 30..40 {
            let (i, result) = called.recv().unwrap();
            check(&engine, &key, &texts[i], result);
        }
        // In no more than two batches: what was there when a worker woke up, and the rest.
        assert!(watch.lanes.load(Ordering::Relaxed) >= 20);
    }
}

#[test]
fn without_workers_a_ticket_is_ready_at_once() {
    let (engine, _) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, Limits::default());
    let key = queue.submit_signature_generate(DSA).unwrap().wait().unwrap();
    let ticket = queue.submit_sign(&key, pure(b"m")).unwrap();
    assert!(ticket.is_ready());
    let signature = block_on(ticket).unwrap();
    let ticket = queue.submit_verify(&key.public(), pure(b"m"), &signature).unwrap();
    let verdict = Arc::new(Mutex::new(None));
    let seen = Arc::clone(&verdict);
    ticket.then(move |result| *seen.lock().unwrap() = Some(result));
    assert_eq!(*verdict.lock().unwrap(), Some(Ok(())));
    let kem = queue.submit_kem_generate(KEM).unwrap().wait().unwrap();
    let (ct, shared) = queue.submit_encaps(&kem.public()).unwrap().wait().unwrap();
    assert_eq!(queue.submit_decaps(&kem, &ct).unwrap().wait(), Ok(shared));
    assert!(queue.submit_decaps(&kem, &ct[1..]).is_err());
}

#[test]
fn shutdown_completes_every_ticket_and_takes_no_more() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(256));
    let queue = queue.with_workers(some(2)).unwrap();
    let key = engine.kem_generate(KEM, &OsEntropy).unwrap();
    watch.set(true);
    let tickets: Vec<_> = (0..200).map(|_| queue.submit_encaps(&key.public()).unwrap()).collect();
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| queue.shutdown());
        until(|| queue.submit_encaps(&key.public()).err() == Some(Error::Closed));
        assert_eq!(queue.encaps(&key.public()).err(), Some(Error::Closed));
        assert!(!stopping.is_finished());
        watch.set(false);
        stopping.join().unwrap();
    });
    for mut ticket in tickets {
        let (ct, shared) = ticket.poll().expect("complete").unwrap();
        assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
    }
    queue.shutdown();
}

/// Simulates a destructor that `dlclose` runs: a thread may need a lock that the caller holds.
#[test]
fn detached_queue_completes_every_ticket() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(64));
    let queue = queue.with_workers(some(2)).unwrap();
    let key = engine.kem_generate(KEM, &OsEntropy).unwrap();
    watch.set(true);
    let tickets: Vec<_> = (0..40).map(|_| queue.submit_encaps(&key.public()).unwrap()).collect();
    queue.detach();
    assert!(tickets.iter().any(|ticket| !ticket.is_ready()), "nobody was held up");
    watch.set(false);
    for ticket in tickets {
        let (ct, shared) = ticket.wait().unwrap();
        assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
    }
}

/// Each of two threads that shut a queue down, and one that comes after a callback did, finds every
/// ticket complete.
#[test]
fn shutdown_waits_for_every_ticket() {
    for in_a_callback in [false, true] {
        let engine = Engine::global().unwrap();
        let queue = Queue::new(engine, OsEntropy, Limits::default()).with_workers(some(1)).unwrap();
        let queue = Arc::new(queue);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let inside = Arc::clone(&queue);
        queue.submit_kem_generate(KEM).unwrap().then(move |_| {
            if in_a_callback {
                inside.shutdown();
            }
            released.recv().unwrap();
        });
        let behind = queue.submit_kem_generate(KEM).unwrap();
        std::thread::scope(|scope| {
            let shutting = [(); 2].map(|()| scope.spawn(|| queue.shutdown()));
            until(|| matches!(queue.submit_kem_generate(KEM), Err(Error::Closed)));
            std::thread::sleep(std::time::Duration::from_millis(50));
            let wait = shutting.iter().all(|thread| !thread.is_finished());
            // First of all, or a failure would wait for ever.
            release.send(()).unwrap();
            assert!(wait, "in a callback: {in_a_callback}");
        });
        assert!(behind.is_ready());
    }
}

#[test]
fn a_callback_may_drop_the_queue() {
    let (engine, watch) = watched();
    let queue = Queue::new(Arc::clone(&engine), OsEntropy, narrow(64));
    let queue = Arc::new(queue.with_workers(some(2)).unwrap());
    let key = engine.kem_generate(KEM, &OsEntropy).unwrap();
    watch.set(true);
    let mut tickets: Vec<_> = (0..8).map(|_| queue.submit_encaps(&key.public()).unwrap()).collect();
    let (sender, dropped) = std::sync::mpsc::channel();
    let last = Arc::clone(&queue);
    // The first of the second batch: others of it are not complete when the queue is dropped.
    tickets.remove(1).then(move |result| {
        drop(last);
        sender.send(result.is_ok()).unwrap();
    });
    drop(queue);
    watch.set(false);
    assert_eq!(dropped.recv(), Ok(true));
    for ticket in tickets {
        let (ct, shared) = ticket.wait().unwrap();
        assert_eq!(engine.decaps(&key, &ct).unwrap(), shared);
    }
}

/// Threads that come and go at the rate they like, over lines of every width.
#[test]
fn a_storm_of_threads_gets_right_results() {
    let engine = Engine::global().unwrap();
    for (leaders_max, lanes_max) in [(1, 1), (1, 64), (3, 5), (64, 64)] {
        let limits = Limits {
            leaders_max: some(leaders_max),
            lanes_max: some(lanes_max),
            ..Limits::default()
        };
        let queue = Queue::new(engine, OsEntropy, limits).with_workers(some(2)).unwrap();
        let (kem, key) = (queue.kem_generate(KEM).unwrap(), queue.signature_generate(DSA).unwrap());
        std::thread::scope(|scope| {
            for thread in 0..12u8 {
                let (queue, kem, key) = (&queue, &kem, &key);
                scope.spawn(move || {
                    for round in 0..10u8 {
                        let text = [thread, round];
                        let ticket = queue.submit_sign(key, pure(&text)).unwrap();
                        let (ct, shared) = queue.encaps(&kem.public()).unwrap();
                        assert_eq!(queue.decaps(kem, &ct).unwrap(), shared);
                        let mut signature = ticket.wait().unwrap();
                        signature[7] ^= round % 2;
                        let verdict = queue.verify(&key.public(), pure(&text), &signature);
                        assert_eq!(verdict.is_ok(), round % 2 == 0);
                    }
                });
            }
        });
        assert_eq!(queue.waiting(), 0);
    }
}
