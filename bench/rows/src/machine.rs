//! What a figure was measured on: every result row carries it, so that a row can stand alone.

use serde::{Deserialize, Serialize};

/// The machine and the build, as one JSON object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// Name of the processor, with family and model, since hypervisors shorten the name.
    pub cpu: String,
    /// CPUs that this process may use.
    pub cores: usize,
    /// Instruction set extensions that matter to the backends, in the kernel's spelling.
    pub features: Vec<String>,
    /// Name and release of the kernel.
    pub kernel: String,
    /// Compiler that built this program.
    pub compiler: String,
}

/// Extensions that decide how quick the backends and OpenSSL are.
const FEATURES: &[&str] = &[
    "aes",
    "pclmulqdq",
    "bmi2",
    "adx",
    "avx",
    "avx2",
    "sha_ni",
    "avx512f",
    "avx512bw",
    "avx512dq",
    "avx512vl",
    "avx512ifma",
    "avx512vbmi",
    "avx512_vbmi2",
    "avx512_vpopcntdq",
    "gfni",
    "vaes",
    "vpclmulqdq", // x86-64
    "asimd",
    "sha2",
    "sha3",
    "sve",
    "sve2", // AArch64
];

impl Machine {
    /// Reads the machine this process runs on. What the system does not tell is `"unknown"`.
    pub fn detect() -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let read = |path: &str| {
            std::fs::read_to_string(path).map_or("unknown".into(), |text| text.trim().to_owned())
        };
        let (name, release) = (read("/proc/sys/kernel/ostype"), read("/proc/sys/kernel/osrelease"));
        Machine {
            cpu: cpu_name(&cpuinfo),
            cores: std::thread::available_parallelism().map_or(1, |count| count.get()),
            features: features(&cpuinfo),
            kernel: format!("{name} {release}"),
            compiler: env!("GABION_COMPILER").to_owned(),
        }
    }
}

/// A field of the first processor in `/proc/cpuinfo`.
fn field<'t>(cpuinfo: &'t str, name: &str) -> Option<&'t str> {
    cpuinfo.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim())
    })
}

fn cpu_name(cpuinfo: &str) -> String {
    let name = field(cpuinfo, "model name").unwrap_or(std::env::consts::ARCH);
    match (field(cpuinfo, "cpu family"), field(cpuinfo, "model")) {
        (Some(family), Some(model)) => format!("{name} (family {family}, model {model})"),
        _ => name.to_owned(),
    }
}

fn features(cpuinfo: &str) -> Vec<String> {
    let flags = field(cpuinfo, "flags").or_else(|| field(cpuinfo, "Features")).unwrap_or_default();
    let has = |name: &&&str| flags.split_whitespace().any(|flag| flag == **name);
    FEATURES.iter().filter(has).map(|name| (*name).to_owned()).collect()
}

/// CPU time that the calling thread has used, in nanoseconds.
///
/// The thread's own clock and not the time-stamp counter: a full handshake is long enough to be
/// interrupted, and on a busy machine the counter would bill us for whoever interrupted. A reading
/// costs a system call, 0.3 to 0.7 us, against sides of 150 us and more with two or three readings
/// each; the bias is below 1 % and the same for every provider.
pub fn thread_cpu_ns() -> u64 {
    cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of this process, ended ones included, in nanoseconds.
pub fn process_cpu_ns() -> u64 {
    cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of all threads of another process, ended ones included, in nanoseconds; nothing where there is no such process.
pub fn cpu_ns_of(process: u32) -> Option<u64> {
    let mut clock = 0;
    // SAFETY: `clock` is a valid, writable clock id for the duration of the call.
    let status = unsafe { libc::clock_getcpuclockid(process.try_into().ok()?, &mut clock) };
    Some(clock).filter(|_| status == 0).map(cpu_ns)
}

fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec for the duration of the call.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    // Every Linux has these clocks; a failure would show as zero CPU time, which the caller refuses.
    debug_assert_eq!(status, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPUINFO: &str = "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\n\
        model name\t: Some CPU\nflags\t\t: fpu avx2 avx512f sha_ni\n\nprocessor\t: 1\n";

    #[test]
    fn the_processor_is_named_with_family_and_model() {
        assert_eq!(cpu_name(CPUINFO), "Some CPU (family 25, model 17)");
        assert_eq!(cpu_name(""), std::env::consts::ARCH);
    }

    #[test]
    fn time_of_another_process_is_told_while_it_is_there() {
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(cpu_ns_of(std::process::id()).is_some_and(|ns| ns > 0));
        assert!(cpu_ns_of(other.id()).is_some());
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(cpu_ns_of(other.id()), None);
    }

    #[test]
    fn only_known_features_are_kept() {
        assert_eq!(features(CPUINFO), ["avx2", "sha_ni", "avx512f"]);
    }

    #[test]
    fn this_machine_has_a_core_and_a_compiler() {
        let machine = Machine::detect();
        assert!(machine.cores >= 1);
        assert!(machine.compiler.starts_with("rustc "), "{}", machine.compiler);
    }

    #[test]
    fn cpu_time_does_not_pass_while_asleep() {
        let start = thread_cpu_ns();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(thread_cpu_ns() - start < 10_000_000);
    }
}
