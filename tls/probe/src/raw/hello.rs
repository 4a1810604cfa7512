//! The ClientHello (RFC 8446, 4.1.2; RFC 5246, 7.4.1.2).

/// TLS 1.0.
pub const TLS1_0: u16 = 0x0301;
/// TLS 1.1.
pub const TLS1_1: u16 = 0x0302;
/// TLS 1.2.
pub const TLS1_2: u16 = 0x0303;
/// TLS 1.3.
pub const TLS1_3: u16 = 0x0304;

/// Entries of a list that are written; the rest is left out. The hello then fits its record.
const LIST_MAX: usize = 256;
/// Application protocols that are written.
const ALPN_MAX: usize = 16;

/// The legacy session ID of a hello for TLS 1.3. Servers echo it; middleboxes take the connection
/// for a resumed one (RFC 8446, appendix D.4).
pub(super) const SESSION_ID: [u8; 32] = *b"gabion probe: compatibility mode";

const RENEGOTIATION_SCSV: u16 = 0x00ff;

/// Every cipher suite that the probe offers, the newest first.
const CIPHER_SUITES: &[u16] = &[
    0x1302, 0x1303, 0x1301, 0x1304, // TLS 1.3
    0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc02b, 0xc02f, // ECDHE, AEAD
    0x009f, 0xccaa, 0x009e, // DHE, AEAD
    0xc024, 0xc028, 0xc023, 0xc027, 0xc00a, 0xc014, 0xc009, 0xc013, // ECDHE, CBC
    0x006b, 0x0067, 0x0039, 0x0033, 0x0088, 0x0045, // DHE, CBC
    0x009d, 0x009c, 0x003d, 0x003c, 0x0035, 0x002f, 0x0084, 0x0041, // RSA key transport
    0xc008, 0xc012, 0x0016, 0x000a, 0xc011, 0x0005, // 3DES and RC4
];

/// Every group that the probe offers: hybrids, ML-KEM alone, curves, finite fields.
const GROUPS: &[u16] = &[
    0x11ec, 0x11eb, 0x11ed, 0x0201, 0x0202, 0x0200, // post-quantum
    0x001d, 0x0017, 0x0018, 0x0019, 0x001e, 0x001a, 0x001b, 0x001c, 0x0016, // curves
    0x0100, 0x0101, 0x0102, 0x0103, 0x0104, // ffdhe2048 to ffdhe8192
];

/// ML-DSA, ECDSA, Ed25519, Ed448, RSA-PSS and RSA PKCS #1, SHA-1 last.
const SIGNATURE_SCHEMES: &[u16] = &[
    0x0904, 0x0905, 0x0906, 0x0403, 0x0503, 0x0603, 0x0807, 0x0808, 0x0804, 0x0805, 0x0806, 0x0809,
    0x080a, 0x080b, 0x0401, 0x0501, 0x0601, 0x0203, 0x0201,
];

/// The key share of a hello for TLS 1.3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyShare {
    /// An empty list. The server answers with a HelloRetryRequest that names its preferred group.
    #[default]
    Empty,
    /// Random bytes as a share of X25519, without a private key.
    X25519,
}

/// The parameters of a ClientHello.
#[derive(Clone, Debug)]
pub struct Offer<'a> {
    /// The host name; `None` omits the extension, as for an IP address.
    pub server_name: Option<&'a str>,
    /// The versions, in order of preference. TLS 1.2 and older mean every version below, too.
    pub versions: &'a [u16],
    /// The cipher suites, in order of preference.
    pub cipher_suites: &'a [u16],
    /// The groups, in order of preference.
    pub groups: &'a [u16],
    /// The key share, if TLS 1.3 is offered.
    pub key_share: KeyShare,
    /// The signature schemes, in order of preference.
    pub signature_schemes: &'a [u16],
    /// The application protocols; empty omits the extension.
    pub alpn: &'a [&'a str],
}

impl<'a> Offer<'a> {
    /// Returns an offer of everything that the probe knows, in TLS 1.0 to 1.3, with an empty key
    /// share.
    #[must_use]
    pub fn new(server_name: Option<&'a str>) -> Self {
        Offer {
            server_name,
            versions: &[TLS1_3, TLS1_2, TLS1_1, TLS1_0],
            cipher_suites: CIPHER_SUITES,
            groups: GROUPS,
            key_share: KeyShare::Empty,
            signature_schemes: SIGNATURE_SCHEMES,
            alpn: &[],
        }
    }

    /// Removes TLS 1.3 from an offer that [`Offer::new`] made.
    #[must_use]
    pub fn without_tls13(self) -> Self {
        Offer { versions: &[TLS1_2, TLS1_1, TLS1_0], ..self }
    }

    /// Returns whether TLS 1.3 is offered.
    pub(super) fn has_tls13(&self) -> bool {
        self.versions.contains(&TLS1_3)
    }
}

/// Writes the ClientHello as one handshake record. `random` is also the share of X25519, if the
/// offer has one: there is no secret to protect.
#[must_use]
pub fn client_hello(offer: &Offer<'_>, random: [u8; 32]) -> Vec<u8> {
    let newest = offer.versions.iter().copied().max().unwrap_or(TLS1_2);
    let mut record = vec![22, 3, 1];
    prefixed(&mut record, 2, |record| {
        record.push(1);
        prefixed(record, 3, |hello| {
            put(hello, newest.min(TLS1_2));
            hello.extend_from_slice(&random);
            let session_id: &[u8] = if offer.has_tls13() { &SESSION_ID } else { &[] };
            prefixed(hello, 1, |id| id.extend_from_slice(session_id));
            prefixed(hello, 2, |suites| {
                put_all(suites, offer.cipher_suites);
                put(suites, RENEGOTIATION_SCSV);
            });
            hello.extend_from_slice(&[1, 0]); // no compression
            prefixed(hello, 2, |extensions| put_extensions(extensions, offer, random));
        });
    });
    record
}

