//! Servers in this process. They end with it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use gabion_engine::Algorithm;
use gabion_probe::probe::{Options, Prober};
use gabion_probe::report::Report;
use gabion_probe::target::{Opening, StartTls, Target};
use gabion_rustls::testing::{Chain, Key, chain};
use rustls::crypto::{CryptoProvider, SupportedKxGroup};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

/// Chains that the tests share.
pub static CLASSICAL: LazyLock<Chain> =
    LazyLock::new(|| chain(Key::Engine(Algorithm::EcdsaP256), 0));
pub static ML_DSA: LazyLock<Chain> = LazyLock::new(|| chain(Key::Engine(Algorithm::MlDsa65), 1));

/// A listening server and the number of connections that it has accepted.
pub struct Server {
    pub address: SocketAddr,
    pub accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Runs `serve` on a thread for each connection.
    pub fn start(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
        Server::listen("127.0.0.1:0", serve)
    }

    pub fn listen(address: &str, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (serve, accepted) = (Arc::new(serve), Arc::new(AtomicUsize::new(0)));
        let count = accepted.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, serve) = (stream.unwrap(), serve.clone());
                count.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || serve(stream));
            }
        });
        Server { address, accepted }
    }

    /// A TLS server.
    pub fn tls(config: ServerConfig) -> Server {
        Server::tls_on("127.0.0.1:0", Arc::new(config))
    }

    pub fn tls_on(address: &str, config: Arc<ServerConfig>) -> Server {
        Server::listen(address, move |stream| serve_tls(&config, stream))
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Probes the server by its name.
    pub fn probe(&self, starttls: Option<StartTls>) -> Report {
        self.probe_with(starttls, Options { limit: Duration::from_secs(20), ..Options::default() })
    }

    pub fn probe_with(&self, starttls: Option<StartTls>, options: Options) -> Report {
        let opening = Opening { starttls, ..Opening::default() };
        let text = format!("localhost:{}", self.address.port());
        Prober::new(options).probe(&Target::parse(&text, opening).unwrap())
    }
}

/// Encodes a certificate in PEM.
pub fn pem(der: &[u8]) -> Vec<u8> {
    let lines = base64(der);
    format!("-----BEGIN CERTIFICATE-----\n{lines}-----END CERTIFICATE-----\n").into_bytes()
}

/// Encodes base64 in lines of 64 characters.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(48) {
        for three in chunk.chunks(3) {
            let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            for digit in 0..4 {
                let index = (bits >> (18 - 6 * digit)) as usize & 63;
                text.push(if digit > three.len() { '=' } else { DIGITS[index] as char });
            }
        }
        text.push('\n');
    }
    text
}

pub fn config(
    chain: &Chain,
    groups: &[&'static dyn SupportedKxGroup],
    versions: &[&'static SupportedProtocolVersion],
) -> ServerConfig {
    let provider = CryptoProvider { kx_groups: groups.to_vec(), ..gabion_rustls::provider() };
    ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.certificates.clone(), chain.file.clone_key())
        .unwrap()
}

/// A configuration as of a current server: hybrids, and curves for older clients.
pub fn hybrid(chain: &Chain) -> ServerConfig {
    config(chain, gabion_rustls::groups::DEFAULT, rustls::ALL_VERSIONS)
}

/// Completes the handshake, answers HTTP requests and waits for the client to close.
pub fn serve_tls(config: &Arc<ServerConfig>, mut stream: TcpStream) {
    let mut connection = ServerConnection::new(config.clone()).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    let mut request = [0; 2048];
    while let Ok(len @ 1..) = tls.read(&mut request) {
        if request[..len].starts_with(b"HEAD / HTTP/1.1\r\nHost: localhost:") {
            let _ = tls.write_all(b"HTTP/1.1 204 No Content\r\nServer: nginx/1.26.3\r\n\r\n");
        }
    }
    tls.conn.send_close_notify();
    let _ = tls.flush();
}
