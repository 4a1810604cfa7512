//! One handshake between two processes, with counters on either side.

use std::path::Path;

use gabion_engine::Algorithm;
use gabion_provider_stats::{Operation, Snapshot};

use gabion_cli::failure::Failure;
use gabion_cli::openssl::Openssl;

/// The parameters of the handshake, and which code served its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The protocol, as OpenSSL names it.
    pub version: String,
    /// The group that was negotiated.
    pub group: String,
    /// The algorithm of the certificates.
    pub certificate: String,
    /// Bytes that went over the wire, both directions.
    pub bytes: u64,
    /// The provider of the group's key exchange, on both sides.
    pub kem_provider: &'static str,
    /// The provider of signatures.
    pub signature_provider: &'static str,
}

/// Makes a root and a server certificate, starts a server, connects a client.
///
/// # Errors
/// [`Failure::NotReady`] when openssl can't, [`Failure::No`] when the handshake is not the one
/// that was asked for.
pub fn shake_hands(
    openssl: &Openssl<'_>,
    group: &str,
    certificate: &str,
) -> Result<Handshake, Failure> {
    make_certificates(openssl, certificate).map_err(Failure::NotReady)?;
    let serve = [
        "s_server",
        "-accept",
        "127.0.0.1:0",
        "-www",
        "-tls1_3",
        "-groups",
        group,
        "-cert",
        "server.pem",
        "-key",
        "server.key",
    ];
    // Killed when it goes out of scope, however this ends.
    let mut server = openssl.start(&serve, "server.stats").map_err(Failure::NotReady)?;
    let address = server.line("ACCEPT").map_err(Failure::NotReady)?;
    let connect = [
        "s_client",
        "-connect",
        &address,
        "-tls1_3",
        "-groups",
        group,
        "-CAfile",
        "root.pem",
        "-servername",
        "localhost",
        "-verify_hostname",
        "localhost",
        "-verify_return_error",
    ];
    let said = openssl.run(&connect, Some("client.stats")).map_err(Failure::No)?;
    drop(server);
    let counted = |name: &str| openssl.counters(name).map_err(Failure::NotReady);
    let (server, client) = (counted("server.stats")?, counted("client.stats")?);
    let shaken = read(&said, certificate, &server, &client).map_err(Failure::No)?;
    if shaken.group != group || shaken.version != "TLSv1.3" {
        let Handshake { version, group: got, .. } = shaken;
        return Err(Failure::No(format!(
            "the handshake was {version} with {got}; expected TLSv1.3 with {group}"
        )));
    }
    Ok(shaken)
}

fn make_certificates(openssl: &Openssl<'_>, algorithm: &str) -> Result<(), String> {
    let root = ["-keyout", "root.key", "-out", "root.pem", "-subj", "/CN=Gabion run root"];
    let server = [
        "-keyout",
        "server.key",
        "-out",
        "server.pem",
        "-subj",
        "/CN=localhost",
        "-CA",
        "root.pem",
        "-CAkey",
        "root.key",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ];
    let common = ["req", "-x509", "-newkey", algorithm, "-nodes", "-days", "2"];
    for own in [&root[..], &server[..]] {
        openssl.run(&[&common[..], own].concat(), None)?;
    }
    debug_assert!(Path::new(&openssl.file("server.pem")).exists());
    Ok(())
}

/// Parses the output of `s_client` and the counters of both sides.
fn read(
    said: &str,
    certificate: &str,
    server: &Snapshot,
    client: &Snapshot,
) -> Result<Handshake, String> {
    let find = |prefix: &str| said.lines().find_map(|line| line.trim().strip_prefix(prefix));
    let need = |prefix: &str| {
        find(prefix).map(str::trim).ok_or_else(|| format!("s_client did not say `{prefix}`"))
    };
    let verified = need("Verify return code: ")?;
    if !verified.starts_with("0 ") {
        return Err(format!("the server's certificate did not verify: {verified}"));
    }
    let version = need("New, ")?.split(',').next().unwrap_or_default().to_owned();
    let group = need("Negotiated TLS1.3 group: ")?.to_owned();
    let bytes = need("SSL handshake has ")?
        .split_whitespace()
        .filter_map(|word| word.parse::<u64>().ok())
        .sum();
    let certificate: Algorithm = certificate
        .parse()
        .map_err(|_| format!("no counters for certificates of {certificate}"))?;
    let kem: Algorithm = group.parse().map_err(|_| format!("no counters for the group {group}"))?;
    let did = |side: &Snapshot, algorithm: Algorithm, operation| {
        let (calls, errors) = side.of(algorithm.name(), operation);
        calls > 0 && errors == 0
    };
    let by = |ours: bool| if ours { "gabion" } else { "default" };
    Ok(Handshake {
        version,
        group,
        certificate: certificate.name().to_owned(),
        bytes,
        kem_provider: by(did(server, kem, Operation::Encaps)
            && did(client, kem, Operation::Keygen)
            && did(client, kem, Operation::Decaps)),
        signature_provider: by(did(server, certificate, Operation::Sign)
            && did(client, certificate, Operation::Verify)),
    })
}

