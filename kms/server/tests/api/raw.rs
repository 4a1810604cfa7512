//! Raw HTTP on a socket: valid and invalid requests.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gabion_kms_client::{Address, Client, Settings};
use gabion_kms_server::{Listen, Options, Server, ServiceHost};
use gabion_kms_wire::native::CreateKey;
use serde_json::Value;
use zeroize::Zeroizing;

/// A server at a socket of this machine.
pub struct Local {
    pub folder: tempfile::TempDir,
    pub server: Server,
    pub token: Zeroizing<String>,
}

impl Local {
    pub fn start() -> Local {
        Self::with(|host| host)
    }

    /// Starts a server over a host that `told` changes first.
    pub fn with(told: impl FnOnce(ServiceHost) -> ServiceHost) -> Local {
        Self::of(told, Options::default())
    }

    /// Starts a server with a changed host and other options.
    pub fn of(told: impl FnOnce(ServiceHost) -> ServiceHost, options: Options) -> Local {
        let folder = tempfile::tempdir().unwrap();
        let (host, token) = ServiceHost::in_memory().unwrap();
        let host = told(host);
        let listen = vec![Listen::Unix(folder.path().join("kms"))];
        let server = Server::start(Arc::new(host), &Options { listen, ..options }).unwrap();
        Local { folder, server, token }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("kms")
    }

    pub fn client(&self) -> Client {
        let settings = Settings {
            addresses: vec![Address::Unix(self.path())],
            token: Some(self.token.clone()),
            authorities: None,
            certificate: None,
            timeout: Duration::from_secs(30),
        };
        Client::new(&settings).unwrap()
    }

    /// The status of an answer, and its body as JSON.
    pub fn ask(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.ask_of("default", method, path, body)
    }

    /// Sends a request for a tenant.
    pub fn ask_of(&self, tenant: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
        self.ask_by(&self.token, tenant, method, path, body)
    }

