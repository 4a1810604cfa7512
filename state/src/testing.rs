//! Surroundings for tests, and for whoever measures: a disk on which something happens at a call, and a machine that is this
//! one by another name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gabion_disk::testing::{At, Hooked};

use crate::files::Surroundings;
use crate::machine::{Machine, Process, ThisMachine};

/// These surroundings, on a disk on which this happens.
pub fn with_hook(
    around: &Surroundings,
    hook: impl Fn(At, &Path) -> io::Result<()> + Send + Sync + 'static,
) -> Surroundings {
    on(around, Hooked::new(hook))
}

/// The same where a folder is one of the network, or a link a mount.
pub fn with_mounts(
    around: &Surroundings,
    network: Option<PathBuf>,
    mount: Option<PathBuf>,
) -> Surroundings {
    on(around, Hooked::new(|_, _| Ok(())).with_mounts(network, mount))
}

/// The same, where something happens once: at the first such call of a file whose name ends so.
pub fn with_hook_once(
    around: &Surroundings,
    call: (At, &'static str),
    act: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Surroundings {
    on(around, Hooked::once(call, act))
}

fn on(around: &Surroundings, disk: Hooked) -> Surroundings {
    Surroundings { disk: Arc::new(disk), ..around.clone() }
}

/// This machine, with a home of its own; it may have another name, and take every process for one.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// Where its anchors are.
    pub home: PathBuf,
    /// Its name.
    pub id: Option<[u8; 32]>,
    /// The process that each one is.
    pub process: Option<Process>,
}

impl Machine for Elsewhere {
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
