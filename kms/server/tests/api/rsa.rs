//! RSA by Vault's paths and ours, with OpenSSL's command as the other side.

use std::path::PathBuf;
use std::process::Command;

use gabion_kms_wire::native::{Decrypt, Encrypt, ImportKey, Sign, Verify};
use gabion_kms_wire::{Secret, decode, decode_pem, encode};
use serde_json::{Value, json};

use super::raw::Local;
use super::refused;
use super::transit::{self, data};

const NONE: Value = Value::Null;

/// OpenSSL's command: the bundle's, or the system's.
fn openssl() -> Option<PathBuf> {
    let bundle = std::env::var_os("GABION_OPENSSL_PREFIX").map(PathBuf::from);
    let bundle = bundle.map(|prefix| prefix.join("bin/openssl")).filter(|path| path.is_file());
    let system = || Some(PathBuf::from("/usr/bin/openssl")).filter(|path| path.is_file());
    let found = bundle.or_else(system);
    let needed = std::env::var_os("GABION_TEST_NEEDS_BUNDLE").is_some();
    assert!(found.is_some() || !needed, "there is no OpenSSL");
    found
}

struct OpenSsl {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl OpenSsl {
    fn new() -> Option<OpenSsl> {
        Some(OpenSsl { program: openssl()?, folder: tempfile::tempdir().unwrap() })
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(name), bytes).unwrap();
    }

    fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }

    /// Runs an OpenSSL command and returns whether it succeeds.
    fn run(&self, words: &str) -> bool {
        let mut command = Command::new(&self.program);
        if let Some(prefix) = self.program.parent().and_then(|bin| bin.parent()) {
            let libraries = [prefix.join("lib"), prefix.join("lib64")];
            if libraries[0].join("libcrypto.so.3").is_file() {
                command.env("LD_LIBRARY_PATH", &libraries[0]);
            }
        }
        let ran = command.args(words.split(' ')).current_dir(self.folder.path()).output().unwrap();
        ran.status.success()
    }
}

fn public_pem(local: &Local, name: &str) -> String {
    let key = data(local.ask("GET", &format!("/v1/transit/keys/{name}"), &NONE));
    key["keys"]["1"]["public_key"].as_str().unwrap().to_owned()
}

fn signature(answer: &Value) -> Vec<u8> {
    decode(answer["signature"].as_str().unwrap().strip_prefix("vault:v1:").unwrap()).unwrap()
}

