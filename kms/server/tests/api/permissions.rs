//! Answers to changes by tokens that have no other permission than that of the change.

use std::collections::BTreeSet;

use gabion_kms_wire::encode;
use gabion_kms_wire::native::CreateToken;
use serde_json::{Value, json};

use super::raw::Local;

/// Routes that change nothing, take no permission, or that a server in memory does not have.
const OTHERS: &[&str] = &[
    "LIST /v1/transit/keys",
    "POST /v1/auth/token/renew-self",
    "POST /v1/auth/token/revoke-self",
    "POST /v1/kms/attest",
    "POST /v1/kms/audit/archive",
    "POST /v1/kms/backup",
    "POST /v1/kms/batch",
    "POST /v1/kms/datakey",
    "POST /v1/kms/decaps",
    "POST /v1/kms/decrypt",
    "POST /v1/kms/encaps",
    "POST /v1/kms/encrypt",
    "POST /v1/kms/hmac",
    "POST /v1/kms/hmac/verify",
    "POST /v1/kms/jwt",
    "POST /v1/kms/jwt/verify",
    "POST /v1/kms/keys/{key}/export",
    "POST /v1/kms/policy-check",
    "POST /v1/kms/random",
    "POST /v1/kms/recover-admin",
    "POST /v1/kms/rewrap",
    "POST /v1/kms/sign",
    "POST /v1/kms/unseal",
    "POST /v1/kms/unwrap",
    "POST /v1/kms/verify",
    "POST /v1/kms/wrap",
    "POST /v1/sys/capabilities-self",
    "POST /v1/sys/tools/hash",
    "POST /v1/sys/tools/hash/{hash}",
    "POST /v1/transit/config/keys",
    "POST /v1/transit/datakey/{form}/{key}",
    "POST /v1/transit/decrypt/{key}",
    "POST /v1/transit/encrypt/{key}",
    "POST /v1/transit/hash",
    "POST /v1/transit/hash/{hash}",
    "POST /v1/transit/hmac/{key}",
    "POST /v1/transit/hmac/{key}/{hash}",
    "POST /v1/transit/random",
    "POST /v1/transit/random/{bytes}",
    "POST /v1/transit/random/{source}/{bytes}",
    "POST /v1/transit/rewrap/{key}",
    "POST /v1/transit/sign/{key}",
    "POST /v1/transit/sign/{key}/{hash}",
    "POST /v1/transit/verify/{key}",
    "POST /v1/transit/verify/{key}/{hash}",
];

/// A change: the actions that its token has, its method, its route, the name in its path, and its
/// body.
type Change = (&'static str, &'static str, &'static str, &'static str, Value);

