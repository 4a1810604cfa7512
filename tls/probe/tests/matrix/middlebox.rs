//! Middleboxes: proxies before a server that inspect the first ClientHello of each connection.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// The hellos that a middlebox blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Forwards everything.
    Forward,
    /// Drops a hello that does not arrive in one segment and one record.
    DropFragments,
    /// Drops a hello with more bytes, record headers included.
    DropOver(usize),
    /// Resets the connection if the hello offers a group that is no curve or finite field.
    ResetUnknownGroups,
}

/// The fate of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Forward,
    /// Nothing is forwarded, and nothing is reported.
    Drop,
    Reset,
}

/// Starts a middlebox in front of `server` and returns its address.
pub fn start(policy: Policy, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for client in listener.incoming() {
            let client = client.unwrap();
            thread::spawn(move || {
                // A client that gives up ends its connection.
                let _ = serve(policy, client, server);
            });
        }
    });
    address
}

fn serve(policy: Policy, mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    match inspect(policy, &client)? {
        Fate::Forward => {}
        Fate::Drop => {
            io::copy(&mut client, &mut io::sink())?;
            return Ok(());
        }
        // Closing a socket with unread bytes sends RST. The hello was only peeked at.
        Fate::Reset => return Ok(()),
    }
    let mut server = TcpStream::connect(server)?;
    server.set_nodelay(true)?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = pipe(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Write);
    });
    let piped = pipe(&mut client, &mut server);
    server.shutdown(Shutdown::Write)?;
    piped
}

fn pipe(from: &mut TcpStream, to: &mut TcpStream) -> io::Result<()> {
    let mut bytes = vec![0; 1 << 14];
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(()),
            count => to.write_all(&bytes[..count])?,
        }
    }
}

fn inspect(policy: Policy, client: &TcpStream) -> io::Result<Fate> {
    let mut bytes = vec![0; 1 << 15];
    let first = client.peek(&mut bytes)?;
    if policy == Policy::Forward {
        return Ok(Fate::Forward);
    }
    if policy == Policy::DropFragments {
        let is_whole = hello(&bytes[..first]).is_some_and(|hello| hello.records == 1);
        return Ok(if is_whole { Fate::Forward } else { Fate::Drop });
    }
    let hello = loop {
        let count = client.peek(&mut bytes)?;
        match hello(&bytes[..count]) {
            Some(hello) => break hello,
            None => thread::sleep(Duration::from_millis(1)),
        }
    };
    Ok(match policy {
        Policy::DropOver(most) if hello.bytes > most => Fate::Drop,
        Policy::ResetUnknownGroups if !groups(&hello.body).iter().all(|one| is_known(*one)) => {
            Fate::Reset
        }
        _ => Fate::Forward,
    })
}

/// A complete ClientHello.
struct Hello {
    records: usize,
    bytes: usize,
    body: Vec<u8>,
}

/// Reassembles a hello from its records. Returns `None` if it is not complete.
fn hello(mut bytes: &[u8]) -> Option<Hello> {
    let mut hello = Hello { records: 0, bytes: 0, body: Vec::new() };
    loop {
        let (header, rest) = bytes.split_at_checked(5)?;
        assert_eq!(header[0], 22, "a handshake record");
        let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let (fragment, rest) = rest.split_at_checked(length)?;
        bytes = rest;
        hello.records += 1;
        hello.bytes += 5 + length;
        hello.body.extend_from_slice(fragment);
        let message = usize::from(hello.body[2]) << 8 | usize::from(hello.body[3]);
        if hello.body.len() == 4 + message {
            return Some(hello);
        }
    }
}

/// Returns the groups of the extension supported_groups.
fn groups(hello: &[u8]) -> Vec<u16> {
    let number = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    let mut at = 4 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    at += 2 + number(at);
    at += 1 + usize::from(hello[at]);
    at += 2;
    while at < hello.len() {
        let (extension, length) = (number(at), number(at + 2));
        if extension == 10 {
            let list = &hello[at + 6..at + 4 + length];
            return list.chunks(2).map(|one| u16::from_be_bytes([one[0], one[1]])).collect();
        }
        at += 4 + length;
    }
    Vec::new()
}

/// Returns whether RFC 8446 has the group.
fn is_known(group: u16) -> bool {
    matches!(group, 0x17..=0x19 | 0x1d | 0x1e | 0x100..=0x104)
}
