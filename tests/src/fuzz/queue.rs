//! The queue as callers see it, with real workers and real operations: what comes out of it is what
//! the engine alone says. (Schedules in virtual time are `queue_schedules`, which needs no keys.)

use std::num::NonZero;
use std::sync::mpsc::{Receiver, channel};

use gabion_engine::{
    Algorithm, Error, KemPrivateKey, Limits, Message, OsEntropy, Queue, SharedSecret, SigningKey,
    Ticket, VerifyKey,
};

use super::fixtures::{KeyFixture, MESSAGE, engine, verdict};
use super::input::Input;

/// Algorithms that take microseconds.
const KEMS: [Algorithm; 2] = [Algorithm::MlKem512, Algorithm::X25519MlKem768];
const EXCHANGES: [Algorithm; 2] = [Algorithm::X25519, Algorithm::EcdhP256];
const SIGNATURES: [Algorithm; 3] = [Algorithm::MlDsa44, Algorithm::Ed25519, Algorithm::EcdsaP256];

/// Everything but [`SHUTDOWN`].
const JOBS: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 8];
const SHUTDOWN: u8 = 7;

/// Every job, asked in every way, with and without a queue that is full or closed.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for limits in [[0, 0, 0, 0], [3, 2, 1, 1], [5, 8, 0, 1]] {
        let all = JOBS.into_iter().flat_map(|job| (0..3).map(move |way| [job, way, 0, 0, 0]));
        seeds.push([&limits[..], &all.collect::<Vec<_>>().concat()].concat());
        for job in JOBS {
            let wrong = [job, 0, 1, 1, 0, 3, 0, 1];
            let closed = [SHUTDOWN, job, 1, 1, 0];
            seeds.push([&limits[..], &wrong.repeat(6), &closed].concat());
        }
    }
    seeds
}

/// The result that a ticket must give.
enum Answer {
    Verdict(Result<(), Error>),
    Secret(Result<SharedSecret, Error>),
    Signature(VerifyKey),
    Ciphertext(KemPrivateKey),
}

/// A submitted job, by the way its result is fetched.
enum Job {
    Verdict(Ticket<()>),
    Secret(Ticket<SharedSecret>),
    Signature(Ticket<Vec<u8>>),
    Ciphertext(Ticket<(Vec<u8>, SharedSecret)>),
    Callback(Receiver<Result<(), Error>>),
}

/// Up to 24 jobs, handed in or called; each result is compared with the engine's.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let mut some = |n: u8| NonZero::new(usize::from(1 + input.byte() % n)).expect("at least one");
    let (depth, lanes_max, leaders_max, workers) = (some(9), some(9), some(2), some(2));
    let limits =
        Limits { depth: depth.get() - 1, lanes_max, leaders_max, message_max: 64, long_max: 128 };
    let queue = Queue::new(engine(), OsEntropy, limits).with_workers(workers);
    let queue = queue.expect("threads can be started");
    let (mut waiting, mut is_closed) = (Vec::new(), false);
    for _ in 0..24 {
        if input.is_empty() {
            break;
        }
        match input.byte() % 9 {
            SHUTDOWN => {
                queue.shutdown();
                is_closed = true;
            }
            job => match submit(&queue, job, &mut input) {
                Ok(pair) => waiting.extend(pair),
                Err(Error::Closed) => assert!(is_closed, "closed too early"),
                Err(Error::Busy) => assert!(!is_closed, "busy, though closed"),
                Err(error) => panic!("{error}"),
            },
        }
    }
    for (pending, owed) in waiting {
        settle(pending, owed);
    }
    queue.shutdown();
    assert_eq!(queue.waiting(), 0, "jobs are left behind");
}

fn signing(known: &KeyFixture) -> SigningKey {
    engine().signature_private(known.algorithm, &known.private).expect("a known key")
}

fn message<'a>(input: &mut Input<'a>) -> Message<'a> {
    match input.byte() % 4 {
        // One that is too long to wait.
        1 => Message::Pure { context: b"", message: &[1; 65] },
        2 => Message::Pure { context: &[1; 256], message: MESSAGE },
        _ => Message::Pure { context: b"", message: MESSAGE },
    }
}

