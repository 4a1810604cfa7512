//! JSON Web Tokens (RFC 7519): the form of their claims, and their compact serialization (RFC 7515,
//! section 7.1).
//!
//! ```text
//!   NewJwt --claims--> Claims, whose form was checked --operations--> header with alg, kid and typ --> signed token
//!   text --Jwt::parse--> alg and kid match the key? --operations--> signature? --> claims as expected? --> VerifiedJwt
//! ```
//!
//! - The key determines the algorithm of signing and verifying, never the token (RFC 8725, section
//!   3.1).
//! - The service makes the header. The caller chooses only `typ`.
//! - A payload is parsed only after its signature was verified.

use gabion_engine::{Entropy, Error as EngineError, OsEntropy};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::json::Unique;
use crate::model::VersionId;
use crate::text::{base64url, of_base64url};

/// The maximum length of the claims in JSON, in bytes.
pub const CLAIMS_MAX: usize = 16 << 10;

/// The maximum length of a token that is verified, in bytes: that of the longest claims with a
/// header and an ML-DSA-87 signature.
pub const TOKEN_MAX: usize = 32 << 10;

/// The maximum depth of arrays and objects within a claim.
pub const DEPTH_MAX: usize = 6;

/// The maximum leeway for clocks, in seconds.
pub const LEEWAY_MAX_S: u64 = 60;

/// The `typ` of a token if the request names none.
const TYP: &str = "JWT";

/// The maximum length of `typ`.
const TYP_MAX: usize = 64;

/// The last second of the year 9999. A time in milliseconds is later.
const TIME_MAX_S: u64 = 253_402_300_799;

/// The largest integer that all JSON implementations represent exactly (RFC 7493, section 2.2).
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// The size of a random `jti` in bytes.
const JTI_LEN: usize = 16;

/// A token to sign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewJwt {
    /// The claims.
    pub claims: Map<String, Value>,
    /// The type, by which verifiers distinguish kinds of tokens (RFC 8725, section 3.11). `None`:
    /// `JWT`.
    pub typ: Option<String>,
    /// The lifetime in seconds. It sets `iat` and `exp`.
    pub lifetime_s: Option<u64>,
    /// Whether to set `nbf` to the current time.
    pub with_nbf: bool,
    /// Whether to set `jti` to a random value.
    pub with_jti: bool,
}

/// Claims to sign, whose form was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    payload: String,
    typ: String,
    exp_s: u64,
}

/// The times in a token, in seconds since 1970.
struct Times {
    exp_s: u64,
    nbf_s: Option<u64>,
    iat_s: Option<u64>,
}

impl NewJwt {
    /// Completes the claims and checks their form, at a time in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a claim that RFC 7519 does not allow, a token without `exp`, and
    /// one that has expired already; [`Error::TooLarge`]; no randomness.
    pub fn claims(&self, now_s: u64) -> Result<Claims, Error> {
        let typ = self.typ.as_deref().unwrap_or(TYP);
        check_typ(typ)?;
        let claims = self.completed(now_s)?;
        let times = check_form(&claims)?;
        if times.exp_s <= now_s {
            return Err(refuse("exp", "a time that has not come yet"));
        }
        if times.nbf_s.is_some_and(|nbf_s| nbf_s >= times.exp_s) {
            return Err(refuse("nbf", "a time before `exp`"));
        }
        if times.iat_s.is_some_and(|iat_s| iat_s > now_s + LEEWAY_MAX_S) {
            return Err(refuse("iat", "a time that has come"));
        }
        let payload = Value::from(claims).to_string();
        let got = payload.len();
        if got > CLAIMS_MAX {
            return Err(Error::TooLarge { what: "bytes of claims", most: CLAIMS_MAX, got });
        }
        Ok(Claims { payload, typ: typ.to_owned(), exp_s: times.exp_s })
    }

