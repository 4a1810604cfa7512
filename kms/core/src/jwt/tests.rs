use serde_json::json;

use super::*;

const NOW: u64 = 1_790_000_000;

fn new(claims: Value) -> NewJwt {
    let Value::Object(claims) = claims else { panic!("{claims}") };
    NewJwt { claims, ..NewJwt::default() }
}

/// Valid claims, with additional ones.
fn with(more: Value) -> NewJwt {
    let mut new = new(more);
    new.claims.entry("exp").or_insert((NOW + 60).into());
    new
}

fn payload(new: &NewJwt) -> Value {
    serde_json::from_str(new.claims(NOW).unwrap().payload()).unwrap()
}

#[test]
fn claims_have_the_form_of_rfc_7519() {
    for good in [
        json!({}),
        json!({"iss": "joe", "sub": "user:1", "aud": "https://example.com/?a=%20#b"}),
        json!({"aud": ["a", "b"], "jti": "x", "iat": NOW, "nbf": NOW + 59}),
        json!({"iat": 1, "exp": 253_402_300_799_u64}),
        json!({"sub": "ä ö", "iss": "auth0|12"}),
        json!({"any": [null, true, -1, 1.5, {"a": {"b": {}}}], "n": 9_007_199_254_740_991_u64}),
        json!({"": 1}),
    ] {
        let wanted = with(good);
        assert_eq!(payload(&wanted), Value::from(wanted.claims.clone()));
    }
    let deep = json!({"deep": [[[[[[[1]]]]]]]});
    for (bad, says) in [
        (json!({"iss": 1}), "`iss`"),
        (json!({"iss": ""}), "`iss`"),
        (json!({"iss": null}), "`iss`"),
        (json!({"sub": ["a"]}), "`sub`"),
        (json!({"sub": "a b:c"}), "`sub`"),
        (json!({"sub": "1a:c"}), "`sub`"),
        (json!({"sub": "a:%2"}), "`sub`"),
        (json!({"sub": "a:%zz"}), "`sub`"),
        (json!({"sub": "a:\u{e4}"}), "`sub`"),
        (json!({"sub": ":"}), "`sub`"),
        (json!({"aud": []}), "`aud`"),
        (json!({"aud": ["a", 1]}), "`aud`"),
        (json!({"aud": {"a": 1}}), "`aud`"),
        (json!({"jti": 7}), "`jti`"),
        (json!({"jti": ""}), "`jti`"),
        (json!({"exp": "1790000060"}), "`exp`"),
        (json!({"exp": 1_790_000_060.5}), "`exp`"),
        (json!({"exp": null}), "`exp`"),
        (json!({"exp": 0}), "`exp`"),
        (json!({"exp": -1}), "`exp`"),
        (json!({"exp": NOW}), "`exp`"),
        // Milliseconds.
        (json!({"exp": 1000 * (NOW + 60)}), "`exp`"),
        (json!({"nbf": 1000 * NOW}), "`nbf`"),
        (json!({"nbf": true}), "`nbf`"),
        (json!({"nbf": NOW + 60}), "`nbf`"),
        (json!({"iat": [NOW]}), "`iat`"),
        (json!({"iat": NOW + LEEWAY_MAX_S + 1}), "`iat`"),
        (json!({"n": 9_007_199_254_740_992_u64}), "number beyond"),
        (json!({"n": -9_007_199_254_740_992_i64}), "number beyond"),
        (json!({"n": [u64::MAX]}), "number beyond"),
        (json!({"n": {"a": 1e300}}), "number beyond"),
        (deep, "within each other"),
    ] {
        let refused = with(bad.clone()).claims(NOW).unwrap_err();
        assert!(
            matches!(&refused, Error::Parameter(why) if why.contains(says)),
            "{bad}: {refused}"
        );
    }
    let refused = new(json!({"sub": "a"})).claims(NOW).unwrap_err().to_string();
    assert!(refused.contains("missing claim `exp`"), "{refused}");
    let long = with(json!({"long": "x".repeat(CLAIMS_MAX)})).claims(NOW);
    assert!(matches!(long, Err(Error::TooLarge { .. })));
}