/// Every change of the service, in an order in which each of them can be made.
fn changes(public: [Value; 2], revoked: &str) -> Vec<Change> {
    let [first, second] = public;
    let all = "permit(principal is Token, action, resource);";
    let minima =
        json!({"min_decryption_version": 2, "min_encryption_version": 2, "deletion_allowed": true});
    let raw = |byte: u8| encode(&[byte; 32]);
    vec![
        ("create", "POST", "/v1/kms/keys", "", json!({"name": "k", "algorithm": "ed25519"})),
        ("rotate", "POST", "/v1/kms/keys/{key}/rotate", "k", json!({})),
        (
            "config",
            "POST",
            "/v1/kms/keys/{key}/config",
            "k",
            json!({"labels": {"stage": "test"}, "min_verify": 2, "min_decrypt": 2}),
        ),
        ("disable", "POST", "/v1/kms/keys/{key}/disable", "k", json!({"version": 2})),
        ("enable", "POST", "/v1/kms/keys/{key}/enable", "k", json!({"version": 2})),
        ("trim", "POST", "/v1/kms/keys/{key}/trim", "k", json!({"before": 2})),
        ("delete", "DELETE", "/v1/kms/keys/{key}", "k", Value::Null),
        ("restore", "POST", "/v1/kms/keys/{key}/restore", "k", json!({})),
        ("delete", "DELETE", "/v1/kms/keys/{key}", "k", Value::Null),
        ("destroy", "POST", "/v1/kms/keys/{key}/destroy", "k", json!({})),
        (
            "import",
            "POST",
            "/v1/kms/import",
            "",
            json!({"name": "i", "algorithm": "hmac-sha-256", "raw": raw(1)}),
        ),
        ("import", "POST", "/v1/kms/keys/{key}/import", "i", json!({"raw": raw(2)})),
        ("create", "POST", "/v1/transit/keys/{key}", "t", json!({"type": "ed25519"})),
        ("rotate", "POST", "/v1/transit/keys/{key}/rotate", "t", Value::Null),
        ("config", "POST", "/v1/transit/keys/{key}/config", "t", minima.clone()),
        // Nothing is left to change.
        ("config", "POST", "/v1/transit/keys/{key}/config", "t", minima),
        ("trim", "POST", "/v1/transit/keys/{key}/trim", "t", json!({"min_available_version": 2})),
        ("delete", "DELETE", "/v1/transit/keys/{key}/soft-delete", "t", Value::Null),
        ("restore", "POST", "/v1/transit/keys/{key}/soft-delete-restore", "t", Value::Null),
        ("delete,destroy", "DELETE", "/v1/transit/keys/{key}", "t", Value::Null),
        (
            "import",
            "POST",
            "/v1/transit/keys/{key}/import",
            "p",
            json!({"type": "ecdsa-p256", "public_key": first}),
        ),
        (
            "import",
            "POST",
            "/v1/transit/keys/{key}/import_version",
            "p",
            json!({"public_key": second}),
        ),
        ("token", "POST", "/v1/kms/tokens", "", json!({"principal": "x"})),
        ("token", "POST", "/v1/kms/tokens/revoke", "", json!({"id": revoked})),
        ("policy", "PUT", "/v1/kms/policies/{name}", "all", json!({"text": all})),
        ("policy", "DELETE", "/v1/kms/policies/{name}", "all", Value::Null),
        ("seal", "POST", "/v1/kms/seal", "", json!({})),
    ]
}

/// The change was made, and its answer was a 403 if the token did not allow `show`, too.
#[test]
fn a_change_needs_its_own_permission_alone() {
    let local = Local::start();
    let admin = local.client();
    let public = |name: &str| {
        local.ask("POST", &format!("/v1/transit/keys/{name}"), &json!({"type": "ecdsa-p256"}));
        let (_, key) = local.ask("GET", &format!("/v1/transit/keys/{name}"), &Value::Null);
        key["data"]["keys"]["1"]["public_key"].clone()
    };
    let (first, second) = (public("source-1"), public("source-2"));
    for name in ["source-1", "source-2"] {
        local.ask("DELETE", &format!("/v1/kms/keys/{name}"), &Value::Null);
        local.ask("POST", &format!("/v1/kms/keys/{name}/destroy"), &json!({}));
    }
    let revoked = CreateToken { principal: "x".into(), ..CreateToken::default() };
    let revoked = admin.create_token(&revoked).unwrap().id;
    let mut walked = BTreeSet::new();
    for (actions, method, route, name, body) in changes([first, second], &revoked) {
        let caveats = Some(vec![format!("actions={actions}")]);
        let asked = CreateToken { principal: "me".into(), caveats, lifetime_s: None };
        let token = admin.create_token(&asked).unwrap().token;
        let path = route.replace("{key}", name).replace("{name}", name);
        let (status, answer) = local.ask_by(token.expose(), "default", method, &path, &body);
        assert!([200, 204].contains(&status), "{method} {path} by {actions}: {status} {answer}");
        walked.insert(format!("{method} {route}"));
    }
    let openapi: Value = serde_json::from_str(&local.get("/openapi.json")).unwrap();
    for (path, methods) in openapi["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().map(|method| method.to_uppercase()) {
            let route = format!("{method} {path}");
            let is_known = walked.contains(&route) || OTHERS.contains(&route.as_str());
            assert!(method == "GET" || method == "PARAMETERS" || is_known, "{route} is in no list");
        }
    }
}

