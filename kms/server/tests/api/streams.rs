//! Messages that are bodies themselves.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gabion_kms_client::{Client, Error, StreamRequest};
use gabion_kms_server::Options;
use gabion_kms_wire::native::{
    AuditRecords, CreateKey, Hmac, HmacVerify, OfVersion, Sign, Signed, Verify,
};
use gabion_kms_wire::{Secret, decode, encode};
use serde_json::{Value, json};

use super::raw::Local;
use super::serve::Place;
use super::{create, refused};

const BODY_MAX: usize = 1 << 20;

fn message(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at % 251) as u8).collect()
}

/// Signed as a body: of a known length, or in chunks.
fn streamed(client: &Client, what: &StreamRequest, message: &[u8], is_chunked: bool) -> Signed {
    let length = (!is_chunked).then_some(message.len() as u64);
    client.sign_stream(what, &mut &message[..], length).unwrap()
}

fn is_its(client: &Client, what: &StreamRequest, signature: &str, message: &[u8]) -> bool {
    let length = Some(message.len() as u64);
    let known = client.verify_stream(what, signature, &mut &message[..], length).unwrap();
    let chunked = client.verify_stream(what, signature, &mut &message[..], None).unwrap();
    assert_eq!(known.valid, chunked.valid);
    known.valid
}

#[test]
fn streamed_and_json_signatures_are_interchangeable() {
    let local = Local::start();
    let client = local.client();
    let hash = || Some("SHA2-512".to_owned());
    let context = || Some(encode(b"a context / +"));
    for (at, (algorithm, prehash, context, padding)) in [
        ("ml-dsa-44", None, context(), None),
        ("ml-dsa-65", hash(), context(), None),
        ("ml-dsa-87", None, None, None),
        ("ed25519", None, None, None),
        ("ecdsa-p-384", None, None, None),
        ("slh-dsa-sha2-128f", None, context(), None),
        ("slh-dsa-shake-128f", hash(), context(), None),
        ("fn-dsa-512-draft", hash(), None, None),
        ("mldsa65-ed25519-sha512-draft19", None, context(), None),
        ("rsa-2048", None, None, None),
        ("rsa-2048", hash(), None, Some("pkcs1v15".to_owned())),
    ]
    .into_iter()
    .enumerate()
    {
        let key = format!("k{at}");
        create(&client, &key, algorithm);
        let what = StreamRequest {
            prehash: prehash.clone(),
            context: context.clone(),
            padding: padding.clone(),
            ..StreamRequest::by(&key)
        };
        for size in [0, 1, 135, 136, 137, 700_000] {
            let message = message(size);
            let sign = Sign {
                message: Some(encode(&message)),
                prehash: prehash.clone(),
                context: context.clone(),
                padding: padding.clone(),
                ..Sign::by(&key)
            };
            let of_json = client.sign(&sign).unwrap();
            let of_body = streamed(&client, &what, &message, size % 2 == 0);
            assert_eq!((&of_json.by, of_json.version), (&of_body.by, of_body.version));
            let verify = Verify {
                key: key.clone(),
                message: sign.message,
                prehash: prehash.clone(),
                context: context.clone(),
                padding: padding.clone(),
                signature: of_body.signature.clone(),
                ..Verify::default()
            };
            assert!(client.verify(&verify).unwrap().valid, "{algorithm} {size}");
            assert!(is_its(&client, &what, &of_json.signature, &message), "{algorithm} {size}");
            let longer = [&message[..], b"x"].concat();
            assert!(!is_its(&client, &what, &of_body.signature, &longer), "{algorithm} {size}");
        }
    }
}

