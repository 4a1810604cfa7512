//! Reading and writing through the core's BIOs: where a decoder's bytes come from, and an encoder's
//! go.

use std::ffi::{c_int, c_void};
use std::mem::transmute;

use zeroize::Zeroizing;

use crate::error::Failure;
use crate::ffi::{AnyFunction, Dispatch, function};

/// A BIO of the core (OSSL_CORE_BIO). Opaque.
#[repr(C)]
pub struct CoreBio {
    _opaque: [u8; 0],
}

type ReadEx = unsafe extern "C" fn(*mut CoreBio, *mut c_void, usize, *mut usize) -> c_int;
type WriteEx = unsafe extern "C" fn(*mut CoreBio, *const c_void, usize, *mut usize) -> c_int;

/// Maximum length of a structure that is read, in bytes. The longest served key file, an ML-DSA-87
/// key with its seed, has about 5 KiB.
pub const DER_MAX: usize = 1 << 16;

/// Bytes that are read to learn how long a structure is. No key is as short.
const HEAD: usize = 8;

/// The core's functions on BIOs; an older or smaller core may lack any.
#[derive(Clone, Copy, Default)]
pub struct BioCalls {
    read: Option<ReadEx>,
    write: Option<WriteEx>,
}

impl BioCalls {
    /// Collects them.
    ///
    /// # Safety
    /// `table` is null or the core's dispatch table, with an end.
    pub unsafe fn collect(table: *const Dispatch) -> Self {
        let mut calls = BioCalls::default();
        let mut at = table;
        // SAFETY: the table has an end; the number says which type the core gave the function.
        unsafe {
            while !at.is_null() && (*at).number != 0 {
                match ((*at).number, (*at).function) {
                    (function::BIO_READ_EX, Some(function)) => {
                        calls.read = Some(transmute::<AnyFunction, ReadEx>(function));
                    }
                    (function::BIO_WRITE_EX, Some(function)) => {
                        calls.write = Some(transmute::<AnyFunction, WriteEx>(function));
                    }
                    _ => {}
                }
                at = at.add(1);
            }
        }
        calls
    }

    /// Reads one DER SEQUENCE and nothing behind it; none where something else stands there, or
    /// less than it says, or more than [`DER_MAX`] bytes.
    ///
    /// # Safety
    /// `bio` is null or the core's, for the length of the call.
    pub unsafe fn read_sequence(&self, bio: *mut CoreBio) -> Option<Zeroizing<Vec<u8>>> {
        let mut head = [0; HEAD];
        // SAFETY: as the caller vouches.
        unsafe { self.fill(bio, &mut head) }?;
        let len = sequence_len(&head)?;
        let mut der = Zeroizing::new(vec![0; len]);
        let (first, rest) = der.split_at_mut(HEAD);
        first.copy_from_slice(&head);
        // SAFETY: as the caller vouches.
        unsafe { self.fill(bio, rest) }?;
        Some(der)
    }

    /// Fills a buffer; none where there are fewer bytes.
    unsafe fn fill(&self, bio: *mut CoreBio, buffer: &mut [u8]) -> Option<()> {
        let read = self.read.filter(|_| !bio.is_null())?;
        let mut filled = 0;
        while let rest @ [_, ..] = &mut buffer[filled..] {
            let mut got = 0;
            // SAFETY: the core's function and BIO; it writes no more than there is room for.
            let ok = unsafe { read(bio, rest.as_mut_ptr().cast(), rest.len(), &mut got) };
            if ok != 1 || got == 0 || got > rest.len() {
                return None;
            }
            filled += got;
        }
        Some(())
    }

    /// Writes all of the bytes.
    ///
    /// # Errors
    /// The BIO does not take them.
    ///
    /// # Safety
    /// `bio` is null or the core's, for the length of the call.
    pub unsafe fn write_all(&self, bio: *mut CoreBio, bytes: &[u8]) -> Result<(), Failure> {
        const REFUSED: Failure = Failure::Misuse("the output rejected the encoded data");
        let write = self.write.filter(|_| !bio.is_null()).ok_or(REFUSED)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut written = 0;
            // SAFETY: the core's function and BIO; it reads the bytes that there are.
            let ok = unsafe { write(bio, rest.as_ptr().cast(), rest.len(), &mut written) };
            if ok != 1 || written == 0 || written > rest.len() {
                return Err(REFUSED);
            }
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// The length of a SEQUENCE, head included, by its first bytes; none where these are no head of
/// DER, or the whole is shorter than [`HEAD`] or longer than [`DER_MAX`].
fn sequence_len(head: &[u8; HEAD]) -> Option<usize> {
    // A length takes as few bytes as it can, or it is no DER (X.690, section 10.1).
    let len = match *head {
        [0x30, len, ..] if len < 0x80 => 2 + usize::from(len),
        [0x30, 0x81, len, ..] if len >= 0x80 => 3 + usize::from(len),
        [0x30, 0x82, high, low, ..] if high > 0 => 4 + usize::from(u16::from_be_bytes([high, low])),
        _ => return None,
    };
    (HEAD..=DER_MAX).contains(&len).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slow BIO: it gives at most three bytes a call.
    struct SlowBio<'a>(&'a [u8]);

    unsafe extern "C" fn read(
        bio: *mut CoreBio,
        out: *mut c_void,
        room: usize,
        got: *mut usize,
    ) -> c_int {
        // SAFETY: the tests pass a `SlowBio` and room for a number.
        unsafe {
            let slow = &mut *bio.cast::<SlowBio<'_>>();
            let len = room.min(3).min(slow.0.len());
            out.cast::<u8>().copy_from_nonoverlapping(slow.0.as_ptr(), len);
            slow.0 = &slow.0[len..];
            *got = len;
        }
        1
    }

    fn sequence(bytes: &[u8]) -> (Option<Vec<u8>>, usize) {
        let calls = BioCalls { read: Some(read), write: None };
        let mut slow = SlowBio(bytes);
        // SAFETY: the BIO is what `read` takes it for.
        let der = unsafe { calls.read_sequence((&raw mut slow).cast()) };
        (der.map(|der| der.to_vec()), slow.0.len())
    }

    #[test]
    fn der_sequence_is_read_without_trailing_bytes() {
        for (head, len) in [(&[0x30, 100][..], 100), (&[0x30, 0x81, 200], 200)] {
            let der = [head, &vec![7; len], b"more"].concat();
            let (read, left) = sequence(&der);
            assert_eq!(read.as_deref(), Some(&der[..head.len() + len]));
            assert_eq!(left, 4);
        }
        let long = [&[0x30, 0x82, 1, 0][..], &[7; 256]].concat();
        assert_eq!(sequence(&long), (Some(long.clone()), 0));
    }

    #[test]
    fn malformed_der_sequences_are_refused() {
        let long = [&[0x30, 0x82, 1, 0][..], &[7; 256]].concat();
        for len in 0..long.len() {
            assert_eq!(sequence(&long[..len]).0, None, "{len}");
        }
        for head in [
            &[0x31, 100][..],    // no SEQUENCE
            &[0x30, 0x80],       // no end said
            &[0x30, 0x81, 100],  // a length in more bytes than it takes
            &[0x30, 0x82, 0, 1], // likewise
            &[0x30, 0x83, 1, 0, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 0],
        ] {
            let der = [head, &[7; 70_000]].concat();
            assert_eq!(sequence(&der).0, None, "{head:02x?}");
        }
        // SAFETY: a null pointer is told from a BIO.
        let none = unsafe { BioCalls::default().read_sequence(std::ptr::null_mut()) };
        assert!(none.is_none());
    }
}
