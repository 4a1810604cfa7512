//! HTTP/1.1 (RFC 9112), as far as a client of one service needs it: one request, one response with
//! a length.

use std::io::{self, Read, Write};

use zeroize::Zeroizing;

/// The approximate size of a request head without its path, in bytes: a token has up to about a
/// thousand.
const HEAD: usize = 4 << 10;

/// The maximum sizes of a response head and of a response body in bytes.
const HEAD_MAX: usize = 16 << 10;
const BODY_MAX: usize = 64 << 20;

/// The maximum number of fields of a head.
const FIELDS_MAX: usize = 64;

/// A request.
pub struct Request<'a> {
    pub method: &'a str,
    pub path: &'a str,
    pub host: String,
    pub token: Option<&'a str>,
}

/// A streamed message, with the bytes before it.
pub struct Body<'a> {
    pub before: &'a [u8],
    pub message: &'a mut dyn Read,
    /// The length of the message in bytes, if known.
    pub length: Option<u64>,
}

/// The error of a body that was not sent completely.
#[derive(Debug)]
pub enum SendError {
    /// An error of the connection.
    Io(io::Error),
    /// An error of the message.
    Message(String),
}

/// A response.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
    /// Whether the connection can be reused.
    pub is_kept: bool,
}

/// The error of a missing response.
#[derive(Debug)]
pub enum Failure {
    /// An error of the connection.
    Io(io::Error),
    /// A malformed response.
    Form(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

/// The number of bytes of a body that are sent at once.
const PIECE: usize = 64 << 10;

/// Sends a request.
pub fn send(to: &mut impl Write, request: &Request<'_>, body: &[u8]) -> io::Result<()> {
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let last = format!("{kind}Content-Length: {}\r\n", body.len());
    // Send it in one write: a small request is one packet.
    let mut bytes = head_of(request, &last, body.len());
    bytes.extend_from_slice(body);
    to.write_all(&bytes)?;
    to.flush()
}

/// Sends the head of a request with `Expect: 100-continue`, so that nothing of the body is sent if
/// the server rejects it.
pub fn begin(to: &mut impl Write, request: &Request<'_>, body: &Body<'_>) -> io::Result<()> {
    let length = match body.length {
        Some(length) => format!("Content-Length: {}\r\n", body.before.len() as u64 + length),
        None => "Transfer-Encoding: chunked\r\n".to_owned(),
    };
    let last =
        format!("Content-Type: application/octet-stream\r\nExpect: 100-continue\r\n{length}");
    to.write_all(&head_of(request, &last, 0))?;
    to.flush()
}

/// Returns a complete head, with room for `room` bytes after it.
fn head_of(request: &Request<'_>, last: &str, room: usize) -> Zeroizing<Vec<u8>> {
    let Request { method, path, host, token } = request;
    // Allocate enough at once, so that reallocation leaves no part of a token in memory.
    let mut head = Zeroizing::new(String::with_capacity(HEAD + path.len() + room));
    head.push_str(&format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nAccept: application/json\r\n"
    ));
    if let Some(token) = token {
        for part in ["Authorization: Bearer ", token, "\r\n"] {
            head.push_str(part);
        }
    }
    head.push_str(last);
    head.push_str("\r\n");
    Zeroizing::new(std::mem::take(&mut *head).into_bytes())
}

/// Sends a body, in chunks if its length is unknown.
pub fn send_body(to: &mut impl Write, body: Body<'_>) -> Result<(), SendError> {
    let Body { before, message, length } = body;
    let is_chunked = length.is_none();
    let mut piece = Zeroizing::new(vec![0; PIECE]);
    let mut sent = 0;
    write_piece(to, before, is_chunked)?;
    loop {
        let read = read_piece(message, &mut piece)?;
        sent += read as u64;
        // Check this before the last bytes are sent, because a complete message would be signed.
        let mut is_longer = || Ok::<bool, SendError>(read_piece(message, &mut [0])? > 0);
        match length {
            Some(length) if sent > length || (sent == length && is_longer()?) => {
                return Err(SendError::Message(format!("has more than {length} bytes by now")));
            }
            Some(length) if read == 0 && sent < length => {
                return Err(SendError::Message(format!("ends after {sent} bytes of {length}")));
            }
            Some(_) | None => {}
        }
        if read == 0 {
            break;
        }
        write_piece(to, &piece[..read], is_chunked)?;
        if length == Some(sent) {
            break;
        }
    }
    if is_chunked {
        to.write_all(b"0\r\n\r\n").map_err(SendError::Io)?;
    }
    to.flush().map_err(SendError::Io)
}

/// Reads until a piece is full or the message ends.
fn read_piece(message: &mut dyn Read, piece: &mut [u8]) -> Result<usize, SendError> {
    let mut filled = 0;
    while filled < piece.len() {
        match message.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(SendError::Message(format!("can't be read: {error}"))),
        }
    }
    Ok(filled)
}

