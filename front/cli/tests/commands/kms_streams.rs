//! `gabion kms sign`, `verify` and `hmac` of files that no request of JSON takes.

use std::io::Write;
use std::process::Stdio;

use crate::harness::{CommandResult, Work};
use crate::kms::{Caller, dev};

/// Files of more bytes than that are sent as they are.
const SHORT_MAX: usize = 512 << 10;

/// Runs a command with standard input.
fn fed(caller: &Caller<'_>, arguments: &[&str], input: &[u8]) -> CommandResult {
    let mut command = caller.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut feeds = child.stdin.take().unwrap();
    // A command that is refused stops reading its input.
    let _ = feeds.write_all(input);
    drop(feeds);
    CommandResult::of(child.wait_with_output().unwrap())
}

#[test]
fn files_of_any_size_are_signed_verified_and_tagged() {
    let work = Work::new();
    let (_server, caller) = dev(&work);
    for (name, algorithm) in [
        ("mu", "ml-dsa-65"),
        ("ec", "ecdsa-p-256"),
        ("rsa", "rsa-2048"),
        ("ed", "ed25519"),
        ("slh", "slh-dsa-sha2-128f"),
        ("tags", "hmac-sha-256"),
    ] {
        caller.run(&["key", "create", name, "--algorithm", algorithm]).ok();
    }
    for size in [SHORT_MAX, SHORT_MAX + 1, 5 << 20] {
        let large = vec![7; size];
        work.write("large", &large);
        for (key, more) in [
            ("mu", &["--context", "0aff"][..]),
            ("mu", &["--prehash", "SHA2-512"][..]),
            ("slh", &["--prehash", "SHA2-256"][..]),
            ("ec", &[][..]),
            ("rsa", &["--padding", "pkcs1v15"][..]),
        ] {
            let sign = [&["sign", "--key", key, "--out", "sig", "--force"], more].concat();
            let verify = [&["verify", "--key", key, "--sig", "sig"], more].concat();
            caller.run(&[&sign[..], &["large"]].concat()).ok();
            let verified = caller.run(&[&verify[..], &["large"]].concat()).ok();
            assert!(verified.text().contains("the signature verifies"), "{verified:?}");
            fed(&caller, &verify, &large).ok();
            fed(&caller, &verify, &large[1..]).fails(1).says("is not valid for");
            fed(&caller, &sign, &large).ok();
            caller.run(&[&verify[..], &["large"]].concat()).ok();
        }
        caller.run(&["hmac", "--key", "tags", "--out", "tag", "--force", "large"]).ok();
        caller.run(&["hmac", "--key", "tags", "--verify", "tag", "large"]).ok();
        fed(&caller, &["hmac", "--key", "tags", "--verify", "tag"], &large[1..]).fails(1);
    }
    // Up to the limit of a body there is nothing that is too long.
    work.write("large", vec![7; 1 << 20]);
    caller.run(&["sign", "--key", "ed", "--out", "sig", "--force", "large"]).ok();
    caller.run(&["verify", "--key", "ed", "--sig", "sig", "large"]).ok();
    work.write("large", vec![7; (1 << 20) + 1]);
    let sign = |key: &str| caller.run(&["sign", "--key", key, "--out", "sig", "--force", "large"]);
    sign("ed").fails(2).says("too_large").says("ML-DSA");
    sign("slh").fails(2).says("prehash=SHA2-512");
    sign("tags").fails(2).says("unsupported");
    sign("none").fails(1).says("key `none` not found");
    caller.run(&["sign", "--key", "mu", "--out", "sig", "--force", "not-there"]).fails(2);
    caller.run(&["sign", "--key", "mu", "--out", "sig", "--force", "."]).fails(2);
}