/// Hands a job in or calls it; none where the ticket was dropped or the result is there and right.
fn submit(queue: &Queue, job: u8, input: &mut Input<'_>) -> Result<Option<(Job, Answer)>, Error> {
    let way = input.byte() % 3;
    let (pending, owed) = match job {
        0..=2 => {
            let known = input.known(&SIGNATURES);
            let key = signing(known).public();
            let signature = input.edited(&known.output);
            let message = message(input);
            let expected = engine().verify(&key, message, &signature);
            if job == 0 {
                return same(queue.verify(&key, message, &signature), expected);
            }
            match queue.submit_verify(&key, message, &signature) {
                Ok(ticket) if job == 2 => {
                    let (tell, told) = channel();
                    ticket.then(move |result| tell.send(result).unwrap_or_default());
                    (Job::Callback(told), Answer::Verdict(expected))
                }
                Ok(ticket) => (Job::Verdict(ticket), Answer::Verdict(expected)),
                Err(error) => return same(Err(error), expected),
            }
        }
        3 => {
            let key = signing(input.known(&SIGNATURES));
            let message = message(input);
            if message.check().is_err() {
                assert!(queue.submit_sign(&key, message).is_err(), "a message of no form");
                return Ok(None);
            }
            let owed = Answer::Signature(key.public());
            (
                Job::Signature(
                    queue.submit_sign(&key, Message::Pure { context: b"", message: MESSAGE })?,
                ),
                owed,
            )
        }
        4 | 5 => {
            let known = input.known(&KEMS);
            let key = engine().kem_private(known.algorithm, &known.private).expect("a known key");
            let ct = input.edited(&known.output);
            let expected = engine().decaps(&key, &ct);
            if job == 4 {
                return match queue.decaps(&key, &ct) {
                    Err(error @ (Error::Busy | Error::Closed)) if expected.is_ok() => Err(error),
                    given => {
                        assert_eq!(given, expected);
                        Ok(None)
                    }
                };
            }
            match queue.submit_decaps(&key, &ct) {
                Ok(ticket) => (Job::Secret(ticket), Answer::Secret(expected)),
                Err(error) if expected.is_err() => {
                    assert_eq!(Some(error), expected.err());
                    return Ok(None);
                }
                Err(error) => return Err(error),
            }
        }
        8 => return derive(queue, way, input),
        _ => {
            let known = input.known(&KEMS);
            let key = engine().kem_private(known.algorithm, &known.private).expect("a known key");
            (Job::Ciphertext(queue.submit_encaps(&key.public())?), Answer::Ciphertext(key))
        }
    };
    // A ticket that is dropped takes nothing back.
    Ok((way != 2).then_some((pending, owed)))
}

/// A key exchange with a peer whose key may be bad; called, or handed in.
fn derive(queue: &Queue, way: u8, input: &mut Input<'_>) -> Result<Option<(Job, Answer)>, Error> {
    let known = input.known(&EXCHANGES);
    let key = engine().exchange_private(known.algorithm, &known.private).expect("a known key");
    let Ok(peer) = engine().exchange_public(known.algorithm, &input.edited(&known.public)) else {
        return Ok(None);
    };
    let expected = engine().derive(&key, &peer);
    if way == 0 {
        return match queue.derive(&key, &peer) {
            Err(error @ (Error::Busy | Error::Closed)) => Err(error),
            given => {
                assert_eq!(given, expected);
                Ok(None)
            }
        };
    }
    let ticket = queue.submit_derive(&key, &peer)?;
    Ok((way != 2).then_some((Job::Secret(ticket), Answer::Secret(expected))))
}

/// A verdict of the queue against the engine's; what the queue refuses by itself is passed on.
fn same(
    given: Result<(), Error>,
    expected: Result<(), Error>,
) -> Result<Option<(Job, Answer)>, Error> {
    match given {
        Err(error @ (Error::Busy | Error::Closed)) => Err(error),
        given => {
            assert_eq!(verdict(&given), verdict(&expected), "{given:?}, alone {expected:?}");
            Ok(None)
        }
    }
}

fn settle(pending: Job, owed: Answer) {
    match (pending, owed) {
        (Job::Verdict(ticket), Answer::Verdict(expected)) => {
            assert_eq!(verdict(&ticket.wait()), verdict(&expected));
        }
        (Job::Callback(told), Answer::Verdict(expected)) => {
            let given = told.recv().expect("every callback is called");
            assert_eq!(verdict(&given), verdict(&expected));
            assert!(told.recv().is_err(), "called twice");
        }
        (Job::Secret(ticket), Answer::Secret(expected)) => {
            assert_eq!(ticket.wait(), expected)
        }
        (Job::Signature(ticket), Answer::Signature(key)) => {
            let signature = ticket.wait().expect("a known key signs");
            let message = Message::Pure { context: b"", message: MESSAGE };
            assert_eq!(engine().verify(&key, message, &signature), Ok(()));
        }
        (Job::Ciphertext(ticket), Answer::Ciphertext(key)) => {
            let (ct, shared) = ticket.wait().expect("a known key encapsulates");
            assert_eq!(engine().decaps(&key, &ct), Ok(shared));
        }
        _ => panic!("a ticket is owed what was asked"),
    }
}
