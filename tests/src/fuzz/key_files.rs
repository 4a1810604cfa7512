//! Key files as the command line reads them: PEM and DER of PKCS#8, SubjectPublicKeyInfo and
//! certificates.

use gabion_cli::keys;
use gabion_cli::keys::der::{self, EncodedKey, Forms};
use gabion_engine::keys::{Key, PrivateKey};
use gabion_engine::{Algorithm, Kind, key_file};
use zeroize::Zeroizing;

use super::fixtures::{self, engine};

/// The password that encrypted seeds open with.
const PASSWORD: &[u8] = b"gabion";

/// An Ed25519 key encrypted with [`PASSWORD`] as `openssl pkcs8 -topk8` does it: PBKDF2, scrypt.
const ENCRYPTED: [&str; 2] = [
    "\
30819a305606092a864886f70d01050d3049302806092a864886f70d01050c301b04085cce0dee0c93ac21020101300c\
06082a864886f70d02090500301d06096086480165030401020410cdb7bf1e45c6173174c20fe45aecd34f0440d114b5\
29340d0bbd44c34ca77d21fc4613423e270d709682aa67a133631cccf7bd555d1c2e8e544d0663871624da81745d36ae\
ff1764b5e172ba5b2b79d35988",
    "\
308192304e06092a864886f70d01050d3041302006092b06010401da47040b301304086f10425c89c39e6d0201020201\
01020101301d060960864801650304012a041035c080923199eeb3db04554d2bd8455b0440a8c06ca3c82a3f695d6991\
f209ff6e354db857d9dcd977f05355f12e777827be814ee95f5eb9b11259995f87460525ee7cd7b93899f8bbf9a4f7d6\
c962393f2b",
];

/// Algorithms of every form of file that takes microseconds to use.
const CHOICES: [Algorithm; 9] = [
    Algorithm::MlKem512,
    Algorithm::MlDsa44,
    Algorithm::SlhDsaShake128f,
    Algorithm::Ed25519,
    Algorithm::X25519,
    Algorithm::EcdhP256,
    Algorithm::FnDsa512,
    Algorithm::Falcon512,
    Algorithm::Hss,
];

/// A public and a private key in every form, as PEM and as DER; something encrypted.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = ENCRYPTED.map(crate::vectors::unhex).to_vec();
    for algorithm in CHOICES {
        let known = fixtures::of(algorithm);
        let Ok(form) = keys::file_form(algorithm) else { continue };
        let seed = (!known.seed.is_empty()).then_some(&known.seed[..]);
        let (expanded, public) = (Some(&known.private[..]), Some(&known.public[..]));
        for as_der in [false, true] {
            seeds.push(der::encode_public(form, &known.public, as_der).expect("it encodes"));
            if algorithm == Algorithm::Hss {
                // The encodings from before RFC 9802, and no private key.
                let old = fixtures::old_hss(&known.public);
                seeds.extend(
                    old.map(|old| der::encode_public(form, &old, as_der).expect("it does")),
                );
                continue;
            }
            for (seed, expanded) in [(seed, None), (None, expanded), (seed, expanded)] {
                let file = der::encode_private(form, &Forms { seed, expanded, public }, as_der);
                seeds.push(file.expect("it encodes").to_vec());
            }
        }
    }
    seeds
}

/// A file is refused with a reason, or gives a key that is written to a file that gives it again.
pub fn run(data: &[u8]) {
    let Ok(first) = decode(data) else { return };
    for kind in [Kind::Kem, Kind::Signature, Kind::KeyExchange] {
        let Ok(Some(algorithm)) = keys::of_identifier(first.identifier(), kind) else { continue };
        let Ok(key) = key_file::decode(engine(), algorithm, &first) else { continue };
        assert_eq!(key.algorithm(), algorithm);
        same(&first, &key);
        let form = keys::file_form(algorithm).expect("it came out of a file");
        for as_der in [false, true] {
            let file = match &key {
                Key::Private(key) => {
                    der::encode_private(form, &key.forms(), as_der).map(|file| file.to_vec())
                }
                Key::Public(key) => der::encode_public(form, key.bytes(), as_der),
            };
            let again = decode(&file.expect("what was read can be written"));
            let again = again.expect("what was written can be read");
            let again = key_file::decode(engine(), algorithm, &again).expect("and is a key");
            assert_eq!(again.public_bytes(), key.public_bytes(), "{algorithm}: another key");
            match [&key, &again].map(|key| key.private().map(PrivateKey::forms)) {
                [Some(one), Some(two)] => {
                    assert_eq!((one.seed, one.expanded), (two.seed, two.expanded), "{algorithm}");
                }
                [one, two] => assert!(one.is_none() && two.is_none(), "{algorithm}"),
            }
        }
    }
}

fn decode(bytes: &[u8]) -> Result<EncodedKey, String> {
    let password = || Ok::<_, String>(Zeroizing::new(PASSWORD.to_vec()));
    der::decode(bytes, der::Half::Public, password).and_then(|inner| inner)
}

/// The key has the bytes that stand in the file.
fn same(encoded: &EncodedKey, key: &Key) {
    let algorithm = key.algorithm();
    match encoded {
        // An HSS public key may be in an OCTET STRING, and may lack the first word.
        EncodedKey::Public(file) if algorithm == Algorithm::Hss => {
            assert!(file.bytes.ends_with(&key.public_bytes()[4..]), "{algorithm}");
        }
        EncodedKey::Public(file) => assert_eq!(key.public_bytes(), file.bytes, "{algorithm}"),
        EncodedKey::Private(file) => {
            let forms = key.private().expect("a private key").forms();
            let form = keys::file_form(algorithm).expect("it came out of a file");
            let given = Forms::from_octets(form.octet_form, &file.octets).expect("it was decoded");
            assert!(given.seed.is_none_or(|seed| forms.seed == Some(seed)), "another seed");
            let is_same = given.expanded.is_none_or(|bytes| forms.expanded == Some(bytes));
            assert!(is_same, "{algorithm}: another key");
        }
    }
}
