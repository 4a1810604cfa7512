//! JSON Web Tokens.

use gabion_engine::ecdsa::{is_ecdsa, raw_to_der};
use gabion_engine::{Algorithm, Config, Engine, Message};
use gabion_kms::rsa::{Hash, PublicKey, Scheme};
use gabion_kms_client::{Client, StreamRequest};
use gabion_kms_wire::native::{
    Batch, BatchItem, ConfigureKey, CreateKey, CreateToken, Sign, SignJwt, SignedJwt, VerifyJwt,
};
use gabion_kms_wire::{decode_url, encode, encode_url};
use serde_json::{Map, Value, json};

use super::raw::Local;
use super::{create, refused};

fn object(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

fn lasting(key: &str, lifetime_s: u64) -> SignJwt {
    SignJwt {
        key: key.into(),
        claims: object(json!({"sub": "a", "aud": ["b", "c"]})),
        lifetime_s: Some(lifetime_s),
        ..SignJwt::default()
    }
}

fn of(key: &str, token: &str) -> VerifyJwt {
    VerifyJwt {
        key: key.into(),
        token: token.into(),
        audience: Some("b".into()),
        ..VerifyJwt::default()
    }
}

/// Verifies a token with only the JWK.
fn is_signed(jwk: &Value, token: &str) -> bool {
    let (input, signature) = token.rsplit_once('.').unwrap();
    let signature = decode_url(signature).unwrap();
    let bytes = |name: &str| decode_url(jwk[name].as_str().unwrap()).unwrap();
    let algorithm = match jwk["alg"].as_str().unwrap() {
        "EdDSA" => Algorithm::Ed25519,
        "ES256" => Algorithm::EcdsaP256,
        "ES384" => Algorithm::EcdsaP384,
        "ES512" => Algorithm::EcdsaP521,
        "ML-DSA-44" => Algorithm::MlDsa44,
        "ML-DSA-65" => Algorithm::MlDsa65,
        "ML-DSA-87" => Algorithm::MlDsa87,
        "PS256" => {
            // An RSAPublicKey of 2048 bits (RFC 8017, A.1.1).
            let head = [0x30, 0x82, 1, 10, 2, 0x82, 1, 1, 0];
            let der = [&head[..], &bytes("n"), &[2, 3], &bytes("e")].concat();
            let scheme = Scheme::Pss { hash: Hash::Sha256, salt: Some(32) };
            let digest = Hash::Sha256.digest(input.as_bytes());
            return PublicKey::of_pkcs1(&der).unwrap().verify_digest(scheme, &digest, &signature);
        }
        other => panic!("{other}"),
    };
    let (key, signature) = match jwk["kty"].as_str().unwrap() {
        "EC" => ([&[4][..], &bytes("x"), &bytes("y")].concat(), raw_to_der(algorithm, &signature)),
        "OKP" => (bytes("x"), Some(signature)),
        _ => (bytes("pub"), Some(signature)),
    };
    assert_eq!(is_ecdsa(algorithm), jwk["kty"] == "EC");
    let engine = Engine::new(&Config::default()).unwrap();
    let key = engine.signature_public(algorithm, &key).unwrap();
    let message = Message::Pure { context: b"", message: input.as_bytes() };
    engine.verify(&key, message, &signature.unwrap()).is_ok()
}

fn jwk(client: &Client, key: &str, kid: &str) -> Value {
    let set: Value = client.get(&format!("/v1/kms/jwks/default?key={key}")).unwrap();
    let keys = set["keys"].as_array().unwrap();
    keys.iter().find(|key| key["kid"] == kid).unwrap().clone()
}

#[test]
fn tokens_of_every_algorithm_verify_by_the_set_of_jwks() {
    let local = Local::start();
    let client = local.client();
    for (algorithm, alg, is_long) in [
        ("ed25519", "EdDSA", false),
        ("ecdsa-p-256", "ES256", false),
        ("ecdsa-p-384", "ES384", false),
        ("ecdsa-p-521", "ES512", false),
        ("rsa-2048", "PS256", false),
        ("ml-dsa-44", "ML-DSA-44", false),
        ("ml-dsa-65", "ML-DSA-65", true),
        ("ml-dsa-87", "ML-DSA-87", true),
    ] {
        let id = create(&client, algorithm, algorithm).id;
        for version in [1, 2] {
            let signed = client.sign_jwt(&lasting(algorithm, 60)).unwrap();
            let kid = format!("{id}#v{version}");
            assert_eq!((&*signed.kid, &*signed.alg, signed.version), (&*kid, alg, version));
            // ML-DSA-65 alone has signatures of 3309 bytes, 4412 in base64.
            assert_eq!(signed.warnings.is_some(), is_long, "{:?}", signed.warnings);
            let jwk = jwk(&client, algorithm, &signed.kid);
            assert_eq!(jwk["alg"], alg);
            assert!(is_signed(&jwk, &signed.token), "{algorithm}");
            let forged = signed.token.replacen("ey", "ez", 1);
            assert!(!is_signed(&jwk, &forged));
            let verified = client.verify_jwt(&of(algorithm, &signed.token)).unwrap();
            assert_eq!((verified.valid, verified.reason), (true, None));
            assert_eq!(verified.by, Some(kid));
            let claims = verified.claims.unwrap();
            assert_eq!((&claims["sub"], &claims["exp"]), (&json!("a"), &json!(signed.exp)));
            // By id, too.
            assert!(client.verify_jwt(&of(&id, &signed.token)).unwrap().valid);
            client.rotate(algorithm).unwrap();
        }
    }
    let long = SignJwt { claims: object(json!({"x": "y".repeat(9000)})), ..lasting("ed25519", 60) };
    let warnings = client.sign_jwt(&long).unwrap().warnings.unwrap();
    assert!(warnings.len() == 1 && warnings[0].contains("more than 8 KiB"), "{warnings:?}");
}

#[test]
fn a_request_says_what_is_in_the_token() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    client.rotate("k").unwrap();
    let minima = ConfigureKey { min_sign: Some(1), ..ConfigureKey::default() };
    client.configure("k", &minima).unwrap();
    let part = |signed: &SignedJwt, place: usize| -> Value {
        let part = signed.token.split('.').nth(place).unwrap();
        serde_json::from_slice(&decode_url(part).unwrap()).unwrap()
    };
    let asked = SignJwt {
        version: Some(1),
        typ: Some("at+jwt".into()),
        with_nbf: Some(true),
        with_jti: Some(true),
        ..lasting("k", 60)
    };
    let signed = client.sign_jwt(&asked).unwrap();
    assert_eq!(part(&signed, 0), json!({"alg": "EdDSA", "kid": signed.kid, "typ": "at+jwt"}));
    let claims = part(&signed, 1);
    assert_eq!(claims["nbf"], claims["iat"]);
    assert_eq!(claims["iat"].as_u64().unwrap() + 60, signed.exp);
    assert_eq!(claims["jti"].as_str().unwrap().len(), 22);
    assert!(signed.kid.ends_with("#v1"));
    for (verify, reason) in [
        (VerifyJwt { typ: Some("at+jwt".into()), ..of("k", &signed.token) }, None),
        (of("k", &signed.token), Some("typ")),
    ] {
        let verified = client.verify_jwt(&verify).unwrap();
        assert_eq!((verified.valid, verified.reason.as_deref()), (reason.is_none(), reason));
        assert_eq!(verified.claims.is_some(), reason.is_none());
    }
    let signed = client.sign_jwt(&lasting("k", 60)).unwrap();
    let verify = |change: fn(&mut VerifyJwt)| {
        let mut asked = of("k", &signed.token);
        change(&mut asked);
        client.verify_jwt(&asked).unwrap().reason
    };
    assert_eq!(verify(|_| {}), None);
    assert_eq!(verify(|asked| asked.audience = None).as_deref(), Some("audience"));
    assert_eq!(verify(|asked| asked.issuer = Some("x".into())).as_deref(), Some("issuer"));
    let problem =
        refused(client.verify_jwt(&VerifyJwt { leeway_s: Some(61), ..of("k", &signed.token) }));
    assert_eq!(problem.code, "bad_request");
    for text in ["", "a.b", "a.b.c", &format!("{}=", signed.token), &signed.token[1..]] {
        let problem = refused(client.verify_jwt(&of("k", text)));
        assert_eq!(problem.code, "malformed", "{text}: {problem:?}");
    }
}