#[test]
fn tags_of_bodies_are_those_of_json() {
    let local = Local::start();
    let client = local.client();
    for algorithm in ["hmac-sha-256", "hmac-sha-384", "hmac-sha-512"] {
        create(&client, algorithm, algorithm);
        let (what, key) = (StreamRequest::by(algorithm), algorithm.to_owned());
        for size in [0, 1, 127, 128, 129, 700_000] {
            let text = message(size);
            let secret = || Secret::of_bytes(&text);
            let hmac = Hmac { key: key.clone(), tenant: None, version: None, message: secret() };
            let tag = client.hmac(&hmac).unwrap().tag;
            assert_eq!(client.hmac_stream(&what, &mut &text[..], None).unwrap().tag, tag);
            let length = Some(size as u64);
            let valid = client.verify_hmac_stream(&what, &tag, &mut &text[..], length).unwrap();
            assert!(valid.valid);
            let longer = [&text[..], b"x"].concat();
            assert!(!client.verify_hmac_stream(&what, &tag, &mut &longer[..], None).unwrap().valid);
            let verify = HmacVerify {
                key: key.clone(),
                tenant: None,
                version: None,
                message: secret(),
                tag,
            };
            assert!(client.verify_hmac(&verify).unwrap().valid);
        }
    }
}

/// Gives so many bytes, and none of them from memory.
struct Zeros(u64);

impl Read for Zeros {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let len = out.len().min(usize::try_from(self.0).unwrap_or(usize::MAX));
        out[..len].fill(0);
        self.0 -= len as u64;
        Ok(len)
    }
}

#[test]
fn body_limit_applies_to_buffered_messages_only() {
    let local = Local::start();
    let client = local.client();
    create(&client, "mu", "ml-dsa-44");
    create(&client, "ed", "ed25519");
    create(&client, "slh", "slh-dsa-sha2-128f");
    let most = BODY_MAX as u64;
    for size in [most - 1, most, most + 1, 5 << 20] {
        for length in [Some(size), None] {
            let sign =
                |key: &str| client.sign_stream(&StreamRequest::by(key), &mut Zeros(size), length);
            let signed = sign("mu").unwrap();
            let what = StreamRequest::by("mu");
            let valid =
                client.verify_stream(&what, &signed.signature, &mut Zeros(size), length).unwrap();
            assert!(valid.valid, "{size}");
            if size <= most {
                let signature = sign("ed").unwrap().signature;
                let what = StreamRequest::by("ed");
                let valid = client.verify_stream(&what, &signature, &mut Zeros(size), length);
                assert!(valid.unwrap().valid, "{size}");
                continue;
            }
            let problem = refused(sign("ed"));
            assert_eq!(problem.code, "too_large");
            assert!(problem.hint.unwrap().contains("ML-DSA"), "{}", problem.message);
            let problem = refused(sign("slh"));
            assert_eq!(problem.code, "too_large");
            assert!(problem.hint.unwrap().contains("prehash=SHA2-512"), "{}", problem.message);
            let what =
                StreamRequest { prehash: Some("SHA2-512".into()), ..StreamRequest::by("slh") };
            client.sign_stream(&what, &mut Zeros(size), length).unwrap();
        }
    }
}

/// A request with a body that is a message; the query stands behind `?`.
fn head(local: &Local, path: &str, query: &str, fields: &str) -> String {
    head_of(&local.token, path, query, fields)
}

fn head_of(token: &str, path: &str, query: &str, fields: &str) -> String {
    format!(
        "POST /v1/kms/{path}?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {}\r\n\
         Content-Type: application/octet-stream\r\n{fields}\r\n",
        token
    )
}

/// Returns the response to a complete request.
fn asked(local: &Local, path: &str, query: &str, body: &[u8]) -> (u16, Value) {
    let fields = format!("Content-Length: {}\r\n", body.len());
    let mut stream = UnixStream::connect(local.path()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let request = [head(local, path, query, &fields).as_bytes(), body].concat();
    let _ = stream.write_all(&request);
    answer(&mut stream)
}

fn answer(stream: &mut UnixStream) -> (u16, Value) {
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    let last = text.rfind("HTTP/1.1 ").unwrap_or_else(|| panic!("no answer: {text}"));
    let (head, body) = text[last..].split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap())
}

