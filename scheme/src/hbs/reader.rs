//! Parses fields of untrusted keys and signatures.

/// The unread rest of a byte string. Reads beyond its end return `None`.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// All of it.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    /// The next so many bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    /// The next N bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(head)
    }

    /// The next number of 32 bits.
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Returns the unread bytes.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }
}