#[test]
fn rsa_transit_paths_interoperate_with_openssl() {
    let Some(openssl) = OpenSsl::new() else { return eprintln!("skipped: there is no OpenSSL") };
    let local = Local::start();
    let made = data(local.ask("POST", "/v1/transit/keys/r", &json!({"type": "rsa-2048"})));
    assert_eq!(made["type"], "rsa-2048");
    for may in ["supports_encryption", "supports_decryption", "supports_signing"] {
        assert_eq!(made[may], true, "{may}");
    }
    openssl.put("public.pem", public_pem(&local, "r").as_bytes());
    openssl.put("message", b"message");
    let input = encode(b"message");
    for (hash, name) in [
        ("sha2-224", "sha224"),
        ("sha2-256", "sha256"),
        ("sha2-384", "sha384"),
        ("sha2-512", "sha512"),
        ("sha3-224", "sha3-224"),
        ("sha3-256", "sha3-256"),
        ("sha3-384", "sha3-384"),
        ("sha3-512", "sha3-512"),
    ] {
        for (body, options) in [
            (json!({"signature_algorithm": "pkcs1v15"}), "rsa_padding_mode:pkcs1"),
            (json!({"salt_length": "hash"}), "rsa_padding_mode:pss -sigopt rsa_pss_saltlen:digest"),
            (json!({"salt_length": "20"}), "rsa_padding_mode:pss -sigopt rsa_pss_saltlen:20"),
            (json!({}), "rsa_padding_mode:pss -sigopt rsa_pss_saltlen:max"),
        ] {
            let mut body = body;
            body["hash_algorithm"] = json!(hash);
            body["input"] = json!(input);
            let signed = data(local.ask("POST", "/v1/transit/sign/r", &body));
            openssl.put("signature", &signature(&signed));
            let verify = format!("dgst -{name} -sigopt {options} -verify public.pem");
            assert!(openssl.run(&format!("{verify} -signature signature message")), "{body}");
            openssl.put("other", b"massage");
            assert!(!openssl.run(&format!("{verify} -signature signature other")), "{body}");
            body["signature"] = signed["signature"].clone();
            let verified = local.ask("POST", &format!("/v1/transit/verify/r/{hash}"), &body);
            assert_eq!(data(verified), json!({"valid": true}), "{body}");
            // Another hash, another padding, another salt.
            let digest = json!({"prehashed": true, "input": encode(&[7; 32]), "hash_algorithm": "sha2-256", "signature": signed["signature"]});
            assert_eq!(
                data(local.ask("POST", "/v1/transit/verify/r", &digest)),
                json!({"valid": false})
            );
        }
    }
    let plain = json!({"plaintext": encode(b"secret")});
    let sealed = data(local.ask("POST", "/v1/transit/encrypt/r", &plain));
    let opened = data(local.ask(
        "POST",
        "/v1/transit/decrypt/r",
        &json!({"ciphertext": sealed["ciphertext"]}),
    ));
    assert_eq!(opened, plain);
    openssl.put("plain", b"from openssl");
    let oaep = "-pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256";
    assert!(
        openssl.run(&format!(
            "pkeyutl -encrypt -pubin -inkey public.pem {oaep} -in plain -out sealed"
        ))
    );
    let text = format!("vault:v1:{}", encode(&openssl.get("sealed")));
    let opened = data(local.ask("POST", "/v1/transit/decrypt/r", &json!({"ciphertext": text})));
    assert_eq!(opened["plaintext"], encode(b"from openssl"));
}

#[test]
fn openssl_verifies_ecdsa_of_other_hashes() {
    let Some(openssl) = OpenSsl::new() else { return eprintln!("skipped: there is no OpenSSL") };
    let local = Local::start();
    openssl.put("message", b"message");
    openssl.put("other", b"massage");
    for of in ["ecdsa-p256", "ecdsa-p384", "ecdsa-p521"] {
        data(local.ask("POST", &format!("/v1/transit/keys/{of}"), &json!({"type": of})));
        openssl.put("public.pem", public_pem(&local, of).as_bytes());
        for (hash, name) in [
            ("sha2-224", "sha224"),
            ("sha2-256", "sha256"),
            ("sha2-384", "sha384"),
            ("sha2-512", "sha512"),
            ("sha3-224", "sha3-224"),
            ("sha3-256", "sha3-256"),
            ("sha3-384", "sha3-384"),
            ("sha3-512", "sha3-512"),
        ] {
            let body = json!({"input": encode(b"message")});
            let signed = data(local.ask("POST", &format!("/v1/transit/sign/{of}/{hash}"), &body));
            openssl.put("signature", &signature(&signed));
            let verify = format!("dgst -{name} -verify public.pem -signature signature");
            assert!(openssl.run(&format!("{verify} message")), "{of} {hash}");
            assert!(!openssl.run(&format!("{verify} other")), "{of} {hash}");
        }
    }
}

