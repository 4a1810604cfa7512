//! SSH: a server's identification and its KEXINIT, both in clear (RFC 4253, 4.2 and 7.1).
//!
//! ```text
//!   client   SSH-2.0-gabion_probe --->
//!            <--- lines, SSH-2.0-...      the banner
//!            <--- SSH_MSG_KEXINIT         key exchange methods, host key algorithms
//! ```
//!
//! The connection ends there: neither side has used a key.

use std::io::{ErrorKind, Read, Write};

/// Our identification.
const IDENTIFICATION: &[u8] = b"SSH-2.0-gabion_probe\r\n";
/// The longest identification, with its CR LF.
const LINE_MAX: usize = 255;
/// Lines that a server may send before its identification.
const LINES_MAX: usize = 64;
/// The largest packet that every implementation reads (RFC 4253, 6.1).
const PACKET_MAX: usize = 35_000;
/// Packets that may precede KEXINIT: IGNORE and DEBUG.
const PACKETS_MAX: usize = 4;
/// The longest name of an algorithm (RFC 4251, 6).
const NAME_MAX: usize = 64;

const DISCONNECT: u8 = 1;
const IGNORE: u8 = 2;
const DEBUG: u8 = 4;
const KEXINIT: u8 = 20;

/// The key exchange methods of an OpenSSH 10 client, in its order.
const OPENSSH_KEX: &[&str] = &[
    "mlkem768x25519-sha256",
    "sntrup761x25519-sha512",
    "sntrup761x25519-sha512@openssh.com",
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group14-sha256",
];

/// The host key algorithms of an OpenSSH 10 client that does not know the host, in its order.
const OPENSSH_HOST_KEYS: &[&str] = &[
    "ssh-ed25519-cert-v01@openssh.com",
    "ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "ecdsa-sha2-nistp384-cert-v01@openssh.com",
    "ecdsa-sha2-nistp521-cert-v01@openssh.com",
    "sk-ssh-ed25519-cert-v01@openssh.com",
    "sk-ecdsa-sha2-nistp256-cert-v01@openssh.com",
    "rsa-sha2-512-cert-v01@openssh.com",
    "rsa-sha2-256-cert-v01@openssh.com",
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "sk-ssh-ed25519@openssh.com",
    "sk-ecdsa-sha2-nistp256@openssh.com",
    "rsa-sha2-512",
    "rsa-sha2-256",
];

/// The lists of an SSH server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SshLists {
    /// The identification, such as `SSH-2.0-OpenSSH_10.0`.
    pub banner: String,
    /// The key exchange methods, in the server's order.
    pub kex: Vec<String>,
    /// The host key algorithms, in the server's order.
    pub host_keys: Vec<String>,
}

/// A failure to read a server's lists.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SshError {
    /// The stream failed or its deadline passed.
    #[error("the connection failed: {0}")]
    Io(std::io::Error),
    /// The stream ended too early.
    #[error("the server closed the connection before it sent {0}")]
    Closed(&'static str),
    /// The first lines have no identification.
    #[error("the server does not speak SSH: its answer begins with \"{}\"", .0.escape_ascii())]
    NotSsh(Vec<u8>),
    /// The server speaks another version of the protocol.
    #[error("the server speaks SSH {0}, not 2.0")]
    Version(String),
    /// The server refused the connection.
    #[error("the server disconnected: {0}")]
    Disconnected(String),
    /// A packet is malformed.
    #[error("the server sent a malformed {0}")]
    Malformed(&'static str),
    /// A message that has no place here.
    #[error("the server sent a message of type {0} instead of KEXINIT")]
    Unexpected(u8),
}

impl From<std::io::Error> for SshError {
    fn from(cause: std::io::Error) -> Self {
        SshError::Io(cause)
    }
}

impl SshLists {
    /// Returns the key exchange method that an OpenSSH 10 client negotiates: the first of its list
    /// that the server has, too.
    #[must_use]
    pub fn negotiated_kex(&self) -> Option<&'static str> {
        negotiate(OPENSSH_KEX, &self.kex)
    }

    /// Returns the host key algorithm that an OpenSSH 10 client negotiates if it does not know the
    /// host.
    #[must_use]
    pub fn negotiated_host_key(&self) -> Option<&'static str> {
        negotiate(OPENSSH_HOST_KEYS, &self.host_keys)
    }

    /// Returns whether an OpenSSH 10 client negotiates a post-quantum key exchange.
    #[must_use]
    pub fn is_kex_post_quantum(&self) -> bool {
        self.negotiated_kex().is_some_and(is_kex_post_quantum)
    }

    /// Returns the server's first post-quantum host key algorithm. OpenSSH 10 asks for none.
    #[must_use]
    pub fn post_quantum_host_key(&self) -> Option<&str> {
        self.host_keys.iter().map(String::as_str).find(|name| is_host_key_post_quantum(name))
    }
}

