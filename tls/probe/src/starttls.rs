//! The dialogues in which a client asks for TLS after connecting.
//!
//! ```text
//!   smtp      <-- 220 ..   --> EHLO   <-- 250 .. STARTTLS   --> STARTTLS   <-- 220
//!   imap      <-- * OK ..  --> a STARTTLS    <-- a OK
//!   pop3      <-- +OK ..   --> STLS          <-- +OK
//!   ftp       <-- 220 ..   --> AUTH TLS      <-- 234
//!   ldap      --> ExtendedRequest            <-- ExtendedResponse, resultCode 0
//!   postgres  --> SSLRequest                 <-- S
//!   mysql     <-- greeting --> SSLRequest
//! ```
//!
//! A server may not send anything between its last answer and its first TLS record. Bytes there
//! would be taken for TLS, so they end the dialogue.

use std::io::{self, Read, Write};

use crate::target::StartTls;

/// The most bytes that a server may send before TLS.
pub const DIALOGUE_BYTES_MAX: usize = 16 << 10;
/// The longest line or packet that is read.
const LINE_LEN_MAX: usize = 4 << 10;
/// The most lines of one reply.
const LINES_MAX: usize = 256;
/// The longest text of a server that is repeated in a report.
const TEXT_LEN_MAX: usize = 200;

/// A dialogue that did not lead to TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartTlsError {
    /// The server refused the command, or does not offer it.
    #[error("it refused {} ({protocol}): {answer}", protocol.command())]
    Refused {
        /// The protocol.
        protocol: StartTls,
        /// The server's words.
        answer: String,
    },
    /// The server's answer is not one of the protocol.
    #[error("it does not speak {protocol}: {answer}")]
    Unexpected {
        /// The protocol.
        protocol: StartTls,
        /// The expected and the received answer.
        answer: String,
    },
    /// The server sent data between its answer and TLS.
    #[error("it sent data after its answer to {} ({protocol}), before TLS", protocol.command())]
    Injected {
        /// The protocol.
        protocol: StartTls,
    },
    /// The connection failed or was closed.
    #[error("it did not complete the {protocol} dialogue: {cause}")]
    Io {
        /// The protocol.
        protocol: StartTls,
        /// The cause.
        cause: io::Error,
    },
}

/// Speaks the dialogue up to TLS, and returns how the server introduced itself.
///
/// # Errors
/// [`StartTlsError`] if the server does not start TLS. The caller bounds the stream in time.
pub fn start<S: Read + Write>(
    stream: &mut S,
    protocol: StartTls,
) -> Result<Option<String>, StartTlsError> {
    let mut dialogue = Dialogue { stream, protocol, buffer: Vec::new(), lines: 0 };
    let banner = match protocol {
        StartTls::Smtp => dialogue.smtp()?,
        StartTls::Imap => dialogue.imap()?,
        StartTls::Pop3 => dialogue.pop3()?,
        StartTls::Ftp => dialogue.ftp()?,
        StartTls::Ldap => dialogue.ldap()?,
        StartTls::Postgres => dialogue.postgres()?,
        StartTls::Mysql => dialogue.mysql()?,
    };
    if !dialogue.buffer.is_empty() {
        return Err(StartTlsError::Injected { protocol });
    }
    Ok(banner.map(|banner| plain(banner.as_bytes())))
}

/// A dialogue and the bytes that were read but not yet used.
struct Dialogue<'a, S> {
    stream: &'a mut S,
    protocol: StartTls,
    buffer: Vec<u8>,
    lines: usize,
}

/// A reply of SMTP or FTP.
struct Reply {
    code: u16,
    lines: Vec<String>,
}