#[test]
fn stream_prefix_has_the_declared_length() {
    let local = Local::start();
    let client = local.client();
    create(&client, "ed", "ed25519");
    create(&client, "mu", "ml-dsa-44");
    create(&client, "tag", "hmac-sha-256");
    let text = message(1000);
    let signed = streamed(&client, &StreamRequest::by("mu"), &text, false);
    let signature = decode(&signed.signature).unwrap();
    let body = [&signature[..], &text].concat();
    let ask = |query: &str, body: &[u8]| asked(&local, "verify", query, body);
    let (status, verified) = ask("key=mu&signature_bytes=2420", &body);
    assert_eq!((status, &verified["valid"]), (200, &json!(true)));
    assert_eq!(verified["by"], json!(signed.by));
    let mut wrong = body.clone();
    wrong[0] ^= 1;
    assert_eq!(ask("key=mu&signature_bytes=2420", &wrong).1["valid"], json!(false));
    for (query, code, says) in [
        ("key=mu&signature_bytes=0", "malformed", "ML-DSA-44"),
        ("key=mu&signature_bytes=2419", "malformed", "ML-DSA-44"),
        ("key=mu&signature_bytes=4294967295", "bad_request", "is shorter than"),
        ("key=mu&signature_bytes=4294967296", "bad_request", "expected a number from 0"),
        ("key=mu&signature_bytes=-1", "bad_request", "expected a number from 0"),
        ("key=mu&signature_bytes=x", "bad_request", "expected a number from 0"),
        ("key=mu", "bad_request", "missing parameter `signature_bytes`"),
        ("signature_bytes=2420", "bad_request", "missing parameter `key`"),
        ("key=mu&signature_bytes=2420&signature_bytes=1", "bad_request", "duplicate parameter"),
        ("key=mu&signature_bytes=2420&message=AA", "bad_request", "unknown parameter `message`"),
        ("key=mu&signature_bytes=2420&context=%2", "bad_request", "escape"),
        ("key=mu&signature_bytes=2420&context=x", "malformed", "`context` is not base64"),
        ("key=mu&signature_bytes=2420&prehash=md5", "bad_request", "unknown hash"),
        ("key=mu&signature_bytes=2420&padding=pss", "unsupported", "of RSA keys alone"),
        ("key=none&signature_bytes=2420", "not_found", "key `none` not found"),
        ("key=mu&signature_bytes=2420&version=9", "not_found", "no version 9"),
        ("key=mu&signature_bytes=2420&tag_bytes=1", "bad_request", "unknown parameter"),
    ] {
        let (_, problem) = ask(query, &body);
        let message = problem["message"].as_str().unwrap();
        assert_eq!(problem["code"], json!(code), "{query}: {message}");
        assert!(message.contains(says), "{query}: {message}");
    }
    // A body that is shorter than its signature, by its length or in chunks.
    let (_, problem) = ask("key=mu&signature_bytes=2420", &body[..2419]);
    assert!(problem["message"].as_str().unwrap().contains("shorter than the 2420 bytes"));
    let mut stream = UnixStream::connect(local.path()).unwrap();
    let chunked = "Transfer-Encoding: chunked\r\n";
    let request = head(&local, "verify", "key=mu&signature_bytes=2420", chunked);
    stream.write_all(format!("{request}5\r\nabcde\r\n0\r\n\r\n").as_bytes()).unwrap();
    let (status, problem) = answer(&mut stream);
    assert_eq!((status, &problem["code"]), (400, &json!("bad_request")));
    // The same for tags. A body to sign has no signature or tag before it.
    let (_, problem) = asked(&local, "hmac/verify", "key=tag&tag_bytes=31", &text);
    assert_eq!(problem["code"], json!("malformed"));
    let (_, problem) = asked(&local, "sign", "key=mu&signature_bytes=2420", &text);
    assert!(problem["message"].as_str().unwrap().contains("unknown parameter"), "{problem}");
    let (_, problem) = asked(&local, "hmac", "key=ed", &text);
    assert_eq!(problem["code"], json!("unsupported"));
}

