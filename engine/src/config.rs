//! How an engine is set up.

use std::ffi::OsString;

use gabion_backend::rights;

/// The environment variable that chooses the backend.
pub const BACKEND_VARIABLE: &str = "GABION_BACKEND";

/// The environment variable that has every signature verified before it is given out, or made twice (SLH-DSA).
pub const VERIFY_VARIABLE: &str = "GABION_VERIFY_AFTER_SIGN";

/// The environment variable that forbids GPUs.
pub const GPU_VARIABLE: &str = "GABION_GPU";

/// What an engine may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// Only the backend of this name; if `None`, the best one of the processor that passes its self-test. If it is a
    /// device (`cuda`), the processor's follow it for what it does not do, and for what it loses. A GPU is used only if
    /// it is named here.
    pub backend: Option<String>,
    /// Whether no GPU is used, or looked for, also if it is named.
    pub without_gpu: bool,
    /// Whether [`Engine::sign`](crate::Engine::sign), its variants and
    /// [`Engine::sign_many`](crate::Engine::sign_many) verify every signature before they give it
    /// out. A computation that was disturbed, by an attacker who heats memory cells or by a
    /// processor that ages, can make a signature that gives the private key away: such a lane says
    /// [`Status::Fault`](crate::Status::Fault), its signature is wiped, and the backend is tested
    /// again. Costs a verification each time, about a fifth of an ML-DSA signature. Of SLH-DSA, whose
    /// faulty signatures verify, each is made twice and compared, in twice the time. A mask of ML-DSA that
    /// serves twice, or has a pattern, gives signatures that verify and is not seen. Off by default;
    /// hedged signing, which is the default, already takes most of the profit out of such faults.
    /// Batches that go through [`Engine::run`](crate::Engine::run) are not verified.
    pub verify_after_sign: bool,
}

impl Config {
    /// Reads `GABION_BACKEND`; unset, empty and `auto` choose among the processor's by detection. Reads `GABION_GPU`; anything but unset,
    /// empty and `auto` forbids GPUs, `off` among it. Reads
    /// `GABION_VERIFY_AFTER_SIGN`; anything but unset, empty and `0` turns it on. Reads none of them in a program
    /// that has more rights than its caller, who could so make every operation an error; such a program uses no GPU.
    pub fn from_environment() -> Self {
        Config::from_variables(|name| std::env::var_os(name), rights::is_privileged())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>, elevated: bool) -> Self {
        if elevated {
            return Config::default();
        }
        Config {
            backend: chosen(variable(BACKEND_VARIABLE)),
            // Who writes `no`, `0` or `Off` means it; what only `off` turned off would serve by mistake.
            without_gpu: chosen(variable(GPU_VARIABLE)).is_some(),
            verify_after_sign: is_on(variable(VERIFY_VARIABLE)),
        }
    }
}

/// What a variable says, unless it is unset, empty or `auto`. A value that is no text names no backend, and is not taken
/// for an unset one.
fn chosen(value: Option<OsString>) -> Option<String> {
    value
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("auto"))
}

/// Whether a switch in the environment is on.
fn is_on(value: Option<OsString>) -> bool {
    value.is_some_and(|value| !value.is_empty() && value != "0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn only_unset_empty_and_auto_choose_by_detection() {
        let chosen = |value: &[u8]| chosen(Some(OsString::from_vec(value.to_vec())));
        assert_eq!(super::chosen(None), None);
        assert_eq!((chosen(b""), chosen(b"Auto")), (None, None));
        assert_eq!(chosen(b"portable"), Some("portable".to_owned()));
        assert!(chosen(b"portable\xff").is_some_and(|name| name != "portable"));
    }

    #[test]
    fn privileged_program_ignores_the_environment() {
        let variable = |name: &str| match name {
            BACKEND_VARIABLE => Some("portable".into()),
            VERIFY_VARIABLE => Some("1".into()),
            GPU_VARIABLE => Some("off".into()),
            _ => None,
        };
        let read = Config::from_variables(variable, false);
        assert_eq!((read.backend.as_deref(), read.verify_after_sign), (Some("portable"), true));
        assert!(read.without_gpu);
        assert_eq!(Config::from_variables(variable, true), Config::default());
    }

    #[test]
    fn gpus_are_allowed_by_default() {
        let forbids = |value: &'static str| {
            let variable = |name: &str| (name == GPU_VARIABLE).then(|| value.into());
            Config::from_variables(variable, false).without_gpu
        };
        assert_eq!(["", "auto", "AUTO"].map(forbids), [false; 3]);
        assert_eq!(["off", "OFF", "0", "no"].map(forbids), [true; 4]);
        assert!(!Config::from_variables(|_| None, false).without_gpu);
    }

    #[test]
    fn a_switch_is_on_unless_it_is_plainly_off() {
        let on = |value: Option<&str>| is_on(value.map(OsString::from));
        assert_eq!([on(None), on(Some("")), on(Some("0"))], [false; 3]);
        assert_eq!([on(Some("1")), on(Some("yes")), on(Some("no"))], [true; 3]);
    }
}
