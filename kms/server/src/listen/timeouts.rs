//! Whoever is slow, or goes half-way: each of them ends, and gives its place back. Time is a test's here.

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

/// A body may take so long.
const BODY: Duration = Duration::from_secs(30);

/// What is done at once, as far as a test's clock tells.
const AT_ONCE: Duration = Duration::from_secs(2);

type WriteEnd = WriteHalf<DuplexStream>;

/// How long a connection lasts on which somebody talks and then does nothing any more, and what came back.
async fn lasts<F: Future<Output = Option<WriteEnd>>>(
    talk: impl FnOnce(WriteEnd) -> F,
) -> (Duration, String) {
    lasts_at(ServiceHost::in_memory().unwrap().0, talk).await
}

/// The same, where there are keys.
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

/// WriteEnd something, and then a byte each five seconds for as long as there is somebody who takes it.
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
        // A chunk of which a byte comes now and then.
        (format!("{head}Transfer-Encoding: chunked\r\n\r\n3e8\r\n"), "408"),
        ("POST /v1/kms/sign HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n".to_owned(), "401"),
        ("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n".to_owned(), "404"),
    ] {
        let (lasted, said) = lasts(|writes| drips(writes, &first)).await;
        assert!(said.starts_with(&format!("HTTP/1.1 {status} ")), "{first}: {said}");
        // What comes then is no request, and takes no time of its own.
        assert_eq!(said.matches("HTTP/1.1").count(), 1, "{first}: {said}");
        ends_after(lasted, BODY);
    }
}

/// Whoever writes no more has no more to ask for: with an answer or without it ends at once.
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

/// A message that is a body has to get on; it need not come to its end.
#[tokio::test(start_paused = true)]
async fn a_message_that_comes_in_pieces_gets_on_or_ends() {
    /// What gets on in a span of patience.
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
    // One that is as slow as it may be lasts longer than that, and is signed.
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
