//! Signatures, one and many.

use std::ffi::c_char;

use gabion_engine::{OsEntropy, Prehash, Randomness, SigningKey, Size, Status, memory};

use crate::border::{Code, Failure, border, code, engine, of_lane};
use crate::input::{self, OutputRegions, Region, wrong_length};
use crate::kem::{handles, read_handles, write_verdicts};
use crate::keys::{PrivateKey, PublicKey, signing_key, verify_key};

/// `GABION_MU`: in place of a hash's name, the message is its representative mu (FIPS 204,
/// Algorithm 7, line 6).
const MU: &str = "mu";

/// `gabion_message`.
#[repr(C)]
pub struct Message {
    /// The message, or its digest.
    pub message: *const u8,
    /// The length of the message in bytes.
    pub message_len: usize,
    /// The context.
    pub context: *const u8,
    /// The length of the context string in bytes.
    pub context_len: usize,
    /// The name of the hash that made the digest; NULL where the message itself is signed.
    pub prehash: *const c_char,
}

impl Message {
    /// Returns the memory regions of the message.
    ///
    /// # Safety
    /// `prehash` is NULL or a text.
    unsafe fn regions(&self) -> [Region; 3] {
        [
            Region::new("message", self.message, self.message_len),
            Region::new("context", self.context, self.context_len),
            // SAFETY: the caller's condition.
            unsafe { Region::text("prehash", self.prehash) },
        ]
    }

    /// Converts the message for the engine.
    ///
    /// # Safety
    /// Each pointer is NULL or has the length that follows it; `prehash` is NULL or a text.
    unsafe fn get(&self) -> Result<gabion_engine::Message<'_>, Failure> {
        // SAFETY: the caller's condition, for both.
        let (message, context) = unsafe {
            (
                input::slice("message", self.message, self.message_len)?,
                input::slice("context", self.context, self.context_len)?,
            )
        };
        if self.prehash.is_null() {
            return Ok(gabion_engine::Message::Pure { context, message });
        }
        // SAFETY: the caller's condition.
        let name = unsafe { input::text("prehash", self.prehash) }?;
        if name.eq_ignore_ascii_case(MU) {
            if !context.is_empty() {
                let why = "mu already covers the context; expected an empty context";
                return Err(Failure::new(code::INPUT, why));
            }
            let wrong = |_| wrong_length("mu", 64, message.len());
            return Ok(gabion_engine::Message::Mu(message.try_into().map_err(wrong)?));
        }
        let known = name.parse::<Prehash>().ok();
        let hash = known.ok_or_else(|| {
            let names: Vec<_> = Prehash::all().map(Prehash::name).collect();
            let names = names.join(", ");
            Failure::new(code::INPUT, format!("no hash `{name}`; there are {names}"))
        })?;
        Ok(gabion_engine::Message::Prehash { context, hash, digest: message })
    }
}

/// Signs a message.
///
/// # Safety
/// `key` is NULL or a handle, `message` NULL or a message; `signature_len` is NULL or a place, and
/// `signature` NULL or `*signature_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_sign(
    key: *const PrivateKey,
    message: *const Message,
    signature: *mut u8,
    signature_len: *mut usize,
) -> Code {
    let engine = |key: &SigningKey, message: gabion_engine::Message<'_>| {
        Ok(engine()?.sign(key, message, &OsEntropy)?)
    };
    let drawn = Region::new("randomness", std::ptr::null::<u8>(), 0);
    // SAFETY: the caller's condition is the same.
    border(|| unsafe { sign(key, message, drawn, signature, signature_len, engine) })
}

/// Signs with the caller's randomness.
///
/// # Safety
/// Those of [`gabion_sign`]; `randomness` is NULL or has `randomness_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_sign_with_randomness(
    key: *const PrivateKey,
    message: *const Message,
    randomness: *const u8,
    randomness_len: usize,
    signature: *mut u8,
    signature_len: *mut usize,
) -> Code {
    border(|| {
        let engine = |key: &SigningKey, message: gabion_engine::Message<'_>| {
            // SAFETY: the caller's condition.
            let bytes = unsafe { input::slice("randomness", randomness, randomness_len) }?;
            Ok(engine()?.sign_with_randomness(key, message, bytes)?)
        };
        let given = Region::new("randomness", randomness, randomness_len);
        // SAFETY: the caller's condition is the same.
        unsafe { sign(key, message, given, signature, signature_len, engine) }
    })
}

