//! The two steps of TLS 1.3's key schedule: HKDF-Extract and HKDF-Expand-Label (RFC 8446, section
//! 7.1) over HKDF (RFC 5869).
//!
//! ```text
//!   previous secret --Derive-Secret(., label, "")--> salt --+
//!                                                           v
//!   input (PSK, shared secret) ---------------> HKDF-Extract ----> next secret   [`extract`]
//!
//!   secret, label, transcript hash -> HKDF-Expand-Label -> secret, key, IV   [`expand_label`]
//! ```
//!
//! HMAC and the hashes are RustCrypto's, which wipe their state; with SHA-384 and SHA-512 HMAC is
//! here, over the blocks that this processor is quickest with. Time depends on lengths only.

use gabion_scheme::ct;
use hmac::digest::{Digest, Output};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Sha224, Sha256, Sha384, Sha512, Sha512_224, Sha512_256};
use sm3::Sm3;
use zeroize::Zeroizing;

use crate::error::{Error, check_length};

mod hmac_sha512;

use hmac_sha512::HmacSha512;

/// Bytes of the longest hash.
const HASH_MAX: usize = 64;
/// Maximum length of the two variable parts of HkdfLabel.
const PART_MAX: usize = u8::MAX as usize;
/// HkdfLabel: two bytes of length, then label and context with a byte of length each.
const HKDF_LABEL_MAX: usize = 2 + 2 * (1 + PART_MAX);
/// Blocks that HKDF-Expand gives at most: their number is one byte.
const BLOCKS_MAX: usize = 255;

/// A hash that the key schedule can run over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The variants are the names of the functions.
pub enum Hash {
    Sha2_224,
    Sha2_256,
    Sha2_384,
    Sha2_512,
    Sha2_512_224,
    Sha2_512_256,
    Sm3,
}

/// Runs `$body` with `$digest` as the type of a hash.
macro_rules! of_hash {
    ($hash:expr, $digest:ident => $body:expr) => {
        match $hash {
            Hash::Sha2_224 => {
                type $digest = Sha224;
                $body
            }
            Hash::Sha2_256 => {
                type $digest = Sha256;
                $body
            }
            Hash::Sha2_384 => {
                type $digest = Sha384;
                $body
            }
            Hash::Sha2_512 => {
                type $digest = Sha512;
                $body
            }
            Hash::Sha2_512_224 => {
                type $digest = Sha512_224;
                $body
            }
            Hash::Sha2_512_256 => {
                type $digest = Sha512_256;
                $body
            }
            Hash::Sm3 => {
                type $digest = Sm3;
                $body
            }
        }
    };
}

/// Runs `$body` with `$code` as the type of HMAC with a hash.
macro_rules! of_code {
    ($hash:expr, $code:ident => $body:expr) => {
        match $hash {
            Hash::Sha2_384 => {
                type $code = HmacSha512<48>;
                $body
            }
            Hash::Sha2_512 => {
                type $code = HmacSha512<64>;
                $body
            }
            other => of_hash!(other, D => {
                type $code = Library<Hmac<D>>;
                $body
            }),
        }
    };
}

impl Hash {
    /// Every hash, those of TLS 1.3's cipher suites first.
    pub const ALL: [Hash; 7] = [
        Hash::Sha2_384,
        Hash::Sha2_256,
        Hash::Sha2_224,
        Hash::Sha2_512,
        Hash::Sha2_512_224,
        Hash::Sha2_512_256,
        Hash::Sm3,
    ];

    /// Returns the hash with a name, ignoring case (`SHA2-256`, `SHA256`, `SHA-256`), or an object
    /// identifier. Returns `None` if it is not one of these.
    pub fn named(name: &str) -> Option<Hash> {
        let is_it = |hash: &Hash| hash.names().iter().any(|known| known.eq_ignore_ascii_case(name));
        Hash::ALL.into_iter().find(is_it)
    }