#[test]
fn content_type_selects_streamed_or_json_bodies() {
    let local = Local::start();
    create(&local.client(), "mu", "ml-dsa-44");
    let of = |kinds: &str, query: &str, body: &str| {
        let text = local.exchange(&format!(
            "POST /v1/kms/sign{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {}\r\n\
             {kinds}Content-Length: {}\r\n\r\n{body}",
            *local.token,
            body.len()
        ));
        text[9..12].to_owned()
    };
    let json = r#"{"key":"mu","message":"AAAA"}"#;
    for kind in ["", "Content-Type: application/json\r\n", "Content-Type: text/plain\r\n"] {
        assert_eq!(of(kind, "", json), "200", "{kind}");
        assert_eq!(of(kind, "?key=mu", json), "400", "{kind}");
    }
    for kind in ["application/octet-stream", "Application/Octet-Stream ; x=y"] {
        let kind = format!("Content-Type: {kind}\r\n");
        assert_eq!(of(&kind, "?key=mu", json), "200", "{kind}");
        assert_eq!(of(&kind, "", json), "400", "{kind}");
    }
    let both = "Content-Type: application/json\r\nContent-Type: application/octet-stream\r\n";
    assert_eq!(of(both, "?key=mu", json), "400");
}

/// A caller without permission, or with an unknown key, is rejected before the body. An
/// unauthenticated client gets no `100 Continue`.
#[test]
fn unauthorized_uploads_are_refused_before_the_body() {
    let local = Local::start();
    create(&local.client(), "mu", "ml-dsa-44");
    let fields = "Expect: 100-continue\r\nContent-Length: 9000000\r\n";
    let good = head(&local, "sign", "key=mu", fields);
    let stranger = good.replace(&*local.token, "gbk1.AAAA");
    for (request, status) in [
        (stranger, "401"),
        (good.replace("key=mu", "key=none"), "404"),
        (good.replace("sign?", "hmac?"), "400"),
        (good.replace("9000000", "99999999999999"), "413"),
    ] {
        let mut stream = UnixStream::connect(local.path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {text}");
        assert!(!text.contains(" 100 "), "{text}");
    }
    // An allowed caller gets `100 Continue` before the first byte.
    let mut stream = UnixStream::connect(local.path()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(good.as_bytes()).unwrap();
    let mut word = [0; 25];
    stream.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&vec![0; 9_000_000]).unwrap();
    assert_eq!(answer(&mut stream).0, 200);
}

fn records(client: &Client) -> AuditRecords {
    client.get("/v1/kms/audit?limit=1000").unwrap()
}

/// A body that waits half-way, and goes on when it is told.
struct PausedUpload {
    stream: UnixStream,
}

impl PausedUpload {
    fn begin(local: &Local, path: &str, query: &str) -> PausedUpload {
        PausedUpload::at(&local.path(), &local.token, path, query)
    }

    fn at(socket: &Path, token: &str, path: &str, query: &str) -> PausedUpload {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let fields = "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n";
        let request = head_of(token, path, query, fields);
        stream.write_all(request.as_bytes()).unwrap();
        // `100 Continue` is sent when the server waits for the body: the caller was checked by
        // then.
        let mut word = [0; 25];
        stream.read_exact(&mut word).unwrap();
        let mut waits = PausedUpload { stream };
        waits.chunk(b"first");
        waits
    }

    fn chunk(&mut self, bytes: &[u8]) {
        let text = format!("{:x}\r\n", bytes.len());
        self.stream.write_all(&[text.as_bytes(), bytes, b"\r\n"].concat()).unwrap();
    }

    fn end(mut self) -> (u16, Value) {
        self.stream.write_all(b"0\r\n\r\n").unwrap();
        answer(&mut self.stream)
    }
}

#[test]
fn changes_during_an_upload_apply() {
    let local = Local::start();
    let client = local.client();
    create(&client, "mu", "ml-dsa-44");
    // A rotation takes nothing away: the version of the beginning signs.
    let waits = PausedUpload::begin(&local, "sign", "key=mu");
    client.rotate("mu").unwrap();
    let (status, signed) = waits.end();
    assert_eq!((status, &signed["version"]), (200, &json!(1)));
    let before = records(&client).records.len();
    let waits = PausedUpload::begin(&local, "sign", "key=mu");
    client.disable("mu", 2).unwrap();
    let (status, problem) = waits.end();
    assert_eq!((status, &problem["code"]), (409, &json!("version_disabled")));
    let told = serde_json::to_string(&records(&client).records[before..]).unwrap();
    assert!(told.contains("version_disabled"), "{told}");
    // An incomplete body is neither signed nor recorded.
    client.enable("mu", 2).unwrap();
    let before = records(&client).records.len();
    drop(PausedUpload::begin(&local, "sign", "key=mu"));
    let short = head(&local, "sign", "key=mu", "Content-Length: 100\r\n");
    let mut stream = UnixStream::connect(local.path()).unwrap();
    stream.write_all(format!("{short}not a hundred").as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    assert!(!text.contains(" 200 "), "{text}");
    client.sign(&Sign { message: Some(encode(b"m")), ..Sign::by("mu") }).unwrap();
    let told = records(&client);
    let told = serde_json::to_string(&told.records[before..]).unwrap();
    assert_eq!(told.matches("\"sign\"").count(), 1, "{told}");
}

#[test]
fn sealing_during_an_upload_answers_sealed() {
    let local = Local::start();
    let client = local.client();
    create(&client, "mu", "ml-dsa-44");
    let waits = PausedUpload::begin(&local, "sign", "key=mu");
    client.seal().unwrap();
    let (status, problem) = waits.end();
    assert_eq!((status, &problem["code"]), (503, &json!("sealed")));
}

/// A caller that was admitted by one generation is not admitted by the next.
#[test]
fn a_service_that_was_sealed_and_opened_again_meanwhile_signs_nothing() {
    let place = Place::new();
    let server = place.serve("store");
    place.unseal();
    create(&place.admin(), "mu", "ml-dsa-44");
    let waits = PausedUpload::at(&place.path("kms"), &place.token, "sign", "key=mu");
    place.admin().seal().unwrap();
    place.unseal();
    let (status, problem) = waits.end();
    assert_eq!((status, &problem["code"]), (503, &json!("sealed")));
    server.stop();
}

#[test]
fn concurrent_uploads_are_limited_and_do_not_delay_requests() {
    let options = Options { streams_max: 9, streams_per_tenant_max: 8, ..Options::default() };
    let local = Local::of(|host| host, options);
    let client = local.client();
    create(&client, "mu", "ml-dsa-44");
    let of_other = CreateKey {
        name: "mu".into(),
        algorithm: "ml-dsa-44".into(),
        tenant: Some("other".into()),
        ..CreateKey::default()
    };
    client.create(&of_other).unwrap();
    let slow: Vec<PausedUpload> =
        (0..8).map(|_| PausedUpload::begin(&local, "sign", "key=mu")).collect();
    for _ in 0..20 {
        client.sign(&Sign { message: Some(encode(b"m")), ..Sign::by("mu") }).unwrap();
    }
    // A short body needs no upload slot. A long one finds all slots of its tenant taken, while
    // another tenant has a free one.
    streamed(&client, &StreamRequest::by("mu"), b"short", false);
    let problem = refused(client.sign_stream(&StreamRequest::by("mu"), &mut Zeros(5), None));
    assert_eq!((problem.code.as_str(), problem.retryable), ("busy", true));
    let other = PausedUpload::begin(&local, "sign", "key=mu&tenant=other");
    let metrics = local.get("/metrics");
    assert!(metrics.contains("\nkms_streams 9\n"), "{metrics}");
    assert!(metrics.contains("\nkms_streams_refused_total 1\n"), "{metrics}");
    assert_eq!(other.end().0, 200);
    for waits in slow {
        assert_eq!(waits.end().0, 200);
    }
    assert!(local.get("/metrics").contains("\nkms_streams 0\n"));
    streamed(&client, &StreamRequest::by("mu"), b"in chunks", true);
}

#[test]
fn a_body_that_is_longer_than_any_may_be_is_refused_by_its_length_or_when_it_comes() {
    let options = Options { stream_max: 3 << 20, ..Options::default() };
    let local = Local::of(|host| host, options);
    let client = local.client();
    create(&client, "mu", "ml-dsa-44");
    for length in [Some((3 << 20) + 1), None] {
        let long = client.sign_stream(&StreamRequest::by("mu"), &mut Zeros((3 << 20) + 1), length);
        let problem = refused(long);
        assert_eq!(problem.code, "too_large");
        assert!(problem.message.contains("3145728"), "{}", problem.message);
        assert!(problem.hint.unwrap().contains("limits.stream_max_mib"));
    }
    streamed(&client, &StreamRequest::by("mu"), &vec![0; 3 << 20], true);
}

#[test]
fn a_server_ends_also_with_bodies_half_way() {
    let local = Local::start();
    create(&local.client(), "mu", "ml-dsa-44");
    let [ends, mut goes_on, rests] =
        [(); 3].map(|()| PausedUpload::begin(&local, "sign", "key=mu"));
    let (path, server, start) = (local.path(), local.server, Instant::now());
    let stops = thread::spawn(move || server.stop());
    while UnixStream::connect(&path).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(60), "it goes on to listen");
        thread::sleep(Duration::from_millis(5));
    }
    // Requests that complete meanwhile are answered, and the others are not signed.
    assert_eq!(ends.end().0, 200);
    goes_on.chunk(b"more");
    stops.join().unwrap();
    // The shutdown takes less than ten seconds, regardless of clients.
    assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
    for mut waits in [goes_on, rests] {
        let _ = waits.stream.write_all(b"0\r\n\r\n");
        let mut text = String::new();
        let _ = waits.stream.read_to_string(&mut text);
        assert!(!text.contains("HTTP/1.1 200"), "{text}");
    }
}