/// Signs in the way that `engine` does, with what lies at `randomness`.
///
/// # Safety
/// See [`gabion_sign`].
unsafe fn sign(
    key: *const PrivateKey,
    message: *const Message,
    randomness: Region,
    signature: *mut u8,
    signature_len: *mut usize,
    engine: impl FnOnce(&SigningKey, gabion_engine::Message<'_>) -> Result<Vec<u8>, Failure>,
) -> Result<(), Failure> {
    // SAFETY: the caller's condition.
    let len = unsafe { input::place("signature_len", signature_len) }?;
    let room = if signature.is_null() { 0 } else { *len };
    let regions =
        [Region::new("signature", signature, room), Region::new("its length", signature_len, 1)];
    let mut filled = OutputRegions::new(regions).and([Region::new("the key", key, 1), randomness]);
    // SAFETY: the caller's condition.
    unsafe { read_messages(&mut filled, message, 1) };
    // SAFETY: the caller's condition; a NULL buffer has no bytes.
    let out = unsafe { filled.output("signature", signature, room, 0) };
    filled.check(signature_len, 1)?;
    let out = out?;
    // SAFETY: the caller's condition.
    let key = signing_key(unsafe { input::reference("key", key) }?)?;
    let longest = key.signature_len_max();
    if signature.is_null() {
        *len = longest;
        return Ok(());
    }
    // Before the work: a signature that is made and can't be handed over is lost.
    if room < longest {
        return Err(wrong_length("room for the signature", longest, room));
    }
    // SAFETY: the caller's condition.
    let message = unsafe { input::reference("message", message)?.get() }?;
    let made = engine(key, message)?;
    out[..made.len()].copy_from_slice(&made);
    *len = made.len();
    Ok(())
}

/// Verifies a signature.
///
/// # Safety
/// `key` is NULL or a handle, `message` NULL or a message; `signature` has `signature_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_verify(
    key: *const PublicKey,
    message: *const Message,
    signature: *const u8,
    signature_len: usize,
) -> Code {
    border(|| {
        // SAFETY: the caller's condition, for all three.
        let (key, message, signature) = unsafe {
            (
                verify_key(input::reference("key", key)?)?,
                input::reference("message", message)?.get()?,
                input::slice("signature", signature, signature_len)?,
            )
        };
        Ok(engine()?.verify(key, message, signature)?)
    })
}

/// Returns the messages of a batch. A context or digest of the wrong length fails only its lane, in
/// the engine; a NULL or an unknown hash fails the call.
///
/// # Safety
/// `messages` is NULL or has `n` messages.
unsafe fn messages<'a>(
    messages: *const Message,
    n: usize,
) -> Result<Vec<gabion_engine::Message<'a>>, Failure> {
    // SAFETY: the caller's condition, for both.
    let messages = unsafe { input::slice("messages", messages, n) }?;
    // SAFETY: as above.
    messages.iter().map(|message| unsafe { message.get() }).collect()
}

/// Compares what a call fills with its messages. One that can't be read is refused later, where it
/// is used.
///
/// # Safety
/// `messages` is NULL or has `n` messages.
unsafe fn read_messages<const N: usize>(
    filled: &mut OutputRegions<N>,
    messages: *const Message,
    n: usize,
) {
    filled.read(Region::new("the array of messages", messages, n));
    // SAFETY: the caller's condition, for both.
    let messages = unsafe { input::slice("messages", messages, n) }.unwrap_or_default();
    for message in messages {
        // SAFETY: as above.
        unsafe { message.regions() }.into_iter().for_each(|region| filled.read(region));
    }
}

