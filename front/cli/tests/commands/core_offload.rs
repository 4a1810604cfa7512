//! OpenSSL with the core patch: ML-KEM and ML-DSA by libgabion give the same results as OpenSSL's
//! own code, and if libgabion is missing or fails, OpenSSL's own code runs.
//!
//! Needs a bundle that `gabion bundle build --core-offload` made (or `GABION_OFFLOAD_PREFIX`, which
//! may name several, with colons); without one the tests pass and say that they did not run, or fail where
//! `GABION_TEST_NEEDS_OFFLOAD` is set, as they do then without one for each OpenSSL that the patch is for.

#![allow(clippy::expect_used)] // A panic is how a test fails, in its helpers too.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The lines of OpenSSL that the patch is for, with what builds a bundle of each.
const LINES: [(&str, &str); 2] = [("3.5", ""), ("4.0", " --openssl 4.0.3")];

/// The prefixes to test with.
fn prefixes() -> Vec<PathBuf> {
    let found: Vec<PathBuf> = match std::env::var("GABION_OFFLOAD_PREFIX") {
        Ok(list) => list.split(':').map(PathBuf::from).collect(),
        Err(_) => {
            let home = std::env::var("HOME").unwrap_or_default();
            let cache = Path::new(&home).join(".cache/gabion/openssl");
            LINES.iter().filter_map(|(line, _)| newest(&cache, line)).collect()
        }
    };
    let is_missing = |(line, _): &&(&str, &str)| !found.iter().any(|place| is_of(place, line));
    let missing: Vec<_> = LINES.iter().filter(is_missing).collect();
    let needed = std::env::var_os("GABION_TEST_NEEDS_OFFLOAD").is_some();
    assert!(!needed || missing.is_empty(), "no bundle with the core patch for {missing:?}");
    for (line, option) in missing {
        eprintln!(
            "not run: no bundle of {line} with the core patch; `gabion bundle build --core-offload\
             {option}`"
        );
    }
    found
}

/// The newest finished bundle of a line that has the patch.
fn newest(cache: &Path, line: &str) -> Option<PathBuf> {
    let release = |name: &str| -> Option<u32> {
        name.strip_prefix("bundle-")?
            .strip_prefix(line)?
            .strip_prefix('.')?
            .strip_suffix("-offload")?
            .parse()
            .ok()
    };
    let entries = std::fs::read_dir(cache).ok()?.flatten();
    let bundles = entries.filter(|entry| entry.path().join("gabion-bundle.json").exists());
    let numbered =
        bundles.filter_map(|entry| Some((release(entry.file_name().to_str()?)?, entry.path())));
    numbered.max().map(|(_, place)| place)
}

/// Returns whether a bundle is of this line of OpenSSL, as its own description says.
fn is_of(place: &Path, line: &str) -> bool {
    std::fs::read_to_string(place.join("gabion-bundle.json"))
        .is_ok_and(|text| text.contains(&format!("\"version\": \"{line}.")))
}

/// One OpenSSL with the core patch, a folder to work in, and what is set for its programs.
struct Bench {
    prefix: PathBuf,
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
}

/// The operations that libgabion served for a program, and those that failed, by operation.
#[derive(Debug, Default, PartialEq)]
struct Counts {
    served: BTreeMap<String, u64>,
    failed: BTreeMap<String, u64>,
}

impl Counts {
    /// Reads the line that the library writes when its program ends.
    fn of(stderr: &str) -> Option<Counts> {
        let line = stderr.lines().find_map(|l| l.strip_prefix("gabion offload: served "))?;
        let (served, failed) = line.split_once(" failed ")?;
        let read = |text: &str| {
            text.split(' ')
                .filter_map(|word| word.split_once('='))
                .map(|(name, count)| (name.to_string(), count.parse().expect("a number")))
                .collect()
        };
        Some(Counts { served: read(served), failed: read(failed) })
    }

    fn served(&self, name: &str) -> u64 {
        self.served[name]
    }

