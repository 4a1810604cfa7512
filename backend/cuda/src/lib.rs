//! Whole batches on an NVIDIA GPU.
//!
//! ```text
//!   Batch --> Cuda<D>: a slot, canary, plan --> D: Device --> results --> checks --> outputs
//!                                                |
//!                        driver::Nvidia; emulator::Emulator and faulty ones in tests
//! ```
//!
//! [`Cuda`] is a [`gabion_backend::Backend`] over a [`Device`], which is all that it asks of a GPU. The kernels are in
//! `kernels/`, in headers that compile for a device and for a processor. [`driver`] has the device that is a GPU;
//! `gabion-cuda-emulator` has one that runs the kernels on the processor, for tests.
//!
//! # Guarantees, whatever a device does
//! - A slot has one owner, and a generation that its status words carry: no result of an earlier batch passes for one
//!   of this batch.
//! - A lane succeeds only by its status word, which the last kernel writes.
//! - A lane with a known answer, the canary, is part of every batch. If it is wrong, nothing of the batch leaves.
//! - An operation that did not run is [`gabion_backend::BatchOutcome::Lost`], and the engine's next
//!   backend runs it.
//! - Memory of a batch is cleared before its slot has another owner. After a fault the device is restarted, which frees
//!   it, before anything else runs there.

mod arguments;
mod backend;
mod canary;
mod chunk;
mod cuda;
mod device;
pub mod driver;
mod dsa;
mod hbs;
mod hss;
mod kem;
mod layout;
pub mod offload;
mod pages;
mod resident;
mod slh;
mod slots;
mod xmss;

pub use arguments::{
    DsaKeyArguments, DsaSignArguments, DsaVerifyArguments, HashArguments, KemArguments,
    LmsArguments, SlhArguments, XmssArguments,
};
pub use cuda::Cuda;
pub use device::{Arguments, Device, Fault, Launch, PinnedBuffer};
