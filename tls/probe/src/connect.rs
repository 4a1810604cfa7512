//! Connections with deadlines: every step of a probe ends in time, and reads no more than its
//! share of bytes.
//!
//! A timeout for each read would not do: a server that sends one byte a second never reaches it.

use std::collections::HashSet;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::target::Target;

/// The most addresses of one name that are tried.
const ADDRESSES_MAX: usize = 8;

/// The time for one server, in steps of the longest duration.
const STEPS_MAX: u32 = 16;

/// A server that cannot be reached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host has no address.
    #[error("the host has no address")]
    NoAddress,
    /// Another thread uses the address.
    #[error("the address is in use by another probe")]
    InUse,
    /// The name cannot be resolved, or no address accepts the connection.
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The addresses that are being probed, so that no server has two connections at once.
#[derive(Debug, Default)]
pub struct AddressLocks {
    held: Mutex<HashSet<SocketAddr>>,
    released: Condvar,
}

/// Exclusive use of an address, until dropped.
#[derive(Debug)]
pub struct AddressGuard<'a> {
    locks: &'a AddressLocks,
    address: SocketAddr,
    since: Instant,
}

impl AddressLocks {
    /// Locks an address. Blocks while another thread uses it, or returns `None` if not `may_wait`.
    #[must_use]
    pub fn lock(&self, address: SocketAddr, may_wait: bool) -> Option<AddressGuard<'_>> {
        let mut held = self.held();
        while !held.insert(address) {
            if !may_wait {
                return None;
            }
            held = self.released.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        Some(AddressGuard { locks: self, address, since: Instant::now() })
    }

    fn held(&self) -> MutexGuard<'_, HashSet<SocketAddr>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AddressGuard<'_> {
    fn drop(&mut self) {
        self.locks.held().remove(&self.address);
        self.locks.released.notify_all();
    }
}

impl AddressGuard<'_> {
    /// Opens a connection to the address, with `limit` for it and for each later step. All
    /// connections of the guard together have the time of 16 steps.
    ///
    /// # Errors
    /// The operating system's error, if the connection is not accepted in time.
    pub fn connect(&self, limit: Duration) -> io::Result<Connection> {
        let end = self.since + limit * STEPS_MAX;
        let left = end.saturating_duration_since(Instant::now()).min(limit);
        if left.is_zero() {
            let text = format!("the server takes longer than {}", seconds(limit * STEPS_MAX));
            return Err(io::Error::new(ErrorKind::TimedOut, text));
        }
        let stream = TcpStream::connect_timeout(&self.address, left)?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream, limit, step: limit, end, deadline: end, bytes_left: 0 })
    }
}

/// Finds the first address of the target that accepts a connection, and connects to it.
///
/// # Errors
/// The last address's error; [`ConnectError::InUse`] if another thread uses an address, unless
/// `may_wait`. Resolving a name takes as long as the system's resolver allows.
pub fn reach<'a>(
    target: &Target,
    locks: &'a AddressLocks,
    limit: Duration,
    may_wait: bool,
) -> Result<(AddressGuard<'a>, Connection), ConnectError> {
    let mut error = ConnectError::NoAddress;
    for address in (target.host(), target.port()).to_socket_addrs()?.take(ADDRESSES_MAX) {
        let guard = locks.lock(address, may_wait).ok_or(ConnectError::InUse)?;
        match guard.connect(limit) {
            Ok(connection) => return Ok((guard, connection)),
            Err(cause) => error = cause.into(),
        }
    }
    Err(error)
}

/// A connection whose steps are bounded in time and in bytes.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    limit: Duration,
    /// The duration of the current step.
    step: Duration,
    end: Instant,
    deadline: Instant,
    bytes_left: usize,
}

impl Connection {
    /// Starts a step, which may take the connection's limit and read `bytes_max` bytes.
    pub fn start_step(&mut self, bytes_max: usize) {
        self.start_short_step(self.limit, bytes_max);
    }

