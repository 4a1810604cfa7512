//! The configuration of an engine.

use std::ffi::OsString;

use gabion_backend::rights;

/// The environment variable that selects the backend.
pub const BACKEND_VARIABLE: &str = "GABION_BACKEND";

/// The environment variable that makes the engine verify signatures before it returns them, and
/// make SLH-DSA signatures twice. See [`Config::verify_after_sign`].
pub const VERIFY_VARIABLE: &str = "GABION_VERIFY_AFTER_SIGN";

/// The environment variable that forbids GPUs.
pub const GPU_VARIABLE: &str = "GABION_GPU";

/// The configuration of an engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The name of the only backend to use. If `None`, all backends of the processor are used, best
    /// first; if one fails its self-test, the next one runs the batch. If the name is `cuda` (a
    /// GPU), the processor's backends run the operations that the GPU does not support, and repeat
    /// the batches that it fails to finish. A GPU is used only if it is named here.
    ///
    /// Creating an engine fails with [`Error::NoSuchBackend`](crate::Error::NoSuchBackend) if the
    /// name is unknown, and with [`Error::NoDevice`](crate::Error::NoDevice) if `cuda` is named and
    /// the machine has no NVIDIA driver or GPU.
    pub backend: Option<String>,
    /// Whether GPUs are neither used nor searched for. If `backend` names `cuda`, creating an
    /// engine then fails with [`Error::NoDevice`](crate::Error::NoDevice).
    pub without_gpu: bool,
    /// Whether [`Engine::sign`](crate::Engine::sign), its variants and
    /// [`Engine::sign_many`](crate::Engine::sign_many) verify every signature before they return
    /// it.
    ///
    /// A fault during signing, caused by an attacker (for example with Rowhammer) or an ageing
    /// processor, can produce a signature that reveals the private key. With this option the status
    /// of such a signature is [`Status::Fault`](crate::Status::Fault), its bytes are wiped, and the
    /// backends that ran the algorithm are tested again; those that fail are not used for it
    /// anymore in this process. This costs a verification per signature, about a fifth of an ML-DSA
    /// signature. Faulty SLH-DSA signatures can verify, so each is made twice and compared, which
    /// doubles the time.
    ///
    /// The option applies to all algorithms of these functions, also in queues and on GPUs. It does
    /// not apply to stateful keys (LMS, HSS, XMSS, XMSS^MT), nor to batches of
    /// [`Engine::run`](crate::Engine::run).
    ///
    /// Not detected: an ML-DSA mask that is used twice or is not random, because such signatures
    /// verify. Off by default; hedged signing, which is the default, already makes most such faults
    /// useless to an attacker.
    pub verify_after_sign: bool,
}

impl Config {
    /// Reads the configuration from the environment:
    ///
    /// - `GABION_BACKEND` names the backend; if unset, empty or `auto`, it is detected.
    /// - `GABION_GPU` forbids GPUs unless it is unset, empty or `auto`.
    /// - `GABION_VERIFY_AFTER_SIGN` enables the verification unless it is unset, empty or `0`. Any
    ///   other value enables it, including `off`, `no` and `false`.
    ///
    /// A program with more rights than its caller (set-uid, set-gid, file capabilities) ignores all
    /// of them, because the caller could make every operation fail. Such a program uses no GPU.
    pub fn from_environment() -> Self {
        Config::from_variables(|name| std::env::var_os(name), rights::is_privileged())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>, elevated: bool) -> Self {
        if elevated {
            return Config::default();
        }
        Config {
            backend: chosen(variable(BACKEND_VARIABLE)),
            // Values such as `no`, `0` and `Off` are meant to forbid GPUs too.
            without_gpu: chosen(variable(GPU_VARIABLE)).is_some(),
            verify_after_sign: is_on(variable(VERIFY_VARIABLE)),
        }
    }
}

/// Returns the value of a variable; `None` if it is unset, empty or `auto`. A value that is not
/// valid UTF-8 names no backend, and does not count as unset.
fn chosen(value: Option<OsString>) -> Option<String> {
    value
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("auto"))
}

/// Returns whether a switch in the environment is on: any value except the empty string and `0`.
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
