//! QUIC by quinn, server and client. quinn's own shortcuts (`with_single_cert`,
//! `with_root_certificates`) take aws-lc-rs whatever is installed, so both sides bring their
//! configuration of TLS. Neither lists a curve: they agree on a post-quantum group or fail.
//!
//! ```text
//! cargo run -p gabion-rustls-examples --bin quinn               the server: prints where it listens, and its roots
//! cargo run -p gabion-rustls-examples --bin quinn PORT ROOTS    the client
//! ```

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use gabion_rustls::groups::POST_QUANTUM;
use gabion_rustls::signing::FirstUsable;
use gabion_rustls_examples::{Localhost, Outcome};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Endpoint, Incoming};
use rustls::crypto::CryptoProvider;
use rustls::version::TLS13;
use rustls::{ClientConfig, ServerConfig};

/// The application's protocol, which QUIC asks for.
const PROTOCOL: &[u8] = b"greeting";
/// Bytes of a message at most.
const MESSAGE_MAX: usize = 1 << 10;

fn provider() -> Arc<CryptoProvider> {
    let kx_groups = POST_QUANTUM.to_vec();
    Arc::new(CryptoProvider { kx_groups, ..gabion_rustls::provider() })
}

/// One connection: a message, and its answer.
async fn answer(incoming: Incoming) -> Outcome<()> {
    let connection = incoming.await?;
    let (mut to_client, mut from_client) = connection.accept_bi().await?;
    let name = String::from_utf8(from_client.read_to_end(MESSAGE_MAX).await?)?;
    to_client.write_all(format!("hello, {name}").as_bytes()).await?;
    to_client.finish()?;
    // Until the client has it, and closes.
    connection.closed().await;
    Ok(())
}

async fn serve() -> Outcome<()> {
    let localhost = Localhost::make();
    let mut tls = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(FirstUsable::new(localhost.certified())));
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let endpoint =
        Endpoint::server(config, (Ipv4Addr::LOCALHOST, gabion_rustls_examples::port()?).into())?;
    localhost.announce("quic", endpoint.local_addr()?.port())?;
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            if let Err(error) = answer(incoming).await {
                eprintln!("{error}");
            }
        });
    }
    Ok(())
}

async fn ask(port: u16, roots: &str) -> Outcome<()> {
    let mut tls = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(gabion_rustls_examples::roots(roots)?)
        .with_no_client_auth();
    tls.alpn_protocols = vec![PROTOCOL.to_vec()];
    let mut endpoint = Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
    let config = QuicClientConfig::try_from(tls)?;
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(config)));
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let connection = endpoint.connect(server, "localhost")?.await?;
    let (mut to_server, mut from_server) = connection.open_bi().await?;
    to_server.write_all(b"QUIC").await?;
    to_server.finish()?;
    println!("{}", String::from_utf8(from_server.read_to_end(MESSAGE_MAX).await?)?);
    connection.close(0u32.into(), b"");
    endpoint.wait_idle().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Outcome<()> {
    match gabion_rustls_examples::server_to_ask()? {
        Some((port, roots)) => ask(port, &roots).await,
        None => serve().await,
    }
}
