//! Keys, signatures and secrets through the command line, and through OpenSSL both ways.

#![allow(clippy::unwrap_used, missing_docs)]

use std::os::unix::fs::PermissionsExt;

use crate::harness::{ALGORITHMS, CommandResult, Work, bundle, is_kem, vectors};

const FORMATS: [&str; 3] = ["seed", "expanded", "both"];

/// Uses a key pair for its purpose; every other use must be rejected.
fn use_pair(work: &Work, algorithm: &str, key: &str, public: &str) {
    if is_kem(algorithm) {
        work.gabion(&["encaps", "--force", "--key", public, "--out", "ct", "--secret", "sent"])
            .ok();
        work.gabion(&["decaps", "--force", "--key", key, "--secret", "got", "ct"]).ok();
        assert_eq!(work.read("sent"), work.read("got"), "{algorithm}");
        assert_eq!(work.read("sent").len(), 32);
    } else {
        work.write("message", b"a message");
        work.gabion(&["sign", "--force", "--key", key, "--out", "sig", "message"]).ok();
        let verify = ["verify", "--key", public, "--sig", "sig"];
        work.gabion(&[&verify[..], &["message"]].concat()).ok();
        work.gabion_fed(&verify, b"another message").fails(1);
    }
}

#[test]
fn every_form_of_every_key_works() {
    let work = Work::new();
    for algorithm in ALGORITHMS {
        for format in FORMATS {
            for der in [&[][..], &["--der"]] {
                let make = ["keygen", algorithm, "--out", "key", "--pub", "pub", "--force"];
                work.gabion(&[&make[..], &["--format", format], der].concat()).ok();
                assert_eq!(work.read("key").starts_with(b"-----"), der.is_empty());
                use_pair(&work, algorithm, "key", "pub");
                // A private key holds its public key too.
                use_pair(&work, algorithm, "key", "key");
            }
        }
    }
}

/// The form that every program reads which was tried; `both` and `expanded` are for those who ask.
#[test]
fn a_key_is_written_as_its_seed_unless_told_otherwise() {
    let work = Work::new();
    for (algorithm, bytes) in [("ML-DSA-65", 54), ("ML-KEM-768", 86)] {
        let make = ["keygen", algorithm, "--der", "--force", "--out", "key"];
        work.gabion(&make).ok();
        assert_eq!(work.read("key").len(), bytes, "{algorithm}");
        work.gabion(&[&make[..], &["--format", "both"]].concat()).ok();
        assert!(work.read("key").len() > 2400, "{algorithm}");
    }
    // Algorithms with a single private key form need no choice of it.
    for algorithm in ["SLH-DSA-SHA2-128f", "Ed25519", "X25519", "ECDSA-P-256"] {
        work.gabion(&["keygen", algorithm, "--force", "--out", "key"]).ok();
    }
}

#[test]
fn secrets_are_for_the_owner_alone() {
    let work = Work::new();
    let mode =
        |name: &str| std::fs::metadata(work.path(name)).unwrap().permissions().mode() & 0o777;
    work.gabion(&["keygen", "ML-KEM-768", "--out", "key", "--pub", "pub"]).ok();
    work.write("sent", b"was readable by all");
    work.gabion(&["encaps", "--force", "--key", "pub", "--out", "ct", "--secret", "sent"]).ok();
    work.gabion(&["decaps", "--force", "--key", "key", "--secret", "got", "ct"]).ok();
    for secret in ["key", "sent", "got"] {
        assert_eq!(mode(secret), 0o600, "{secret}");
    }
}

#[test]
fn keygen_overwrites_nothing_and_leaves_no_partial_files() {
    let work = Work::new();
    work.write("theirs", b"theirs");
    for outputs in [["--out", "theirs", "--pub", "new"], ["--out", "new", "--pub", "theirs"]] {
        let make = [&["keygen", "ML-DSA-44"][..], &outputs].concat();
        work.gabion(&make).fails(2).says("theirs exists").says("--force");
        assert_eq!(work.names(), ["theirs"], "{outputs:?}");
        assert_eq!(work.read("theirs"), b"theirs");
    }
    work.gabion(&["keygen", "ML-DSA-44", "--out", "theirs", "--force"]).ok();
    assert!(work.read("theirs").starts_with(b"-----BEGIN PRIVATE KEY-----"));
    let into_nowhere = ["keygen", "ML-DSA-44", "--out", "key", "--pub", "no/such/folder/pub"];
    work.gabion(&into_nowhere).fails(2);
    assert_eq!(work.names(), ["theirs"]);
    // The key itself as output of something else.
    work.gabion(&["sign", "--force", "--key", "theirs", "--out", "./theirs"])
        .fails(2)
        .says("same file");
    assert!(work.read("theirs").starts_with(b"-----BEGIN PRIVATE KEY-----"));
}

