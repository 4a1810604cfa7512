//! Bytes that are to be taken for another request than they are, or to change what comes next.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::create;
use super::raw::{Local, exchange};

/// Sends `bytes` on one connection and returns everything that the server sends until it hangs up.
/// If the server says nothing for a second, closes the sending side, so that it need not wait for a
/// body to time out.
pub fn answers(local: &Local, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(local.path()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let mut is_open = true;
    // A server that rejects early may have closed the connection by now.
    let _ = stream.write_all(bytes);
    let (mut all, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => all.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock && is_open => {
                is_open = false;
                stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
                let _ = stream.shutdown(Shutdown::Write);
            }
            Err(error) => panic!("{error}: {}", String::from_utf8_lossy(bytes)),
        }
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// Statuses of the answers in what came back.
fn statuses(said: &str) -> Vec<&str> {
    said.split("HTTP/1.1 ").skip(1).map(|answer| &answer[..3]).collect()
}

/// A smuggled request, if it is not answered.
const HIDDEN: &str = "GET /v1/sys/seal-status HTTP/1.1\r\nHost: x\r\n\r\n";

/// RFC 9112, sections 5, 6.3 and 7.1: the end of a request has to be unambiguous, or it is
/// rejected.
#[test]
fn no_request_hides_within_another() {
    let local = Local::start();
    let post = "POST /v1/kms/unseal HTTP/1.1\r\nHost: x\r\n";
    let length = 5 + HIDDEN.len();
    // A valid beginning, whose end is determined by chunks: nothing after it is parsed as a
    // request.
    for fields in [
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked"),
        format!("Transfer-Encoding: chunked\r\nContent-Length: {length}"),
        format!("Content-Length: {length}\r\nTransfer-Encoding: chunked\r\nContent-Length: 5"),
        "Transfer-Encoding: chunked".to_owned(),
        "Transfer-Encoding: chunked\r\nConnection: keep-alive".to_owned(),
        "Transfer-Encoding: chunked, chunked".to_owned(),
        "Transfer-Encoding: identity, chunked".to_owned(),
    ] {
        let said = answers(&local, format!("{post}{fields}\r\n\r\n0\r\n\r\n{HIDDEN}").as_bytes());
        assert!(
            statuses(&said).len() <= 1 && !said.contains("\"storage_type\""),
            "{fields}: {said}"
        );
    }
    // A malformed head or chunk, or two lengths.
    let chunked = format!("{post}Transfer-Encoding: chunked\r\n\r\n");
    for (text, most) in [
        (format!("{post}Content-Length: 0\r\nContent-Length: {}\r\n\r\n{HIDDEN}", HIDDEN.len()), 1),
        (format!("{post}Content-Length: 0, {}\r\n\r\n{HIDDEN}", HIDDEN.len()), 1),
        (format!("{post}Content-Length: +0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Content-Length: -1\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Content-Length: 0x0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Content-Length: \r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Content-Length: 18446744073709551616\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Content-Length : 0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Transfer-Encoding: identity\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}A: b\r\n c\r\nContent-Length: 0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}A: b\rContent-Length: 99\r\nContent-Length: 0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}A: \0\r\nContent-Length: 0\r\n\r\n{HIDDEN}"), 1),
        (format!("{post}A\r\nContent-Length: 0\r\n\r\n{HIDDEN}"), 1),
        (post.replace("1.1", "1.0") + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + HIDDEN, 1),
        (format!("{chunked}-1\r\n\r\n{HIDDEN}"), 1),
        (format!("{chunked}0x0\r\n\r\n{HIDDEN}"), 1),
        (format!("{chunked}g\r\n\r\n{HIDDEN}"), 1),
        (format!("{chunked}10000000000000000\r\n\r\n{HIDDEN}"), 1),
        (format!("{chunked}FFFFFFFFFFFFFFFF\r\n{HIDDEN}"), 1),
        (format!("{chunked}2\r\n{{}}x\r\n0\r\n\r\n{HIDDEN}"), 1),
        (format!("{chunked}2;{}\r\n{{}}\r\n0\r\n\r\n{HIDDEN}", "a".repeat(1 << 20)), 1),
        (format!("{chunked}{}0\r\n\r\n{HIDDEN}", "1;a=b\r\n \r\n".repeat(10_000)), 1),
        (format!("{chunked}0\r\n{}\r\n{HIDDEN}", "a: b\r\n".repeat(100_000)), 1),
    ] {
        let said = answers(&local, text.as_bytes());
        let found = statuses(&said);
        assert!(found.len() <= most, "{text:.200}: {said}");
        assert!(found.iter().all(|status| status.starts_with('4')), "{text:.200}: {said}");
        assert!(!said.contains("\"storage_type\""), "{text:.200}: {said}");
    }
    // By itself the same request is valid.
    assert!(
        exchange(&local.path(), &HIDDEN.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
            .contains("\"storage_type\"")
    );
    local.client().status().unwrap();
}

/// Pipelined requests are answered in order.
#[test]
fn requests_that_come_together_are_answered_in_their_order() {
    let local = Local::start();
    let paths =
        ["/healthz", "/nowhere", "/v1/kms/keys", "/v1/kms/sign"].into_iter().cycle().take(40);
    let text: String =
        paths.map(|path| format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    let text = text + "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let said = answers(&local, text.as_bytes());
    let wanted: Vec<&str> =
        ["200", "404", "401", "405"].into_iter().cycle().take(40).chain(["200"]).collect();
    assert_eq!(statuses(&said), wanted);
}

/// A connection that a proxy shares among several clients: their requests are independent.
#[test]
fn requests_on_a_connection_are_independent() {
    let local = Local::start();
    create(&local.client(), "k", "ed25519");
    let token = &*local.token;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let get = |path: &str, fields: &str| format!("GET {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n");
    let with = format!("X-Vault-Token: {token}\r\n");
    let post = |path: &str, fields: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nHost: x\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let all = [
        (get("/v1/kms/keys/k", &with), "200"),
        (get("/v1/kms/keys/k", ""), "401"),
        (get("/v1/kms/keys/k", &format!("{with}traceparent: {trace}\r\n")), "200"),
        (get("/v1/kms/keys/k", &with), "200"),
        // Another tenant's keys, and then the default tenant's again.
        (post("/v1/transit/keys/n", &format!("{with}X-Vault-Namespace: other\r\n"), "{}"), "200"),
        (get("/v1/transit/keys/n", &with), "404"),
        (get("/v1/transit/keys/n", &format!("{with}X-Vault-Namespace: other\r\n")), "200"),
        // A wrong token, no token, one that comes as a trailer and one in a query.
        (get("/v1/kms/keys/k", "X-Vault-Token: gbk1.AAAA\r\n"), "401"),
        (get("/v1/kms/keys/k", ""), "401"),
        (get(&format!("/v1/kms/keys/k?token={token}"), ""), "401"),
        // A body that is refused, and one that is not read.
        (post("/v1/kms/sign", &with, "{\"key\": \"k\", \"message\": 7}"), "400"),
        (post("/v1/kms/sign", "", "{\"key\": \"k\", \"message\": \"bQ==\"}"), "401"),
        (post("/v1/kms/sign", &with, "{\"key\": \"k\", \"message\": \"bQ==\"}"), "200"),
        (post("/v1/kms/sign", &with, "{\"key\": \"k\"}"), "400"),
        (get("/healthz", "Connection: close\r\n"), "200"),
    ];
    let text: String = all.iter().map(|(one, _)| one.as_str()).collect();
    let said = answers(&local, text.as_bytes());
    let wanted: Vec<&str> = all.iter().map(|(_, status)| *status).collect();
    assert_eq!(statuses(&said), wanted, "{said}");
    let (_, log) = local.ask("GET", "/v1/kms/audit?limit=1000", &Value::Null);
    let of_show = log["records"].as_array().unwrap().iter().map(|one| &one["record"]);
    let traces: Vec<&Value> = of_show
        .filter(|one| one["action"] == "show" && one["tenant"] == "default")
        .map(|one| &one["trace"])
        .collect();
    assert_eq!(traces.iter().filter(|one| one.is_string()).count(), 1, "{log}");
    let trailer = format!(
        "POST /v1/kms/sign HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: X-Vault-Token\r\n\r\n\
         2\r\n{{}}\r\n0\r\nX-Vault-Token: {token}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    assert_eq!(statuses(&answers(&local, trailer.as_bytes())), ["401"]);
}

#[test]
fn request_head_is_limited_in_fields_and_bytes() {
    let local = Local::start();
    let ask = |count: usize, len: usize| {
        let fields: String =
            (0..count).map(|at| format!("A{at}: {}\r\n", "a".repeat(len))).collect();
        let text = format!("GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        let said = answers(&local, text.as_bytes());
        statuses(&said).first().map_or_else(String::new, |status| (*status).to_owned())
    };
    assert_eq!(ask(90, 10), "200");
    for (count, len) in
        [(100, 1), (1000, 1), (100_000, 1), (1, 100 << 10), (90, 1000), (1, 1 << 20)]
    {
        let status = ask(count, len);
        assert!(status.is_empty() || status.starts_with('4'), "{count} {len}: {status}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(1 << 20));
    let said = answers(&local, long.as_bytes());
    assert!(statuses(&said).iter().all(|status| status.starts_with('4')), "{said:.200}");
    assert!(said.len() < 4096, "a refusal that is as long as what it refuses");
    local.client().status().unwrap();
}

/// Segments of a path that name nothing.
const NO_NAMES: &[&str] = &[
    ".",
    "..",
    "%2e",
    "%2e%2e",
    "%2E%2E%2F%2E%2E%2Fetc%2Fpasswd",
    "..%2f..%2fstore",
    "%2F",
    "%2Fk",
    "k%2F",
    "k%2Fk",
    "%00",
    "k%00",
    "k%00.pem",
    "%0d%0aX-Vault-Token:%20x",
    "k%20",
    "%20k",
    "k%09",
    "%25",
    "%256B",
    "%%36B",
    "%",
    "%6",
    "%zz",
    "%C0%AE%C0%AE",
    "%FF",
    "%E2%80%AE",
    "k;x",
    "k,k",
    "k:k",
    "k%3Fx",
    "k%23x",
    "*",
    "k*",
    "K",
    "%EF%BD%8B",
    "-k",
    "k-",
    ".k",
    "k.",
    "'",
    "%22",
    "%5C",
    "..%5C..%5Cstore",
    "%7Bkey%7D",
    "{key}",
    "$k",
    "~k",
];

/// Paths that lead nowhere, each near one that does.
const NO_PATHS: &[&str] = &[
    "/v1/kms/keys/../keys/k",
    "/v1/kms/./keys",
    "//v1/kms/keys",
    "/v1//kms/keys",
    "/v1/kms/keys/",
    "/V1/kms/keys",
    "/v1/kms/keys;x",
    "/v1/kms/keys%3Flimit=1",
    "/v1/kms%2Fkeys",
    "/v1/kms/keys/k/",
    "/%76%31/kms/keys",
    "/v1/kms/keys/k/..",
    "*",
    "v1/kms/keys",
    "/v1/kms/status/../keys",
    "/healthz/../v1/kms/keys",
    "/v1/kms/keys\\k",
    "/v1/transit/keys/../../kms/keys",
];

/// A name in a path is one segment, decoded once, and in Vault's charset; no other spelling of a
/// path is one.
#[test]
fn a_name_in_a_path_is_nothing_but_a_name() {
    let local = Local::start();
    create(&local.client(), "k", "ed25519");
    let before = std::fs::read_dir(local.folder.path()).unwrap().count();
    let token = &*local.token;
    let ask = |method: &str, path: &str| {
        let body = if method == "PUT" { "{\"text\": \"\"}" } else { "" };
        let text = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {token}\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let said = answers(&local, text.as_bytes());
        statuses(&said).first().map_or_else(|| "none".to_owned(), |status| (*status).to_owned())
    };
    assert_eq!(
        (ask("GET", "/v1/kms/keys/k"), ask("GET", "/v1/kms/keys/%6B")),
        ("200".into(), "200".into())
    );
    let long = ["k".repeat(65), "k".repeat(20_000), "%2e".repeat(5_000)];
    for name in NO_NAMES.iter().copied().chain(long.iter().map(String::as_str)) {
        for (method, path) in [
            ("GET", format!("/v1/kms/keys/{name}")),
            ("DELETE", format!("/v1/kms/keys/{name}")),
            ("POST", format!("/v1/kms/keys/{name}/rotate")),
            ("GET", format!("/v1/kms/keys/{name}/versions")),
            ("GET", format!("/v1/transit/keys/{name}")),
            ("POST", format!("/v1/transit/keys/{name}")),
            ("POST", format!("/v1/transit/sign/{name}")),
            ("PUT", format!("/v1/kms/policies/{name}")),
            ("GET", format!("/v1/kms/policies/{name}")),
        ] {
            // A key `K` can be made, and a set of policies be called so.
            let may_be = name == "K"
                && (path.contains("policies")
                    || (method, &*path) == ("POST", "/v1/transit/keys/K"));
            let status = ask(method, &path);
            let is_refused = ["400", "404", "405", "414", "431", "none"].contains(&status.as_str());
            assert!(is_refused || may_be, "{method} {path:.100}: {status}");
        }
        let tenant = ask("GET", &format!("/v1/kms/jwks/{name}"));
        assert!(tenant != "500" && (tenant != "200" || name == "K"), "{name:.100}: {tenant}");
    }
    for path in NO_PATHS {
        let status = ask("GET", path);
        assert!(["400", "404", "none"].contains(&status.as_str()), "{path}: {status}");
    }
    // A host in the request target changes nothing, neither the path nor the caller.
    let text = "GET http://elsewhere/v1/kms/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(statuses(&answers(&local, text.as_bytes())), ["401"]);
    let text = "CONNECT elsewhere:443 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert!(
        statuses(&answers(&local, text.as_bytes())).iter().all(|status| status.starts_with('4'))
    );
    assert_eq!(std::fs::read_dir(local.folder.path()).unwrap().count(), before);
    let (status, keys) = local.ask("GET", "/v1/kms/keys", &Value::Null);
    let names: Vec<&Value> =
        keys["keys"].as_array().unwrap().iter().map(|key| &key["name"]).collect();
    assert_eq!((status, names), (200, vec![&json!("K"), &json!("k")]));
}
