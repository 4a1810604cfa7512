//! Keys, signatures and secrets through the command line, and through OpenSSL both ways.

#![allow(clippy::unwrap_used, missing_docs)]

mod harness;

use std::os::unix::fs::PermissionsExt;

use harness::{ALGORITHMS, Done, Work, bundle, is_kem, vectors};

const FORMATS: [&str; 3] = ["seed", "expanded", "both"];

/// Uses a key pair for what it is made for; every way but the right one must be noticed.
fn use_pair(work: &Work, algorithm: &str, key: &str, public: &str) {
    if is_kem(algorithm) {
        work.gabion(&["encaps", "--key", public, "--out", "ct", "--secret", "sent"]).ok();
        work.gabion(&["decaps", "--key", key, "--secret", "got", "ct"]).ok();
        assert_eq!(work.read("sent"), work.read("got"), "{algorithm}");
        assert_eq!(work.read("sent").len(), 32);
    } else {
        work.write("message", b"a message");
        work.gabion(&["sign", "--key", key, "--out", "sig", "message"]).ok();
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

#[test]
fn secrets_are_for_the_owner_alone() {
    let work = Work::new();
    let mode =
        |name: &str| std::fs::metadata(work.path(name)).unwrap().permissions().mode() & 0o777;
    work.gabion(&["keygen", "ML-KEM-768", "--out", "key", "--pub", "pub"]).ok();
    work.write("sent", b"was readable by all");
    work.gabion(&["encaps", "--key", "pub", "--out", "ct", "--secret", "sent"]).ok();
    work.gabion(&["decaps", "--key", "key", "--secret", "got", "ct"]).ok();
    for secret in ["key", "sent", "got"] {
        assert_eq!(mode(secret), 0o600, "{secret}");
    }
}

#[test]
fn nothing_is_overwritten_or_left_half_done() {
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
    work.gabion(&["sign", "--key", "theirs", "--out", "./theirs"]).fails(2).says("same file");
    assert!(work.read("theirs").starts_with(b"-----BEGIN PRIVATE KEY-----"));
}

#[test]
fn a_dash_is_standard_input_and_output() {
    let work = Work::new();
    let key = work.gabion(&["keygen", "ML-DSA-44", "--out", "-", "--pub", "pub"]).ok().out;
    work.write("key", &key);
    let sig = work.gabion_fed(&["sign", "--key", "key"], b"hello").ok().out;
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
    let ct = work.gabion(&["encaps", "--key", "kem", "--out", "-", "--secret", "sent"]).ok().out;
    let got = work.gabion_fed(&["decaps", "--key", "kem", "--secret", "-", "-"], &ct).ok().out;
    assert_eq!(work.read("sent"), got);
    work.gabion(&["encaps", "--key", "kem", "--out", "-", "--secret", "-"]).fails(2);
}

#[test]
fn bytes_are_not_written_to_a_terminal() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "key", "--pub", "pub"]).ok();
    work.gabion(&["keygen", "ML-KEM-768", "--out", "kem", "--pub", "kem.pub"]).ok();
    work.gabion(&["encaps", "--key", "kem.pub", "--out", "ct", "--secret", "sent"]).ok();
    work.gabion(&["keygen", "X25519", "--out", "mine", "--pub", "mine.pub"]).ok();
    let on_terminal = |arguments: &[&str]| {
        // The controlling side of a new terminal is one too.
        let terminal = std::fs::File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        Done::of(work.command(arguments).stdout(terminal).output().unwrap())
    };
    for (arguments, option) in [
        (&["sign", "--key", "key"][..], "--out"),
        (&["encaps", "--key", "kem.pub", "--out", "ct2", "--secret", "-"], "--secret"),
        (&["decaps", "--key", "kem", "--secret", "-", "ct"], "--secret"),
        (&["derive", "--key", "mine", "--peer", "mine.pub", "--secret", "-"], "--secret"),
        (&["keygen", "ML-DSA-44", "--out", "-", "--der"], "--out"),
    ] {
        on_terminal(arguments).fails(2).says("terminal").says(&format!("with {option},"));
    }
    assert!(!work.has("ct2"));
    on_terminal(&["sign", "--key", "key", "--out", "sig"]).ok();
    on_terminal(&["keygen", "ML-DSA-44", "--out", "-"]).ok();
    assert_eq!(work.gabion(&["sign", "--key", "key"]).ok().out.len(), 2420);
}

#[test]
fn context_prehash_and_determinism_reach_the_signature() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-65", "--out", "key", "--pub", "pub"]).ok();
    work.write("message", b"a message");
    let sign = |more: &[&str]| {
        work.gabion(&[&["sign", "--key", "key", "message"], more].concat()).ok().out
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
    work.gabion(&["sign", "--key", "key", "--context", &"00".repeat(256), "message"]).fails(2);
    work.gabion(&["sign", "--key", "key", "--context", "0", "message"]).fails(2);
    work.gabion(&["sign", "--key", "key", "--prehash", "md5", "message"]).fails(2);
}

