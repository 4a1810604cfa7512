//! The end of a generation: what was admitted before the seal was closed neither runs nor is
//! answered afterwards.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use gabion_kms_wire::native::{ConfigureKey, RecoverAdmin, Unseal};
use serde_json::{Value, json};

use super::raw::Local;
use super::refused;
use super::serve::{Place, create, share_of};

/// Every route whose caller is authenticated and that takes a body: method and path, with `k` for
/// what is left open.
pub fn routes_with_bodies(description: &str) -> Vec<(String, String)> {
    let description: Value = serde_json::from_str(description).unwrap();
    let mut routes = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, route) in methods.as_object().unwrap() {
            if route.get("requestBody").is_some() {
                let parts = path.split('/').map(|part| match part {
                    "{bytes}" | "{version}" => "1",
                    part if part.starts_with('{') => "k",
                    part => part,
                });
                routes.push((method.to_uppercase(), parts.collect::<Vec<_>>().join("/")));
            }
        }
    }
    routes
}

/// Returns whether a route is open to all callers.
pub fn is_open(path: &str) -> bool {
    ["/v1/kms/unseal", "/v1/kms/recover-admin"].contains(&path)
}

/// A request whose last byte is missing.
struct PausedRequest {
    stream: UnixStream,
    last: u8,
}

impl PausedRequest {
    fn begin(socket: &Path, token: &str, method: &str, path: &str, body: &str) -> PausedRequest {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
            body.len()
        );
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // `100 Continue` means that the head was admitted.
        let mut word = [0; 25];
        stream.read_exact(&mut word).unwrap();
        assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n", "{method} {path}");
        let (last, rest) = body.as_bytes().split_last().unwrap();
        stream.write_all(rest).unwrap();
        PausedRequest { stream, last: *last }
    }

    /// The status and the code of the answer, once the body has ended.
    fn end(mut self) -> (String, String) {
        self.stream.write_all(&[self.last]).unwrap();
        let mut text = String::new();
        self.stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().to_owned();
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        let vaults = body["errors"][0].as_str().map(|error| error.split(':').next().unwrap());
        let code = body["code"].as_str().or(vaults).unwrap_or_default();
        (status, code.to_owned())
    }
}

#[test]
fn a_request_whose_body_was_pending_when_the_seal_was_closed_is_refused_at_every_route() {
    let place = Place::new();
    let server = place.serve("store");
    place.unseal();
    let admin = place.admin();
    create(&admin, "k");
    let exportable = ConfigureKey { exportable: Some(true), ..ConfigureKey::default() };
    admin.configure("k", &exportable).unwrap();
    let routes = routes_with_bodies(&place.get("/openapi.json"));
    assert!(routes.len() > 40, "{}", routes.len());
    let bodies = [
        ("/v1/kms/sign", r#"{"key":"k","message":"bQ=="}"#),
        ("/v1/kms/keys/k/export", r#"{"form":"raw"}"#),
        ("/v1/kms/tokens", r#"{"principal":"late"}"#),
    ];
    for is_opened_again in [false, true] {
        let begin = |(method, path): &(String, String)| {
            let body = bodies.iter().find(|of| of.0 == path).map_or("{}", |of| of.1);
            PausedRequest::begin(&place.path("kms"), &place.token, method, path, body)
        };
        let callers = routes.iter().filter(|(_, path)| !is_open(path));
        let pending: Vec<_> = callers.clone().map(begin).collect();
        assert!(place.admin().seal().unwrap().sealed);
        if is_opened_again {
            // None of them keeps the service that was closed, its audit log or its keys.
            place.unseal();
        }
        for ((method, path), pending) in callers.zip(pending) {
            let (status, code) = pending.end();
            assert_eq!((&*status, &*code), ("503", "sealed"), "{method} {path}");
        }
        if !is_opened_again {
            place.unseal();
        }
    }
    let told: Value = place.admin().get("/v1/kms/audit?limit=1000").unwrap();
    let told = told.to_string();
    assert!(!told.contains("\"export\"") && !told.contains("\"sign\""), "{told}");
    assert_eq!(told.matches("\"token\"").count(), 2, "the first token alone: {told}");
    server.stop();
}

/// The rest of an answer that a slow client has not read when the service is sealed stays in the
/// server.
#[test]
fn an_answer_that_is_not_written_when_the_seal_is_closed_is_cut_off() {
    let local = Local::start();
    let token = &*local.token;
    let body = r#"{"bytes":131072}"#;
    let one = format!(
        "POST /v1/kms/random HTTP/1.1\r\nHost: x\r\nX-Vault-Token: {token}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = UnixStream::connect(local.path()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(one.repeat(8).as_bytes()).unwrap();
    // Two answers are more than the socket takes. Each look at the metrics is an answer, too.
    for looks in 0.. {
        let metrics = local.get("/metrics");
        let line = metrics.lines().find_map(|line| {
            line.strip_prefix("kms_http_answers_total{status=\"2xx\"} ")?.parse::<u64>().ok()
        });
        if line.unwrap() >= looks + 2 {
            break;
        }
        assert!(looks < 100_000, "{metrics}");
    }
    assert!(local.client().seal().unwrap().sealed);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    let said = String::from_utf8_lossy(&all);
    assert!(all.len() < 300_000, "{} bytes", all.len());
    assert!(!said.contains(" 503 ") && said.matches("HTTP/1.1 200").count() <= 2);
}

#[test]
fn shares_survive_an_opening_that_fails() {
    let place = Place::new();
    let server = place.serve("store");
    let (audit, aside) = (place.path("store-audit"), place.path("aside"));
    for retry in [share_of(place.share(2)), Unseal::default()] {
        fs::rename(&audit, &aside).unwrap();
        for share in [1, 2] {
            place.admin().unseal(&share_of(place.share(share))).unwrap();
        }
        let failed = refused(place.admin().unseal(&share_of(place.share(3))));
        assert_ne!(failed.code, "unseal_failed");
        let progress: Value = place.admin().get("/v1/sys/seal-status").unwrap();
        assert_eq!((&progress["sealed"], &progress["progress"]), (&json!(true), &json!(3)));
        let _ = fs::remove_dir_all(&audit);
        fs::rename(&aside, &audit).unwrap();
        assert!(!place.admin().unseal(&retry).unwrap().sealed);
        place.admin().seal().unwrap();
        // They are used up: nothing but new ones opens it.
        assert_eq!(refused(place.admin().unseal(&Unseal::default())).code, "bad_request");
    }
    // Nor does a new administrator need them twice.
    fs::rename(&audit, &aside).unwrap();
    let recover = |share| {
        let share = Some(place.share(share).to_string().into());
        place.admin().recover_admin(&RecoverAdmin { share, ..Default::default() })
    };
    recover(1).unwrap();
    recover(2).unwrap();
    assert_ne!(refused(recover(3)).code, "unseal_failed");
    let _ = fs::remove_dir_all(&audit);
    fs::rename(&aside, &audit).unwrap();
    assert!(recover(1).unwrap().token.is_some());
    server.stop();
}
