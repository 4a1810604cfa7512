//! JSON Web Tokens.

use serde_json::{Map, Value};

wire! {
    [deny_unknown_fields]
    /// A JSON Web Token to sign (RFC 7519). It needs an expiry time: the claim `exp`, or
    /// `lifetime_s`.
    SignJwt {
        /// The key, by name or id.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The version that signs; the newest one by default.
        version: Option<u32>,
        /// The claims. The form of `iss`, `sub`, `aud`, `exp`, `nbf`, `iat` and `jti` is checked.
        claims: Map<String, Value>,
        /// The type of the token in its header, such as at+jwt; JWT by default.
        typ: Option<String>,
        /// The lifetime of the token in seconds; it sets `iat` and `exp`.
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
        /// The id of the version that signed the token, as in its header.
        kid: String,
        /// The version.
        version: u32,
        /// The algorithm, as in its header.
        alg: String,
        /// When the token expires, in seconds since 1970.
        exp: u64,
        /// Warnings, for example about a token of more than 4 or 8 KiB.
        warnings: Option<Vec<String>>,
        /// The revision of the store.
        revision: u64,
    }

    [deny_unknown_fields]
    /// A JSON Web Token to verify with a key.
    VerifyJwt {
        /// The key, by name or id. The token has to name one of its versions.
        key: String,
        /// The key's tenant, if the key is given by name.
        tenant: Option<String>,
        /// The token.
        token: String,
        /// The required issuer; any by default.
        issuer: Option<String>,
        /// The required audience. A token with an audience is invalid without it.
        audience: Option<String>,
        /// The required type; JWT by default.
        typ: Option<String>,
        /// The allowed clock difference from the issuer in seconds, at most 60; 0 by default.
        leeway_s: Option<u64>,
    }

    []
    /// The result of verifying a JSON Web Token.
    VerifiedJwt {
        /// Whether the token is valid.
        valid: bool,
        /// The reason if it is invalid: header, alg, kid, version, signature, claims, typ, expired,
        /// not_yet_valid, issuer or audience.
        reason: Option<String>,
        /// The version that the token names, if it belongs to the key.
        by: Option<String>,
        /// The claims of a valid token.
        claims: Option<Map<String, Value>>,
        /// The revision of the store.
        revision: u64,
    }
}
