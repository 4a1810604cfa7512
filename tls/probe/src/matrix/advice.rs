//! The configuration that makes a client send a form of the hello, in the syntax of each program.
//! Where a program has no setting, its line is a comment that says so.

use std::collections::BTreeMap;

use super::{FORMS, Form, best};
use crate::report::MatrixRow;

/// The configuration of one property of a form, in each syntax.
struct Lines {
    openssl: &'static str,
    go: &'static str,
    rustls: &'static str,
    haproxy: &'static str,
    nginx: &'static str,
}

/// The hybrid's key share only: OpenSSL sends a share of the first group if no group has a `*`. Go
/// and rustls add a share of X25519 if they may use that group.
const HYBRID_SHARE: Lines = Lines {
    openssl: "Groups = X25519MLKEM768:X25519:P-256:P-384",
    go: "CurvePreferences: []tls.CurveID{tls.X25519MLKEM768, tls.CurveP256, tls.CurveP384}, // and \
         no GODEBUG=tlsmlkem=0",
    rustls: "provider.kx_groups = vec![X25519MLKEM768, SECP256R1, SECP384R1];",
    haproxy: "ssl-default-server-curves X25519MLKEM768:X25519:P-256:P-384",
    nginx: "proxy_ssl_conf_command Groups X25519MLKEM768:X25519:P-256:P-384;",
};

/// A key share of X25519; the hybrid comes by HelloRetryRequest. `*` marks the share, and `/`
/// separates groups that are preferred to a round trip less.
const SMALL_SHARE: Lines = Lines {
    openssl: "Groups = X25519MLKEM768/*X25519:P-256:P-384",
    go: "// crypto/tls has no setting, it always sends the hybrid's share; with Gabion's fipstls: \
         Groups: []string{\"X25519MLKEM768/*X25519\", \"P-256\", \"P-384\"}",
    rustls: "config.resumption = Resumption::store(store); // a ClientSessionStore whose kx_hint \
             returns Some(NamedGroup::X25519)",
    haproxy: "ssl-default-server-curves X25519MLKEM768/*X25519:P-256:P-384",
    nginx: "proxy_ssl_conf_command Groups X25519MLKEM768/*X25519:P-256:P-384;",
};

macro_rules! classical_schemes {
    () => {
        "ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:ed25519:rsa_pss_rsae_sha256:\
         rsa_pss_rsae_sha384:rsa_pss_rsae_sha512:rsa_pkcs1_sha256:rsa_pkcs1_sha384"
    };
}

const WITHOUT_ML_DSA: Lines = Lines {
    openssl: concat!("SignatureAlgorithms = ", classical_schemes!()),
    go: "// crypto/tls sends no codepoints of ML-DSA",
    rustls: "provider.signature_verification_algorithms = rustls::crypto::aws_lc_rs::\
             default_provider().signature_verification_algorithms;",
    haproxy: concat!("ssl-default-server-sigalgs ", classical_schemes!()),
    nginx: concat!("proxy_ssl_conf_command SignatureAlgorithms ", classical_schemes!(), ";"),
};

const SPLIT_RECORDS: Lines = Lines {
    openssl: "SSL_CTX_set_max_send_fragment(ctx, 512);",
    go: "// crypto/tls has no setting for the records of a handshake",
    rustls: "config.max_fragment_size = Some(512);",
    haproxy: "# HAProxy has no setting: tune.ssl.maxrecord splits application data only",
    nginx: "# nginx has no setting: ssl_buffer_size splits application data only",
};

macro_rules! route {
    ($comment:literal) => {
        concat!(
            $comment,
            " no setting of the program; for all programs of the host: \
             ip route replace ADDRESS via GATEWAY mtu lock 576"
        )
    };
}

const SPLIT_SEGMENTS: Lines = Lines {
    openssl: route!("#"),
    go: route!("//"),
    rustls: route!("//"),
    haproxy: route!("#"),
    nginx: route!("#"),
};

