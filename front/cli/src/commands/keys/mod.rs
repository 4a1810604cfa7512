//! Commands that work with key files.

pub mod acvp;
pub mod algorithms;
pub mod decaps;
pub mod derive;
pub mod encaps;
pub mod keygen;
pub(super) mod message;
pub mod mu;
pub mod sign;
pub mod verify;