fn write_piece(to: &mut impl Write, piece: &[u8], is_chunked: bool) -> Result<(), SendError> {
    // An empty chunk marks the end.
    if piece.is_empty() {
        return Ok(());
    }
    let mut write = || {
        if is_chunked {
            to.write_all(format!("{:x}\r\n", piece.len()).as_bytes())?;
        }
        to.write_all(piece)?;
        if is_chunked { to.write_all(b"\r\n") } else { Ok(()) }
    };
    write().map_err(SendError::Io)
}

/// Waits for `100 Continue`. Returns the response if the server rejects the request. `read` has
/// bytes that were received and not parsed.
pub fn may_send(from: &mut impl Read, read: &mut Vec<u8>) -> Result<Option<Response>, Failure> {
    let (response, length) = next_head(from, read)?;
    if response.status == 100 {
        Ok(None)
    } else {
        with_body(from, read, response, length).map(Some)
    }
}

/// Receives the response. `read` has bytes that were received and not parsed.
pub fn receive(from: &mut impl Read, read: &mut Vec<u8>) -> Result<Response, Failure> {
    loop {
        let (response, length) = next_head(from, read)?;
        if response.status >= 200 {
            return with_body(from, read, response, length);
        }
    }
}

/// Receives the next head, without its body.
fn next_head(from: &mut impl Read, read: &mut Vec<u8>) -> Result<(Response, usize), Failure> {
    loop {
        if let Some((end, response, length)) = head(read)? {
            read.drain(..end);
            return Ok((response, length));
        }
        if read.len() > HEAD_MAX {
            return Err(Failure::Form("its head has no end".to_owned()));
        }
        read_more(from, read)?;
    }
}

fn with_body(
    from: &mut impl Read,
    read: &mut Vec<u8>,
    mut response: Response,
    length: usize,
) -> Result<Response, Failure> {
    while read.len() < length {
        read_more(from, read)?;
    }
    response.is_kept &= read.len() == length;
    response.body = read.drain(..length).collect();
    Ok(response)
}