    /// Returns all names, the main one first.
    pub fn names(self) -> &'static [&'static str] {
        match self {
            Hash::Sha2_224 => &["SHA2-224", "SHA-224", "SHA224", "2.16.840.1.101.3.4.2.4"],
            Hash::Sha2_256 => &["SHA2-256", "SHA-256", "SHA256", "2.16.840.1.101.3.4.2.1"],
            Hash::Sha2_384 => &["SHA2-384", "SHA-384", "SHA384", "2.16.840.1.101.3.4.2.2"],
            Hash::Sha2_512 => &["SHA2-512", "SHA-512", "SHA512", "2.16.840.1.101.3.4.2.3"],
            Hash::Sha2_512_224 => {
                &["SHA2-512/224", "SHA-512/224", "SHA512-224", "2.16.840.1.101.3.4.2.5"]
            }
            Hash::Sha2_512_256 => {
                &["SHA2-512/256", "SHA-512/256", "SHA512-256", "2.16.840.1.101.3.4.2.6"]
            }
            Hash::Sm3 => &["SM3", "1.2.156.10197.1.401"],
        }
    }

    /// Returns the output length in bytes.
    #[allow(clippy::len_without_is_empty)] // Of a hash function, not of a collection.
    pub fn len(self) -> usize {
        of_hash!(self, D => <D as Digest>::output_size())
    }
}

/// The label of HKDF-Expand-Label, in two parts: the protocol's prefix of every label (`tls13 ` for
/// TLS 1.3, with the space), and the label.
#[derive(Clone, Copy, Debug)]
pub struct Label<'a> {
    /// The bytes before the label.
    pub prefix: &'a [u8],
    /// The label.
    pub label: &'a [u8],
}

