//! The fn-dsa crates: 0.4 has the draft of FN-DSA, 0.3 also Falcon of round 3, padded.

use crate::peer::{Error, Result, Signer};

const NAME: &str = "fn-dsa";

/// Randomness that costs less than the operating system's, which no row is about.
struct Stream(u64);

impl fn_dsa::CryptoRng for Stream {}

impl fn_dsa::RngCore for Stream {
    fn next_u32(&mut self) -> u32 {
        self.next_u64() as u32
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        self.fill_bytes(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(32) {
            self.0 += 1;
            let drawn: [u8; 32] = gabion_rows::inputs::bytes(40, self.0);
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }

    fn try_fill_bytes(&mut self, out: &mut [u8]) -> std::result::Result<(), fn_dsa::RngError> {
        self.fill_bytes(out);
        Ok(())
    }
}

fn failed(call: &'static str) -> Error {
    Error::Call { peer: NAME, call, detail: "refused its own key".to_owned() }
}

/// The slot for one version of the crate. Key generation ends with the encoded pair; the form that
/// signs is made by the first signature, as the form that verifies is by the first verification.
macro_rules! version {
    ($slot:ident, $library:ident, $hash:ident, $outcome:expr) => {
        struct $slot<G, S, V> {
            log_n: u32,
            random: Stream,
            generator: Box<G>,
            private: Vec<u8>,
            public: Vec<u8>,
            signing: Option<Box<S>>,
            verifying: Option<Box<V>>,
        }

        impl<G, S, V> $slot<G, S, V>
        where
            G: $library::KeyPairGenerator + 'static,
            S: $library::SigningKey + 'static,
            V: $library::VerifyingKey + 'static,
        {
            fn make(log_n: u32) -> Result<Option<Box<dyn Signer>>> {
                let mut slot = $slot::<G, S, V> {
                    log_n,
                    random: Stream(0),
                    generator: Box::default(),
                    private: vec![0; $library::sign_key_size(log_n)],
                    public: vec![0; $library::vrfy_key_size(log_n)],
                    signing: None,
                    verifying: None,
                };
                slot.keygen()?;
                Ok(Some(Box::new(slot)))
            }
        }

        impl<G, S, V> Signer for $slot<G, S, V>
        where
            G: $library::KeyPairGenerator,
            S: $library::SigningKey,
            V: $library::VerifyingKey,
        {
            fn keygen(&mut self) -> Result<()> {
                let (private, public) = (&mut self.private, &mut self.public);
                self.generator.keygen(self.log_n, &mut self.random, private, public);
                (self.signing, self.verifying) = (None, None);
                Ok(())
            }

            fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
                let key = match &mut self.signing {
                    Some(key) => key,
                    none => {
                        let key = S::decode(&self.private).ok_or(failed("SigningKey::decode"))?;
                        none.insert(Box::new(key))
                    }
                };
                let mut signature = vec![0; $library::signature_size(self.log_n)];
                let (none, hash) = ($library::DOMAIN_NONE, $library::$hash);
                let signed = key.sign(&mut self.random, &none, &hash, message, &mut signature);
                let signed: Option<()> = $outcome(signed);
                signed.ok_or(failed("SigningKey::sign"))?;
                Ok(signature)
            }

            fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
                let key = match &mut self.verifying {
                    Some(key) => key,
                    none => {
                        let key = V::decode(&self.public).ok_or(failed("VerifyingKey::decode"))?;
                        none.insert(Box::new(key))
                    }
                };
                Ok(key.verify(signature, &$library::DOMAIN_NONE, &$library::$hash, message))
            }
        }
    };
}

version!(Draft, fn_dsa, HASH_ID_RAW, std::convert::identity);
version!(Round3, falcon, HASH_ID_ORIGINAL_FALCON, Some);

type Draft512 = Draft<fn_dsa::KeyPairGenerator512, fn_dsa::SigningKey512, fn_dsa::VerifyingKey512>;
type Draft1024 =
    Draft<fn_dsa::KeyPairGenerator1024, fn_dsa::SigningKey1024, fn_dsa::VerifyingKey1024>;
type Round3512 =
    Round3<falcon::KeyPairGenerator512, falcon::SigningKey512, falcon::VerifyingKey512>;
type Round31024 =
    Round3<falcon::KeyPairGenerator1024, falcon::SigningKey1024, falcon::VerifyingKey1024>;

/// FN-DSA as drafted, by version 0.4.
pub fn draft(name: &str) -> Result<Option<Box<dyn Signer>>> {
    match name {
        "FN-DSA-512-draft" => Draft512::make(fn_dsa::FN_DSA_LOGN_512),
        "FN-DSA-1024-draft" => Draft1024::make(fn_dsa::FN_DSA_LOGN_1024),
        _ => Ok(None),
    }
}

/// Falcon of round 3 by version 0.3, which writes and reads the padded form alone.
pub fn round3(name: &str) -> Result<Option<Box<dyn Signer>>> {
    match name {
        "Falcon-padded-512" => Round3512::make(falcon::FN_DSA_LOGN_512),
        "Falcon-padded-1024" => Round31024::make(falcon::FN_DSA_LOGN_1024),
        _ => Ok(None),
    }
}
