//! Keys on a real disk, in folders of their own, and a home: what the tests of it share.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gabion_disk::RealDisk;
use gabion_engine::{Engine, Error, OsEntropy};
use gabion_state::testing::Elsewhere;
use gabion_state::{Encoding, Making, Opening, Signer, Surroundings};
use tempfile::TempDir;

/// Threads.
pub const ONE: NonZero<usize> = NonZero::<usize>::MIN;

/// A home, a folder for keys, and one for copies.
pub struct Place {
    pub folder: TempDir,
    pub around: Surroundings,
}

impl Place {
    pub fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["keys", "copy"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let around = around(&folder.path().join("home/anchors"), None);
        Place { folder, around }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn key(&self) -> PathBuf {
        self.path("keys/k")
    }

    /// Copies a folder, as `cp -r` does; the key there.
    pub fn copy(&self, from: &str, to: &str) -> PathBuf {
        let to = self.path(to);
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(self.path(from)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
        to.join("k")
    }
}

/// This machine, with another home, and maybe under another name.
pub fn around(home: &Path, name: Option<u8>) -> Surroundings {
    let id = name.map(|name| [name; 32]);
    Surroundings {
        disk: Arc::new(RealDisk),
        machine: Arc::new(Elsewhere { home: home.to_owned(), id, process: None }),
        entropy: Arc::new(OsEntropy),
    }
}

pub fn engine() -> &'static Engine {
    Engine::global().unwrap()
}

pub fn making(key: &Path) -> Making<'_> {
    Making {
        key,
        passphrase: None,
        encoding: Encoding::Hss,
        next: 0,
        warn_at: None,
        anchors: &[],
        allow_network: false,
        note: "made",
    }
}

pub fn open(around: &Surroundings, key: &Path) -> Result<Signer, Error> {
    let opening = Opening { wait: Duration::ZERO, ..Opening::default() };
    Signer::open(around, engine(), key, None, &opening)
}
