//! Detects the machine that a program runs on. `gabion doctor` shows it, and every result row carries it.

#![forbid(unsafe_code)]

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
    /// Reads the machine this process runs on. Values that the system does not report are
    /// `"unknown"`.
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
    fn only_known_features_are_kept() {
        assert_eq!(features(CPUINFO), ["avx2", "sha_ni", "avx512f"]);
    }

    #[test]
    fn machine_reports_cores_and_compiler() {
        let machine = Machine::detect();
        assert!(machine.cores >= 1);
        assert!(machine.compiler.starts_with("rustc "), "{}", machine.compiler);
    }
}
