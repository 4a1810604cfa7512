//! Keys that come and go.

use gabion_engine::key_file::{FileForm, encode_private};
use gabion_engine::keys::PrivateKey;
use gabion_engine::{Algorithm, Engine, OsEntropy};
use gabion_kms_client::Client;
use gabion_kms_wire::native::{
    ConfigureKey, Decrypt, Encrypt, ExportKey, ImportKey, ImportVersion, Sign, Verify,
};
use gabion_kms_wire::{Secret, decode_pem, encode};
use serde_json::{Value, json};

use super::raw::Local;
use super::{create, refused};

fn new(name: &str, algorithm: &str) -> ImportKey {
    ImportKey { name: name.into(), algorithm: algorithm.into(), ..ImportKey::default() }
}

fn exportable(client: &Client, key: &str) {
    let config = ConfigureKey { exportable: Some(true), ..ConfigureKey::default() };
    assert!(client.configure(key, &config).unwrap().exportable);
}

fn signs(client: &Client, key: &str) -> String {
    client.sign(&Sign { message: Some(encode(b"m")), ..Sign::by(key) }).unwrap().signature
}

fn verifies(client: &Client, key: &str, signature: &str) -> bool {
    let (key, message) = (key.into(), Some(encode(b"m")));
    let signature = signature.to_owned();
    client.verify(&Verify { key, message, signature, ..Verify::default() }).unwrap().valid
}

#[test]
fn exported_keys_can_be_imported_elsewhere() {
    let (here, there) = (Local::start(), Local::start());
    let (here, there) = (here.client(), there.client());
    for (algorithm, form) in
        [("ml-dsa-65", "pkcs8"), ("ed25519", "raw"), ("ecdsa-p-256", "pkcs8"), ("ed25519", "")]
    {
        let name = format!("{algorithm}.{form}x");
        assert!(!create(&here, &name, algorithm).exportable);
        let form = Some(form).filter(|form| !form.is_empty()).map(str::to_owned);
        let how = ExportKey { form, ..ExportKey::default() };
        assert_eq!(refused(here.export(&name, &how)).code, "not_exportable");
        exportable(&here, &name);
        let given = here.export(&name, &how).unwrap();
        assert_eq!((given.version, &given.form), (1, &how.form.unwrap_or("pkcs8".into())));
        let key = given.private_key;
        let what = match given.form.as_str() {
            "raw" => ImportKey { raw: key, ..new(&name, algorithm) },
            _ => ImportKey { pkcs8: key, ..new(&name, algorithm) },
        };
        let made = there.import(&what).unwrap();
        assert_eq!((made.latest, made.exportable, made.does.as_str()), (1, false, "sign"));
        assert!(verifies(&there, &name, &signs(&here, &name)));
        assert_eq!(
            refused(there.import(&ImportKey { name: "other".into(), ..what })).code,
            "exists"
        );
    }
    create(&here, "data", "xaes-256-gcm");
    exportable(&here, "data");
    let given = here.export("data", &ExportKey::default()).unwrap();
    assert_eq!(given.form, "raw");
    let pkcs8 = ExportKey { form: Some("pkcs8".into()), ..ExportKey::default() };
    assert_eq!(refused(here.export("data", &pkcs8)).code, "unsupported");
    let raw = given.private_key;
    there.import(&ImportKey { raw, ..new("data", "XAES-256-GCM") }).unwrap();
    let plaintext = Secret::of_bytes(b"text");
    let made = here.encrypt(&Encrypt { key: "data".into(), plaintext, ..Encrypt::default() });
    let of =
        Decrypt { key: "data".into(), ciphertext: made.unwrap().ciphertext, ..Decrypt::default() };
    assert_eq!(**there.decrypt(&of).unwrap().plaintext.bytes().unwrap(), *b"text");
}

