//! Header fields that ask for what is not done.

use super::create;
use super::raw::Local;

/// U3 of the audit of 2026-11: a client that asks for a wrapped answer gets no plaintext, at any
/// path.
#[test]
fn a_header_that_changes_what_is_done_is_refused_at_every_path() {
    let local = Local::start();
    create(&local.client(), "k", "aes256-gcm96");
    let ask = |request: &str, fields: &str, body: &str| {
        local.exchange(&format!(
            "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {}\r\n{fields}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            *local.token,
            body.len()
        ))
    };
    let paths = [
        ("POST /v1/transit/datakey/plaintext/k", "{}"),
        ("POST /v1/kms/datakey", "{\"key\": \"k\"}"),
        ("POST /v1/kms/tokens", "{\"principal\": \"ci\"}"),
        ("GET /v1/auth/token/lookup-self", ""),
        ("GET /v1/sys/mounts", ""),
        ("POST /v1/kms/unseal", "{}"),
        ("GET /v1/kms/nothing", ""),
    ];
    for (request, body) in paths {
        for field in
            ["X-Vault-Wrap-TTL: 60s", "x-vault-mfa: a", "X-Vault-Index: a", "X-HTTP-Method: GET"]
        {
            let said = ask(request, field, body);
            assert!(said.starts_with("HTTP/1.1 400 "), "{request} {field}: {said}");
            let name = field.split(':').next().unwrap().to_ascii_lowercase();
            assert!(said.contains("unsupported") && said.to_lowercase().contains(&name), "{said}");
            assert!(!said.contains("plaintext\""), "{said}");
        }
    }
    let vaults = ask("POST /v1/transit/datakey/plaintext/k", "X-Vault-Wrap-TTL: 60s", "{}");
    assert!(vaults.contains("{\"errors\":[\"unsupported: "), "{vaults}");
    let both = "X-Vault-Request: true\r\nX-Vault-Namespace: default\r\nX-Request-Id: 7";
    let done = ask("POST /v1/transit/datakey/plaintext/k", both, "{}");
    assert!(done.starts_with("HTTP/1.1 200 "), "{done}");
}

/// OpenBao's own Go client misspells a parameter of its health check, and load balancers send what
/// they like: a refusal would be taken for an outage.
#[test]
fn health_endpoints_refuse_no_parameter_and_no_field_of_vaults() {
    let local = Local::start();
    let ask = |method: &str, path: &str, fields: &str| {
        local.exchange(&format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n"
        ))
    };
    let fields = "X-Vault-Index: a\r\nX-Vault-Wrap-TTL: 60s\r\nX-Vault-Token: a\r\nX-Vault-Token: b\r\n\
                  X-Vault-Namespace: \u{e9}\r\nX-Vault-Request: 1\r\n";
    for path in [
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/kms/status",
        "/v1/sys/health",
        "/v1/sys/init",
        "/v1/sys/leader",
        "/v1/sys/seal-status",
    ] {
        for query in ["", "?haunhealhty=299&standbyok=1&perfstandbyok=True", "?a&a=%zz&=&&b=1&b=2"]
        {
            for method in ["GET", "HEAD"] {
                let said = ask(method, &format!("{path}{query}"), fields);
                assert!(said.starts_with("HTTP/1.1 200 "), "{method} {path}{query}: {said}");
            }
        }
        // Everything else is as strict as elsewhere.
        let said = ask("GET", path, "Expect: 200-ok\r\n");
        assert!(said.starts_with("HTTP/1.1 4"), "{path}: {said}");
    }
    for path in ["/v1/sys/mounts?x=1", "/openapi.json?x=1"] {
        let said = ask("GET", path, "X-Vault-Index: a\r\n");
        assert!(said.starts_with("HTTP/1.1 400 "), "{path}: {said}");
    }
    let of = |query: &str| ask("GET", &format!("/v1/sys/health{query}"), "");
    assert!(of("?activecode=299&activecode=400").starts_with("HTTP/1.1 299 "));
    for query in ["?activecode=x", "?activecode=199", "?activecode=600", "?activecode=-1"] {
        assert!(of(query).starts_with("HTTP/1.1 200 "), "{query}");
    }
}
