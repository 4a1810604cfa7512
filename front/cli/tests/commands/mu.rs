//! `gabion mu`, and signing by mu in files and in the service.

use crate::harness::Work;
#[cfg(feature = "kms")]
use crate::kms::dev;

#[test]
fn a_signature_of_mu_is_one_of_the_file() {
    let work = Work::new();
    work.write("message", b"a message");
    for algorithm in ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"] {
        work.gabion(&["keygen", algorithm, "--force", "--out", "key", "--pub", "pub"]).ok();
        for context in [&[][..], &["--context", "0aff"]] {
            let mu = work.gabion(&[&["mu", "--key", "pub"], context, &["message"]].concat()).ok();
            let text = mu.text();
            assert_eq!((text.trim_end().len(), text.ends_with('\n')), (128, true), "{text}");
            work.write("hex", &text);
            work.write("raw", base16ct::mixed::decode_vec(text.trim_end()).unwrap());
            // The private key gives the same.
            let other =
                work.gabion(&[&["mu", "--key", "key"], context, &["message"]].concat()).ok();
            assert_eq!(other.text(), text);
            for file in ["hex", "raw"] {
                work.gabion(&["sign", "--mu", "--force", "--key", "key", "--out", "sig", file])
                    .ok();
                let verify = ["verify", "--key", "pub", "--sig", "sig"];
                work.gabion(&[&verify[..], context, &["message"]].concat()).ok();
                work.gabion(&[&verify[..], &["--mu", file]].concat()).ok();
                work.gabion(&[&verify[..], &["--context", "01", "message"]].concat()).fails(1);
            }
        }
    }
    work.write("short", [7; 63]);
    let sign = |more: &[&str]| {
        work.gabion(&[&["sign", "--force", "--key", "key", "--out", "sig"], more].concat())
    };
    sign(&["--mu", "short"]).fails(2).says("63 bytes").says("64 bytes or 128 hexadecimal digits");
    sign(&["--mu", "--context", "01", "raw"]).fails(2).says("--context");
    sign(&["--mu", "--prehash", "SHA2-512", "raw"]).fails(2).says("--prehash");
    work.gabion(&["keygen", "Ed25519", "--force", "--out", "key", "--pub", "pub"]).ok();
    sign(&["--mu", "raw"]).fails(2).says("mu");
    work.gabion(&["mu", "--key", "pub", "message"]).fails(2).says("expected an ML-DSA key");
}

#[test]
#[cfg(feature = "kms")]
fn the_service_gets_mu_in_place_of_long_files() {
    let work = Work::new();
    let (_server, caller) = dev(&work);
    caller.run(&["key", "create", "k", "--algorithm", "ML-DSA-65"]).ok();
    caller.run(&["key", "create", "ed", "--algorithm", "Ed25519"]).ok();
    work.write("long", vec![7; 600 << 10]);
    work.write("short", b"a message");
    let sign = |key: &str, more: &[&str]| {
        let sign = ["sign", "--key", key, "--out", "sig", "--force"];
        caller.run(&[&sign[..], more].concat())
    };
    let verify = |key: &str, more: &[&str]| {
        caller.run(&[&["verify", "--key", key, "--sig", "sig"], more].concat())
    };
    let note = "sending mu of the message";
    sign("k", &["long"]).ok().says(note);
    verify("k", &["long"]).ok().says(note);
    assert!(!sign("k", &["short"]).ok().err.contains(note));
    sign("k", &["--keep-message", "short"]).ok();
    verify("k", &["short"]).ok();
    verify("k", &["--keep-message", "short"]).ok();
    verify("k", &["--keep-message", "long"]).fails(1).says("is not valid for");
    sign("ed", &["--keep-message", "short"]).fails(2).says("needs an ML-DSA key");
    sign("k", &["--keep-message", "--version", "2", "short"]).fails(1).says("no version 2");
    // mu that was computed elsewhere.
    let shown = caller.run(&["key", "show", "k", "--json"]).ok().json();
    work.write("pub", shown["versions"][0]["public_key"].as_str().unwrap());
    work.write("mu", work.gabion(&["mu", "--key", "pub", "short"]).ok().text());
    sign("k", &["--mu", "mu"]).fails(2).says("needs --version");
    sign("k", &["--mu", "--version", "1", "mu"]).ok();
    work.gabion(&["verify", "--key", "pub", "--sig", "sig", "short"]).ok();
    // Without permission to look at the key the message is sent.
    let made = caller.run(&["token", "create", "ci", "--caveat", "actions=sign", "--json"]).ok();
    let signer = caller.with(made.json()["token"].as_str().unwrap());
    let signed = signer.run(&["sign", "--key", "k", "--out", "sig", "--force", "long"]).ok();
    assert!(!signed.err.contains(note));
    signer
        .run(&["sign", "--keep-message", "--key", "k", "--out", "sig", "--force", "long"])
        .fails(1);
    verify("k", &["long"]).ok();
    // A key that requires mu.
    let shown = caller.run(&["key", "config", "k", "--mu-required"]).ok();
    assert!(shown.text().contains("mu only"), "{shown:?}");
    sign("k", &["short"]).fails(1).says("mu_required").says("--keep-message");
    sign("k", &["--keep-message", "short"]).ok();
    verify("k", &["--keep-message", "short"]).ok();
    sign("k", &["long"]).ok();
    caller.run(&["key", "create", "new", "--algorithm", "Ed25519", "--mu-required"]).fails(2);
}
