//! The memory of the key management service for a body: about four times its size at most, at every
//! route and for any content. The memory from the allocator is counted; no time is measured.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gabion_kms_server::{Listen, Options, Server, ServiceHost};
use serde_json::Value;

/// Bytes that are given out, and the most that were.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct CountingAllocator;

impl CountingAllocator {
    fn gave(bytes: usize) {
        let now = NOW.fetch_add(bytes, Ordering::Relaxed) + bytes;
        MOST.fetch_max(now, Ordering::Relaxed);
    }
}

// SAFETY: every request goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CountingAllocator::gave(layout.size());
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        CountingAllocator::gave(layout.size());
        // SAFETY: the caller's promise about the layout is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from the system's allocator with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both are there while it is moved.
        CountingAllocator::gave(size);
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from the system's allocator with this layout; the caller promises the rest.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Bytes of a body.
const BODY: usize = 512 << 10;

/// Additional memory: for a request, for the items of a batch, and for threads that come and go.
const BESIDES: usize = 1 << 20;

/// A text that is as long as fits between two others.
fn filled(before: &str, with: &str, after: &str) -> String {
    let count = (BODY - before.len() - after.len()) / with.len();
    format!("{before}{}{after}", with.repeat(count))
}

/// Bodies that are made of many small things, or of one that is large.
fn bodies(fields: &[String], required: &str) -> Vec<String> {
    let mut bodies = vec![
        filled("{\"batch_input\":[{}", ",{}", "]}"),
        filled("{\"items\":[{}", ",{}", "]}"),
        filled("{\"unknown\":[0", ",0", "]}"),
        filled("{\"unknown\":[\"\"", ",\"\"", "]}"),
        filled("{\"unknown\":[[[[[[0]]]]]", ",[[[[[0]]]]]", "]}"),
        filled("{\"unknown\":{\"a\":[0]", ",\"a\":[0]", "}}"),
        filled("{\"", "a", "\":1}"),
        filled("{\"", "\\u0061", "\":1}"),
        filled("{\"unknown\":\"", "\\n", "\"}"),
        filled("{", "\"a\":0,", "\"b\":0}"),
        filled("", "[", ""),
        filled("{\"unknown\":", " ", "1}"),
        filled("", "\u{0}", ""),
    ];
    for (at, field) in fields.iter().enumerate() {
        let start = format!("{{{required}\"{field}\":");
        bodies.push(filled(&format!("{start}\""), "AAAA", "\"}"));
        bodies.push(filled(&format!("{start}[{{}}"), ",{}", "]}"));
        if at == 0 {
            bodies.push(filled(&format!("{start}\""), "\\u0041", "\"}"));
            bodies.push(filled(&format!("{start}[0"), ",0", "]}"));
            bodies.push(filled(&format!("{start}0"), &format!(",\"{field}\":0"), "}"));
        }
    }
    bodies
}

/// A route that takes a body.
struct Route {
    method: String,
    path: String,
    fields: Vec<String>,
    required: String,
}

fn routes(description: &Value) -> Vec<Route> {
    let mut routes = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for (method, route) in methods.as_object().unwrap() {
            let schema = &route["requestBody"]["content"]["application/json"]["schema"];
            if route.get("requestBody").is_none() {
                continue;
            }
            let name = schema["$ref"].as_str().and_then(|name| name.rsplit('/').next());
            let schema = &description["components"]["schemas"][name.unwrap_or_default()];
            let fields = schema["properties"].as_object().map(|of| of.keys().cloned().collect());
            let path = path.split('/').map(|part| match part {
                "{bytes}" | "{version}" => "1",
                part if part.starts_with('{') => "k",
                part => part,
            });
            let path: String = path.collect::<Vec<_>>().join("/");
            let required = if path.starts_with("/v1/kms/") { "\"key\":\"k\"," } else { "" };
            let fields: Vec<String> = fields.unwrap_or_default();
            let required = if fields.iter().any(|field| field == "key") { required } else { "" };
            routes.push(Route {
                method: method.to_uppercase(),
                path,
                fields,
                required: required.to_owned(),
            });
        }
    }
    routes
}

/// Returns the status of the answer, and the peak of allocated bytes meanwhile, without the body
/// that is held here.
fn asked(socket: &Path, token: &str, method: &str, path: &str, body: &str) -> (u16, usize) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Vault-Token: {token}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = UnixStream::connect(socket).unwrap();
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    stream.write_all(head.as_bytes()).unwrap();
    // A server that refuses the request early may have closed the connection.
    let _ = stream.write_all(body.as_bytes());
    let (mut piece, mut start) = ([0; 4096], Vec::with_capacity(64));
    while let Ok(count) = stream.read(&mut piece) {
        if count == 0 {
            break;
        }
        start.extend(piece[..count].iter().take(64 - start.len()));
    }
    let most = MOST.load(Ordering::Relaxed).saturating_sub(before);
    let start = String::from_utf8_lossy(&start);
    (start.split(' ').nth(1).map_or(0, |status| status.parse().unwrap()), most)
}

#[test]
fn no_body_takes_more_than_four_times_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("kms");
    let (host, token) = ServiceHost::in_memory().unwrap();
    let options = Options { listen: vec![Listen::Unix(socket.clone())], ..Options::default() };
    let server = Server::start(Arc::new(host), &options).unwrap();
    let (status, _) = asked(
        &socket,
        &token,
        "POST",
        "/v1/kms/keys",
        r#"{"name":"k","algorithm":"xaes-256-gcm"}"#,
    );
    assert_eq!(status, 200);
    let mut stream = UnixStream::connect(&socket).unwrap();
    stream
        .write_all(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut description = String::new();
    stream.read_to_string(&mut description).unwrap();
    let (_, description) = description.split_once("\r\n\r\n").unwrap();
    let description: Value = serde_json::from_str(description).unwrap();
    let routes = routes(&description);
    assert!(routes.len() > 40, "{}", routes.len());
    let (mut worst, mut failed) = (0, Vec::new());
    for route in &routes {
        let is_change = route.path.starts_with("/v1/kms/keys") || route.path.ends_with("/tokens");
        for body in bodies(&route.fields, &route.required) {
            for query in ["", "?op_id=o"].into_iter().take(1 + usize::from(is_change)) {
                let path = format!("{}{query}", route.path);
                let (status, most) = asked(&socket, &token, &route.method, &path, &body);
                worst = worst.max(most);
                if most > 4 * BODY + BESIDES {
                    failed.push(format!("{most} {status} {} {path} {body:.60}", route.method));
                }
            }
        }
    }
    server.stop();
    assert!(failed.is_empty(), "{worst}:\n{}", failed.join("\n"));
}
