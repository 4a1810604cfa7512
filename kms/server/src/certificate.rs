//! Short-lived certificates for development: a new authority, and a server certificate that it
//! issues (RFC 5280).

use std::net::IpAddr;
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use gabion_engine::{Algorithm, Engine, OsEntropy};
use gabion_kms::clock::{now_ms, rfc3339};
use gabion_rustls::certificate::{self, Fields, Subject, extension, tlv};
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SigningKey};
use rustls::{ServerConfig, SignatureScheme};
use sha2::{Digest, Sha256};

use crate::error::Error;

/// The lifetime of the certificates.
const LIFE_MS: u64 = 30 * 86_400_000;

/// The tolerated clock difference.
const SKEW_MS: u64 = 3_600_000;

/// Creates a TLS 1.3 configuration for this machine, and the PEM of its two authorities: ML-DSA-65
/// for clients that support it, and ECDSA for others.
///
/// # Errors
/// No randomness; errors of the engine.
pub fn fresh(addresses: &[IpAddr]) -> Result<(ServerConfig, String), Error> {
    let (by_mldsa, root) = issue(Algorithm::MlDsa65, SignatureScheme::ML_DSA_65, addresses)?;
    let (by_ecdsa, other) =
        issue(Algorithm::EcdsaP256, SignatureScheme::ECDSA_NISTP256_SHA256, addresses)?;
    let provider = Arc::new(gabion_rustls::provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(CertificatePair { by_mldsa, by_ecdsa }));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok((config, pem(&root) + &pem(&other)))
}

/// A certificate for clients with ML-DSA and one for all others.
#[derive(Debug)]
struct CertificatePair {
    by_mldsa: Arc<CertifiedKey>,
    by_ecdsa: Arc<CertifiedKey>,
}

impl ResolvesServerCert for CertificatePair {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let takes = hello.signature_schemes().contains(&SignatureScheme::ML_DSA_65);
        Some(if takes { self.by_mldsa.clone() } else { self.by_ecdsa.clone() })
    }
}

type IssuedCertificate = (Arc<CertifiedKey>, CertificateDer<'static>);

/// Issues a server certificate with its key.
fn issue(
    algorithm: Algorithm,
    scheme: SignatureScheme,
    addresses: &[IpAddr],
) -> Result<IssuedCertificate, Error> {
    let authority =
        Subject { key: generate(algorithm)?, name: "Gabion KMS, made for one run".to_owned() };
    let server = Subject { key: generate(algorithm)?, name: "localhost".to_owned() };
    let root = issue_now(scheme, &authority, &authority, of_authority())?;
    let of_server = of_server(&server.name, addresses);
    let leaf = issue_now(scheme, &authority, &server, of_server)?;
    Ok((Arc::new(CertifiedKey::new(vec![leaf], server.key)), root))
}

fn generate(algorithm: Algorithm) -> Result<Arc<dyn SigningKey>, Error> {
    let engine = Engine::global().map_err(gabion_kms::Error::Engine)?;
    let key =
        engine.signature_generate(algorithm, &OsEntropy).map_err(gabion_kms::Error::Engine)?;
    Ok(gabion_rustls::signing::of_engine(key)?)
}

/// Issues a certificate that is valid from now on, with the ids of both keys and `others` as
/// extensions.
fn issue_now(
    scheme: SignatureScheme,
    issuer: &Subject,
    subject: &Subject,
    others: Vec<Vec<u8>>,
) -> Result<CertificateDer<'static>, Error> {
    let now = now_ms();
    let valid_ms = [now.saturating_sub(SKEW_MS), now + LIFE_MS];
    issue_within(scheme, issuer, subject, others, valid_ms)
}

fn issue_within(
    scheme: SignatureScheme,
    issuer: &Subject,
    subject: &Subject,
    others: Vec<Vec<u8>>,
    valid_ms: [u64; 2],
) -> Result<CertificateDer<'static>, Error> {
    let mut serial = [0; 16];
    getrandom::fill(&mut serial).map_err(|error| Error::Settings(error.to_string()))?;
    serial[0] = serial[0] & 0x7f | 0x40; // Positive, and of one length.
    let (key, issuers_key) = (key_id(&subject.key)?, key_id(&issuer.key)?);
    let mut extensions = vec![
        extension(&[0x55, 0x1d, 0x0e], false, &tlv(4, &[&key])),
        extension(&[0x55, 0x1d, 0x23], false, &tlv(0x30, &[&tlv(0x80, &[&issuers_key])])),
    ];
    extensions.extend(others);
    let [from, to] = valid_ms.map(digits);
    let fields = Fields { serial: &serial, validity: [&from, &to], extensions: &extensions };
    Ok(certificate::issue(scheme, issuer, subject, &fields)?)
}

