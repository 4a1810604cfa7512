//! JSON Web Tokens.

use serde_json::{Map, Value};

wire! {
    [deny_unknown_fields]
    /// A JSON Web Token to sign (RFC 7519). It needs an end: the claim `exp`, or `lifetime_s`.
    SignJwt {
        /// The key, by name or id.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The version that signs; the newest one if none is named.
        version: Option<u32>,
        /// The claims. The form of `iss`, `sub`, `aud`, `exp`, `nbf`, `iat` and `jti` is checked.
        claims: Map<String, Value>,
        /// The type of the token in its header, such as at+jwt; JWT if nothing is said.
        typ: Option<String>,
        /// How long the token lives, in seconds; it sets `iat` and `exp`.
        lifetime_s: Option<u64>,
        /// Whether to set `nbf` to the current time.
        with_nbf: Option<bool>,
        /// Whether to set `jti` to a random value.
        with_jti: Option<bool>,
    }

    []
    /// A signed JSON Web Token.
    SignedJwt {
        /// The token, in the compact serialization.
        token: String,
        /// The id of the version that signed it, which its header has.
        kid: String,
        /// The version.
        version: u32,
        /// The algorithm, which its header has.
        alg: String,
        /// When it ends, in seconds since 1970.
        exp: u64,
        /// What may go wrong with it: a token of more than 4 or 8 KiB.
        warnings: Option<Vec<String>>,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A JSON Web Token to verify by a key.
    VerifyJwt {
        /// The key, by name or id. The token has to be one of its versions, which it names.
        key: String,
        /// Whose key it is, where it is given by name.
        tenant: Option<String>,
        /// The token.
        token: String,
        /// The issuer that it has to have; any if nothing is said.
        issuer: Option<String>,
        /// The audience that it has to name. A token that names audiences is not valid without it.
        audience: Option<String>,
        /// The type that it has to have; JWT if nothing is said.
        typ: Option<String>,
        /// How far the issuer's clock may be from the service's, in seconds, at most 60; 0 if nothing is said.
        leeway_s: Option<u64>,
    }

    []
    /// Whether a JSON Web Token is valid.
    VerifiedJwt {
        /// Whether it is.
        valid: bool,
        /// Why not: header, alg, kid, version, signature, claims, typ, expired, not_yet_valid, issuer or audience.
        reason: Option<String>,
        /// The version that the token names, if it is one of the key's.
        by: Option<String>,
        /// Its claims, if it is valid.
        claims: Option<Map<String, Value>>,
        /// The revision of the store.
        revision: u64,
    }
}
