//! The time to the last byte as a client sees it: elapsed time, over a socket of the loopback.
//!
//! ```text
//!   client's thread   connect ─> hello ──────> finished ──> .. 50 KiB: stop
//!   server's thread     accepted ─> its flight ─────────> the answer
//! ```
//!
//! Both sides have a thread, so a row includes how quickly the machine wakes one, if it has a
//! processor for each; the row also has the CPU time, which does not depend on that.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::{ANSWER, HOST, PACKET, Pair};
use crate::Error;
use crate::ossl::{self, Connection, Endpoint};

/// The time for which one side waits for the other.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Connects until `length` is over, once at least, and hands each connection's nanoseconds to `done`.
pub(super) fn measure(
    pair: &Pair,
    length: Duration,
    mut done: impl FnMut(u64),
) -> Result<(), Error> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|cause| broken(&cause))?;
    let begun = Instant::now();
    let (accepted, sockets) = mpsc::channel::<TcpStream>();
    std::thread::scope(|scope| {
        let serving =
            scope.spawn(move || sockets.iter().try_for_each(|socket| serve(&pair.server, &socket)));
        let asked = loop {
            match ask(&pair.client, &listener, &accepted) {
                Ok(ns) => done(ns),
                Err(error) => break Err(error),
            }
            if begun.elapsed() >= length {
                break Ok(());
            }
        };
        // No more connections come.
        drop(accepted);
        let served = serving.join();
        // The client knows more of a failed handshake: it sees the server's alert, too.
        asked?;
        served.unwrap_or_else(|_| Err(Error::Failed("the server's thread failed".into())))
    })
}

/// Returns the nanoseconds from connecting to the last byte of the answer.
fn ask(
    client: &Endpoint,
    listener: &TcpListener,
    accepted: &mpsc::Sender<TcpStream>,
) -> Result<u64, Error> {
    let socket_failed = |cause: io::Error| broken(&cause);
    let address = listener.local_addr().map_err(socket_failed)?;
    let begun = Instant::now();
    let socket = TcpStream::connect_timeout(&address, TIMEOUT).map_err(socket_failed)?;
    ready(&socket).map_err(socket_failed)?;
    // The connection is established already: this does not block.
    let (other, _) = listener.accept().map_err(socket_failed)?;
    accepted.send(other).map_err(|_| Error::Failed("the server's thread is gone".into()))?;
    let mut connection = Connection::over_socket(client, socket.as_fd(), HOST)?;
    connection.complete()?;
    let (mut room, mut received) = ([0; PACKET], 0);
    while received < ANSWER {
        match connection.receive(&mut room)? {
            0 => return Err(Error::Failed("a connection ended in the middle".into())),
            count => received += count,
        }
    }
    Ok(begun.elapsed().as_nanos() as u64)
}

fn serve(server: &Endpoint, socket: &TcpStream) -> Result<(), Error> {
    ready(socket).map_err(|cause| broken(&cause))?;
    let mut connection = Connection::over_socket(server, socket.as_fd(), HOST)?;
    connection.complete()?;
    for at in (0..ANSWER).step_by(PACKET) {
        connection.send(&[0x5a; PACKET][..PACKET.min(ANSWER - at)])?;
    }
    Ok(())
}

/// Sets a time limit for reads, and sends small packets immediately.
fn ready(socket: &TcpStream) -> io::Result<()> {
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.set_nodelay(true)
}

fn broken(cause: &io::Error) -> Error {
    ossl::Error::Call(format!("a loopback socket failed: {cause}")).into()
}
