//! One side of a TLS 1.3 connection over rustls, with whatever provider its program brings.
//!
//! ```text
//! peer server PORT CERT KEY GROUPS [CA]     answers connections one after another; asks for a certificate
//!                                           that CA has signed
//! peer client PORT CA GROUPS [CERT KEY]     sends a line and prints the first line of the answer
//! ```
//!
//! GROUPS is a list with colons; a client's key share is of the first.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, Stream,
};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

/// A provider with a list of groups.
pub type Provider = fn(&str) -> Outcome<Arc<CryptoProvider>>;

/// Runs the command of the arguments.
pub fn run(provider: Provider) -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", port, cert, key, groups] => server(provider, port, cert, key, groups, None),
        ["server", port, cert, key, groups, ca] => {
            server(provider, port, cert, key, groups, Some(ca))
        }
        ["client", port, ca, groups] => client(provider, port, ca, groups, None),
        ["client", port, ca, groups, cert, key] => {
            client(provider, port, ca, groups, Some((cert, key)))
        }
        _ => Err("expected peer server PORT CERT KEY GROUPS [CA], or \
                  peer client PORT CA GROUPS [CERT KEY]"
            .into()),
    }
}

fn chain(file: &str) -> Result<Vec<CertificateDer<'static>>, Box<dyn Error>> {
    Ok(CertificateDer::pem_file_iter(file)?.collect::<Result<_, _>>()?)
}

fn roots(file: &str) -> Result<Arc<RootCertStore>, Box<dyn Error>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(file)?)?;
    Ok(Arc::new(roots))
}

fn accept(config: &Arc<ServerConfig>, mut socket: TcpStream) -> Outcome<()> {
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut connection = ServerConnection::new(Arc::clone(config))?;
    let mut tls = Stream::new(&mut connection, &mut socket);
    let mut line = [0; 256];
    let n = tls.read(&mut line)?;
    tls.write_all(&line[..n])?;
    connection.send_close_notify();
    connection.complete_io(&mut socket)?;
    Ok(())
}

fn server(
    provider: Provider,
    port: &str,
    cert: &str,
    key: &str,
    groups: &str,
    ca: Option<&str>,
) -> Outcome<()> {
    let provider = provider(groups)?;
    let config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?;
    let config = match ca {
        Some(ca) => config.with_client_cert_verifier(
            WebPkiClientVerifier::builder_with_provider(roots(ca)?, provider).build()?,
        ),
        None => config.with_no_client_auth(),
    }
    .with_single_cert(chain(cert)?, PrivateKeyDer::from_pem_file(key)?)?;
    let config = Arc::new(config);
    for socket in TcpListener::bind(format!("127.0.0.1:{port}"))?.incoming() {
        if let Err(error) = accept(&config, socket?) {
            eprintln!("{error}");
        }
    }
    Ok(())
}

fn client(
    provider: Provider,
    port: &str,
    ca: &str,
    groups: &str,
    pair: Option<(&str, &str)>,
) -> Outcome<()> {
    let config = ClientConfig::builder_with_provider(provider(groups)?)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots(ca)?);
    let config = match pair {
        Some((cert, key)) => {
            config.with_client_auth_cert(chain(cert)?, PrivateKeyDer::from_pem_file(key)?)?
        }
        None => config.with_no_client_auth(),
    };
    let mut connection =
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost")?)?;
    let mut socket = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    socket.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut tls = Stream::new(&mut connection, &mut socket);
    tls.write_all(b"hello\n")?;
    let mut line = [0; 256];
    let n = tls.read(&mut line)?;
    print!("{}", String::from_utf8_lossy(&line[..n]));
    connection.send_close_notify();
    let _ = connection.complete_io(&mut socket);
    Ok(())
}
