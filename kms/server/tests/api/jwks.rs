//! Public keys as JWKs.

use gabion_kms_client::{Client, Settings};
use gabion_kms_wire::native::{ConfigureKey, CreateToken, Nothing, OfVersion, Versions};
use serde_json::Value;

use super::raw::Local;
use super::{client, create, refused, server, settings};

fn keys(client: &Client) -> Vec<Value> {
    let said: Value = client.get("/v1/kms/jwks/default").unwrap();
    said["keys"].as_array().unwrap().clone()
}

/// The DER of a public key in PEM.
fn der(pem: &str) -> Vec<u8> {
    let text: String = pem.lines().filter(|line| !line.starts_with("---")).collect();
    gabion_kms_wire::decode(&text).unwrap()
}

/// The bytes of a field without padding.
fn bytes(of: &Value) -> Vec<u8> {
    let text = of.as_str().unwrap().replace('-', "+").replace('_', "/");
    assert!(!text.contains('='));
    let padding = "=".repeat((4 - text.len() % 4) % 4);
    gabion_kms_wire::decode(&format!("{text}{padding}")).unwrap()
}

/// Each is the public key that the same version has in PEM, which other libraries read; kty, alg
/// and the names of fields are those of RFC 8037 (OKP), 7518 (EC, RSA) and 9964 (AKP).
#[test]
fn every_key_that_jose_has_a_name_for_is_in_the_set_with_its_bytes() {
    let server = server();
    let client = client(&server);
    let of = [
        ("ed25519", "OKP", "EdDSA", "Ed25519"),
        ("ecdsa-p-256", "EC", "ES256", "P-256"),
        ("ecdsa-p-384", "EC", "ES384", "P-384"),
        ("ecdsa-p-521", "EC", "ES512", "P-521"),
        ("ml-dsa-44", "AKP", "ML-DSA-44", ""),
        ("ml-dsa-65", "AKP", "ML-DSA-65", ""),
        ("ml-dsa-87", "AKP", "ML-DSA-87", ""),
        ("slh-dsa-sha2-128f", "AKP", "SLH-DSA-SHA2-128f", ""),
        ("rsa-2048", "RSA", "PS256", ""),
    ];
    for (name, ..) in of {
        create(&client, name, name);
    }
    // These keys verify no signatures, or have no JOSE name.
    for name in ["ml-kem-768", "xaes-256-gcm", "hmac-sha-256", "slh-dsa-shake-256f"] {
        create(&client, name, name);
    }
    let found = keys(&client);
    assert_eq!(found.len(), of.len());
    for (name, kty, alg, crv) in of {
        let key = found.iter().find(|key| key["alg"] == alg).unwrap();
        assert_eq!((&key["kty"], &key["use"]), (&kty.into(), &"sig".into()));
        let versions: Versions = client.get(&format!("/v1/kms/keys/{name}/versions")).unwrap();
        assert_eq!(key["kid"], format!("{}#v1", versions.id));
        let der = der(versions.versions[0].public_key.as_ref().unwrap());
        let (wanted, fields) = match kty {
            "EC" => {
                let (x, y) = (bytes(&key["x"]), bytes(&key["y"]));
                // RFC 7518, 6.2.1.2: as many bytes as the field's elements have.
                let size = match crv {
                    "P-256" => 32,
                    "P-384" => 48,
                    _ => 66,
                };
                assert_eq!((x.len(), y.len()), (size, size));
                ([x, y].concat(), vec!["alg", "crv", "kid", "kty", "use", "x", "y"])
            }
            "OKP" => (bytes(&key["x"]), vec!["alg", "crv", "kid", "kty", "use", "x"]),
            "RSA" => {
                // RFC 7518, 6.3.1: no zeros in front. RFC 8017, A.1.1: an RSAPublicKey ends in the
                // two.
                let (n, e) = (bytes(&key["n"]), bytes(&key["e"]));
                assert_eq!((n.len(), n[0] > 127, &e[..]), (256, true, &[1, 0, 1][..]));
                let both = [&n[..], &[2, 3], &e].concat();
                (both, vec!["alg", "e", "kid", "kty", "n", "use"])
            }
            _ => (bytes(&key["pub"]), vec!["alg", "kid", "kty", "pub", "use"]),
        };
        assert!(der.ends_with(&wanted) && wanted.len() >= 32, "{name}");
        if !crv.is_empty() {
            assert_eq!(key["crv"], crv);
        }
        let mut names: Vec<&String> = key.as_object().unwrap().keys().collect();
        names.sort_unstable();
        assert_eq!(names, fields);
    }
}