/// Returns the extensions of an authority, which may only sign certificates.
fn of_authority() -> Vec<Vec<u8>> {
    vec![
        extension(&[0x55, 0x1d, 0x13], true, &tlv(0x30, &[&tlv(1, &[&[0xff]])])),
        extension(&[0x55, 0x1d, 0x0f], true, &tlv(3, &[&[2, 0x04]])),
    ]
}

/// Returns the extensions of a TLS server with these names.
fn of_server(dns: &str, addresses: &[IpAddr]) -> Vec<Vec<u8>> {
    let mut names = tlv(0x82, &[dns.as_bytes()]);
    for address in addresses {
        names.extend(match address {
            IpAddr::V4(address) => tlv(0x87, &[&address.octets()]),
            IpAddr::V6(address) => tlv(0x87, &[&address.octets()]),
        });
    }
    // id-kp-serverAuth.
    let purpose = tlv(6, &[&[0x2b, 6, 1, 5, 5, 7, 3, 1]]);
    vec![
        extension(&[0x55, 0x1d, 0x13], true, &tlv(0x30, &[])),
        extension(&[0x55, 0x1d, 0x0f], true, &tlv(3, &[&[7, 0x80]])),
        extension(&[0x55, 0x1d, 0x25], false, &tlv(0x30, &[&purpose])),
        extension(&[0x55, 0x1d, 0x11], false, &tlv(0x30, &[&names])),
    ]
}

/// Returns the first 20 bytes of the digest of a public key (RFC 7093, section 2).
fn key_id(key: &Arc<dyn SigningKey>) -> Result<Vec<u8>, Error> {
    Ok(Sha256::digest(certificate::public_key(key)?)[..20].to_vec())
}

/// Formats a time as in certificates: `YYYYMMDDhhmmssZ`.
fn digits(ms: u64) -> String {
    let mut digits = rfc3339(ms);
    digits.retain(|digit| digit.is_ascii_digit());
    digits.truncate(14);
    digits + "Z"
}

