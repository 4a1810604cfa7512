//! `gabion --version --json`: what this build is.

use serde::Serialize;

use crate::stamp::Stamp;

/// The backends that are compiled in, the first choice first. Which of them run depends on the machine: `gabion doctor`.
const BACKENDS: &[&str] = if cfg!(target_arch = "x86_64") {
    &["avx512", "avx2", "portable", gabion_engine::gpu::NAME]
} else if cfg!(target_arch = "aarch64") {
    &["neon", "portable", gabion_engine::gpu::NAME]
} else {
    &["portable", gabion_engine::gpu::NAME]
};

/// A build of the command.
#[derive(Debug, Serialize)]
pub struct Build {
    version: &'static str,
    /// The commit that it was built from; null where `GABION_COMMIT` did not name one to the compiler.
    commit: Option<&'static str>,
    /// The Cargo features of the command.
    features: &'static [&'static str],
    backends: &'static [&'static str],
    /// `release`, or `debug` for a build with overflow checks and debug assertions.
    profile: &'static str,
    /// Architecture and operating system, as `x86_64-linux`.
    target: String,
}

impl Build {
    /// Returns the build that this process runs.
    pub fn current() -> Build {
        let stamp = Stamp::now();
        Build {
            version: stamp.gabion,
            commit: stamp.commit,
            features: if cfg!(feature = "kms") { &["kms"] } else { &[] },
            backends: BACKENDS,
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_of_this_machine_is_listed() {
        let engine = gabion_engine::Engine::new(&gabion_engine::Config::default()).unwrap();
        for backend in engine.report() {
            assert!(BACKENDS.contains(&backend.name), "{}", backend.name);
        }
    }
}