/// Readers that fail on a key type that they do not know ask for the types that they do.
#[test]
fn a_set_has_the_keys_that_were_asked_for() {
    let server = server();
    let client = client(&server);
    for (name, algorithm) in [
        ("web-1", "ecdsa-p-256"),
        ("web-2", "ml-dsa-65"),
        ("web", "ed25519"),
        ("x", "ecdsa-p-384"),
        ("mac", "hmac-sha-256"),
        ("y", "rsa-2048"),
    ] {
        create(&client, name, algorithm);
    }
    let algs = |query: &str| -> Vec<String> {
        let said: Value = client.get(&format!("/v1/kms/jwks/default{query}")).unwrap();
        assert!(said.get("next").is_none());
        let keys = said["keys"].as_array().unwrap();
        keys.iter().map(|key| key["alg"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(algs(""), ["EdDSA", "ES256", "ML-DSA-65", "ES384", "PS256"]);
    // The values known to clients older than RFC 9964.
    assert_eq!(algs("?kty=EC,OKP,RSA"), ["EdDSA", "ES256", "ES384", "PS256"]);
    assert_eq!(algs("?kty=RSA"), ["PS256"]);
    assert_eq!(algs("?alg=ES384,EdDSA"), ["EdDSA", "ES384"]);
    assert_eq!(algs("?kty=EC,OKP&alg=ES384,PS256"), ["ES384"]);
    assert_eq!(algs("?kty=EC"), ["ES256", "ES384"]);
    assert_eq!(algs("?kty=AKP"), ["ML-DSA-65"]);
    assert_eq!(algs("?alg=EdDSA"), ["EdDSA"]);
    assert_eq!(algs("?kty=EC&alg=EdDSA"), [""; 0]);
    assert_eq!(algs("?key=web"), ["EdDSA"]);
    assert_eq!(algs("?key_prefix=web"), ["EdDSA", "ES256", "ML-DSA-65"]);
    assert_eq!(algs("?key_prefix=web-&kty=EC"), ["ES256"]);
    for nothing in ["?key=missing", "?key=mac", "?key_prefix=z"] {
        assert_eq!(algs(nothing), [""; 0], "{nothing}");
    }
    for (query, says) in [
        ("?kty=oct", "AKP, EC, OKP, RSA"),
        ("?kty=ec", "AKP, EC, OKP, RSA"),
        ("?kty=", "AKP, EC, OKP, RSA"),
        ("?kty=EC,", "AKP, EC, OKP, RSA"),
        ("?kty=EC, OKP".replace(' ', "%20").as_str(), "AKP, EC, OKP, RSA"),
        ("?alg=HS256", "ES256"),
        ("?key=web&key_prefix=w", "not both"),
        ("?limit=0", "at least 1"),
        ("?limit=1001", "from 0 to 1000"),
        ("?after=web", "NAME:VERSION"),
        ("?after=web:x", "NAME:VERSION"),
        ("?use=sig", "unknown parameter `use`"),
    ] {
        let problem = refused(client.get::<Value>(&format!("/v1/kms/jwks/default{query}")));
        assert_eq!(problem.code, "bad_request", "{query}");
        assert!(problem.message.contains(says), "{query}: {}", problem.message);
    }
}

#[test]
fn pages_of_a_set_have_every_version_once() {
    let server = server();
    let client = client(&server);
    for name in ["a", "b", "c"] {
        create(&client, name, "ed25519");
        for _ in 0..4 {
            let _: Value =
                client.post(&format!("/v1/kms/keys/{name}/rotate"), &Nothing {}).unwrap();
        }
    }
    let _: Value = client.post("/v1/kms/keys/b/disable", &OfVersion { version: 2 }).unwrap();
    let kids = |keys: &[Value]| -> Vec<String> {
        keys.iter().map(|key| key["kid"].as_str().unwrap().to_owned()).collect()
    };
    let all = kids(&keys(&client));
    assert_eq!(all.len(), 14);
    for (limit, filter, wanted) in [
        (1, "", &all[..]),
        (4, "", &all[..]),
        (14, "", &all[..]),
        (1000, "", &all[..]),
        (2, "&key=b", &all[5..9]),
        (3, "&key_prefix=c", &all[9..]),
    ] {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let path = format!("/v1/kms/jwks/default?limit={limit}{filter}{after}");
            let page: Value = client.get(&path).unwrap();
            let keys = page["keys"].as_array().unwrap();
            assert!(!keys.is_empty() && keys.len() <= limit, "{path}");
            found.extend(kids(keys));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        assert_eq!(found, wanted, "{limit}{filter}");
    }
    // The key at which a page ended may be gone when the next one is asked for.
    client.delete("b").unwrap();
    let rest: Value = client.get("/v1/kms/jwks/default?after=b:3&limit=9").unwrap();
    assert_eq!(kids(rest["keys"].as_array().unwrap()), all[9..]);
}

#[test]
fn a_version_that_may_not_verify_is_in_no_set() {
    let server = server();
    let client = client(&server);
    create(&client, "k", "ed25519");
    let path = "/v1/kms/keys/k";
    for _ in 0..3 {
        let _: Value = client.post(&format!("{path}/rotate"), &Nothing {}).unwrap();
    }
    let versions = || -> Vec<String> {
        let kid =
            |key: &Value| key["kid"].as_str().unwrap().rsplit_once("#v").unwrap().1.to_owned();
        keys(&client).iter().map(kid).collect()
    };
    assert_eq!(versions(), ["1", "2", "3", "4"]);
    let _: Value = client.post(&format!("{path}/disable"), &OfVersion { version: 3 }).unwrap();
    assert_eq!(versions(), ["1", "2", "4"]);
    let least = ConfigureKey { min_verify: Some(2), ..ConfigureKey::default() };
    let _: Value = client.post(&format!("{path}/config"), &least).unwrap();
    assert_eq!(versions(), ["2", "4"]);
    client.delete("k").unwrap();
    assert!(versions().is_empty());
}

#[test]
fn jwks_omits_keys_hidden_from_the_caller() {
    let server = server();
    let admin = client(&server);
    create(&admin, "web-1", "ed25519");
    create(&admin, "firmware", "ed25519");
    let with = |caveats: &[&str]| {
        let caveats = Some(caveats.iter().map(|text| text.to_string()).collect());
        let asked = CreateToken { principal: "ci".into(), caveats, lifetime_s: None };
        let token = admin.create_token(&asked).unwrap().token.expose().to_owned();
        Client::new(&Settings { token: Some(token.into()), ..settings(&server) }).unwrap()
    };
    assert_eq!(keys(&admin).len(), 2);
    assert_eq!(keys(&with(&["actions=list,show"])).len(), 2);
    // Without `show` there is nothing to see, and without `list` no set.
    assert_eq!(keys(&with(&["actions=list"])).len(), 0);
    // A token of some names asks for those.
    let web = with(&["key_prefix=web-"]);
    let of = |query: &str| web.get::<Value>(&format!("/v1/kms/jwks/default{query}"));
    for query in ["?key_prefix=web-", "?key=web-1", "?key_prefix=web-&after=firmware:1"] {
        assert_eq!(of(query).unwrap()["keys"].as_array().unwrap().len(), 1, "{query}");
    }
    for query in ["", "?key=firmware", "?key=missing", "?key_prefix=w"] {
        assert_eq!(refused(of(query)).code, "not_found", "{query}");
    }
    let set = |client: &Client| client.get::<Value>("/v1/kms/jwks/default");
    assert_eq!(refused(set(&with(&["actions=show"]))).code, "denied");
    assert!(set(&with(&["tenant=other"])).is_err());
    let nobody = Client::new(&Settings { token: None, ..settings(&server) }).unwrap();
    assert_eq!(refused(set(&nobody)).code, "unauthenticated");
    for (path, code) in [("/v1/kms/jwks/a%2Fb", "bad_request"), ("/v1/kms/jwks/%00", "bad_request")]
    {
        assert_eq!(refused(admin.get::<Value>(path)).code, code);
    }
    let other: Value = admin.get("/v1/kms/jwks/other").unwrap();
    assert_eq!(other["keys"], Value::Array(Vec::new()));
}

#[test]
fn a_set_is_kept_and_asked_for_again() {
    let local = Local::start();
    create(&local.client(), "k", "ed25519");
    let token = &*local.token;
    let get = |fields: &str| {
        local.exchange(&format!(
            "GET /v1/kms/jwks/default HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {token}\r\n{fields}\r\n"
        ))
    };
    let first = get("");
    assert!(first.starts_with("HTTP/1.1 200 "), "{first}");
    assert!(first.contains("cache-control: private, no-cache\r\n"), "{first}");
    assert!(first.contains("content-type: application/jwk-set+json\r\n"), "{first}");
    let mark = first.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap().trim();
    assert!(mark.len() == 34 && mark.starts_with('"') && mark.ends_with('"'), "{mark}");
    for same in [mark, &format!("W/{mark}"), &format!("\"x\", {mark}"), "*"] {
        let again = get(&format!("If-None-Match: {same}\r\n"));
        assert!(again.starts_with("HTTP/1.1 304 ") && again.contains(mark), "{same}: {again}");
        assert!(again.ends_with("\r\n\r\n"), "{again}");
    }
    for other in ["\"x\"", &mark.replace('"', ""), "", ",,,", "\"", &"a".repeat(10_000)] {
        let again = get(&format!("If-None-Match: {other}\r\n"));
        assert!(again.starts_with("HTTP/1.1 200 "), "{other:.40}: {again:.40}");
    }
    // Disabling a version changes it.
    let _: Value =
        local.client().post("/v1/kms/keys/k/disable", &OfVersion { version: 1 }).unwrap();
    let changed = get(&format!("If-None-Match: {mark}\r\n"));
    assert!(
        changed.starts_with("HTTP/1.1 200 ") && changed.ends_with("{\"keys\":[]}"),
        "{changed}"
    );
}
