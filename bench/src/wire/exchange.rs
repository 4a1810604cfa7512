//! One connection over real sockets: server, relay, client.

use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;

use super::relay::{ByteCounts, Relay};
use super::{CIPHER, MESSAGES, Mode, TIMEOUT};
use crate::ossl::{Certificate, Connection, Context, Endpoint, Error, Key};
use crate::pairs;
use crate::tls::{Credentials, HOST};

/// Certificates by signature algorithm: making them is most of the work.
#[derive(Default)]
pub(super) struct Parties {
    made: BTreeMap<&'static str, [Credentials; 2]>,
}

impl Parties {
    /// Makes one connection and returns what passed, with the lengths of the certificates that
    /// were sent.
    ///
    /// # Errors
    /// `Call` with OpenSSL's reasons when something is not served, or the connection failed.
    pub(super) fn connect(
        &mut self,
        context: &Context,
        group: &str,
        signature: &str,
        mode: Mode,
    ) -> Result<(ByteCounts, Vec<usize>), Error> {
        let signature = pairs::signature(signature)
            .ok_or_else(|| Error::Call(format!("no signature is called {signature}")))?;
        if !self.made.contains_key(signature.name) {
            let make = || Credentials::make_in(context, signature);
            self.made.insert(signature.name, [make()?, make()?]);
        }
        let [server, client] = &self.made[signature.name];
        let key = |credentials: &Credentials| Key::from_der(context, &credentials.leaf_key);
        let read = |der: &[u8]| Certificate::from_der(context, der);
        let leaf = read(&server.leaf)?;
        let mut sent = vec![server.leaf.len()];
        let accepting = Endpoint::server(context, group, Some(CIPHER), &key(server)?, &leaf)?;
        let connecting = Endpoint::client(context, group, Some(CIPHER), &read(&server.root)?)?;
        if mode == Mode::Mutual {
            accepting.demand_client(&read(&client.root)?)?;
            connecting.identify(&key(client)?, &read(&client.leaf)?)?;
            sent.push(client.leaf.len());
        }
        Ok((converse(&accepting, &connecting)?, sent))
    }
}

/// Carries one connection from the first byte to the last.
fn converse(server: &Endpoint, client: &Endpoint) -> Result<ByteCounts, Error> {
    let broken = |cause: std::io::Error| Error::Call(format!("a loopback socket failed: {cause}"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(broken)?;
    let relay = Relay::start(listener.local_addr().map_err(broken)?).map_err(broken)?;
    // The client connects first: the relay accepts one connection, and would otherwise wait for it.
    let socket = TcpStream::connect_timeout(&relay.address(), TIMEOUT).map_err(broken)?;
    let served = thread::scope(|scope| {
        let serving = scope.spawn(|| {
            let (socket, _) = listener.accept().map_err(broken)?;
            serve(server, &socket)
        });
        // The socket is closed with the conversation, so that the peer does not wait for more.
        let asked = ask(client, &socket);
        drop(socket);
        let served = serving.join();
        // The client knows more of a failed handshake: it sees the server's alert, too.
        asked?;
        served.unwrap_or_else(|_| Err(Error::Call("the server's thread failed".into())))
    });
    served?;
    relay.finish().map_err(broken)
}

/// The server's part of a connection, from handshake to goodbye.
///
/// # Errors
/// `Call` with OpenSSL's reasons.
pub(crate) fn serve(server: &Endpoint, socket: &TcpStream) -> Result<(), Error> {
    let broken = |cause: std::io::Error| Error::Call(format!("the server's socket: {cause}"));
    ready(socket).map_err(broken)?;
    let mut connection = Connection::over_socket(server, socket.as_fd(), HOST)?;
    connection.complete()?;
    expect(&mut connection, MESSAGES[0])?;
    connection.send(MESSAGES[1])?;
    finish(&mut connection)
}

/// The client's part of a connection, from handshake to goodbye.
///
/// # Errors
/// `Call` with OpenSSL's reasons.
pub(crate) fn ask(client: &Endpoint, socket: &TcpStream) -> Result<(), Error> {
    let broken = |cause: std::io::Error| Error::Call(format!("the client's socket: {cause}"));
    ready(socket).map_err(broken)?;
    let mut connection = Connection::over_socket(client, socket.as_fd(), HOST)?;
    connection.complete()?;
    connection.send(MESSAGES[0])?;
    expect(&mut connection, MESSAGES[1])?;
    finish(&mut connection)
}

/// Sets a time limit for reads, and sends small packets immediately.
fn ready(socket: &TcpStream) -> std::io::Result<()> {
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_nodelay(true)
}

fn expect(connection: &mut Connection<'_>, message: &[u8]) -> Result<(), Error> {
    let mut room = [0; 64];
    let count = connection.receive(&mut room)?;
    if room[..count] == *message {
        return Ok(());
    }
    Err(Error::Call(format!("{count} bytes came that were not the {} expected", message.len())))
}

/// Says goodbye and waits for the other side's: both close_notify alerts are counted.
fn finish(connection: &mut Connection<'_>) -> Result<(), Error> {
    connection.close()?;
    match connection.receive(&mut [0; 64])? {
        0 => Ok(()),
        more => Err(Error::Call(format!("{more} bytes came after the last message"))),
    }
}
