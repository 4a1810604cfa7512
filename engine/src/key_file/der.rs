//! Converts between the DER of a key and its contents, independent of the algorithm.
//!
//! ```text
//!   DER ─┬─ PKCS#8 (RFC 5958)                   -> Private
//!        ├─ ECPrivateKey alone (RFC 5915)       -> Private
//!        ├─ SubjectPublicKeyInfo (RFC 5280)     -> Public
//!        ├─ X.509 certificate (RFC 5280)        -> the Public inside
//!        └─ EncryptedPrivateKeyInfo (RFC 5958)  -> none here: it needs a password
//! ```

use pkcs8::der::asn1::{AnyRef, BitStringRef, ContextSpecific, ContextSpecificRef, OctetStringRef};
use pkcs8::der::{
    Decode, Encode, ErrorKind, Reader, SecretDocument, SliceReader, Tag, TagMode, TagNumber,
    Tagged, asn1::UintRef, pem,
};
use pkcs8::spki::{AlgorithmIdentifierRef, SubjectPublicKeyInfoRef};
use pkcs8::{ObjectIdentifier, PrivateKeyInfoRef};
use zeroize::Zeroizing;

use crate::keys::Forms;

/// A key as a key file encodes it.
pub enum EncodedKey {
    /// A private key.
    Private(Private),
    /// A public key, or the one inside a certificate.
    Public(Public),
}

impl EncodedKey {
    /// Decodes a key that is not encrypted.
    ///
    /// # Errors
    /// Anything else, trailing bytes included.
    pub fn from_der(der: &[u8]) -> Result<Self, Reason> {
        match Shape::parse(der) {
            Some(Shape::Private) => Private::from_der(der).map(EncodedKey::Private),
            Some(Shape::EcPrivate) => decode_ec_private(der).map(EncodedKey::Private),
            Some(Shape::Public) => Public::from_der(der).map(EncodedKey::Public),
            Some(Shape::Certificate) => decode_certificate(der).map(EncodedKey::Public),
            Some(Shape::Encrypted) => Err("is encrypted".to_owned()),
            None if is_ber(der) => Err(BER.to_owned()),
            None => Err("holds no key; expected PEM or DER of a PKCS#8 private key, a \
                         SubjectPublicKeyInfo or an X.509 certificate"
                .to_owned()),
        }
    }

    /// Returns the identifier of the algorithm.
    pub fn identifier(&self) -> &Identifier {
        match self {
            EncodedKey::Private(key) => &key.identifier,
            EncodedKey::Public(key) => &key.identifier,
        }
    }
}

/// An AlgorithmIdentifier.
pub struct Identifier {
    /// The algorithm's object identifier, dotted.
    pub oid: String,
    /// The parameters of the identifier.
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
    /// The content of the OCTET STRING.
    pub octets: Zeroizing<Vec<u8>>,
    /// The public key in a version 2 structure.
    pub public: Option<Vec<u8>>,
}

/// A public key as SubjectPublicKeyInfo carries it.
pub struct Public {
    /// The algorithm.
    pub identifier: Identifier,
    /// The content of the BIT STRING.
    pub bytes: Vec<u8>,
    /// Whether it came out of a certificate.
    pub from_certificate: bool,
}

/// The structure inside the OCTET STRING of a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OctetForm {
    /// RFC 9881, section 6 and RFC 9935, section 6; its `expandedKey` is also the CurvePrivateKey
    /// of RFC 8410, section 7.
    ///
    /// ```text
    /// CHOICE { seed [0] OCTET STRING, expandedKey OCTET STRING, both SEQUENCE { seed, expandedKey } }
    /// ```
    Choice,
    /// The raw bytes of the private key (RFC 9909, section 6).
    Bytes,
    /// ECPrivateKey (RFC 5915) on a named curve, with the public key inside, as openssl writes.
    Curve(&'static str),
    /// An OCTET STRING of the private key, of so many bytes, and then the public one: the format of
    /// Open Quantum Safe's provider. The public key may be missing.
    WithPublic(usize),
}

