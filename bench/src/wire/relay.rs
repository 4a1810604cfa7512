//! A relay between two sockets that counts what passes: the sum of TCP payload, both ways.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use super::TIMEOUT;

/// The byte counts of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteCounts {
    /// From client to server.
    pub(super) c2s: u64,
    /// From server to client.
    pub(super) s2c: u64,
}

/// One connection's relay, running in a separate thread.
pub(super) struct Relay {
    address: SocketAddr,
    thread: JoinHandle<io::Result<ByteCounts>>,
}

impl Relay {
    /// Waits for one client on a free port of the loopback, and carries its bytes to `server`.
    pub(super) fn start(server: SocketAddr) -> io::Result<Relay> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let address = listener.local_addr()?;
        let thread = thread::spawn(move || carry(&listener, server));
        Ok(Relay { address, thread })
    }

    /// Where clients connect to.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the byte counts once both sides are done.
    pub(super) fn finish(self) -> io::Result<ByteCounts> {
        self.thread.join().unwrap_or_else(|_| Err(io::Error::other("the relay's thread failed")))
    }
}

fn carry(listener: &TcpListener, server: SocketAddr) -> io::Result<ByteCounts> {
    let (client, _) = listener.accept()?;
    let server = TcpStream::connect_timeout(&server, TIMEOUT)?;
    for socket in [&client, &server] {
        socket.set_read_timeout(Some(TIMEOUT))?;
        socket.set_nodelay(true)?;
    }
    let (from_server, to_client) = (server.try_clone()?, client.try_clone()?);
    let back = thread::spawn(move || copy(from_server, to_client));
    let c2s = copy(client, server)?;
    let s2c = back.join().unwrap_or_else(|_| Err(io::Error::other("the way back failed")))?;
    Ok(ByteCounts { c2s, s2c })
}

/// Copies until the sender is done, tells the receiver so, and returns the number of bytes.
fn copy(mut from: TcpStream, mut to: TcpStream) -> io::Result<u64> {
    let mut buffer = [0; 16 * 1024];
    let mut passed = 0;
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            // If the receiver has closed its side already, the error does not matter.
            let _ = to.shutdown(Shutdown::Write);
            return Ok(passed);
        }
        to.write_all(&buffer[..count])?;
        passed += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_and_are_counted_each_way() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let relay = Relay::start(listener.local_addr().unwrap()).unwrap();
        let address = relay.address();
        let client = thread::spawn(move || {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.write_all(&[7; 40_000]).unwrap();
            socket.shutdown(Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            socket.read_to_end(&mut answer).unwrap();
            answer
        });
        let (mut socket, _) = listener.accept().unwrap();
        let mut asked = Vec::new();
        socket.read_to_end(&mut asked).unwrap();
        socket.write_all(b"done").unwrap();
        drop(socket);
        assert_eq!(client.join().unwrap(), b"done");
        assert_eq!(asked, [7; 40_000]);
        assert_eq!(relay.finish().unwrap(), ByteCounts { c2s: 40_000, s2c: 4 });
    }
}
