//! Extracts the DER of a key file: PEM and encryption. [`gabion_engine::key_file`] parses the DER.
//!
//! ```text
//!   bytes ─ PEM? ─> label, DER ─┬─ PRIVATE KEY            PKCS#8 (RFC 5958)
//!                               ├─ ENCRYPTED PRIVATE KEY  PBES2 around it (RFC 8018)
//!                               ├─ EC PRIVATE KEY         ECPrivateKey alone (RFC 5915)
//!                               ├─ PUBLIC KEY             SubjectPublicKeyInfo (RFC 5280)
//!                               └─ CERTIFICATE            the SubjectPublicKeyInfo inside
//! ```

pub use gabion_engine::key_file::{
    EncodedKey, FileForm, Forms, Identifier, OctetForm, Parameters, Private, Public, Reason, Shape,
    encode_private, encode_public,
};
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::{Decode, pem};
use zeroize::Zeroizing;

/// The form to write, one of [`Forms`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Only the seed: the smallest form, which all implementations read.
    Seed,
    /// Only the expanded key: for programs that do not read seeds.
    Expanded,
    /// Both, as openssl writes.
    Both,
    /// The raw bytes of the key, and of the public key; for algorithms without a file format.
    /// Reading it needs --algorithm
    Raw,
}

/// The PEM labels that are accepted.
const LABELS: [&str; 5] =
    ["PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "PUBLIC KEY", "CERTIFICATE"];

/// The half of a key pair to read from a file with several blocks, such as a certificate and its
/// private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The private key.
    Private,
    /// The public key; also available from a private key.
    Public,
}

impl Half {
    /// Returns whether a block with this label is the half itself.
    fn is(self, label: &str) -> bool {
        label.ends_with("PRIVATE KEY") == (self == Half::Private)
    }
}

/// The prefix of a PEM block.
const BEGIN: &str = "-----BEGIN ";

/// Maximum PBKDF2 iterations, which take some seconds: the number that RFC 8018, section 4.2,
/// recommends for especially critical keys. openssl writes 2048.
const PBKDF2_ITERATIONS_MAX: u32 = 10_000_000;
/// Maximum memory of scrypt in bytes (RFC 7914: N * r * p * 128), 256 MiB: 16 times the parameters
/// that openssl writes, 8 times those that it reads.
const SCRYPT_BYTES_MAX: u128 = 256 << 20;

/// Decodes a key file; `password` is called only if the key is encrypted. Of several PEM blocks,
/// the first with the wanted half is used, or otherwise the first that can be read.
///
/// # Errors
/// The outer error is that of the password source; the inner one describes what is wrong with the
/// bytes.
pub fn decode<E>(
    bytes: &[u8],
    half: Half,
    password: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, E>,
) -> Result<Result<EncodedKey, Reason>, E> {
    let der = match unwrap_pem(bytes, half) {
        Ok(der) => der,
        Err(reason) => return Ok(Err(reason)),
    };
    Ok(match Shape::parse(&der) {
        Some(Shape::Encrypted) => {
            let password = password()?;
            let clear = decrypt(&der, &password);
            clear.and_then(|der| Private::from_der(&der)).map(EncodedKey::Private)
        }
        _ => EncodedKey::from_der(&der),
    })
}

/// Returns whether the bytes are PEM or DER, and not a raw key.
pub fn is_structure(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains(BEGIN))
        || Shape::parse(bytes).is_some()
}

