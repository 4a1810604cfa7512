//! Public keys as a set of JWKs (RFC 7517), for whoever verifies without the service.

use base64ct::{Base64UrlUnpadded, Encoding};
use gabion_engine::Algorithm;
use gabion_kms::model::Label;
use gabion_kms::service::VerifyingKey;
use serde_json::{Value, json};

use super::{Call, JWKS, Reply};
use crate::json;
use crate::problem::Problem;

pub fn jwks(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let tenant = Label::new("tenant", call.part(0))?;
    let keys = service.verifying_keys(&caller, &tenant)?;
    let keys: Vec<Value> = keys.iter().filter_map(jwk).collect();
    Ok(Reply { status: 200, kind: JWKS, body: json::write(&json!({"keys": keys}))? })
}

/// A key as a JWK; none of an algorithm that JOSE has no name for.
fn jwk(of: &VerifyingKey) -> Option<Value> {
    let text = Base64UrlUnpadded::encode_string;
    let point = |curve: &str, alg: &str| {
        // SEC 1, 2.3.3, uncompressed: 4, x, y.
        let (_, both) = of.bytes.split_first().filter(|(form, _)| **form == 4)?;
        let (x, y) = both.split_at(both.len() / 2);
        Some(json!({"kty": "EC", "crv": curve, "alg": alg, "x": text(x), "y": text(y)}))
    };
    let mut jwk = match of.by.key.algorithm.algorithm()? {
        // RFC 9864 would say `Ed25519`; RFC 8037's word is what libraries know.
        Algorithm::Ed25519 => {
            json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": text(&of.bytes)})
        }
        Algorithm::EcdsaP256 => point("P-256", "ES256")?,
        Algorithm::EcdsaP384 => point("P-384", "ES384")?,
        Algorithm::EcdsaP521 => point("P-521", "ES512")?,
        // RFC 9964 has the three of ML-DSA, draft-ietf-cose-sphincs-plus-09 three of SLH-DSA.
        algorithm => match algorithm.name() {
            name @ ("ML-DSA-44" | "ML-DSA-65" | "ML-DSA-87" | "SLH-DSA-SHA2-128s"
            | "SLH-DSA-SHAKE-128s" | "SLH-DSA-SHA2-128f") => {
                json!({"kty": "AKP", "alg": name, "pub": text(&of.bytes)})
            }
            _ => return None,
        },
    };
    jwk["use"] = json!("sig");
    jwk["kid"] = json!(of.by.to_string());
    Some(jwk)
}
