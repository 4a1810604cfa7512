//! OpenSSL's hybrid KEMs.
//!
//! Keys draw their randomness: there is no seed to give. The private keys of those with X25519 go in and
//! out as bytes; of those with a NIST curve the library neither exports nor imports them (its key
//! management reads the scalar as bytes where the curve's own has a number), so that these decapsulate
//! only with a key that was made in place.

use std::ffi::CStr;
use std::rc::Rc;

use super::{
    Context, Functions, Generator, NAME, PKey, decapsulate, decapsulating, encapsulate,
    encapsulating, loaded,
};
use crate::peer::{
    Encapsulation, Error, Form, Hybrid, HybridPair, HybridSet, Key, Operation, Randomness, Result,
};

/// The slot for a set; X-Wing the library does not have.
pub fn slot(functions: &Rc<Functions>, set: &'static HybridSet) -> Result<Option<Box<dyn Hybrid>>> {
    if set.form == Form::XWing {
        return Ok(None);
    }
    let generator = Generator::new(functions, set.name)?;
    Ok(Some(Box::new(EvpHybrid { set, generator, public: None, pair: None, private: None })))
}

struct EvpHybrid {
    set: &'static HybridSet,
    generator: Generator,
    public: Option<Context>,
    /// The pair that was made last, and once it has decapsulated the context for that.
    pair: Option<PKey>,
    private: Option<Context>,
}

impl EvpHybrid {
    fn has_private_bytes(&self) -> bool {
        self.set.exchange == "X25519"
    }

    fn encapsulate(&self, context: &Context) -> Result<Encapsulation> {
        let (mut ct, mut secret) = (vec![0; self.set.ct()], vec![0; self.set.secret()]);
        encapsulate(context, &mut ct, &mut secret)?;
        Ok((ct, secret))
    }

    fn decapsulate(&self, context: &Context, ct: &[u8]) -> Result<Vec<u8>> {
        let mut secret = vec![0; self.set.secret()];
        decapsulate(context, ct, &mut secret)?;
        Ok(secret)
    }
}

impl PKey {
    /// A parameter of the key, of which `length` bytes are expected.
    fn octets(&self, name: &CStr, length: usize) -> Result<Vec<u8>> {
        let (mut out, mut written) = (vec![0; length], 0);
        // SAFETY: the key is live, the name ends with a zero and the length is that of the buffer.
        let status = unsafe {
            (self.functions.get_octets)(
                self.key.as_ptr(),
                name.as_ptr(),
                out.as_mut_ptr(),
                length,
                &mut written,
            )
        };
        self.functions.check("EVP_PKEY_get_octet_string_param", status)?;
        super::filled("EVP_PKEY_get_octet_string_param", written, &out)?;
        Ok(out)
    }
}

impl Hybrid for EvpHybrid {
    fn source(&self) -> Randomness {
        Randomness::Drawn
    }

    fn does(&self, operation: Operation, key: Key) -> bool {
        match (operation, key) {
            (Operation::Keygen, key) => key == Key::Fresh,
            (Operation::Decaps, Key::Fresh) => self.has_private_bytes(),
            _ => true,
        }
    }

    fn keygen(&mut self, _seed: &[u8; 96]) -> Result<HybridPair> {
        let pair = self.generator.draw()?;
        let public = pair.octets(c"encoded-pub-key", self.set.public())?;
        let private = match self.has_private_bytes() {
            true => Some(pair.octets(c"priv", self.set.private())?),
            false => None,
        };
        (self.pair, self.private) = (Some(pair), None);
        Ok(HybridPair { public, private })
    }

    fn load(&mut self, public: &[u8]) -> Result<()> {
        self.public = Some(encapsulating(self.generator.import(true, public)?)?);
        Ok(())
    }

    fn encaps_fresh(&mut self, public: &[u8], _m: &[u8; 64]) -> Result<Encapsulation> {
        self.encapsulate(&encapsulating(self.generator.import(true, public)?)?)
    }

    fn encaps_cached(&mut self, _m: &[u8; 64]) -> Result<Encapsulation> {
        self.encapsulate(loaded(&self.public)?)
    }

    fn decaps_fresh(&mut self, private: &[u8], ct: &[u8]) -> Result<Vec<u8>> {
        self.decapsulate(&decapsulating(self.generator.import(false, private)?)?, ct)
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Vec<u8>> {
        if self.private.is_none() {
            let detail = "no pair was made".to_owned();
            let none = Error::Call { peer: NAME, call: "EVP_PKEY_decapsulate_init", detail };
            let pair = self.pair.as_ref().ok_or(none)?;
            self.private = Some(decapsulating(pair.context()?)?);
        }
        self.decapsulate(loaded(&self.private)?, ct)
    }
}
