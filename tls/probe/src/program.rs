//! Names of programs, from what their servers say about themselves.

use crate::target::StartTls;

/// The longest name that is kept.
const NAME_LEN_MAX: usize = 120;

/// Returns the program by the greeting of a STARTTLS dialogue.
#[must_use]
pub fn of_greeting(protocol: StartTls, banner: Option<&str>) -> Option<String> {
    let banner = banner.filter(|banner| !banner.is_empty());
    match protocol {
        // Servers do not introduce themselves, and PostgreSQL's protocol has other implementations.
        StartTls::Postgres => Some("PostgreSQL".to_owned()),
        StartTls::Ldap => None,
        StartTls::Mysql => banner.map(|version| match version.contains("MariaDB") {
            true => named("MariaDB ", version.strip_prefix("5.5.5-").unwrap_or(version)),
            false => named("MySQL ", version),
        }),
        // The first word is the host's name (RFC 5321, section 4.2).
        StartTls::Smtp => {
            banner.and_then(|banner| Some(named("", banner.split_once(' ')?.1.trim())))
        }
        StartTls::Imap | StartTls::Pop3 | StartTls::Ftp => banner.map(|banner| named("", banner)),
    }
}

/// Returns the value of the header `Server` in the head of an HTTP response.
#[must_use]
pub fn of_http(head: &[u8]) -> Option<String> {
    let head = String::from_utf8_lossy(head);
    let headers = head.lines().skip(1).take_while(|line| !line.trim().is_empty());
    let mut fields = headers.filter_map(|line| line.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("server"))?;
    Some(named("", value.trim())).filter(|name| !name.is_empty())
}

fn named(prefix: &str, text: &str) -> String {
    [prefix, text].concat().chars().take(NAME_LEN_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_have_the_names_of_their_servers() {
        for (protocol, banner, expected) in [
            (StartTls::Smtp, Some("postfix.a ESMTP Exim 4.96"), Some("ESMTP Exim 4.96")),
            (StartTls::Smtp, Some("postfix.a"), None),
            (StartTls::Mysql, Some("8.4.3"), Some("MySQL 8.4.3")),
            (StartTls::Mysql, Some("5.5.5-10.11.6-MariaDB"), Some("MariaDB 10.11.6-MariaDB")),
            (StartTls::Postgres, None, Some("PostgreSQL")),
            (StartTls::Imap, Some(""), None),
        ] {
            assert_eq!(of_greeting(protocol, banner).as_deref(), expected, "{protocol}");
        }
        let head = b"HTTP/1.1 200 OK\r\nDate: x\r\nserver: nginx/1.22.1\r\n\r\nServer: body";
        assert_eq!(of_http(head).as_deref(), Some("nginx/1.22.1"));
        assert_eq!(of_http(b"HTTP/1.1 200 OK\r\n\r\nServer: body"), None);
        assert_eq!(of_http(b"\xff\r\nServer:\r\n"), None);
        assert!(of_http(&[b"x\r\nServer: ", &[b'a'; 999][..]].concat()).unwrap().len() < 200);
    }
}
