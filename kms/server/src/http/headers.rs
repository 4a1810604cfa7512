//! Checks the header fields of a request.
//!
//! A field that would change the response is either honored or rejected by name, like an unknown
//! field of a body: a client that requests a wrapped answer must not get a plaintext. Fields
//! without such a meaning, such as `User-Agent`, are ignored.

use hyper::Method;
use hyper::header::{EXPECT, HeaderMap};

use crate::problem::Problem;

/// The supported fields of Vault's API, without their prefix. Vault's clients always send
/// `X-Vault-Request`, which distinguishes them from browsers.
const VAULTS: [&str; 3] = ["token", "namespace", "request"];

const VAULTS_PREFIX: &str = "x-vault-";

/// Fields that a request may have only once, because a proxy could honor another copy than this
/// server. A copy with the same value is rejected, too.
const ONCE: [&str; 9] = [
    "authorization",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "x-vault-namespace",
    "x-vault-request",
    "x-vault-token",
];

/// Unsupported fields, each with a hint.
const REFUSED: [(&str, &str); 9] = [
    ("x-http-method-override", METHOD),
    ("x-http-method", METHOD),
    ("x-method-override", METHOD),
    ("idempotency-key", OP_ID),
    ("x-idempotency-key", OP_ID),
    ("content-range", "send the body whole"),
    ("if-match", CONDITION),
    ("if-unmodified-since", CONDITION),
    ("if-none-match", CONDITION),
];

const METHOD: &str = "send the request with that method";
const OP_ID: &str = "name the change by the parameter `op_id`";
const CONDITION: &str = "changes take no conditions; read the key or policy first, and send the change without this field";

/// Rejects unsupported and repeated fields. If `is_health`, the fields of Vault's API are ignored.
///
/// # Errors
/// `unsupported`, which names the field; `bad_request` if a field is repeated.
pub fn check(method: &Method, headers: &HeaderMap, is_health: bool) -> Result<(), Problem> {
    check_codings(headers)?;
    let is_ignored = |field: &str| is_health && field.starts_with(VAULTS_PREFIX);
    for field in ONCE {
        if !is_ignored(field) && headers.get_all(field).iter().count() > 1 {
            return Err(Problem::bad(format!("expected one field {}", shown(field))));
        }
    }
    for field in headers.keys() {
        let vaults = field.as_str().strip_prefix(VAULTS_PREFIX);
        if !is_health && vaults.is_some_and(|field| !VAULTS.contains(&field)) {
            let known =
                "the supported fields are X-Vault-Token, X-Vault-Namespace and X-Vault-Request";
            return Err(unsupported(field.as_str()).hint(known));
        }
    }
    // A read may ignore conditions (RFC 9110, section 13.1).
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    for (field, instead) in REFUSED {
        if headers.contains_key(field) && !(is_read && instead == CONDITION) {
            return Err(unsupported(field).hint(instead));
        }
    }
    match headers.get(EXPECT) {
        Some(what) if !what.as_bytes().trim_ascii().eq_ignore_ascii_case(b"100-continue") => {
            Err(Problem::unsupported("`Expect` is not supported, but for 100-continue"))
        }
        Some(_) | None => Ok(()),
    }
}

/// Rejects compressed bodies: the service would sign the compressed bytes.
fn check_codings(headers: &HeaderMap) -> Result<(), Problem> {
    for (field, plain) in [("content-encoding", "identity"), ("transfer-encoding", "chunked")] {
        for value in headers.get_all(field) {
            if !value.as_bytes().trim_ascii().eq_ignore_ascii_case(plain.as_bytes()) {
                let why = format!("`{field}` is not supported, but for {plain}");
                return Err(Problem::unsupported(why).hint("send the body as it is"));
            }
        }
    }
    Ok(())
}

fn unsupported(field: &str) -> Problem {
    let field: String = shown(field).chars().take(100).collect();
    Problem::unsupported(format!("the header field `{field}` is not supported"))
}