/// The format of an algorithm's key files.
#[derive(Clone, Copy)]
pub struct FileForm {
    /// The algorithm's object identifier, dotted.
    pub oid: &'static str,
    /// The identifier in the parameters.
    pub parameters: Option<&'static str>,
    /// The structure inside the OCTET STRING of a private key.
    pub octet_form: OctetForm,
}

/// Why the bytes are not a key; completes the sentence "FILE ...".
pub type Reason = String;

/// The structure in the DER encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// PKCS#8 (RFC 5958).
    Private,
    /// ECPrivateKey (RFC 5915).
    EcPrivate,
    /// EncryptedPrivateKeyInfo (RFC 5958, section 3).
    Encrypted,
    /// SubjectPublicKeyInfo (RFC 5280).
    Public,
    /// A certificate (RFC 5280).
    Certificate,
}

impl Shape {
    /// Recognizes a structure by the tags of its first fields; `None` for others. Data after the
    /// structure is ignored here: decoding reports it.
    pub fn parse(der: &[u8]) -> Option<Shape> {
        let [first, second, third] = first_tags(der).ok()?;
        match (first?, second?, third) {
            (Tag::Integer, Tag::Sequence, _) => Some(Shape::Private),
            (Tag::Integer, Tag::OctetString, _) => Some(Shape::EcPrivate),
            (Tag::Sequence, Tag::OctetString, None) => Some(Shape::Encrypted),
            (Tag::Sequence, Tag::BitString, None) => Some(Shape::Public),
            (Tag::Sequence, Tag::Sequence, Some(Tag::BitString)) => Some(Shape::Certificate),
            _ => None,
        }
    }
}

/// The tags of the first three fields of a SEQUENCE, of those that there are.
fn first_tags(der: &[u8]) -> pkcs8::der::Result<[Option<Tag>; 3]> {
    let outer = AnyRef::decode(&mut SliceReader::new(der)?)?;
    if outer.tag() != Tag::Sequence {
        return Err(outer.tag().value_error().into());
    }
    let mut fields = SliceReader::new(outer.value())?;
    let mut tags = [None; 3];
    for tag in &mut tags {
        if fields.is_finished() {
            break;
        }
        *tag = Some(AnyRef::decode(&mut fields)?.tag());
    }
    Ok(tags)
}

/// Why a structure is not read that OpenSSL reads.
const BER: &str = "is BER, with lengths that DER does not have; expected DER: `openssl pkey -in OLD -out \
                   NEW`, with -pubin before a public key, writes it so";

/// Returns whether the lengths of a SEQUENCE, or of its first fields, are encoded as BER.
fn is_ber(der: &[u8]) -> bool {
    use ErrorKind::{IndefiniteLength, Length, Overlength};
    first_tags(der)
        .is_err_and(|cause| matches!(cause.kind(), IndefiniteLength | Overlength | Length { .. }))
}

/// Returns why a public key structure is invalid.
fn damaged(what: &str, cause: impl std::fmt::Display) -> Reason {
    format!("holds a damaged {what}: {cause}")
}