#[test]
fn a_version_is_imported_and_one_that_has_expired_makes_nothing() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    let raw = Some(Secret::of_bytes(&[7; 32]));
    let what = ImportVersion { raw, ..ImportVersion::default() };
    let made = client.import_version("k", &what).unwrap();
    assert_eq!((made.version, made.id.ends_with("#v2")), (2, true));
    let signature = signs(&client, "k");
    assert_eq!(refused(client.import_version("k", &what)).code, "exists");
    let expires = |ms| ConfigureKey { expires_ms: Some(ms), ..ConfigureKey::default() };
    assert_eq!(client.configure("k", &expires(1)).unwrap().expires_ms, Some(1));
    let sign = Sign { message: Some(encode(b"m")), ..Sign::by("k") };
    assert_eq!(refused(client.sign(&sign)).code, "key_expired");
    assert!(verifies(&client, "k", &signature));
    assert_eq!(client.configure("k", &expires(0)).unwrap().expires_ms, None);
    signs(&client, "k");
}

#[test]
fn a_public_key_alone_verifies_and_is_not_given_out() {
    let local = Local::start();
    let client = local.client();
    let engine = Engine::global().unwrap();
    let pair = PrivateKey::generate(engine, Algorithm::MlDsa44, &OsEntropy).unwrap();
    let public = Some(encode(pair.public_bytes()));
    client.import(&ImportKey { public: public.clone(), ..new("theirs", "ml-dsa-44") }).unwrap();
    let sign = Sign { message: Some(encode(b"m")), ..Sign::by("theirs") };
    assert_eq!(refused(client.sign(&sign)).code, "unsupported");
    exportable(&client, "theirs");
    assert_eq!(refused(client.export("theirs", &ExportKey::default())).code, "unsupported");
    // The tenant has it: no second key of it.
    let form = FileForm::of(Algorithm::MlDsa44).unwrap();
    let der = encode_private(form, &pair.forms(), true).unwrap();
    let pkcs8 = Some(Secret::of_bytes(&der));
    assert_eq!(
        refused(client.import(&ImportKey { pkcs8, ..new("ours", "ml-dsa-44") })).code,
        "exists"
    );
}

#[test]
fn malformed_imports_are_refused_without_echoing_secrets() {
    let mut local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    exportable(&client, "k");
    let seed = "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LXNlY3I=";
    let body =
        |field: &str, value: Value| json!({"name": "x", "algorithm": "ml-dsa-44", field: value});
    for (body, code) in [
        (body("raw", json!("*")), "malformed"),
        (body("raw", json!(encode(b"short"))), "bad_request"),
        (body("pkcs8", json!(seed)), "bad_request"),
        (body("pkcs8", json!([seed])), "bad_request"),
        (body("public", json!(seed)), "bad_request"),
        (body("wrapped", json!(seed)), "decrypt_failed"),
        (body("wraped", json!(seed)), "bad_request"),
        (json!({"name": "x", "algorithm": "ml-dsa-44"}), "bad_request"),
        (json!({"name": "x", "algorithm": "ed25519", "raw": seed, "public": seed}), "bad_request"),
        (json!({"name": "x", "algorithm": "xaes-256-gcm", "public": seed}), "bad_request"),
        (json!({"name": "x", "algorithm": "xaes-256-gcm", "raw": "AAAA"}), "bad_request"),
        (json!({"name": "x", "algorithm": "x25519", "raw": seed}), "unsupported"),
        (json!({"name": "k", "algorithm": "ed25519", "raw": seed}), "exists"),
    ] {
        let problem = refused(client.post::<Value>("/v1/kms/import", &body));
        assert_eq!(problem.code, code, "{body}: {problem:?}");
        assert!(!problem.message.contains(seed), "{problem:?}");
    }
    let form = json!({"form": "pem"});
    let problem = refused(client.post::<Value>("/v1/kms/keys/k/export", &form));
    assert!(problem.message.contains("expected pkcs8 or raw"));
    let config = json!({"exportable": false});
    assert_eq!(refused(client.post::<Value>("/v1/kms/keys/k/config", &config)).code, "bad_request");
    assert_eq!(refused(client.export("missing", &ExportKey::default())).code, "not_found");
    client
        .import(&ImportKey { raw: Some(Secret::from(seed.to_owned())), ..new("x", "ed25519") })
        .unwrap();
    exportable(&client, "x");
    let how = ExportKey { form: Some("raw".into()), ..ExportKey::default() };
    assert_eq!(client.export("x", &how).unwrap().private_key.unwrap().expose(), seed);
    // Both are told of, with no key and no digest of one.
    let records: Value = client.get("/v1/kms/audit?limit=1000").unwrap();
    let (records, text) = (records["records"].as_array().unwrap(), records.to_string());
    assert!(!text.contains(seed) && !text.contains("secret-secret"));
    let of = |action: &str| {
        let is_one = |record: &&Value| {
            record["record"]["action"] == action && record["record"]["outcome"] == "ok"
        };
        records.iter().find(is_one).unwrap_or_else(|| panic!("no {action}: {text}"))
    };
    for action in ["import", "export"] {
        let record = &of(action)["record"];
        assert!(record["input"].is_null() && record["output"].is_null(), "{record}");
    }
    client.disable("x", 1).unwrap();
    assert_eq!(refused(client.export("x", &how)).code, "version_disabled");
    let all = std::mem::take(&mut local.token);
    local.token =
        gabion_kms_server::attenuate_token(&all, &["actions=sign,import".into()]).unwrap();
    let limited = local.client();
    assert_eq!(refused(limited.export("k", &how)).code, "denied");
    let raw = Some(Secret::of_bytes(&[9; 32]));
    // The importing caller gets a description even if it may not read the key later.
    assert_eq!(limited.import(&ImportKey { raw, ..new("y", "ed25519") }).unwrap().name, "y");
    assert_eq!(refused(limited.show("y")).code, "denied");
}