#[test]
fn a_key_of_openssl_comes_and_goes() {
    let Some(openssl) = OpenSsl::new() else { return eprintln!("skipped: there is no OpenSSL") };
    let local = Local::start();
    let client = local.client();
    assert!(openssl.run("genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:3072 -out key.pem"));
    assert!(openssl.run("pkcs8 -topk8 -nocrypt -in key.pem -outform DER -out key.der"));
    assert!(openssl.run("pkey -in key.pem -pubout -out public.pem"));
    let import = ImportKey {
        name: "r".into(),
        algorithm: "RSA-3072".into(),
        pkcs8: Some(Secret::of_bytes(&openssl.get("key.der"))),
        ..ImportKey::default()
    };
    assert_eq!(client.import(&import).unwrap().does, "sign_and_encrypt");
    let wanted = decode_pem(std::str::from_utf8(&openssl.get("public.pem")).unwrap());
    assert_eq!(decode_pem(&public_pem(&local, "r")), wanted);
    let other = ImportKey { algorithm: "rsa-2048".into(), name: "x".into(), ..import };
    assert_eq!(refused(client.import(&other)).code, "bad_request");

    // OpenSSL signs and we verify.
    openssl.put("message", b"message");
    assert!(openssl.run(
        "dgst -sha384 -sigopt rsa_padding_mode:pss -sigopt rsa_pss_saltlen:48 -sign key.pem -out signature message"
    ));
    let verify = Verify {
        key: "r".into(),
        message: Some(encode(b"message")),
        prehash: Some("SHA2-384".into()),
        signature: encode(&openssl.get("signature")),
        ..Verify::default()
    };
    assert!(client.verify(&verify).unwrap().valid);
    let with_salt = |salt| Verify { salt_length: Some(salt), ..verify.clone() };
    assert!(client.verify(&with_salt(48)).unwrap().valid);
    assert!(!client.verify(&with_salt(47)).unwrap().valid);
    let pkcs1 = Verify { padding: Some("pkcs1v15".into()), ..verify.clone() };
    assert!(!client.verify(&pkcs1).unwrap().valid);

    // We encrypt and OpenSSL decrypts.
    let plaintext = Secret::of_bytes(b"for openssl");
    let made = client.encrypt(&Encrypt { key: "r".into(), plaintext, ..Encrypt::default() });
    openssl.put("sealed", &decode(&made.unwrap().ciphertext).unwrap());
    assert!(openssl.run(
        "pkeyutl -decrypt -inkey key.pem -pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256 -in sealed -out plain"
    ));
    assert_eq!(openssl.get("plain"), b"for openssl");
    // PKCS#1 v1.5 ciphertexts are not decrypted.
    assert!(openssl.run("pkeyutl -encrypt -pubin -inkey public.pem -in message -out old"));
    let ciphertext = encode(&openssl.get("old"));
    let decrypt = Decrypt { key: "r".into(), ciphertext, ..Decrypt::default() };
    assert_eq!(refused(client.decrypt(&decrypt)).code, "decrypt_failed");
}

