//! One side of a TLS 1.3 connection for tests/interop/tls.sh, over rustls and AWS-LC.
//!
//! ```text
//! peer server PORT CERT KEY     answers connections one after another
//! peer client PORT CA GROUP     sends a line and prints the first line of the answer
//! ```

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, ALL_KX_GROUPS};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::TLS13;
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, Stream,
};

type Outcome = Result<(), Box<dyn Error>>;

/// AWS-LC with the groups whose name `wanted` accepts.
fn provider(wanted: impl Fn(&str) -> bool) -> Arc<CryptoProvider> {
    let groups = ALL_KX_GROUPS.iter().copied();
    Arc::new(CryptoProvider {
        kx_groups: groups.filter(|group| wanted(&format!("{:?}", group.name()))).collect(),
        ..aws_lc_rs::default_provider()
    })
}

fn accept(config: &Arc<ServerConfig>, mut socket: TcpStream) -> Outcome {
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

fn server(port: &str, cert: &str, key: &str) -> Outcome {
    let chain = CertificateDer::pem_file_iter(cert)?.collect::<Result<Vec<_>, _>>()?;
    let config = ServerConfig::builder_with_provider(provider(|_| true))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    let config = Arc::new(config);
    for socket in TcpListener::bind(format!("127.0.0.1:{port}"))?.incoming() {
        if let Err(error) = accept(&config, socket?) {
            eprintln!("{error}");
        }
    }
    Ok(())
}

fn client(port: &str, ca: &str, group: &str) -> Outcome {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca)?)?;
    let provider = provider(|name| name.eq_ignore_ascii_case(group));
    if provider.kx_groups.is_empty() {
        return Err(format!("no group {group}").into());
    }
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
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

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", port, cert, key] => server(port, cert, key),
        ["client", port, ca, group] => client(port, ca, group),
        _ => Err("expected peer server PORT CERT KEY, or peer client PORT CA GROUP".into()),
    }
}
