//! `gabion --version --json`: build information.

use serde::Serialize;

use crate::stamp::Stamp;

/// The compiled-in backends in order of preference. `gabion doctor` shows which of them this
/// machine can run.
const BACKENDS: &[&str] = if cfg!(target_arch = "x86_64") {
    &["avx512", "avx2", "portable", gabion_engine::gpu::NAME]
} else if cfg!(target_arch = "aarch64") {
    &["neon", "portable", gabion_engine::gpu::NAME]
} else {
    &["portable", gabion_engine::gpu::NAME]
};

/// Information about a build of the command.
#[derive(Debug, Serialize)]
pub struct Build {
    version: &'static str,
    /// The commit it was built from; null if `GABION_COMMIT` was not set at compile time.
    commit: Option<&'static str>,
    /// The enabled Cargo features.
    features: &'static [&'static str],
    backends: &'static [&'static str],
    /// `release`, or `debug` for a build with overflow checks and debug assertions.
    profile: &'static str,
    /// Architecture and operating system, such as `x86_64-linux`.
    target: String,
}

impl Build {
    /// Returns the information about this build.
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