/// One file under two names would keep one of the two outputs, and a private key be lost.
#[test]
fn two_outputs_that_are_one_file_are_refused_however_they_are_spelt() {
    let work = Work::new();
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, work.path(name)).unwrap();
    };
    std::fs::create_dir(work.path("folder")).unwrap();
    link(".", "here");
    link("folder/../k", "link");
    link("link", "link2");
    work.write("a", b"a");
    std::fs::hard_link(work.path("a"), work.path("b")).unwrap();
    work.gabion(&["keygen", "ML-KEM-512", "--out", "kem"]).ok();
    let before = work.names().len();
    let absolute = work.path("k").display().to_string();
    for [one, other] in [
        ["k", "k"],
        ["k", "./k"],
        ["folder/../k", "k"],
        ["k", "folder/.././/k"],
        [absolute.as_str(), "k"],
        ["here/k", "k"],
        ["here/here/k", "link"],
        ["k", "link"],
        ["link2", "k"],
        ["link", "link2"],
        ["a", "b"],
        ["-", "/dev/stdout"],
        ["/dev/fd/1", "/proc/self/fd/1"],
    ] {
        for pair in [[one, other], [other, one]] {
            let keygen = ["keygen", "ML-DSA-44", "--force", "--out", pair[0], "--pub", pair[1]];
            let encaps =
                ["encaps", "--key", "kem", "--force", "--out", pair[0], "--secret", pair[1]];
            for command in [&keygen[..], &encaps] {
                let done = work.gabion(command).fails(2).says("name the same file");
                assert!(done.out.is_empty(), "{pair:?}");
            }
            assert_eq!(work.names().len(), before, "{pair:?}");
        }
    }
    assert_eq!((work.read("a"), work.read("b")), (b"a".to_vec(), b"a".to_vec()));
    // Standard output is a file, too, where the shell made it one.
    let into = std::fs::File::create(work.path("k")).unwrap();
    let keygen = ["keygen", "ML-DSA-44", "--force", "--out", "-", "--pub", "k"];
    CommandResult::of(work.command(&keygen).stdout(into).output().unwrap())
        .fails(2)
        .says("same file");
    // Two distinct files are accepted, whatever their names have in common, and so is /dev/null
    // twice.
    work.gabion(&["keygen", "ML-DSA-44", "--out", "here/x", "--pub", "folder/x"]).ok();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "/dev/null", "--pub", "/dev/null"]).ok();
    work.gabion(&["keygen", "ML-DSA-44", "--force", "--out", "link2", "--pub", "K"]).ok();
    assert!(work.read("k").starts_with(b"-----BEGIN PRIVATE KEY-----"), "through the link");
    assert!(work.read("K").starts_with(b"-----BEGIN PUBLIC KEY-----"));
}

