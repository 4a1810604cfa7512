//! Notifications to the service manager: a minimal implementation of systemd's sd_notify.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends a state, such as `READY=1`, to the socket that NOTIFY_SOCKET names. Errors are ignored.
pub fn tell(state: &str) {
    if let Some(name) = std::env::var_os("NOTIFY_SOCKET") {
        let _ = send(&name, state);
    }
}

fn send(name: &OsStr, state: &str) -> io::Result<usize> {
    let socket = UnixDatagram::unbound()?;
    // A service manager that does not read must not block the server.
    socket.set_nonblocking(true)?;
    socket.send_to_addr(state.as_bytes(), &address(name)?)
}

/// Parses a path, or `@` and an abstract name.
fn address(name: &OsStr) -> io::Result<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        #[cfg(target_os = "linux")]
        Some(name) => <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name),
        #[cfg(not(target_os = "linux"))]
        Some(_) => Err(io::ErrorKind::Unsupported.into()),
        None => SocketAddr::from_pathname(name),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_state_arrives_by_a_path_and_by_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify").into_os_string();
        let mut names = vec![path];
        if cfg!(target_os = "linux") {
            names.push(format!("@gabion-kms-test-{}", std::process::id()).into());
        }
        for name in names {
            let socket = UnixDatagram::bind_addr(&address(&name).unwrap()).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            send(&name, "READY=1").unwrap();
            let mut bytes = [0; 32];
            let len = socket.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..len], b"READY=1");
        }
        assert!(send(folder.path().join("missing").as_os_str(), "READY=1").is_err());
    }
}
