//! An `Environment` for tests: a disk with a hook at each call, and a machine with configurable
//! identity.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gabion_disk::testing::{DiskCall, HookedDisk};

use crate::files::Environment;
use crate::machine::{Machine, Process, ThisMachine};

/// Returns this environment on a disk that calls `hook`.
pub fn with_hook(
    environment: &Environment,
    hook: impl Fn(DiskCall, &Path) -> io::Result<()> + Send + Sync + 'static,
) -> Environment {
    on(environment, HookedDisk::new(hook))
}

/// Returns this environment with a folder on a network file system, or a link that looks like a
/// mount point.
pub fn with_mounts(
    environment: &Environment,
    network: Option<PathBuf>,
    mount: Option<PathBuf>,
) -> Environment {
    on(environment, HookedDisk::new(|_, _| Ok(())).with_mounts(network, mount))
}

/// Returns this environment on a disk that calls `act` once, at the first such call for a file
/// whose name has this suffix.
pub fn with_hook_once(
    environment: &Environment,
    call: (DiskCall, &'static str),
    act: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Environment {
    on(environment, HookedDisk::with_hook_once(call, act))
}

fn on(environment: &Environment, disk: HookedDisk) -> Environment {
    Environment { disk: Arc::new(disk), ..environment.clone() }
}

/// This machine with another home, and optionally another id and process.
#[derive(Clone, Debug, Default)]
pub struct TestMachine {
    /// The folder of the anchors.
    pub home: PathBuf,
    /// The id of the machine.
    pub id: Option<[u8; 32]>,
    /// The process to report.
    pub process: Option<Process>,
}

impl Machine for TestMachine {
    fn boot(&self) -> [u8; 32] {
        ThisMachine.boot()
    }

    fn id(&self) -> io::Result<[u8; 32]> {
        self.id.map_or_else(|| ThisMachine.id(), Ok)
    }

    fn process(&self) -> Option<Process> {
        self.process.or_else(|| ThisMachine.process())
    }

    fn now(&self) -> u64 {
        ThisMachine.now()
    }

    fn host(&self) -> String {
        ThisMachine.host()
    }

    fn anchors(&self) -> Option<PathBuf> {
        Some(self.home.clone())
    }

    fn pause(&self, time: Duration) {
        ThisMachine.pause(time);
    }
}