#[test]
fn wrong_kinds_of_key_are_named() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-KEM-768", "--out", "kem", "--pub", "kem.pub"]).ok();
    work.gabion(&["keygen", "ML-DSA-65", "--out", "dsa", "--pub", "dsa.pub"]).ok();
    work.write("ct", [0; 1088]);
    work.gabion(&["sign", "--key", "kem"])
        .fails(2)
        .says("kem holds an ML-KEM-768 key; signing needs the key of a signature algorithm, such");
    work.gabion(&["sign", "--key", "dsa.pub"]).fails(2).says("needs the private key");
    work.gabion(&["verify", "--key", "kem.pub", "--sig", "ct"]).fails(2).says("verifying needs");
    work.gabion(&["encaps", "--key", "dsa.pub", "--out", "a", "--secret", "b"])
        .fails(2)
        .says("encapsulating needs the key of a KEM, such as ML-KEM-768");
    work.gabion(&["decaps", "--key", "dsa", "--secret", "b", "ct"]).fails(2).says("ML-KEM-768");
    work.gabion(&["decaps", "--key", "kem.pub", "--secret", "b", "ct"])
        .fails(2)
        .says("needs the private key");
    work.write("short", [0; 1087]);
    work.gabion(&["decaps", "--key", "kem", "--secret", "b", "short"])
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
    work.gabion(&["sign", "--key", "key", "--out", "sig"]).ok();
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
        work.gabion(&["encaps", "--key", "bad", "--out", "a", "--secret", "b"]).fails(2);
    }
    work.write("ct", [0; 768]);
    work.gabion(&["sign", "--key", "bad"]).fails(2);
    work.gabion(&["verify", "--key", "bad", "--sig", "ct"]).fails(2);
    work.gabion(&["decaps", "--key", "bad", "--secret", "b", "ct"]).fails(2);
    work.gabion(&["acvp", "bad"]).fails(2);
    work.gabion(&["doctor", "--stats", "bad"]).fails(2);
    work.gabion(&["sign", "--key", "/no/such/file"]).fails(2).says("/no/such/file");
    work.gabion(&["sign", "--key", "."]).fails(2);
    assert!(!work.has("a") && !work.has("b"));
}

/// Signatures of the wrong length or content are no error of the command line: the answer is no.
#[test]
fn a_bad_signature_is_a_no() {
    let work = Work::new();
    work.gabion(&["keygen", "ML-DSA-44", "--out", "key"]).ok();
    work.write("message", b"a message");
    work.gabion(&["sign", "--key", "key", "--out", "sig", "message"]).ok();
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
fn openssl_understands_what_we_do_and_we_what_it_does() {
    if bundle().is_none() {
        return;
    }
    let work = Work::new();
    work.write("message", b"a message");
    for algorithm in ALGORITHMS {
        work.gabion(&["keygen", algorithm, "--out", "key", "--pub", "pub", "--force"]).ok();
        if is_kem(algorithm) {
            work.gabion(&["encaps", "--key", "pub", "--out", "ct", "--secret", "sent"]).ok();
            let decap = ["pkeyutl", "-decap", "-inkey", "key", "-in", "ct", "-secret", "got"];
            work.openssl(&decap).ok();
            assert_eq!(work.read("sent"), work.read("got"), "{algorithm}");
            let encap = ["pkeyutl", "-encap", "-pubin", "-inkey", "pub", "-out", "ct"];
            work.openssl(&[&encap[..], &["-secret", "sent"]].concat()).ok();
            work.gabion(&["decaps", "--key", "key", "--secret", "got", "ct"]).ok();
            assert_eq!(work.read("sent"), work.read("got"), "{algorithm}");
            continue;
        }
        for (ours, theirs) in [
            (&[][..], &[][..]),
            (&["--context", "00ff10"], &["-pkeyopt", "hexcontext-string:00ff10"]),
        ] {
            let sign = ["sign", "--key", "key", "--out", "sig", "message"];
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
        let ours = work.gabion(&["sign", "--key", "key", "--deterministic", "message"]).ok().out;
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
        let sign = ["sign", "--key", "locked", "--out", "sig"];
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
    let sign = ["sign", "--key", "theirs", "--out", "sig", "line", "--passin"];
    let with = |source: &str| work.command(&[&sign[..], &[source]].concat());
    let done = with("env:WORD").env("WORD", "secret").output().unwrap();
    assert!(done.status.success(), "{done:?}");
    work.gabion_fed(&[&sign[..], &["stdin"]].concat(), b"secret\n").ok();
    work.gabion_fed(&[&sign[..], &["fd:0"]].concat(), b"secret\n").ok();
    work.gabion(&[&sign[..], &["pass:wrong"]].concat()).fails(2).says("does not open");
    work.gabion(&[&sign[..], &["env:NO_SUCH_WORD"]].concat()).fails(2);
    let bare = work.gabion(&[&sign[..], &["wrong-secret"]].concat()).fails(2);
    assert!(!bare.err.contains("the password is wrong-secret"), "{}", bare.err);
    work.gabion(&["sign", "--key", "theirs", "line"]).fails(2).says("--passin");
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
                work.gabion(&["encaps", "--key", path, "--out", "a", "--secret", "b"]).fails(2)
            } else {
                work.gabion(&["sign", "--key", path]).fails(2)
            }
            .says("private key");
            refused += 1;
        }
    }
    assert_eq!(refused, 4);
}
