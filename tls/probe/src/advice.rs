//! Lines of configuration that make known programs post-quantum.
//!
//! Every line was run by the project (docs/guide/servers.md has the versions), or is in the
//! program's own documentation. A program without such a line has no entry.

/// How to change the key exchange of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice {
    /// A part of how servers name the program, in lower case.
    pattern: &'static str,
    /// Why the program's key exchange is classical, if its defaults are the reason.
    pub reason: Option<&'static str>,
    /// The lines that select a hybrid group.
    pub groups: &'static [&'static str],
    /// The lines that enable TLS 1.3.
    pub tls13: &'static [&'static str],
}

/// The first entry whose pattern is in the program's name counts. With `/` instead of `:`, OpenSSL
/// requests the hybrid from clients that offer it but send only the share of X25519.
const ADVICE: &[Advice] = &[
    Advice {
        pattern: "nginx",
        reason: None,
        groups: &["ssl_conf_command Groups X25519MLKEM768/X25519;  # with OpenSSL 3.5 or newer"],
        tls13: &["ssl_protocols TLSv1.2 TLSv1.3;"],
    },
    Advice {
        pattern: "apache",
        reason: None,
        groups: &["SSLOpenSSLConfCmd Groups X25519MLKEM768/X25519  # with OpenSSL 3.5 or newer"],
        tls13: &["SSLProtocol TLSv1.2 TLSv1.3"],
    },
    Advice {
        pattern: "haproxy",
        reason: None,
        groups: &["bind ... curves X25519MLKEM768/X25519  # with OpenSSL 3.5 or newer"],
        tls13: &["bind ... ssl-min-ver TLSv1.2 ssl-max-ver TLSv1.3"],
    },
    Advice {
        pattern: "lighttpd",
        reason: None,
        groups: &[
            "# lighttpd needs no line: run it with OpenSSL 3.5 or newer, with its default groups",
        ],
        tls13: &[],
    },
    Advice {
        pattern: "caddy",
        reason: None,
        groups: &["# Caddy needs no line from 2.10 on: remove `curves` from `tls`"],
        tls13: &[],
    },
    Advice {
        pattern: "postgresql",
        reason: Some("if it is PostgreSQL, it sets its groups itself, by default without a hybrid"),
        groups: &[
            "ssl_groups = 'X25519MLKEM768:X25519'  # PostgreSQL 18, OpenSSL 3.5 or newer",
            "# older: put PgBouncer in front of it, with client_tls_sslmode = require and without \
             client_tls_ecdhcurve",
        ],
        tls13: &["ssl_max_protocol_version = ''"],
    },
    Advice {
        pattern: "mariadb",
        reason: None,
        groups: &["# MariaDB needs no line: run it with OpenSSL 3.5 or newer"],
        tls13: &["tls_version = TLSv1.2,TLSv1.3"],
    },
    Advice {
        pattern: "postfix",
        reason: Some("Postfix sets its groups itself, up to 3.7 without a hybrid"),
        groups: &["tls_eecdh_auto_curves = X25519MLKEM768  # Postfix 3.7, with no other name"],
        tls13: &[],
    },
    Advice {
        pattern: "dovecot",
        reason: None,
        groups: &["# Dovecot needs no line: run it with OpenSSL 3.5 or newer"],
        tls13: &[],
    },
    Advice {
        pattern: "vsftpd",
        reason: Some("vsftpd 3.0.3 has P-256 in its code, and no option for groups"),
        groups: &[],
        tls13: &[],
    },
    Advice {
        pattern: "openssh",
        reason: None,
        groups: &["KexAlgorithms ^mlkem768x25519-sha256  # OpenSSH 9.9 or newer"],
        tls13: &[],
    },
];

/// Returns the advice for a program by the name that its server sends.
#[must_use]
pub fn find(program: &str) -> Option<&'static Advice> {
    let name = program.to_ascii_lowercase();
    ADVICE.iter().find(|advice| name.contains(advice.pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_what_they_send() {
        for (program, line) in [
            ("nginx/1.22.1", "ssl_conf_command Groups"),
            ("Apache/2.4.62 (Debian)", "SSLOpenSSLConfCmd"),
            ("ESMTP Postfix (Debian/GNU)", "tls_eecdh_auto_curves"),
            ("5.5.5-10.11.6-MariaDB-0+deb12u1", "MariaDB"),
            ("SSH-2.0-OpenSSH_9.2p1 Debian-2", "KexAlgorithms"),
            ("PostgreSQL", "ssl_groups"),
        ] {
            let found = find(program).unwrap();
            assert!(found.groups.iter().any(|text| text.contains(line)), "{program}: {found:?}");
        }
        assert!(find("(vsFTPd 3.0.3)").unwrap().reason.unwrap().contains("P-256"));
        assert_eq!(find("gws"), None);
        assert!(ADVICE.iter().all(|advice| advice.pattern == advice.pattern.to_lowercase()));
    }
}
