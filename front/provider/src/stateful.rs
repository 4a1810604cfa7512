//! Keys that signing uses up: where an address leads, and how a message is signed with what is
//! there.
//!
//! ```text
//!   gabion-hbs:/path/key?reserve=8 --Address::read--> Address --open--> Opened { public key, Signer }
//!                                                                                 |
//!   signature context --sign(message)--> room on the stack --> index, signature
//! ```
//!
//! No index is in a signature context, which OpenSSL copies: it is taken in the key where a message
//! is signed. Handles of one key in one process share its state (`gabion_state`).

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use gabion_engine::keys::PublicKey;
use gabion_engine::keys::stateful::Request;
use gabion_engine::{Algorithm, Error, memory, with_room};
use gabion_state::{Encoding, Environment, KeyFile, SignerOptions};
use zeroize::Zeroizing;

use crate::core::engine;
use crate::error::Failure;
use crate::provider::Provider;

/// The scheme of addresses.
pub const SCHEME: &CStr = c"gabion-hbs";

/// The location of a key, and the reservation of its indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The file of the private key.
    pub key: PathBuf,
    /// The number of indexes that are reserved at once.
    pub reserve: u64,
    /// Whether so many are reserved even if the key can't spare them.
    pub reserve_anyway: bool,
}

impl Address {
    /// Reads `gabion-hbs:PATH[?reserve=N[&force=1]]`, or `gabion-hbs://PATH` where the path begins
    /// with a slash. Nothing in it is escaped, so that the first `?` ends PATH.
    ///
    /// # Errors
    /// Another form; a host.
    pub fn read(uri: &CStr) -> Result<Self, Failure> {
        const FORM: Failure = Failure::Misuse(
            "the address of a key has the form gabion-hbs:PATH, gabion-hbs:PATH?reserve=N or gabion-hbs:PATH?reserve=N&force=1, with N from 1 on",
        );
        const HOST: Failure = Failure::Misuse(
            "the address of a key names a host; keys are files of this one: gabion-hbs:/PATH or gabion-hbs:///PATH",
        );
        let (scheme, rest) = split_once(uri.to_bytes(), b':').ok_or(FORM)?;
        if !scheme.eq_ignore_ascii_case(SCHEME.to_bytes()) {
            return Err(FORM);
        }
        let rest = match rest.strip_prefix(b"//") {
            // The path of a file would go on with what the host's name was meant to be.
            Some(path) if !path.starts_with(b"/") => return Err(HOST),
            Some(path) => path,
            None => rest,
        };
        let (path, reserve, reserve_anyway) = match split_once(rest, b'?') {
            None => (rest, 1, false),
            Some((path, query)) => {
                let forced = query.strip_suffix(b"&force=1");
                let query = forced.unwrap_or(query);
                let number = query.strip_prefix(b"reserve=").and_then(|n| str::from_utf8(n).ok());
                // A sign would be read, too.
                let number = number.filter(|n| n.bytes().all(|byte| byte.is_ascii_digit()));
                let number = number.and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                (path, number.ok_or(FORM)?, forced.is_some())
            }
        };
        if path.is_empty() {
            return Err(FORM);
        }
        Ok(Address { key: PathBuf::from(OsStr::from_bytes(path)), reserve, reserve_anyway })
    }
}

