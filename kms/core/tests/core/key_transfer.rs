//! Keys that come and go wrapped.

use gabion_engine::{Algorithm, Engine, OsEntropy};
use gabion_kms::model::{Label, Origin, VersionId};
use gabion_kms::operations::{Import, Kms, NewKey};
use gabion_kms::rsa::{self, Hash};
use gabion_kms::transport::{
    Form, KEY_MAX, Place, Recipient, WrapMethod, Wrapper, open_by_rsa, open_by_x_wing,
};
use gabion_kms::{Code, Error};

use crate::verbs::{create, label, pure};

fn new(name: &str, algorithm: &str) -> NewKey {
    let [tenant, purpose, name] = ["default", "transit", name].map(label);
    NewKey { tenant, purpose, name, algorithm: algorithm.parse().unwrap() }
}

fn by_x_wing(form: Form, wrapped: &[u8]) -> Import<'_> {
    Import::Wrapped { wrapping: WrapMethod::XWing, form, wrapped }
}

fn code<T>(result: Result<T, Error>) -> Code {
    result.err().unwrap().code()
}

/// A key that may be exported.
fn exportable(kms: &Kms, name: &str, algorithm: &str) -> VersionId {
    let id = create(kms, name, algorithm);
    kms.allow_export(&id.key).unwrap();
    id
}

#[test]
fn a_key_moves_from_service_to_service_under_its_name() {
    let (here, there) = (Kms::in_memory().unwrap(), Kms::in_memory().unwrap());
    let to = there.wrapping_key(Wrapper::XWing).unwrap();
    for (name, form) in [
        ("ed25519", Form::Raw),
        ("ed25519", Form::Pkcs8),
        ("ml-dsa-87", Form::Pkcs8),
        ("ml-kem-768", Form::Raw),
        ("xaes-256-gcm", Form::Raw),
        ("hmac-sha-256", Form::Raw),
    ] {
        let algorithm = name.parse().unwrap();
        assert_eq!(Form::usual(algorithm) == Form::Raw, algorithm.symmetric().is_some());
        let name = &format!("{name}.{}", form.as_str());
        let id = create(&here, name, &algorithm.to_string());
        assert_eq!(code(here.export_wrapped(&id, form, &to)), Code::NotExportable);
        here.allow_export(&id.key).unwrap();
        let wrapped = here.export_wrapped(&id, form, &to).unwrap();
        let what = new(name, &algorithm.to_string());
        // Under another name, for another tenant, as another form or algorithm it does not unwrap.
        let others = [
            (NewKey { name: label("other"), ..what.clone() }, form),
            (NewKey { tenant: label("other"), ..what.clone() }, form),
            (NewKey { algorithm: "ml-dsa-44".parse().unwrap(), ..what.clone() }, form),
            (what.clone(), if form == Form::Raw { Form::Pkcs8 } else { Form::Raw }),
        ];
        for (other, form) in others {
            assert_eq!(code(there.import(&other, by_x_wing(form, &wrapped))), Code::DecryptFailed);
        }
        // A damaged wrapped key is rejected.
        for place in [0, 1000, 1119, 1120, wrapped.len() - 1] {
            let mut damaged = wrapped.clone();
            damaged[place] ^= 1;
            assert_eq!(code(there.import(&what, by_x_wing(form, &damaged))), Code::DecryptFailed);
        }
        let moved = there.import(&what, by_x_wing(form, &wrapped)).unwrap();
        assert_eq!(there.describe(&moved.key).unwrap().origin, Origin::Imported);
        there.allow_export(&moved.key).unwrap();
        assert_eq!(there.export(&moved, Form::Raw).unwrap(), here.export(&id, Form::Raw).unwrap());
        // The sender can't read it.
        here.delete(&id.key).unwrap();
        here.destroy(&id.key).unwrap();
        assert_eq!(code(here.import(&what, by_x_wing(form, &wrapped))), Code::DecryptFailed);
    }
}

#[test]
fn versions_come_wrapped_too_and_fixed_keys_take_no_others() {
    let kms = Kms::in_memory().unwrap();
    let engine = Engine::global().unwrap();
    let to = kms.wrapping_key(Wrapper::XWing).unwrap();
    let (tenant, name) = (label("default"), label("a"));
    let algorithm = "ed25519".parse().unwrap();
    let place = Place { tenant: &tenant, name: &name, algorithm, form: Form::Raw };
    let wrapped = |byte: u8| to.wrap(engine, &place, &[byte; 32]).unwrap();
    let import = wrapped(1);
    let first = kms.import_as(&new("a", "ed25519"), by_x_wing(Form::Raw, &import), false).unwrap();
    assert_eq!(kms.describe(&first.key).unwrap().origin, Origin::Fixed);
    assert_eq!(code(kms.rotate(&first.key)), Code::Unsupported);
    let import = wrapped(2);
    let second = kms.import_version(&first.key, by_x_wing(Form::Raw, &import)).unwrap();
    assert_eq!(second.version, 2);
    let signed = kms.sign(&first.key, None, pure(b"m")).unwrap();
    assert_eq!(kms.verify(&second, pure(b"m"), &signed.signature), Ok(true));
    // The first one again.
    let again = wrapped(1);
    assert_eq!(code(kms.import_version(&first.key, by_x_wing(Form::Raw, &again))), Code::Exists);
    // Wrapped data that unwraps but is not a valid key.
    let short = to.wrap(engine, &place, &[1; 31]).unwrap();
    assert_eq!(
        code(kms.import_version(&first.key, by_x_wing(Form::Raw, &short))),
        Code::BadRequest
    );
    let empty = to.wrap(engine, &place, b"").unwrap();
    assert_eq!(
        code(kms.import_version(&first.key, by_x_wing(Form::Raw, &empty))),
        Code::BadRequest
    );
    assert_eq!(code(to.wrap(engine, &place, &vec![0; KEY_MAX + 1])), Code::TooLarge);
}

