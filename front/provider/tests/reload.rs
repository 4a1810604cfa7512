//! The provider loaded and unloaded again and again in one process: keys that outlive it, threads that
//! do so at the same time, and memory that stays as it is.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use common::libcrypto::{Context, Key, Params};
use common::{LIB, OURS, Place};

const MESSAGE: &[u8] = b"before, between and after";

/// The tests measure this process's memory, so they run one after another.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A provider that was loaded into a context by hand.
struct Loaded<'a> {
    raw: *mut c_void,
    _context: &'a Context,
}

impl<'a> Loaded<'a> {
    fn new(context: &'a Context, name: &CStr) -> Loaded<'a> {
        Loaded::with(context, name, &Params::default())
    }

    /// With what would stand in the provider's section of a configuration file. A file would leave a few
    /// hundred bytes in libcrypto each time.
    fn with(context: &'a Context, name: &CStr, settings: &Params) -> Loaded<'a> {
        let mut list = settings.list();
        // SAFETY: a live context, a C string, a list with an end.
        let raw =
            unsafe { (LIB.OSSL_PROVIDER_load_ex)(context.raw, name.as_ptr(), list.as_mut_ptr()) };
        assert!(!raw.is_null(), "{name:?}: {}", LIB.last_error());
        Loaded { raw, _context: context }
    }

    fn unload(self) {
        // SAFETY: loaded by `new`, unloaded once.
        assert_eq!(unsafe { (LIB.OSSL_PROVIDER_unload)(self.raw) }, 1, "{}", LIB.last_error());
    }
}

/// A library context that finds the module under test.
fn context(modules: &Path) -> Context {
    let context = Context::bare(&LIB);
    let modules = CString::new(modules.to_str().unwrap()).unwrap();
    // SAFETY: a live context and a C string.
    let set = unsafe { (LIB.OSSL_PROVIDER_set_default_search_path)(context.raw, modules.as_ptr()) };
    assert_eq!(set, 1);
    context
}

fn generate<'a>(context: &'a Context, name: &str) -> Key<'a> {
    let key = context.generate(name, OURS, &Params::default());
    let key = key.unwrap_or_else(|| panic!("{name}: {}", LIB.last_error()));
    assert_eq!(key.provider(), "gabion");
    key
}

/// Signs, verifies and refuses to verify.
fn works(key: &Key<'_>, name: &str) {
    let none = Params::default();
    let signature = key.sign(name, OURS, &none, MESSAGE).unwrap();
    assert!(key.verify(name, OURS, &none, MESSAGE, &signature), "{name}");
    assert!(!key.verify(name, OURS, &none, b"another", &signature), "{name}");
}

/// One life of the provider in a context that others may use too.
fn cycle(context: &Context, name: &str) {
    let gabion = Loaded::new(context, c"gabion");
    let key = generate(context, name);
    works(&key, name);
    gabion.unload();
}

/// How many threads of this process make keys ahead, once a thread that was started has its name.
fn pool_threads() -> usize {
    let count = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "gabion-keys").count()
    };
    (0..10_000).map(|_| count()).find(|&found| found > 0).unwrap_or(0)
}

/// Bytes that this process has from malloc, in all arenas.
fn in_use() -> usize {
    // SAFETY: no argument.
    unsafe { libc::mallinfo2() }.uordblks
}

/// Runs `work` on a thread of its own, with whose end everything of the thread is gone.
fn on_a_thread(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
}

#[test]
fn keys_outlive_the_provider_that_made_them() {
    let _alone = alone();
    let place = Place::new();
    let context = context(&place.path("modules"));
    let stock = Loaded::new(&context, c"default");
    let mut kept = Vec::new();
    for round in 0..20 {
        let gabion = Loaded::new(&context, c"gabion");
        for name in ["ML-DSA-44", "ML-DSA-65", "Falcon-512", "ML-KEM-768", "X25519MLKEM768"] {
            let key = generate(&context, name);
            // Alternately freed before, right after, and only with the last one.
            match round % 3 {
                0 => drop(key),
                _ => kept.push((round, name, key)),
            }
        }
        gabion.unload();
        kept.retain(|(made, ..)| made % 3 == 2);
        // Keys of a provider that is gone, and one that comes again: they serve, or say why not.
        for (_, name, key) in &kept {
            if key.part("pub").is_none() {
                assert!(LIB.take_errors() > 0, "{name}: no public key, and no reason");
            }
        }
        LIB.take_errors();
        let again = Loaded::new(&context, c"gabion");
        for (_, name, key) in &kept {
            assert!(key.part("pub").is_some_and(|public| public.len() > 800), "{name}");
            if name.starts_with("ML-DSA") || name.starts_with("Falcon") {
                works(key, name);
            }
        }
        again.unload();
    }
    assert!(kept.len() >= 30);
    drop(kept);
    stock.unload();
}

#[test]
fn memory_stays_as_it_is_over_lives_of_the_provider() {
    const LIVES: usize = 200;
    let _alone = alone();
    let place = Place::new();
    let modules = place.path("modules");
    // Loaded only, which maps and unmaps it; and used, in contexts of their own and in a common one.
    let loaded = || {
        let context = context(&modules);
        Loaded::new(&context, c"gabion").unload();
    };
    let used = || {
        let context = context(&modules);
        let stock = Loaded::new(&context, c"default");
        cycle(&context, "ML-DSA-44");
        stock.unload();
    };
    let with_pools = || {
        let context = context(&modules);
        let switch = Params::default().text("key-pools", "yes");
        let gabion = Loaded::with(&context, c"gabion", &switch);
        // Enough for the thread that makes keys ahead, which has to end with the provider.
        for name in ["X25519MLKEM768", "X25519"] {
            (0..20).for_each(|_| drop(generate(&context, name)));
        }
        assert_eq!(pool_threads(), 1);
        gabion.unload();
    };
    let common = context(&modules);
    let in_common = || cycle(&common, "ML-DSA-44");
    for (what, life) in [
        ("loaded", &loaded as &(dyn Fn() + Sync)),
        ("used", &used),
        ("used with pools", &with_pools),
        ("used in one context", &in_common),
    ] {
        (0..10).for_each(|_| on_a_thread(life));
        let before = in_use();
        (0..LIVES).for_each(|_| on_a_thread(life));
        let more = in_use().saturating_sub(before);
        assert!(more < 200 * LIVES, "{what}: {more} bytes by {LIVES} lives");
    }
}

#[test]
fn threads_load_and_unload_while_others_work() {
    const EACH: usize = 6;
    let _alone = alone();
    let place = Place::new();
    let modules = place.path("modules");
    let shared = context(&modules);
    let stock = Loaded::new(&shared, c"default");
    let gabion = Loaded::new(&shared, c"gabion");
    let key = generate(&shared, "ML-DSA-65");
    std::thread::scope(|scope| {
        for thread in 0..EACH {
            let (modules, shared, key) = (&modules, &shared, &key);
            // In a context of its own, in the one that others use, and working all the while.
            scope.spawn(move || {
                for _ in 0..20 {
                    let own = context(modules);
                    let stock = Loaded::new(&own, c"default");
                    cycle(&own, if thread % 2 == 0 { "ML-DSA-44" } else { "Falcon-512" });
                    stock.unload();
                }
            });
            scope.spawn(move || (0..20).for_each(|_| cycle(shared, "ML-DSA-87")));
            scope.spawn(move || (0..40).for_each(|_| works(key, "ML-DSA-65")));
        }
    });
    gabion.unload();
    drop(key);
    stock.unload();
}
