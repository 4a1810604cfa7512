//! `gabion kms jwt`.

use serde_json::Value;

use crate::harness::Work;
use crate::kms::dev;

#[test]
fn tokens_are_signed_and_verified() {
    let work = Work::new();
    let (_server, caller) = dev(&work);
    let create =
        ["key", "create", "login", "--algorithm", "ecdsa-p256", "--jwt-max-lifetime", "1h"];
    let made = caller.run(&create).ok();
    assert!(made.text().contains("jwt only    tokens of 1h at most"), "{made:?}");
    let jwt = |more: &[&str]| caller.run(&[&["jwt"], more].concat());
    let sign = |more: &[&str]| jwt(&[&["sign", "--key", "login"], more].concat());
    let verify = |more: &[&str]| jwt(&[&["verify", "--key", "login"], more].concat());
    let token = sign(&["--claim", "sub=alice", "--lifetime", "15m"]).ok();
    assert_eq!((token.text().trim_end().split('.').count(), &*token.err), (3, ""));
    work.write("token", token.text());
    let claims: Value = serde_json::from_str(&verify(&["token"]).ok().text()).unwrap();
    assert_eq!(claims["sub"], "alice");
    // Claims of a file and of the line.
    work.write("claims", r#"{"iss": "https://id.example.com", "aud": ["web", "api"]}"#);
    let asked = ["--claim", "sub=a=b", "--lifetime", "60", "--nbf", "--jti", "--typ", "at+jwt"];
    let token = sign(&[&asked[..], &["claims"]].concat()).ok();
    work.write("token", token.text());
    verify(&["token"]).fails(1).says("another type");
    let typed = ["--typ", "at+jwt", "token"];
    verify(&typed).fails(1).says("another audience");
    let found = verify(
        &[&["--audience", "api", "--issuer", "https://id.example.com"], &typed[..]].concat(),
    );
    let claims: Value = serde_json::from_str(&found.ok().text()).unwrap();
    assert_eq!((&claims["sub"], &claims["nbf"]), (&"a=b".into(), &claims["iat"]));
    verify(&[&["--audience", "api", "--issuer", "x"], &typed[..]].concat())
        .fails(1)
        .says("another issuer");
    verify(&[&["--leeway", "61s"], &typed[..]].concat()).fails(2).says("at most 60");
    let answer = verify(&["--json", "token"]);
    assert_eq!((answer.code, &*answer.err), (Some(1), ""));
    let answer = answer.json();
    assert_eq!((&answer["valid"], &answer["reason"]), (&false.into(), &"typ".into()));
    // Conflicts between the file and the command line, and errors of the key.
    sign(&["--claim", "iss=x", "--lifetime", "60", "claims"])
        .fails(2)
        .says("duplicate claim `iss`");
    work.write("twice", r#"{"sub": "a", "sub": "b"}"#);
    sign(&["--lifetime", "60", "twice"]).fails(2).says("duplicate field `sub`");
    work.write("array", "[]");
    sign(&["--lifetime", "60", "array"]).fails(2).says("expected a JSON object");
    sign(&["--claim", "sub=a"]).fails(2).says("missing claim `exp`");
    sign(&["--lifetime", "61m"]).fails(2).says("at most 3600 s");
    sign(&["--lifetime", "soon"]).fails(2).says("such as 12h");
    work.write("message", "m");
    caller
        .run(&["sign", "--key", "login", "--out", "sig", "message"])
        .fails(1)
        .says("jwt_required");
    let changed = caller.run(&["key", "config", "login", "--jwt-max-lifetime", "2h"]).ok();
    assert!(changed.text().contains("tokens of 2h at most"), "{changed:?}");
    sign(&["--lifetime", "61m"]).ok();
    // Not a token, and one that was changed.
    work.write("none", "hello");
    verify(&["none"]).fails(2).says("malformed JSON Web Token");
    let token = sign(&["--lifetime", "60"]).ok().text();
    work.write("token", token.replacen('.', ".A", 1));
    assert_ne!(verify(&["token"]).code, Some(0));
}

#[test]
fn long_tokens_have_a_warning() {
    let work = Work::new();
    let (_server, caller) = dev(&work);
    let jwt = |more: &[&str]| caller.run(&[&["jwt"], more].concat());
    caller.run(&["key", "create", "pq", "--algorithm", "ML-DSA-87"]).ok();
    let long = jwt(&["sign", "--key", "pq", "--lifetime", "60"]).ok();
    assert!(
        long.err.contains("warning: the token has") && long.err.contains("more than 4 KiB"),
        "{long:?}"
    );
    work.write("token", long.text());
    jwt(&["verify", "--key", "pq", "token"]).ok();
    let answer = jwt(&["sign", "--json", "--key", "pq", "--lifetime", "60"]).ok().json();
    assert_eq!(answer["alg"], "ML-DSA-87");
}