    fn failures(&self) -> u64 {
        self.failed.values().sum()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Bench {
    fn new(prefix: &Path) -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        Bench { prefix: prefix.to_path_buf(), folder, variables: Vec::new() }
    }

    /// Returns the bench with variables set, and with a separate folder.
    fn with(&self, variables: &[(&'static str, &str)]) -> Bench {
        let mut bench = Bench::new(&self.prefix);
        bench.variables =
            variables.iter().map(|(name, value)| (*name, value.to_string())).collect();
        bench
    }

    fn on(&self) -> Bench {
        self.with(&[("GABION_OFFLOAD", "1")])
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.folder.path());
        for name in ["GABION_OFFLOAD", "GABION_BACKEND", "OPENSSL_CONF", "OPENSSL_MODULES"] {
            command.env_remove(name);
        }
        command.env("GABION_OFFLOAD_REPORT", "1");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// A key and the certificate that it signs for itself, as files `key` and `cert`.
    fn make_certificate(&self, algorithm: &str) {
        let names = "req -x509 -nodes -keyout key -out cert -subj /CN=localhost -days 30 -newkey";
        self.openssl(&names.split(' ').chain([algorithm]).collect::<Vec<_>>());
    }

    /// Runs `openssl`, which has to succeed, and returns its standard error.
    fn openssl(&self, args: &[&str]) -> String {
        let output =
            self.command(&self.prefix.join("bin/openssl"), args).output().expect("it runs");
        let stderr = text(&output.stderr);
        assert!(output.status.success(), "openssl {args:?}: {}\n{stderr}", output.status);
        stderr
    }

    fn counts(&self, args: &[&str]) -> Counts {
        let stderr = self.openssl(args);
        Counts::of(&stderr).unwrap_or_else(|| panic!("openssl {args:?} counted nothing: {stderr}"))
    }

    fn write(&self, name: &str, content: &[u8]) {
        std::fs::write(self.folder.path().join(name), content).expect("it is written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }

    /// Everything the two algorithms do, from fixed seeds: file names and their bytes.
    fn everything(&self) -> BTreeMap<String, Vec<u8>> {
        let hex = |n: u8| (0..n).map(|byte| format!("{byte:02x}")).collect::<String>();
        let (seed, ikme) = (format!("hexseed:{}", hex(64)), format!("hexikme:{}", hex(32)));
        for set in ["ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"] {
            let file = |what: &str| format!("{set}.{what}");
            let [key, public, ct, sent, got, bad, rejected] =
                ["key", "pub", "ct", "sent", "got", "bad", "rejected"].map(file);
            self.openssl(&["genpkey", "-algorithm", set, "-pkeyopt", &seed, "-out", &key]);
            self.openssl(&["pkey", "-in", &key, "-pubout", "-out", &public]);
            let peer = ["-pubin", "-inkey", &public, "-pkeyopt", &ikme, "-secret", &sent];
            self.openssl(&[&["pkeyutl", "-encap", "-out", &ct][..], &peer].concat());
            let decap = ["pkeyutl", "-decap", "-inkey", &key];
            self.openssl(&[&decap[..], &["-in", &ct, "-secret", &got]].concat());
            assert!(self.read(&sent) == self.read(&got), "{set}: two secrets");
            let mut altered = self.read(&ct);
            altered[5] ^= 1;
            self.write(&bad, &altered);
            self.openssl(&[&decap[..], &["-in", &bad, "-secret", &rejected]].concat());
            assert!(self.read(&rejected) != self.read(&got), "{set}: no rejection");
        }
        let seed = format!("hexseed:{}", hex(32));
        self.write("message", b"what is signed");
        self.write("mu", &[7; 64]);
        for set in ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"] {
            let [key, public] = ["key", "pub"].map(|what| format!("{set}.{what}"));
            self.openssl(&["genpkey", "-algorithm", set, "-pkeyopt", &seed, "-out", &key]);
            self.openssl(&["pkey", "-in", &key, "-pubout", "-out", &public]);
            for (name, message, option) in [
                ("pure", "message", "context-string:there"),
                ("mu", "mu", "mu:1"),
                ("raw", "message", "message-encoding:0"),
            ] {
                let signature = format!("{set}.{name}.sig");
                let what = ["-rawin", "-in", message, "-pkeyopt", option];
                let sign = ["pkeyutl", "-sign", "-inkey", &key, "-pkeyopt", "deterministic:1"];
                self.openssl(&[&sign[..], &what, &["-out", &signature]].concat());
                let verify = ["pkeyutl", "-verify", "-pubin", "-inkey", &public, "-sigfile"];
                self.openssl(&[&verify[..], &[&signature], &what].concat());
                self.refuses_altered(&signature, &[&verify[..], &["bad.sig"], &what].concat());
            }
        }
        let entries = std::fs::read_dir(self.folder.path()).expect("it lists");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        names
            .map(|name| name.into_string().expect("text"))
            .map(|n| (n.clone(), self.read(&n)))
            .collect()
    }

    fn refuses_altered(&self, signature: &str, verify: &[&str]) {
        let mut altered = self.read(signature);
        altered[9] ^= 1;
        self.write("bad.sig", &altered);
        let output = self.command(&self.prefix.join("bin/openssl"), verify).output();
        assert_eq!(output.expect("it runs").status.code(), Some(1), "{verify:?}: a bad signature");
    }
}

#[test]
fn offloaded_results_equal_native_results() {
    for prefix in prefixes() {
        let plain = Bench::new(&prefix);
        let (own, offloaded) = (plain.everything(), plain.on().everything());
        assert_eq!(own.len(), offloaded.len());
        assert!(own.len() > 30, "{}", own.len());
        for (name, bytes) in &own {
            assert!(offloaded[name] == *bytes, "{}: {name} differs", prefix.display());
        }
    }
}

#[test]
fn the_work_is_done_by_libgabion() {
    for prefix in prefixes() {
        let bench = Bench::new(&prefix).on();
        bench.write("message", b"m");
        let counted = |args: &str, served: &[(&str, u64)]| {
            let counts = bench.counts(&args.split(' ').collect::<Vec<_>>());
            // OpenSSL tries a pair that was imported without a seed, so some do more than asked.
            for (name, least) in served {
                assert!(counts.served(name) >= *least, "{args}: {counts:?}");
            }
            assert_eq!(counts.failures(), 0, "{args}: {counts:?}");
        };
        counted("genpkey -algorithm ML-KEM-768 -out kem", &[("keygen", 1)]);
        counted("pkeyutl -encap -inkey kem -out ct -secret a", &[("encaps", 1)]);
        counted("pkeyutl -decap -inkey kem -in ct -secret b", &[("keygen", 1), ("decaps", 1)]);
        assert_eq!(bench.read("a"), bench.read("b"));
        counted("genpkey -algorithm ML-DSA-65 -out dsa", &[("keygen", 1)]);
        counted("pkeyutl -sign -inkey dsa -rawin -in message -out sig", &[("sign", 1)]);
        let verify = "pkeyutl -verify -inkey dsa -rawin -in message -sigfile sig";
        counted(verify, &[("verify", 1)]);
        // A key that comes in its expanded form, without a seed.
        let expanded = "pkey -in kem -out kem2 -provparam ml-kem.output_formats=priv-only";
        counted(expanded, &[]);
        counted("pkeyutl -decap -inkey kem2 -in ct -secret c", &[("import", 1), ("decaps", 1)]);
        assert_eq!(bench.read("a"), bench.read("c"));
        counted("pkey -in dsa -out dsa2 -provparam ml-dsa.output_formats=priv-only", &[]);
        counted("pkeyutl -sign -inkey dsa2 -rawin -in message -out sig", &[("sign", 1)]);
        counted(verify, &[("verify", 1)]);
        // Formatted messages are for tests of the standard; OpenSSL keeps them.
        let raw =
            "pkeyutl -sign -inkey dsa -rawin -in message -pkeyopt message-encoding:0 -out raw";
        counted(raw, &[("sign", 0)]);
    }
}

#[test]
fn offload_requires_the_variable_to_be_1() {
    for prefix in prefixes() {
        let plain = Bench::new(&prefix);
        let off = ["0", "", "2", "yes", "10"].map(|value| plain.with(&[("GABION_OFFLOAD", value)]));
        for (bench, why) in off.iter().chain([&plain]).zip([
            "off: GABION_OFFLOAD is \"0\"; 1 puts it on",
            "off: GABION_OFFLOAD is \"\"; expected 1 or 0",
            "off: GABION_OFFLOAD is \"2\"; expected 1 or 0",
            "off: GABION_OFFLOAD is \"yes\"; expected 1 or 0",
            "off: GABION_OFFLOAD is \"10\"; expected 1 or 0",
            "off: GABION_OFFLOAD is not set",
        ]) {
            let stderr = bench.openssl(&["genpkey", "-algorithm", "ML-KEM-768", "-out", "key"]);
            assert_eq!(stderr.matches("gabion").count(), 1, "{:?}: {stderr}", bench.variables);
            assert!(stderr.contains(why), "{:?}: {stderr}", bench.variables);
        }
        let silent = plain.with(&[("GABION_OFFLOAD_REPORT", "0"), ("GABION_OFFLOAD", "yes")]);
        let stderr = silent.openssl(&["genpkey", "-algorithm", "ML-KEM-768", "-out", "key"]);
        assert!(!stderr.contains("gabion"), "{stderr}");
        let stderr = plain.on().openssl(&["genpkey", "-algorithm", "ML-KEM-768", "-out", "key"]);
        let library = prefix.join("lib/ossl-modules/libgabion.so.1");
        assert!(stderr.contains(&format!("on: {}", library.display())), "{stderr}");
    }
}

#[test]
fn a_program_with_more_rights_than_its_caller_reads_no_variable() {
    for prefix in prefixes() {
        let bench = Bench::new(&prefix).on();
        let program = bench.folder.path().join("openssl");
        std::fs::copy(prefix.join("bin/openssl"), &program).expect("a copy");
        let groups = Command::new("chgrp").arg("65534").arg(&program).output();
        if !groups.is_ok_and(|output| output.status.success()) {
            let needed = std::env::var_os("GABION_TEST_NEEDS_OFFLOAD").is_some();
            assert!(!needed, "only root may give a program to another group");
            eprintln!("not run: only root may give a program to another group");
            return;
        }
        let generate = ["genpkey", "-algorithm", "ML-KEM-768", "-out", "key"];
        for (mode, is_offloaded) in [(0o755, true), (0o2755, false)] {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&program, mode).expect("its mode");
            let output = bench.command(&program, &generate).output().expect("it runs");
            assert!(output.status.success(), "{}", text(&output.stderr));
            assert_eq!(text(&output.stderr).contains("gabion offload"), is_offloaded);
        }
    }
}

#[test]
fn fips_module_contains_no_offload_code() {
    for prefix in prefixes() {
        // The folder's own name may be in both.
        let words: [&[u8]; 3] = [b"ossl_gabion", b"libgabion", b"GABION_OFFLOAD"];
        let knows = |file: &str| {
            let bytes = std::fs::read(prefix.join(file)).expect("it is there");
            words.iter().any(|word| bytes.windows(word.len()).any(|window| window == *word))
        };
        assert!(!knows("lib/ossl-modules/fips.so"), "{}", prefix.display());
        assert!(knows("lib/libcrypto.so"), "{}: not the patched library", prefix.display());
    }
}

/// Stands between libcrypto and the loader: another file, another interface, a function that is
/// missing, a function that fails.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void *(*dlsym_fn)(void *, const char *);

static dlsym_fn real_dlsym(void)
{
    static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17" };
    for (size_t i = 0; i < 3; i++) {
        dlsym_fn found = (dlsym_fn)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
        if (found != NULL)
            return found;
    }
    abort();
}

void *dlopen(const char *file, int flags)
{
    void *(*real)(const char *, int) = (void *(*)(const char *, int))real_dlsym()(RTLD_NEXT, "dlopen");
    const char *other = getenv("SHIM_LIBRARY");
    if (file != NULL && strstr(file, "/libgabion.so.1") != NULL && other != NULL)
        file = other;
    return real(file, flags);
}

static int32_t fails(void) { return -9; }

typedef int32_t (*export_fn)(const void *, uint8_t *, size_t *);
typedef int32_t (*sign_fn)(const void *, const void *, const uint8_t *, size_t, uint8_t *, size_t *);
static export_fn export_all;
static sign_fn sign_all;

static int32_t exports_less(const void *key, uint8_t *bytes, size_t *len)
{
    int32_t status = export_all(key, bytes, len);
    *len -= status == 0;
    return status;
}

static int32_t signs_less(const void *key, const void *message, const uint8_t *rnd, size_t rnd_len,
    uint8_t *signature, size_t *len)
{
    int32_t status = sign_all(key, message, rnd, rnd_len, signature, len);
    *len -= status == 0;
    return status;
}

static uint32_t other_abi(void) { return 4711; }

void *dlsym(void *handle, const char *name)
{
    const char *failing = getenv("SHIM_FAILING"), *missing = getenv("SHIM_MISSING");
    if (strcmp(name, "gabion_abi") == 0 && getenv("SHIM_ABI") != NULL)
        return (void *)other_abi;
    const char *shortening = getenv("SHIM_SHORTENING");
    if (shortening != NULL && strcmp(name, shortening) == 0) {
        if (strcmp(name, "gabion_private_key_export") == 0) {
            export_all = (export_fn)real_dlsym()(handle, name);
            return (void *)exports_less;
        }
        sign_all = (sign_fn)real_dlsym()(handle, name);
        return (void *)signs_less;
    }
    if (failing != NULL && strcmp(name, failing) == 0)
        return (void *)fails;
    if (missing != NULL && strcmp(name, missing) == 0)
        return NULL;
    return real_dlsym()(handle, name);
}
"#;

/// Compiles the shim; returns the library.
fn shim(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&source, SHIM).expect("it is written");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&library, &source])
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", text(&output.stderr));
    library
}