/// A caller who may create keys and not see them learns that a name is taken, and nothing else of
/// the key.
#[test]
fn creating_a_key_that_exists_shows_it_only_to_those_who_may_see_it() {
    let local = Local::start();
    let path = "/v1/transit/keys/k";
    assert_eq!(local.ask("POST", path, &json!({"type": "ecdsa-p256"})).0, 200);
    let asked = |actions: &str| {
        let caveats = Some(vec![format!("actions={actions}")]);
        let asked = CreateToken { principal: "me".into(), caveats, lifetime_s: None };
        let token = local.client().create_token(&asked).unwrap().token;
        local.ask_by(token.expose(), "default", "POST", path, &json!({"type": "ecdsa-p256"}))
    };
    let (status, answer) = asked("create");
    assert_eq!(status, 400);
    assert!(answer["errors"][0].as_str().unwrap().starts_with("exists: "), "{answer}");
    let (status, answer) = asked("create,show");
    assert_eq!((status, &answer["warnings"]), (200, &json!(["key k already existed"])));
}

/// An answer had the public keys of all versions: 1.5 MB for 400 of ML-DSA-87, also after each
/// rotation.
#[test]
fn vaults_answers_have_the_newest_versions() {
    let local = Local::start();
    let path = "/v1/transit/keys/v";
    local.ask("POST", path, &json!({"type": "ml-dsa", "parameter_set": "44"}));
    let numbers = |answer: &Value| -> BTreeSet<u32> {
        answer["data"]["keys"].as_object().unwrap().keys().map(|it| it.parse().unwrap()).collect()
    };
    let mut rotated = Value::Null;
    for latest in 2..=103 {
        rotated = local.ask("POST", "/v1/transit/keys/v/rotate", &Value::Null).1;
        assert_eq!(rotated["data"]["latest_version"], latest);
    }
    let config =
        local.ask("POST", "/v1/transit/keys/v/config", &json!({"min_encryption_version": 3})).1;
    let again = local.ask("POST", path, &json!({"type": "ml-dsa", "parameter_set": "44"})).1;
    let read = local.ask("GET", path, &Value::Null).1;
    let export = local.ask("GET", "/v1/transit/export/public-key/v", &Value::Null).1;
    for answer in [&rotated, &config, &again, &read, &export] {
        assert_eq!(numbers(answer), (4..=103).collect(), "{}", answer["warnings"]);
        let warnings = answer["warnings"].as_array().unwrap();
        let says = "GET /v1/kms/keys/v/versions";
        assert!(warnings.iter().any(|it| it.as_str().unwrap().contains(says)), "{warnings:?}");
    }
    let about = &read["data"];
    assert_eq!(
        (&about["min_decryption_version"], &about["min_encryption_version"]),
        (&json!(1), &json!(3))
    );
    assert_eq!(about["min_available_version"], 0);
    for version in [1, 3, 103] {
        let export =
            local.ask("GET", &format!("/v1/transit/export/public-key/v/{version}"), &Value::Null).1;
        assert_eq!(numbers(&export), [version].into());
    }
    assert_eq!(local.ask("GET", "/v1/transit/export/public-key/v/104", &Value::Null).0, 400);
    // The rest by pages.
    let page = local.ask("GET", "/v1/kms/keys/v/versions", &Value::Null).1;
    assert_eq!((page["versions"].as_array().unwrap().len(), &page["next"]), (100, &json!(100)));
    // Once fewer versions may be used, all of them are there.
    let minima = json!({"min_decryption_version": 100, "min_encryption_version": 100});
    let few = local.ask("POST", "/v1/transit/keys/v/config", &minima).1;
    assert_eq!((numbers(&few), &few["warnings"]), ((100..=103).collect(), &Value::Null));
}

