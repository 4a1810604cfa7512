//! Requests to the key management service, over a socket: heads, queries and bodies as strangers write them.
//!
//! ```text
//!   first byte --0 of 8--> bytes as they are ----------------------------------> socket: no answer, or a right one
//!              \---------> a route of /openapi.json, its fields, words of them,
//!                          edits of the body ----------------------------------> socket: one answer, and a right one
//! ```
//!
//! A valid answer is of HTTP, of the stated length, without `internal`, and JSON if it says so; an
//! error has the format of its path and a code that /openapi.json lists. Requests never use the
//! token or the seal, and never make RSA keys, which takes seconds.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gabion_kms::gate::Action;
use gabion_kms_server::{Listen, Options, Server, ServiceHost, attenuate_token};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Input;

/// The number of requests to one server before a new one starts: this bounds the server's state,
/// and the requests that a finding depends on.
const REQUESTS: usize = 256;

/// A bit of the first byte: choices that look random follow the last one.
const STRETCHED: u8 = 0x80;

/// Deepest value that is put together.
const DEEP: usize = 5;

/// Words of fields, the right ones first; of other fields, all of them.
const WORDS: [(&[&str], &[&str]); 11] = [
    (&["message", "input", "plaintext", "data"], &["aGVsbG8=", "", "AAAA", "aGVsbG8", "!"]),
    (
        &["algorithm", "type"],
        &["ed25519", "ml-dsa-44", "ml-kem-512", "xaes-256-gcm", "hmac-sha-384", "x-wing", "none"],
    ),
    (
        &["algorithm", "hash_algorithm", "hash", "prehash"],
        &["sha2-256", "sha-256", "sha3-512", "shake256", "none"],
    ),
    (&["tenant", "purpose"], &["default", "transit", "other", ""]),
    (&["form", "format", "kind"], &["plaintext", "wrapped", "pkcs8", "raw", "spki", "x-wing"]),
    (
        &["nonce", "associated_data", "context", "public_key", "wrapped"],
        &["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AAAA", ""],
    ),
    (&["actions", "action"], &["sign", "verify", "seal", "none"]),
    (
        &["version", "limit", "after", "from", "index", "bytes"],
        &["1", "0", "2", "-1", "99999999999999999999", "ed"],
    ),
    (&["list"], &["true", "false"]),
    (
        &["policies"],
        &["permit(principal, action, resource);", "forbid(principal, action, resource) unless", ""],
    ),
    (&["expires", "expires_at", "ttl"], &["2030-01-01T00:00:00Z", "24h", "1", "-1s"]),
];

/// Keys that are there. Each is the one that paths with the word ask for.
const KEYS: [(&str, &str, &str); 5] = [
    ("ed", "ed25519", ""),
    ("ml", "ml-dsa-44", "batch"),
    ("aes", "aes256-gcm96", "crypt datakey rewrap wrap"),
    ("mac", "hmac-sha-256", "hmac"),
    ("kem", "ml-kem-512", "caps"),
];

/// The parameters of a path and a method.
struct Route {
    method: String,
    path: String,
    query: Vec<String>,
    body: Option<Value>,
}

/// A server, and its API description.
struct Service {
    folder: tempfile::TempDir,
    _server: Server,
    token: String,
    schemas: Value,
    codes: Vec<String>,
    routes: Vec<Route>,
    /// Outputs of the server, with the paths' prefix and the field's name: a signature, a
    /// ciphertext and the like.
    made: Vec<(&'static str, String, String)>,
    left: usize,
}

/// An answer.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Service {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (host, token) = ServiceHost::in_memory().unwrap();
        let listen = vec![Listen::Unix(folder.path().join("kms"))];
        let options = Options { listen, ..Options::default() };
        let server = Server::start(Arc::new(host), &options).unwrap();
        let may = |action: &&Action| !matches!(action, Action::Seal | Action::Token);
        let actions: Vec<&str> =
            Action::ALL.iter().filter(may).map(|action| action.as_str()).collect();
        let token = attenuate_token(&token, &[format!("actions={}", actions.join(","))]).unwrap();
        let described = exchange(
            folder.path(),
            b"GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        );
        let described = Answer::read(&described).unwrap();
        let described: Value = serde_json::from_slice(&described.body).unwrap();
        let schemas = described["components"]["schemas"].clone();
        let codes = schemas["Problem"]["properties"]["code"]["enum"].as_array().unwrap();
        let codes = codes.iter().map(|code| code.as_str().unwrap().to_owned()).collect();
        let mut service = Service {
            folder,
            _server: server,
            token: token.to_string(),
            routes: routes(&described["paths"]),
            schemas,
            codes,
            made: Vec::new(),
            left: REQUESTS,
        };
        service.made = service.make();
        service
    }

