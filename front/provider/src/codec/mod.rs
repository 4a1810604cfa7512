//! Keys in files and certificates: what OpenSSL's decoders and encoders find here.
//!
//! ```text
//!   certificate, PEM --libcrypto--> DER --decoder--> Key --keymgmt: load--> EVP_PKEY
//!   EVP_PKEY ----------------------> Key --encoder--> DER, PEM, text --> file
//!                                          |
//!                                          +--> gabion_engine::key_file, for every algorithm
//! ```

pub mod decoder;
pub mod encoder;
pub mod formats;