#[test]
fn recipients_are_public_keys_of_x_wing_or_rsa() {
    let kms = Kms::in_memory().unwrap();
    let engine = Engine::global().unwrap();
    let id = exportable(&kms, "a", "hmac-sha-256");
    let raw = kms.export(&id, Form::Raw).unwrap();
    let (tenant, name) = (label("default"), label("a"));
    let place =
        Place { tenant: &tenant, name: &name, algorithm: id.key.algorithm, form: Form::Raw };

    let pair = engine.kem_generate(Algorithm::XWing, &OsEntropy).unwrap();
    let spki = Recipient::of_x_wing(pair.public()).unwrap().spki().to_vec();
    let to = Recipient::of_spki(engine, &spki).unwrap();
    assert_eq!((to.spki(), to.wrapping()), (&spki[..], WrapMethod::XWing));
    let wrapped = kms.export_wrapped(&id, Form::Raw, &to).unwrap();
    assert_eq!(open_by_x_wing(engine, &pair, &place.info(), &wrapped).unwrap(), raw);

    let pair = rsa::PrivateKey::testing_only_of_seed(2048, [5; 32]).unwrap();
    let spki = pair.public().spki().unwrap();
    let to = Recipient::of_spki(engine, &spki).unwrap();
    assert_eq!((to.spki(), to.wrapping()), (&spki[..], WrapMethod::RsaOaep(Hash::Sha256)));
    assert!(to.pem().contains("BEGIN PUBLIC KEY") && to.pem() == pair.public().pem().unwrap());
    let wrapped = kms.export_wrapped(&id, Form::Raw, &to).unwrap();
    assert_eq!(open_by_rsa(&pair, Hash::Sha256, &wrapped).unwrap(), raw);

    for der in [&b""[..], b"0", &spki[..spki.len() - 1], &spki[1..], &pair.pkcs8().unwrap()] {
        let refused = Recipient::of_spki(engine, der);
        assert_eq!(code(refused.map(|_| ())), Code::BadRequest);
    }
    let other = create(&kms, "b", "ml-kem-768");
    let public = kms.publics(&other.key, 0, 1).unwrap()[0].bytes.clone();
    assert_eq!(code(Recipient::of_spki(engine, &public).map(|_| ())), Code::BadRequest);
}

#[test]
fn vaults_form_is_imported() {
    let kms = Kms::in_memory().unwrap();
    let engine = Engine::global().unwrap();
    let to = kms.wrapping_key(Wrapper::Rsa).unwrap();
    assert_eq!(to.spki(), kms.wrapping_key(Wrapper::Rsa).unwrap().spki());
    let (tenant, name): (Label, Label) = (label("any"), label("any"));
    let algorithm = "aes256-gcm96".parse().unwrap();
    let place = Place { tenant: &tenant, name: &name, algorithm, form: Form::Raw };
    let wrapped = to.wrap(engine, &place, &[9; 32]).unwrap();
    assert_eq!(wrapped.len(), 512 + 40);
    let import = |hash, wrapped| Import::Wrapped {
        wrapping: WrapMethod::RsaOaep(hash),
        form: Form::Raw,
        wrapped,
    };
    let what = new("a", "aes256-gcm96");
    assert_eq!(code(kms.import(&what, import(Hash::Sha512, &wrapped))), Code::DecryptFailed);
    assert_eq!(code(kms.import(&what, import(Hash::Sha256, &wrapped[1..]))), Code::DecryptFailed);
    let id = kms.import(&what, import(Hash::Sha256, &wrapped)).unwrap();
    kms.allow_export(&id.key).unwrap();
    assert_eq!(*kms.export(&id, Form::Raw).unwrap(), [9; 32]);
}

/// Generating an RSA key of 4096 bits takes seconds: an import cannot trigger that, because no key
/// can have been wrapped for a missing key.
#[test]
fn import_without_a_wrapping_key_generates_none() {
    let kms = Kms::in_memory().unwrap();
    let what = new("k", "xaes-256-gcm");
    for hash in Hash::ALL {
        let wrapped = Import::Wrapped {
            wrapping: WrapMethod::RsaOaep(hash),
            form: Form::Raw,
            wrapped: &[7; 552],
        };
        assert_eq!(code(kms.import(&what, wrapped)), Code::DecryptFailed);
    }
    assert!(kms.made_rsa_wrapping_key().unwrap().is_none());
    let small = rsa::PrivateKey::testing_only_of_seed(2048, [5; 32]).unwrap();
    assert_eq!(code(kms.keep_wrapping_key(&small)), Code::BadRequest);
    assert!(kms.made_rsa_wrapping_key().unwrap().is_none());
    // One that was made aside is the service's, and stays so.
    let pair = rsa::PrivateKey::testing_only_of_seed(4096, [6; 32]).unwrap();
    kms.keep_wrapping_key(&pair).unwrap();
    let kept = kms.made_rsa_wrapping_key().unwrap().unwrap();
    assert_eq!(kept.spki(), Recipient::of_rsa(pair.public().clone()).unwrap().spki());
    assert_eq!(kms.wrapping_key(Wrapper::Rsa).unwrap().spki(), kept.spki());
}