#[test]
fn a_wrapped_key_moves_between_services_and_the_log_names_the_recipient() {
    let (here, there) = (Local::start(), Local::start());
    let (here, there) = (here.client(), there.client());
    let service = there.wrapping_key("x-wing").unwrap();
    assert_eq!(service.kind, "x-wing");
    let spki = decode_pem(&service.public_key).unwrap();
    let mut sent = Vec::new();
    for (name, algorithm) in [("sig", "ml-dsa-65"), ("data", "xaes-256-gcm")] {
        create(&here, name, algorithm);
        let how = ExportKey { wrap_for: Some(encode(&spki)), ..ExportKey::default() };
        assert_eq!(refused(here.export(name, &how)).code, "not_exportable");
        exportable(&here, name);
        let given = here.export(name, &how).unwrap();
        assert!(given.private_key.is_none());
        assert_eq!(given.wrapping.as_deref(), Some("x-wing"));
        assert_eq!(given.recipient.as_ref(), Some(&service.sha256));
        let what = ImportKey { wrapped: given.wrapped, ..new(name, algorithm) };
        let other = ImportKey { name: "other".into(), ..what.clone() };
        assert_eq!(refused(there.import(&other)).code, "decrypt_failed");
        assert_eq!(there.import(&what).unwrap().latest, 1);
        sent.push(what);
    }
    assert!(verifies(&there, "sig", &signs(&here, "sig")));
    let records: Value = here.get("/v1/kms/audit?limit=1000").unwrap();
    let is_export = |record: &&Value| {
        record["record"]["action"] == "export" && record["record"]["outcome"] == "ok"
    };
    let found: Vec<&Value> =
        records["records"].as_array().unwrap().iter().filter(is_export).collect();
    assert_eq!(found.len(), 2);
    for record in found {
        let digest = record["record"]["input"].to_string();
        assert!(digest.contains(&service.sha256), "{record}");
    }
    // The sender can't read it.
    for what in sent {
        here.delete(&what.name).unwrap();
        here.destroy(&what.name).unwrap();
        assert_eq!(refused(here.import(&what)).code, "decrypt_failed");
    }
}

