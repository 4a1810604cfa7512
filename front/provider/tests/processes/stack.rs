//! The stack size of operations. OpenSSL runs asynchronous jobs (SSL_MODE_ASYNC, `s_server -async`,
//! nginx with an offload engine) on stacks of 32 KiB from the heap, without a guard page: an
//! overflow silently overwrites other memory.

use std::ffi::c_void;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use gabion_engine::keys::stateful::Progress;
use gabion_engine::xmss::{Scheme, Set};
use gabion_engine::{Algorithm, Config, Engine, Family};
use gabion_provider_testing::hss::{self, Signer, W};
use gabion_provider_testing::libcrypto::{Context, Key, KeyStructure, Params};
use gabion_provider_testing::{
    GROUPS, KEMS, LIB, OURS, PRIVATE_GROUPS, SIGNATURES, Side, TestFolder, all_text,
};
use gabion_state::{Encoding, Environment, GeneratedKey, KeyFileOptions};

const STACK: usize = 1 << 20;
const PAINT: u8 = 0xa5;

/// Runs `work` on a thread whose stack was painted; gives how many bytes of it are not paint any more.
fn depth(work: &mut dyn FnMut()) -> usize {
    extern "C" fn run(work: *mut c_void) -> *mut c_void {
        // SAFETY: the pointer below, which outlives the thread.
        let work = unsafe { &mut *work.cast::<&mut dyn FnMut()>() };
        work();
        std::ptr::null_mut()
    }
    let mut work = work;
    // SAFETY: fresh memory for the stack, which outlives the thread; errors are checked.
    unsafe {
        let map = libc::mmap(
            std::ptr::null_mut(),
            STACK,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(map, libc::MAP_FAILED);
        std::ptr::write_bytes(map.cast::<u8>(), PAINT, STACK);
        let mut attributes = std::mem::zeroed();
        assert_eq!(libc::pthread_attr_init(&mut attributes), 0);
        assert_eq!(libc::pthread_attr_setstack(&mut attributes, map, STACK), 0);
        let mut thread = 0;
        let argument = (&raw mut work).cast();
        assert_eq!(libc::pthread_create(&mut thread, &attributes, run, argument), 0);
        assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
        let stack = std::slice::from_raw_parts(map.cast::<u8>(), STACK);
        let untouched = stack.iter().take_while(|&&byte| byte == PAINT).count();
        libc::munmap(map, STACK);
        STACK - untouched
    }
}

/// The signatures whose keys the provider makes. Keys of the longer RSA take seconds to make, and those of
/// composites differ in nothing else.
fn is_made_here(algorithm: &Algorithm) -> bool {
    use Family::{Composite, FnDsa, MlDsa, SlhDsa};
    let is_long_rsa = ["RSA3072", "RSA4096-PKCS"].iter().any(|rsa| algorithm.name().contains(rsa));
    !is_long_rsa && matches!(algorithm.info().family, MlDsa | SlhDsa | FnDsa | Composite)
}

/// Measures a signature of the provider's: keys, as files where there are any, signing and verifying.
fn measure_signature(
    context: &Context,
    algorithm: Algorithm,
    measure: &mut dyn FnMut(String, &mut dyn FnMut()),
) {
    let (ours, none) = ("provider=gabion", Params::default());
    let name = algorithm.name();
    let mut key = None;
    measure(format!("{name} keygen"), &mut || key = context.generate(name, ours, &none));
    let key = key.unwrap();
    // FN-DSA has no files yet.
    let files = [KeyStructure::Private, KeyStructure::Public].map(|what| key.write(what));
    assert_eq!(files.iter().all(Option::is_some), !name.ends_with("-draft"), "{name}");
    let parts = Params::default().octets("pub", &key.part("pub").unwrap());
    let private = Params::default().octets("priv", &key.part("priv").unwrap());
    measure(format!("{name} read private"), &mut || match &files[0] {
        Some(der) => assert!(context.read(KeyStructure::Private, der).is_some()),
        None => assert!(context.import(name, ours, &private).is_some()),
    });
    let mut signature = Vec::new();
    measure(format!("{name} sign"), &mut || {
        for _ in 0..2 {
            signature = key.sign(name, ours, &none, b"m").unwrap();
        }
    });
    // A key that is used more than twice is verified with in another way.
    measure(format!("{name} read public, verify"), &mut || {
        let public = match &files[1] {
            Some(der) => context.read(KeyStructure::Public, der).unwrap(),
            None => context.import(name, ours, &parts).unwrap(),
        };
        for _ in 0..5 {
            assert!(public.verify(name, ours, &none, b"m", &signature));
        }
    });
    if algorithm.info().family == Family::FnDsa {
        // A thread that finds the key's working memory in use allocates its own.
        let busy = AtomicBool::new(true);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while busy.load(Ordering::Relaxed) {
                        key.sign(name, ours, &none, b"m").unwrap();
                    }
                });
            }
            measure(format!("{name} sign beside others"), &mut || {
                for _ in 0..30 {
                    key.sign(name, ours, &none, b"m").unwrap();
                }
            });
            busy.store(false, Ordering::Relaxed);
        });
    }
}