    /// Makes keys, and something by each of them.
    fn make(&self) -> Vec<(&'static str, String, String)> {
        for (name, algorithm, _) in KEYS {
            self.must("/v1/kms/keys", &json!({ "name": name, "algorithm": algorithm }));
        }
        let message = "aGVsbG8=";
        let mut made = Vec::new();
        let mut take = |of, answer: &Value| {
            let texts = answer.as_object().into_iter().flatten();
            made.extend(
                texts
                    .filter_map(|(name, text)| Some((of, name.clone(), text.as_str()?.to_owned()))),
            );
        };
        for (path, body) in [
            ("sign", json!({ "key": "ed", "message": message })),
            ("sign", json!({ "key": "ml", "message": message })),
            ("encrypt", json!({ "key": "aes", "plaintext": message })),
            ("hmac", json!({ "key": "mac", "message": message })),
            ("encaps", json!({ "key": "kem" })),
        ] {
            take("/v1/kms/", &self.must(&format!("/v1/kms/{path}"), &body));
        }
        for (path, body) in [
            ("sign/ed", json!({ "input": message })),
            ("encrypt/aes", json!({ "plaintext": message })),
            ("hmac/mac", json!({ "input": message })),
        ] {
            take("/v1/transit/", &self.must(&format!("/v1/transit/{path}"), &body)["data"]);
        }
        made
    }

