//! Header fields that ask for what is not done.

use super::create;
use super::raw::Local;

/// U3 of the audit of 2026-11: a client that asks for a wrapped answer gets no plaintext, at any path.
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
        ("GET /v1/sys/seal-status", ""),
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
