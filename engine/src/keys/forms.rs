//! The forms that a key comes in.

/// The forms in which a key came or is written, any mix of them. Of a private key: its seed, its
/// expanded form, or both.
#[derive(Clone, Copy, Default)]
pub struct Forms<'a> {
    /// The seed. Secret.
    pub seed: Option<&'a [u8]>,
    /// The private key as the engine has it. Secret.
    pub expanded: Option<&'a [u8]>,
    /// The public key.
    pub public: Option<&'a [u8]>,
}
