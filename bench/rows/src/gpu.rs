//! Batches on a GPU: the time of its kernels alone, and the rate for callers.

use serde::{Deserialize, Serialize};

use crate::clock::Percentiles;
use crate::machine::Machine;
use crate::operations::Subject;

/// An operation in batches of one size: a line of `gabion bench engine --backend cuda --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// The measured operation.
    #[serde(flatten)]
    pub subject: Subject,
    /// The outputs of key generation: `ek`, or `ek, dk`, or `pk, sk`. Absent for other operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub returns: Option<String>,
    /// `cuda`.
    pub backend: String,
    /// Operations of a batch.
    pub batch: usize,
    /// Threads of the host, each with separate batches and buffers.
    pub threads: usize,
    /// The memory of the host's buffers.
    pub memory: HostMemory,
    /// The time of the kernels alone, with one thread.
    pub kernel: Option<Kernel>,
    /// The times from call to return; `None` for kernels that no backend runs.
    pub end_to_end: Option<EndToEnd>,
    /// On which device.
    pub device: Device,
    /// The machine that contains the device.
    #[serde(default)]
    pub machine: Machine,
}

/// The memory of a caller's buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostMemory {
    /// Pinned memory, which the device accesses directly.
    Pinned,
    /// Any memory; the driver makes an additional copy.
    Ordinary,
}

impl HostMemory {
    /// The word in rows.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            HostMemory::Pinned => "pinned",
            HostMemory::Ordinary => "ordinary",
        }
    }
}

/// Times of kernels, by the device's events around each of them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Operations a second, if the device did nothing else.
    pub ops_per_s: f64,
    /// Nanoseconds of an operation.
    pub ns_per_op: f64,
    /// Operations of which that is the mean.
    pub operations: u64,
}

/// Rates for callers, in wall time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndToEnd {
    /// Operations a second of all threads. An operation counts once its verdict and its batch's sample are checked.
    pub ops_per_s: f64,
    /// Microseconds from a call to its return.
    pub batch_us: Percentiles,
    /// Batches that were timed.
    pub batches: u64,
    /// Operations that count.
    pub operations: u64,
    /// Results that were compared with the processor's, byte by byte.
    pub compared: u64,
    /// Seconds that passed.
    pub seconds: f64,
    /// Bytes of an operation that went to the device.
    pub bytes_to_device: f64,
    /// And those that came back.
    pub bytes_from_device: f64,
    /// Processor time of the process in that time, of one core: 2 is two cores all the time.
    pub cpu_cores: f64,
    /// The share of the time in which kernels ran, computed from their separate times; more than 1
    /// if concurrent kernels take less.
    pub device_busy: Option<f64>,
    /// Energy of 1000 operations, the device's alone, if its driver tells.
    pub joules_per_1000: Option<f64>,
}

/// A device, as its driver describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// The name of the device.
    pub name: String,
    /// The driver's version, `13.0` for CUDA's 13000.
    pub driver: String,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// The highest clock of these, in MHz.
    pub clock_mhz: u32,
}

/// A kernel among those of an operation: a line of `gabion bench engine --backend cuda --profile --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The measured operation.
    #[serde(flatten)]
    pub subject: Subject,
    /// Operations of a batch.
    pub batch: usize,
    /// The kernel's name.
    pub kernel_name: String,
    /// The number of launches.
    pub launches: u64,
    /// Milliseconds of all of that.
    pub ms: f64,
    /// The share of the time of all kernels of the operation, up to 1.
    pub share: f64,
    /// Nanoseconds of an operation.
    pub ns_per_op: f64,
    /// On which device.
    pub device: Device,
    /// The machine that contains the device.
    #[serde(default)]
    pub machine: Machine,
}

/// One way of doing the same: a line of `gabion bench offload --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offload {
    /// The code that runs it: `default` and `gabion` are OpenSSL's and our provider, `offload` the
    /// core patch, `cuda` a GPU.
    pub way: String,
    /// The parameter set.
    pub algorithm: String,
    /// The operation.
    pub operation: String,
    /// Threads, each with one operation at a time; of a GPU, operations of a batch.
    pub jobs: usize,
    /// Operations that were asked for.
    pub iterations: u64,
    /// Operations whose results were checked: all of them, since a failure ends the run without a
    /// row.
    pub checked: u64,
    /// Seconds on the wall, checks included.
    pub seconds: f64,
    /// Operations a second.
    pub ops_per_s: f64,
    /// Processor time in that time, of one core.
    pub cpu_cores: f64,
    /// The share of the processors that is.
    pub cpu_share: f64,
    /// The share of the time in which a GPU was busy; none without one.
    pub device_busy: Option<f64>,
    /// The code that ran: a library's version, a device's name.
    pub code: String,
    /// The machine that was measured.
    #[serde(default)]
    pub machine: Machine,
}