#[test]
fn an_output_never_is_an_input_and_replaces_a_file_only_when_told_to() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "key"]).ok();
    work.gabion(&["keygen", "ML-KEM-512", "--out", "kem"]).ok();
    work.gabion(&["keygen", "X25519", "--out", "mine", "--pub", "mine.pub"]).ok();
    work.gabion(&["encaps", "--key", "kem", "--out", "ct", "--secret", "sent"]).ok();
    work.write("word", b"word");
    for name in ["key", "kem", "mine.pub", "ct", "word"] {
        std::fs::hard_link(work.path(name), work.path(&format!("{name}.hard"))).unwrap();
        std::os::unix::fs::symlink(name, work.path(&format!("{name}.link"))).unwrap();
    }
    let same = |command: &[&str], output: &str, input: &str| {
        for end in ["", ".hard", ".link"] {
            let output = format!("{output}{end}");
            let command = [&command[..1], &["--force"], &command[1..], &[&*output]].concat();
            work.gabion(&command).fails(2).says(&format!("and {input} name the same file"));
        }
    };
    same(&["sign", "--key", "key", "word", "--out"], "key", "--key");
    same(&["sign", "--key", "key", "word", "--out"], "word", "FILE");
    same(&["sign", "--key", "key", "--passin", "file:word", "--out"], "word", "--passin");
    same(&["encaps", "--key", "kem", "--out", "x", "--secret"], "kem", "--key");
    same(&["decaps", "--key", "kem", "ct", "--secret"], "ct", "CT");
    same(&["derive", "--key", "mine", "--peer", "mine.pub", "--secret"], "mine.pub", "--peer");
    let mut sign = work.command(&["sign", "--force", "--key", "-", "--out", "key", "word"]);
    let key = std::fs::File::open(work.path("key")).unwrap();
    CommandResult::of(sign.stdin(key).output().unwrap()).fails(2).says("same file");
    let before = work.names().len();
    for command in [
        &["sign", "--key", "key", "ct", "--out", "word"][..],
        &["encaps", "--key", "kem", "--out", "x", "--secret", "word"],
        &["encaps", "--key", "kem", "--out", "word", "--secret", "x"],
        &["decaps", "--key", "kem", "ct", "--secret", "word"],
        &["derive", "--key", "mine", "--peer", "mine.pub", "--secret", "word"],
    ] {
        work.gabion(command).fails(2).says("word exists").says("--force");
        assert_eq!((work.read("word"), work.names().len()), (b"word".to_vec(), before));
        work.gabion(&[command, &["--force"]].concat()).ok();
        assert_ne!(work.read("word"), b"word");
        work.write("word", b"word");
        let _ = std::fs::remove_file(work.path("x"));
    }
}

/// Users who can put a link or a pipe into a folder such as /tmp would choose where a secret goes.
#[test]
fn links_and_pipes_of_other_users_are_refused_as_output() {
    use std::os::unix::fs::{lchown, symlink};
    let work = Work::new();
    work.gabion(&["keygen", "ML-KEM-512", "--out", "kem"]).ok();
    std::fs::create_dir(work.path("tmp")).unwrap();
    std::fs::set_permissions(work.path("tmp"), PermissionsExt::from_mode(0o1777)).unwrap();
    let pipe = work.path("tmp/pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    symlink("../kem", work.path("tmp/link")).unwrap();
    symlink("..", work.path("tmp/folder")).unwrap();
    let owned = ["tmp/pipe", "tmp/link", "tmp/folder"];
    if owned.iter().any(|name| lchown(work.path(name), Some(12345), None).is_err()) {
        return eprintln!("skipped: only root can make another user's files");
    }
    let before = work.read("kem");
    for name in ["tmp/pipe", "tmp/link", "tmp/folder/new", "tmp/folder/kem"] {
        let outputs = ["--force", "--out", "ct", "--secret", name];
        let done = work.gabion(&[&["encaps", "--key", "kem"][..], &outputs].concat());
        done.fails(2).says("of another user (id 12345)");
    }
    assert!(work.read("kem") == before && !work.has("new") && !work.has("ct"));
}

/// HAProxy's files are a certificate and then its private key.
#[test]
fn a_certificate_before_the_key_does_not_hide_it() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "key"]).ok();
    let request = ["req", "-x509", "-key", "key", "-subj", "/CN=x", "-out", "crt"];
    work.openssl(&request).ok();
    work.write("message", b"a message");
    for (name, parts) in [("haproxy", ["crt", "key"]), ("other", ["key", "crt"])] {
        work.write(name, parts.map(|part| work.read(part)).concat());
        work.gabion(&["sign", "--force", "--key", name, "--out", "sig", "message"]).ok();
        work.gabion(&["verify", "--key", name, "--sig", "sig", "message"])
            .ok()
            .says("from the certificate");
    }
}

/// A name that comes from elsewhere can hold what a terminal obeys.
#[test]
fn names_are_shown_and_not_obeyed() {
    let work = Work::new();
    for command in [
        &["sign", "--key", "no\x1b[31m"][..],
        &["keygen", "ML-DSA-44", "--out", "no\x1b[31m/key"],
        &["keygen", "no\x1b[31m", "--out", "key"],
        &["acvp", "no\x1b[31m"],
        &["doctor", "--stats", "no\x1b[31m"],
    ] {
        let done = work.gabion(command).fails(2).says("no\\u{1b}[31m");
        assert!(!done.err.contains('\x1b') && !done.err.contains("os error"), "{:?}", done.err);
    }
    // Arguments that are refused before any command runs.
    for command in
        [&["no\x1b[31m\x07"][..], &["sign", "--no\x07"], &["keygen", "x", "--format", "\x07"]]
    {
        let done = work.gabion(command).fails(2);
        assert!(!done.err.contains(['\x1b', '\x07']), "{:?}", done.err);
    }
}

