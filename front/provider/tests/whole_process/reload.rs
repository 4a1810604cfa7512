//! The provider loaded and unloaded again and again in one process: keys that outlive it, threads that
//! do so at the same time, and memory that stays as it is.

use std::ffi::{CStr, CString, c_void};
use std::path::Path;

use gabion_provider_testing::libcrypto::{Context, Key, Params};
use gabion_provider_testing::{LIB, OURS, TestFolder};

use crate::turn;

const MESSAGE: &[u8] = b"before, between and after";

/// A provider loaded into a context by hand.
struct LoadedProvider<'a> {
    raw: *mut c_void,
    _context: &'a Context,
}

impl<'a> LoadedProvider<'a> {
    fn new(context: &'a Context, name: &CStr) -> LoadedProvider<'a> {
        LoadedProvider::with(context, name, &Params::default())
    }

    /// With what would stand in the provider's section of a configuration file. A file would leave a few
    /// hundred bytes in libcrypto each time.
    fn with(context: &'a Context, name: &CStr, settings: &Params) -> LoadedProvider<'a> {
        let mut list = settings.list();
        // SAFETY: a live context, a C string, a list with an end.
        let raw =
            unsafe { (LIB.OSSL_PROVIDER_load_ex)(context.raw, name.as_ptr(), list.as_mut_ptr()) };
        assert!(!raw.is_null(), "{name:?}: {}", LIB.last_error());
        LoadedProvider { raw, _context: context }
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
    let gabion = LoadedProvider::new(context, c"gabion");
    let key = generate(context, name);
    works(&key, name);
    gabion.unload();
}

/// Waits until so many threads of this process make keys ahead. One that was started has its name a
/// moment later, and one that was told to go is there for another moment.
fn pool_threads(expected: usize) {
    let count = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().map_while(Result::ok);
        let names = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
        names.filter(|name| name.trim() == "gabion-keys").count()
    };
    let comes = (0..20_000).any(|_| {
        count() == expected || {
            std::thread::sleep(std::time::Duration::from_millis(1));
            false
        }
    });
    assert!(comes, "{} threads, expected {expected}", count());
}

/// Bytes that this process has from malloc, in all arenas.
fn in_use() -> usize {
    // SAFETY: no argument.
    unsafe { libc::mallinfo2() }.uordblks
}

/// Runs `work` on a separate thread, whose thread-local data is gone when this returns.
fn on_a_thread(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap());
}

#[test]
fn keys_outlive_the_provider_that_made_them() {
    let _turn = turn();
    let place = TestFolder::new();
    let context = context(&place.path("modules"));
    let stock = LoadedProvider::new(&context, c"default");
    let mut kept = Vec::new();
    for round in 0..20 {
        let gabion = LoadedProvider::new(&context, c"gabion");
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
        let again = LoadedProvider::new(&context, c"gabion");
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
    let _turn = turn();
    let place = TestFolder::new();
    let modules = place.path("modules");
    // Loaded only, which maps and unmaps it; and used, in contexts of their own and in a common one.
    let loaded = || {
        let context = context(&modules);
        LoadedProvider::new(&context, c"gabion").unload();
    };
    let used = || {
        let context = context(&modules);
        let stock = LoadedProvider::new(&context, c"default");
        cycle(&context, "ML-DSA-44");
        stock.unload();
    };
    let with_pools = || {
        let context = context(&modules);
        let switch = Params::default().text("key-pools", "yes");
        let gabion = LoadedProvider::with(&context, c"gabion", &switch);
        // Enough to start the thread that makes keys ahead, which ends with the provider. No call
        // waits for it.
        for name in ["X25519MLKEM768", "X25519"] {
            (0..20).for_each(|_| drop(generate(&context, name)));
        }
        pool_threads(1);
        gabion.unload();
        // The methods that it fetched keep the provider.
        drop(context);
        pool_threads(0);
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
        // The least of three times: malloc keeps pieces that it counts where threads end. A leak is there each time.
        let mut more = usize::MAX;
        for _ in 0..3 {
            let before = in_use();
            (0..LIVES).for_each(|_| on_a_thread(life));
            more = more.min(in_use().saturating_sub(before));
            if more < 200 * LIVES {
                break;
            }
        }
        assert!(more < 200 * LIVES, "{what}: {more} bytes by {LIVES} lives");
    }
}

/// A C++ program's global objects are freed after the exit handlers, of which libcrypto's cleanup is one.
/// libcrypto frees a provider with the last thing that was made by it, and has no table of errors any more.
#[test]
fn objects_can_be_freed_after_openssl_cleanup() {
    let _turn = turn();
    let place = TestFolder::new();
    let config = place.path("gabion.cnf");
    let life = |query: &str, key_goes_first: bool| {
        // SAFETY: the child ends by _exit, without effects on its parent.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: no pointer is passed.
            unsafe { libc::alarm(60) };
            let context = Context::with_config(&LIB, &config);
            let key = context.generate("ML-DSA-44", query, &Params::default()).unwrap();
            drop(key.sign("ML-DSA-44", query, &Params::default(), MESSAGE).unwrap());
            // SAFETY: as a program does at its end; after it nothing is made.
            unsafe { (LIB.OPENSSL_cleanup)() };
            if key_goes_first {
                drop(key);
                drop(context);
            } else {
                let raw = std::mem::ManuallyDrop::new(key).raw;
                drop(context);
                // SAFETY: a key of ours, freed once.
                unsafe { (LIB.EVP_PKEY_free)(raw) };
            }
            // SAFETY: ends the child without the parent's exit handlers.
            unsafe { libc::_exit(0) };
        }
        let mut status = -1;
        // SAFETY: a child of ours.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        status
    };
    for query in [gabion_provider_testing::STOCK, OURS] {
        for key_goes_first in [true, false] {
            assert_eq!(life(query, key_goes_first), 0, "{query}, key first: {key_goes_first}");
        }
    }
}

/// The actions of a plugin with a separate library context, from its constructor to its destructor:
/// keys that are made ahead, and a job that pauses. Both have a thread, which needs the loader's
/// lock to start and to end, and constructors and destructors run with that lock held.
const PLUGIN: &str = r#"
#include <openssl/async.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdlib.h>
static OSSL_LIB_CTX *context;
static OSSL_PROVIDER *stock, *gabion;
static EVP_PKEY *key;
static int sign(void *unused) {
    static unsigned char signature[5000];
    size_t len = sizeof signature;
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    int done = EVP_DigestSignInit_ex(md, NULL, NULL, context, "provider=gabion", key, NULL) == 1
        && EVP_DigestSign(md, signature, &len, (const unsigned char *)"text", 4) == 1;
    EVP_MD_CTX_free(md);
    return done;
}
static void must(int good) { if (!good) abort(); }
static void use(void) {
    int done = 0, state, pauses = 0;
    for (int i = 0; i < 12; i++) {
        EVP_PKEY *made = EVP_PKEY_Q_keygen(context, "provider=gabion", "ML-KEM-512");
        must(made != NULL);
        EVP_PKEY_free(made);
    }
    for (int i = 0; i < 20; i++) {
        ASYNC_JOB *job = NULL;
        ASYNC_WAIT_CTX *wait = ASYNC_WAIT_CTX_new();
        while ((state = ASYNC_start_job(&job, wait, &done, sign, NULL, 0)) == ASYNC_PAUSE) pauses++;
        must(state == ASYNC_FINISH && done == 1);
        ASYNC_WAIT_CTX_free(wait);
    }
    must(pauses > 0);
}
__attribute__((constructor)) static void begin(void) {
    OSSL_PARAM yes[] = {
        OSSL_PARAM_utf8_string("key-pools", (char *)"yes", 3),
        OSSL_PARAM_utf8_string("async-jobs", (char *)"yes", 3),
        OSSL_PARAM_END,
    };
    context = OSSL_LIB_CTX_new();
    must(OSSL_PROVIDER_set_default_search_path(context, MODULES) == 1);
    must((stock = OSSL_PROVIDER_load(context, "default")) != NULL);
    must((gabion = OSSL_PROVIDER_load_ex(context, "gabion", yes)) != NULL);
    must((key = EVP_PKEY_Q_keygen(context, "provider=gabion", "ML-DSA-44")) != NULL);
    if (CONSTRUCTED) use();
}
__attribute__((destructor)) static void end(void) {
    if (!CONSTRUCTED) use();
    EVP_PKEY_free(key);
    OSSL_PROVIDER_unload(gabion);
    OSSL_PROVIDER_unload(stock);
    OSSL_LIB_CTX_free(context);
}
"#;

/// Compiles the plugin; `is_constructed` says whether it does its work in its constructor or destructor.
fn plugin(place: &TestFolder, is_constructed: bool) -> CString {
    let (source, plugin) = (place.path("plugin.c"), place.path(&format!("{is_constructed}.so")));
    std::fs::write(&source, PLUGIN).unwrap();
    let prefix = gabion_provider_testing::prefix();
    let modules = format!("-DMODULES={:?}", place.path("modules").to_str().unwrap());
    let output = std::process::Command::new("cc")
        .args(["-O1", "-shared", "-fPIC", &modules])
        .arg(format!("-DCONSTRUCTED={}", u8::from(is_constructed)))
        .arg(source)
        .arg("-o")
        .arg(&plugin)
        .arg(format!("-I{}", prefix.join("include").display()))
        .arg(format!("-L{}", prefix.join("lib").display()))
        .arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()))
        .arg("-lcrypto")
        .output()
        .expect("cc runs");
    assert!(output.status.success(), "{}", gabion_provider_testing::all_text(&output));
    CString::new(plugin.to_str().unwrap()).unwrap()
}

