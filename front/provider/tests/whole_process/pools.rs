//! Tests key pairs made ahead, through libcrypto: they are used, a forked child uses none of its
//! parent's, and unloading the module ends the thread.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::time::Duration;

use gabion_provider_testing::libcrypto::{Context, Params};
use gabion_provider_testing::{LIB, OURS, STOCK, Side, TestFolder};

use crate::turn;

const GROUP: &str = "X25519MLKEM768";
/// The pooled algorithms, with the length of their public key: a KEM, and a key exchange.
const GROUPS: [(&str, usize); 2] = [(GROUP, 1216), ("X25519", 32)];

/// A place with pools.
fn switched_on() -> TestFolder {
    let place = TestFolder::new();
    place.configure("key-pools = yes");
    place
}

/// Returns how many threads of this process make keys.
fn threads() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
    let names = names.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    names.filter(|name| name.trim() == "gabion-keys").count()
}

/// Waits for what must come; how long it takes does not matter.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let soon = || (0..60_000).any(|_| is_so() || nap());
    assert!(soon(), "{what}");
}

fn nap() -> bool {
    std::thread::sleep(Duration::from_millis(1));
    false
}

fn generate(context: &Context, group: &str) -> Vec<u8> {
    context.generate(group, OURS, &Params::default()).unwrap().part("pub").unwrap()
}

/// Makes keys until the thread runs, and gives it time to fill the shelf; the public keys so far.
fn warm(context: &Context, group: &str) -> Vec<Vec<u8>> {
    let keys = (0..16).map(|_| generate(context, group)).collect();
    // A thread has its name a moment after it began.
    until("the thread starts", || threads() == 1);
    std::thread::sleep(Duration::from_millis(50));
    keys
}

#[test]
fn a_process_with_little_use_starts_no_thread() {
    let _turn = turn();
    let place = switched_on();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    for (group, _) in GROUPS {
        (0..4).for_each(|_| drop(generate(&context, group)));
    }
    assert_eq!(threads(), 0);
    // Nor one that did not ask for it.
    let place = TestFolder::new();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    (0..64).for_each(|_| drop(generate(&context, GROUP)));
    assert_eq!(threads(), 0);
}

#[test]
fn a_key_from_the_pool_is_a_key_like_another() {
    let _turn = turn();
    let place = switched_on();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    let none = Params::default();
    for (group, _) in GROUPS {
        let mut seen: HashSet<_> = warm(&context, group).into_iter().collect();
        for _ in 0..200 {
            let key = context.generate(group, OURS, &none).unwrap();
            assert!(seen.insert(key.part("pub").unwrap()), "a key came twice");
            if group == GROUP {
                let (ct, secret) = key.encapsulate(OURS, &none).unwrap();
                assert_eq!(key.decapsulate(OURS, &ct).unwrap(), secret);
            } else {
                let peer = context.generate(group, STOCK, &none).unwrap();
                assert_eq!(key.derive(OURS, &peer).unwrap(), peer.derive(STOCK, &key).unwrap());
            }
        }
    }
    // A seed gives the key of the seed, whatever lies on the shelf.
    let seed = Params::default().octets("seed", &[7; 64]);
    let keys = [(); 32].map(|()| context.generate("ML-KEM-768", OURS, &seed).unwrap().part("pub"));
    assert!(keys.iter().all(|key| key.is_some() && *key == keys[0]));
}

#[test]
fn a_forked_child_has_keys_of_its_own() {
    let _turn = turn();
    for (group, share) in GROUPS {
        forked(group, share);
    }
}

fn forked(group: &str, share: usize) {
    let place = switched_on();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    let mut mine = warm(&context, group);
    let mut ends = [0; 2];
    // SAFETY: space for two descriptors. The child writes its result, frees inherited objects, and
    // ends by _exit.
    let child = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::fork()
    };
    if child == 0 {
        // SAFETY: no pointer is passed.
        unsafe { libc::alarm(60) };
        let keys: Vec<u8> = (0..64).flat_map(|_| generate(&context, group)).collect();
        // SAFETY: this process's end of the pipe, and its copy of the context: teardown in a child.
        unsafe {
            let is_sent = std::fs::File::from_raw_fd(ends[1]).write_all(&keys).is_ok();
            drop(context);
            libc::_exit(i32::from(!is_sent));
        }
    }
    mine.extend((0..64).map(|_| generate(&context, group)));
    let mut theirs = Vec::new();
    // SAFETY: this process's ends of the pipe; a child of ours.
    unsafe {
        libc::close(ends[1]);
        std::fs::File::from_raw_fd(ends[0]).read_to_end(&mut theirs).unwrap();
        let mut status = -1;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(status, 0, "status {status:#x}");
    }
    let theirs: Vec<_> = theirs.chunks(share).map(<[u8]>::to_vec).collect();
    assert_eq!(theirs.len(), 64);
    let all: HashSet<_> = mine.iter().chain(&theirs).collect();
    assert_eq!(all.len(), mine.len() + theirs.len(), "a key is in both processes");
}

#[test]
fn unloading_ends_the_thread() {
    let _turn = turn();
    let place = switched_on();
    for _ in 0..20 {
        let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
        std::thread::scope(|scope| {
            let used = scope.spawn(|| {
                for (group, _) in GROUPS {
                    warm(&context, group);
                    // An order may be under way.
                    (0..9).for_each(|_| drop(generate(&context, group)));
                }
            });
            used.join().unwrap();
        });
        drop(context);
        // It was told to end, and no call waits for it.
        until("the thread ends", || threads() == 0);
    }
}

#[test]
fn pooled_keys_are_counted() {
    let _turn = turn();
    let pooled_of = |place: TestFolder, group: &str| {
        place.openssl(Side::Gabion, &format!("speed -seconds 1 {group}"));
        let (made, errors) = place.count(group, "keygen");
        assert!(made > 0 && errors == 0, "{group}: {made}, {errors} errors");
        let (pooled, errors) = place.count(group, "pooled");
        assert!(pooled < made && errors == 0, "{group}: {pooled} of {made}, {errors} errors");
        pooled
    };
    for (group, _) in GROUPS {
        assert!(pooled_of(switched_on(), group) > 0, "{group}");
        let place = TestFolder::new();
        place.configure("x25519 = yes");
        assert_eq!(pooled_of(place, group), 0, "{group}");
    }
}