/// A key of the service is generated once, for a caller that may use it, and that is recorded.
/// After that every caller may read its public key.
#[test]
fn service_keys_are_created_on_first_permitted_use_and_logged() {
    let local = Local::start();
    let limited =
        |caveat: &str| gabion_kms_server::attenuate_token(&local.token, &[caveat.into()]).unwrap();
    let random = limited("actions=random");
    let paths = [
        ("/v1/kms/wrapping-key", "actions=import", "system:wrapping-x-wing"),
        ("/v1/kms/attestation-key", "actions=attest", "system:attestation"),
    ];
    let get = |token: &str, path: &str| local.ask_by(token, "default", "GET", path, &Value::Null);
    for (path, _, _) in paths {
        assert_eq!(get(&random, path).0, 403, "{path}");
    }
    for path in ["/v1/kms/wrapping-key?kind=rsa", "/v1/transit/wrapping_key"] {
        assert_eq!(get(&random, path).0, 403, "{path}");
    }
    for (path, caveat, _) in paths {
        let (status, made) = get(&limited(caveat), path);
        assert_eq!(status, 200, "{path}");
        assert_eq!(get(&random, path).1["public_key"], made["public_key"], "{path}");
    }
    let records: Value = local.client().get("/v1/kms/audit?limit=1000").unwrap();
    let of = |name: &str| {
        let records = records["records"].as_array().unwrap().iter().map(|entry| &entry["record"]);
        let is_it = |record: &&Value| record["key"] == *name && record["outcome"] == "ok";
        records.filter(is_it).cloned().collect::<Vec<Value>>()
    };
    for (_, _, name) in paths {
        let told = of(name);
        assert_eq!(told.len(), 1, "{name}");
        assert_eq!((&told[0]["action"], &told[0]["change"]), (&json!("create"), &json!("made")));
        assert_eq!(told[0]["principal"], "own-keys");
    }
}

#[test]
fn malformed_wrapped_imports_are_refused() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    exportable(&client, "k");
    let blob = encode(&[7; 1200]);
    for (body, code) in [
        (json!({"wrapped": blob}), "decrypt_failed"),
        (json!({"wrapped": blob, "form": "raw"}), "decrypt_failed"),
        (json!({"wrapped": ""}), "decrypt_failed"),
        (json!({"wrapped": "*"}), "malformed"),
        (json!({"wrapped": blob, "form": "pem"}), "bad_request"),
        (json!({"wrapped": blob, "wrapping": "rsa"}), "bad_request"),
        (json!({"wrapped": blob, "wraping": "x-wing"}), "bad_request"),
        (json!({"wrapped": blob, "raw": blob}), "bad_request"),
        (json!({"raw": blob, "form": "raw"}), "bad_request"),
        (json!({"public": blob, "wrapping": "x-wing"}), "bad_request"),
    ] {
        let version = refused(client.post::<Value>("/v1/kms/keys/k/import", &body));
        assert_eq!(version.code, code, "{body}: {version:?}");
        let mut body = body;
        body["name"] = json!("new");
        body["algorithm"] = json!("ed25519");
        let problem = refused(client.post::<Value>("/v1/kms/import", &body));
        assert_eq!(problem.code, code, "{body}: {problem:?}");
    }
    for wrap_for in ["", "AAAA", &encode(&[0x30; 4000])] {
        let body = json!({"wrap_for": wrap_for});
        let problem = refused(client.post::<Value>("/v1/kms/keys/k/export", &body));
        assert_eq!(problem.code, "bad_request", "{problem:?}");
    }
    let kind = refused(client.get::<Value>("/v1/kms/wrapping-key?kind=dh"));
    assert!(kind.message.contains("expected x-wing or rsa"), "{kind:?}");
    let unknown = refused(client.get::<Value>("/v1/kms/wrapping-key?knd=rsa"));
    assert_eq!(unknown.code, "bad_request");
    let wrapped = gabion_kms_server::wrap_key(
        &decode_pem(&client.wrapping_key("x-wing").unwrap().public_key).unwrap(),
        ["default", "mine", "Ed25519", "raw"],
        &[3; 32],
    );
    let (wrapped, form) = (Some(encode(&wrapped.unwrap())), Some("raw".to_owned()));
    let what = ImportKey { wrapped, form, ..new("mine", "ed25519") };
    assert_eq!(client.import(&what).unwrap().name, "mine");
}