    /// Returns the answer to a request that has to succeed.
    fn must(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let request = self.request("POST", path, "", body.as_bytes());
        let answer = Answer::read(&exchange(self.folder.path(), &request)).unwrap();
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, 200, "{path} {body}: {text}");
        serde_json::from_slice(&answer.body).unwrap()
    }

    /// A request that ends its connection.
    fn request(&self, method: &str, path: &str, fields: &str, body: &[u8]) -> Vec<u8> {
        let (token, length) = (&self.token, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {token}\r\n{fields}Content-Length: {length}\r\n\r\n"
        );
        [head.as_bytes(), body].concat()
    }

    /// One word for a field of a path's; zeros are the right one.
    fn word(&self, input: &mut Input<'_>, path: &str, name: &str) -> String {
        let mut words: Vec<&str> = Vec::new();
        if matches!(name, "key" | "name") {
            let is_asked =
                |of: &str| of.split(' ').any(|word| !word.is_empty() && path.contains(word));
            words.extend(KEYS.iter().filter(|(_, _, of)| is_asked(of)).map(|(name, ..)| name));
            words.extend(KEYS.iter().map(|(name, ..)| name).chain(&["new", "nobody"]));
        }
        let made = self.made.iter().filter(|(of, field, _)| path.starts_with(of) && field == name);
        words.extend(made.map(|(_, _, text)| text.as_str()));
        let known = WORDS.iter().filter(|(names, _)| names.contains(&name));
        words.extend(known.flat_map(|(_, known)| *known));
        if words.is_empty() || input.byte() % 8 == 7 {
            words = WORDS.iter().flat_map(|(_, known)| *known).copied().collect();
            words.extend(self.made.iter().map(|(_, _, text)| text.as_str()));
        }
        let word = words[input.below(words.len())];
        match input.byte() % 8 {
            7 => String::from_utf8_lossy(&input.edited(word.as_bytes())).into_owned(),
            _ => word.to_owned(),
        }
    }

    /// A value of a field as a schema has it, mostly; zeros are a right one.
    fn value(
        &self,
        input: &mut Input<'_>,
        at: (&str, &str),
        schema: &Value,
        depth: usize,
    ) -> Value {
        if input.byte() % 32 == 31 {
            return odd(input);
        }
        if let Some(name) = schema["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap_or_default();
            return self.value(input, at, &self.schemas[name], depth);
        }
        if let Some(forms) = schema["anyOf"].as_array().filter(|forms| !forms.is_empty()) {
            // The last one is null, mostly.
            let form = &forms[input.below(forms.len())];
            return self.value(input, at, form, depth);
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) if !kinds.is_empty() => kinds[input.below(kinds.len())].as_str(),
            kind => kind.as_str(),
        };
        match kind {
            Some("object") if depth < DEEP => self.object(input, at.0, schema, depth),
            Some("array") if depth < DEEP => {
                let items = 0..=input.byte() % 4;
                items.map(|_| self.value(input, at, &schema["items"], depth + 1)).collect()
            }
            Some("integer" | "number") => number(input),
            Some("boolean") => Value::Bool(input.byte() % 2 == 1),
            _ => Value::String(self.word(input, at.0, at.1)),
        }
    }

    fn object(&self, input: &mut Input<'_>, path: &str, schema: &Value, depth: usize) -> Value {
        let mut object = Map::new();
        let needed = schema["required"].as_array();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let is_needed = needed.is_some_and(|needed| needed.iter().any(|other| other == name));
            // Fields that the schema leaves optional, but the operations require.
            let is_needed = is_needed
                || match name.as_str() {
                    "message" | "input" | "plaintext" | "ciphertext" | "signature" | "policies" => {
                        true
                    }
                    "hmac" => schema["properties"]["signature"].is_null(),
                    _ => false,
                };
            let is_there = if is_needed { input.byte() % 8 != 7 } else { input.byte() % 4 == 3 };
            if is_there {
                object.insert(name.clone(), self.value(input, (path, name), field, depth + 1));
            }
        }
        if input.byte() % 16 == 15 {
            object.insert(self.word(input, path, ""), odd(input));
        }
        Value::Object(object)
    }

    /// A request of a route.
    fn composed(&self, input: &mut Input<'_>) -> (&Route, Vec<u8>) {
        let route = &self.routes[input.below(self.routes.len())];
        let mut path = String::new();
        for part in route.path.split_inclusive('/') {
            match part.strip_prefix('{') {
                Some(open) => {
                    let name = open.trim_end_matches(['}', '/']);
                    escaped(&mut path, &self.word(input, &route.path, name));
                    path.push_str(if part.ends_with('/') { "/" } else { "" });
                }
                None => path.push_str(part),
            }
        }
        for name in &route.query {
            if (input.byte() % 4 == 3) != matches!(name.as_str(), "index" | "list") {
                let before = if path.contains('?') { '&' } else { '?' };
                let _ = write!(path, "{before}{name}=");
                escaped(&mut path, &self.word(input, &route.path, name));
            }
        }
        let mut fields = String::new();
        for name in ["traceparent", "X-Vault-Namespace"] {
            if input.byte() % 16 == 15 {
                let _ = write!(
                    fields,
                    "{name}: {}\r\n",
                    plain(&self.word(input, &route.path, "tenant"))
                );
            }
        }
        let is_message = input.byte() % 16 == 15;
        let kind = if is_message { "application/octet-stream" } else { "application/json" };
        let _ = write!(fields, "Content-Type: {kind}\r\n");
        let body = match &route.body {
            _ if is_message => input.bytes(300).to_vec(),
            Some(schema) => {
                self.value(input, (&route.path, ""), schema, 0).to_string().into_bytes()
            }
            None => Vec::new(),
        };
        let body = if input.byte() % 8 == 7 { input.edited(&body) } else { body };
        (route, self.request(&route.method, &path, &fields, &body))
    }

    /// Insists on it that an answer is a right one.
    fn check(&self, answer: &Answer, is_head: bool) {
        let Answer { status, head, body } = answer;
        let said = || format!("{status} {head}\n{}", String::from_utf8_lossy(body));
        assert!((200..600).contains(status) && *status != 500, "{}", said());
        let field = |name: &str| {
            let mut lines = head.lines().filter_map(|line| line.split_once(": "));
            lines.find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        };
        let length: Option<usize> = field("content-length").map(|length| length.parse().unwrap());
        assert!(is_head || length.unwrap_or(0) == body.len(), "{}", said());
        assert!(!body.windows(self.token.len()).any(|part| part == self.token.as_bytes()));
        if body.is_empty() || !field("content-type").is_some_and(|kind| kind.ends_with("json")) {
            return;
        }
        let value: Value = serde_json::from_slice(body).unwrap_or_else(|_| panic!("{}", said()));
        if *status < 400 {
            return;
        }
        let is_listed = |code: &Value| self.codes.iter().any(|known| code == known);
        let has_reasons = value["reasons"].is_array();
        // As in Vault, a 404 has no reason.
        let has_errors = |errors: &Vec<Value>| *status == 404 || !errors.is_empty();
        let is_vaults = value["errors"].as_array().is_some_and(has_errors);
        assert!(is_listed(&value["code"]) || is_vaults || has_reasons, "{}", said());
        assert_ne!(value["code"], "internal", "{}", said());
    }
}

impl Answer {
    /// Reads the last answer of a connection; `None` if it sent no answer. The earlier ones are
    /// interim answers that ask for the body.
    fn read(bytes: &[u8]) -> Option<Self> {
        let at = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
        let status = head.strip_prefix("HTTP/1.").and_then(|rest| rest.split(' ').nth(1));
        let status =
            status.and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{head}"));
        let body = bytes[at + 4..].to_vec();
        if status < 200 { Self::read(&body) } else { Some(Answer { status, head, body }) }
    }
}

