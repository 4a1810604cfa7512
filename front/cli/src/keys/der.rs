//! From the bytes of a key file to what they encode, without knowing any algorithm.
//!
//! ```text
//!   bytes ─ PEM? ─> label, DER ─┬─ PRIVATE KEY            PKCS#8 (RFC 5958)
//!                               ├─ ENCRYPTED PRIVATE KEY  PBES2 around it (RFC 8018)
//!                               ├─ EC PRIVATE KEY         ECPrivateKey alone (RFC 5915)
//!                               ├─ PUBLIC KEY             SubjectPublicKeyInfo (RFC 5280)
//!                               └─ CERTIFICATE            the SubjectPublicKeyInfo inside
//! ```

use pkcs8::der::asn1::{AnyRef, BitStringRef, ContextSpecific, ContextSpecificRef, OctetStringRef};
use pkcs8::der::{
    Decode, Encode, Reader, SecretDocument, Tag, TagMode, TagNumber, Tagged, asn1::UintRef, pem,
};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use pkcs8::{EncryptedPrivateKeyInfo, ObjectIdentifier, PrivateKeyInfo};
use zeroize::Zeroizing;

/// What a key file holds.
pub enum Encoded {
    /// A private key.
    Private(Private),
    /// A public key, or the one inside a certificate.
    Public(Public),
}

impl Encoded {
    /// The algorithm's identifier.
    pub fn identifier(&self) -> &Identifier {
        match self {
            Encoded::Private(key) => &key.identifier,
            Encoded::Public(key) => &key.identifier,
        }
    }
}

/// An AlgorithmIdentifier.
pub struct Identifier {
    /// The algorithm's object identifier, dotted.
    pub oid: String,
    /// What stands beside it.
    pub parameters: Parameters,
}

/// The parameters of an [`Identifier`].
#[derive(PartialEq, Eq)]
pub enum Parameters {
    /// Nothing.
    Absent,
    /// An object identifier, dotted: a named curve.
    Named(String),
    /// Anything else.
    Other,
}

/// A private key as PKCS#8 carries it.
pub struct Private {
    /// The algorithm.
    pub identifier: Identifier,
    /// What stands inside the OCTET STRING.
    pub octets: Zeroizing<Vec<u8>>,
    /// The public key that a version 2 structure carries beside it.
    pub public: Option<Vec<u8>>,
}

/// A public key as SubjectPublicKeyInfo carries it.
pub struct Public {
    /// The algorithm.
    pub identifier: Identifier,
    /// What stands inside the BIT STRING.
    pub bytes: Vec<u8>,
    /// Whether it came out of a certificate.
    pub from_certificate: bool,
}

/// What the OCTET STRING of a private key holds, where it holds it.
#[derive(Clone, Copy, Default)]
pub struct Forms<'a> {
    /// The seed.
    pub seed: Option<&'a [u8]>,
    /// The private key as the engine has it.
    pub expanded: Option<&'a [u8]>,
    /// The public key.
    pub public: Option<&'a [u8]>,
}

/// Which of [`Forms`] to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// The seed alone: smallest.
    Seed,
    /// The expanded key alone: what programs without seeds read.
    Expanded,
    /// Both, as openssl writes.
    Both,
}

/// What stands inside the OCTET STRING of a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inside {
    /// RFC 9881, section 6 and RFC 9935, section 6; its `expandedKey` is also the CurvePrivateKey of
    /// RFC 8410, section 7.
    ///
    /// ```text
    /// CHOICE { seed [0] OCTET STRING, expandedKey OCTET STRING, both SEQUENCE { seed, expandedKey } }
    /// ```
    Choice,
    /// The private key's bytes as they are (RFC 9909, section 6).
    Bytes,
    /// ECPrivateKey (RFC 5915) on a named curve, with the public key inside, as openssl writes.
    Curve(&'static str),
    /// An OCTET STRING of the private key, of so many bytes, and then the public one: what Open
    /// Quantum Safe's provider writes. The public key may be missing.
    WithPublic(usize),
}