/// Claims are signed as they were parsed, or rejected.
#[test]
fn hostile_claims_are_refused() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    let post = |fields: &str| {
        let body = format!(r#"{{"key":"k",{fields}}}"#);
        let head = format!(
            "POST /v1/kms/jwt HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {}\r\nContent-Length: {}\r\n\r\n",
            &*local.token,
            body.len()
        );
        local.exchange(&(head + &body))
    };
    let good = r#""lifetime_s":60"#;
    let many: Vec<String> = (0..200).map(|at| format!("\"{at}\":1")).collect();
    let items = vec!["1"; 2000].join(",");
    for (fields, says) in [
        (format!(r#"{good},"claims":{{"sub":"a","sub":"b"}}"#), "duplicate field `sub`"),
        (format!(r#"{good},"claims":{{"sub":"a","\u0073ub":"b"}}"#), "duplicate field `sub`"),
        (format!(r#"{good},"claims":{{"a":[{{"b":1,"b":2}}]}}"#), "duplicate field `b`"),
        (format!(r#"{good},"claims":{{}},"claims":{{"sub":"b"}}"#), "duplicate field `claims`"),
        (format!(r#"{good},"claims":{{"exp":9999999999}}"#), "is set by `lifetime_s`"),
        (format!(r#"{good},"claims":[]"#), "expected a map"),
        (format!(r#"{good},"claims":null"#), "expected a map"),
        (good.to_owned(), "missing field `claims`"),
        (r#""claims":{"sub":"a"}"#.to_owned(), "missing claim `exp`"),
        (r#""claims":{"exp":9999999999}"#.to_owned(), "the key signs tokens of at most 86400 s"),
        (r#""claims":{"exp":1}"#.to_owned(), "a time that has not come yet"),
        (r#""claims":{"exp":"9999999999"}"#.to_owned(), "whole seconds"),
        (format!(r#"{good},"claims":{{"n":9007199254740993}}"#), "number beyond"),
        (format!(r#"{good},"claims":{{"n":123456789012345678901234567890}}"#), "number beyond"),
        (format!(r#"{good},"claims":{{"n":1e999}}"#), "number out of range"),
        (format!(r#"{good},"claims":{{"a":"\ud800"}}"#), "hex escape"),
        (format!(r#"{good},"claims":{{"a":[[[[[[[1]]]]]]]}}"#), "more than 8"),
        (format!(r#"{good},"claims":{{{}}}"#, many.join(",")), "fields"),
        (format!(r#"{good},"claims":{{"a":[{items}]}}"#), "items"),
        (format!(r#"{good},"claims":{{"a":"{}"}}"#, "x".repeat(20_000)), "bytes of claims"),
        (format!(r#"{good},"claims":{{}},"alg":"none""#), "unknown field `alg`"),
        (format!(r#"{good},"claims":{{}},"kid":"x""#), "unknown field `kid`"),
        (format!(r#"{good},"claims":{{}},"header":{{}}"#), "unknown field `header`"),
        (format!(r#"{good},"claims":{{}},"typ":"a\"b""#), "media type"),
        (r#""lifetime_s":0,"claims":{}"#.to_owned(), "at least 1"),
        (r#""lifetime_s":-1,"claims":{}"#.to_owned(), "-1"),
    ] {
        let answer = post(&fields);
        let status = answer.split(' ').nth(1).unwrap();
        assert!(["400", "413"].contains(&status), "{fields:.80}: {answer}");
        assert!(answer.contains(says), "{fields:.80}: {answer}");
    }
    assert!(post(&format!(r#"{good},"claims":{{}}"#)).starts_with("HTTP/1.1 200"));
}

/// By any signature of bytes that the service did not read, a token of any lifetime could be made.
#[test]
fn a_key_with_a_limit_signs_nothing_but_tokens() {
    let local = Local::start();
    let client = local.client();
    let limited = |lifetime_s| ConfigureKey {
        jwt_max_lifetime_s: Some(lifetime_s),
        ..ConfigureKey::default()
    };
    for algorithm in ["ed25519", "ecdsa-p-256", "ml-dsa-65", "rsa-2048"] {
        let made = client.create(&CreateKey {
            name: algorithm.into(),
            algorithm: algorithm.into(),
            jwt_max_lifetime_s: Some(60),
            ..CreateKey::default()
        });
        assert_eq!(made.unwrap().jwt_max_lifetime_s, Some(60));
        assert!(client.sign_jwt(&lasting(algorithm, 60)).is_ok());
        assert_eq!(refused(client.sign_jwt(&lasting(algorithm, 61))).code, "bad_request");
        let needs_jwt = |code: String| assert_eq!(code, "jwt_required", "{algorithm}");
        let sign = Sign { message: Some(encode(b"m")), ..Sign::by(algorithm) };
        needs_jwt(refused(client.sign(&sign)).code);
        let jws = Sign { marshaling: Some("jws".into()), ..sign.clone() };
        needs_jwt(refused(client.sign(&jws)).code);
        let (digest, prehash) = (Some(encode(&[7; 64])), Some("SHA2-512".to_owned()));
        needs_jwt(refused(client.sign(&Sign { digest, prehash, ..Sign::by(algorithm) })).code);
        let mu = Sign { mu: Some(encode(&[7; 64])), version: Some(1), ..Sign::by(algorithm) };
        needs_jwt(refused(client.sign(&mu)).code);
        let padded = Sign { padding: Some("pkcs1v15".into()), ..sign.clone() };
        needs_jwt(refused(client.sign(&padded)).code);
        let stream = client.sign_stream(&StreamRequest::by(algorithm), &mut &b"m"[..], None);
        needs_jwt(refused(stream).code);
        let item = BatchItem {
            op: "sign".into(),
            key: algorithm.into(),
            message: Some(encode(b"m")),
            ..BatchItem::default()
        };
        let items = vec![item.clone(), item];
        let done = client.batch(&Batch { items, status_if_failed: None }).unwrap();
        for result in done.results {
            needs_jwt(result.problem.unwrap().code);
        }
        let input = encode(b"m");
        for body in [
            json!({"input": input}),
            json!({"input": input, "marshaling_algorithm": "jws"}),
            json!({"batch_input": [{"input": input}, {"input": input}]}),
        ] {
            let path = format!("/v1/transit/sign/{algorithm}");
            let (status, answer) = local.ask("POST", &path, &body);
            // Items of a batch have refusals of their own.
            let items = body["batch_input"].as_array().map_or(1, Vec::len);
            assert_eq!(status, if items == 1 { 400 } else { 200 }, "{answer}");
            let answer = answer.to_string();
            assert_eq!(answer.matches("signs JSON Web Tokens only").count(), items, "{answer}");
            assert!(!answer.contains("vault:v1:"), "{answer}");
        }
        // It can be another one, and not none.
        client.configure(algorithm, &limited(120)).unwrap();
        assert!(client.sign_jwt(&lasting(algorithm, 120)).is_ok());
        assert_eq!(refused(client.configure(algorithm, &limited(0))).code, "bad_request");
    }
    create(&client, "slh", "slh-dsa-sha2-128f");
    assert_eq!(refused(client.configure("slh", &limited(60))).code, "unsupported");
    assert_eq!(refused(client.sign_jwt(&lasting("slh", 60))).code, "unsupported");
    assert_eq!(refused(client.verify_jwt(&of("slh", "e30.e30.AA"))).code, "unsupported");
}

#[test]
fn tokens_take_an_action_of_their_own() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ed25519");
    let token = client.sign_jwt(&lasting("k", 60)).unwrap().token;
    let ask = |actions: &str, path: &str, body: &Value| {
        let caveats = Some(vec![format!("actions={actions}")]);
        let asked = CreateToken { principal: "me".into(), caveats, lifetime_s: None };
        let by = client.create_token(&asked).unwrap().token;
        local.ask_by(by.expose(), "default", "POST", path, body).0
    };
    let jwt = json!({"key": "k", "claims": {}, "lifetime_s": 60});
    let sign = json!({"key": "k", "message": encode(b"m")});
    let verify = json!({"key": "k", "token": token});
    for (actions, statuses) in [
        ("sign_jwt", [200, 403, 403]),
        ("sign", [403, 200, 403]),
        ("verify", [403, 403, 200]),
        ("sign_jwt,verify", [200, 403, 200]),
    ] {
        let found =
            [("/v1/kms/jwt", &jwt), ("/v1/kms/sign", &sign), ("/v1/kms/jwt/verify", &verify)]
                .map(|(path, body)| ask(actions, path, body));
        assert_eq!(found, statuses, "{actions}");
    }
    // A hidden key answers like a missing one.
    let hidden = json!({"key": "other", "claims": {}, "lifetime_s": 60});
    let caveats = Some(vec!["key_prefix=k".to_owned()]);
    let asked = CreateToken { principal: "me".into(), caveats, lifetime_s: None };
    create(&client, "other", "ed25519");
    let by = client.create_token(&asked).unwrap().token;
    let (status, answer) = local.ask_by(by.expose(), "default", "POST", "/v1/kms/jwt", &hidden);
    assert_eq!((status, &answer["code"]), (404, &json!("not_found")));
}

/// A token with another key id, algorithm or key is invalid.
#[test]
fn forged_headers_are_refused() {
    let local = Local::start();
    let client = local.client();
    create(&client, "k", "ecdsa-p-256");
    create(&client, "other", "ecdsa-p-256");
    let signed = client.sign_jwt(&lasting("k", 60)).unwrap();
    let (_, rest) = signed.token.split_once('.').unwrap();
    let reason = |key: &str, header: Value| {
        let token = format!("{}.{rest}", encode_url(header.to_string().as_bytes()));
        client.verify_jwt(&of(key, &token)).unwrap().reason.unwrap()
    };
    let kid = &*signed.kid;
    for (header, wanted) in [
        (json!({"alg": "none", "kid": kid, "typ": "JWT"}), "alg"),
        (json!({"alg": "HS256", "kid": kid, "typ": "JWT"}), "alg"),
        (json!({"alg": "ES256", "kid": kid, "typ": "JWT", "crit": []}), "header"),
        (json!({"alg": "ES256", "kid": kid, "typ": "JWT", "jku": "https://x"}), "header"),
        (json!({"alg": "ES256", "kid": kid, "typ": "JWT", "jwk": {}}), "header"),
        (json!({"alg": "ES256", "typ": "JWT"}), "kid"),
        (json!({"alg": "ES256", "kid": "k", "typ": "JWT"}), "kid"),
        (json!({"alg": "ES256", "kid": kid.replace("#v1", "#v2"), "typ": "JWT"}), "version"),
        (json!({"alg": "ES256", "kid": kid, "typ": "at+jwt"}), "signature"),
    ] {
        assert_eq!(reason("k", header.clone()), wanted, "{header}");
    }
    let of_another = client.verify_jwt(&of("other", &signed.token)).unwrap();
    assert_eq!((of_another.valid, of_another.reason.as_deref()), (false, Some("kid")));
    client.disable("k", 1).unwrap();
    let disabled = client.verify_jwt(&of("k", &signed.token)).unwrap();
    assert_eq!(disabled.reason.as_deref(), Some("version"));
}