fn pem(certificate: &CertificateDer<'_>) -> String {
    let text = Base64::encode_string(certificate);
    let mut pem = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in text.as_bytes().chunks(64) {
        pem.extend(line.iter().map(|&byte| char::from(byte)));
        pem.push('\n');
    }
    pem + "-----END CERTIFICATE-----\n"
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use gabion_engine::key_file::{FileForm, encode_private};
    use gabion_engine::keys::PrivateKey;
    use gabion_kms_client::{Client, Error as ClientError, Settings};
    use gabion_kms_wire::encode;
    use gabion_kms_wire::native::{CheckPolicy, CreateKey, CreateToken, Key, Sign, Unseal};
    use rustls::pki_types::pem::PemObject;

    use super::*;
    use crate::{SealSetup, Server, ServiceHost, config::Config};

    mod reloads;

    const MLDSA: (Algorithm, SignatureScheme) = (Algorithm::MlDsa65, SignatureScheme::ML_DSA_65);
    const ECDSA: (Algorithm, SignatureScheme) =
        (Algorithm::EcdsaP256, SignatureScheme::ECDSA_NISTP256_SHA256);

    /// Generates a key and writes its PEM to a file.
    fn written(folder: &Path, name: &str, algorithm: Algorithm) -> Subject {
        let engine = Engine::global().unwrap();
        let key = PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
        let form = FileForm::of(algorithm).unwrap();
        let pem = encode_private(form, &key.forms(), false).unwrap();
        fs::write(folder.join(format!("{name}.key")), &*pem).unwrap();
        let PrivateKey::Signature(key) = key else { panic!("a key that does not sign") };
        Subject { key: gabion_rustls::signing::of_engine(key).unwrap(), name: name.to_owned() }
    }

    /// Returns the extension with a client's names: URIs, then DNS names.
    fn of_client(uris: &[&str], names: &[&str]) -> Vec<Vec<u8>> {
        let uris = uris.iter().map(|uri| tlv(0x86, &[uri.as_bytes()]));
        let names = names.iter().map(|name| tlv(0x82, &[name.as_bytes()]));
        let all: Vec<u8> = uris.chain(names).flatten().collect();
        vec![extension(&[0x55, 0x1d, 0x11], false, &tlv(0x30, &[&all]))]
    }

    /// A server with an authority of an algorithm, and clients with certificates of that authority.
    struct TestServer {
        folder: tempfile::TempDir,
        text: String,
        config: Config,
        authority: Subject,
        scheme: SignatureScheme,
        algorithm: Algorithm,
    }

    impl TestServer {
        fn new((algorithm, scheme): (Algorithm, SignatureScheme), more: &str) -> TestServer {
            let folder = tempfile::tempdir().unwrap();
            let authority = written(folder.path(), "authority", algorithm);
            let at = |name: &str| folder.path().join(name).display().to_string();
            let text = format!(
                "listen = [\"127.0.0.1:0\"]\n[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n\
                 client_authorities = \"{}\"\n[store]\npath = \"{}\"\n[audit]\nfolder = \"{}\"\n{more}\n",
                at("localhost.pem"),
                at("localhost.key"),
                at("authority.pem"),
                at("store"),
                at("audit")
            );
            let config = text.parse().unwrap();
            let place = TestServer { folder, text, config, authority, scheme, algorithm };
            let root = issue_now(scheme, &place.authority, &place.authority, of_authority());
            fs::write(place.file("authority", "pem"), pem(&root.unwrap())).unwrap();
            place.issue("localhost", of_server("localhost", &[IpAddr::from([127, 0, 0, 1])]));
            place.issue("client", Vec::new());
            place
        }

        fn file(&self, name: &str, end: &str) -> std::path::PathBuf {
            self.folder.path().join(format!("{name}.{end}"))
        }

        fn issue(&self, name: &str, others: Vec<Vec<u8>>) {
            let subject = written(self.folder.path(), name, self.algorithm);
            let made = issue_now(self.scheme, &self.authority, &subject, others).unwrap();
            fs::write(self.file(name, "pem"), pem(&made)).unwrap();
        }

        /// Returns the sealed server, an administrator's token that is bound to `client`'s
        /// certificate, and the shares.
        fn sealed(
            &self,
            (shares, threshold): (u8, u8),
            passphrase: Option<&str>,
        ) -> (Server, zeroize::Zeroizing<String>, Vec<zeroize::Zeroizing<String>>) {
            let own = fs::read(self.file("client", "pem")).unwrap();
            let initial = SealSetup {
                shares,
                threshold,
                passphrase,
                certificate: Some(&own),
                lifetime_s: None,
                holders: &[],
            };
            let mut shares = Vec::new();
            let hand_out = |share| -> Result<(), Error> {
                shares.push(share);
                Ok(())
            };
            let token = ServiceHost::init(&self.config, &initial, hand_out).unwrap();
            let host = Arc::new(ServiceHost::open(&self.config).unwrap());
            let server = Server::start(host, &self.config.options().unwrap()).unwrap();
            (server, token, shares)
        }

        /// Returns the unsealed server and the token.
        fn served(&self) -> (Server, zeroize::Zeroizing<String>) {
            let (server, token, shares) = self.sealed((1, 1), None);
            let share = Some(shares[0].to_string().into());
            self.client(&server, None, None)
                .unseal(&Unseal { share, ..Unseal::default() })
                .unwrap();
            (server, token)
        }

        fn client(
            &self,
            server: &Server,
            token: Option<&str>,
            certificate: Option<&str>,
        ) -> Client {
            let settings = Settings {
                addresses: vec![server.addresses()[0].to_string().parse().unwrap()],
                token: token.map(|token| token.to_owned().into()),
                authorities: Some(self.file("authority", "pem")),
                certificate: certificate
                    .map(|name| (self.file(name, "pem"), self.file(name, "key"))),
                timeout: Duration::from_secs(30),
            };
            Client::new(&settings).unwrap()
        }
    }

    #[track_caller]
    fn code<T: std::fmt::Debug>(result: Result<T, ClientError>) -> String {
        match result {
            Err(ClientError::Refused(problem)) => problem.code,
            other => panic!("no refusal: {other:?}"),
        }
    }

    /// Returns the serial number of a certificate that was issued here: 16 bytes after the version.
    fn serial(certificate: &[u8]) -> Vec<u8> {
        let place = certificate.windows(7).position(|at| at == [0xa0, 3, 2, 1, 2, 2, 16]).unwrap();
        certificate[place + 7..place + 23].to_vec()
    }

    impl TestServer {
        /// Returns a revocation list of the authority or another signer (RFC 5280, section 5.1), in
        /// PEM.
        fn list(&self, signer: &Subject, revoked: &[&str], from_ms: u64, to_ms: u64) -> String {
            let [from, to] = [from_ms, to_ms].map(|ms| certificate::time(&digits(ms)));
            let entry = |name: &&str| {
                let der = CertificateDer::from_pem_file(self.file(name, "pem")).unwrap();
                tlv(0x30, &[&tlv(2, &[&serial(&der)]), &from])
            };
            let entries: Vec<u8> = revoked.iter().flat_map(entry).collect();
            let entries = if entries.is_empty() { entries } else { tlv(0x30, &[&entries]) };
            let key = key_id(&signer.key).unwrap();
            let extensions = [
                extension(&[0x55, 0x1d, 0x23], false, &tlv(0x30, &[&tlv(0x80, &[&key])])),
                extension(&[0x55, 0x1d, 0x14], false, &tlv(2, &[&[1]])),
            ];
            let to_sign = tlv(
                0x30,
                &[
                    &tlv(2, &[&[1]]),
                    &certificate::algorithm_identifier(self.scheme).unwrap(),
                    &certificate::name(&self.authority.name),
                    &from,
                    &to,
                    &entries,
                    &tlv(0xa0, &[&tlv(0x30, &[&extensions.concat()])]),
                ],
            );
            let list = certificate::sign(self.scheme, &signer.key, &to_sign).unwrap();
            pem(&list.into()).replace("CERTIFICATE", "X509 CRL")
        }

        /// Replaces the revocation list atomically.
        fn put(&self, list: &str) {
            fs::write(self.file("next", "crl"), list).unwrap();
            fs::rename(self.file("next", "crl"), self.file("clients", "crl")).unwrap();
        }
    }

    /// A revocation list applies to open connections, too. An invalid or expired list lets no
    /// client in.
    #[test]
    fn a_revoked_certificate_is_refused_at_once_and_under_an_open_connection() {
        for of in [MLDSA, ECDSA] {
            let folder = tempfile::tempdir().unwrap();
            let mut place = TestServer::new(of, "");
            let own = place.file("clients", "crl");
            let setting = format!("client_revocations = \"{}\"\n[store]", own.display());
            place.config = place.text.replace("[store]", &setting).parse().unwrap();
            place.issue("build", of_client(&["spiffe://example.com/build"], &[]));
            let (now, day) = (now_ms(), 86_400_000);
            let none = place.list(&place.authority, &[], now - day, now + day);
            // Without a list the server does not start.
            assert!(place.config.options().is_err());
            for nonsense in
                ["", "x", &none[..none.len() / 2], &none.replace("X509 CRL", "CERTIFICATE")]
            {
                place.put(nonsense);
                assert!(place.config.options().is_err(), "{nonsense:.40}");
            }
            place.put(&none);
            let (server, token) = place.served();
            let admin = || place.client(&server, Some(&token), Some("client"));
            let build = place.client(&server, None, Some("build"));
            let known = |client: &Client| code(client.show("missing"));
            assert_eq!(known(&build), "denied");
            let open = admin();
            open.status().unwrap();
            place.put(&place.list(&place.authority, &["build"], now - day, now + day));
            // Within about a second.
            let start = std::time::Instant::now();
            while known(&build) != "unauthenticated" {
                assert!(start.elapsed() < Duration::from_secs(30));
                std::thread::sleep(Duration::from_millis(20));
            }
            let refused = |client: Client| match client.show("missing") {
                Err(ClientError::Lost { .. } | ClientError::Unreachable { .. }) => true,
                other => panic!("{other:?}"),
            };
            assert!(refused(place.client(&server, None, Some("build"))));
            assert_eq!(known(&admin()), "not_found", "others are who they were");
            // An unreadable file changes nothing. A list of another authority, an expired one, and
            // one of the day before let no client in.
            let another = written(folder.path(), "another", place.algorithm);
            let lists = [
                place.list(&another, &[], now - day, now + day),
                place.list(&place.authority, &[], now - 2 * day, now - day),
            ];
            place.put("nonsense");
            std::thread::sleep(Duration::from_millis(1100));
            assert_eq!(known(&open), "not_found");
            for list in lists {
                place.put(&list);
                std::thread::sleep(Duration::from_millis(1100));
                assert_eq!(known(&open), "unauthenticated");
                assert!(refused(admin()));
            }
            place.put(&none);
            std::thread::sleep(Duration::from_millis(1100));
            assert_eq!((known(&open).as_str(), known(&build).as_str()), ("not_found", "denied"));
        }
    }

    /// A reader that calls a function before its second piece.
    struct HookedReader<F: FnMut()>(usize, F);

    impl<F: FnMut()> std::io::Read for HookedReader<F> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            self.0 += 1;
            match self.0 {
                1 => out.fill(1),
                2 => {
                    (self.1)();
                    out.fill(2);
                }
                _ => return Ok(0),
            }
            Ok(out.len())
        }
    }

    #[test]
    fn certificate_revoked_during_upload_is_refused() {
        let mut place = TestServer::new(ECDSA, "");
        let list_file = place.file("clients", "crl");
        let setting = format!("client_revocations = \"{}\"\n[store]", list_file.display());
        place.config = place.text.replace("[store]", &setting).parse().unwrap();
        place.issue("build", of_client(&["spiffe://example.com/build"], &[]));
        let (now, day) = (now_ms(), 86_400_000);
        place.put(&place.list(&place.authority, &[], now - day, now + day));
        let (server, token) = place.served();
        let admin = place.client(&server, Some(&token), Some("client"));
        let key =
            CreateKey { name: "k".into(), algorithm: "ml-dsa-44".into(), ..CreateKey::default() };
        admin.create(&key).unwrap();
        let policies = "permit(principal is Token, action, resource);\n\
                        permit(principal is Certificate, action, resource);";
        admin.put_policy("all", policies).unwrap();
        let build = || place.client(&server, None, Some("build"));
        let what = gabion_kms_client::StreamRequest::by("k");
        build().sign_stream(&what, &mut HookedReader(0, || {}), None).unwrap();
        let other = build();
        other.show("k").unwrap();
        let mut revoke = || {
            place.put(&place.list(&place.authority, &["build"], now - day, now + day));
            let start = std::time::Instant::now();
            while other.show("k").is_ok() {
                assert!(start.elapsed() < Duration::from_secs(30));
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let signed = build().sign_stream(&what, &mut HookedReader(0, &mut revoke), None);
        assert_eq!(code(signed), "unauthenticated");
        server.stop();
    }

    #[test]
    fn certificate_bound_token_requires_its_certificate() {
        let place = TestServer::new(ECDSA, "");
        let (server, token) = place.served();
        let client = |certificate| place.client(&server, Some(&token), certificate);
        let asked = CreateToken { principal: "ci".into(), caveats: None, lifetime_s: None };
        client(Some("client")).create_token(&asked).unwrap();
        // Another certificate of the same authority, and no certificate.
        for other in [Some("localhost"), None] {
            match client(other).create_token(&asked) {
                Err(ClientError::Refused(problem)) => assert_eq!(problem.code, "unauthenticated"),
                // A server's certificate is not valid for clients.
                Err(ClientError::Lost { .. } | ClientError::Unreachable { .. })
                    if other.is_some() => {}
                unlike => panic!("{other:?}: {unlike:?}"),
            }
        }
    }

    /// With only ML-DSA-65 certificates.
    #[test]
    fn client_certificate_is_authorized_by_policies() {
        let place = TestServer::new(MLDSA, "");
        place.issue("build", of_client(&["spiffe://example.com/build"], &["ignored.example.com"]));
        place.issue("host", of_client(&[], &["host.example.com"]));
        place.issue("several", of_client(&["spiffe://example.com/build", "spiffe://a"], &[]));
        place.issue("strange", of_client(&["urn:a b"], &[]));
        let (server, token) = place.served();
        let admin = place.client(&server, Some(&token), Some("client"));
        let web =
            CreateKey { name: "web".into(), algorithm: "ed25519".into(), ..CreateKey::default() };
        admin.create(&web).unwrap();
        let [build, host, several, strange, nobody, none] =
            [Some("build"), Some("host"), Some("several"), Some("strange"), Some("client"), None]
                .map(|name| place.client(&server, None, name));
        let sign = Sign { message: Some(encode(b"m")), ..Sign::by("web") };
        // A certificate with no name, several names or an invalid principal is not accepted; a
        // common name does not count.
        for client in [&several, &strange, &nobody, &none] {
            assert_eq!(code(client.sign(&sign)), "unauthenticated");
        }
        for client in [&build, &host] {
            assert_eq!(code(client.sign(&sign)), "denied");
            assert_eq!(code(client.show("missing")), "denied");
        }
        let policies = "permit(principal is Token, action, resource);\n\
                        permit(principal == Certificate::\"spiffe://example.com/build\", action == Action::\"sign\", resource);\n\
                        permit(principal == Certificate::\"host.example.com\", action == Action::\"show\", resource);";
        admin.put_policy("all", policies).unwrap();
        build.sign(&sign).unwrap();
        host.show("web").unwrap();
        assert_eq!(code(host.sign(&sign)), "denied");
        // It may sign, but not see the key: other operations answer as if the key did not exist.
        assert_eq!(code(build.rotate("web")), "not_found");
        assert_eq!(code(build.show("web")), "not_found");
        let key: Key = admin.show("web").unwrap();
        assert_eq!(key.latest, 1);
        let asked = CheckPolicy {
            principal: Some("spiffe://example.com/build".into()),
            method: Some("certificate".into()),
            action: Some("sign".into()),
            key: Some("web".into()),
            ..CheckPolicy::default()
        };
        let said = admin.check_policy(&asked).unwrap();
        assert_eq!((said.allowed, said.policies), (Some(true), vec!["all#1".to_owned()]));
        admin.put_policy("all", "permit(principal is Token, action, resource);").unwrap();
        assert_eq!(code(build.sign(&sign)), "not_found");
        // A token takes precedence over a certificate, and a valid certificate does not make up for
        // a wrong token.
        let both = place.client(&server, Some("gbk1.AAAA"), Some("build"));
        assert_eq!(code(both.sign(&sign)), "unauthenticated");
    }

    /// Opens a silent connection from another address of this machine.
    fn silent(server: &Server, from: [u8; 4]) -> std::net::TcpStream {
        let crate::Listen::Tls(at) = server.addresses()[0] else { panic!("no address") };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind((IpAddr::from(from), 0).into()).unwrap();
            socket.connect(at).await.unwrap()
        });
        let stream = stream.into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    #[test]
    fn one_address_cannot_exhaust_the_connections() {
        use std::io::{ErrorKind, Read, Write};
        let place =
            TestServer::new(ECDSA, "[limits]\nconnections = 8\nconnections_per_address = 3");
        let (server, token) = place.served();
        // An accepted connection gets a TLS alert for invalid data; a rejected one is closed.
        let is_let_in = |from| {
            let mut stream = silent(&server, from);
            let _ = stream.write_all(b"nonsense\r\n\r\n");
            match stream.read(&mut [0; 1]) {
                Ok(read) => read > 0,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
                Err(error) => panic!("{error}"),
            }
        };
        assert!(is_let_in([127, 0, 0, 3]));
        let held: Vec<_> = (0..3).map(|_| silent(&server, [127, 0, 0, 2])).collect();
        for _ in 0..9 {
            assert!(!is_let_in([127, 0, 0, 2]));
        }
        assert!(is_let_in([127, 0, 0, 3]));
        // Other clients are served meanwhile.
        let client = place.client(&server, Some(&token), Some("client"));
        assert!(!client.status().unwrap().sealed);
        drop(held);
    }

    /// Even if all network connections are taken, the local administrator can connect through the
    /// Unix socket.
    #[test]
    fn local_connections_have_reserved_slots() {
        let more = "[limits]\nconnections = 3\nconnections_per_address = 3\nlocal_connections = 2";
        let mut place = TestServer::new(ECDSA, more);
        let socket = place.file("kms", "socket");
        let both = format!("listen = [\"127.0.0.1:0\", \"unix:{}\"]", socket.display());
        let text = place.text.replace("listen = [\"127.0.0.1:0\"]", &both);
        place.config = text.parse().unwrap();
        let (server, token) = place.served();
        let local = |timeout| {
            let settings = Settings {
                addresses: vec![format!("unix:{}", socket.display()).parse().unwrap()],
                token: Some(token.to_string().into()),
                authorities: None,
                certificate: None,
                timeout,
            };
            Client::new(&settings).unwrap()
        };
        let long = Duration::from_secs(30);
        let held: Vec<_> = (0..3).map(|_| silent(&server, [127, 0, 0, 2])).collect();
        // No further network clients are served. It takes a moment until the last connection has
        // its permit.
        let short = || {
            let settings = Settings {
                addresses: vec![server.addresses()[0].to_string().parse().unwrap()],
                token: None,
                authorities: Some(place.file("authority", "pem")),
                certificate: None,
                timeout: Duration::from_millis(300),
            };
            Client::new(&settings).unwrap().status().is_ok()
        };
        let start = std::time::Instant::now();
        while short() {
            assert!(start.elapsed() < long);
        }
        assert!(!local(long).status().unwrap().sealed);
        // Local connections have a limit, too, and do not count against the network's.
        let own: Vec<_> =
            (0..2).map(|_| std::os::unix::net::UnixStream::connect(&socket).unwrap()).collect();
        while local(Duration::from_millis(300)).status().is_ok() {
            assert!(start.elapsed() < 2 * long);
        }
        drop(held);
        while !short() {
            assert!(start.elapsed() < 3 * long);
        }
        drop(own);
        assert!(!local(long).status().unwrap().sealed);
        server.stop();
    }

    /// Anyone who reaches a sealed server can guess its passphrase, and each attempt costs 100 ms
    /// and 64 MiB.
    #[test]
    fn unauthenticated_passphrase_guesses_are_throttled() {
        let place = TestServer::new(ECDSA, "");
        let (server, _token, shares) = place.sealed((3, 2), Some("correct"));
        let stranger = || place.client(&server, None, None);
        let guess = |client: &Client, text: &str| {
            let passphrase = Some(text.to_owned().into());
            client.unseal(&Unseal { passphrase, ..Unseal::default() })
        };
        for _ in 0..5 {
            assert_eq!(code(guess(&stranger(), "wrong")), "unseal_failed");
        }
        // No further attempts are processed, however many are made.
        let start = std::time::Instant::now();
        let mut refused = 0;
        while refused < 20 {
            match guess(&stranger(), "wrong") {
                Err(ClientError::Refused(problem)) if problem.code == "busy" => {
                    assert!(problem.retryable && problem.hint.unwrap().contains("shares"));
                    refused += 1;
                }
                // One token of the rate limit was refilled meanwhile.
                Err(ClientError::Refused(problem)) if problem.code == "unseal_failed" => {}
                other => panic!("{other:?}"),
            }
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        // Shares are accepted meanwhile, and unauthenticated clients cannot reset them.
        let share = |n: usize, reset| {
            let share = Some(shares[n].to_string().into());
            stranger().unseal(&Unseal { share, reset, passphrase: None })
        };
        assert_eq!(share(0, None).unwrap().given, 1);
        let reset = Some(true);
        assert_eq!(code(stranger().unseal(&Unseal { reset, ..Unseal::default() })), "denied");
        let both = Unseal { reset, passphrase: Some("wrong".to_owned().into()), share: None };
        assert_eq!(code(stranger().unseal(&both)), "denied");
        let forgets = gabion_kms_wire::native::RecoverAdmin { reset, ..Default::default() };
        assert_eq!(code(stranger().recover_admin(&forgets)), "denied");
        let nonsense = Unseal { reset, share: Some("gbs1-x".to_owned().into()), passphrase: None };
        assert_eq!(code(stranger().unseal(&nonsense)), "unseal_failed");
        assert_eq!(share(0, None).unwrap().given, 1);
        // Clients with a share or a certificate can.
        assert_eq!(share(1, reset).unwrap().given, 1);
        let known = place.client(&server, None, Some("client"));
        assert_eq!(known.unseal(&Unseal { reset, ..Unseal::default() }).unwrap().given, 0);
        // The right passphrase comes from the same address, with a certificate.
        assert!(!guess(&known, "correct").unwrap().sealed);
        server.stop();
    }
}