/// How the key files of an algorithm look.
#[derive(Clone, Copy)]
pub struct FileForm {
    /// The algorithm's object identifier, dotted.
    pub oid: &'static str,
    /// The one beside it.
    pub parameters: Option<&'static str>,
    /// What stands inside a private key.
    pub inside: Inside,
}

/// Why the bytes are not a key; completes the sentence "FILE ...".
pub type Reason = String;

/// Labels of PEM blocks that are read.
const LABELS: [&str; 5] =
    ["PRIVATE KEY", "ENCRYPTED PRIVATE KEY", "EC PRIVATE KEY", "PUBLIC KEY", "CERTIFICATE"];

/// Most rounds of PBKDF2 that are run, some seconds' worth: what RFC 8018, section 4.2, has for
/// especially critical keys. openssl writes 2048.
const PBKDF2_ITERATIONS_MAX: u32 = 10_000_000;
/// Most bytes that scrypt goes through (RFC 7914: N * r * p * 128), 256 MiB: 16 times what openssl
/// writes, 8 times what it reads.
const SCRYPT_BYTES_MAX: u128 = 256 << 20;

/// Decodes a key file; `password` is asked only when the key is encrypted.
///
/// # Errors
/// The outer error is the password source's, the inner one says what is wrong with the bytes.
pub fn decode<E>(
    bytes: &[u8],
    password: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, E>,
) -> Result<Result<Encoded, Reason>, E> {
    let der = match unwrap_pem(bytes) {
        Ok(der) => der,
        Err(reason) => return Ok(Err(reason)),
    };
    let not_a_key = || {
        "holds no key; expected PEM or DER of a PKCS#8 private key, a SubjectPublicKeyInfo or an \
         X.509 certificate"
            .to_owned()
    };
    Ok(match shape(&der) {
        Some(Shape::Private) => decode_private(&der).map(Encoded::Private),
        Some(Shape::EcPrivate) => decode_ec_private(&der).map(Encoded::Private),
        Some(Shape::Public) => decode_public(&der).map(Encoded::Public),
        Some(Shape::Certificate) => decode_certificate(&der).map(Encoded::Public),
        Some(Shape::Encrypted) => {
            let password = password()?;
            decrypt(&der, &password).and_then(|der| decode_private(&der)).map(Encoded::Private)
        }
        None => Err(not_a_key()),
    })
}

/// The DER inside, whether it was wrapped as PEM or not.
fn unwrap_pem(bytes: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
    const BEGIN: &str = "-----BEGIN ";
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if text.contains(BEGIN) => text,
        _ => return Ok(Zeroizing::new(bytes.to_vec())),
    };
    let mut foreign = None;
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
        if LABELS.contains(&label) {
            return decode_block(label, body);
        }
        foreign.get_or_insert(label);
        rest = after;
    }
    if let Some(label @ ("RSA PRIVATE KEY" | "DSA PRIVATE KEY")) = foreign {
        return Err(format!(
            "holds `{label}`, an old form; convert it with `openssl pkcs8 -topk8 -nocrypt`"
        ));
    }
    let found = foreign.map_or("no complete PEM block".to_owned(), |label| format!("`{label}`"));
    Err(format!("holds {found}; expected one of {}", LABELS.join(", ")))
}

/// The bytes of one block; lines of any length are accepted, as openssl does.
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

enum Shape {
    Private,
    EcPrivate,
    Encrypted,
    Public,
    Certificate,
}

/// Tells the structures apart by the tags of their first fields.
fn shape(der: &[u8]) -> Option<Shape> {
    let outer = AnyRef::from_der(der).ok()?;
    if outer.tag() != Tag::Sequence {
        return None;
    }
    let mut fields = pkcs8::der::SliceReader::new(outer.value()).ok()?;
    let mut next = || AnyRef::decode(&mut fields).ok();
    match (next()?.tag(), next()?.tag(), next().map(|field| field.tag())) {
        (Tag::Integer, Tag::Sequence, _) => Some(Shape::Private),
        (Tag::Integer, Tag::OctetString, _) => Some(Shape::EcPrivate),
        (Tag::Sequence, Tag::OctetString, None) => Some(Shape::Encrypted),
        (Tag::Sequence, Tag::BitString, None) => Some(Shape::Public),
        (Tag::Sequence, Tag::Sequence, Some(Tag::BitString)) => Some(Shape::Certificate),
        _ => None,
    }
}