#[test]
fn a_full_disk_is_told_apart_from_a_wrong_command_everywhere() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-KEM-512", "--out", "kem"]).ok();
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for command in [
        &["algorithms"][..],
        &["keygen", "ML-DSA-44", "--out", "-"],
        &["encaps", "--key", "kem", "--out", "ct", "--secret", "-"],
        &["encaps", "--key", "kem", "--out", "/dev/full", "--secret", "ss"],
    ] {
        let done = CommandResult::of(work.command(command).stdout(full()).output().unwrap());
        done.fails(3).says("No space left on device");
        assert!(!work.has("ct") && !work.has("ss"), "half a pair of outputs");
    }
}

#[test]
fn a_dash_is_standard_input_and_output() {
    let work = Work::new();
    let key = work.gabion(&["keygen", "ML-DSA-44", "--out", "-", "--pub", "pub"]).ok().out;
    work.write("key", &key);
    let sig = work.gabion_fed(&["sign", "--force", "--key", "key"], b"hello").ok().out;
    work.write("sig", &sig);
    work.write("message", b"hello");
    let verify = ["verify", "--key", "-", "--sig", "sig", "message"];
    work.gabion_fed(&verify, &work.read("pub")).ok();
    work.gabion_fed(&["verify", "--key", "pub", "--sig", "-", "message"], &sig).ok();
    work.gabion_fed(&["verify", "--key", "pub", "--sig", "sig", "-"], b"hello").ok();
    work.gabion_fed(&["verify", "--key", "-", "--sig", "-", "message"], &sig)
        .fails(2)
        .says("--key and --sig");
    work.gabion(&["keygen", "ML-KEM-512", "--out", "kem"]).ok();
    let ct = work
        .gabion(&["encaps", "--force", "--key", "kem", "--out", "-", "--secret", "sent"])
        .ok()
        .out;
    let got =
        work.gabion_fed(&["decaps", "--force", "--key", "kem", "--secret", "-", "-"], &ct).ok().out;
    assert_eq!(work.read("sent"), got);
    work.gabion(&["encaps", "--force", "--key", "kem", "--out", "-", "--secret", "-"]).fails(2);
}

#[test]
fn bytes_are_not_written_to_a_terminal() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "key", "--pub", "pub"]).ok();
    work.gabion(&["keygen", "ML-KEM-768", "--out", "kem", "--pub", "kem.pub"]).ok();
    work.gabion(&["encaps", "--force", "--key", "kem.pub", "--out", "ct", "--secret", "sent"]).ok();
    work.gabion(&["keygen", "X25519", "--out", "mine", "--pub", "mine.pub"]).ok();
    let on_terminal = |arguments: &[&str]| {
        // The controlling side of a new terminal is one too.
        let terminal = std::fs::File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        CommandResult::of(work.command(arguments).stdout(terminal).output().unwrap())
    };
    for (arguments, option) in [
        (&["sign", "--force", "--key", "key"][..], "--out"),
        (&["encaps", "--force", "--key", "kem.pub", "--out", "ct2", "--secret", "-"], "--secret"),
        (&["decaps", "--force", "--key", "kem", "--secret", "-", "ct"], "--secret"),
        (
            &["derive", "--force", "--key", "mine", "--peer", "mine.pub", "--secret", "-"],
            "--secret",
        ),
        (&["keygen", "ML-DSA-44", "--out", "-", "--der"], "--out"),
    ] {
        on_terminal(arguments).fails(2).says("terminal").says(&format!("with {option},"));
    }
    assert!(!work.has("ct2"));
    on_terminal(&["sign", "--force", "--key", "key", "--out", "sig"]).ok();
    on_terminal(&["keygen", "ML-DSA-44", "--out", "-"]).ok();
    assert_eq!(work.gabion(&["sign", "--force", "--key", "key"]).ok().out.len(), 2420);
}