/// Parses a head. Returns its length, its content, and the length of the body.
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
    let status = parsed.code.ok_or_else(|| form("it has no status"))?;
    if !all("transfer-encoding").is_empty() {
        return Err(form("its body is chunked; expected a length"));
    }
    let is_kept =
        parsed.version == Some(1) && !all("connection").iter().any(|value| value == b"close");
    let response = Response { status, body: Vec::new(), is_kept };
    // Interim responses have no body.
    if (100..200).contains(&status) {
        return Ok(Some((head, response, 0)));
    }
    let lengths = all("content-length");
    let [length] = &lengths[..] else { return Err(form("its body has no length")) };
    let length = std::str::from_utf8(length).ok().and_then(|text| text.parse().ok());
    let length: usize = length
        .filter(|&length| length <= BODY_MAX)
        .ok_or_else(|| form("the length of its body"))?;
    Ok(Some((head, response, length)))
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

    /// A reader that returns one byte at a time.
    struct OneByteReader<'a>(&'a [u8]);

    impl Read for OneByteReader<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            self.0 = rest;
            out[0] = *first;
            Ok(1)
        }
    }

    #[test]
    fn responses_are_read_in_fragments_and_malformed_ones_refused() {
        let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let wanted = Response { status: 200, body: b"{}".to_vec(), is_kept: true };
        assert_eq!(receive(&mut &ok[..], &mut Vec::new()).unwrap(), wanted);
        assert_eq!(receive(&mut OneByteReader(ok), &mut Vec::new()).unwrap(), wanted);
        let closes = b"HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
        let closes = receive(&mut &closes[..], &mut Vec::new()).unwrap();
        assert_eq!((closes.status, closes.is_kept), (503, false));
        // Bytes after a response are unexpected.
        let more = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP";
        assert!(!receive(&mut &more[..], &mut Vec::new()).unwrap().is_kept);
        for bad in [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\na",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            "SSH-2.0-OpenSSH\r\n\r\n",
        ] {
            let read = receive(&mut bad.as_bytes(), &mut Vec::new());
            assert!(matches!(read, Err(Failure::Form(_))), "{bad}: {read:?}");
        }
        let short =
            receive(&mut &b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n{}"[..], &mut Vec::new());
        assert!(matches!(short, Err(Failure::Io(_))));
    }

    #[test]
    fn a_body_waits_for_a_word_and_an_answer_may_come_in_its_place() {
        let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        let word = b"HTTP/1.1 100 Continue\r\n\r\n";
        let both = [&word[..], ok].concat();
        let mut read = Vec::new();
        let mut from = OneByteReader(&both);
        assert_eq!(may_send(&mut from, &mut read).unwrap(), None);
        assert_eq!(receive(&mut from, &mut read).unwrap().body, b"{}");
        // Both at once, and an unexpected interim response.
        let (mut read, mut from) = (Vec::new(), &both[..]);
        assert_eq!(may_send(&mut from, &mut read).unwrap(), None);
        assert_eq!(receive(&mut from, &mut read).unwrap().body, b"{}");
        let refusal = may_send(&mut &ok[..], &mut Vec::new()).unwrap().unwrap();
        assert_eq!((refusal.status, refusal.body), (200, b"{}".to_vec()));
    }

    fn sent(before: &[u8], message: &[u8], length: Option<u64>) -> (Result<(), String>, Vec<u8>) {
        let (mut out, mut from) = (Vec::new(), OneByteReader(message));
        let sent = send_body(&mut out, Body { before, message: &mut from, length });
        let why = |unsent| match unsent {
            SendError::Message(why) => why,
            SendError::Io(error) => panic!("{error}"),
        };
        (sent.map_err(why), out)
    }

    #[test]
    fn a_body_is_sent_with_its_length_or_in_chunks_and_never_shorter_or_longer() {
        assert_eq!(sent(b"ab", b"cde", Some(3)), (Ok(()), b"abcde".to_vec()));
        assert_eq!(sent(b"", b"", Some(0)), (Ok(()), Vec::new()));
        assert_eq!(sent(b"", b"", None), (Ok(()), b"0\r\n\r\n".to_vec()));
        let chunks = b"2\r\nab\r\n3\r\ncde\r\n0\r\n\r\n".to_vec();
        assert_eq!(sent(b"ab", b"cde", None), (Ok(()), chunks));
        let large = vec![7; PIECE + 1];
        let (done, out) = sent(b"", &large, None);
        assert!(done.is_ok() && out.len() == large.len() + 7 + 2 + 3 + 2 + 5, "{}", out.len());
        // A file that grows or shrinks meanwhile: the last byte is not sent.
        for (length, says) in [(PIECE as u64, "more than"), (PIECE as u64 + 2, "ends after")] {
            let (done, out) = sent(b"", &large, Some(length));
            assert!(done.unwrap_err().contains(says));
            assert!((out.len() as u64) < length, "{}", out.len());
        }
        assert!(sent(b"", b"a", Some(0)).0.is_err());
    }
}