fn damaged(what: &str, cause: impl std::fmt::Display) -> Reason {
    format!("holds a damaged {what}: {cause}")
}

fn identifier(algorithm: &AlgorithmIdentifierRef<'_>) -> Identifier {
    let parameters = algorithm.parameters.map_or(Parameters::Absent, parameters);
    Identifier { oid: algorithm.oid.to_string(), parameters }
}

fn parameters(any: AnyRef<'_>) -> Parameters {
    match any.decode_as::<ObjectIdentifier>() {
        Ok(oid) => Parameters::Named(oid.to_string()),
        Err(_) => Parameters::Other,
    }
}

fn decode_private(der: &[u8]) -> Result<Private, Reason> {
    let info = PrivateKeyInfo::from_der(der).map_err(|cause| damaged("private key", cause))?;
    Ok(Private {
        identifier: identifier(&info.algorithm),
        octets: Zeroizing::new(info.private_key.to_vec()),
        public: info.public_key.map(<[u8]>::to_vec),
    })
}

/// An ECPrivateKey that stands alone: `openssl pkey -outform DER` and `openssl ecparam` write it so.
fn decode_ec_private(der: &[u8]) -> Result<Private, Reason> {
    let key = EcPrivateKey::from_der(der).map_err(|cause| damaged("private key", cause))?;
    let parameters = key.curve.map_or(Parameters::Absent, parameters);
    let identifier = Identifier { oid: EC_PUBLIC_KEY.to_owned(), parameters };
    Ok(Private { identifier, octets: Zeroizing::new(der.to_vec()), public: None })
}

fn decode_public(der: &[u8]) -> Result<Public, Reason> {
    let info =
        SubjectPublicKeyInfoRef::from_der(der).map_err(|cause| damaged("public key", cause))?;
    let bytes = info.subject_public_key.as_bytes();
    let bytes = bytes.ok_or("holds a public key that does not end on a whole byte")?;
    Ok(Public {
        identifier: identifier(&info.algorithm),
        bytes: bytes.to_vec(),
        from_certificate: false,
    })
}

/// The SubjectPublicKeyInfo of a certificate: the seventh field of its TBSCertificate, the sixth
/// when the version is left out (RFC 5280, section 4.1).
fn decode_certificate(der: &[u8]) -> Result<Public, Reason> {
    let find = || -> pkcs8::der::Result<Vec<u8>> {
        AnyRef::from_der(der)?.sequence(|certificate| {
            let tbs: AnyRef<'_> = certificate.decode()?;
            certificate.decode::<AnyRef<'_>>()?;
            certificate.decode::<AnyRef<'_>>()?;
            let mut fields = pkcs8::der::SliceReader::new(tbs.value())?;
            let first: AnyRef<'_> = fields.decode()?;
            let version = Tag::ContextSpecific { constructed: true, number: TagNumber::N0 };
            let before = if first.tag() == version { 5 } else { 4 };
            for _ in 0..before {
                fields.decode::<AnyRef<'_>>()?;
            }
            fields.decode::<AnyRef<'_>>()?.to_der()
        })
    };
    let spki = find().map_err(|cause| damaged("certificate", cause))?;
    Ok(Public { from_certificate: true, ..decode_public(&spki)? })
}