fn split_once(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

/// An opened key.
pub struct OpenedKey {
    /// HSS, XMSS or XMSS^MT.
    pub algorithm: Algorithm,
    /// The public half.
    pub public: PublicKey,
    /// The signer; `None` if only the public key was requested.
    pub signer: Option<Arc<Signer>>,
}

/// A private key with its state, open for signing: with the lock on it that keeps other processes
/// out.
pub struct Signer {
    /// There until it is dropped.
    open: Option<gabion_state::Signer>,
    signature_len: usize,
    encoding: Encoding,
}

impl Signer {
    fn new(open: gabion_state::Signer) -> Self {
        let file = open.file();
        let (signature_len, encoding) = (file.sets().signature_len(Encoding::Hss), file.encoding());
        Signer { open: Some(open), signature_len, encoding }
    }

    /// Bytes of a signature, which of HSS carries Nspk, whatever encoding the key was made for (RFC
    /// 9802, section 4).
    pub fn signature_len(&self) -> usize {
        self.signature_len
    }

    /// Signs a message with a new index.
    ///
    /// # Errors
    /// The state is not safe or used up, or this process was forked from the one that opened the
    /// key. Then there is no signature.
    pub fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Failure> {
        memory::check()?;
        let open = self.open.as_ref().ok_or(Error::Lost)?;
        let request = [Request { message, id: None }];
        let signed = with_room(|| open.sign(&request)).map_err(Error::from)??;
        let signature = signed.into_iter().next().ok_or(Error::Lost)?.bytes;
        Ok(match self.encoding {
            Encoding::Hss => signature,
            // A lone tree's signature lacks the word that says so.
            Encoding::Lms => [&0u32.to_be_bytes()[..], &signature].concat(),
        })
    }
}

impl Drop for Signer {
    /// Writes trees and state, which takes as much stack as signing does. The key may be freed in
    /// an asynchronous job, or where a program ends.
    fn drop(&mut self) {
        let open = self.open.take();
        // Without memory for a stack it goes out of scope in there, and is closed on the caller's.
        let _ = with_room(move || drop(open));
    }
}

/// Opens the key at an address: for signing, or for its public half alone, which needs neither lock
/// nor password.
///
/// # Errors
/// There is no key, or it does not open with the password; its state is not safe to sign with, or
/// another process has it for longer than is waited.
pub fn open(
    provider: &Provider,
    address: &Address,
    is_public: bool,
    password: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, Failure>,
) -> Result<OpenedKey, Failure> {
    let engine = engine()?;
    let around = Environment::real();
    let file = KeyFile::read(&*around.disk, &address.key)?;
    let algorithm = file.sets().algorithm();
    let public = provider.public_keys.find(engine, algorithm, file.public())?;
    if is_public {
        return Ok(OpenedKey { algorithm, public, signer: None });
    }
    let password = if file.is_encrypted() { Some(password()?) } else { None };
    let password = password.as_deref().map(Vec::as_slice);
    let opening = SignerOptions {
        ahead: address.reserve,
        reserve_anyway: address.reserve_anyway,
        ..SignerOptions::default()
    };
    let opened = with_room(|| {
        gabion_state::Signer::from_file(&around, engine, &address.key, file, password, &opening)
    });
    let signer = opened.map_err(Error::from)??;
    Ok(OpenedKey { algorithm, public, signer: Some(Arc::new(Signer::new(signer))) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(uri: &CStr) -> Option<(PathBuf, u64)> {
        Address::read(uri).ok().map(|address| (address.key, address.reserve))
    }

    #[test]
    fn addresses_name_a_file_and_how_much_is_reserved() {
        for (uri, path, reserve) in [
            (c"gabion-hbs:/keys/k", "/keys/k", 1),
            (c"gabion-hbs:k", "k", 1),
            (c"gabion-hbs:../a:b c", "../a:b c", 1),
            (c"GABION-HBS:///keys/k?reserve=64", "/keys/k", 64),
            (c"gabion-hbs:////keys/k", "//keys/k", 1),
            (c"gabion-hbs:/keys//k", "/keys//k", 1),
            (c"gabion-hbs:k?reserve=1", "k", 1),
        ] {
            assert_eq!(read(uri), Some((PathBuf::from(path), reserve)), "{uri:?}");
        }
        for uri in [
            c"",
            c"k",
            c"gabion-hbs:",
            c"gabion-hbs:?reserve=1",
            c"gabion-kbs:k",
            c"gabion-hbs:k?",
            c"gabion-hbs:k?reserve",
            c"gabion-hbs:k?reserve=",
            c"gabion-hbs:k?reserve=0",
            c"gabion-hbs:k?reserve=-1",
            c"gabion-hbs:k?reserve=+1",
            c"gabion-hbs:k?reserve=18446744073709551616",
            c"gabion-hbs:k?reserve=1&reserve=2",
            c"gabion-hbs:k?wait=1",
            c"gabion-hbs:k?force=1",
            c"gabion-hbs:k?reserve=1&force=0",
            c"gabion-hbs:k?reserve=1&force=1&force=1",
            c"gabion-hbs:k?force=1&reserve=1",
            c"gabion-hbs://",
            c"gabion-hbs://host/keys/k",
            c"gabion-hbs://?reserve=1",
        ] {
            assert_eq!(read(uri), None, "{uri:?}");
        }
        let forced = Address::read(c"gabion-hbs:k?reserve=900&force=1").unwrap();
        assert!(forced.reserve_anyway && forced.reserve == 900);
        assert!(!Address::read(c"gabion-hbs:k?reserve=900").unwrap().reserve_anyway);
        let Err(Failure::Misuse(why)) = Address::read(c"gabion-hbs://host/keys/k") else {
            panic!("a host is refused, with a text")
        };
        assert!(why.contains("a host"), "{why}");
    }
}