/// A list had the names of keys that `show` hides.
#[test]
fn keys_that_may_not_be_seen_are_in_no_list() {
    let local = Local::start();
    let admin = local.client();
    for name in ["open-1", "restricted-x", "restricted-y", "z"] {
        let body = json!({"name": name, "algorithm": "hmac-sha-256"});
        assert_eq!(local.ask("POST", "/v1/kms/keys", &body).0, 200);
    }
    let labels = |name: &str, labels: Value| {
        let path = format!("/v1/kms/keys/{name}/config");
        assert_eq!(local.ask("POST", &path, &json!({"labels": labels})).0, 200);
    };
    labels("restricted-x", json!({"secret": "yes"}));
    labels("restricted-y", json!({"secret": "no"}));
    labels("z", json!({"stage": "test"}));
    admin
        .put_policy(
            "p",
            "permit(principal == Token::\"app\", action, resource in Tenant::\"default\");
             forbid(principal == Token::\"app\", action, resource is Key) when { resource.hasTag(\"secret\") };
             permit(principal, action, resource) unless { principal == Token::\"app\" };",
        )
        .unwrap();
    let by = |caveats: &[&str]| {
        let caveats = Some(caveats.iter().map(|&caveat| caveat.to_owned()).collect());
        let asked = CreateToken { principal: "app".into(), caveats, lifetime_s: None };
        let token = admin.create_token(&asked).unwrap().token;
        let local = &local;
        move |method: &str, path: &str, body: &Value| {
            local.ask_by(token.expose(), "default", method, path, body)
        }
    };
    let names = |answer: &Value| -> Vec<String> {
        let keys = answer["keys"].as_array().unwrap();
        keys.iter().map(|key| key["name"].as_str().unwrap().to_owned()).collect()
    };
    // A token for lists alone shows no more than one for everything.
    for caveats in [&[][..], &["actions=list"]] {
        let app = by(caveats);
        let list = |query: &str| app("GET", &format!("/v1/kms/keys{query}"), &Value::Null).1;
        let all = list("");
        assert_eq!((names(&all), &all["next"]), (vec!["open-1".into(), "z".into()], &Value::Null));
        assert_eq!(all["keys"][1]["labels"], json!({"stage": "test"}));
        assert_eq!(all["keys"][0]["labels"], Value::Null);
        assert!(
            names(&list("?prefix=r")).is_empty() && names(&list("?prefix=restricted-x")).is_empty()
        );
        // The cursor goes by what is seen.
        let first = list("?limit=1");
        assert_eq!((names(&first), &first["next"]), (vec!["open-1".into()], &json!("open-1")));
        assert_eq!(names(&list("?limit=1&after=open-1")), ["z"]);
        let vault = app("LIST", "/v1/transit/keys", &Value::Null).1;
        assert_eq!(vault["data"]["keys"], json!(["open-1", "z"]));
    }
    // Nor is the id of one in a refusal.
    let raw = encode(&[9; 32]);
    let import = |name: &str| json!({"name": name, "algorithm": "hmac-sha-256", "raw": raw});
    let made = local.ask("POST", "/v1/kms/import", &import("restricted-z"));
    assert_eq!(made.0, 200, "{made:?}");
    let id = made.1["id"].as_str().unwrap().to_owned();
    let app = by(&[]);
    let (status, seen) = app("POST", "/v1/kms/import", &import("mine"));
    assert!(status == 409 && seen.to_string().contains(&id), "{seen}");
    labels("restricted-z", json!({"secret": "yes"}));
    let (status, hidden) = app("POST", "/v1/kms/import", &import("mine"));
    assert!(status == 409 && hidden["code"] == "exists", "{hidden}");
    assert!(!hidden.to_string().contains("default/transit"), "{hidden}");
}

/// Vault's default is the longest salt, which the standard does not have.
#[test]
fn vaults_default_salt_conforms_where_the_key_does() {
    let local = Local::start();
    let body = json!({"name": "r", "algorithm": "rsa-2048", "conformance": ["fips-alg"]});
    assert_eq!(local.ask("POST", "/v1/kms/keys", &body).0, 200);
    let input = encode(b"m");
    let sign = |path: &str, body: Value| local.ask("POST", path, &body);
    let (status, signed) = sign("/v1/transit/sign/r", json!({"input": input}));
    assert_eq!(status, 200, "{signed}");
    let signature = &signed["data"]["signature"];
    let verify = |salt: Value| {
        let body = json!({"input": input, "signature": signature, "salt_length": salt});
        local.ask("POST", "/v1/transit/verify/r", &body).1["data"]["valid"].clone()
    };
    assert_eq!(
        [verify(json!("hash")), verify(json!(32)), verify(json!("auto"))],
        [true, true, true]
    );
    for (path, body) in [
        ("/v1/transit/sign/r", json!({"input": input, "salt_length": 33})),
        ("/v1/kms/sign", json!({"key": "r", "message": input, "salt_length": 222})),
    ] {
        let (status, refused) = sign(path, body);
        assert!(status == 400 && refused.to_string().contains("does not conform"), "{refused}");
    }
}

/// A key for tags that is derived from another key's secret is no standard's, and no way around the
/// labels.
#[test]
fn labels_allow_no_derived_tags_and_no_weak_digests() {
    let local = Local::start();
    let input = encode(b"m");
    for (name, algorithm, label) in [
        ("ed", "ed25519", "fips-alg"),
        ("aes", "aes256-gcm96", "fips-alg"),
        ("ml", "ml-dsa-87", "cnsa2"),
        ("p3", "ecdsa-p-384", "fips-alg"),
        ("r3", "rsa-3072", "fips-alg"),
    ] {
        let body = json!({"name": name, "algorithm": algorithm, "conformance": [label]});
        assert_eq!(local.ask("POST", "/v1/kms/keys", &body).0, 200, "{name}");
        let path = format!("/v1/transit/hmac/{name}");
        let (status, refused) = local.ask("POST", &path, &json!({"input": input}));
        assert_eq!(status, 400, "{refused}");
        assert!(refused.to_string().contains(&format!("the label `{label}` does not allow")));
        let tag = format!("vault:v1:{}", encode(&[0; 32]));
        let path = format!("/v1/transit/verify/{name}");
        let (status, refused) = local.ask("POST", &path, &json!({"input": input, "hmac": tag}));
        assert_eq!(status, 400, "{refused}");
    }
    let tags = json!({"name": "t", "algorithm": "hmac-sha-256", "conformance": ["fips-alg"]});
    assert_eq!(local.ask("POST", "/v1/kms/keys", &tags).0, 200);
    assert_eq!(local.ask("POST", "/v1/transit/hmac/t", &json!({"input": input})).0, 200);
    for (path, is_weak) in [
        ("p3", true),
        ("p3/sha3-256", true),
        ("p3/sha3-384", false),
        ("r3/sha2-224", true),
        ("r3/sha3-256", false),
    ] {
        let path = format!("/v1/transit/sign/{path}");
        let (status, answer) = local.ask("POST", &path, &json!({"input": input}));
        assert_eq!(status == 200, !is_weak, "{path}: {answer}");
        assert_eq!(answer.to_string().contains("does not conform"), is_weak, "{answer}");
    }
}

/// Making tags requires the action, regardless of the token's other permissions.
#[test]
fn tags_by_other_keys_need_the_action() {
    let mut local = Local::start();
    let body = json!({"type": "aes256-gcm96"});
    assert_eq!(local.ask("POST", "/v1/transit/keys/a", &body).0, 200);
    let input = json!({"input": encode(b"m")});
    let (status, made) = local.ask("POST", "/v1/transit/hmac/a", &input);
    assert_eq!(status, 200, "{made}");
    let all = std::mem::take(&mut local.token);
    local.token =
        gabion_kms_server::attenuate_token(&all, &["actions=encrypt,decrypt,sign".to_owned()])
            .unwrap();
    assert_eq!(local.ask("POST", "/v1/transit/hmac/a", &input).0, 403);
    let verify = json!({"input": encode(b"m"), "hmac": made["data"]["hmac"]});
    assert_eq!(local.ask("POST", "/v1/transit/verify/a", &verify).0, 403);
    local.token = gabion_kms_server::attenuate_token(&all, &["actions=hmac".to_owned()]).unwrap();
    assert_eq!(local.ask("POST", "/v1/transit/hmac/a", &input).0, 200);
    assert_eq!(local.ask("POST", "/v1/transit/verify/a", &verify).0, 403);
}