#[test]
fn a_body_in_chunks_ends_its_connection_and_no_request_hides_in_one() {
    let local = Local::start();
    create(&local.client(), "mu", "ml-dsa-44");
    let hidden = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n";
    let alive =
        |fields: &str| head(&local, "sign", "key=mu", fields).replace("Connection: close\r\n", "");
    let chunked = alive("Transfer-Encoding: chunked\r\n");
    let said = super::attacks::answers(
        &local,
        format!("{chunked}3\r\nabc\r\n0\r\n\r\n{hidden}").as_bytes(),
    );
    assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{said}");
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    let both = alive("Content-Length: 50\r\nTransfer-Encoding: chunked\r\n");
    let said = super::attacks::answers(&local, format!("{both}0\r\n\r\n{hidden}").as_bytes());
    assert_eq!(said.matches("HTTP/1.1 ").count(), 1, "{said}");
    // A length that is too short: what is left over is the next request, and none.
    let short = alive("Content-Length: 3\r\n");
    let said = super::attacks::answers(&local, format!("{short}abcdef\r\n\r\n").as_bytes());
    assert!(said.starts_with("HTTP/1.1 200") && said.contains("HTTP/1.1 400"), "{said}");
    // A refusal takes the rest of its body with it: the next request is the next one.
    let wrong = alive("Content-Length: 300000\r\n").replace("key=mu", "key=none");
    let text = [wrong.as_bytes(), &[b'x'; 300_000], hidden.as_bytes()].concat();
    let next = String::from_utf8(text)
        .unwrap()
        .replace("Host: x\r\n\r\n", "Host: x\r\nConnection: close\r\n\r\n");
    let said = super::attacks::answers(&local, next.as_bytes());
    assert!(said.starts_with("HTTP/1.1 404") && said.contains("HTTP/1.1 200"), "{said}");
}

