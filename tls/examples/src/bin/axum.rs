//! An axum server whose handshakes are post-quantum, with two certificates: of ML-DSA for clients that know it, and of
//! ECDSA for browsers.
//!
//! ```text
//! cargo run -p gabion-rustls-examples --bin axum [PORT]       prints where it listens, and its roots' FILE
//! openssl s_client -connect localhost:PORT -CAfile FILE -verify_return_error     of OpenSSL 3.5 or newer
//! ```

use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use axum::{Extension, Router};
use gabion_rustls::signing::FirstUsable;
use gabion_rustls_examples::{Localhost, Outcome};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::{NamedGroup, ServerConfig};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt;

/// How long a client may take for its handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// The group that the handshake of a request's connection negotiated.
#[derive(Clone, Copy)]
struct NegotiatedGroup(Option<NamedGroup>);

async fn hello(Extension(NegotiatedGroup(group)): Extension<NegotiatedGroup>) -> String {
    format!("hello over {}\n", group.map_or("no group".into(), |group| format!("{group:?}")))
}

/// One connection, from its handshake to its end.
async fn serve(tls: TlsAcceptor, socket: TcpStream, router: Router) -> Outcome<()> {
    let stream = tokio::time::timeout(HANDSHAKE_MAX, tls.accept(socket)).await??;
    let group = stream.get_ref().1.negotiated_key_exchange_group();
    let agreed = NegotiatedGroup(group.map(|group| group.name()));
    let service = service_fn(|mut request: Request<Incoming>| {
        request.extensions_mut().insert(agreed);
        router.clone().oneshot(request)
    });
    let mut http = http1::Builder::new();
    Ok(http.timer(TokioTimer::new()).serve_connection(TokioIo::new(stream), service).await?)
}

#[tokio::main]
async fn main() -> Outcome<()> {
    gabion_rustls::install_default().map_err(|_| "another provider was installed before")?;
    let localhost = Localhost::make();
    let mut config = ServerConfig::builder()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(FirstUsable::new(localhost.certified())));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ticketer = gabion_rustls::Ticketer::new()?;

    let tls = TlsAcceptor::from(Arc::new(config));
    let router = Router::new().route("/", get(hello));
    let listener = TcpListener::bind(("127.0.0.1", gabion_rustls_examples::port()?)).await?;
    localhost.announce("https", listener.local_addr()?.port())?;
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            // As when there are no more files: others will be closed.
            tokio::time::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let connection = serve(tls.clone(), socket, router.clone());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("{error}");
            }
        });
    }
}
