//! Sockets and connections.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::server::Acceptor;
use rustls::{ServerConfig, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::error::Error;
use crate::http::{self, RequestContext};
use crate::net::connection_limits::ConnectionPermit;
use crate::net::handshakes;
use crate::net::options::Listen;
use crate::net::peer::ConnectionPeer;
use crate::net::tls::Tls;
use crate::net::write_deadline::WriteDeadline;

/// The time limit of a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time limit of a request head, and of an idle connection.
const HEAD: Duration = Duration::from_secs(60);

/// How long an answer may wait to be read.
const ANSWER: Duration = Duration::from_secs(30);

/// The pause after a connection could not be accepted, for example because of too many open files.
const PAUSE: Duration = Duration::from_millis(50);

/// The maximum number of connections that wait to be accepted at a Unix socket.
const BACKLOG: u32 = 1024;

/// The maximum size of a request head in bytes.
const HEAD_MAX: usize = 32 << 10;

/// A listening socket.
pub enum Listener {
    Tls(TcpListener, Arc<Tls>),
    Unix(UnixListener, Listen),
}

/// The stream of an accepted connection.
enum AcceptedStream {
    Tls(TcpStream, SocketAddr, Arc<ServerConfig>),
    Unix(UnixStream),
}

impl Listener {
    /// Starts listening. Has to be called within a tokio runtime.
    ///
    /// # Errors
    /// The address is in use or not on this machine.
    pub fn new(listen: &Listen, tls: Option<Arc<Tls>>) -> Result<Self, Error> {
        match (listen, tls) {
            (Listen::Tls(address), Some(tls)) => {
                let what = format!("listen at {address}");
                let socket = std::net::TcpListener::bind(address)
                    .and_then(|socket| {
                        socket.set_nonblocking(true)?;
                        TcpListener::from_std(socket)
                    })
                    .map_err(Error::system(what))?;
                Ok(Listener::Tls(socket, tls))
            }
            (Listen::Tls(address), None) => {
                Err(Error::Settings(format!("{address} needs a certificate")))
            }
            (Listen::Unix(path), _) => {
                let what = format!("listen at {}", path.display());
                let socket = private(path).or_else(|error| match error.kind() {
                    io::ErrorKind::AddrInUse if is_left_over(path) => {
                        std::fs::remove_file(path)?;
                        private(path)
                    }
                    _ => Err(error),
                });
                let socket = socket.and_then(|socket| {
                    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                    socket.listen(BACKLOG)
                });
                Ok(Listener::Unix(socket.map_err(Error::system(what))?, listen.clone()))
            }
        }
    }

    /// Returns the address.
    ///
    /// # Errors
    /// Does not fail for bound sockets.
    pub fn address(&self) -> Result<Listen, Error> {
        match self {
            Listener::Tls(socket, _) => socket
                .local_addr()
                .map(Listen::Tls)
                .map_err(Error::system("ask for a socket's address")),
            Listener::Unix(_, listen) => Ok(listen.clone()),
        }
    }

    /// Returns whether only this machine can connect.
    pub fn is_local(&self) -> bool {
        matches!(self, Listener::Unix(..))
    }

    async fn accept(&self) -> io::Result<AcceptedStream> {
        match self {
            Listener::Tls(socket, tls) => {
                let (stream, from) = socket.accept().await?;
                stream.set_nodelay(true)?;
                Ok(AcceptedStream::Tls(stream, from, tls.config()))
            }
            Listener::Unix(socket, _) => Ok(AcceptedStream::Unix(socket.accept().await?.0)),
        }
    }
}

/// Creates a socket file that only its owner can use from the start, regardless of the umask: Linux
/// gives the file the mode of the socket. Other systems do not support that, but connections are
/// only possible after the socket listens.
fn private(path: &Path) -> io::Result<UnixSocket> {
    let socket = UnixSocket::new_stream()?;
    let _ = rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(0o600));
    socket.bind(path)?;
    Ok(socket)
}