#[test]
fn openssl_takes_over_if_libgabion_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    for prefix in prefixes() {
        let preload = shim(folder.path());
        let preload = preload.to_str().expect("text");
        let plain = Bench::new(&prefix);
        let own = plain.everything();
        let broken = |name: &'static str, value: &str, why: &str| {
            let variables = [("GABION_OFFLOAD", "1"), ("LD_PRELOAD", preload), (name, value)];
            let bench = plain.with(&variables);
            let stderr = bench.openssl(&["genpkey", "-algorithm", "ML-KEM-768", "-out", "key"]);
            assert!(stderr.contains(why), "{name}={value}: {stderr}");
            std::fs::remove_file(bench.folder.path().join("key")).expect("it goes");
            let made = bench.everything();
            let different = own.iter().filter(|(file, bytes)| made.get(*file) != Some(*bytes));
            let different: Vec<_> = different.map(|(file, _)| file).collect();
            assert!(different.is_empty(), "{name}={value}: {different:?}");
        };
        broken("SHIM_LIBRARY", "/nonexistent/libgabion.so", "off: /nonexistent/libgabion.so");
        broken("SHIM_LIBRARY", "libm.so.6", "has no gabion_abi");
        broken("SHIM_ABI", "1", "has interface 4711; expected 1");
        broken("SHIM_MISSING", "gabion_verify", "has no gabion_verify");
        broken("GABION_BACKEND", "nonsense", "keygen failed (-10: no backend `nonsense`");
        broken("SHIM_FAILING", "gabion_private_key_from_seed", "keygen failed (-9");
        broken("SHIM_FAILING", "gabion_private_key_export", "keygen failed (-9");
        broken("SHIM_SHORTENING", "gabion_private_key_export", "keygen failed (-9");
        // A signature that is too short does not count as served.
        let short = ("SHIM_SHORTENING", "gabion_sign_with_randomness");
        let bench = plain.with(&[("GABION_OFFLOAD", "1"), ("LD_PRELOAD", preload), short]);
        bench.make_certificate("ML-DSA-65");
        bench.write("message", b"m");
        let sign = "pkeyutl -sign -inkey key -rawin -in message -out sig";
        let counts = bench.counts(&sign.split(' ').collect::<Vec<_>>());
        assert!(counts.served("sign") == 0 && counts.failures() > 0, "{counts:?}");
        for function in [
            "gabion_public_key_import",
            "gabion_private_key_public",
            "gabion_encaps_with_randomness",
            "gabion_decaps",
            "gabion_sign_with_randomness",
            "gabion_verify",
        ] {
            broken("SHIM_FAILING", function, "gabion offload: on");
        }
    }
}

