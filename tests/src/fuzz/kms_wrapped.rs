//! Keys that come to the key management service wrapped, and for whom they are wrapped: what strangers bring.
//!
//! The first byte says which.

use std::sync::OnceLock;

use gabion_engine::{Algorithm, Engine, KemPrivateKey};
use gabion_kms::Error;
use gabion_kms::model::Label;
use gabion_kms::rsa::{Hash, PrivateKey, PublicKey};
use gabion_kms::transport::{Form, Place, Recipient, WrapMethod, open_by_rsa, open_by_x_wing};

/// Two services, always the same.
struct Services {
    engine: &'static Engine,
    x_wing: KemPrivateKey,
    rsa: PrivateKey,
    /// The context of the wrapped key.
    info: Vec<u8>,
}

fn services() -> &'static Services {
    static SERVICES: OnceLock<Services> = OnceLock::new();
    SERVICES.get_or_init(|| {
        let engine = Engine::global().unwrap();
        Services {
            engine,
            x_wing: engine.kem_from_seed(Algorithm::XWing, &[7; 32]).unwrap(),
            rsa: PrivateKey::testing_only_of_seed(2048, [7; 32]).unwrap(),
            info: placed(|place| place.info()),
        }
    })
}

/// Does something with a place, always the same.
fn placed<T>(run: impl FnOnce(&Place<'_>) -> T) -> T {
    let [tenant, name] = ["default", "k"].map(|text| Label::new("key", text).unwrap());
    let algorithm = "ed25519".parse().unwrap();
    run(&Place { tenant: &tenant, name: &name, algorithm, form: Form::Raw })
}

/// Bytes of the keys that are wrapped: none that a fuzzer guesses.
const KEY: [u8; 32] = [0xa7; 32];

pub fn run(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    let Services { engine, x_wing, rsa, info } = services();
    match which % 6 {
        0 => unwrapped(open_by_x_wing(engine, x_wing, info, bytes)),
        1 => unwrapped(open_by_rsa(rsa, Hash::Sha256, bytes)),
        2 => recipient(engine, bytes),
        3 => private(bytes),
        4 => public(bytes),
        _ => words(bytes),
    }
}

/// All failures give one error. Wrapping is impossible without one of the seeds.
fn unwrapped(opened: Result<zeroize::Zeroizing<Vec<u8>>, Error>) {
    match opened {
        Ok(key) => assert_eq!(*key, KEY),
        Err(error) => assert_eq!(error, Error::DecryptFailed),
    }
}

/// A parsed recipient encodes to the same bytes, and a key can be wrapped for it.
fn recipient(engine: &Engine, der: &[u8]) {
    let Ok(recipient) = Recipient::of_spki(engine, der) else { return };
    assert_eq!(recipient.spki(), der);
    let wrapped = placed(|place| recipient.wrap(engine, place, &KEY)).unwrap();
    assert!(wrapped.len() > KEY.len());
}

fn private(der: &[u8]) {
    let Ok(pair) = PrivateKey::of_pkcs8(2048, der) else { return };
    let again = PrivateKey::of_pkcs1(2048, pair.bytes()).unwrap();
    assert_eq!(again.public().bytes(), pair.public().bytes());
}

fn public(der: &[u8]) {
    if let Ok(key) = PublicKey::of_spki(der) {
        assert_eq!(key.spki().unwrap(), der);
    }
    if let Ok(key) = PublicKey::of_pkcs1(der) {
        assert_eq!(key.bytes(), der);
    }
}

fn words(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(wrapping) = text.parse::<WrapMethod>() {
        assert_eq!(wrapping.to_string(), text);
    }
    if let Ok(form) = text.parse::<Form>() {
        assert_eq!(form.as_str(), text);
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let Services { engine, x_wing, rsa, .. } = services();
    let to = Recipient::of_x_wing(x_wing.public()).unwrap();
    let by_rsa = Recipient::of_rsa(rsa.public().clone()).unwrap();
    let of = |which: u8, bytes: &[u8]| [&[which], bytes].concat();
    vec![
        of(0, &placed(|place| to.wrap(engine, place, &KEY)).unwrap()),
        of(1, &placed(|place| by_rsa.wrap(engine, place, &KEY)).unwrap()),
        of(2, to.spki()),
        of(2, by_rsa.spki()),
        of(3, &rsa.pkcs8().unwrap()),
        of(4, by_rsa.spki()),
        of(4, rsa.public().bytes()),
        of(5, b"rsa-oaep-sha384"),
        of(5, b"pkcs8"),
    ]
}