#[test]
fn service_sets_time_and_id_claims() {
    let asked =
        NewJwt { lifetime_s: Some(60), with_nbf: true, with_jti: true, ..new(json!({"sub": "a"})) };
    let claims = payload(&asked);
    assert_eq!(
        (&claims["iat"], &claims["nbf"], &claims["exp"]),
        (&json!(NOW), &json!(NOW), &json!(NOW + 60))
    );
    assert_eq!(claims["sub"], "a");
    let jti = claims["jti"].as_str().unwrap().to_owned();
    assert_eq!(of_base64url(&jti).unwrap().len(), JTI_LEN);
    assert_ne!(payload(&asked)["jti"], claims["jti"]);
    for name in ["iat", "exp", "nbf", "jti"] {
        let mut twice = asked.clone();
        twice.claims.insert(name.to_owned(), json!(NOW));
        let refused = twice.claims(NOW).unwrap_err().to_string();
        assert!(refused.contains(&format!("claim `{name}` is set by")), "{refused}");
    }
    for lifetime_s in [0, u64::MAX] {
        let never = NewJwt { lifetime_s: Some(lifetime_s), ..new(json!({})) };
        assert!(matches!(never.claims(NOW), Err(Error::Parameter(_))), "{lifetime_s}");
    }
    for (typ, is_good) in [
        ("JWT", true),
        ("at+jwt", true),
        ("secevent+jwt", true),
        ("", false),
        ("application/at+jwt", false),
        ("a b", false),
        ("a\"", false),
        ("\u{e4}", false),
        (&"a".repeat(TYP_MAX + 1), false),
    ] {
        let of = NewJwt { typ: Some(typ.to_owned()), ..with(json!({})) };
        assert_eq!(of.claims(NOW).is_ok(), is_good, "{typ}");
    }
}

#[test]
fn long_tokens_have_a_warning() {
    let limit = |len| size_warning(len).map(|said| said.contains("8 KiB"));
    assert_eq!(
        [0, 4096, 4097, 8192, 8193].map(limit),
        [None, None, Some(false), Some(false), Some(true)]
    );
}

const KID: &str = "default/transit/ed25519/0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c#v1";

/// A token with a header, valid claims and an invalid signature.
fn text(header: &Value) -> String {
    let claims = json!({"exp": NOW + 60, "iss": "i", "aud": ["a", "b"]});
    let parts = [header.to_string(), claims.to_string(), "signature".to_owned()];
    parts.map(|part| base64url(part.as_bytes())).join(".")
}