#[test]
fn fields_of_rsa_are_of_rsa_alone_and_have_their_values() {
    let local = Local::start();
    let client = local.client();
    let input = encode(b"m");
    data(local.ask("POST", "/v1/transit/keys/r", &json!({"type": "rsa-2048"})));
    data(local.ask("POST", "/v1/transit/keys/e", &json!({"type": "ed25519"})));
    for (key, body, says) in [
        ("r", json!({"signature_algorithm": "pkcs1"}), "unknown `signature_algorithm`"),
        ("r", json!({"salt_length": "longest"}), "`salt_length` is auto, hash or a number"),
        ("r", json!({"salt_length": -2}), "`salt_length` is auto, hash or a number"),
        ("r", json!({"salt_length": 223}), "the salt is longer"),
        ("r", json!({"salt_length": [1]}), "expected a number or a text"),
        ("r", json!({"signature_algorithm": "pkcs1v15", "salt_length": 32}), "not supported"),
        ("r", json!({"hash_algorithm": "shake256"}), "RSA does not sign digests by"),
        ("r", json!({"hash_algorithm": "none"}), "without the name of its hash"),
        ("r", json!({"prehashed": true}), "the digest has 1 bytes; expected 32"),
        ("e", json!({"signature_algorithm": "x"}), "unknown `signature_algorithm`"),
        ("e", json!({"salt_length": 32}), "`salt_length` is not supported"),
    ] {
        let mut body = body;
        body["input"] = json!(input);
        let said =
            transit::refused(local.ask("POST", &format!("/v1/transit/sign/{key}"), &body), 400);
        assert!(said.contains(says), "{body}: {said}");
    }
    let batch = json!({"batch_input": [{"input": input, "reference": "a"}, {"input": "*"}]});
    let results = data(local.ask("POST", "/v1/transit/sign/r", &batch))["batch_results"].clone();
    assert_eq!(results[0]["reference"], "a");
    assert!(results[1]["error"].as_str().unwrap().contains("malformed"), "{results}");
    let batch = json!({"batch_input": [{"input": input, "signature": results[0]["signature"]}]});
    let results = data(local.ask("POST", "/v1/transit/verify/r", &batch))["batch_results"].clone();
    assert_eq!(results, json!([{"valid": true}]));
    let sign = Sign { message: Some(input.clone()), ..Sign::by("r") };
    for (what, code) in [
        (Sign { padding: Some("oaep".into()), ..sign.clone() }, "bad_request"),
        (
            Sign { padding: Some("pkcs1v15".into()), salt_length: Some(1), ..sign.clone() },
            "bad_request",
        ),
        (Sign { context: Some(encode(b"c")), ..sign.clone() }, "unsupported"),
        (Sign { salt_length: Some(1), context: Some(encode(b"c")), ..sign.clone() }, "unsupported"),
        (Sign { salt_length: Some(32), ..Sign { key: "e".into(), ..sign.clone() } }, "unsupported"),
    ] {
        assert_eq!(refused(client.sign(&what)).code, code, "{what:?}");
    }
    let body = json!({"plaintext": encode(&[0; 191])});
    let said = transit::refused(local.ask("POST", "/v1/transit/encrypt/r", &body), 413);
    assert!(said.contains("too_large"), "{said}");
    let body = json!({"ciphertext": format!("vault:v1:{}", encode(&[1; 256]))});
    let said = transit::refused(local.ask("POST", "/v1/transit/decrypt/r", &body), 400);
    assert!(said.contains("decrypt_failed"), "{said}");
}

#[test]
fn a_batch_by_rsa_has_a_scheme_in_vaults_form_alone_and_the_tokens_limit() {
    let local = Local::start();
    data(local.ask("POST", "/v1/transit/keys/r", &json!({"type": "rsa-2048"})));
    let input = encode(b"m");
    let item = json!({"op": "sign", "key": "r", "message": input, "padding": "pkcs1v15"});
    let (status, answer) = local.ask("POST", "/v1/kms/batch", &json!({"items": [item]}));
    assert_eq!((status, &answer["code"]), (400, &json!("bad_request")), "{answer}");
    let message = answer["message"].as_str().unwrap();
    assert!(message.contains("unknown field `padding`"), "{message}");

    let limited =
        gabion_kms_server::attenuate_token(&local.token, &["batch_max=2".to_owned()]).unwrap();
    let ask = |verb: &str, item: &Value, items: usize| {
        let (path, items) = (format!("/v1/transit/{verb}/r"), vec![item.clone(); items]);
        let body = json!({"batch_input": items, "signature_algorithm": "pkcs1v15"});
        local.ask_by(&limited, "default", "POST", &path, &body)
    };
    let item = json!({"input": input});
    let signed = data(ask("sign", &item, 2))["batch_results"].clone();
    assert_eq!(signed[0], signed[1]);
    transit::refused(ask("sign", &item, 3), 403);
    let item = json!({"input": input, "signature": signed[0]["signature"]});
    assert_eq!(
        data(ask("verify", &item, 2))["batch_results"],
        json!([{"valid": true}, {"valid": true}])
    );
    transit::refused(ask("verify", &item, 3), 403);
    let metrics = local.get("/metrics");
    for count in [
        "kms_ops_total{op=\"sign_batch\",alg=\"rsa-2048\"} 2",
        "kms_ops_total{op=\"verify_batch\",alg=\"rsa-2048\"} 2",
        "kms_batch_len_sum 4",
        "kms_batch_len_count 2",
    ] {
        assert!(metrics.contains(count), "{count}");
    }
}
