//! Texts that the key management service parses before authentication: tokens, caveats, checkpoints
//! and their keys, shares and wrapped ones; and JSON Web Tokens and their claims.
//!
//! The first byte selects the kind.

use std::sync::OnceLock;

use gabion_kms::audit::{Checkpoint, Keys, Log, Outcome, Record};
use gabion_kms::gate::{Action, Caveat, Principal, Token};
use gabion_kms::json::Unique;
use gabion_kms::jwt::{Jwt, NewJwt};
use gabion_kms::seal::{Share, WrappedShare};
use serde_json::Value;
use sha2::{Digest, Sha256};

/// A token, in base64url.
const TOKEN: &str = include_str!("../../../kms/core/tests/golden/token.txt");

/// Caveats of every kind.
const CAVEATS: [&str; 7] = [
    "expires=1790000000000",
    "tenant=default",
    "key_prefix=web-",
    "actions=sign,verify",
    "cidr=2001:db8::/32",
    "cnf=abababababababababababababababababababababababababababababababab",
    "batch_max=64",
];

/// A log of one record with its signed checkpoint and that one's keys.
struct SignedLog {
    vkeys: [String; 2],
    checkpoint: Checkpoint,
}

fn signed() -> &'static SignedLog {
    static SIGNED: OnceLock<SignedLog> = OnceLock::new();
    SIGNED.get_or_init(|| {
        let log = Log::in_memory(Keys::of_seed("example.com/fuzz", &[7; 64]).unwrap()).unwrap();
        let record = Record {
            time_ms: 1,
            request_id: "r".to_owned(),
            trace: None,
            principal: Principal::new("ci").unwrap(),
            method: "local".to_owned(),
            action: Action::Sign,
            tenant: None,
            key: None,
            input: None,
            output: None,
            change: None,
            outcome: Outcome::Done,
            count: None,
            revision: None,
        };
        log.append(&[record], gabion_kms::audit::Class::Written).unwrap();
        SignedLog { vkeys: log.vkeys(), checkpoint: log.checkpoint().unwrap() }
    })
}

pub fn run(data: &[u8]) {
    let Some((which, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match which % 6 {
        0 => token(text),
        1 => caveat(text),
        2 => note(text),
        3 => keys(text),
        4 => shares(text),
        _ => jwt(text),
    }
}

/// A token is written in one way, and can be narrowed to another one that is longer.
fn token(text: &str) {
    let Ok(token) = text.parse::<Token>() else { return };
    assert_eq!(token.to_string(), text);
    if let Ok(less) = token.attenuate("batch_max=1".parse().unwrap()) {
        let again: Token = less.to_string().parse().unwrap();
        assert_eq!(again.caveats().len(), token.caveats().len() + 1);
        assert_eq!(again.id(), token.id());
    }
}

fn caveat(text: &str) {
    let Ok(caveat) = text.parse::<Caveat>() else { return };
    assert_eq!(caveat.to_string().parse::<Caveat>().unwrap(), caveat);
}

/// Without the private keys, an accepted checkpoint can only be the signed one.
fn note(text: &str) {
    let SignedLog { vkeys, checkpoint } = signed();
    if let Some(read) = Checkpoint::read(vkeys, text).unwrap() {
        assert_eq!((read.size, read.root), (checkpoint.size, checkpoint.root));
    }
}

/// Parsed keys verify only their own checkpoints; all other text is refused.
fn keys(text: &str) {
    let SignedLog { vkeys, checkpoint } = signed();
    let given: Vec<&str> = text.lines().collect();
    if let Ok(Some(_)) = Checkpoint::read(&given, &checkpoint.note) {
        assert!(given.iter().all(|key| vkeys.iter().any(|known| known == key)), "{given:?}");
    }
}

/// A share is written in one way, is no wrapped one, and shows nothing of itself.
fn shares(text: &str) {
    if let Ok(share) = text.parse::<Share>() {
        assert_eq!(share.to_string(), text.trim());
        assert!(text.parse::<WrappedShare>().is_err());
        assert!(format!("{share:?}").len() < 60);
    }
    if let Ok(wrapped) = text.parse::<WrappedShare>() {
        assert_eq!(wrapped.to_string(), text.trim());
        assert!(wrapped.index() > 0 && wrapped.threshold() > 0);
    }
}

/// A JSON Web Token is read as it is written; claims that are signed are those that were given, and have an end.
fn jwt(text: &str) {
    if let Ok(jwt) = Jwt::parse(text) {
        assert_eq!(jwt.text(), text);
        assert_eq!(text.split('.').count(), 3);
        assert!(jwt.payload().len() <= text.len());
    }
    let Ok(Unique(Value::Object(claims))) = serde_json::from_str(text) else { return };
    let new = NewJwt { claims, ..NewJwt::default() };
    if let Ok(claims) = new.claims(NOW_S) {
        let Unique(signed) = serde_json::from_str(claims.payload()).unwrap();
        assert!(signed.as_object().unwrap().keys().eq(new.claims.keys()));
        assert_eq!(signed["exp"], claims.exp_s());
        assert!(claims.exp_s() > NOW_S);
    }
}

/// Seconds since 1970.
const NOW_S: u64 = 1_790_000_000;

/// A JSON Web Token (RFC 7515, A.1), and claims.
const JWT: &str = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CLAIMS: &str = r#"{"iss":"https://a","sub":"b","aud":["c"],"exp":1790000060,"nbf":1,"iat":1,"jti":"d","e":[{"f":-1.5}]}"#;

/// A share as its text is put together.
fn share_of(head: &str, body: &str) -> String {
    let text = format!("{head}-c3c3c3c3c3c3c3c3-2-1-{body}");
    let sum =
        Sha256::digest(&text)[..4].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("{text}-{sum}")
}

pub fn seeds() -> Vec<Vec<u8>> {
    let SignedLog { vkeys, checkpoint } = signed();
    let of = |which: u8, text: &str| [&[which], text.as_bytes()].concat();
    let mut seeds = vec![of(0, TOKEN.trim_end()), of(2, &checkpoint.note)];
    seeds.extend(CAVEATS.iter().map(|caveat| of(1, caveat)));
    // 1168 bytes: enc, share and tag.
    let wrapped = share_of("gbw1", &format!("{}-w", "-_A4".repeat(1168 / 3)));
    assert!(wrapped.parse::<WrappedShare>().is_ok());
    seeds.extend([of(4, &share_of("gbs1", &"5a".repeat(32))), of(4, &wrapped)]);
    seeds.extend([of(5, JWT), of(5, CLAIMS)]);
    seeds.extend([of(3, &vkeys.join("\n")), of(3, &vkeys[0]), of(3, &vkeys[1])]);
    seeds
}