fn decrypt(der: &[u8], password: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
    let encrypted = EncryptedPrivateKeyInfo::from_der(der).map_err(|cause| {
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

/// Refuses to derive a key at a price that no program asks for: the file names the number of rounds
/// and the memory, and may come from anybody.
fn check_cost(encrypted: &EncryptedPrivateKeyInfo<'_>) -> Result<(), Reason> {
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
        // RFC 7914, section 2: N is a power of two above 1.
        if n < 2 || bytes > SCRYPT_BYTES_MAX {
            return Err(format!(
                "is encrypted with scrypt with N = {n}, r = {r}, p = {p}; expected N of 2 at least \
                 and N * r * p * 128 of {SCRYPT_BYTES_MAX} at most"
            ));
        }
    }
    Ok(())
}

impl<'a> Forms<'a> {
    /// Reads what stands inside a private key's OCTET STRING.
    ///
    /// # Errors
    /// Any other structure, trailing bytes included.
    pub fn from_octets(inside: Inside, octets: &'a [u8]) -> Result<Self, Reason> {
        let (read, expected) = match inside {
            Inside::Bytes => return Ok(Forms { expanded: Some(octets), ..Forms::default() }),
            Inside::Choice => (
                read_choice(octets),
                "in none of the three forms seed, expandedKey and both (RFC 9881, RFC 9935)",
            ),
            Inside::Curve(curve) => {
                (read_curve(octets, curve), "that is no ECPrivateKey of its curve (RFC 5915)")
            }
            Inside::WithPublic(len) => {
                let read = OctetStringRef::from_der(octets).map(|both| {
                    let (private, public) =
                        both.as_bytes().split_at_checked(len).unwrap_or((both.as_bytes(), &[]));
                    let public = (!public.is_empty()).then_some(public);
                    Some(Forms { seed: None, expanded: Some(private), public })
                });
                (read, "")
            }
        };
        match read {
            Ok(Some(forms)) => Ok(forms),
            Ok(None) => Err(format!("holds a private key {expected}")),
            Err(cause) => Err(damaged("private key", cause)),
        }
    }

    /// Writes what stands inside, in the forms that are there.
    fn to_octets(self, inside: Inside) -> pkcs8::der::Result<Zeroizing<Vec<u8>>> {
        let octets = |bytes| OctetStringRef::new(bytes)?.to_der().map(Zeroizing::new);
        let expanded = self.expanded.unwrap_or_default();
        match (inside, self.seed) {
            (Inside::Bytes, _) => Ok(Zeroizing::new(expanded.to_vec())),
            (Inside::Choice, None) => octets(expanded),
            (Inside::Choice, Some(seed)) if self.expanded.is_none() => {
                AnyRef::new(SEED_TAG, seed)?.to_der().map(Zeroizing::new)
            }
            (Inside::Choice, Some(seed)) => sequence(&[&octets(seed)?, &octets(expanded)?]),
            (Inside::Curve(_), _) => {
                let version = UintRef::new(&[1])?.to_der()?;
                let point = BitStringRef::from_bytes(self.public.unwrap_or_default())?;
                let (tag_number, tag_mode) = (TagNumber::N1, TagMode::Explicit);
                let public = ContextSpecificRef { tag_number, tag_mode, value: &point }.to_der()?;
                sequence(&[&version, &octets(expanded)?, &public])
            }
            (Inside::WithPublic(_), _) => {
                let public = self.public.unwrap_or_default();
                octets(&Zeroizing::new([expanded, public].concat()))
            }
        }
    }
}

const SEED_TAG: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber::N0 };

/// A SEQUENCE of encoded fields, which may be secret.
fn sequence(fields: &[&[u8]]) -> pkcs8::der::Result<Zeroizing<Vec<u8>>> {
    let body = Zeroizing::new(fields.concat());
    AnyRef::new(Tag::Sequence, &body)?.to_der().map(Zeroizing::new)
}

/// [`Inside::Choice`].
fn read_choice(octets: &[u8]) -> pkcs8::der::Result<Option<Forms<'_>>> {
    let choice = AnyRef::from_der(octets)?;
    let forms = Forms::default();
    match choice.tag() {
        SEED_TAG => Ok(Some(Forms { seed: Some(choice.value()), ..forms })),
        Tag::OctetString => Ok(Some(Forms { expanded: Some(choice.value()), ..forms })),
        Tag::Sequence => choice.sequence(|both| {
            let seed = OctetStringRef::decode(both)?;
            let expanded = OctetStringRef::decode(both)?;
            let (seed, expanded) = (seed.as_bytes(), expanded.as_bytes());
            Ok(Some(Forms { seed: Some(seed), expanded: Some(expanded), ..forms }))
        }),
        _ => Ok(None),
    }
}