/// Measures verification with HSS, whose keys and signatures another implementation makes: of one tree, and of so many
/// that not all of them are verified together.
fn measure_hss(context: &Context, measure: &mut dyn FnMut(String, &mut dyn FnMut())) {
    let none = Params::default();
    for shape in [&[W::LmotsW8][..], &[W::LmotsW1, W::LmotsW2, W::LmotsW4, W::LmotsW8, W::LmotsW1]]
    {
        let mut signer = Signer::new(shape, 1);
        let signature = signer.sign(b"m");
        let (info, trees) = (signer.subject_public_key_info(), shape.len());
        let parts = Params::default().octets("pub", &signer.public);
        let verify = |key: Key<'_>| {
            for _ in 0..5 {
                assert!(key.verify(hss::NAME, OURS, &none, b"m", &signature));
            }
        };
        // The first one tests the algorithm.
        measure(format!("HSS of {trees} trees, read public, verify"), &mut || {
            verify(context.read(KeyStructure::Public, &info).unwrap());
        });
        measure(format!("HSS of {trees} trees, import public, verify"), &mut || {
            verify(context.import(hss::NAME, OURS, &parts).unwrap());
        });
    }
}

/// Measures verification with XMSS and XMSS^MT: invalid signatures take as much as valid ones.
fn measure_xmss(context: &Context, measure: &mut dyn FnMut(String, &mut dyn FnMut())) {
    let none = Params::default();
    // SHA-256 with 32 bytes, SHAKE with 64, and twelve layers.
    for (scheme, name, number) in [
        (Scheme::Xmss, "id-alg-xmss-hashsig", 1u32),
        (Scheme::Xmss, "id-alg-xmss-hashsig", 10),
        (Scheme::XmssMt, "id-alg-xmssmt-hashsig", 0x10),
    ] {
        let set = Set::from_number(scheme, number).unwrap();
        let public = [&number.to_be_bytes()[..], &vec![7; 2 * set.n]].concat();
        let parts = Params::default().octets("pub", &public);
        let mut signature = vec![7; set.signature_len()];
        signature[..set.index_len()].fill(0);
        measure(format!("{}, import public, verify", set.name), &mut || {
            let key = context.import(name, OURS, &parts).unwrap();
            for _ in 0..5 {
                assert!(!key.verify(name, OURS, &none, b"m", &signature));
            }
        });
    }
}

/// Measures a private key of HSS by its address.
fn measure_by_address(
    place: &TestFolder,
    context: &Context,
    measure: &mut dyn FnMut(String, &mut dyn FnMut()),
) {
    let around = Environment::real();
    let sets = "LMS_SHA256_M32_H5_W8,LMS_SHA256_M32_H5_W8".parse().unwrap();
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let engine = Engine::global().unwrap();
    let made = GeneratedKey::generate(&around, engine, sets, NonZero::<usize>::MIN, &mut go_on);
    for folder in ["home", "keys"] {
        std::fs::create_dir(place.path(folder)).unwrap();
    }
    let making = KeyFileOptions {
        key: &place.path("keys/k"),
        passphrase: None,
        encoding: Encoding::Hss,
        next: 0,
        warn_at: None,
        anchors: &[place.path("home/k")],
        allow_network: true,
        note: "made",
    };
    made.unwrap().unwrap().write(&around, &making).unwrap();
    let address = format!("gabion-hbs:{}", place.path("keys/k").display());
    let mut key = None;
    measure("HSS by address, open".into(), &mut || key = context.load(&address));
    measure("HSS by address, sign".into(), &mut || {
        for _ in 0..40 {
            key.as_ref().unwrap().sign(hss::NAME, OURS, &Params::default(), b"m").unwrap();
        }
    });
    // Trees have changed, and are written.
    measure("HSS by address, free".into(), &mut || drop(key.take()));
}