/// Returns why a private key structure is invalid. The error messages of the `der` crate are not
/// used: they quote the input, which may be the key.
fn damaged_private(cause: &pkcs8::der::Error) -> Reason {
    match cause.kind() {
        ErrorKind::Incomplete { .. } => "holds a private key that is cut short",
        ErrorKind::TrailingData { .. } => "holds bytes behind the private key; expected none",
        _ => "holds a damaged private key; expected DER of PKCS#8 (RFC 5958) or ECPrivateKey (RFC 5915)",
    }
    .to_owned()
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

impl Private {
    /// Decodes a PrivateKeyInfo or OneAsymmetricKey (RFC 5958, section 2).
    ///
    /// # Errors
    /// Any other structure, trailing bytes included.
    pub fn from_der(der: &[u8]) -> Result<Self, Reason> {
        let read = || AnyRef::from_der(der)?.sequence(Self::of_fields);
        read().map_err(|cause| damaged_private(&cause))
    }

    /// The fields of a OneAsymmetricKey. The `pkcs8` crate passes over attributes whatever they
    /// are, and refuses version 2 without a public key, which OpenSSL reads: RFC 5958 has it
    /// optional.
    fn of_fields<'a>(fields: &mut SliceReader<'a>) -> pkcs8::der::Result<Self> {
        let version = u8::decode(fields)?;
        let algorithm = AlgorithmIdentifierRef::decode(fields)?;
        let octets = <&OctetStringRef>::decode(fields)?.as_bytes();
        let is_next = |fields: &SliceReader<'a>, number| {
            let tag = Tag::peek(fields).ok();
            matches!(tag, Some(Tag::ContextSpecific { number: next, .. }) if next == number)
        };
        if is_next(fields, TagNumber(0)) {
            check_attributes(AnyRef::decode(fields)?)?;
        }
        let public = match is_next(fields, TagNumber(1)) {
            true => fields.context_specific::<BitStringRef<'a>>(TagNumber(1), TagMode::Implicit)?,
            false => None,
        };
        let bytes = public.map(|public| public.as_bytes());
        // A public key is what version 2 has more, and ends on a whole byte.
        if version > 1 || (version == 0 && public.is_some()) || bytes == Some(None) {
            return Err(Tag::Integer.value_error().into());
        }
        Ok(Private {
            identifier: identifier(&algorithm),
            octets: Zeroizing::new(octets.to_vec()),
            public: bytes.flatten().map(<[u8]>::to_vec),
        })
    }
}

/// Rejects anything but `[0] IMPLICIT SET OF Attribute` (RFC 5958, section 2): each an OID and a
/// SET of values. The order is not checked.
fn check_attributes(attributes: AnyRef<'_>) -> pkcs8::der::Result<()> {
    let expected = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
    attributes.tag().assert_eq(expected)?;
    let mut each = SliceReader::new(attributes.value())?;
    while !each.is_finished() {
        AnyRef::decode(&mut each)?.sequence(|fields| {
            fields.decode::<ObjectIdentifier>()?;
            let values: AnyRef<'_> = fields.decode()?;
            values.tag().assert_eq(Tag::Set)?;
            let mut values = SliceReader::new(values.value())?;
            while !values.is_finished() {
                AnyRef::decode(&mut values)?;
            }
            Ok::<(), pkcs8::der::Error>(())
        })?;
    }
    Ok(())
}

/// An ECPrivateKey that stands alone: `openssl pkey -outform DER` and `openssl ecparam` write it
/// so.
fn decode_ec_private(der: &[u8]) -> Result<Private, Reason> {
    let key = EcPrivateKey::from_der(der).map_err(|cause| damaged_private(&cause))?;
    let parameters = key.curve.map_or(Parameters::Absent, parameters);
    let identifier = Identifier { oid: EC_PUBLIC_KEY.to_owned(), parameters };
    Ok(Private { identifier, octets: Zeroizing::new(der.to_vec()), public: None })
}

impl Public {
    /// Decodes a SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7).
    ///
    /// # Errors
    /// Any other structure, trailing bytes included.
    pub fn from_der(der: &[u8]) -> Result<Self, Reason> {
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
}

/// The SubjectPublicKeyInfo of a certificate: the seventh field of its TBSCertificate, the sixth
/// when the version is left out (RFC 5280, section 4.1).
fn decode_certificate(der: &[u8]) -> Result<Public, Reason> {
    let find = || -> pkcs8::der::Result<Vec<u8>> {
        AnyRef::from_der(der)?.sequence(|certificate| {
            let tbs: AnyRef<'_> = certificate.decode()?;
            certificate.decode::<AnyRef<'_>>()?;
            certificate.decode::<AnyRef<'_>>()?;
            let mut fields = SliceReader::new(tbs.value())?;
            let first: AnyRef<'_> = fields.decode()?;
            let version = Tag::ContextSpecific { constructed: true, number: TagNumber(0) };
            let before = if first.tag() == version { 5 } else { 4 };
            for _ in 0..before {
                fields.decode::<AnyRef<'_>>()?;
            }
            fields.decode::<AnyRef<'_>>()?.to_der()
        })
    };
    let spki = find().map_err(|cause| damaged("certificate", cause))?;
    Ok(Public { from_certificate: true, ..Public::from_der(&spki)? })
}

impl<'a> Forms<'a> {
    /// Reads the content of a private key's OCTET STRING, in a format of the standard.
    ///
    /// # Errors
    /// Any other structure, including trailing bytes. The reason does not depend on the content.
    pub fn from_octets(octet_form: OctetForm, octets: &'a [u8]) -> Result<Self, Reason> {
        let (read, expected) = match octet_form {
            OctetForm::Bytes => return Ok(Forms { expanded: Some(octets), ..Forms::default() }),
            OctetForm::Choice => (
                read_choice(octets),
                "in none of the forms seed, expandedKey and both (RFC 9881, RFC 9935)",
            ),
            OctetForm::Curve(curve) => {
                (read_curve(octets, curve), "that is not an ECPrivateKey of its curve (RFC 5915)")
            }
            OctetForm::WithPublic(len) => {
                let read = <&OctetStringRef>::from_der(octets).map(|both| {
                    let (private, public) =
                        both.as_bytes().split_at_checked(len).unwrap_or((both.as_bytes(), &[]));
                    let public = (!public.is_empty()).then_some(public);
                    Some(Forms { seed: None, expanded: Some(private), public })
                });
                (read, "that is not an OCTET STRING of the private and the public key")
            }
        };
        read.ok().flatten().ok_or_else(|| format!("holds a private key {expected}"))
    }