/// Returns the DER, whether it is wrapped in PEM or not.
fn unwrap_pem(bytes: &[u8], half: Half) -> Result<Zeroizing<Vec<u8>>, Reason> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if text.contains(BEGIN) => text,
        _ => return Ok(Zeroizing::new(bytes.to_vec())),
    };
    let mut foreign = None;
    let mut other = None;
    let mut rest = text;
    while let Some(at) = rest.find(BEGIN) {
        let block = &rest[at + BEGIN.len()..];
        let Some((label, block)) = block.split_once("-----") else {
            break;
        };
        let end = format!("-----END {label}-----");
        let Some((body, after)) = block.split_once(&end) else {
            return Err(format!("is cut short: `{end}` is missing"));
        };
        if !LABELS.contains(&label) {
            // Among unreadable blocks, a private key is most likely the one the user meant.
            if foreign.is_none() || half == Half::Private && half.is(label) {
                foreign = Some(label);
            }
        } else if half.is(label) {
            return decode_block(label, body);
        } else {
            other.get_or_insert((label, body));
        }
        rest = after;
    }
    // If the private key next to a certificate is unreadable, the error is about the private key.
    let is_meant = foreign.is_some_and(|label| half == Half::Private && half.is(label));
    if let Some((label, body)) = other.filter(|_| !is_meant) {
        return decode_block(label, body);
    }
    if let Some(label @ ("RSA PRIVATE KEY" | "DSA PRIVATE KEY")) = foreign {
        return Err(format!(
            "holds `{label}`, an old form; convert it with `openssl pkcs8 -topk8 -nocrypt`"
        ));
    }
    if foreign == Some(gabion_state::LABEL) {
        return Err("holds a key of `gabion hbs keygen`, which signing uses up; sign with `gabion hbs sign`".to_owned());
    }
    let found = foreign.map_or("no complete PEM block".to_owned(), |label| format!("`{label}`"));
    Err(format!("holds {found}; expected one of {}", LABELS.join(", ")))
}

/// Decodes one block. Lines of any length are accepted, as by openssl.
fn decode_block(label: &str, body: &str) -> Result<Zeroizing<Vec<u8>>, Reason> {
    if body.contains(':') {
        return Err(
            "is encrypted in the old PEM way; convert it with `openssl pkcs8 -topk8`".into()
        );
    }
    let mut block = Zeroizing::new(String::with_capacity(2 * body.len() + 100));
    block.push_str(&format!("-----BEGIN {label}-----"));
    for (at, character) in body.chars().filter(|c| !c.is_ascii_whitespace()).enumerate() {
        if at % 64 == 0 {
            block.push('\n');
        }
        block.push(character);
    }
    block.push_str(&format!("\n-----END {label}-----\n"));
    match pem::decode_vec(block.as_bytes()) {
        Ok((_, der)) => Ok(Zeroizing::new(der)),
        Err(cause) => Err(format!("holds a damaged PEM block: {cause}")),
    }
}

fn decrypt(der: &[u8], password: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
    let encrypted = EncryptedPrivateKeyInfoRef::from_der(der).map_err(|cause| {
        format!(
            "is encrypted in a way that is not known here ({cause}); \
                                  expected PBES2 with PBKDF2 or scrypt and AES-CBC"
        )
    })?;
    check_cost(&encrypted)?;
    let clear = encrypted
        .decrypt(password)
        .map_err(|_| "does not open with this password, or is damaged".to_owned())?;
    Ok(clear.to_bytes())
}