    /// Returns the claims, including those that the service sets.
    fn completed(&self, now_s: u64) -> Result<Map<String, Value>, Error> {
        let mut claims = self.claims.clone();
        let mut set = |name: &str, value: Value, by: &str| match claims.contains_key(name) {
            true => Err(Error::Parameter(format!("claim `{name}` is set by `{by}`; leave it out"))),
            false => {
                claims.insert(name.to_owned(), value);
                Ok(())
            }
        };
        match self.lifetime_s {
            Some(0) => return Err(Error::Parameter("`lifetime_s` is at least 1".to_owned())),
            Some(lifetime_s) => {
                set("iat", now_s.into(), "lifetime_s")?;
                set("exp", now_s.saturating_add(lifetime_s).into(), "lifetime_s")?;
            }
            None => {}
        }
        if self.with_nbf {
            set("nbf", now_s.into(), "with_nbf")?;
        }
        if self.with_jti {
            let mut jti = [0; JTI_LEN];
            OsEntropy.fill(&mut jti).map_err(EngineError::from)?;
            set("jti", base64url(&jti).into(), "with_jti")?;
        }
        Ok(claims)
    }
}

impl Claims {
    /// Returns the claims in JSON, as the token contains them.
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// Returns when the token expires, in seconds since 1970.
    pub fn exp_s(&self) -> u64 {
        self.exp_s
    }

    /// Returns the JWS signing input (RFC 7515, section 5.1, step 5).
    pub(crate) fn signing_input(&self, alg: &str, kid: &VersionId) -> Result<String, Error> {
        #[derive(Serialize)]
        struct Header<'a> {
            alg: &'a str,
            kid: String,
            typ: &'a str,
        }
        let header = Header { alg, kid: kid.to_string(), typ: &self.typ };
        let header =
            serde_json::to_vec(&header).map_err(|error| Error::Parameter(error.to_string()))?;
        Ok(format!("{}.{}", base64url(&header), base64url(self.payload.as_bytes())))
    }
}

/// Returns the token of a signing input and its signature.
pub(crate) fn compact(signing_input: &str, signature: &[u8]) -> String {
    format!("{signing_input}.{}", base64url(signature))
}

/// Returns a warning about a token of `len` bytes, if other programs may reject it for its size.
pub fn size_warning(len: usize) -> Option<String> {
    let why = match len {
        0..=4096 => return None,
        4097..=8192 => {
            "more than 4 KiB: browsers do not store it in a cookie, and some proxies refuse such a header field"
        }
        _ => {
            "more than 8 KiB: nginx, Apache httpd and others refuse such a header field unless they are configured for it"
        }
    };
    Some(format!("the token has {len} bytes, {why}"))
}

/// A decoded token, of which nothing is verified yet.
#[derive(Clone, Debug)]
pub struct Jwt<'a> {
    text: &'a str,
    signing_input: &'a str,
    header: Map<String, Value>,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// The requirements for a token, in addition to a valid signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedClaims {
    /// The required issuer.
    pub issuer: Option<String>,
    /// The audience that the verifier belongs to. A token with an audience is invalid without it
    /// (RFC 7519, section 4.1.3).
    pub audience: Option<String>,
    /// The required type. `None`: `JWT`.
    pub typ: Option<String>,
    /// The allowed clock difference from the issuer, in seconds.
    pub leeway_s: u64,
}

/// The reason why a token is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The header has a parameter other than `alg`, `kid` and `typ`.
    Header,
    /// The token's algorithm is not the key's.
    Alg,
    /// The token names another key or no key.
    Kid,
    /// The version that the token names does not exist or may not verify.
    Version,
    /// The signature is wrong.
    Signature,
    /// The claims violate RFC 7519, or have no `exp`.
    Claims,
    /// The type is wrong.
    Typ,
    /// The token has expired.
    Expired,
    /// The token is not valid yet.
    NotYetValid,
    /// The issuer is wrong.
    Issuer,
    /// The token is for another audience.
    Audience,
}

impl Reason {
    /// Returns the reason's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Reason::Header => "header",
            Reason::Alg => "alg",
            Reason::Kid => "kid",
            Reason::Version => "version",
            Reason::Signature => "signature",
            Reason::Claims => "claims",
            Reason::Typ => "typ",
            Reason::Expired => "expired",
            Reason::NotYetValid => "not_yet_valid",
            Reason::Issuer => "issuer",
            Reason::Audience => "audience",
        }
    }
}