/// Measures X25519 by itself.
fn measure_exchange(context: &Context, measure: &mut dyn FnMut(String, &mut dyn FnMut())) {
    let (name, ours, none) = ("X25519", "provider=gabion", Params::default());
    let ikm = Params::default().octets("dhkem-ikm", &[1; 100]);
    for (what, params) in [("first use", &none), ("keygen", &none), ("keygen by HPKE", &ikm)] {
        measure(format!("{name} {what}"), &mut || {
            assert!(context.generate(name, ours, params).is_some());
        });
    }
    let key = context.generate(name, "provider=default", &none).unwrap();
    let peer = context.generate(name, "provider=default", &none).unwrap();
    measure(format!("{name} import, derive"), &mut || {
        assert!(key.derive(ours, &peer).is_some());
    });
}

/// Measures the backends that serve on processors with fewer instructions.
#[test]
fn operations_of_other_backends_fit_the_job_stack() {
    for name in ["avx2", "portable"] {
        if Engine::new(&Config { backend: Some(name.to_owned()), ..Config::default() }).is_err() {
            eprintln!("{name}: not on this processor");
            continue;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stack::operations_fit_the_stack_of_an_asynchronous_job"])
            .env("GABION_BACKEND", name)
            .output()
            .unwrap();
        let text = all_text(&output);
        assert!(output.status.success() && text.contains("1 passed"), "{name}: {text}");
    }
}

#[test]
fn operations_fit_the_stack_of_an_asynchronous_job() {
    let place = TestFolder::new();
    place.configure("x25519 = yes");
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    // The thread's own data on its stack before it begins.
    let empty = depth(&mut || ());
    let mut deepest = Vec::new();
    let mut measure = |what: String, work: &mut dyn FnMut()| {
        deepest.push((depth(work) - empty, what));
    };
    let (ours, none) = ("provider=gabion", Params::default());
    for name in KEMS.into_iter().chain(GROUPS).chain(PRIVATE_GROUPS) {
        let by = if KEMS.contains(&name) { "provider=default" } else { ours };
        // Before anything else: a job may well be the first to use an algorithm, which tests itself.
        measure(format!("{name} first use"), &mut || drop(context.generate(name, ours, &none)));
        let key = context.generate(name, by, &none).unwrap();
        let (ct, secret) = key.encapsulate(by, &none).unwrap();
        measure(format!("{name} keygen"), &mut || drop(context.generate(name, ours, &none)));
        measure(format!("{name} import, decaps"), &mut || {
            assert_eq!(key.decapsulate(ours, &ct).unwrap(), secret);
        });
        measure(format!("{name} encaps"), &mut || drop(key.encapsulate(ours, &none).unwrap()));
    }
    measure_exchange(&context, &mut measure);
    measure_hss(&context, &mut measure);
    measure_xmss(&context, &mut measure);
    measure_by_address(&place, &context, &mut measure);
    for name in SIGNATURES {
        measure(format!("{name} first use"), &mut || drop(context.generate(name, ours, &none)));
        let key = context.generate(name, "provider=default", &none).unwrap();
        let public = Params::default().octets("pub", &key.part("pub").unwrap());
        let signature = key.sign(name, "provider=default", &none, b"m").unwrap();
        measure(format!("{name} keygen"), &mut || drop(context.generate(name, ours, &none)));
        measure(format!("{name} import, sign"), &mut || {
            for _ in 0..8 {
                key.sign(name, ours, &none, b"m").unwrap();
            }
        });
        measure(format!("{name} import public, verify"), &mut || {
            let public = context.import(name, ours, &public).unwrap();
            assert!(public.verify(name, ours, &none, b"m", &signature));
        });
    }
    let schedule =
        Params::default().int("mode", 2).text("digest", "SHA2-384").octets("key", &[1; 48]);
    measure("TLS13-KDF".into(), &mut || {
        let derived = context.kdf("TLS13-KDF", ours).unwrap().derive(48, Some(&schedule));
        assert!(derived.is_some());
    });
    for algorithm in Algorithm::all().filter(is_made_here) {
        measure_signature(&context, algorithm, &mut measure);
    }
    deepest.sort();
    // Of the 32 KiB, libssl takes about 4 below the call.
    let (bytes, what) = deepest.last().unwrap();
    assert!(*bytes <= 28 << 10, "{what} takes {bytes} bytes of stack: {deepest:#?}");
}

/// Builds a program against this OpenSSL, in the folder of its input files.
fn matrix(place: &TestFolder) -> std::path::PathBuf {
    let prefix = gabion_provider_testing::prefix();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/processes/matrix");
    let (program, plug) = (place.path("matrix"), place.path("plug.so"));
    let build = |command: &mut Command| {
        let output = command.args(["-O1", "-Wall", "-Wextra", "-Werror"]).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", all_text(&output));
    };
    // The functions of libpthread and of fibres take functions of other types.
    let words = ["-Wno-cast-function-type", "-rdynamic", "-pthread"];
    let mut command = Command::new("cc");
    command.args(words).arg("-o").arg(&program).arg(source.join("matrix.c"));
    command.arg("-I").arg(prefix.join("include")).arg("-L").arg(prefix.join("lib"));
    build(command.args(["-lssl", "-lcrypto", "-ldl"]));
    build(
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&plug).arg(source.join("plug.c")),
    );
    let signatures = [
        "ML-DSA-65",
        "SLH-DSA-SHA2-128f",
        "Falcon-512",
        "MLDSA44-Ed25519-SHA512-draft19",
        "MLDSA87-ECDSA-P521-SHA512-draft19",
        "MLDSA44-RSA2048-PSS-SHA256-draft19",
    ];
    let make = |key: &str, name: &str| {
        let files = format!("-keyout {name}.key -out {name}.pem -subj /CN={name} -days 30");
        place.openssl(Side::Gabion, &format!("req -x509 -newkey {key} -nodes {files}"));
    };
    signatures.into_iter().for_each(|name| make(name, name));
    make("ec -pkeyopt ec_paramgen_curve:P-256", "ec");
    program
}