    /// Sends a request with another token.
    pub fn ask_by(
        &self,
        token: &str,
        tenant: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let head = format!(
            "Host: x\r\nConnection: close\r\nX-Vault-Token: {token}\r\nX-Vault-Namespace: {tenant}"
        );
        let answer = self.exchange(&format!(
            "{method} {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// Returns the body at an open path.
    pub fn get(&self, path: &str) -> String {
        let answer =
            self.exchange(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Returns the bytes until the server closes the connection.
    pub fn exchange(&self, request: &str) -> String {
        exchange(&self.path(), request)
    }
}

/// Returns the bytes from a Unix socket until the server closes the connection.
pub fn exchange(path: &Path, request: &str) -> String {
    let mut stream = UnixStream::connect(path).unwrap();
    // An RSA key of 4096 bits takes seconds, and many of them on a machine that does other things.
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    // A server that rejects early may have closed the connection by now.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = String::new();
    match stream.read_to_string(&mut answer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => panic!("no end: {request:.60}"),
        Ok(_) | Err(_) => answer,
    }
}

#[test]
fn a_socket_of_this_machine_is_its_owners() {
    let local = Local::start();
    let mode = std::fs::metadata(local.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let key = CreateKey { name: "k".into(), algorithm: "ed25519".into(), ..CreateKey::default() };
    local.client().create(&key).unwrap();
    let path = local.path();
    local.server.stop();
    assert!(!path.exists());
}

/// After `kill -9` the socket's file is still there.
#[test]
fn a_socket_that_a_killed_server_left_is_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kms");
    let start = || {
        let (host, _) = ServiceHost::in_memory().unwrap();
        let listen = vec![Listen::Unix(path.clone())];
        Server::start(Arc::new(host), &Options { listen, ..Options::default() })
    };
    drop(UnixListener::bind(&path).unwrap());
    let server = start().unwrap();
    // A socket that is in use is not replaced, and a file that is not a socket is not removed.
    assert!(start().is_err());
    UnixStream::connect(&path).unwrap();
    server.stop();
    std::fs::write(&path, "mine").unwrap();
    assert!(start().is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
}

/// RFC 9110 asks for both fields.
#[test]
fn refusals_name_allowed_methods_and_authentication() {
    let local = Local::start();
    let fields = |request: &str| {
        let request = format!("{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        local.exchange(&request).to_ascii_lowercase()
    };
    for (request, allowed) in [
        ("PATCH /v1/kms/keys", "post, get, head"),
        ("GET /v1/kms/sign", "post"),
        ("DELETE /v1/transit/sign/k", "post, put"),
    ] {
        let answer = fields(request);
        assert!(answer.starts_with("http/1.1 405"), "{answer}");
        assert!(answer.contains(&format!("\r\nallow: {allowed}\r\n")), "{request}: {answer}");
    }
    assert!(fields("GET /v1/kms/keys").contains("\r\nwww-authenticate: bearer\r\n"));
}

/// A request that is rejected by its head has a body, too: the next request comes after it.
#[test]
fn a_connection_goes_on_after_a_refusal_whose_body_comes_late() {
    let local = Local::start();
    for head in [
        "POST /v1/kms/sign HTTP/1.1\r\nHost: x",
        "POST /nowhere HTTP/1.1\r\nHost: x",
        "PATCH /v1/kms/keys HTTP/1.1\r\nHost: x",
        "POST /v1/kms/unseal?colour=blue HTTP/1.1\r\nHost: x",
        "POST /healthz HTTP/1.1",
    ] {
        let mut stream = UnixStream::connect(local.path()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(format!("{head}\r\nContent-Length: 300000\r\n\r\n").as_bytes()).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        stream.write_all(&[b' '; 300_000]).unwrap();
        let next = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(next.as_bytes()).unwrap();
        let mut answers = String::new();
        stream.read_to_string(&mut answers).unwrap();
        assert!(answers.starts_with("HTTP/1.1 4"), "{head}: {answers}");
        assert!(
            answers.contains("HTTP/1.1 200") && answers.ends_with("{\"ok\":true}"),
            "{answers}"
        );
    }
}

#[test]
fn tokens_come_once_and_in_one_of_two_fields() {
    let local = Local::start();
    let token = &*local.token;
    let get = |fields: &str| {
        let fields = fields.replace("TOKEN", token);
        let request =
            format!("GET /v1/kms/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{fields}\r\n");
        local.exchange(&request).split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(get("Authorization: Bearer TOKEN\r\n"), "200");
    assert_eq!(get("authorization: bearer TOKEN\r\n"), "200");
    assert_eq!(get("X-Vault-Token: TOKEN\r\n"), "200");
    for fields in [
        "",
        "Authorization: Basic TOKEN\r\n",
        "Authorization: TOKEN\r\n",
        "Authorization: Bearer TOKENA\r\n",
        "X-Vault-Token: \r\n",
        "X-Vault-Token: TOKEN\r\nAuthorization: Bearer TOKEN\r\n",
    ] {
        assert_eq!(get(fields), "401", "{fields}");
    }
    for fields in [
        "X-Vault-Token: TOKEN\r\nX-Vault-Token: TOKEN\r\n",
        "Authorization: Bearer TOKEN\r\nauthorization: Bearer TOKEN\r\n",
        "X-Vault-Token: TOKEN\r\nX-Vault-Namespace: a\r\nX-Vault-Namespace: a\r\n",
    ] {
        assert_eq!(get(fields), "400", "{fields}");
    }
}

#[test]
fn malformed_http_closes_the_connection() {
    let local = Local::start();
    for request in [
        "nonsense\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\nConnection: close\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "POST /v1/kms/sign HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        "POST /v1/kms/sign HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        &format!("GET / HTTP/1.1\r\nHost: x\r\nA: {}\r\n\r\n", "a".repeat(200 << 10)),
    ] {
        let answer = local.exchange(request);
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(answer.is_empty() || status.starts_with('4'), "{request:.60}: {answer}");
    }
    local.client().status().unwrap();
}

/// A body that never ends is not read for ever, and takes no memory.
#[test]
fn a_body_in_chunks_has_the_same_limit() {
    let local = Local::start();
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(1 << 16));
    let mut stream = UnixStream::connect(local.path()).unwrap();
    let token = &*local.token;
    let head = format!(
        "POST /v1/kms/sign HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nTransfer-Encoding: chunked\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    for _ in 0..300 {
        if stream.write_all(chunk.as_bytes()).is_err() {
            break;
        }
    }
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 413");
}

/// The traceparent is in the audit record, together with the request id of the response.
#[test]
fn a_traceparent_is_in_the_record_of_its_request_and_a_bad_one_is_not() {
    let local = Local::start();
    let token = &*local.token;
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let ask = |fields: &str| {
        let answer = local.exchange(&format!(
            "GET /v1/kms/keys HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {token}\r\n{fields}\r\n"
        ));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{fields}: {answer}");
        let id = answer.lines().find_map(|line| line.strip_prefix("x-request-id: "));
        id.unwrap().trim().to_owned()
    };
    let fields = [
        format!("traceparent: {good}\r\n"),
        format!("Traceparent: {good}\r\ntracestate: a=b\r\n"),
        format!("traceparent: {good}\r\ntraceparent: {good}\r\n"),
        format!("traceparent: {}\r\n", good.replace("4b", "\"}")),
        "traceparent: x\r\n".to_owned(),
        String::new(),
    ];
    let ids: Vec<String> = fields.iter().map(|fields| ask(fields)).collect();
    let (_, said) = local.ask("GET", "/v1/kms/audit?limit=1000", &Value::Null);
    let records = said["records"].as_array().unwrap();
    let trace_of = |id: &String| {
        let found: Vec<&Value> = records
            .iter()
            .map(|one| &one["record"])
            .filter(|one| one["request_id"] == **id)
            .collect();
        assert_eq!(found.len(), 1, "{said}");
        found[0]["trace"].as_str().map(str::to_owned)
    };
    let traces: Vec<Option<String>> = ids.iter().map(trace_of).collect();
    let good = Some(good.to_owned());
    assert_eq!(traces, [good.clone(), good, None, None, None, None]);
}