/// Formats a field name as documentation writes it, such as `X-Vault-Wrap-TTL`.
fn shown(field: &str) -> String {
    let part = |part: &str| match part {
        "ttl" | "mfa" | "aws" | "iam" | "id" | "http" => part.to_ascii_uppercase(),
        _ => {
            let (first, rest) = part.split_at(part.len().min(1));
            first.to_ascii_uppercase() + rest
        }
    };
    field.split('-').map(part).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn said(method: &Method, fields: &[(&str, &str)]) -> Result<(), (&'static str, String)> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name: HeaderName = name.parse().unwrap();
            headers.append(name, value.parse().unwrap());
        }
        check(method, &headers, false).map_err(|problem| (problem.code, problem.message))
    }

    #[test]
    fn unsupported_semantic_headers_are_refused_by_name() {
        for (field, value) in [
            ("X-Vault-Wrap-TTL", "60s"),
            ("x-vault-wrap-ttl", "0"),
            ("X-VAULT-WRAP-TTL", ""),
            ("X-Vault-Wrap-Format", "jwt"),
            ("X-Vault-MFA", "my_totp:695452"),
            ("X-Vault-Policy-Override", "true"),
            ("X-Vault-AWS-IAM-Server-ID", "vault.example.com"),
            ("X-Vault-Inconsistent", "forward-active-node"),
            ("X-Vault-Index", "djE6..."),
            ("X-Vault-Forward", "active-node"),
            ("X-Vault-No-Request-Forwarding", "1"),
            ("X-Vault-Inline-Auth-Path", "auth/jwt/login"),
            ("X-Vault-", "1"),
            ("X-Vault-Tokens", "1"),
            ("X-HTTP-Method-Override", "DELETE"),
            ("X-HTTP-Method", "DELETE"),
            ("X-Method-Override", "PUT"),
            ("Idempotency-Key", "8e03978e"),
            ("X-Idempotency-Key", "8e03978e"),
            ("Content-Range", "bytes 0-4/10"),
            ("Expect", "200-ok"),
            ("Content-Encoding", "gzip"),
            ("Transfer-Encoding", "gzip, chunked"),
        ] {
            for method in [Method::GET, Method::POST, Method::DELETE] {
                let (code, message) = said(&method, &[(field, value)]).unwrap_err();
                assert_eq!(code, "unsupported", "{field}");
                let field = field.to_ascii_lowercase();
                assert!(message.to_ascii_lowercase().contains(&field), "{field}: {message}");
            }
        }
        assert!(
            said(&Method::GET, &[("x-vault-wrap-ttl", "")]).unwrap_err().1.contains("Wrap-TTL")
        );
        for field in ["If-Match", "If-None-Match", "If-Unmodified-Since"] {
            assert_eq!(said(&Method::GET, &[(field, "*")]), Ok(()));
            assert_eq!(said(&Method::PUT, &[(field, "*")]).unwrap_err().0, "unsupported");
        }
    }

    #[test]
    fn a_field_that_counts_comes_once() {
        for field in ONCE {
            let value = if field == "content-encoding" { "identity" } else { "100-continue" };
            let twice = [(field, value), (field, value)];
            assert_eq!(said(&Method::POST, &twice[..1]), Ok(()), "{field}");
            assert_eq!(said(&Method::POST, &twice).unwrap_err().0, "bad_request", "{field}");
        }
    }

    #[test]
    fn common_client_headers_are_accepted() {
        for (field, value) in [
            ("X-Vault-Request", "true"),
            ("X-Vault-Token", "gbk1.x"),
            ("X-Vault-Namespace", "team"),
            ("X-Request-ID", "7"),
            ("X-Correlation-ID", "7"),
            ("X-Forwarded-For", "192.0.2.7"),
            ("Traceparent", "00-..."),
            ("Range", "bytes=0-1"),
            ("Prefer", "return=minimal"),
            ("Cookie", "a=b"),
            ("Expect", "100-Continue"),
            ("Content-Encoding", "identity"),
            ("Transfer-Encoding", "chunked"),
            ("Accept-Encoding", "gzip"),
            ("If-Modified-Since", "Sat, 28 Nov 2026 12:00:00 GMT"),
        ] {
            assert_eq!(said(&Method::POST, &[(field, value), ("A", "1"), ("A", "2")]), Ok(()));
        }
    }
}