#[test]
fn jwt_parses_to_its_signed_parts() {
    let claims = with(json!({"sub": "a"})).claims(NOW).unwrap();
    let input = claims.signing_input("EdDSA", &KID.parse().unwrap()).unwrap();
    let token = compact(&input, &[1; 64]);
    let parsed = Jwt::parse(&token).unwrap();
    assert_eq!((parsed.text(), parsed.signing_input()), (&*token, &*input));
    assert_eq!(parsed.payload(), claims.payload().as_bytes());
    assert_eq!(parsed.signature(), [1; 64]);
    assert_eq!(parsed.check_header("EdDSA").unwrap().to_string(), KID);
    let header = of_base64url(token.split('.').next().unwrap()).unwrap();
    let wanted = format!(r#"{{"alg":"EdDSA","kid":"{KID}","typ":"JWT"}}"#);
    assert_eq!(String::from_utf8(header).unwrap(), wanted);
}

/// RFC 7515, A.1: a token of another implementation.
#[test]
fn the_token_of_rfc_7515_is_read() {
    let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
    let parsed = Jwt::parse(token).unwrap();
    assert_eq!(parsed.signature().len(), 32);
    // No key has this algorithm, and the token names no key.
    assert_eq!(parsed.check_header("EdDSA"), Err(Reason::Alg));
    assert_eq!(parsed.check_header("HS256"), Err(Reason::Kid));
    let expected = ExpectedClaims::default();
    let claims = parsed.check_claims(&expected, 1_300_819_379).unwrap();
    assert_eq!(
        (&claims["iss"], &claims["http://example.com/is_root"]),
        (&json!("joe"), &json!(true))
    );
    assert_eq!(parsed.check_claims(&expected, 1_300_819_380), Err(Reason::Expired));
}

#[test]
fn headers_that_the_service_does_not_make_are_refused() {
    let good = json!({"alg": "EdDSA", "kid": KID, "typ": "JWT"});
    let check = |header: &Value| Jwt::parse(&text(header)).unwrap().check_header("EdDSA").err();
    assert_eq!(check(&good), None);
    let key = json!({"kty": "OKP", "crv": "Ed25519", "x": "AAAA"});
    for (name, value, reason) in [
        ("alg", json!("none"), Reason::Alg),
        ("alg", json!("None"), Reason::Alg),
        ("alg", json!("HS256"), Reason::Alg),
        ("alg", json!("ES256"), Reason::Alg),
        ("alg", json!("eddsa"), Reason::Alg),
        ("alg", json!(["EdDSA"]), Reason::Alg),
        ("alg", Value::Null, Reason::Alg),
        ("kid", json!("k"), Reason::Kid),
        ("kid", json!(""), Reason::Kid),
        ("kid", json!(format!("{KID} ")), Reason::Kid),
        ("kid", json!(KID.replace("#v1", "")), Reason::Kid),
        ("kid", json!(KID.replace("#v1", "#v01")), Reason::Kid),
        ("kid", json!("../../../dev/null"), Reason::Kid),
        ("kid", json!(1), Reason::Kid),
        ("crit", json!(["exp"]), Reason::Header),
        ("b64", json!(false), Reason::Header),
        ("jwk", key, Reason::Header),
        ("jku", json!("https://example.com/"), Reason::Header),
        ("x5u", json!("https://example.com/"), Reason::Header),
        ("x5c", json!(["AAAA"]), Reason::Header),
        ("x5t#S256", json!("AAAA"), Reason::Header),
        ("cty", json!("JWT"), Reason::Header),
        ("enc", json!("A256GCM"), Reason::Header),
        ("zip", json!("DEF"), Reason::Header),
    ] {
        let mut header = good.clone();
        header[name] = value;
        assert_eq!(check(&header), Some(reason), "{header}");
    }
}

#[test]
fn jwt_claims_are_checked() {
    let at = |typ: &str, expected: &ExpectedClaims, now_s: u64| {
        let token = text(&json!({"alg": "EdDSA", "kid": KID, "typ": typ}));
        Jwt::parse(&token).unwrap().check_claims(expected, now_s).err()
    };
    let audience = |audience: &str| ExpectedClaims {
        audience: Some(audience.to_owned()),
        ..ExpectedClaims::default()
    };
    let good = audience("b");
    assert_eq!(at("JWT", &good, NOW), None);
    assert_eq!(at("JWT", &audience("a"), NOW), None);
    assert_eq!(at("JWT", &audience("c"), NOW), Some(Reason::Audience));
    assert_eq!(at("JWT", &ExpectedClaims::default(), NOW), Some(Reason::Audience));
    let issuer = |issuer: &str| ExpectedClaims { issuer: Some(issuer.to_owned()), ..good.clone() };
    assert_eq!(at("JWT", &issuer("i"), NOW), None);
    assert_eq!(at("JWT", &issuer("j"), NOW), Some(Reason::Issuer));
    for typ in ["jwt", "application/jwt"] {
        assert_eq!(at(typ, &good, NOW), None, "{typ}");
    }
    assert_eq!(at("at+jwt", &good, NOW), Some(Reason::Typ));
    let access = ExpectedClaims { typ: Some("at+jwt".to_owned()), ..good.clone() };
    assert_eq!(at("at+jwt", &access, NOW), None);
    assert_eq!(at("JWT", &access, NOW), Some(Reason::Typ));
    assert_eq!(at("JWT", &good, NOW + 59), None);
    assert_eq!(at("JWT", &good, NOW + 60), Some(Reason::Expired));
    let late = ExpectedClaims { leeway_s: 10, ..good };
    assert_eq!(at("JWT", &late, NOW + 69), None);
    assert_eq!(at("JWT", &late, NOW + 70), Some(Reason::Expired));
    assert!(ExpectedClaims { leeway_s: LEEWAY_MAX_S, ..ExpectedClaims::default() }.check().is_ok());
    assert!(
        ExpectedClaims { leeway_s: LEEWAY_MAX_S + 1, ..ExpectedClaims::default() }.check().is_err()
    );
}

#[test]
fn a_token_that_begins_later_is_not_valid_yet() {
    let of = |payload: &str| {
        let header = json!({"alg": "EdDSA", "kid": KID, "typ": "JWT"}).to_string();
        [header.as_bytes(), payload.as_bytes(), b"s"].map(base64url).join(".")
    };
    let at = |payload: &str, leeway_s: u64, now_s: u64| {
        let expected = ExpectedClaims { leeway_s, ..ExpectedClaims::default() };
        Jwt::parse(&of(payload)).unwrap().check_claims(&expected, now_s).err()
    };
    let later = format!(r#"{{"exp":{},"nbf":{NOW}}}"#, NOW + 60);
    assert_eq!(at(&later, 0, NOW), None);
    assert_eq!(at(&later, 0, NOW - 1), Some(Reason::NotYetValid));
    assert_eq!(at(&later, 1, NOW - 1), None);
    for malformed in [
        "",
        "null",
        "[]",
        "{}",
        r#"{"exp":1.5}"#,
        r#"{"exp":1790000060,"exp":1790000060}"#,
        r#"{"exp":1790000060,"sub":1}"#,
        r#"{"exp":1790000060,"a":{"b":1,"b":1}}"#,
        r#"{"exp":1790000060} "x""#,
        "{\"exp\":1790000060,\"a\":\"\u{0}\"}",
    ] {
        assert_eq!(at(malformed, 0, NOW), Some(Reason::Claims), "{malformed}");
    }
    let long = format!(r#"{{"exp":1790000060,"a":"{}"}}"#, "x".repeat(CLAIMS_MAX));
    assert_eq!(at(&long, 0, NOW), Some(Reason::Claims));
}

#[test]
fn texts_that_are_no_tokens_are_malformed() {
    let good = text(&json!({"alg": "EdDSA"}));
    assert!(Jwt::parse(&good).is_ok());
    let parts: Vec<&str> = good.split('.').collect();
    let header = |json: &str| format!("{}.{}.{}", base64url(json.as_bytes()), parts[1], parts[2]);
    for bad in [
        String::new(),
        ".".to_owned(),
        format!("{}.{}", parts[0], parts[1]),
        format!("{good}."),
        format!("{good}.{}.{}", parts[0], parts[0]),
        format!("{good}="),
        format!(" {good}"),
        format!("{good}\n"),
        good.replace('.', "\u{2e31}"),
        good.replacen('e', "+", 1),
        // Two texts of the same bytes: the last digit has unused bits.
        format!("{}.{}.AB", parts[0], parts[1]),
        header("x"),
        header("[]"),
        header("null"),
        header("{}x"),
        header(r#"{"alg":"EdDSA","alg":"none"}"#),
        header(r#"{"jwk":{"a":1,"a":2}}"#),
        header(&format!("{}{}", "[".repeat(2000), "]".repeat(2000))),
        base64url(b"{\"payload\":\"\",\"signatures\":[]}"),
    ] {
        let refused = Jwt::parse(&bad).map(drop).unwrap_err();
        assert!(matches!(refused, Error::MalformedToken(_)), "{bad}: {refused}");
    }
    assert!(matches!(Jwt::parse(&"a".repeat(TOKEN_MAX + 1)), Err(Error::TooLarge { .. })));
}

/// Pseudorandom numbers from a seed (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as usize % most
    }
}

/// Every modified token is either rejected or parsed to exactly its text: encoding its parts again
/// gives the same text.
#[test]
fn a_changed_token_is_refused_or_is_another_text() {
    let good = text(&json!({"alg": "EdDSA", "kid": KID, "typ": "JWT"}));
    let mut dice = Dice(1);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut bytes = good.clone().into_bytes();
        for _ in 0..=dice.below(3) {
            let at = dice.below(bytes.len().max(1));
            bytes.resize(bytes.len().max(1), b'A');
            let alphabet = b"ABCxyz019-_+/=. \x00\xc3{}\"";
            let byte = alphabet[dice.below(alphabet.len())];
            match dice.below(4) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, byte),
                2 => bytes.truncate(at.max(1)),
                _ => bytes[at] = byte,
            }
        }
        let changed = String::from_utf8_lossy(&bytes).into_owned();
        match Jwt::parse(&changed) {
            Err(Error::MalformedToken(_)) => refused += 1,
            Err(other) => panic!("{changed}: {other}"),
            Ok(token) => {
                read += 1;
                let again = format!(
                    "{}.{}.{}",
                    changed.split('.').next().unwrap(),
                    base64url(token.payload()),
                    base64url(token.signature())
                );
                assert_eq!(again, changed);
                let _ = token.check_header("EdDSA");
                let _ = token.check_claims(&ExpectedClaims::default(), NOW);
            }
        }
    }
    assert!(read > 500 && refused > 500, "{read} {refused}");
}