/// Returns the maximum memory of the process so far in KiB.
fn most_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}

/// Runs in a child process, because the other tests of this process take memory, too.
#[test]
fn a_long_body_takes_no_memory() {
    const ALONE: &str = "GABION_TEST_STREAMS_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "streams::a_long_body_takes_no_memory";
        let test = std::env::current_exe().unwrap();
        let ran = std::process::Command::new(test)
            .args(["--exact", name, "--test-threads=1"])
            .env(ALONE, "1")
            .output()
            .unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stdout));
        return;
    }
    let local = Local::start();
    let client = local.client();
    create(&client, "mu", "ml-dsa-65");
    let sign =
        |size: u64| client.sign_stream(&StreamRequest::by("mu"), &mut Zeros(size), None).unwrap();
    sign(8 << 20);
    let before = most_kib();
    sign(256 << 20);
    let grew = most_kib() - before;
    assert!(grew < 16 << 10, "{grew} KiB");
}

#[test]
fn bytes_count_for_the_quota() {
    let place = Place::with("[quota]\nburst_seconds = 20\ntenants = { small = 1000 }\n");
    let _server = place.serve("store");
    place.unseal();
    let client = place.admin();
    let key = CreateKey {
        name: "mu".into(),
        algorithm: "ml-dsa-44".into(),
        tenant: Some("small".into()),
        ..CreateKey::default()
    };
    client.create(&key).unwrap();
    let what = StreamRequest { tenant: Some("small".into()), ..StreamRequest::by("mu") };
    // There are 20 ms less what the key took; 32 MiB are some 168.
    client.sign_stream(&what, &mut Zeros(32 << 20), None).unwrap();
    let problem = refused(client.sign_stream(&what, &mut Zeros(1), Some(1)));
    assert_eq!(problem.code, "quota_exceeded");
    let _: Value =
        client.post("/v1/kms/keys/mu/disable?tenant=small", &OfVersion { version: 1 }).unwrap();
}

