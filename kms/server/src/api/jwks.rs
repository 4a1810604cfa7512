//! Public keys as a JWK set (RFC 7517), for clients that verify without the service.

use gabion_engine::Algorithm;
use gabion_kms::model::{JoseNames, KeyAlgorithm, Label};
use gabion_kms::rsa;
use gabion_kms::service::{VERIFYING_KEYS_MAX, VerifyingKey, VerifyingKeys};
use gabion_kms_wire::encode_url;
use serde_json::{Value, json};

use super::{Call, JWKS, Reply};
use crate::parse::json;
use crate::problem::Problem;

/// The query parameters of a set.
pub const QUERY: &[(&str, &str)] = &[
    ("kty", "Only keys of these types, separated by commas: EC, OKP, RSA, AKP."),
    ("alg", "Only keys of these algorithms, separated by commas, such as ES256,EdDSA."),
    ("key", "Only the versions of this key, by name."),
    ("key_prefix", "Only keys with this name prefix."),
    ("limit", "The maximum number of keys in the answer, up to 1000; all keys by default."),
    ("after", "The key after which to begin: `next` of the previous page, NAME:VERSION."),
];

pub fn jwks(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let tenant = Label::new("tenant", call.part(0))?;
    let [kty, alg, key, prefix, limit, after] = QUERY else {
        return Err(Problem::internal("the parameters of a set have changed"));
    };
    let kty = listed("kty", call.query.text(kty.0), |of| of.kty)?;
    let alg = listed("alg", call.query.text(alg.0), |of| of.alg)?;
    let name = call.query.text(key.0).map(|name| Label::new("key", name)).transpose()?;
    let prefix = match (call.query.text(prefix.0), &name) {
        (Some(_), Some(_)) => {
            return Err(Problem::bad("expected one of `key` and `key_prefix`, and not both"));
        }
        (prefix, _) => prefix.unwrap_or_default(),
    };
    let most = call.query.number(limit.0, VERIFYING_KEYS_MAX as u32)?.map(|most| most as usize);
    if most == Some(0) {
        return Err(Problem::bad("`limit` is at least 1"));
    }
    let after = call.query.text(after.0).map(cursor).transpose()?;
    let has =
        |list: &Option<Vec<&str>>, name| list.as_ref().is_none_or(|list| list.contains(&name));
    let is_wanted = |algorithm: KeyAlgorithm| {
        algorithm.jose().is_some_and(|of| has(&kty, of.kty) && has(&alg, of.alg))
    };
    let wanted = VerifyingKeys {
        tenant: &tenant,
        prefix,
        name: name.as_ref(),
        is_wanted: &is_wanted,
        after: after.as_ref().map(|(name, version)| (name, *version)),
        most,
    };
    let (keys, are_more) = service.verifying_keys(&caller, &wanted).map_err(too_many)?;
    let mut set = json!({"keys": keys.iter().filter_map(jwk).collect::<Vec<_>>()});
    if let (Some(last), true) = (keys.last(), are_more) {
        set["next"] = json!(format!("{}:{}", last.name, last.by.version));
    }
    Ok(Reply { status: 200, kind: JWKS, body: json::write(&set)? })
}

/// Parses a list of `kty` or `alg` values. Rejects values that no key can have, because the set
/// would always be empty.
fn listed<'a>(
    field: &str,
    said: Option<&'a str>,
    of: impl Fn(JoseNames) -> &'static str,
) -> Result<Option<Vec<&'a str>>, Problem> {
    let Some(said) = said else { return Ok(None) };
    let mut known: Vec<&str> = KeyAlgorithm::all().filter_map(KeyAlgorithm::jose).map(of).collect();
    known.sort_unstable();
    known.dedup();
    let list: Vec<&str> = said.split(',').collect();
    match list.iter().all(|name| known.contains(name)) {
        true => Ok(Some(list)),
        false => {
            Err(Problem::bad(format!("unknown `{field}`; expected some of {}", known.join(", "))))
        }
    }
}

/// Parses the name and the version after which a page begins.
fn cursor(text: &str) -> Result<(Label, u32), Problem> {
    let parts = text.rsplit_once(':');
    let (name, version) =
        parts.and_then(|(name, version)| Some((name, version.parse().ok()?))).ok_or_else(|| {
            Problem::bad("`after` is not NAME:VERSION; expected `next` of the page before")
        })?;
    Ok((Label::new("key", name)?, version))
}

fn too_many(error: gabion_kms::Error) -> Problem {
    let is_long = matches!(error, gabion_kms::Error::TooLarge { .. });
    let problem = Problem::from(error);
    match is_long {
        true => problem.hint(
            "ask for a page with `limit`, or for fewer keys with `kty`, `alg` or `key_prefix`",
        ),
        false => problem,
    }
}

/// Returns a key as a JWK; `None` if JOSE has no name for its algorithm.
fn jwk(of: &VerifyingKey) -> Option<Value> {
    let JoseNames { kty, alg } = of.by.key.algorithm.jose()?;
    let point = |curve: &str| {
        // SEC 1, 2.3.3, uncompressed: 4, x, y.
        let (_, both) = of.bytes.split_first().filter(|(form, _)| **form == 4)?;
        let (x, y) = both.split_at(both.len() / 2);
        Some(json!({"crv": curve, "x": encode_url(x), "y": encode_url(y)}))
    };
    let mut jwk = match of.by.key.algorithm.algorithm() {
        Some(Algorithm::Ed25519) => json!({"crv": "Ed25519", "x": encode_url(&of.bytes)}),
        Some(Algorithm::EcdsaP256) => point("P-256")?,
        Some(Algorithm::EcdsaP384) => point("P-384")?,
        Some(Algorithm::EcdsaP521) => point("P-521")?,
        Some(_) => json!({"pub": encode_url(&of.bytes)}),
        None => {
            let (n, e) = rsa::PublicKey::of_pkcs1(&of.bytes).ok()?.modulus_and_exponent();
            json!({"n": encode_url(&n), "e": encode_url(&e)})
        }
    };
    jwk["kty"] = json!(kty);
    jwk["alg"] = json!(alg);
    jwk["use"] = json!("sig");
    jwk["kid"] = json!(of.by.to_string());
    Some(jwk)
}