/// Returns whether a key exchange method resists quantum computers.
#[must_use]
pub fn is_kex_post_quantum(name: &str) -> bool {
    name.starts_with("mlkem") || name.starts_with("sntrup")
}

/// Returns whether a host key algorithm resists quantum computers. Names differ among the drafts:
/// `ssh-mldsa-65`, `ssh-mldsa44-ed25519@openssh.com`, `ssh-slh-dsa-sha2-128s`.
#[must_use]
pub fn is_host_key_post_quantum(name: &str) -> bool {
    let name = name.strip_prefix("ssh-").unwrap_or(name);
    ["mldsa", "ml-dsa", "slhdsa", "slh-dsa"].iter().any(|prefix| name.starts_with(prefix))
}

fn negotiate(client: &[&'static str], server: &[String]) -> Option<&'static str> {
    client.iter().copied().find(|name| server.iter().any(|other| other == name))
}

/// Sends our identification and reads the server's and its KEXINIT. The stream's deadlines limit
/// the time.
///
/// # Errors
/// Fails if the stream does, or if the server refuses or sends something malformed.
pub fn ask(stream: &mut (impl Read + Write)) -> Result<SshLists, SshError> {
    stream.write_all(IDENTIFICATION)?;
    stream.flush()?;
    read_lists(stream)
}

/// Reads a server's identification and KEXINIT.
///
/// # Errors
/// Fails if the stream ends, or if the server refuses or sends something malformed.
pub fn read_lists(stream: &mut impl Read) -> Result<SshLists, SshError> {
    let banner = identification(stream)?;
    for _ in 0..=PACKETS_MAX {
        let payload = packet(stream)?;
        let (&kind, body) = payload.split_first().ok_or(SshError::Malformed("packet"))?;
        match kind {
            KEXINIT => {
                let (kex, host_keys) = lists(body).ok_or(SshError::Malformed("KEXINIT"))?;
                return Ok(SshLists { banner, kex, host_keys });
            }
            DISCONNECT => return Err(SshError::Disconnected(reason(body))),
            IGNORE | DEBUG => {}
            other => return Err(SshError::Unexpected(other)),
        }
    }
    Err(SshError::Unexpected(IGNORE))
}

/// Reads lines to the identification and returns it without its line end.
fn identification(stream: &mut impl Read) -> Result<String, SshError> {
    let mut first = Vec::new();
    for _ in 0..LINES_MAX {
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            if line.len() == LINE_MAX || !fill(stream, &mut byte)? {
                let closed = line.is_empty() && first.is_empty();
                let begin = if first.is_empty() { line } else { first };
                return Err(if closed {
                    SshError::Closed("its identification")
                } else {
                    SshError::NotSsh(beginning(&begin))
                });
            }
            line.extend_from_slice(&byte);
        }
        let line = line.trim_ascii_end();
        let Some(rest) = line.strip_prefix(b"SSH-") else {
            if first.is_empty() {
                first = line.to_vec();
            }
            continue;
        };
        let is_printable = line.iter().all(|byte| (b' '..=b'~').contains(byte));
        if !is_printable || !rest.contains(&b'-') {
            return Err(SshError::Malformed("identification"));
        }
        let text = String::from_utf8_lossy(line).into_owned();
        if rest.starts_with(b"2.0-") || rest.starts_with(b"1.99-") {
            return Ok(text);
        }
        return Err(SshError::Version(text.split('-').nth(1).unwrap_or_default().to_owned()));
    }
    Err(SshError::NotSsh(beginning(&first)))
}

fn beginning(line: &[u8]) -> Vec<u8> {
    line.iter().copied().take(16).collect()
}

/// Reads one packet before encryption and returns its payload (RFC 4253, 6).
fn packet(stream: &mut impl Read) -> Result<Vec<u8>, SshError> {
    const WHAT: &str = "its KEXINIT";
    let mut header = [0; 5];
    if !fill(stream, &mut header)? {
        return Err(SshError::Closed(WHAT));
    }
    let [a, b, c, d, padding] = header;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    let padding = usize::from(padding);
    // The padding has at least 4 bytes and fills blocks of 8.
    let is_well_formed = (12..=PACKET_MAX).contains(&length)
        && (length + 4).is_multiple_of(8)
        && padding >= 4
        && padding + 1 < length;
    if !is_well_formed {
        return Err(SshError::Malformed("packet"));
    }
    let mut payload = vec![0; length - 1];
    if !fill(stream, &mut payload)? {
        return Err(SshError::Closed(WHAT));
    }
    payload.truncate(length - 1 - padding);
    Ok(payload)
}

/// Parses a KEXINIT behind its type: the key exchange methods and host key algorithms.
fn lists(body: &[u8]) -> Option<(Vec<String>, Vec<String>)> {
    let (_cookie, mut rest) = body.split_at_checked(16)?;
    let (kex, host_keys) = (names(&mut rest)?, names(&mut rest)?);
    for _ in 2..10 {
        names(&mut rest)?;
    }
    // first_kex_packet_follows, and a reserved number.
    (rest.len() == 5).then_some((kex, host_keys))
}

/// Reads a name-list (RFC 4251, 5).
fn names(rest: &mut &[u8]) -> Option<Vec<String>> {
    let list = string(rest)?;
    if list.is_empty() {
        return Some(Vec::new());
    }
    let name = |name: &[u8]| {
        let is_name = (1..=NAME_MAX).contains(&name.len()) && name.iter().all(u8::is_ascii_graphic);
        is_name.then(|| String::from_utf8_lossy(name).into_owned())
    };
    list.split(|byte| *byte == b',').map(name).collect()
}

fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let (text, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = behind;
    Some(text)
}

/// Returns the description of a DISCONNECT, without control characters.
fn reason(body: &[u8]) -> String {
    let text = body.split_at_checked(4).and_then(|(_, mut rest)| string(&mut rest));
    let text = String::from_utf8_lossy(text.unwrap_or_default());
    text.chars().filter(|char| !char.is_control()).take(200).collect()
}

/// Fills `out`. Returns false if the stream ends before.
fn fill(stream: &mut impl Read, out: &mut [u8]) -> Result<bool, SshError> {
    match stream.read_exact(out) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(cause) => Err(cause.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet_of(payload: &[u8]) -> Vec<u8> {
        let padding = 4 + (8 - (payload.len() + 9) % 8) % 8;
        let length = u32::try_from(1 + payload.len() + padding).unwrap();
        let mut packet = length.to_be_bytes().to_vec();
        packet.push(u8::try_from(padding).unwrap());
        packet.extend_from_slice(payload);
        packet.resize(packet.len() + padding, 0);
        packet
    }

    fn kexinit(kex: &str, host_keys: &str) -> Vec<u8> {
        let mut payload = vec![KEXINIT];
        payload.extend([7; 16]);
        for list in [kex, host_keys, "aes128-ctr", "aes128-ctr", "", "", "none", "none", "", ""] {
            payload.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
            payload.extend(list.as_bytes());
        }
        payload.extend([0; 5]);
        packet_of(&payload)
    }

    fn read(bytes: &[u8]) -> Result<SshLists, SshError> {
        let mut bytes = bytes;
        read_lists(&mut bytes)
    }

    const KEX: &str = "sntrup761x25519-sha512@openssh.com,curve25519-sha256,mlkem768x25519-sha256,\
        ext-info-s,kex-strict-s-v00@openssh.com";

    fn openssh() -> Vec<u8> {
        let lists = kexinit(KEX, "rsa-sha2-512,ssh-ed25519");
        [b"SSH-2.0-OpenSSH_10.0p2 Debian-7\r\n", &lists[..]].concat()
    }

    #[test]
    fn the_lists_of_a_server_are_read_in_its_order() {
        let lists = read(&openssh()).unwrap();
        assert_eq!(lists.banner, "SSH-2.0-OpenSSH_10.0p2 Debian-7");
        assert_eq!(lists.kex.join(","), KEX);
        assert_eq!(lists.host_keys, ["rsa-sha2-512", "ssh-ed25519"]);
        // The client's order decides.
        assert_eq!(lists.negotiated_kex(), Some("mlkem768x25519-sha256"));
        assert_eq!(lists.negotiated_host_key(), Some("ssh-ed25519"));
        assert!(lists.is_kex_post_quantum() && lists.post_quantum_host_key().is_none());
    }

    #[test]
    fn lines_and_ignored_packets_may_precede() {
        let lists = kexinit("curve25519-sha256,mlkem768nistp256-sha256", "ssh-mldsa-65");
        let ignored = packet_of(&[IGNORE, 0, 0, 0, 0]);
        let head = b"Authorized users only.\nSSH-1.99-old\n";
        let lists = read(&[&head[..], &ignored, &ignored, &lists].concat()).unwrap();
        assert_eq!(lists.banner, "SSH-1.99-old");
        // OpenSSH does not ask for the method that is post-quantum here.
        assert_eq!(lists.negotiated_kex(), Some("curve25519-sha256"));
        assert!(!lists.is_kex_post_quantum() && lists.post_quantum_host_key().is_some());
        assert_eq!(lists.negotiated_host_key(), None);
    }

    #[test]
    fn post_quantum_names_are_known() {
        for name in [
            "mlkem768x25519-sha256",
            "mlkem768nistp256-sha256",
            "mlkem1024nistp384-sha384",
            "sntrup761x25519-sha512",
            "sntrup761x25519-sha512@openssh.com",
        ] {
            assert!(is_kex_post_quantum(name), "{name}");
        }
        for name in ["ssh-mldsa-44", "ssh-mldsa65-ed25519@openssh.com", "ssh-slh-dsa-sha2-128s"] {
            assert!(is_host_key_post_quantum(name), "{name}");
        }
        for name in OPENSSH_HOST_KEYS.iter().chain(&OPENSSH_KEX[3..]) {
            assert!(!is_kex_post_quantum(name) && !is_host_key_post_quantum(name), "{name}");
        }
    }

    #[test]
    fn malformed_answers_are_named() {
        let with = |packet: &[u8]| [b"SSH-2.0-x\r\n", packet].concat();
        let disconnect = packet_of(b"\x01\0\0\0\x0c\0\0\0\x07too\nbad\0\0\0\0");
        let mut short = kexinit("a", "b");
        short[4] += 1;
        let long_name = "n".repeat(NAME_MAX + 1);
        let cases: [(&str, Vec<u8>); 15] = [
            ("before it sent its identification", Vec::new()),
            ("begins with \"220 ftp.example \"", b"220 ftp.example FTP ready\r\n".to_vec()),
            ("begins with \"HTTP/1.1 400 Bad\"", b"HTTP/1.1 400 Bad Request".to_vec()),
            ("does not speak SSH", b"x\n".repeat(1_000_000)),
            ("begins with \"aaaaaaaaaaaaaaaa\"", b"a".repeat(1_000_000)),
            ("speaks SSH 1.5, not 2.0", b"SSH-1.5-1.2.27\n".to_vec()),
            ("malformed identification", b"SSH-2.0\r\n".to_vec()),
            ("malformed identification", b"SSH-2.0-\x1b[2J\r\n".to_vec()),
            ("before it sent its KEXINIT", with(&kexinit("a", "b")[..40])),
            ("malformed packet", with(&[0xff; 64])),
            ("malformed KEXINIT", with(&short)),
            ("malformed KEXINIT", with(&kexinit(&long_name, "b"))),
            ("malformed KEXINIT", with(&kexinit("a,,b", "b"))),
            ("message of type 2 ", with(&packet_of(&[IGNORE, 0, 0, 0, 0]).repeat(100))),
            ("the server disconnected: toobad", with(&disconnect)),
        ];
        for (expected, bytes) in cases {
            let refusal = read(&bytes).unwrap_err().to_string();
            assert!(refusal.contains(expected), "{refusal}; expected {expected}");
        }
    }

    /// Every truncation is refused, and no change of a bit panics.
    #[test]
    fn mutations_do_not_panic() {
        let seed = openssh();
        for end in 0..seed.len() {
            assert!(read(&seed[..end]).is_err(), "{end} of {} bytes", seed.len());
        }
        for bit in 0..seed.len() * 8 {
            let mut changed = seed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let _ = read(&changed);
        }
    }
}
