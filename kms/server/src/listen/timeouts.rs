//! Time limits of slow or incomplete requests: each connection ends and releases its permit. The
//! tests use tokio's paused clock.

use std::future::{Future, pending};

use gabion_kms::gate::Peer;
use gabion_kms::model::Label;
use gabion_kms::operations::NewKey;
use gabion_kms::service::Call;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, WriteHalf, duplex, split};
use tokio::time::Instant;

use super::*;
use crate::lifecycle::service_host::ServiceHost;
use crate::net::options::Options;

/// The time limit of a body.
const BODY: Duration = Duration::from_secs(30);

/// The tolerance for events that happen immediately.
const AT_ONCE: Duration = Duration::from_secs(2);

type WriteEnd = WriteHalf<DuplexStream>;

/// Returns how long a connection lasts on which the client writes something and then stays idle,
/// and the answer.
async fn lasts<F: Future<Output = Option<WriteEnd>>>(
    talk: impl FnOnce(WriteEnd) -> F,
) -> (Duration, String) {
    lasts_at(ServiceHost::in_memory().unwrap().0, talk).await
}

/// Runs [`lasts`] on a server with keys.
async fn lasts_at<F: Future<Output = Option<WriteEnd>>>(
    host: ServiceHost,
    talk: impl FnOnce(WriteEnd) -> F,
) -> (Duration, String) {
    let state = RequestContext::new(Arc::new(host), &Options::default(), "").unwrap();
    let (client, server) = duplex(1 << 16);
    let (mut reads, writes) = split(client);
    let (_end, ends) = watch::channel(false);
    let start = Instant::now();
    let serves = async {
        serve_connection(server, ConnectionPeer::new(None, &[]), state, ends).await;
        start.elapsed()
    };
    let heard = async {
        let mut said = Vec::new();
        let _ = reads.read_to_end(&mut said).await;
        String::from_utf8(said).unwrap()
    };
    let talks = async {
        let _kept = talk(writes).await;
        pending::<()>().await;
    };
    tokio::select! {
        lasted = async { tokio::join!(serves, heard) } => lasted,
        () = talks => unreachable!(),
        () = sleep(HEAD * 10) => panic!("the connection is still there"),
    }
}

/// Writes a text, and then a byte every five seconds as long as the server reads.
async fn drips(mut writes: WriteEnd, first: &str) -> Option<WriteEnd> {
    writes.write_all(first.as_bytes()).await.unwrap();
    loop {
        sleep(Duration::from_secs(5)).await;
        if writes.write_all(b"a").await.is_err() {
            return Some(writes);
        }
    }
}

#[track_caller]
fn ends_after(lasted: Duration, wanted: Duration) {
    let most = wanted + AT_ONCE;
    assert!((wanted..most).contains(&lasted), "{lasted:?} instead of {wanted:?}");
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_byte_by_byte_ends() {
    for first in ["", "GET /heal", "GET /healthz HTTP/1.1\r\nHost: x\r\nA: "] {
        let (lasted, said) = lasts(|writes| drips(writes, first)).await;
        ends_after(lasted, HEAD);
        assert!(!said.contains("HTTP/1.1 200"), "{said}");
    }
    // Nothing at all, and nothing after an answer.
    let (lasted, said) = lasts(|writes| async { Some(writes) }).await;
    assert!(said.is_empty());
    ends_after(lasted, HEAD);
    let (lasted, said) = lasts(|mut writes| async {
        writes.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        Some(writes)
    })
    .await;
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    ends_after(lasted, HEAD);
}

#[tokio::test(start_paused = true)]
async fn slow_bodies_time_out_even_if_refused() {
    let head = "POST /v1/kms/unseal HTTP/1.1\r\nHost: x\r\n";
    for (first, status) in [
        (format!("{head}Content-Length: 1000\r\n\r\n{{"), "408"),
        // A chunk whose bytes arrive slowly.
        (format!("{head}Transfer-Encoding: chunked\r\n\r\n3e8\r\n"), "408"),
        ("POST /v1/kms/sign HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n".to_owned(), "401"),
        ("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n".to_owned(), "404"),
    ] {
        let (lasted, said) = lasts(|writes| drips(writes, &first)).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{first}: {said}");
        // The rest is not a request, and adds no time.
        assert_eq!(said.matches("HTTP/1.1").count(), 1, "{first}: {said}");
        ends_after(lasted, BODY);
    }
}

/// A client that closes its writing side sends no more requests: the connection ends at once, with
/// or without an answer.
#[tokio::test(start_paused = true)]
async fn a_socket_that_is_closed_half_way_ends() {
    for text in [
        "",
        "GET /heal",
        "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /v1/kms/unseal HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
        "POST /v1/kms/unseal HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{",
    ] {
        let (lasted, said) = lasts(|mut writes| async move {
            writes.write_all(text.as_bytes()).await.unwrap();
            writes.shutdown().await.unwrap();
            Some(writes)
        })
        .await;
        assert!(lasted < AT_ONCE, "{text}: {lasted:?}");
        assert!(said.matches("HTTP/1.1").count() <= 1, "{text}: {said}");
    }
}

/// A message in a body has to make progress, but has no total time limit.
#[tokio::test(start_paused = true)]
async fn a_message_that_comes_in_pieces_gets_on_or_ends() {
    /// The minimum progress per interval.
    const FLOOR: usize = 1 << 20;
    let with_key = || {
        let (host, token) = ServiceHost::in_memory().unwrap();
        let service = host.seal.service().unwrap();
        let who = service.authenticate(&token, &Peer::default()).unwrap();
        let [tenant, purpose, name] =
            ["default", "transit", "k"].map(|text| Label::new("name", text).unwrap());
        let algorithm = "ml-dsa-44".parse().unwrap();
        let new = NewKey { tenant, purpose, name, algorithm };
        service.create(&Call::new(&who, "r"), &new).unwrap();
        let head = format!(
            "POST /v1/kms/sign?key=k HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\
             Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
            *token,
            4 * FLOOR
        );
        (host, head)
    };
    let (host, head) = with_key();
    let (lasted, said) = lasts_at(host, |writes| drips(writes, &head)).await;
    assert!(said.starts_with("HTTP/1.1 408 ") && said.contains("1 MiB"), "{said}");
    ends_after(lasted, BODY);
    // A message at the minimum rate takes longer than that, and is signed.
    let (host, head) = with_key();
    let (lasted, said) = lasts_at(host, |mut writes| async move {
        writes.write_all(head.as_bytes()).await.unwrap();
        for _ in 0..4 {
            sleep(Duration::from_secs(28)).await;
            writes.write_all(&vec![7; FLOOR]).await.unwrap();
        }
        Some(writes)
    })
    .await;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
    assert!(lasted > 3 * BODY, "{lasted:?}");
}
