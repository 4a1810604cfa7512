//! No freed memory holds a secret that passed through this crate: what both sides agreed on, and a private key's file.
//! The engine's own values are looked for in tests/tests/zeroize.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::SeqCst};

use gabion_engine::Algorithm;
use gabion_rustls::groups::DEFAULT;
use gabion_rustls::testing::Key;

/// Bytes of a secret that are looked for.
const LEN: usize = 32;
static SECRET: [AtomicU8; LEN] = [const { AtomicU8::new(0) }; LEN];
static IS_WATCHING: AtomicBool = AtomicBool::new(false);
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// The system's allocator, but blocks are searched before they are freed.
struct Watch;

#[global_allocator]
static WATCH: Watch = Watch;

// SAFETY: the system's allocator does the work; blocks that grow are copied, so that the old one is searched.
unsafe impl GlobalAlloc for Watch {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if IS_WATCHING.load(SeqCst) {
            // SAFETY: the block is its caller's until it is freed, and had every byte written when it was made.
            search(unsafe { std::slice::from_raw_parts(block, layout.size()) });
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

fn search(block: &[u8]) {
    let is_it = |window: &[u8]| {
        window.iter().zip(&SECRET).all(|(byte, secret)| *byte == secret.load(SeqCst))
    };
    let hits = block.windows(LEN).filter(|window| is_it(window)).count();
    FOUND.fetch_add(hits, SeqCst);
}

/// Returns how often a secret stood in what was freed while `work` ran.
fn freed_with(secret: &[u8], work: impl FnOnce()) -> usize {
    secret.iter().zip(&SECRET).for_each(|(byte, slot)| slot.store(*byte, SeqCst));
    FOUND.store(0, SeqCst);
    IS_WATCHING.store(true, SeqCst);
    work();
    IS_WATCHING.store(false, SeqCst);
    FOUND.load(SeqCst)
}

/// One test, since there is one secret at a time.
#[test]
fn no_freed_memory_holds_a_secret() {
    // A check of the watch itself: a secret that is not wiped is found.
    let careless = std::hint::black_box(vec![0xa5; LEN]);
    assert_eq!(freed_with(&careless.clone(), || drop(careless)), 1);
    for group in DEFAULT {
        let client = group.start().unwrap();
        let server = group.start_and_complete(client.pub_key()).unwrap();
        // All is known to the watch before the client's side makes its copies.
        let secret = server.secret.secret_bytes()[..LEN].to_vec();
        let share = server.pub_key.clone();
        let freed = freed_with(&secret, || {
            drop(client.complete(&share).unwrap());
            drop(server);
        });
        assert_eq!(freed, 0, "{:?}", group.name());
    }
    // Where the seed or the scalar stands in each file: behind the head of an OCTET STRING of 32 bytes.
    for (key, skipped) in [
        (Key::Engine(Algorithm::MlDsa65), 30),
        (Key::Engine(Algorithm::EcdsaP256), 36),
        (Key::Engine(Algorithm::Ed25519), 16),
    ] {
        let file = key.file();
        assert_eq!(file.secret_der()[skipped - 2..skipped], [4, 32], "{key:?}");
        let secret = file.secret_der()[skipped..][..LEN].to_vec();
        let given = file.clone_key();
        let provider = gabion_rustls::provider();
        let freed = freed_with(&secret, || {
            drop(provider.key_provider.load_private_key(given).unwrap());
        });
        assert_eq!(freed, 0, "{key:?}");
    }
}
