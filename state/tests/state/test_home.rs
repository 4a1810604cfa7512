//! Keys on a real disk, in folders of their own, and a home: what the tests of it share.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gabion_disk::RealDisk;
use gabion_engine::{Engine, Error, OsEntropy};
use gabion_state::testing::TestMachine;
use gabion_state::{Encoding, Environment, KeyFileOptions, Signer, SignerOptions};
use tempfile::TempDir;

/// Threads.
pub const ONE: NonZero<usize> = NonZero::<usize>::MIN;

/// A temporary home with a folder for keys and one for copies.
pub struct TestHome {
    pub folder: TempDir,
    pub environment: Environment,
}

impl TestHome {
    pub fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["keys", "copy"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let environment = environment(&folder.path().join("home/anchors"), None);
        TestHome { folder, environment }
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
pub fn environment(home: &Path, name: Option<u8>) -> Environment {
    let id = name.map(|name| [name; 32]);
    Environment {
        disk: Arc::new(RealDisk),
        machine: Arc::new(TestMachine { home: home.to_owned(), id, process: None }),
        entropy: Arc::new(OsEntropy),
    }
}

pub fn engine() -> &'static Engine {
    Engine::global().unwrap()
}

pub fn key_options(key: &Path) -> KeyFileOptions<'_> {
    KeyFileOptions {
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

pub fn open(environment: &Environment, key: &Path) -> Result<Signer, Error> {
    let opening = SignerOptions { wait: Duration::ZERO, ..SignerOptions::default() };
    Signer::open(environment, engine(), key, None, &opening)
}