/// Returns the routes of each path, by method.
fn routes(paths: &Value) -> Vec<Route> {
    let mut routes = Vec::new();
    for (path, methods) in paths.as_object().unwrap() {
        if ["wrapping_key", "wrapping-key", "revoke-self"].iter().any(|end| path.ends_with(end)) {
            continue;
        }
        for (method, of) in methods.as_object().unwrap() {
            let is_query = |parameter: &&Value| parameter["in"] == "query";
            let parameters = of["parameters"].as_array().into_iter().flatten().filter(is_query);
            let query = parameters.map(|one| one["name"].as_str().unwrap().to_owned()).collect();
            let body = of["requestBody"]["content"]["application/json"].get("schema").cloned();
            routes.push(Route { method: method.to_uppercase(), path: path.clone(), query, body });
        }
    }
    routes
}

/// Returns a value that is valid nowhere.
fn odd(input: &mut Input<'_>) -> Value {
    match input.byte() % 8 {
        0 => Value::Null,
        1 => json!(true),
        2 => number(input),
        3 => json!({ "x": [null] }),
        4 => json!([[[[[[]]]]]]),
        5 => json!(1.5e300),
        6 => json!("\u{0}\u{202e}\u{10ffff}"),
        _ => json!("A".repeat(input.below(5000))),
    }
}

fn number(input: &mut Input<'_>) -> Value {
    const EDGES: [i64; 10] = [1, 0, 2, 3, 64, -1, 3600, 1 << 31, 1 << 53, i64::MAX];
    match input.byte() % 12 {
        11 => json!(u64::MAX),
        edge => json!(EDGES.get(usize::from(edge)).copied().unwrap_or(i64::MIN)),
    }
}

/// Percent-encoded, as a path or a query has it.
fn escaped(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' => {
                out.push(char::from(byte))
            }
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
}

/// Returns the text restricted to characters that a header field may contain.
fn plain(text: &str) -> String {
    text.chars().filter(|char| char.is_ascii_graphic()).collect()
}

/// Sends bytes, and gives what comes until the other end ends.
fn exchange(folder: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut socket = UnixStream::connect(folder.join("kms")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The server may close the connection of a refused request before the end of its body.
    let _ = socket.write_all(bytes);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    answer
}

/// Sends bytes that may be no request, and then nothing more.
fn sent(folder: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut socket = UnixStream::connect(folder.join("kms")).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    let _ = socket.read_to_end(&mut answer);
    answer
}

/// An input, and choices behind it that look random; about half of them are those after which all is as it should be.
fn stretched(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    for block in 0..8 {
        let random = Sha256::new().chain_update(data).chain_update([block]).finalize();
        bytes.extend(random.iter().map(|byte| if byte.count_ones() > 4 { *byte } else { 0 }));
    }
    bytes
}

pub fn run(data: &[u8]) {
    static SERVICE: Mutex<Option<Service>> = Mutex::new(None);
    let mut place = SERVICE.lock().unwrap_or_else(PoisonError::into_inner);
    if place.as_ref().is_none_or(|service| service.left == 0) {
        *place = None;
    }
    let service = place.get_or_insert_with(Service::start);
    service.left -= 1;
    let folder = service.folder.path();
    let stretched = match data.first() {
        Some(first) if first & STRETCHED != 0 => stretched(data),
        _ => Vec::new(),
    };
    let mut input = Input::new(if stretched.is_empty() { data } else { &stretched });
    if input.byte().is_multiple_of(8) {
        let bytes = input.rest();
        // Several requests have several answers: of those the first is looked at.
        if let Some(Answer { status, head, .. }) = Answer::read(&sent(folder, bytes)) {
            assert_ne!(status, 500, "{head}");
        }
        return;
    }
    let (route, request) = service.composed(&mut input);
    let answer = exchange(folder, &request);
    match Answer::read(&answer) {
        Some(answer) => service.check(&answer, route.method == "HEAD"),
        None => panic!("no answer: {}", String::from_utf8_lossy(&request)),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let raw = [
        "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/kms/unseal HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "POST /v1/kms/unseal HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n\r\n{\"share\":\"x\"}GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET /v1/sys/health?standbyok=true HTTP/1.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    let mut seeds: Vec<Vec<u8>> =
        raw.iter().map(|text| [b"\0", text.as_bytes()].concat()).collect();
    for route in 0..96_u16 {
        let [low, high] = route.to_le_bytes();
        seeds.push(vec![1, low, high]);
        seeds.extend((0..8).map(|more| vec![STRETCHED | 1, low, high, more]));
    }
    seeds
}