#[test]
fn context_prehash_and_determinism_reach_the_signature() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-65", "--out", "key", "--pub", "pub"]).ok();
    work.write("message", b"a message");
    let sign = |more: &[&str]| {
        work.gabion(&[&["sign", "--force", "--key", "key", "message"], more].concat()).ok().out
    };
    assert_ne!(sign(&[]), sign(&[]), "hedged");
    assert_eq!(sign(&["--deterministic"]), sign(&["--deterministic"]));
    let modes: [&[&str]; 6] = [
        &[],
        &["--context", "00ff"],
        &["--prehash", "SHA2-512"],
        &["--prehash", "SHA2-256"],
        &["--prehash", "SHAKE-128"],
        &["--prehash", "sha512", "--context", "00ff"],
    ];
    for (at, signed) in modes.iter().enumerate() {
        work.write("sig", sign(signed));
        for (other, verified) in modes.iter().enumerate() {
            let verify = ["verify", "--key", "pub", "--sig", "sig", "message"];
            let done = work.gabion(&[&verify[..], verified].concat());
            assert_eq!(done.code, Some(i32::from(at != other)), "{signed:?} {verified:?}");
        }
    }
    work.gabion(&["sign", "--force", "--key", "key", "--context", &"00".repeat(256), "message"])
        .fails(2);
    work.gabion(&["sign", "--force", "--key", "key", "--context", "0", "message"]).fails(2);
    work.gabion(&["sign", "--force", "--key", "key", "--prehash", "md5", "message"]).fails(2);
}

#[test]
fn wrong_kinds_of_key_are_named() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-KEM-768", "--out", "kem", "--pub", "kem.pub"]).ok();
    work.gabion(&["keygen", "ML-DSA-65", "--out", "dsa", "--pub", "dsa.pub"]).ok();
    work.write("ct", [0; 1088]);
    work.gabion(&["sign", "--force", "--key", "kem"])
        .fails(2)
        .says("kem holds an ML-KEM-768 key; signing needs the key of a signature algorithm, such");
    work.gabion(&["sign", "--force", "--key", "dsa.pub"]).fails(2).says("needs the private key");
    work.gabion(&["verify", "--key", "kem.pub", "--sig", "ct"]).fails(2).says("verifying needs");
    work.gabion(&["encaps", "--force", "--key", "dsa.pub", "--out", "a", "--secret", "b"])
        .fails(2)
        .says("encapsulating needs the key of a KEM, such as ML-KEM-768");
    work.gabion(&["decaps", "--force", "--key", "dsa", "--secret", "b", "ct"])
        .fails(2)
        .says("ML-KEM-768");
    work.gabion(&["decaps", "--force", "--key", "kem.pub", "--secret", "b", "ct"])
        .fails(2)
        .says("needs the private key");
    work.write("short", [0; 1087]);
    work.gabion(&["decaps", "--force", "--key", "kem", "--secret", "b", "short"])
        .fails(2)
        .says("has 1087 bytes; an ML-KEM-768 ciphertext has 1088");
    assert!(!work.has("a") && !work.has("b"), "an output of a command that failed");
}

#[test]
fn old_names_are_accepted_with_a_note() {
    let work = Work::new();
    work.gabion(&["keygen", "DILITHIUM_LEVEL3", "--out", "key"]).ok().says(
        "DILITHIUM_LEVEL3 is the old name; the standard ML-DSA-65 is used; keys and signatures of \
         the draft are not compatible",
    );
    work.gabion(&["sign", "--force", "--key", "key", "--out", "sig"]).ok();
    assert_eq!(work.read("sig").len(), 3309);
    work.gabion(&["keygen", "ed448", "--out", "other"]).fails(2).says("`gabion algorithms` lists");
    assert!(!work.has("other"));
}

/// Every prefix at steps, and every byte changed at steps, of a key and of a certificate.
#[test]
fn garbage_is_refused_by_every_command() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-KEM-512", "--out", "pem"]).ok();
    work.gabion(&["keygen", "ML-KEM-512", "--out", "der", "--der"]).ok();
    let (pem, der) = (work.read("pem"), work.read("der"));
    let mut bad: Vec<Vec<u8>> = vec![b"".to_vec(), b"\n".to_vec(), vec![0x30], vec![0x30; 5000]];
    bad.push(b"-----BEGIN PRIVATE KEY-----".to_vec());
    bad.push(b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n".to_vec());
    bad.push(b"-----BEGIN -----END -----".to_vec());
    bad.extend((1..8).map(|part| pem[..pem.len() * part / 8].to_vec()));
    bad.extend((1..8).map(|part| der[..der.len() * part / 8].to_vec()));
    bad.push(der[..der.len() - 1].to_vec());
    for bytes in &bad {
        work.write("bad", bytes);
        work.gabion(&["encaps", "--force", "--key", "bad", "--out", "a", "--secret", "b"]).fails(2);
    }
    work.write("ct", [0; 768]);
    work.gabion(&["sign", "--force", "--key", "bad"]).fails(2);
    work.gabion(&["verify", "--key", "bad", "--sig", "ct"]).fails(2);
    work.gabion(&["decaps", "--force", "--key", "bad", "--secret", "b", "ct"]).fails(2);
    work.gabion(&["acvp", "bad"]).fails(2);
    work.gabion(&["doctor", "--stats", "bad"]).fails(2);
    work.gabion(&["sign", "--force", "--key", "/no/such/file"]).fails(2).says("/no/such/file");
    work.gabion(&["sign", "--force", "--key", "."]).fails(2);
    assert!(!work.has("a") && !work.has("b"));
}