    /// Starts a step that may take `limit`, but no more than the connection's limit.
    pub fn start_short_step(&mut self, limit: Duration, bytes_max: usize) {
        let now = Instant::now();
        self.step = limit.min(self.limit).min(self.end.saturating_duration_since(now));
        self.deadline = now + self.step;
        self.bytes_left = bytes_max;
    }

    fn time_left(&self) -> io::Result<Duration> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(self.too_late()) } else { Ok(left) }
    }

    fn too_late(&self) -> io::Error {
        let text = format!("no complete answer within {}", seconds(self.step));
        io::Error::new(ErrorKind::TimedOut, text)
    }

    /// Replaces the system's error for an elapsed timeout.
    fn named(&self, cause: io::Error) -> io::Error {
        match cause.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.too_late(),
            _ => cause,
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.bytes_left == 0 {
            return Err(io::Error::other("the server sends more than the probe reads"));
        }
        let len = buffer.len().min(self.bytes_left);
        self.stream.set_read_timeout(Some(self.time_left()?))?;
        let read = self.stream.read(&mut buffer[..len]).map_err(|cause| self.named(cause))?;
        self.bytes_left -= read;
        Ok(read)
    }
}

impl Write for Connection {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.time_left()?))?;
        self.stream.write(buffer).map_err(|cause| self.named(cause))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn seconds(limit: Duration) -> String {
    match limit.subsec_millis() {
        0 => format!("{} s", limit.as_secs()),
        _ => format!("{} ms", limit.as_millis()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn pair(limit: Duration) -> (TcpStream, Connection) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let locks = AddressLocks::default();
        let guard = locks.lock(listener.local_addr().unwrap(), true).unwrap();
        let connection = guard.connect(limit).unwrap();
        (listener.accept().unwrap().0, connection)
    }

    #[test]
    fn a_slow_drip_reaches_the_deadline_of_the_step() {
        let limit = Duration::from_millis(100);
        let (mut server, mut connection) = pair(limit);
        let drip = std::thread::spawn(move || {
            while server.write_all(b"x").is_ok() {
                std::thread::sleep(limit / 10);
            }
        });
        connection.start_step(1 << 20);
        let error = connection.read_exact(&mut [0; 1 << 10]).unwrap_err();
        assert_eq!(error.to_string(), "no complete answer within 100 ms");
        drop(connection);
        drip.join().unwrap();
    }

    #[test]
    fn all_steps_together_end() {
        let limit = Duration::from_millis(10);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let locks = AddressLocks::default();
        let guard = locks.lock(listener.local_addr().unwrap(), true).unwrap();
        let mut connection = guard.connect(limit).unwrap();
        std::thread::sleep(limit * (STEPS_MAX + 1));
        connection.start_step(1);
        assert_eq!(connection.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        let error = guard.connect(limit).unwrap_err().to_string();
        assert_eq!(error, "the server takes longer than 160 ms");
    }

    #[test]
    fn a_step_reads_no_more_than_its_bytes() {
        let (mut server, mut connection) = pair(Duration::from_secs(5));
        server.write_all(b"12345").unwrap();
        connection.start_step(4);
        let error = connection.read_exact(&mut [0; 5]).unwrap_err();
        assert!(error.to_string().contains("more than the probe reads"), "{error}");
        connection.start_step(1);
        connection.read_exact(&mut [0]).unwrap();
    }

    #[test]
    fn an_address_is_used_by_one_thread() {
        let locks = AddressLocks::default();
        let address: SocketAddr = "127.0.0.1:1".parse().unwrap();
        let guard = locks.lock(address, false);
        assert!(guard.is_some() && locks.lock(address, false).is_none());
        drop(guard);
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let _guard = locks.lock(address, true).unwrap();
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        now.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert_eq!(most.into_inner(), 1);
    }
}
