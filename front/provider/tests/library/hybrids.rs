//! The engine's TLS hybrids against OpenSSL's own: what ours encapsulates, theirs opens.

use gabion_engine::{Algorithm, Engine, OsEntropy};
use gabion_provider_testing::STOCK;
use gabion_provider_testing::libcrypto::{Context, Libcrypto, Params};

#[test]
fn hybrids_agree_with_those_of_openssl() {
    let lib: &'static Libcrypto =
        Box::leak(Box::new(Libcrypto::load(&gabion_provider_testing::prefix())));
    let stock = Context::bare(lib);
    let engine = Engine::global().unwrap();
    for algorithm in
        [Algorithm::X25519MlKem768, Algorithm::SecP256r1MlKem768, Algorithm::SecP384r1MlKem1024]
    {
        let (name, info) = (algorithm.name(), algorithm.info());
        // To theirs, of which libcrypto hands out the public half only.
        let theirs = stock.generate(name, STOCK, &Params::default()).expect("they make a key");
        let public = theirs.part("encoded-pub-key").expect("a public key");
        let public = engine.kem_public(algorithm, &public).unwrap();
        let (ct, shared) = engine.encaps(&public, &OsEntropy).unwrap();
        let opened = theirs.decapsulate(STOCK, &ct).expect("they decapsulate");
        assert_eq!((&opened[..], opened.len()), (&shared[..], info.shared_secret), "{name}");
    }
}