/// Signatures of the wrong length or content are no error of the command line: the answer is no.
#[test]
fn a_bad_signature_is_a_no() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "key"]).ok();
    work.write("message", b"a message");
    work.gabion(&["sign", "--force", "--key", "key", "--out", "sig", "message"]).ok();
    let sig = work.read("sig");
    let mut changed = sig.clone();
    changed[1000] ^= 1;
    for bad in [vec![], sig[..sig.len() - 1].to_vec(), [&sig[..], &[0]].concat(), changed] {
        work.write("bad", bad);
        let verify = ["verify", "--key", "key", "--sig", "bad", "message"];
        let done = work.gabion(&verify).fails(1).says("does not verify");
        assert!(done.out.is_empty());
    }
}

#[test]
fn openssl_reads_our_keys_and_we_read_its() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    for algorithm in ALGORITHMS {
        for format in FORMATS {
            let make = ["keygen", algorithm, "--out", "key", "--pub", "pub", "--force"];
            work.gabion(&[&make[..], &["--format", format]].concat()).ok();
            assert_eq!(
                work.openssl(&["pkey", "-in", "key", "-pubout"]).ok().out,
                work.read("pub"),
                "{algorithm} {format}"
            );
        }
        // `both` is what openssl itself writes, to the byte.
        assert_eq!(work.openssl(&["pkey", "-in", "key"]).ok().out, work.read("key"));
        let family = if is_kem(algorithm) { "ml-kem" } else { "ml-dsa" };
        for format in ["seed-only", "priv-only", "seed-priv"] {
            let option = format!("{family}.output_formats={format}");
            let make =
                ["genpkey", "-algorithm", algorithm, "-provparam", &option, "-out", "theirs"];
            work.openssl(&make).ok();
            work.openssl(&["pkey", "-in", "theirs", "-pubout", "-out", "theirs.pub"]).ok();
            use_pair(&work, algorithm, "theirs", "theirs.pub");
        }
        work.openssl(&["pkey", "-in", "key", "-outform", "DER", "-out", "der"]).ok();
        use_pair(&work, algorithm, "der", "pub");
    }
}

#[test]
fn openssl_interoperability() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    work.write("message", b"a message");
    for algorithm in ALGORITHMS {
        work.gabion(&["keygen", algorithm, "--out", "key", "--pub", "pub", "--force"]).ok();
        if is_kem(algorithm) {
            work.gabion(&["encaps", "--force", "--key", "pub", "--out", "ct", "--secret", "sent"])
                .ok();
            let decap = ["pkeyutl", "-decap", "-inkey", "key", "-in", "ct", "-secret", "got"];
            work.openssl(&decap).ok();
            assert_eq!(work.read("sent"), work.read("got"), "{algorithm}");
            let encap = ["pkeyutl", "-encap", "-pubin", "-inkey", "pub", "-out", "ct"];
            work.openssl(&[&encap[..], &["-secret", "sent"]].concat()).ok();
            work.gabion(&["decaps", "--force", "--key", "key", "--secret", "got", "ct"]).ok();
            assert_eq!(work.read("sent"), work.read("got"), "{algorithm}");
            continue;
        }
        for (ours, theirs) in [
            (&[][..], &[][..]),
            (&["--context", "00ff10"], &["-pkeyopt", "hexcontext-string:00ff10"]),
        ] {
            let sign = ["sign", "--force", "--key", "key", "--out", "sig", "message"];
            work.gabion(&[&sign[..], ours].concat()).ok();
            let verify = ["pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "pub", "-in"];
            let verify = [&verify[..], &["message", "-sigfile", "sig"], theirs].concat();
            work.openssl(&verify).ok();
            let sign = ["pkeyutl", "-sign", "-rawin", "-inkey", "key", "-in", "message", "-out"];
            work.openssl(&[&sign[..], &["sig"], theirs].concat()).ok();
            let verify = ["verify", "--key", "pub", "--sig", "sig", "message"];
            work.gabion(&[&verify[..], ours].concat()).ok();
        }
        let option = ["-pkeyopt", "deterministic:1"];
        let sign = ["pkeyutl", "-sign", "-rawin", "-inkey", "key", "-in", "message", "-out", "sig"];
        work.openssl(&[&sign[..], &option].concat()).ok();
        let ours = work
            .gabion(&["sign", "--force", "--key", "key", "--deterministic", "message"])
            .ok()
            .out;
        assert_eq!(ours, work.read("sig"), "{algorithm}");
    }
}