impl Handshake {
    /// Two lines for people.
    pub fn describe(&self) -> String {
        format!(
            "Handshake   openssl s_server <-> s_client over loopback\n            {} · {} (by {}) · \
             certificate {} (signature by {}) · {:.1} kB on the wire",
            self.version,
            self.group,
            self.kem_provider,
            self.certificate,
            self.signature_provider,
            self.bytes as f64 / 1000.0
        )
    }

    /// Refuses to go on when OpenSSL fell back to its own code: the figures would be its own.
    ///
    /// # Errors
    /// [`Failure::No`], naming what was not ours.
    pub fn require_gabion(&self) -> Result<(), Failure> {
        if self.kem_provider == "gabion" && self.signature_provider == "gabion" {
            return Ok(());
        }
        Err(Failure::No(format!(
            "the key exchange was served by {}, signatures by {}; expected gabion for both. \
             `gabion doctor` says why",
            self.kem_provider, self.signature_provider
        )))
    }
}

#[cfg(test)]
mod tests {
    use gabion_provider_stats::Row;

    use super::*;

    const SAID: &str = "CONNECTED(00000003)\nPeer signature type: mldsa65\nNegotiated TLS1.3 group: \
        X25519MLKEM768\n---\nSSL handshake has read 10249 bytes and written 1491 bytes\n\
        Verification: OK\n---\nNew, TLSv1.3, Cipher is TLS_AES_256_GCM_SHA384\n\
        Verify return code: 0 (ok)\n";

    fn counted(list: &[(&str, &str, u64)]) -> Snapshot {
        let rows = list.iter().map(|(algorithm, operation, errors)| Row {
            algorithm: (*algorithm).to_owned(),
            operation: (*operation).to_owned(),
            calls: 1,
            errors: *errors,
        });
        Snapshot { loads: 1, rows: rows.collect(), ..Snapshot::default() }
    }

    fn both(errors: u64) -> (Snapshot, Snapshot) {
        let group = "X25519MLKEM768";
        let server = [(group, "encaps", errors), ("ML-DSA-65", "sign", 0)];
        let client = [(group, "keygen", 0), (group, "decaps", 0), ("ML-DSA-65", "verify", 0)];
        (counted(&server), counted(&client))
    }

    #[test]
    fn handshake_output_and_counters_are_read() {
        let (server, client) = both(0);
        let shaken = read(SAID, "ML-DSA-65", &server, &client).unwrap();
        assert_eq!((shaken.version.as_str(), shaken.bytes), ("TLSv1.3", 11_740));
        assert_eq!((shaken.kem_provider, shaken.signature_provider), ("gabion", "gabion"));
        assert!(shaken.require_gabion().is_ok());
    }

    #[test]
    fn provider_is_identified_by_counters_only() {
        let (_, client) = both(0);
        let none = Snapshot::default();
        let shaken = read(SAID, "ML-DSA-65", &none, &client).unwrap();
        assert_eq!((shaken.kem_provider, shaken.signature_provider), ("default", "default"));
        let (server, client) = both(1);
        let shaken = read(SAID, "ML-DSA-65", &server, &client).unwrap();
        assert_eq!((shaken.kem_provider, shaken.signature_provider), ("default", "gabion"));
        assert!(matches!(shaken.require_gabion(), Err(Failure::No(_))));
    }

    #[test]
    fn a_certificate_that_does_not_verify_is_an_error() {
        let bad = SAID.replace("0 (ok)", "18 (self-signed certificate)");
        let none = Snapshot::default();
        assert!(read(&bad, "ML-DSA-65", &none, &none).unwrap_err().contains("self-signed"));
        assert!(read("", "ML-DSA-65", &none, &none).is_err());
    }
}