/// Rejects excessive key derivation costs: the file, which may come from an attacker, sets the
/// number of iterations and the memory.
fn check_cost(encrypted: &EncryptedPrivateKeyInfoRef<'_>) -> Result<(), Reason> {
    let Some(parameters) = encrypted.encryption_algorithm.pbes2() else { return Ok(()) };
    if let Some(kdf) = parameters.kdf.pbkdf2()
        && kdf.iteration_count > PBKDF2_ITERATIONS_MAX
    {
        return Err(format!(
            "is encrypted with PBKDF2 with {} iterations; expected at most {PBKDF2_ITERATIONS_MAX}",
            kdf.iteration_count
        ));
    }
    if let Some(kdf) = parameters.kdf.scrypt() {
        let (n, r, p) = (kdf.cost_parameter, kdf.block_size, kdf.parallelization);
        let bytes = u128::from(n) * u128::from(r) * u128::from(p) * 128;
        // RFC 7914, section 2: N is a power of two greater than 1.
        if n < 2 || bytes > SCRYPT_BYTES_MAX {
            return Err(format!(
                "is encrypted with scrypt with N = {n}, r = {r}, p = {p}; expected N of 2 at least \
                 and N * r * p * 128 of {SCRYPT_BYTES_MAX} at most"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pkcs8::der::{Encode, asn1::OctetStringRef};

    const OID: &str = "2.16.840.1.101.3.4.3.17";
    const FORM: FileForm = FileForm { oid: OID, parameters: None, octet_form: OctetForm::Choice };

    fn decoded(bytes: &[u8]) -> Result<EncodedKey, Reason> {
        decode(bytes, Half::Public, || Err("encrypted".to_owned())).and_then(|inner| inner)
    }

    fn forms(seed: bool, expanded: bool) -> Forms<'static> {
        Forms {
            seed: seed.then_some(&[1; 32]),
            expanded: expanded.then_some(&[2; 100]),
            public: None,
        }
    }

    #[test]
    fn every_form_comes_back() {
        for (seed, expanded) in [(true, false), (false, true), (true, true)] {
            for as_der in [false, true] {
                let file = encode_private(FORM, &forms(seed, expanded), as_der).unwrap();
                let Ok(EncodedKey::Private(key)) = decoded(&file) else { panic!("not private") };
                assert_eq!(key.identifier.oid, OID);
                let back = Forms::from_octets(OctetForm::Choice, &key.octets).unwrap();
                assert_eq!(back.seed, forms(seed, expanded).seed);
                assert_eq!(back.expanded, forms(seed, expanded).expanded);
            }
        }
        let file = encode_public(FORM, &[3; 50], false).unwrap();
        let Ok(EncodedKey::Public(key)) = decoded(&file) else { panic!("not public") };
        assert_eq!((key.identifier.oid.as_str(), key.bytes), (OID, vec![3; 50]));
    }

    #[test]
    fn truncated_and_garbled_files_are_refused_without_a_panic() {
        let der = encode_private(FORM, &forms(true, true), true).unwrap();
        let pem = encode_private(FORM, &forms(true, true), false).unwrap();
        for file in [&der, &pem] {
            for len in 0..file.len() - 1 {
                let result = decoded(&file[..len]);
                assert!(result.is_err(), "{len} of {} bytes were accepted", file.len());
            }
        }
        let mut longer = der.to_vec();
        longer.push(0);
        assert!(decoded(&longer).is_err(), "trailing byte");
        for at in 0..der.len() {
            for bit in 0..8 {
                let mut garbled = der.to_vec();
                garbled[at] ^= 1 << bit;
                if let Ok(EncodedKey::Private(key)) = decoded(&garbled) {
                    let _ = Forms::from_octets(OctetForm::Choice, &key.octets);
                }
            }
        }
    }

    /// A key file must not decide how much time and memory it takes to open.
    #[test]
    fn excessive_kdf_costs_are_refused() {
        use pkcs8::pkcs5::pbes2::{EncryptionScheme, Kdf, Parameters, Salt, ScryptParams};
        let file = |kdf: Kdf| {
            let encryption = EncryptionScheme::Aes256Cbc { iv: [0; 16] };
            let parameters = Parameters { kdf, encryption };
            let encryption_algorithm = pkcs8::pkcs5::EncryptionScheme::Pbes2(parameters);
            let encrypted_data = OctetStringRef::new(&[0; 32]).unwrap();
            EncryptedPrivateKeyInfoRef { encryption_algorithm, encrypted_data }.to_der()
        };
        let opened = |kdf| match decode::<()>(&file(kdf).unwrap(), Half::Private, || {
            Ok(Vec::new().into())
        }) {
            Ok(Err(reason)) => reason,
            _ => panic!("opened"),
        };
        let scrypt = |cost_parameter, block_size, parallelization| {
            let salt = Salt::new([1; 8]).unwrap();
            let key_length = None;
            ScryptParams { salt, cost_parameter, block_size, parallelization, key_length }.into()
        };
        for costs in [(0, 8, 1), (1, 8, 1), (1 << 30, 8, 1), (1 << 63, 8, 1), (1 << 14, 8, 17)] {
            let reason = opened(scrypt(costs.0, costs.1, costs.2));
            assert!(reason.contains("scrypt with N = "), "{costs:?}: {reason}");
        }
        assert!(opened(scrypt(1 << 10, 8, 1)).contains("does not open"));
        let pbkdf2 = |iteration_count| {
            let salt = Salt::new([1; 8]).unwrap();
            let prf = pkcs8::pkcs5::pbes2::Pbkdf2Prf::HmacWithSha256;
            let key_length = None;
            Kdf::Pbkdf2(pkcs8::pkcs5::pbes2::Pbkdf2Params {
                salt,
                iteration_count,
                key_length,
                prf,
            })
        };
        assert!(opened(pbkdf2(u32::MAX)).contains("PBKDF2 with 4294967295 iterations"));
        assert!(opened(pbkdf2(2048)).contains("does not open"));
    }

    #[test]
    fn unrelated_pem_blocks_are_skipped_and_named() {
        let key = encode_public(FORM, &[3; 50], false).unwrap();
        let other = b"text\n-----BEGIN EC PARAMETERS-----\nAAAA\n-----END EC PARAMETERS-----\n";
        let both = [&other[..], &key].concat();
        assert!(matches!(decoded(&both), Ok(EncodedKey::Public(_))));
        let error = decoded(other).err().unwrap();
        assert!(error.contains("EC PARAMETERS"), "{error}");
    }

    /// HAProxy expects the certificate before the private key; other servers expect the reverse
    /// order.
    #[test]
    fn requested_half_is_read_from_several_pem_blocks() {
        let private = encode_private(FORM, &forms(true, false), false).unwrap();
        let public = encode_public(FORM, &[3; 50], false).unwrap();
        let rsa = b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n";
        let read = |blocks: &[&[u8]], half| {
            decode(&blocks.concat(), half, || Err("encrypted".to_owned())).and_then(|inner| inner)
        };
        for blocks in [[&public[..], &private], [&private, &public]] {
            assert!(matches!(read(&blocks, Half::Private), Ok(EncodedKey::Private(_))));
            assert!(matches!(read(&blocks, Half::Public), Ok(EncodedKey::Public(_))));
        }
        assert!(matches!(read(&[&public], Half::Private), Ok(EncodedKey::Public(_))));
        assert!(matches!(read(&[&private], Half::Public), Ok(EncodedKey::Private(_))));
        for blocks in [[&public[..], rsa], [rsa, &public]] {
            let error = read(&blocks, Half::Private).err().unwrap();
            assert!(error.contains("openssl pkcs8"), "{error}");
            assert!(matches!(read(&blocks, Half::Public), Ok(EncodedKey::Public(_))));
        }
        let first =
            read(&[&private[..], &public, b"-----BEGIN CERTIFICATE-----\nA"], Half::Private);
        assert!(matches!(first, Ok(EncodedKey::Private(_))), "what follows is of no interest");
    }

    #[test]
    fn lines_of_any_length_are_read() {
        let key = String::from_utf8(encode_public(FORM, &[3; 50], false).unwrap()).unwrap();
        let (begin, rest) = key.split_once('\n').unwrap();
        let (body, end) = rest.split_once("-----END").unwrap();
        let one_line = format!("{begin}\r\n{}\r\n-----END{end}", body.replace('\n', ""));
        assert!(matches!(decoded(one_line.as_bytes()), Ok(EncodedKey::Public(_))));
    }
}