impl<'a> Jwt<'a> {
    /// Decodes a token in the compact serialization.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::MalformedToken`].
    pub fn parse(text: &'a str) -> Result<Self, Error> {
        let got = text.len();
        if got > TOKEN_MAX {
            return Err(Error::TooLarge { what: "bytes of a token", most: TOKEN_MAX, got });
        }
        let parts: Vec<&str> = text.split('.').collect();
        let [header, payload, signature] = parts[..] else {
            return Err(Error::MalformedToken("expected three parts, separated by `.`"));
        };
        let signing_input = &text[..header.len() + 1 + payload.len()];
        let bytes = |part| {
            of_base64url(part)
                .ok_or(Error::MalformedToken("a part is not base64url without padding"))
        };
        let (header, payload, signature) = (bytes(header)?, bytes(payload)?, bytes(signature)?);
        let header = object(&header).ok_or(Error::MalformedToken(
            "the header is not a JSON object whose fields are there once",
        ))?;
        Ok(Jwt { text, signing_input, header, payload, signature })
    }

    /// Returns the token's text.
    pub fn text(&self) -> &str {
        self.text
    }

    /// Returns the claims in JSON. They are not verified.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn signing_input(&self) -> &str {
        self.signing_input
    }

    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Checks that the header has only the parameters that the service sets, and the key's
    /// algorithm. Returns the version that it names. So `none`, `crit`, and embedded keys or key
    /// URLs (`jwk`, `jku`, `x5c`, `x5u`) are rejected.
    pub(crate) fn check_header(&self, alg: &str) -> Result<VersionId, Reason> {
        let is_known = |name: &String| ["alg", "kid", "typ"].contains(&name.as_str());
        if !self.header.keys().all(is_known) {
            return Err(Reason::Header);
        }
        if self.header.get("alg").and_then(Value::as_str) != Some(alg) {
            return Err(Reason::Alg);
        }
        let kid = self.header.get("kid").and_then(Value::as_str);
        kid.and_then(|kid| kid.parse().ok()).ok_or(Reason::Kid)
    }

    /// Checks the claims of a token whose signature was verified, at a time in seconds since 1970.
    pub(crate) fn check_claims(
        &self,
        expected: &ExpectedClaims,
        now_s: u64,
    ) -> Result<Map<String, Value>, Reason> {
        let typ = self.header.get("typ").and_then(Value::as_str);
        let wanted = expected.typ.as_deref().unwrap_or(TYP);
        if !typ.is_some_and(|typ| media_type(typ).eq_ignore_ascii_case(media_type(wanted))) {
            return Err(Reason::Typ);
        }
        if self.payload.len() > CLAIMS_MAX {
            return Err(Reason::Claims);
        }
        let claims = object(&self.payload).ok_or(Reason::Claims)?;
        let times = check_form(&claims).map_err(|_| Reason::Claims)?;
        if now_s >= times.exp_s.saturating_add(expected.leeway_s) {
            return Err(Reason::Expired);
        }
        if times.nbf_s.is_some_and(|nbf_s| now_s.saturating_add(expected.leeway_s) < nbf_s) {
            return Err(Reason::NotYetValid);
        }
        let is = |name: &str, wanted: &str| {
            claims.get(name).is_some_and(|value| match value {
                Value::Array(several) => several.iter().any(|one| one == wanted),
                one => one == wanted,
            })
        };
        if expected.issuer.as_deref().is_some_and(|issuer| !is("iss", issuer)) {
            return Err(Reason::Issuer);
        }
        match expected.audience.as_deref() {
            Some(audience) if !is("aud", audience) => Err(Reason::Audience),
            None if claims.contains_key("aud") => Err(Reason::Audience),
            _ => Ok(claims),
        }
    }
}

impl ExpectedClaims {
    /// Rejects a leeway that is too large.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check(&self) -> Result<(), Error> {
        match self.leeway_s > LEEWAY_MAX_S {
            true => Err(Error::Parameter(format!("`leeway_s` is at most {LEEWAY_MAX_S}"))),
            false => Ok(()),
        }
    }
}

/// Returns a media type without `application/`, which RFC 7515, section 4.1.9, allows to be
/// omitted.
fn media_type(typ: &str) -> &str {
    match typ.split_at_checked("application/".len()) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("application/") => rest,
        _ => typ,
    }
}