#[test]
fn constructors_and_destructors_of_a_plugin_wait_for_no_thread() {
    let _turn = turn();
    let place = TestFolder::new();
    let here = context(&place.path("modules"));
    let stock = LoadedProvider::new(&here, c"default");
    let gabion = LoadedProvider::new(&here, c"gabion");
    drop(generate(&here, "ML-KEM-512"));
    works(&generate(&here, "ML-DSA-44"), "ML-DSA-44");
    for is_constructed in [true, false] {
        let plugin = plugin(&place, is_constructed);
        for _ in 0..3 {
            // SAFETY: a plugin of ours, whose work is over when it is closed. One that hangs ends the
            // test.
            unsafe {
                libc::alarm(60);
                let handle = libc::dlopen(plugin.as_ptr(), libc::RTLD_NOW);
                assert!(!handle.is_null(), "{:?}", CStr::from_ptr(libc::dlerror()));
                assert_eq!(libc::dlclose(handle), 0);
                libc::alarm(0);
            }
        }
    }
    gabion.unload();
    stock.unload();
    pool_threads(0);
}

#[test]
fn threads_load_and_unload_while_others_work() {
    const EACH: usize = 6;
    let _turn = turn();
    let place = TestFolder::new();
    let modules = place.path("modules");
    let shared = context(&modules);
    let stock = LoadedProvider::new(&shared, c"default");
    let gabion = LoadedProvider::new(&shared, c"gabion");
    let key = generate(&shared, "ML-DSA-65");
    std::thread::scope(|scope| {
        for thread in 0..EACH {
            let (modules, shared, key) = (&modules, &shared, &key);
            // In a separate context, in the one that others use, and under continuous load.
            scope.spawn(move || {
                for _ in 0..20 {
                    let own = context(modules);
                    let stock = LoadedProvider::new(&own, c"default");
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