/// The fields of an ECPrivateKey (RFC 5915, section 3) of version 1.
struct EcPrivateKey<'a> {
    scalar: &'a [u8],
    curve: Option<AnyRef<'a>>,
    public: Option<BitStringRef<'a>>,
}

/// `id-ecPublicKey` (RFC 5480, section 2.1.1).
const EC_PUBLIC_KEY: &str = "1.2.840.10045.2.1";

impl<'a> EcPrivateKey<'a> {
    fn from_der(der: &'a [u8]) -> pkcs8::der::Result<Self> {
        AnyRef::from_der(der)?.sequence(|fields| {
            if u8::decode(fields)? != 1 {
                return Err(Tag::Integer.value_error());
            }
            let scalar = OctetStringRef::decode(fields)?.as_bytes();
            let curve = ContextSpecific::decode_explicit(fields, TagNumber::N0)?;
            let public = ContextSpecific::decode_explicit(fields, TagNumber::N1)?;
            let (curve, public) = (curve.map(|curve| curve.value), public.map(|it| it.value));
            Ok(EcPrivateKey { scalar, curve, public })
        })
    }
}

/// [`Inside::Curve`]; the curve is named elsewhere, and may be named here again.
fn read_curve<'a>(octets: &'a [u8], curve: &str) -> pkcs8::der::Result<Option<Forms<'a>>> {
    let key = EcPrivateKey::from_der(octets)?;
    let named_otherwise =
        key.curve.is_some_and(|named| parameters(named) != Parameters::Named(curve.to_owned()));
    let public = key.public.map(|public| public.as_bytes());
    if named_otherwise || public == Some(None) {
        return Ok(None);
    }
    Ok(Some(Forms { seed: None, expanded: Some(key.scalar), public: public.flatten() }))
}

/// Encodes a private key as PKCS#8, PEM unless `as_der`.
///
/// # Errors
/// A key too long for DER, which none is.
pub fn encode_private(
    form: FileForm,
    forms: &Forms<'_>,
    as_der: bool,
) -> pkcs8::der::Result<Zeroizing<Vec<u8>>> {
    let octets = forms.to_octets(form.inside)?;
    let (oid, curve) = oids(form)?;
    let algorithm = AlgorithmIdentifierRef { oid, parameters: curve.as_ref().map(AnyRef::from) };
    let document = SecretDocument::encode_msg(&PrivateKeyInfo::new(algorithm, &octets))?;
    if as_der {
        return Ok(document.to_bytes());
    }
    let text = document.to_pem("PRIVATE KEY", pem::LineEnding::LF)?;
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}

/// Encodes a public key as SubjectPublicKeyInfo, PEM unless `as_der`.
///
/// # Errors
/// A key too long for DER, which none is.
pub fn encode_public(form: FileForm, bytes: &[u8], as_der: bool) -> pkcs8::der::Result<Vec<u8>> {
    let subject_public_key = BitStringRef::from_bytes(bytes)?;
    let (oid, curve) = oids(form)?;
    let algorithm = AlgorithmIdentifierRef { oid, parameters: curve.as_ref().map(AnyRef::from) };
    let info = SubjectPublicKeyInfoRef { algorithm, subject_public_key };
    let document = pkcs8::Document::encode_msg(&info)?;
    if as_der {
        return Ok(document.into_vec());
    }
    Ok(document.to_pem("PUBLIC KEY", pem::LineEnding::LF)?.into_bytes())
}