/// Parses a JSON object in which no field occurs twice, at any depth.
fn object(json: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(json).ok()? {
        Unique(Value::Object(fields)) => Some(fields),
        Unique(_) => None,
    }
}

/// Rejects a `typ` that is not a media type without `application/` (RFC 6838, section 4.2).
fn check_typ(typ: &str) -> Result<(), Error> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
    match (1..=TYP_MAX).contains(&typ.len()) && typ.bytes().all(is_part) {
        true => Ok(()),
        false => Err(Error::Parameter(format!(
            "`typ` is not the name of a media type of 1 to {TYP_MAX} characters without `application/`; expected one such as at+jwt"
        ))),
    }
}

/// Checks the form of claims (RFC 7519, section 4.1). Unregistered claims may have any value.
fn check_form(claims: &Map<String, Value>) -> Result<Times, Error> {
    claims.values().try_for_each(|value| check_value(value, DEPTH_MAX))?;
    for name in ["iss", "sub"] {
        if claims.get(name).is_some_and(|value| !is_string_or_uri(value)) {
            return Err(refuse(name, STRING_OR_URI));
        }
    }
    let is_audience = |value: &Value| match value {
        Value::Array(several) => !several.is_empty() && several.iter().all(is_string_or_uri),
        one => is_string_or_uri(one),
    };
    if claims.get("aud").is_some_and(|value| !is_audience(value)) {
        return Err(refuse("aud", "a string, or an array of one or more; one with `:` is a URI"));
    }
    if claims.get("jti").is_some_and(|value| value.as_str().is_none_or(str::is_empty)) {
        return Err(refuse("jti", "a string that is not empty"));
    }
    let time = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_u64() {
            Some(time_s @ 1..=TIME_MAX_S) => Ok(Some(time_s)),
            _ => Err(refuse(name, "whole seconds since 1970, up to the year 9999")),
        },
    };
    let (exp_s, nbf_s, iat_s) = (time("exp")?, time("nbf")?, time("iat")?);
    let missing = || Error::Parameter("missing claim `exp`: set it, or `lifetime_s`".to_owned());
    Ok(Times { exp_s: exp_s.ok_or_else(missing)?, nbf_s, iat_s })
}

const STRING_OR_URI: &str = "a string that is not empty; one with `:` is a URI";

fn refuse(name: &str, expected: &str) -> Error {
    Error::Parameter(format!("invalid claim `{name}`: expected {expected}"))
}

/// Rejects values that are nested too deeply, and numbers that JSON implementations may round.
fn check_value(value: &Value, depth_left: usize) -> Result<(), Error> {
    let too_deep = || {
        Error::Parameter(format!(
            "a claim has more than {DEPTH_MAX} arrays and objects within each other"
        ))
    };
    let below = || depth_left.checked_sub(1).ok_or_else(too_deep);
    match value {
        Value::Array(items) => {
            let below = below()?;
            items.iter().try_for_each(|item| check_value(item, below))
        }
        Value::Object(fields) => {
            let below = below()?;
            fields.values().try_for_each(|field| check_value(field, below))
        }
        Value::Number(number) => {
            let is_exact = match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(integer), _, _) => integer.unsigned_abs() <= INTEGER_MAX,
                (None, Some(_), _) => false,
                (None, None, Some(float)) => float.abs() <= INTEGER_MAX as f64,
                (None, None, None) => false,
            };
            match is_exact {
                true => Ok(()),
                false => Err(Error::Parameter(format!(
                    "a claim has a number beyond {INTEGER_MAX}, which JSON parsers may round; write it as a string"
                ))),
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// Returns whether a value is a StringOrURI (RFC 7519, section 2).
fn is_string_or_uri(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty() && (!text.contains(':') || is_uri(text)))
}

/// Returns whether a text has only the characters of a URI (RFC 3986, sections 2 and 3.1).
fn is_uri(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let is_of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let is_of_rest = |(at, byte): (usize, u8)| match byte {
        b'%' => rest
            .as_bytes()
            .get(at + 1..at + 3)
            .is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)),
        byte => byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte),
    };
    scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(is_of_scheme)
        && rest.bytes().enumerate().all(is_of_rest)
}

#[cfg(test)]
mod tests;