/// A server that is stopped when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    /// Waits until the process is done, and returns its output.
    fn end(&mut self, log: &Path) -> String {
        let start = Instant::now();
        while self.0.try_wait().expect("its state").is_none() {
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
        text(&std::fs::read(log).expect("its log"))
    }
}

/// A full handshake, each side on or off; returns what the server and the client wrote.
fn handshake(server: &Bench, client: &Bench, group: &str, options: &[&str]) -> (String, String) {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("its number").to_string();
    drop(free);
    let openssl = server.prefix.join("bin/openssl");
    let log = server.folder.path().join("log");
    let output = std::fs::File::create(&log).expect("a log");
    let args = ["s_server", "-accept", &address, "-cert", "cert", "-key", "key", "-naccept", "1"];
    let mut command = server.command(&openssl, &[&args[..], &["-groups", group], options].concat());
    // It takes the end of its input for a wish to close, so its input stays open.
    command.stdin(Stdio::piped()).stdout(output.try_clone().expect("it")).stderr(output);
    let mut running = Server(command.spawn().expect("it starts"));
    let start = Instant::now();
    while !text(&std::fs::read(&log).expect("its log")).contains("ACCEPT") {
        assert!(start.elapsed() < Duration::from_secs(60), "the server does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    let root = server.folder.path().join("cert");
    let root = root.to_str().expect("text");
    let args = ["s_client", "-connect", &address, "-CAfile", root, "-verify_return_error"];
    let mut command = client.command(&openssl, &[&args[..], &["-groups", group], options].concat());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shaking = command.spawn().expect("it starts");
    shaking.stdin.take().expect("a pipe").write_all(b"Q\n").expect("it listens");
    let Output { stdout, stderr, .. } = shaking.wait_with_output().expect("it ends");
    let said = text(&stdout) + &text(&stderr);
    assert!(said.contains("Verify return code: 0 (ok)"), "{group}: {said}");
    assert!(said.contains("New, TLSv1.3"), "{group}: {said}");
    (running.end(&log), said)
}

#[test]
fn handshakes_succeed_whichever_side_is_offloaded() {
    for prefix in prefixes() {
        let plain = Bench::new(&prefix);
        for (group, signature) in [
            ("X25519MLKEM768", "ML-DSA-65"),
            ("MLKEM1024", "ML-DSA-87"),
            ("SecP256r1MLKEM768", "ML-DSA-44"),
        ] {
            for (server_on, client_on) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let side = |on| if on { plain.on() } else { plain.with(&[]) };
                let (server, client) = (side(server_on), side(client_on));
                server.make_certificate(signature);
                let (served, said) = handshake(&server, &client, group, &[]);
                for (output, on, needed) in [
                    (&served, server_on, ["encaps", "sign"]),
                    (&said, client_on, ["decaps", "verify"]),
                ] {
                    let counts = Counts::of(output);
                    assert_eq!(counts.is_some(), on, "{group}: {output}");
                    let counts = counts.unwrap_or_default();
                    for name in needed {
                        assert!(!on || counts.served(name) == 1, "{group}: {counts:?}");
                    }
                    assert_eq!(counts.failures(), 0, "{group}: {counts:?}");
                }
            }
        }
    }
}

#[test]
fn asynchronous_jobs_are_not_offloaded() {
    for prefix in prefixes() {
        let server = Bench::new(&prefix).on();
        server.make_certificate("ML-DSA-65");
        let client = Bench::new(&prefix).on();
        let (served, said) = handshake(&server, &client, "X25519MLKEM768", &["-async"]);
        for (output, names) in [(&served, ["encaps", "sign"]), (&said, ["decaps", "keygen"])] {
            let counts = Counts::of(output).unwrap_or_default();
            for name in names {
                assert_eq!(counts.served.get(name).copied().unwrap_or(0), 0, "{counts:?}");
            }
        }
    }
}

/// The command, in a bundle's environment.
fn gabion_bench(prefix: &Path, switch: &str, args: &[&str]) -> Output {
    let mut command = Command::new(crate::harness::program("gabion-bench"));
    command.args(["tls", "--json", "--seconds", "0.2", "--prefix"]).arg(prefix).args(args);
    command.env("GABION_OFFLOAD", switch).output().expect("it runs")
}

#[test]
fn many_threads_on_shared_keys_shake_hands_and_the_benchmark_knows_whose_work_it_is() {
    for prefix in prefixes() {
        let output =
            gabion_bench(&prefix, "0", &["--provider", "default,offload", "--threads", "8"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let rows = text(&output.stdout);
        let rows: Vec<&str> = rows.lines().collect();
        assert_eq!(rows.len(), 2);
        assert!(rows[0].contains("\"signature_provider\":\"default\""), "{}", rows[0]);
        assert!(rows[1].contains("\"provider\":\"offload\""), "{}", rows[1]);
        assert!(rows[1].contains("\"signature_provider\":\"libgabion\""), "{}", rows[1]);
        let output = gabion_bench(&prefix, "1", &[]);
        assert_eq!(output.status.code(), Some(2), "default's row would be offloaded");
    }
}

#[test]
fn a_libcrypto_without_the_patch_is_not_measured_in_its_name() {
    let plain = gabion_ship::bundle::Layout::newest_finished().expect("HOME is set");
    let plain = plain.prefix().to_path_buf();
    if !plain.join("gabion-bundle.json").exists() {
        eprintln!("not run: no OpenSSL bundle");
        return;
    }
    let output = gabion_bench(&plain, "0", &["--provider", "offload"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).contains("--core-offload"), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
}