/// Runs cells of the matrix; returns their output.
fn run_matrix(place: &TestFolder, program: &Path, words: &[&str]) -> (bool, String) {
    let output = Command::new(program)
        .arg(place.path(""))
        .args(words)
        .env("LD_LIBRARY_PATH", gabion_provider_testing::prefix().join("lib"))
        .env("OPENSSL_CONF", place.path("gabion.cnf"))
        .output()
        .unwrap();
    (output.status.success(), all_text(&output))
}

/// No thread, little stack, no memory, a fork, the loader's lock, cancellation: see matrix/matrix.c.
#[test]
fn resource_exhaustion_yields_correct_results_or_transient_errors() {
    let place = TestFolder::new();
    let program = matrix(&place);
    for when in ["first", "later"] {
        let (good, text) = run_matrix(&place, &program, &[when]);
        assert!(good && text.contains("247 right, 0 wrong"), "{text}");
    }
}

/// Without address space for a stack no self-test runs; where all ran at load, none is left to run.
#[test]
fn self_tests_at_load_are_not_repeated() {
    let place = TestFolder::new();
    let program = matrix(&place);
    let untested = |place: &TestFolder| {
        let (good, text) =
            run_matrix(place, &program, &["first", "1 MiB of address space, no error", "MLKEM768"]);
        (good, text)
    };
    let (good, text) = untested(&place);
    assert!(!good && text.contains("0 right"), "{text}");
    place.configure("self-tests = at-load");
    let (good, text) = untested(&place);
    assert!(good && text.contains("1 right"), "{text}");
}
