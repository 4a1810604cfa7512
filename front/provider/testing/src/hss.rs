//! HSS signatures of another implementation, the crate hbs-lms: certificates of RFC 9802 and
//! messages of RFC 9708, assembled here.

use hbs_lms::{HssParameter, LmotsAlgorithm, LmsAlgorithm, Seed, Sha256_256};

pub use hbs_lms::LmotsAlgorithm as W;

/// OpenSSL's name of the key type.
pub const NAME: &str = "id-alg-hss-lms-hashsig";

/// The AlgorithmIdentifier (RFC 9802, section 3): id-alg-hss-lms-hashsig, no parameters.
pub const IDENTIFIER: &[u8] = b"\x30\x0d\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x03\x11";
/// The AlgorithmIdentifier of SHA-256, no parameters.
const SHA256: &[u8] = b"\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01";
/// The object identifier of content that is data: id-data (RFC 5652, section 4).
const DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x01";
/// The number of every certificate.
const SERIAL: &[u8] = b"\x02\x01\x07";

/// A key of that crate; SHA-256 with n = 32, trees of height 5.
pub struct Signer {
    private: Vec<u8>,
    /// The public key: HSS's form.
    pub public: Vec<u8>,
}

impl Signer {
    /// A key of a level for each w.
    pub fn new(levels: &[LmotsAlgorithm], seed: u8) -> Self {
        let sets: Vec<_> =
            levels.iter().map(|w| HssParameter::new(*w, LmsAlgorithm::LmsH5)).collect();
        let mut drawn = Seed::<Sha256_256>::default();
        drawn.as_mut_slice().fill(seed);
        let (private, public) = hbs_lms::keygen::<Sha256_256>(&sets, &drawn, None).unwrap();
        Signer { private: private.as_slice().to_vec(), public: public.as_slice().to_vec() }
    }

    /// Signs with the next index.
    pub fn sign(&mut self, message: &[u8]) -> Vec<u8> {
        let mut next = Vec::new();
        let mut keep = |key: &[u8]| {
            next = key.to_vec();
            Ok(())
        };
        let made = hbs_lms::sign::<Sha256_256>(message, &self.private, &mut keep, None).unwrap();
        self.private = next;
        made.as_ref().to_vec()
    }

    /// The SubjectPublicKeyInfo.
    pub fn subject_public_key_info(&self) -> Vec<u8> {
        der(0x30, &[IDENTIFIER, &bits(&self.public)])
    }

    /// Returns a self-signed certificate of the key, valid until 2049.
    pub fn certificate(&mut self) -> Vec<u8> {
        let validity = der(0x30, &[b"\x17\x0d260101000000Z", b"\x17\x0d491231235959Z"]);
        let (name, key) = (name(), self.subject_public_key_info());
        let version = b"\xa0\x03\x02\x01\x02";
        let signed = der(0x30, &[version, SERIAL, IDENTIFIER, &name, &validity, &name, &key]);
        let signature = bits(&self.sign(&signed));
        der(0x30, &[&signed, IDENTIFIER, &signature])
    }

    /// Returns a SignedData (RFC 5652, section 5) of `content` with the certificate in it; with
    /// signed attributes, which include the digest, or over the content itself, which is then
    /// detached.
    pub fn message(
        &mut self,
        certificate: &[u8],
        content: &[u8],
        digest: Option<&[u8]>,
    ) -> Vec<u8> {
        let attributes = digest.map(|digest| {
            let kind =
                der(0x30, &[b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x03", &der(0x31, &[DATA])]);
            let digest = der(0x31, &[&der(0x04, &[digest])]);
            let digest = der(0x30, &[b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x09\x04", &digest]);
            [kind, digest].concat()
        });
        let signature = match &attributes {
            Some(attributes) => self.sign(&der(0x31, &[attributes])),
            None => self.sign(content),
        };
        let attributes = attributes.map_or(Vec::new(), |attributes| der(0xa0, &[&attributes]));
        let signer = der(0x30, &[&name(), SERIAL]);
        let signature = der(0x04, &[&signature]);
        let parts = [b"\x02\x01\x01", &signer[..], SHA256, &attributes, IDENTIFIER, &signature];
        let signer = der(0x31, &[&der(0x30, &parts)]);
        let content = match digest {
            Some(_) => der(0x30, &[DATA, &der(0xa0, &[&der(0x04, &[content])])]),
            None => der(0x30, &[DATA]),
        };
        let digests = der(0x31, &[SHA256]);
        let parts = [b"\x02\x01\x01", &digests[..], &content, &der(0xa0, &[certificate]), &signer];
        let signed = der(0xa0, &[&der(0x30, &parts)]);
        der(0x30, &[b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", &signed])
    }
}

/// Returns whether that crate takes a signature for good.
pub fn verify(public: &[u8], message: &[u8], signature: &[u8]) -> bool {
    hbs_lms::verify::<Sha256_256>(message, signature, public).is_ok()
}

/// CN=hss.
fn name() -> Vec<u8> {
    let attribute = der(0x30, &[b"\x06\x03\x55\x04\x03", b"\x0c\x03hss"]);
    der(0x30, &[&der(0x31, &[&attribute])])
}

/// A BIT STRING of bytes.
fn bits(bytes: &[u8]) -> Vec<u8> {
    der(0x03, &[&[0], bytes])
}

/// Encodes a tag, a length and the contents.
pub fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let len: usize = parts.iter().map(|part| part.len()).sum();
    let bytes = len.to_be_bytes();
    let head = match len {
        0..0x80 => vec![tag, len as u8],
        _ => {
            let long = &bytes[bytes.iter().take_while(|byte| **byte == 0).count()..];
            [&[tag, 0x80 | long.len() as u8], long].concat()
        }
    };
    [&head[..], &parts.concat()].concat()
}
