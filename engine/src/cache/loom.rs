//! Every interleaving of threads that ask a shard for the same key, by loom.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::sync::Arc;

use ::loom::sync::atomic::{AtomicUsize, Ordering};
use ::loom::thread;
use gabion_scheme::Algorithm;

use super::shard::{CacheValue, Shard};
use crate::error::Error;

#[derive(Clone, Debug, PartialEq)]
struct TestValue(u8);

impl CacheValue for TestValue {
    fn is_of(&self, _: Algorithm, bytes: &[u8]) -> bool {
        bytes == [self.0]
    }
    fn len(&self) -> usize {
        1
    }
}

fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(f);
}

/// Asks from three threads, for the keys given, which all have the same hash.
fn ask(keys: [u8; 3], capacity: usize, made: usize) {
    model(move || {
        let (shard, count) = (Arc::new(Shard::new(capacity)), Arc::new(AtomicUsize::new(0)));
        let threads = keys.map(|key| {
            let (shard, count) = (Arc::clone(&shard), Arc::clone(&count));
            move || {
                let make = || {
                    count.fetch_add(1, Ordering::Relaxed);
                    Ok(TestValue(key))
                };
                let value = shard.slot(1).find_or_make(Algorithm::MlKem512, &[key], make);
                assert_eq!(value, Ok(TestValue(key)));
            }
        });
        let [first, others @ ..] = threads;
        let others = others.map(thread::spawn);
        first();
        others.map(|other| other.join().unwrap());
        let stats = shard.stats();
        assert_eq!(stats.hits + stats.misses, 3);
        assert_eq!((stats.keys, stats.misses), (1, count.load(Ordering::Relaxed) as u64));
        assert!(count.load(Ordering::Relaxed) >= made);
        if made == 1 {
            assert_eq!(count.load(Ordering::Relaxed), 1, "one key is expanded once");
        }
    });
}

#[test]
fn a_key_that_many_ask_for_is_made_once() {
    ask([5; 3], 10, 1);
}

#[test]
fn keys_that_collide_never_stand_for_each_other() {
    ask([5, 6, 5], 10, 2);
}

#[test]
fn a_refused_key_is_refused_to_all_that_ask() {
    model(|| {
        let shard = Arc::new(Shard::<TestValue>::new(10));
        let ask = {
            let shard = Arc::clone(&shard);
            move || {
                shard.slot(1).find_or_make(Algorithm::MlKem512, &[1], || Err(Error::BadSignature))
            }
        };
        let other = thread::spawn(ask.clone());
        assert_eq!(ask(), Err(Error::BadSignature));
        assert_eq!(other.join().unwrap(), Err(Error::BadSignature));
        assert_eq!(shard.stats().keys, 0);
    });
}