/// The algorithm's identifier and its curve's. Where there is no curve, nothing stands beside: RFC
/// 8410, section 3, RFC 9881 and RFC 9935, section 2, RFC 9909, section 3.
fn oids(form: FileForm) -> pkcs8::der::Result<(ObjectIdentifier, Option<ObjectIdentifier>)> {
    let oid = |text| ObjectIdentifier::new(text).map_err(pkcs8::der::Error::from);
    Ok((oid(form.oid)?, form.parameters.map(oid).transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OID: &str = "2.16.840.1.101.3.4.3.17";
    const FORM: FileForm = FileForm { oid: OID, parameters: None, inside: Inside::Choice };

    fn decoded(bytes: &[u8]) -> Result<Encoded, Reason> {
        decode(bytes, || Err("encrypted".to_owned())).and_then(|inner| inner)
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
                let Ok(Encoded::Private(key)) = decoded(&file) else { panic!("not private") };
                assert_eq!(key.identifier.oid, OID);
                let back = Forms::from_octets(Inside::Choice, &key.octets).unwrap();
                assert_eq!(back.seed, forms(seed, expanded).seed);
                assert_eq!(back.expanded, forms(seed, expanded).expanded);
            }
        }
        let file = encode_public(FORM, &[3; 50], false).unwrap();
        let Ok(Encoded::Public(key)) = decoded(&file) else { panic!("not public") };
        assert_eq!((key.identifier.oid.as_str(), key.bytes), (OID, vec![3; 50]));
    }

    /// The tags of RFC 9881, appendix C: 80 20, 04 .., 30 .. 04 20.
    #[test]
    fn the_choice_has_the_tags_of_the_standard() {
        let octets = |seed, expanded| forms(seed, expanded).to_octets(Inside::Choice).unwrap();
        assert_eq!(octets(true, false)[..3], [0x80, 32, 1]);
        assert_eq!(octets(false, true)[..3], [0x04, 100, 2]);
        assert_eq!(octets(true, true)[..6], [0x30, 0x81, 136, 0x04, 32, 1]);
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
                if let Ok(Encoded::Private(key)) = decoded(&garbled) {
                    let _ = Forms::from_octets(Inside::Choice, &key.octets);
                }
            }
        }
    }

    /// A file that says itself how long it takes to open must not decide that it takes for ever, nor
    /// how much memory it takes.
    #[test]
    fn costs_that_no_program_writes_are_refused_before_they_are_paid() {
        use pkcs8::pkcs5::pbes2::{EncryptionScheme, Kdf, Parameters, ScryptParams};
        let file = |kdf: Kdf<'_>| {
            let encryption = EncryptionScheme::Aes256Cbc { iv: &[0; 16] };
            let parameters = Parameters { kdf, encryption };
            let encryption_algorithm = pkcs8::pkcs5::EncryptionScheme::Pbes2(parameters);
            EncryptedPrivateKeyInfo { encryption_algorithm, encrypted_data: &[0; 32] }.to_der()
        };
        let opened = |kdf| match decode::<()>(&file(kdf).unwrap(), || Ok(Vec::new().into())) {
            Ok(Err(reason)) => reason,
            _ => panic!("opened"),
        };
        let scrypt = |cost_parameter, block_size, parallelization| {
            let salt = &[1; 8];
            let key_length = None;
            ScryptParams { salt, cost_parameter, block_size, parallelization, key_length }.into()
        };
        for costs in [(0, 8, 1), (1, 8, 1), (1 << 30, 8, 1), (1 << 63, 8, 1), (1 << 14, 8, 17)] {
            let reason = opened(scrypt(costs.0, costs.1, costs.2));
            assert!(reason.contains("scrypt with N = "), "{costs:?}: {reason}");
        }
        assert!(opened(scrypt(1 << 10, 8, 1)).contains("does not open"));
        let pbkdf2 = |iteration_count| {
            let salt = &[1; 8];
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
    fn other_blocks_are_skipped_and_named() {
        let key = encode_public(FORM, &[3; 50], false).unwrap();
        let other = b"text\n-----BEGIN EC PARAMETERS-----\nAAAA\n-----END EC PARAMETERS-----\n";
        let both = [&other[..], &key].concat();
        assert!(matches!(decoded(&both), Ok(Encoded::Public(_))));
        let error = decoded(other).err().unwrap();
        assert!(error.contains("EC PARAMETERS"), "{error}");
    }

    #[test]
    fn lines_of_any_length_are_read() {
        let key = String::from_utf8(encode_public(FORM, &[3; 50], false).unwrap()).unwrap();
        let (begin, rest) = key.split_once('\n').unwrap();
        let (body, end) = rest.split_once("-----END").unwrap();
        let one_line = format!("{begin}\r\n{}\r\n-----END{end}", body.replace('\n', ""));
        assert!(matches!(decoded(one_line.as_bytes()), Ok(Encoded::Public(_))));
    }
}