#[test]
fn encrypted_keys_open_with_every_source_of_a_password() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "key"]).ok();
    let ways: [&[&str]; 5] = [
        &["-topk8", "-v2", "aes-256-cbc"],
        &["-topk8", "-v2", "aes-128-cbc", "-iter", "1000"],
        &["-topk8", "-v2", "aes-256-cbc", "-v2prf", "hmacWithSHA512"],
        &["-topk8", "-scrypt"],
        &["-topk8", "-v2", "aes-256-cbc", "-outform", "DER"],
    ];
    work.write("line", b"secret\nmore\n");
    for way in ways {
        let encrypt = ["pkcs8", "-in", "key", "-out", "locked", "-passout", "pass:secret"];
        work.openssl(&[&encrypt[..], way].concat()).ok();
        let sign = ["sign", "--force", "--key", "locked", "--out", "sig"];
        for source in ["pass:secret", "file:line"] {
            work.gabion(&[&sign[..], &["--passin", source]].concat()).ok();
        }
    }
    work.openssl(&[
        "genpkey",
        "-algorithm",
        "ML-DSA-44",
        "-aes256",
        "-pass",
        "pass:secret",
        "-out",
        "theirs",
    ])
    .ok();
    let sign = ["sign", "--force", "--key", "theirs", "--out", "sig", "line", "--passin"];
    let with = |source: &str| work.command(&[&sign[..], &[source]].concat());
    let done = with("env:WORD").env("WORD", "secret").output().unwrap();
    assert!(done.status.success(), "{done:?}");
    work.gabion_fed(&[&sign[..], &["stdin"]].concat(), b"secret\n").ok();
    work.gabion_fed(&[&sign[..], &["fd:0"]].concat(), b"secret\n").ok();
    work.gabion(&[&sign[..], &["pass:wrong"]].concat()).fails(2).says("does not open");
    work.gabion(&[&sign[..], &["env:NO_SUCH_WORD"]].concat()).fails(2);
    let bare = work.gabion(&[&sign[..], &["wrong-secret"]].concat()).fails(2);
    assert!(!bare.err.contains("the password is wrong-secret"), "{}", bare.err);
    work.gabion(&["sign", "--force", "--key", "theirs", "line"]).fails(2).says("--passin");
}

#[test]
fn the_examples_of_the_standards_are_read_and_the_bad_ones_refused() {
    let (Some(dsa), Some(kem)) = (vectors("lamps/ml-dsa"), vectors("lamps/ml-kem")) else {
        return;
    };
    let work = Work::new();
    for algorithm in ALGORITHMS {
        let folder = if is_kem(algorithm) { &kem } else { &dsa };
        let file = |end: &str| folder.join(format!("{algorithm}{end}")).display().to_string();
        for form in FORMATS {
            let key = file(&format!("-{form}.priv"));
            use_pair(&work, algorithm, &key, &file(".pub"));
            use_pair(&work, algorithm, &key, &file(".crt"));
        }
    }
    let mut refused = 0;
    for folder in [dsa, kem] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if !name.starts_with("bad-") {
                continue;
            }
            let path = path.to_str().unwrap();
            if name.contains("KEM") {
                work.gabion(&["encaps", "--force", "--key", path, "--out", "a", "--secret", "b"])
                    .fails(2)
            } else {
                work.gabion(&["sign", "--force", "--key", path]).fails(2)
            }
            .says("private key");
            refused += 1;
        }
    }
    assert_eq!(refused, 4);
}