/// The configuration of a server that accepts the share of X25519, to request the hybrid's instead.
const SERVER: &[(&str, &str)] = &[
    ("haproxy_server", "ssl-default-bind-curves X25519MLKEM768/X25519:P-256:P-384"),
    ("nginx_server", "ssl_ecdh_curve X25519MLKEM768/X25519:P-256:P-384;"),
    ("openssl_server", "Groups = X25519MLKEM768/X25519:P-256:P-384"),
];

/// Returns the configuration of a client that sends the first form that survived and stayed
/// post-quantum, by syntax: `openssl`, `go`, `rustls`, `haproxy` and `nginx`. If no form is both,
/// and the hello with X25519's share survived, returns what a server needs to ask for the hybrid:
/// `openssl_server`, `haproxy_server` and `nginx_server`. Otherwise the map is empty.
#[must_use]
pub fn ask_with(rows: &[MatrixRow]) -> BTreeMap<String, String> {
    if let Some(form) = best(rows) {
        let parts = parts(form);
        let join = |of: fn(&Lines) -> &'static str| {
            parts.iter().map(|lines| of(lines)).collect::<Vec<_>>().join("\n")
        };
        return BTreeMap::from([
            ("openssl".to_owned(), join(|lines| lines.openssl)),
            ("go".to_owned(), join(|lines| lines.go)),
            ("rustls".to_owned(), join(|lines| lines.rustls)),
            ("haproxy".to_owned(), join(|lines| lines.haproxy)),
            ("nginx".to_owned(), join(|lines| lines.nginx)),
        ]);
    }
    let has_small_share = |row: &MatrixRow| {
        FORMS.iter().any(|form| form.name == row.form && form.has_hybrid && form.is_share_small)
    };
    if rows.iter().any(|row| row.survived && has_small_share(row)) {
        return SERVER.iter().map(|(key, line)| ((*key).to_owned(), (*line).to_owned())).collect();
    }
    BTreeMap::new()
}

fn parts(form: &Form) -> Vec<&'static Lines> {
    let mut parts = vec![if form.is_share_small { &SMALL_SHARE } else { &HYBRID_SHARE }];
    parts.extend((!form.has_ml_dsa).then_some(&WITHOUT_ML_DSA));
    parts.extend(form.has_split_records.then_some(&SPLIT_RECORDS));
    parts.extend(form.has_split_segments.then_some(&SPLIT_SEGMENTS));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(survivors: &[(&str, bool)]) -> Vec<MatrixRow> {
        let row = |form: &Form| {
            let fate = survivors.iter().find(|(name, _)| *name == form.name);
            MatrixRow {
                form: form.name.to_owned(),
                survived: fate.is_some(),
                post_quantum: fate.is_some_and(|(_, post_quantum)| *post_quantum),
                ..MatrixRow::default()
            }
        };
        FORMS.iter().map(row).collect()
    }

    #[test]
    fn the_cheapest_form_is_asked_for() {
        let all: Vec<_> = FORMS.iter().map(|form| (form.name, form.has_hybrid)).collect();
        assert_eq!(ask_with(&rows(&all))["openssl"], HYBRID_SHARE.openssl);
        let small = [("classical", false), ("split records", true), ("X25519 first", true)];
        let lines = ask_with(&rows(&small));
        assert_eq!(lines["openssl"], "Groups = X25519MLKEM768/*X25519:P-256:P-384");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn a_form_with_several_properties_has_a_line_for_each() {
        let lines = ask_with(&rows(&[("all of it", true)]));
        for (syntax, text) in &lines {
            assert_eq!(text.lines().count(), 4, "{syntax}: {text}");
            assert!(text.lines().all(|line| !line.contains("  ")), "{text}");
        }
    }

    #[test]
    fn a_server_that_takes_the_classical_share_is_told_to_retry() {
        let lines = ask_with(&rows(&[("X25519 first", false), ("classical", false)]));
        let syntaxes: Vec<_> = lines.keys().map(String::as_str).collect();
        assert_eq!(syntaxes, ["haproxy_server", "nginx_server", "openssl_server"]);
        assert!(ask_with(&rows(&[("classical", false)])).is_empty());
        assert!(ask_with(&rows(&[])).is_empty());
    }
}
