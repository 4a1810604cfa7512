//! JSON Web Tokens (RFC 7519): the form of their claims, and their compact serialization (RFC 7515, section 7.1).
//!
//! ```text
//!   NewJwt --claims--> Claims, whose form was checked --operations--> header with alg, kid and typ --> signed token
//!   text --Jwt::parse--> alg and kid are the key's? --operations--> signed by it? --> claims as expected? --> Verdict
//! ```
//!
//! - The key says which algorithm signs and verifies, and never the token (RFC 8725, section 3.1).
//! - The service makes the header. A caller chooses `typ` and nothing else of it.
//! - Nothing of a payload is read before its signature was verified.

use gabion_engine::{Entropy, Error as EngineError, OsEntropy};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::json::Unique;
use crate::model::VersionId;
use crate::text::{base64url, of_base64url};

/// The maximum length of the claims in JSON, in bytes.
pub const CLAIMS_MAX: usize = 16 << 10;

/// The maximum length of a token that is verified, in bytes: that of the longest claims with a header and an ML-DSA-87 signature.
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

/// The largest integer that every reader of JSON takes for what it is (RFC 7493, section 2.2).
const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Bytes of a random `jti`.
const JTI_LEN: usize = 16;

/// A token to sign.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewJwt {
    /// The claims.
    pub claims: Map<String, Value>,
    /// The type, for verifiers that tell kinds of tokens apart by it (RFC 8725, section 3.11). `None`: `JWT`.
    pub typ: Option<String>,
    /// How long the token lives, in seconds. It sets `iat` and `exp`.
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

/// The times that a token names, in seconds since 1970.
struct Times {
    exp_s: u64,
    nbf_s: Option<u64>,
    iat_s: Option<u64>,
}

impl NewJwt {
    /// Completes the claims and checks their form, at a time in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a claim of another form than RFC 7519 has, a token without an end, and one that is over already;
    /// [`Error::TooLarge`]; no randomness.
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

    /// The claims with those that the request leaves to the service.
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
    /// The claims in JSON, as the token has them.
    pub fn payload(&self) -> &str {
        &self.payload
    }

    /// When the token ends, in seconds since 1970.
    pub fn exp_s(&self) -> u64 {
        self.exp_s
    }

    /// What is signed (RFC 7515, section 5.1, step 5).
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

/// Returns the token of what was signed and its signature.
pub(crate) fn compact(signing_input: &str, signature: &[u8]) -> String {
    format!("{signing_input}.{}", base64url(signature))
}

/// A warning about a token of `len` bytes, if other programs may not take it.
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

/// A token whose parts were decoded, and of which nothing was verified.
#[derive(Clone, Debug)]
pub struct Jwt<'a> {
    text: &'a str,
    signing_input: &'a str,
    header: Map<String, Value>,
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// The claims that a token must have, besides a valid signature.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedClaims {
    /// The issuer.
    pub issuer: Option<String>,
    /// The audience that the verifier is. A token that names audiences is not valid without it (RFC 7519, section 4.1.3).
    pub audience: Option<String>,
    /// The type. `None`: `JWT`.
    pub typ: Option<String>,
    /// How far the issuer's clock may be from this one, in seconds.
    pub leeway_s: u64,
}

/// Why a token is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Its header has a parameter besides `alg`, `kid` and `typ`.
    Header,
    /// It names another algorithm than the key's.
    Alg,
    /// It names another key, or none.
    Kid,
    /// The version that it names does not exist or may not verify.
    Version,
    /// The signature is wrong.
    Signature,
    /// The claims have another form than RFC 7519 says, or no end.
    Claims,
    /// It is of another type.
    Typ,
    /// It is over.
    Expired,
    /// It is not valid yet.
    NotYetValid,
    /// It is another issuer's.
    Issuer,
    /// It is for somebody else.
    Audience,
}

impl Reason {
    /// The reason as it is written.
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

    /// The token as it came.
    pub fn text(&self) -> &str {
        self.text
    }

    /// The claims in JSON, of which nothing was verified.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    pub(crate) fn signing_input(&self) -> &str {
        self.signing_input
    }

    pub(crate) fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Checks that the header has nothing besides what the service's have, and the algorithm of the key. Returns the version that it
    /// names. So `none`, `crit`, and keys and addresses of keys (`jwk`, `jku`, `x5c`, `x5u`) are refused.
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
    /// Refuses more leeway than clocks need.
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

/// A media type without `application/`, which RFC 7515, section 4.1.9, lets writers leave out.
fn media_type(typ: &str) -> &str {
    match typ.split_at_checked("application/".len()) {
        Some((prefix, rest)) if prefix.eq_ignore_ascii_case("application/") => rest,
        _ => typ,
    }
}

/// Reads a JSON object that has each field once, at every depth.
fn object(json: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(json).ok()? {
        Unique(Value::Object(fields)) => Some(fields),
        Unique(_) => None,
    }
}

/// Refuses a `typ` that is not the name of a media type without `application/` (RFC 6838, section 4.2).
fn check_typ(typ: &str) -> Result<(), Error> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
    match (1..=TYP_MAX).contains(&typ.len()) && typ.bytes().all(is_part) {
        true => Ok(()),
        false => Err(Error::Parameter(format!(
            "`typ` is not the name of a media type of 1 to {TYP_MAX} characters without `application/`; expected one such as at+jwt"
        ))),
    }
}

/// Checks the form of claims (RFC 7519, section 4.1). Other claims than the registered ones may say anything.
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

/// Refuses what is too deep, and numbers that readers of JSON take for others.
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
                    "a claim has a number beyond {INTEGER_MAX}, which not every reader of JSON takes for what it is; write it as a string"
                ))),
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// Whether a value is a StringOrURI (RFC 7519, section 2).
fn is_string_or_uri(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty() && (!text.contains(':') || is_uri(text)))
}

/// Whether a text has the characters of a URI (RFC 3986, sections 2 and 3.1).
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
