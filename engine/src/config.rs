//! How an engine is set up.

/// The environment variable that chooses the backend.
pub const BACKEND_VARIABLE: &str = "GABION_BACKEND";

/// What an engine may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Only the backend of this name; the best one that passes its self-test where `None`.
    pub backend: Option<String>,
}

impl Config {
    /// Reads `GABION_BACKEND`; unset, empty and `auto` choose by detection.
    pub fn from_environment() -> Self {
        let backend = std::env::var(BACKEND_VARIABLE)
            .ok()
            .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("auto"));
        Config { backend }
    }
}
