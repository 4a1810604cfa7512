//! A hyper client: asks a server such as the example `axum`, and says what was agreed on.
//!
//! ```text
//! cargo run -p gabion-rustls-examples --bin hyper PORT ROOTS
//! ```

use std::sync::Arc;

use bytes::Bytes;
use gabion_rustls_examples::Outcome;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[tokio::main]
async fn main() -> Outcome<()> {
    gabion_rustls::install_default().map_err(|_| "another provider was installed before")?;
    let (port, roots) = gabion_rustls_examples::server_to_ask()?.ok_or("expected PORT ROOTS")?;
    let config = ClientConfig::builder()
        .with_root_certificates(gabion_rustls_examples::roots(&roots)?)
        .with_no_client_auth();
    let tls = TlsConnector::from(Arc::new(config));
    let socket = TcpStream::connect(("127.0.0.1", port)).await?;
    let stream = tls.connect(ServerName::try_from("localhost")?, socket).await?;
    let group = stream.get_ref().1.negotiated_key_exchange_group();
    println!("{:?}", group.ok_or("no group")?.name());

    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get("/").header("host", "localhost").body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    println!("{}", answer.status());
    print!("{}", String::from_utf8_lossy(&answer.into_body().collect().await?.to_bytes()));
    Ok(())
}