/// Signs many messages.
///
/// # Safety
/// `keys`, `messages`, `signature_lens` and `status` have `n` items; `signatures` has
/// `signatures_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_sign_many(
    keys: *const *const PrivateKey,
    messages_in: *const Message,
    n: usize,
    signatures: *mut u8,
    signatures_len: usize,
    signature_lens: *mut usize,
    status: *mut Code,
) -> Code {
    border(|| {
        input::lanes(n)?;
        let mut filled = OutputRegions::new([
            Region::new("signatures", signatures, signatures_len),
            Region::new("signature_lens", signature_lens, n),
            Region::new("status", status, n),
        ]);
        // SAFETY: the caller's condition, for both.
        unsafe {
            read_handles(&mut filled, keys, n);
            read_messages(&mut filled, messages_in, n);
        }
        // SAFETY: the caller's condition, for all three.
        let (signatures, lens, status) = unsafe {
            (
                filled.output("signatures", signatures, signatures_len, 0),
                filled.output("signature_lens", signature_lens, n, 0),
                filled.output("status", status, n, of_lane(Status::NotRun)),
            )
        };
        let (signatures, lens, status) = (signatures?, lens?, status?);
        // SAFETY: the caller's condition, for both.
        let (keys, messages) = unsafe { (handles(keys, n)?, messages(messages_in, n)?) };
        let keys: Vec<_> = keys.iter().map(|key| signing_key(key)).collect::<Result<_, _>>()?;
        let Some(first) = keys.first() else { return Ok(()) };
        let expected = input::total("signatures", n, first.algorithm().info().output.max())?;
        if signatures.len() != expected {
            return Err(wrong_length("signatures", expected, signatures.len()));
        }
        let mut verdicts = memory::filled(n, Status::NotRun)?;
        let randomness = Randomness::Fresh(&OsEntropy);
        let engine = engine()?;
        engine.sign_many(&keys, &messages, randomness, signatures, lens, &mut verdicts)?;
        write_verdicts(status, &verdicts);
        Ok(())
    })
}

/// Verifies many signatures.
///
/// # Safety
/// `keys`, `messages` and `status` have `n` items, `signature_lens` too or is NULL; `signatures`
/// has `signatures_len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gabion_verify_many(
    keys: *const *const PublicKey,
    messages_in: *const Message,
    n: usize,
    signatures: *const u8,
    signatures_len: usize,
    signature_lens: *const usize,
    status: *mut Code,
) -> Code {
    border(|| {
        input::lanes(n)?;
        let mut filled = OutputRegions::new([Region::new("status", status, n)]).and([
            Region::new("signatures", signatures, signatures_len),
            Region::new("signature_lens", signature_lens, n),
        ]);
        // SAFETY: the caller's condition, for both.
        unsafe {
            read_handles(&mut filled, keys, n);
            read_messages(&mut filled, messages_in, n);
        }
        // SAFETY: the caller's condition.
        let status = unsafe { filled.output("status", status, n, of_lane(Status::NotRun)) }?;
        // SAFETY: the caller's condition, for all three.
        let (signatures, keys, messages) = unsafe {
            (
                input::slice("signatures", signatures, signatures_len)?,
                handles(keys, n)?,
                messages(messages_in, n)?,
            )
        };
        let keys: Vec<_> = keys.iter().map(|key| verify_key(key)).collect::<Result<_, _>>()?;
        let Some(first) = keys.first() else { return Ok(()) };
        let info = first.algorithm().info();
        let room = match info.output {
            Size::Fixed(len) | Size::UpTo(len) => len,
            // Keys differ: places are as long as their number says.
            Size::OfKey(most) => most.min(signatures.len() / n),
        };
        let expected = input::total("signatures", n, room)?;
        if signatures.len() != expected {
            return Err(wrong_length("signatures", expected, signatures.len()));
        }
        let full;
        let lens = if signature_lens.is_null() && !info.output.varies() {
            full = memory::filled(n, room)?;
            &full[..]
        } else {
            // SAFETY: the caller's condition.
            unsafe { input::slice("signature_lens", signature_lens, n) }?
        };
        let mut verdicts = memory::filled(n, Status::NotRun)?;
        engine()?.verify_many(&keys, &messages, signatures, lens, &mut verdicts)?;
        write_verdicts(status, &verdicts);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command line's `--prehash` takes these, too.
    #[test]
    fn a_hash_goes_by_the_names_that_it_has_on_the_command_line() {
        let digest = [7; 64];
        for name in [c"SHA2-512", c"sha2-512", c"sha512", c"SHA-512"] {
            let message = Message {
                message: digest.as_ptr(),
                message_len: digest.len(),
                context: std::ptr::null(),
                context_len: 0,
                prehash: name.as_ptr(),
            };
            // SAFETY: a message with its length, and a text.
            let read = unsafe { message.get() };
            let hash = match read {
                Ok(gabion_engine::Message::Prehash { hash, .. }) => hash,
                _ => panic!("{name:?} is no hash"),
            };
            assert_eq!(hash, Prehash::Sha2_512, "{name:?}");
        }
    }
}
