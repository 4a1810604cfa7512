//! The C ABI: `libgabion.so`, `libgabion.a`, and `include/gabion.h`, which is its documentation.
//!
//! ```text
//!   C ---> keys, kem, signature ---> border (panics stop, errors become codes) ---> gabion_engine
//!   C ---> stateful --> border --> gabion_state
//!                  |
//!                  +--> input: pointers and lengths become slices, here and nowhere else
//! ```
//!
//! Types of the engine are not exposed: a handle is a boxed key that never changes. `unsafe` is
//! confined to arguments from C and the exported functions themselves.

mod algorithms;
mod border;
pub mod header;
mod input;
mod kem;
mod keys;
mod last;
mod signature;
mod stateful;

pub use algorithms::{
    GpuCounts, Sizes, gabion_abi, gabion_algorithm_count, gabion_algorithm_name,
    gabion_algorithm_sizes, gabion_backend, gabion_gpu_served, gabion_version,
};
pub use border::{gabion_last_error, gabion_status_text};
pub use kem::{
    gabion_decaps, gabion_decaps_many, gabion_encaps, gabion_encaps_many,
    gabion_encaps_with_randomness,
};
pub use keys::{
    PrivateKey, PublicKey, gabion_private_key_algorithm, gabion_private_key_export,
    gabion_private_key_free, gabion_private_key_from_seed, gabion_private_key_generate,
    gabion_private_key_generate_many, gabion_private_key_import, gabion_private_key_public,
    gabion_private_key_seed, gabion_public_key_algorithm, gabion_public_key_export,
    gabion_public_key_free, gabion_public_key_import, gabion_public_key_import_many,
};
pub use signature::{
    Message, gabion_sign, gabion_sign_many, gabion_sign_with_randomness, gabion_verify,
    gabion_verify_many,
};
pub use stateful::{
    StatefulKey, StatefulSigned, StatefulStatus, gabion_stateful_key_close,
    gabion_stateful_key_open, gabion_stateful_key_public, gabion_stateful_key_sign,
    gabion_stateful_key_status,
};