    /// Encodes the content of the OCTET STRING, in the available formats.
    pub(super) fn to_octets(self, octet_form: OctetForm) -> pkcs8::der::Result<Zeroizing<Vec<u8>>> {
        let octets = |bytes| OctetStringRef::new(bytes)?.to_der().map(Zeroizing::new);
        let expanded = self.expanded.unwrap_or_default();
        match (octet_form, self.seed) {
            (OctetForm::Bytes, _) => Ok(Zeroizing::new(expanded.to_vec())),
            (OctetForm::Choice, None) => octets(expanded),
            (OctetForm::Choice, Some(seed)) if self.expanded.is_none() => {
                AnyRef::new(SEED_TAG, seed)?.to_der().map(Zeroizing::new)
            }
            (OctetForm::Choice, Some(seed)) => sequence(&[&octets(seed)?, &octets(expanded)?]),
            (OctetForm::Curve(_), _) => {
                let version = UintRef::new(&[1])?.to_der()?;
                let point = BitStringRef::from_bytes(self.public.unwrap_or_default())?;
                let (tag_number, tag_mode) = (TagNumber(1), TagMode::Explicit);
                let public = ContextSpecificRef { tag_number, tag_mode, value: &point }.to_der()?;
                sequence(&[&version, &octets(expanded)?, &public])
            }
            (OctetForm::WithPublic(_), _) => {
                let public = self.public.unwrap_or_default();
                octets(&Zeroizing::new([expanded, public].concat()))
            }
        }
    }
}

const SEED_TAG: Tag = Tag::ContextSpecific { constructed: false, number: TagNumber(0) };

/// A SEQUENCE of encoded fields, which may be secret.
fn sequence(fields: &[&[u8]]) -> pkcs8::der::Result<Zeroizing<Vec<u8>>> {
    let body = Zeroizing::new(fields.concat());
    AnyRef::new(Tag::Sequence, &body)?.to_der().map(Zeroizing::new)
}

/// [`OctetForm::Choice`].
fn read_choice(octets: &[u8]) -> pkcs8::der::Result<Option<Forms<'_>>> {
    let choice = AnyRef::from_der(octets)?;
    let forms = Forms::default();
    match choice.tag() {
        SEED_TAG => Ok(Some(Forms { seed: Some(choice.value()), ..forms })),
        Tag::OctetString => Ok(Some(Forms { expanded: Some(choice.value()), ..forms })),
        Tag::Sequence => choice.sequence(|both| {
            let seed = <&OctetStringRef>::decode(both)?;
            let expanded = <&OctetStringRef>::decode(both)?;
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
                return Err(Tag::Integer.value_error().into());
            }
            let scalar = <&OctetStringRef>::decode(fields)?.as_bytes();
            let curve = ContextSpecific::decode_explicit(fields, TagNumber(0))?;
            let public = ContextSpecific::decode_explicit(fields, TagNumber(1))?;
            let (curve, public) = (curve.map(|curve| curve.value), public.map(|it| it.value));
            Ok(EcPrivateKey { scalar, curve, public })
        })
    }
}

