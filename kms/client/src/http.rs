//! HTTP/1.1 (RFC 9112), as much as a client of one service needs: one request, one answer with a length.

use std::io::{self, Read, Write};

use zeroize::Zeroizing;

/// Bytes of a request's head without its path, about: a token has up to a thousand.
const HEAD: usize = 4 << 10;

/// Most bytes of an answer's head, and of its body.
const HEAD_MAX: usize = 16 << 10;
const BODY_MAX: usize = 64 << 20;

/// Most fields of a head.
const FIELDS_MAX: usize = 64;

/// What is asked.
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub host: &'a str,
    pub token: Option<&'a str>,
    pub body: &'a [u8],
}

/// What comes.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
    /// Whether the connection can take another request.
    pub is_kept: bool,
}

/// Why nothing comes.
#[derive(Debug)]
pub enum Failure {
    /// The connection.
    Io(io::Error),
    /// What came is no answer.
    Form(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

/// Sends a request.
pub fn send(to: &mut impl Write, request: &Request<'_>) -> io::Result<()> {
    let Request { method, path, host, token, body } = request;
    // In one place that has room for all of it, so that no part of a token is left behind in memory.
    let mut head = Zeroizing::new(String::with_capacity(HEAD + path.len() + body.len()));
    head.push_str(&format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n"
    ));
    if let Some(token) = token {
        for part in ["Authorization: Bearer ", token, "\r\n"] {
            head.push_str(part);
        }
    }
    if !body.is_empty() {
        head.push_str("Content-Type: application/json\r\n");
    }
    head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    // At once: a small request is one packet.
    let mut bytes = Zeroizing::new(std::mem::take(&mut *head).into_bytes());
    bytes.extend_from_slice(body);
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads the answer.
pub fn receive(from: &mut impl Read) -> Result<Response, Failure> {
    let mut bytes = Vec::with_capacity(8 << 10);
    let (head, mut response, length) = loop {
        read_more(from, &mut bytes)?;
        if let Some(read) = head(&bytes)? {
            break read;
        }
        if bytes.len() > HEAD_MAX {
            return Err(Failure::Form("its head has no end".to_owned()));
        }
    };
    bytes.drain(..head);
    while bytes.len() < length {
        read_more(from, &mut bytes)?;
    }
    response.is_kept &= bytes.len() == length;
    bytes.truncate(length);
    response.body = bytes;
    Ok(response)
}

/// The head's length, what it says, and the body's length.
fn head(bytes: &[u8]) -> Result<Option<(usize, Response, usize)>, Failure> {
    let form = |text: &str| Failure::Form(text.to_owned());
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    let head = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(head)) => head,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(form(&error.to_string())),
    };
    let all = |name: &str| {
        let of_name = parsed.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
        of_name.map(|field| field.value.to_ascii_lowercase()).collect::<Vec<_>>()
    };
    if !all("transfer-encoding").is_empty() {
        return Err(form("its body comes in chunks; expected a length"));
    }
    let lengths = all("content-length");
    let [length] = &lengths[..] else { return Err(form("its body has no length")) };
    let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
    let length: usize = length
        .filter(|&length| length <= BODY_MAX)
        .ok_or_else(|| form("the length of its body"))?;
    let status = parsed.code.ok_or_else(|| form("it has no status"))?;
    let is_kept =
        parsed.version == Some(1) && !all("connection").iter().any(|value| value == b"close");
    Ok(Some((head, Response { status, body: Vec::new(), is_kept }, length)))
}

fn read_more(from: &mut impl Read, bytes: &mut Vec<u8>) -> io::Result<()> {
    let mut piece = [0; 16 << 10];
    match from.read(&mut piece)? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        read => {
            bytes.extend_from_slice(&piece[..read]);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives one byte at a time.
    struct Slow<'a>(&'a [u8]);

    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            self.0 = rest;
            out[0] = *first;
            Ok(1)
        }
    }

    #[test]
    fn answers_are_read_in_any_pieces_and_what_is_none_is_refused() {
        let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let wanted = Response { status: 200, body: b"{}".to_vec(), is_kept: true };
        assert_eq!(receive(&mut &ok[..]).unwrap(), wanted);
        assert_eq!(receive(&mut Slow(ok)).unwrap(), wanted);
        let closes = b"HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let closes = receive(&mut &closes[..]).unwrap();
        assert_eq!((closes.status, closes.is_kept), (503, false));
        // What comes behind an answer was not asked for.
        let more = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP";
        assert!(!receive(&mut &more[..]).unwrap().is_kept);
        for bad in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
        ] {
            let read = receive(&mut bad.as_bytes());
            assert!(matches!(read, Err(Failure::Form(_))), "{bad}: {read:?}");
        }
        let short = receive(&mut &b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}"[..]);
        assert!(matches!(short, Err(Failure::Io(_))));
    }
}