fn put_extensions(out: &mut Vec<u8>, offer: &Offer<'_>, random: [u8; 32]) {
    if let Some(name) = offer.server_name.filter(|name| (1..=255).contains(&name.len())) {
        extension(out, 0, |out| {
            prefixed(out, 2, |list| {
                list.push(0); // host_name
                prefixed(list, 2, |out| out.extend_from_slice(name.as_bytes()));
            });
        });
    }
    if !offer.groups.is_empty() {
        extension(out, 10, |out| prefixed(out, 2, |list| put_all(list, offer.groups)));
        extension(out, 11, |out| out.extend_from_slice(&[1, 0])); // uncompressed points
    }
    if !offer.signature_schemes.is_empty() && offer.versions.iter().any(|&one| one >= TLS1_2) {
        extension(out, 13, |out| prefixed(out, 2, |list| put_all(list, offer.signature_schemes)));
    }
    if !offer.alpn.is_empty() {
        let names = offer.alpn.iter().filter(|name| (1..=255).contains(&name.len()));
        extension(out, 16, |out| {
            prefixed(out, 2, |list| {
                for name in names.take(ALPN_MAX) {
                    prefixed(list, 1, |out| out.extend_from_slice(name.as_bytes()));
                }
            });
        });
    }
    extension(out, 23, |_| {}); // extended_master_secret
    if offer.has_tls13() {
        extension(out, 43, |out| prefixed(out, 1, |list| put_few(list, offer.versions)));
        extension(out, 45, |out| out.extend_from_slice(&[1, 1])); // psk_dhe_ke
        extension(out, 51, |out| {
            prefixed(out, 2, |shares| {
                if offer.key_share == KeyShare::X25519 {
                    put(shares, super::names::X25519);
                    prefixed(shares, 2, |share| share.extend_from_slice(&random));
                }
            });
        });
    }
}

fn put(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_be_bytes());
}

fn put_all(out: &mut Vec<u8>, values: &[u16]) {
    values.iter().take(LIST_MAX).for_each(|&value| put(out, value));
}

/// Writes a list whose length has one byte.
fn put_few(out: &mut Vec<u8>, values: &[u16]) {
    values.iter().take(100).for_each(|&value| put(out, value));
}

fn extension(out: &mut Vec<u8>, number: u16, body: impl FnOnce(&mut Vec<u8>)) {
    put(out, number);
    prefixed(out, 2, body);
}

/// Writes `body` behind its length in `width` bytes. [`LIST_MAX`] keeps every length in range.
fn prefixed(out: &mut Vec<u8>, width: usize, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.resize(at + width, 0);
    body(out);
    let length = (out.len() - at - width).to_be_bytes();
    let (_, low) = length.split_at(length.len() - width);
    if let Some(prefix) = out.get_mut(at..at + width) {
        prefix.copy_from_slice(low);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hello for TLS 1.3 with one entry in each list, field by field.
    #[test]
    fn a_hello_has_the_bytes_of_rfc_8446() {
        let offer = Offer {
            server_name: Some("a.example"),
            versions: &[TLS1_3],
            cipher_suites: &[0x1301],
            groups: &[0x001d],
            key_share: KeyShare::X25519,
            signature_schemes: &[0x0403],
            alpn: &["h2"],
        };
        let mut expected = vec![22, 3, 1, 0, 189, 1, 0, 0, 185, 3, 3];
        expected.extend([7; 32]);
        expected.push(32);
        expected.extend(SESSION_ID);
        expected.extend([0, 4, 0x13, 0x01, 0, 0xff, 1, 0, 0, 108]);
        expected.extend([0, 0, 0, 14, 0, 12, 0, 0, 9]);
        expected.extend(b"a.example");
        expected.extend([0, 10, 0, 4, 0, 2, 0, 0x1d, 0, 11, 0, 2, 1, 0]);
        expected.extend([0, 13, 0, 4, 0, 2, 4, 3, 0, 16, 0, 5, 0, 3, 2]);
        expected.extend(b"h2");
        expected.extend([0, 23, 0, 0, 0, 43, 0, 3, 2, 3, 4, 0, 45, 0, 2, 1, 1]);
        expected.extend([0, 51, 0, 38, 0, 36, 0, 0x1d, 0, 32]);
        expected.extend([7; 32]);
        assert_eq!(client_hello(&offer, [7; 32]), expected);
    }

    #[test]
    fn a_hello_without_tls_1_3_has_no_extension_of_it() {
        let offer = Offer { groups: &[], ..Offer::new(None).without_tls13() };
        let offer = Offer { versions: &[TLS1_0], cipher_suites: &[0x0005], ..offer };
        let mut expected = vec![22, 3, 1, 0, 53, 1, 0, 0, 49, 3, 1];
        expected.extend([1; 32]);
        expected.extend([0, 0, 4, 0, 5, 0, 0xff, 1, 0, 0, 4, 0, 23, 0, 0]);
        assert_eq!(client_hello(&offer, [1; 32]), expected);
    }

    #[test]
    fn long_lists_are_cut() {
        let many = [0x001d; 100_000];
        let names = ["x"; 1000];
        let long = "a".repeat(300);
        let offer = Offer {
            server_name: Some(&long),
            versions: &many,
            cipher_suites: &many,
            groups: &many,
            signature_schemes: &many,
            alpn: &names,
            ..Offer::new(None)
        };
        let hello = client_hello(&offer, [0; 32]);
        assert!(hello.len() < 4096, "{}", hello.len());
        assert_eq!(usize::from(hello[3]) << 8 | usize::from(hello[4]), hello.len() - 5);
    }
}