impl<S: Read + Write> Dialogue<'_, S> {
    fn smtp(&mut self) -> Result<Option<String>, StartTlsError> {
        let greeting = self.reply(220)?;
        self.send(b"EHLO localhost\r\n")?;
        let extensions = self.reply(250)?;
        let offers =
            |line: &String| line.split_whitespace().next().is_some_and(|word| word == "STARTTLS");
        if !extensions.lines.iter().map(|line| line.to_ascii_uppercase()).any(|line| offers(&line))
        {
            return Err(self.refused("the server does not offer it".to_owned()));
        }
        self.send(b"STARTTLS\r\n")?;
        self.agreement(220)?;
        Ok(greeting.lines.into_iter().next())
    }

    fn ftp(&mut self) -> Result<Option<String>, StartTlsError> {
        let greeting = self.reply(220)?;
        self.send(b"AUTH TLS\r\n")?;
        self.agreement(234)?;
        Ok(greeting.lines.into_iter().next())
    }

    fn imap(&mut self) -> Result<Option<String>, StartTlsError> {
        let greeting = self.line()?;
        let Some(banner) = greeting.strip_prefix("* OK") else {
            return Err(self.unexpected("`* OK`", &greeting));
        };
        self.send(b"a STARTTLS\r\n")?;
        loop {
            let line = self.line()?;
            match line.strip_prefix("a ") {
                Some(status) if status.to_ascii_uppercase().starts_with("OK") => break,
                Some(status) => return Err(self.refused(status.to_owned())),
                None if line.starts_with("* ") => {}
                None => return Err(self.unexpected("`a OK`", &line)),
            }
        }
        Ok(Some(banner.trim().to_owned()))
    }

    fn pop3(&mut self) -> Result<Option<String>, StartTlsError> {
        let greeting = self.line()?;
        let Some(banner) = greeting.strip_prefix("+OK") else {
            return Err(self.unexpected("`+OK`", &greeting));
        };
        self.send(b"STLS\r\n")?;
        let line = self.line()?;
        if line.starts_with("-ERR") {
            return Err(self.refused(line));
        }
        if !line.starts_with("+OK") {
            return Err(self.unexpected("`+OK`", &line));
        }
        Ok(Some(banner.trim().to_owned()))
    }

    fn ldap(&mut self) -> Result<Option<String>, StartTlsError> {
        // SEQUENCE { messageID 1, [APPLICATION 23] { [0] "1.3.6.1.4.1.1466.20037" } }
        let name = b"1.3.6.1.4.1.1466.20037";
        let mut request = vec![0x30, 0x1d, 0x02, 0x01, 0x01, 0x77, 0x18, 0x80, 0x16];
        request.extend_from_slice(name);
        self.send(&request)?;
        let message = self.ber(0x30)?;
        // messageID, then [APPLICATION 24] { resultCode, matchedDN, diagnosticMessage, .. }
        let wrong = || StartTlsError::Unexpected {
            protocol: StartTls::Ldap,
            answer: "expected an ExtendedResponse".to_owned(),
        };
        let (_, rest) = element(&message, 0x02).ok_or_else(wrong)?;
        let (response, _) = element(rest, 0x78).ok_or_else(wrong)?;
        let (code, rest) = element(response, 0x0a).ok_or_else(wrong)?;
        if code == [0] {
            return Ok(None);
        }
        let text = element(rest, 0x04).and_then(|(_, rest)| element(rest, 0x04));
        let text = text.map(|(text, _)| plain(text)).unwrap_or_default();
        let code = code.iter().fold(0u64, |code, byte| code << 8 | u64::from(*byte));
        Err(self.refused(format!("result code {code} {text}").trim_end().to_owned()))
    }

    fn postgres(&mut self) -> Result<Option<String>, StartTlsError> {
        // The length, then the code 80877103.
        self.send(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])?;
        match self.take(1)?.as_slice() {
            b"S" => Ok(None),
            b"N" => Err(self.refused("the server answered `N`".to_owned())),
            other => {
                let other = plain(other);
                Err(self.unexpected("`S` or `N`", &other))
            }
        }
    }

    fn mysql(&mut self) -> Result<Option<String>, StartTlsError> {
        const CLIENT_SSL: u16 = 1 << 11;
        let header = self.take(4)?;
        let len = usize::from(header[0]) | usize::from(header[1]) << 8;
        if header[2] != 0 || len == 0 || len > LINE_LEN_MAX {
            return Err(self.unexpected("a greeting packet", &plain(&header)));
        }
        let greeting = self.take(len)?;
        if greeting[0] == 0xff {
            // An error packet: a code of two bytes, then a message.
            let message = plain(greeting.get(3..).unwrap_or_default());
            return Err(self.refused(message));
        }
        let rest = &greeting[1..];
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
        // The version is followed by the connection's number, 8 bytes of data and a filler.
        let capabilities = rest.get(end + 14..end + 16);
        let (10, Some(capabilities)) = (greeting[0], capabilities) else {
            return Err(self.unexpected("a greeting packet of version 10", &plain(&greeting)));
        };
        if u16::from_le_bytes([capabilities[0], capabilities[1]]) & CLIENT_SSL == 0 {
            return Err(self.refused("the server does not offer it".to_owned()));
        }
        let version = plain(&rest[..end]);
        // LONG_PASSWORD, PROTOCOL_41, SSL, SECURE_CONNECTION and PLUGIN_AUTH; packets of 16 MiB;
        // character set utf8mb4.
        let mut request = vec![32, 0, 0, 1, 0x01, 0x8a, 0x08, 0x00, 0, 0, 0, 1, 45];
        request.resize(4 + 32, 0);
        self.send(&request)?;
        Ok(Some(version))
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), StartTlsError> {
        let protocol = self.protocol;
        let sent = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
        sent.map_err(|cause| StartTlsError::Io { protocol, cause })
    }

    /// Reads a reply, which must have this code.
    fn reply(&mut self, code: u16) -> Result<Reply, StartTlsError> {
        let reply = self.any_reply()?;
        if reply.code != code {
            let text = format!("{} {}", reply.code, reply.lines.join(" "));
            return Err(self.unexpected(&format!("`{code}`"), &text));
        }
        Ok(reply)
    }

    /// Reads the reply to the command that asks for TLS.
    fn agreement(&mut self, code: u16) -> Result<(), StartTlsError> {
        let reply = self.any_reply()?;
        if reply.code != code {
            return Err(self.refused(format!("{} {}", reply.code, reply.lines.join(" "))));
        }
        Ok(())
    }

    /// Reads a reply: lines with a code and a `-`, and one with the code and a space.
    fn any_reply(&mut self) -> Result<Reply, StartTlsError> {
        let mut lines = Vec::new();
        loop {
            let line = self.line()?;
            let code = line.get(..3).filter(|code| code.bytes().all(|byte| byte.is_ascii_digit()));
            match (code.and_then(|code| code.parse().ok()), line.as_bytes().get(3)) {
                (Some(_), Some(b'-')) => lines.push(line[4..].to_owned()),
                (Some(code), None | Some(b' ')) => {
                    lines.push(line.get(4..).unwrap_or_default().to_owned());
                    return Ok(Reply { code, lines });
                }
                // FTP allows lines without a code inside of a reply.
                _ if !lines.is_empty() && self.protocol == StartTls::Ftp => lines.push(line),
                _ => return Err(self.unexpected("a code of three digits", &line)),
            }
        }
    }

    /// Reads a line and removes its end.
    fn line(&mut self) -> Result<String, StartTlsError> {
        self.lines += 1;
        let end = loop {
            let end = self.buffer.iter().position(|byte| *byte == b'\n');
            if self.lines > LINES_MAX || end.unwrap_or(self.buffer.len()) > LINE_LEN_MAX {
                let start = plain(&self.buffer);
                return Err(self.unexpected("a shorter answer", &start));
            }
            match end {
                Some(end) => break end,
                None => self.fill()?,
            }
        };
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        Ok(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// Reads exactly `len` bytes.
    fn take(&mut self, len: usize) -> Result<Vec<u8>, StartTlsError> {
        while self.buffer.len() < len {
            self.fill()?;
        }
        Ok(self.buffer.drain(..len).collect())
    }

    /// Reads a BER element with this tag, and returns its content.
    fn ber(&mut self, tag: u8) -> Result<Vec<u8>, StartTlsError> {
        let head = self.take(2)?;
        let mut len = usize::from(head[1]);
        if len > 0x80 {
            let digits = self.take((len - 0x80).min(5))?;
            len = digits.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
        }
        if head[0] != tag || head[1] == 0x80 || len > LINE_LEN_MAX {
            return Err(self.unexpected("an LDAPMessage", &plain(&head)));
        }
        self.take(len)
    }

    /// Reads what the server has sent.
    fn fill(&mut self) -> Result<(), StartTlsError> {
        let protocol = self.protocol;
        let mut chunk = [0; 512];
        let read = loop {
            match self.stream.read(&mut chunk) {
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        match read.map_err(|cause| StartTlsError::Io { protocol, cause })? {
            0 => {
                let cause = io::Error::other("the server closed the connection");
                Err(StartTlsError::Io { protocol, cause })
            }
            read => {
                self.buffer.extend_from_slice(&chunk[..read]);
                Ok(())
            }
        }
    }

    fn refused(&self, answer: String) -> StartTlsError {
        StartTlsError::Refused { protocol: self.protocol, answer: plain(answer.as_bytes()) }
    }

    fn unexpected(&self, expected: &str, came: &str) -> StartTlsError {
        let answer = format!("expected {expected}, received `{}`", plain(came.as_bytes()));
        StartTlsError::Unexpected { protocol: self.protocol, answer }
    }
}

/// Splits a BER element with this tag and a definite length off the front: its content, and what
/// follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, len], rest) = bytes.split_first_chunk::<2>()?;
    let (len, rest) = match len {
        0..=0x7f => (usize::from(len), rest),
        0x81..=0x84 => {
            let (digits, rest) = rest.split_at_checked(usize::from(len - 0x80))?;
            (digits.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    if found != tag { None } else { rest.split_at_checked(len) }
}

/// Returns the beginning of a server's text.
fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(TEXT_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that has already said everything, in reads of `chunk` bytes.
    struct Script {
        says: &'static [u8],
        chunk: usize,
        heard: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = buffer.len().min(self.chunk).min(self.says.len());
            let (now, later) = self.says.split_at(len);
            buffer[..len].copy_from_slice(now);
            self.says = later;
            Ok(len)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn ask(
        protocol: StartTls,
        says: &'static [u8],
    ) -> (Result<Option<String>, StartTlsError>, Vec<u8>) {
        let mut script = Script { says, chunk: 3, heard: Vec::new() };
        let result = start(&mut script, protocol);
        (result, script.heard)
    }

    const MYSQL: &[u8] =
        b"\x29\x00\x00\x00\x0a8.4.3\x00\x01\x00\x00\x0012345678\x00\xff\xff\x2d\x02\x00\
        \xff\xdf\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00ab\x00";
    const MYSQL_WITHOUT: &[u8] =
        b"\x18\x00\x00\x00\x0a8.4.3\x00\x01\x00\x00\x0012345678\x00\xff\xf7\x2d\x02";

    #[test]
    fn every_protocol_leads_to_tls() {
        for (protocol, says, banner, heard) in [
            (
                StartTls::Smtp,
                &b"220-mx ESMTP\r\n220 hi\r\n250-mx\r\n250-SIZE\r\n250 starttls\r\n220 go\r\n"[..],
                Some("mx ESMTP"),
                &b"EHLO localhost\r\nSTARTTLS\r\n"[..],
            ),
            (
                StartTls::Imap,
                b"* OK [CAPABILITY X] Dovecot ready.\r\n* X\r\na ok begin\r\n",
                Some("[CAPABILITY X] Dovecot ready."),
                b"a STARTTLS\r\n",
            ),
            (StartTls::Pop3, b"+OK Dovecot ready.\r\n+OK\r\n", Some("Dovecot ready."), b"STLS\r\n"),
            (
                StartTls::Ftp,
                b"220-a\r\n free text\r\n220 (vsFTPd 3.0.3)\r\n234 go\r\n",
                Some("a"),
                b"AUTH TLS\r\n",
            ),
            (
                StartTls::Ldap,
                b"\x30\x81\x0c\x02\x01\x01\x78\x07\x0a\x01\x00\x04\x00\x04\x00",
                None,
                b"\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037",
            ),
            (StartTls::Postgres, b"S", None, &[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]),
        ] {
            let (result, sent) = ask(protocol, says);
            assert_eq!(result.unwrap().as_deref(), banner, "{protocol}");
            assert_eq!(sent, heard, "{protocol}");
        }
        let (result, sent) = ask(StartTls::Mysql, MYSQL);
        assert_eq!(result.unwrap().as_deref(), Some("8.4.3"));
        assert_eq!((sent.len(), &sent[..4]), (36, &[32, 0, 0, 1][..]));
    }

    #[test]
    fn refusals_and_other_protocols_are_named() {
        for (protocol, says, expected) in [
            (StartTls::Smtp, &b"220 x\r\n250 SIZE\r\n"[..], "refused STARTTLS (smtp): the server"),
            (
                StartTls::Smtp,
                b"220 x\r\n250 STARTTLS\r\n454 no\r\n",
                "refused STARTTLS (smtp): 454",
            ),
            (StartTls::Smtp, b"SSH-2.0-x\r\n", "does not speak smtp: expected a code"),
            (StartTls::Smtp, b"554 busy\r\n", "expected `220`, received `554 busy`"),
            (StartTls::Imap, b"* OK\r\na NO x\r\n", "refused STARTTLS (imap): NO x"),
            (StartTls::Imap, b"* BYE\r\n", "does not speak imap"),
            (StartTls::Pop3, b"+OK\r\n-ERR no\r\n", "refused STLS (pop3): -ERR no"),
            (StartTls::Ftp, b"220 x\r\n500 what\r\n", "refused AUTH TLS (ftp): 500 what"),
            (
                StartTls::Ldap,
                b"\x30\x0e\x02\x01\x01\x78\x09\x0a\x01\x02\x04\x00\x04\x02no",
                "refused StartTLS (ldap): result code 2 no",
            ),
            (StartTls::Ldap, b"HTTP/1.1 400\r\n", "expected an LDAPMessage"),
            (StartTls::Ldap, b"\x30\x03\x02\x01\x01", "expected an ExtendedResponse"),
            (StartTls::Postgres, b"N", "refused SSLRequest (postgres)"),
            (StartTls::Postgres, b"E", "expected `S` or `N`"),
            (StartTls::Mysql, b"\x04\x00\x00\x00\xff\x10\x04a", "refused SSLRequest (mysql): a"),
            (StartTls::Mysql, MYSQL_WITHOUT, "refused SSLRequest (mysql): the server does not"),
            (StartTls::Mysql, b"\x01\x00\x00\x00\x0a", "a greeting packet of version 10"),
            (StartTls::Mysql, b"\x00\x00\x00\x00", "expected a greeting packet"),
            (StartTls::Smtp, b"220 x\r\n250 STARTTLS\r\n220 go\r\nmore", "sent data after"),
            (StartTls::Postgres, b"S", "sent data after"),
            (StartTls::Pop3, b"", "closed the connection"),
        ] {
            let mut script = Script { says, chunk: 512, heard: Vec::new() };
            if says == b"S" {
                script.says = b"SS";
            }
            let error = start(&mut script, protocol).unwrap_err().to_string();
            assert!(error.contains(expected), "{protocol}: {error}");
        }
    }

    #[test]
    fn endless_answers_end() {
        /// A server that repeats itself.
        struct Endless(&'static [u8]);
        impl Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let len = self.0.len().min(buffer.len());
                buffer[..len].copy_from_slice(&self.0[..len]);
                Ok(len)
            }
        }
        impl Write for Endless {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for says in [&b"220-x\r\n"[..], b"220", b"* x\r\n", b"\n", b"\xff"] {
            for protocol in StartTls::ALL {
                assert!(start(&mut Endless(says), protocol).is_err(), "{protocol} {says:?}");
            }
        }
    }

    #[test]
    fn texts_of_servers_are_cut() {
        let long: &'static [u8] = Vec::leak([b"220 ", &[b'x'; 3000][..], b"\r\n550\r\n"].concat());
        let (result, _) = ask(StartTls::Smtp, long);
        assert!(result.unwrap_err().to_string().len() < 300);
        assert!(ask(StartTls::Ftp, long).0.unwrap_err().to_string().len() < 300);
    }
}