#[test]
fn unreadable_message_is_not_signed() {
    struct FailingReader(usize);
    impl Read for FailingReader {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            if self.0 == 0 {
                return Err(std::io::Error::other("planted"));
            }
            self.0 -= 1;
            out.fill(1);
            Ok(out.len())
        }
    }
    let local = Local::start();
    let client = local.client();
    create(&client, "mu", "ml-dsa-44");
    let before = records(&client).records.len();
    for length in [None, Some(1 << 20)] {
        let failed = client.sign_stream(&StreamRequest::by("mu"), &mut FailingReader(2), length);
        assert!(matches!(failed, Err(Error::Message(_))), "{failed:?}");
    }
    // Shorter and longer than it was said to be.
    for size in [99, 101] {
        let failed = client.sign_stream(&StreamRequest::by("mu"), &mut Zeros(size), Some(100));
        assert!(matches!(failed, Err(Error::Message(_))), "{failed:?}");
    }
    client.sign(&Sign { message: Some(encode(b"m")), ..Sign::by("mu") }).unwrap();
    let told = serde_json::to_string(&records(&client).records[before..]).unwrap();
    assert_eq!(told.matches("\"sign\"").count(), 1, "{told}");
}

/// Large bodies keep processors busy, and not those who ask for little.
#[test]
fn quick_requests_are_answered_while_long_bodies_are_hashed() {
    let local = Local::start();
    let client = local.client();
    create(&client, "mu", "ml-dsa-44");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let long: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let client = local.client();
                    client
                        .sign_stream(&StreamRequest::by("mu"), &mut Zeros(64 << 20), None)
                        .unwrap();
                    is_over.store(true, Ordering::Relaxed);
                })
            })
            .collect();
        let mut quick = 0;
        while !is_over.load(Ordering::Relaxed) {
            client.sign(&Sign { message: Some(encode(b"m")), ..Sign::by("mu") }).unwrap();
            quick += 1;
        }
        for long in long {
            long.join().unwrap();
        }
        // A body of 64 MiB is as long as hundreds of them.
        assert!(quick > 10, "{quick}");
    });
}