/// Computes HKDF-Expand-Label(secret, label, context, length of `out`) into `out`.
///
/// # Errors
/// Label or context of more than 255 bytes, or more output than 255 times the hash's; `out` is then
/// left as it was.
pub fn expand_label(
    hash: Hash,
    secret: &[u8],
    label: Label<'_>,
    context: &[u8],
    out: &mut [u8],
) -> Result<(), Error> {
    let label_len = label.prefix.len() + label.label.len();
    let out_max = BLOCKS_MAX * hash.len();
    for (what, most, got) in [
        ("the label", PART_MAX, label_len),
        ("the context", PART_MAX, context.len()),
        ("the output", out_max, out.len()),
    ] {
        if got > most {
            return Err(Error::TooLong { what, most, got });
        }
    }
    // Lengths were checked: each fits its field, and all of them the buffer.
    let mut room = [0; HKDF_LABEL_MAX];
    let out_len = (out.len() as u16).to_be_bytes();
    let mut len = 0;
    for part in [
        &out_len[..],
        &[label_len as u8],
        label.prefix,
        label.label,
        &[context.len() as u8],
        context,
    ] {
        room[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    of_code!(hash, C => expand::<C>(secret, &room[..len], out))
}

/// Computes the next secret of the key schedule, HKDF-Extract(Derive-Secret(previous, label, ""),
/// input), into `out`. A missing previous secret or input is replaced by zeros of the hash length.
///
/// # Errors
/// `out` is not as long as the hash, or as [`expand_label`]; `out` is then left as it was.
pub fn extract(
    hash: Hash,
    previous: Option<&[u8]>,
    label: Label<'_>,
    input: Option<&[u8]>,
    out: &mut [u8],
) -> Result<(), Error> {
    let len = hash.len();
    check_length("the extracted secret", len, out)?;
    let start = STARTS.iter().find(|start| start.hash == hash);
    if let (None, None, Some(start)) = (previous, input, start) {
        out.copy_from_slice(start.early);
        return Ok(());
    }
    let zeros = [0; HASH_MAX];
    let mut salt = Zeroizing::new([0; HASH_MAX]);
    if let Some(previous) = previous {
        let salt = &mut salt[..len];
        match start.filter(|start| start.goes_on(previous, label)) {
            Some(start) => salt.copy_from_slice(start.salt),
            None => {
                of_hash!(hash, D => expand_label(hash, previous, label, &D::digest(b""), salt))?;
            }
        }
    }
    of_code!(hash, C => {
        let mut code = C::keyed(&salt[..len])?;
        code.absorb(input.unwrap_or(&zeros[..len]));
        code.finish(out);
    });
    Ok(())
}

/// Derives the bytes of an HPKE private key from keying material: LabeledExtract and LabeledExpand
/// of DeriveKeyPair, DHKEM(X25519, HKDF-SHA256) (RFC 9180, section 7.1.3). They are not clamped.
pub(crate) fn dhkem_x25519(ikm: &[u8]) -> Result<Zeroizing<[u8; 32]>, Error> {
    /// "HPKE-v1", and the suite: "KEM" and the number of this DHKEM.
    const SUITE: &[u8] = b"HPKE-v1KEM\x00\x20";
    let mut prk = Zeroizing::new([0; 32]);
    // Without a salt HMAC's key is zeros.
    let mut code = Library::<Hmac<Sha256>>::keyed(&[0; 32])?;
    for part in [SUITE, b"dkp_prk", ikm] {
        code.absorb(part);
    }
    code.finish(&mut prk[..]);
    let info = [&[0, 32], SUITE, b"sk"].concat();
    let mut key = Zeroizing::new([0; 32]);
    expand::<Library<Hmac<Sha256>>>(&prk[..], &info, &mut key[..])?;
    Ok(key)
}

/// The start of every handshake without a pre-shared key, with the hashes of nearly all of them:
/// two steps whose results are precomputed.
struct Start {
    hash: Hash,
    /// The early secret: extracted from zeros with zeros.
    early: &'static [u8],
    /// Derive-Secret(early secret, "derived", "").
    salt: &'static [u8],
}

const STARTS: [Start; 2] = [
    Start {
        hash: Hash::Sha2_384,
        early: &[
            0x7e, 0xe8, 0x20, 0x6f, 0x55, 0x70, 0x02, 0x3e, 0x6d, 0xc7, 0x51, 0x9e, 0xb1, 0x07,
            0x3b, 0xc4, 0xe7, 0x91, 0xad, 0x37, 0xb5, 0xc3, 0x82, 0xaa, 0x10, 0xba, 0x18, 0xe2,
            0x35, 0x7e, 0x71, 0x69, 0x71, 0xf9, 0x36, 0x2f, 0x2c, 0x2f, 0xe2, 0xa7, 0x6b, 0xfd,
            0x78, 0xdf, 0xec, 0x4e, 0xa9, 0xb5,
        ],
        salt: &[
            0x15, 0x91, 0xda, 0xc5, 0xcb, 0xbf, 0x03, 0x30, 0xa4, 0xa8, 0x4d, 0xe9, 0xc7, 0x53,
            0x33, 0x0e, 0x92, 0xd0, 0x1f, 0x0a, 0x88, 0x21, 0x4b, 0x44, 0x64, 0x97, 0x2f, 0xd6,
            0x68, 0x04, 0x9e, 0x93, 0xe5, 0x2f, 0x2b, 0x16, 0xfa, 0xd9, 0x22, 0xfd, 0xc0, 0x58,
            0x44, 0x78, 0x42, 0x8f, 0x28, 0x2b,
        ],
    },
    Start {
        hash: Hash::Sha2_256,
        early: &[
            0x33, 0xad, 0x0a, 0x1c, 0x60, 0x7e, 0xc0, 0x3b, 0x09, 0xe6, 0xcd, 0x98, 0x93, 0x68,
            0x0c, 0xe2, 0x10, 0xad, 0xf3, 0x00, 0xaa, 0x1f, 0x26, 0x60, 0xe1, 0xb2, 0x2e, 0x10,
            0xf1, 0x70, 0xf9, 0x2a,
        ],
        salt: &[
            0x6f, 0x26, 0x15, 0xa1, 0x08, 0xc7, 0x02, 0xc5, 0x67, 0x8f, 0x54, 0xfc, 0x9d, 0xba,
            0xb6, 0x97, 0x16, 0xc0, 0x76, 0x18, 0x9c, 0x48, 0x25, 0x0c, 0xeb, 0xea, 0xc3, 0x57,
            0x6c, 0x36, 0x11, 0xba,
        ],
    },
];

impl Start {
    /// Returns whether a previous secret is this early secret, and the label that of the salt. It
    /// says whether there is a pre-shared key, which the messages of the handshake say too.
    fn goes_on(&self, previous: &[u8], label: Label<'_>) -> bool {
        label.prefix == b"tls13 "
            && label.label == b"derived"
            && ct::declassified(ct::eq_mask(previous, self.early)) == u64::MAX
    }
}

/// HKDF-Expand (RFC 5869, section 2.3); `out` is not longer than it can give.
fn expand<C: Code>(secret: &[u8], info: &[u8], out: &mut [u8]) -> Result<(), Error> {
    let blocks = out.len().div_ceil(C::len());
    let mut keyed = Some(C::keyed(secret)?);
    for block in 1..=blocks {
        let (done, rest) = out.split_at_mut((block - 1) * C::len());
        // The last block, mostly the only one, needs no copy of the key's state.
        let code = if block == blocks { keyed.take() } else { keyed.clone() };
        let Some(mut code) = code else { break };
        if block > 1 {
            code.absorb(&done[done.len() - C::len()..]);
        }
        code.absorb(info);
        code.absorb(&[block as u8]);
        let end = C::len().min(rest.len());
        code.finish(&mut rest[..end]);
    }
    Ok(())
}

/// HMAC (RFC 2104) on its way.
trait Code: Clone {
    /// Bytes of a code.
    fn len() -> usize;

    /// Creates the function with a key of any length.
    fn keyed(key: &[u8]) -> Result<Self, Error>;

    /// Absorbs more of the message.
    fn absorb(&mut self, bytes: &[u8]);

    /// The first bytes of the code, as many as there is room for; the rest is wiped.
    fn finish(self, out: &mut [u8]);
}

/// HMAC of RustCrypto's.
#[derive(Clone)]
struct Library<M>(M);

impl<M: Mac + KeyInit + Clone> Code for Library<M> {
    fn len() -> usize {
        M::output_size()
    }

    fn keyed(key: &[u8]) -> Result<Self, Error> {
        // HMAC takes keys of every length.
        let refused = |_| Error::TooLong { what: "the secret", most: usize::MAX, got: key.len() };
        M::new_from_slice(key).map(Library).map_err(refused)
    }

    fn absorb(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(self, out: &mut [u8]) {
        let mut code: Output<M> = self.0.finalize().into_bytes();
        out.copy_from_slice(&code[..out.len()]);
        ct::wipe(&mut code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_scheme::prehash::Prehash;

    fn x(hex: &str) -> Vec<u8> {
        base16ct::mixed::decode_vec(hex).unwrap()
    }

    fn tls13(label: &str) -> Label<'_> {
        Label { prefix: b"tls13 ", label: label.as_bytes() }
    }

    fn next(previous: Option<&[u8]>, input: Option<&[u8]>) -> Vec<u8> {
        let mut out = vec![0; 32];
        extract(Hash::Sha2_256, previous, tls13("derived"), input, &mut out).unwrap();
        out
    }

    fn expanded(secret: &[u8], label: &str, context: &str, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        expand_label(Hash::Sha2_256, secret, tls13(label), &x(context), &mut out).unwrap();
        out
    }

    const HELLOS: &str = "860c06edc07858ee8e78f0e7428c58edd6b43f2ca3e6e95f02ed063cf0e1cad8";
    const TO_FINISHED: &str = "9608102a0f1ccc6db6250b7b7e417b1a000eaada3daae4777a7686c9ff83df13";
    const ALL: &str = "209145a96ee8e2a122ff810047cc952684658d6049e86429426db87c54ad143d";

    /// A secret of RFC 8448, section 3: its label, the transcript hash, the secret, and the values
    /// derived from it by further labels, with another context if that is not empty. The first two
    /// derive from the handshake secret, the others from the master secret.
    type Secret = (&'static str, &'static str, &'static str, &'static [[&'static str; 3]]);

    const SECRETS: [Secret; 6] = [
        (
            "c hs traffic",
            HELLOS,
            "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21",
            &[
                ["key", "", "dbfaa693d1762c5b666af5d950258d01"],
                ["iv", "", "5bd3c71b836e0b76bb73265f"],
                [
                    "finished",
                    "",
                    "b80ad01015fb2f0bd65ff7d4da5d6bf83f84821d1f87fdc7d3c75b5a7b42d9c4",
                ],
            ],
        ),
        (
            "s hs traffic",
            HELLOS,
            "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38",
            &[
                ["key", "", "3fce516009c21727d0f2e4e86ee403bc"],
                ["iv", "", "5d313eb2671276ee13000b30"],
                [
                    "finished",
                    "",
                    "008d3b66f816ea559f96b537e885c31fc068bf492c652f01f288a1d8cdc19fc8",
                ],
            ],
        ),
        (
            "c ap traffic",
            TO_FINISHED,
            "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5",
            &[
                ["key", "", "17422dda596ed5d9acd890e3c63f5051"],
                ["iv", "", "5b78923dee08579033e523d9"],
            ],
        ),
        (
            "s ap traffic",
            TO_FINISHED,
            "a11af9f05531f856ad47116b45a950328204b4f44bfb6b3a4b4f1f3fcb631643",
            &[
                ["key", "", "9f02283b6c9c07efc26bb9f2ac92e356"],
                ["iv", "", "cf782b88dd83549aadf1e984"],
            ],
        ),
        (
            "exp master",
            TO_FINISHED,
            "fe22f881176eda18eb8f44529e6792c50c9a3f89452f68d8ae311b4309d3cf50",
            &[],
        ),
        (
            "res master",
            ALL,
            "7df235f2031d2a051287d02b0241b0bfdaf86cc856231f2d5aba46c434ec196c",
            &[[
                "resumption",
                "0000",
                "4ecd0eb6ec3b4d87f5d6028f922ca4c5851a277fd41311c9e62d2c9492e1c4f3",
            ]],
        ),
    ];

    #[test]
    fn the_simple_handshake_of_rfc_8448() {
        const SHARED: &str = "8bd4054fb55b9d63fdfbacf9f04b9f0d35e6d63f537563efd46272900f89492d";
        let early = next(None, None);
        assert_eq!(early, x("33ad0a1c607ec03b09e6cd9893680ce210adf300aa1f2660e1b22e10f170f92a"));
        let handshake = next(Some(&early), Some(&x(SHARED)));
        assert_eq!(
            handshake,
            x("1dc826e93606aa6fdc0aadc12f741b01046aa6b99f691ed221a9f0ca043fbeac")
        );
        let master = next(Some(&handshake), None);
        assert_eq!(master, x("18df06843d13a08bf2a449844c5f8a478001bc4d4c627984d5a41da8d0402919"));
        for (index, (label, transcript, secret, uses)) in SECRETS.iter().enumerate() {
            let from = if index < 2 { &handshake } else { &master };
            let made = expanded(from, label, transcript, 32);
            assert_eq!(made, x(secret), "{label}");
            for [use_label, context, wanted] in *uses {
                let used = expanded(&made, use_label, context, wanted.len() / 2);
                assert_eq!(used, x(wanted), "{label}, {use_label}");
            }
        }
    }

    #[test]
    fn precomputed_early_secrets_match_derivation() {
        for start in STARTS {
            let (hash, len) = (start.hash, start.hash.len());
            let mut made = vec![0; len];
            // Zeros that are there are as good as those in place of an input that is not.
            extract(hash, None, tls13("derived"), Some(&vec![0; len]), &mut made).unwrap();
            assert_eq!(made, start.early);
            let nothing = of_hash!(hash, D => D::digest(b"").to_vec());
            expand_label(hash, start.early, tls13("derived"), &nothing, &mut made).unwrap();
            assert_eq!(made, start.salt);
            let mut known = vec![0; len];
            extract(hash, Some(start.early), tls13("derived"), Some(b"input"), &mut known).unwrap();
            let hmac = of_hash!(hash, D => {
                let mut mac = Hmac::<D>::new_from_slice(&made).unwrap();
                mac.update(b"input");
                mac.finalize().into_bytes().to_vec()
            });
            assert_eq!(known, hmac);
            // Another label, another secret.
            let mut other = vec![0; len];
            extract(hash, Some(start.early), tls13("other"), Some(b"input"), &mut other).unwrap();
            assert_ne!(known, other);
        }
    }

    /// RFC 5869, A.1: more than one block.
    #[test]
    fn hkdf_of_rfc_5869() {
        let prk = x("077709362c2e32df0ddc3f0dc47bba6390b6c73bb50f9c3122ec844ad7c2b3e5");
        let mut out = [0; 42];
        expand::<Library<Hmac<Sha256>>>(&prk, &x("f0f1f2f3f4f5f6f7f8f9"), &mut out).unwrap();
        let wanted =
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
        assert_eq!(out[..], x(wanted));
    }

    #[test]
    fn oversized_key_schedule_inputs_are_refused_without_output() {
        let most = |what, most, got| Err(Error::TooLong { what, most, got });
        for hash in Hash::ALL {
            let label = |len| Label { prefix: b"tls13 ", label: &[b'x'; 300][..len] };
            let expand = |label_len, context_len, len: usize| {
                let mut out = vec![7; len];
                let context = vec![1; context_len];
                let made = expand_label(hash, b"secret", label(label_len), &context, &mut out);
                assert_eq!(made.is_err(), len > 0 && out == vec![7; len]);
                made
            };
            let all = 255 * hash.len();
            assert_eq!(expand(249, 255, all), Ok(()));
            assert_eq!(expand(250, 255, 1), most("the label", 255, 256));
            assert_eq!(expand(249, 256, 1), most("the context", 255, 256));
            assert_eq!(expand(0, 0, all + 1), most("the output", all, all + 1));
            for len in [0, hash.len() - 1, hash.len() + 1] {
                let mut out = vec![7; len];
                assert!(extract(hash, None, label(0), None, &mut out).is_err());
                assert_eq!(out, vec![7; len]);
            }
        }
    }

    #[test]
    fn hashes_go_by_their_names() {
        for hash in Hash::ALL {
            for name in hash.names() {
                assert_eq!(Hash::named(name), Some(hash));
                assert_eq!(Hash::named(&name.to_ascii_lowercase()), Some(hash));
            }
        }
        for name in ["", "SHA2", "SHA3-256", "SHA2-256 ", "MD5"] {
            assert_eq!(Hash::named(name), None, "{name}");
        }
        // The table of pre-hash functions must agree for the same hashes.
        let mut shared = 0;
        for other in Prehash::all() {
            let Some(hash) = Hash::named(other.name()) else { continue };
            let arc = other.oid_der()[10];
            assert_eq!(hash.names().last(), Some(&&*format!("2.16.840.1.101.3.4.2.{arc}")));
            assert_eq!(hash.len(), other.digest_len());
            shared += 1;
        }
        assert_eq!(shared, 6);
    }
}
