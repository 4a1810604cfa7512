//! A connection to the service.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::address::Address;
use crate::error::Error;

/// The time limit of connecting.
const CONNECT: Duration = Duration::from_secs(5);

/// A stream to the service.
pub enum Connection {
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Unix(UnixStream),
}

impl Connection {
    /// Connects and completes the handshake. If this fails, no request was sent.
    ///
    /// # Errors
    /// [`Error::Unreachable`].
    pub fn open(
        address: &Address,
        tls: &Arc<ClientConfig>,
        timeout: Duration,
    ) -> Result<Self, Error> {
        let opened = match address {
            Address::Tls { host, port } => {
                over_tls(host, *port, tls, timeout).map(|stream| Connection::Tls(Box::new(stream)))
            }
            Address::Unix(path) => UnixStream::connect(path).and_then(|stream| {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Connection::Unix(stream))
            }),
        };
        opened.map_err(|error| Error::Unreachable {
            address: address.to_string(),
            reason: error.to_string(),
        })
    }

    /// Sets the time limit of reads.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Connection::Tls(stream) => stream.sock.set_read_timeout(Some(timeout)),
            Connection::Unix(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }

    /// Returns whether the connection is open and idle, as it should be between requests.
    pub fn is_quiet(&self) -> bool {
        let quiet = |result: io::Result<usize>| {
            result.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
        };
        match self {
            Connection::Tls(stream) => {
                let socket = &stream.sock;
                let peeked = socket.set_nonblocking(true).and_then(|()| socket.peek(&mut [0]));
                quiet(peeked) && socket.set_nonblocking(false).is_ok()
            }
            Connection::Unix(stream) => {
                // There is no peek; an idle connection has no data that could be lost.
                let read =
                    stream.set_nonblocking(true).and_then(|()| (&mut &*stream).read(&mut [0]));
                quiet(read) && stream.set_nonblocking(false).is_ok()
            }
        }
    }
}

fn over_tls(
    host: &str,
    port: u16,
    tls: &Arc<ClientConfig>,
    timeout: Duration,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(socket) => {
                socket.set_nodelay(true)?;
                socket.set_read_timeout(Some(timeout))?;
                socket.set_write_timeout(Some(timeout))?;
                let session = ClientConnection::new(tls.clone(), name)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                let mut stream = StreamOwned::new(session, socket);
                while stream.conn.is_handshaking() {
                    stream.conn.complete_io(&mut stream.sock)?;
                }
                return Ok(stream);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

impl Read for Connection {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Connection::Tls(stream) => stream.read(out),
            Connection::Unix(stream) => stream.read(out),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Connection::Tls(stream) => stream.write(bytes),
            Connection::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Connection::Tls(stream) => stream.flush(),
            Connection::Unix(stream) => stream.flush(),
        }
    }
}