/// [`OctetForm::Curve`]; the curve is named elsewhere, and may be named here again.
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
) -> Result<Zeroizing<Vec<u8>>, Reason> {
    let encode = || {
        let octets = forms.to_octets(form.octet_form)?;
        let (oid, curve) = oids(form)?;
        let parameters = curve.as_ref().map(AnyRef::from);
        let algorithm = AlgorithmIdentifierRef { oid, parameters };
        let info = PrivateKeyInfoRef::new(algorithm, OctetStringRef::new(&octets)?);
        let document = SecretDocument::encode_msg(&info)?;
        if as_der {
            return Ok(document.to_bytes());
        }
        let text = document.to_pem("PRIVATE KEY", pem::LineEnding::LF)?;
        Ok(Zeroizing::new(text.as_bytes().to_vec()))
    };
    encode().map_err(|cause: pkcs8::der::Error| cause.to_string())
}

/// Encodes a public key as SubjectPublicKeyInfo, PEM unless `as_der`.
///
/// # Errors
/// A key too long for DER, which none is.
pub fn encode_public(form: FileForm, bytes: &[u8], as_der: bool) -> Result<Vec<u8>, Reason> {
    let encode = || {
        let subject_public_key = BitStringRef::from_bytes(bytes)?;
        let (oid, curve) = oids(form)?;
        let parameters = curve.as_ref().map(AnyRef::from);
        let algorithm = AlgorithmIdentifierRef { oid, parameters };
        let info = SubjectPublicKeyInfoRef { algorithm, subject_public_key };
        let document = pkcs8::Document::encode_msg(&info)?;
        if as_der {
            return Ok(document.into_vec());
        }
        Ok(document.to_pem("PUBLIC KEY", pem::LineEnding::LF)?.into_bytes())
    };
    encode().map_err(|cause: pkcs8::der::Error| cause.to_string())
}

/// Returns the identifiers of the algorithm and its curve. Without a curve, the parameters are
/// absent: RFC 8410, section 3, RFC 9881 and RFC 9935, section 2, RFC 9909, section 3.
fn oids(form: FileForm) -> pkcs8::der::Result<(ObjectIdentifier, Option<ObjectIdentifier>)> {
    let oid = |text| ObjectIdentifier::new(text).map_err(pkcs8::der::Error::from);
    Ok((oid(form.oid)?, form.parameters.map(oid).transpose()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OID: &str = "2.16.840.1.101.3.4.3.17";
    const FORM: FileForm = FileForm { oid: OID, parameters: None, octet_form: OctetForm::Choice };

    fn forms(seed: bool, expanded: bool) -> Forms<'static> {
        Forms {
            seed: seed.then_some(&[1; 32]),
            expanded: expanded.then_some(&[2; 100]),
            public: None,
        }
    }

    /// The tags of RFC 9881, appendix C: 80 20, 04 .., 30 .. 04 20.
    #[test]
    fn the_choice_has_the_tags_of_the_standard() {
        let octets = |seed, expanded| forms(seed, expanded).to_octets(OctetForm::Choice).unwrap();
        assert_eq!(octets(true, false)[..3], [0x80, 32, 1]);
        assert_eq!(octets(false, true)[..3], [0x04, 100, 2]);
        assert_eq!(octets(true, true)[..6], [0x30, 0x81, 136, 0x04, 32, 1]);
    }

    #[test]
    fn truncated_and_longer_structures_are_refused() {
        let private = encode_private(FORM, &forms(true, true), true).unwrap();
        let public = encode_public(FORM, &[3; 50], true).unwrap();
        for der in [&private[..], &public] {
            assert!(EncodedKey::from_der(der).is_ok());
            for len in 0..der.len() {
                assert!(EncodedKey::from_der(&der[..len]).is_err(), "{len} bytes");
            }
            assert!(EncodedKey::from_der(&[der, &[0]].concat()).is_err(), "trailing byte");
        }
    }
}