/// Returns whether no process listens at a socket file, such as one left by a killed server.
fn is_left_over(path: &Path) -> bool {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    let asked = || std::os::unix::net::UnixStream::connect(path);
    is_socket && asked().is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Accepts connections until the server ends.
pub async fn accept(
    bound: Listener,
    shared: RequestContext,
    connections: Arc<Semaphore>,
    mut end: watch::Receiver<bool>,
) {
    loop {
        // Take a permit first: connections beyond the limit wait in the kernel's queue.
        let taken = tokio::select! {
            _ = end.wait_for(|end| *end) => return,
            taken = connections.clone().acquire_owned() => taken,
        };
        let Ok(place) = taken else { return };
        let accepted = tokio::select! {
            _ = end.wait_for(|end| *end) => return,
            accepted = bound.accept() => accepted,
        };
        let of_address = match &accepted {
            Ok(AcceptedStream::Tls(_, from, _)) => {
                shared.state.connection_limits.take(from.ip()).map(Some)
            }
            Ok(AcceptedStream::Unix(_)) | Err(_) => Some(None),
        };
        match (accepted, of_address) {
            (Ok(accepted), Some(of_address)) => {
                let places = (place, of_address);
                tokio::spawn(connection(accepted, shared.clone(), places, end.clone()));
            }
            // Before the handshake, which would cost more than an error message is worth.
            (Ok(_), None) => shared.state.count_refused(),
            (Err(_), _) => sleep(PAUSE).await,
        }
    }
}

async fn connection(
    accepted: AcceptedStream,
    shared: RequestContext,
    _places: (OwnedSemaphorePermit, Option<ConnectionPermit>),
    end: watch::Receiver<bool>,
) {
    match accepted {
        // If the handshake fails, no error can be reported to the client.
        AcceptedStream::Tls(stream, from, config) => {
            let Ok(Ok((stream, scheme))) = timeout(HANDSHAKE, handshake(stream, config)).await
            else {
                shared.state.count_failed_handshake();
                return;
            };
            shared.state.handshakes.count(stream.get_ref().1, scheme);
            let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
            let from = ConnectionPeer::new(Some(from.ip().to_canonical()), chain);
            serve_connection(stream, from, shared, end).await;
        }
        AcceptedStream::Unix(stream) => {
            serve_connection(stream, ConnectionPeer::new(None, &[]), shared, end).await
        }
    }
}

/// Performs a handshake. Returns the signature scheme of the server, too, which a resumed session
/// does not use.
async fn handshake(
    stream: TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<(TlsStream<TcpStream>, Option<SignatureScheme>)> {
    let start = LazyConfigAcceptor::new(Acceptor::default(), stream).await?;
    let scheme = handshakes::scheme_for(&config, start.client_hello());
    Ok((start.into_stream(config).await?, scheme))
}

/// Serves a connection until it closes. When the server ends, the current request is still
/// answered.
async fn serve_connection<S>(
    stream: S,
    from: ConnectionPeer,
    shared: RequestContext,
    mut end: watch::Receiver<bool>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = WriteDeadline::new(stream, ANSWER, from.gate.clone());
    let from = Arc::new(from);
    let service =
        service_fn(move |request| http::answer_with_fields(shared.clone(), from.clone(), request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        _ = end.wait_for(|end| *end) => connection.as_mut().graceful_shutdown(),
    }
    // The client notices any error itself.
    let _ = connection.await;
}

#[cfg(test)]
mod timeouts;

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;
    use crate::lifecycle::service_host::ServiceHost;
    use crate::net::options::Options;

    /// Before the mode of the file is changed.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_sockets_file_is_its_owners_from_the_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kms");
        let _socket = private(&path).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn client_that_reads_no_response_is_disconnected() {
        let (host, _) = ServiceHost::in_memory().unwrap();
        let shared =
            RequestContext::new(Arc::new(host), &Options::default(), include_str!("listen.rs"));
        let (mut client, server) = tokio::io::duplex(256);
        let (_end, ends) = watch::channel(false);
        let ask = client.write_all(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n");
        let asked = async {
            ask.await.unwrap();
            // It stays open, and reads nothing.
            std::future::pending::<()>().await
        };
        tokio::select! {
            () = serve_connection(server, ConnectionPeer::new(None, &[]), shared.unwrap(), ends) => {}
            () = asked => {}
            () = sleep(HEAD * 10) => panic!("the connection is still there"),
        }
    }
}
