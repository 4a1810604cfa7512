//! Constant time by reading machine code: the AVX-512 kernels, which valgrind can't run, the AVX2
//! ones, and the comparison and choice of decapsulation, in the shipped module.
//!
//!     scan OBJECT ALLOW-LIST    0 if no secret reaches a branch, an address or a division
//!     scan --demo               0 if each function here that leaks on purpose is flagged
//!
//! ```text
//!   objdump -d --> asm: functions of instructions --> flow: which registers hold data, to the
//!   fixed point over all paths --> findings, less what the allow list explains
//! ```
//!
//! Arguments of a kernel are public: pointers, lengths, parameters. Values loaded through them are
//! data. Data may not decide a jump, be part of an address, or be divided. Divisions, gathers,
//! scatters and indirect jumps are findings whatever they work on. Functions in `_vartime` are left
//! out: rejection sampling, in values that the standard makes public.
//!
//! Portable kernels, which memcheck runs, are read for divisions alone: memcheck sees none, and none is there.
//!
//! In addition, a function that hashes by the SHA extensions may not use registers wider than
//! theirs.
//!
//! Not seen: what happens in a callee with data that it got by value, and data that is written to
//! the stack through a pointer and read back another way.

mod asm;
mod flow;
mod leaky;

use std::collections::BTreeMap;
use std::process::{Command, ExitCode};

use asm::Function;
use flow::{ARGUMENTS, Finding, Model};

/// Functions that must be there; if one is gone, nothing would be checked and nothing found.
const EXPECTED: &[&str] = &[
    // With the permutations, which are taken in.
    "gabion_backend::avx512::keccak::sponge::sponge_many",
    "gabion_backend::avx512::keccak::sponge::run_alone",
    "gabion_backend::avx512::lattice::kem_ntt::ntt",
    "gabion_backend::avx512::lattice::kem_ntt::inv_ntt",
    "gabion_backend::avx512::lattice::kem_ntt::matvec",
    "gabion_backend::avx512::lattice::kem_ntt::to_mont",
    "gabion_backend::avx512::lattice::kem_ntt::add",
    "gabion_backend::avx512::lattice::kem_ntt::sub_from",
    "gabion_backend::avx512::lattice::kem_pack::cbd",
    "gabion_backend::avx512::lattice::kem_sample::sample_cbd",
    "gabion_backend::avx512::lattice::kem_pack::encode12",
    "gabion_backend::avx512::lattice::kem_pack::decode12",
    "gabion_backend::avx512::lattice::kem_pack::compress",
    "gabion_backend::avx512::lattice::kem_pack::decompress",
    "gabion_backend::avx512::lattice::dsa_ntt::ntt",
    "gabion_backend::avx512::lattice::dsa_ntt::inv_ntt",
    "gabion_backend::avx512::lattice::dsa_ntt::matvec",
    "gabion_backend::avx512::lattice::dsa_ntt::pointwise",
    "gabion_backend::avx512::lattice::dsa_ntt::add",
    "gabion_backend::avx512::lattice::dsa_ntt::sub",
    "gabion_backend::avx512::lattice::dsa_small::add",
    "gabion_backend::avx512::lattice::dsa_small::sub",
    "gabion_backend::avx512::lattice::dsa_round::power2round",
    "gabion_backend::avx512::lattice::dsa_round::decompose",
    "gabion_backend::avx512::lattice::dsa_round::make_hint",
    "gabion_backend::avx512::lattice::dsa_round::norm_below",
    "gabion_backend::avx512::lattice::dsa_pack::simple_bit_pack",
    "gabion_backend::avx512::lattice::dsa_pack::bit_pack",
    "gabion_backend::avx512::lattice::dsa_pack::bit_unpack",
    // With the hash of a block of SHAKE256, which is taken in.
    "gabion_backend::avx512::slh::chain_many",
    "gabion_backend::avx512::slh::shake::hash_nodes",
    "gabion_backend::avx512::slh::fors::shake",
    "gabion_backend::avx512::slh::fors::sha256",
    "gabion_backend::avx512::slh::fors::sha2",
    "gabion_backend::avx512::sha2::sha256_lanes::advance",
    "gabion_backend::avx512::hbs::xmss::compress",
    "gabion_backend::avx512::slh::sha256::hash",
    "gabion_backend::avx512::slh::sha256::run_together",
    "gabion_backend::avx512::sha2::sha512::compress",
    "gabion_backend::avx512::sha2::sha512::hash_whole",
    "gabion_backend::avx512::sha2::sha512_one::compress",
    "gabion_backend::avx512::sha2::sha512_one::compress_two",
    "gabion_backend::x86::sha_ni::compress",
    "gabion_backend::x86::sha_ni::advance",
    "gabion_backend::x86::sha_ni::compress_rows",
    "gabion_backend::x86::sha_ni::hash",
    "gabion_backend::x86::sha_ni::hash_nodes",
    "gabion_backend::avx512::slh::hash_many",
    "gabion_backend::avx512::curve25519::ed25519::base_multiples",
    "gabion_backend::avx512::curve25519::x25519::base_multiples",
    "gabion_backend::avx512::curve25519::x25519::multiples",
    "gabion_backend::avx512::curve25519::x25519_one::multiple",
    // Of one element or point, for keys and signatures.
    "gabion_backend::avx512::curve25519::quad25519::invert",
    "gabion_backend::avx512::curve25519::quad25519::power_250",
    "gabion_backend::avx2::kem_ntt::ntt",
    "gabion_backend::avx2::kem_ntt::inv_ntt",
    "gabion_backend::avx2::kem_ntt::matvec",
    "gabion_backend::avx2::kem_pack::cbd",
    "gabion_backend::avx2::kem_pack::encode12",
    "gabion_backend::avx2::kem_pack::decode12",
    "gabion_backend::avx2::kem_pack::compress",
    "gabion_backend::avx2::kem_pack::decompress",
    "gabion_backend::avx2::dsa_ntt::ntt",
    "gabion_backend::avx2::dsa_ntt::inv_ntt",
    "gabion_backend::avx2::dsa_ntt::matvec",
    "gabion_backend::avx2::dsa_ntt::pointwise",
    "gabion_backend::avx2::dsa_round::norm_below",
    "gabion_backend::avx2::dsa_round::add_small",
    "gabion_backend::avx2::dsa_round::sub_small",
    "gabion_backend::avx2::dsa_pack::simple_bit_pack",
    "gabion_backend::avx2::dsa_pack::bit_pack",
    "gabion_backend::avx2::dsa_pack::bit_unpack",
    "gabion_backend::avx2::sha256::compress",
    "gabion_backend::avx2::sha256::advance",
    "gabion_backend::avx2::sha512::compress",
    "gabion_backend::avx2::elementwise::kem_to_mont",
    "gabion_backend::avx2::elementwise::kem_add",
    "gabion_backend::avx2::elementwise::kem_sub_from",
    "gabion_backend::avx2::elementwise::dsa_add",
    "gabion_backend::avx2::elementwise::dsa_sub",
    "gabion_backend::avx2::elementwise::dsa_power2round",
    "gabion_backend::avx2::elementwise::dsa_decompose",
    "gabion_backend::avx2::elementwise::dsa_make_hint",
    // With the comparison and the choice, called or taken in.
    "gabion_scheme::ml_kem::flow::same",
    "gabion_scheme::ml_kem::flow::choose",
    // For divisions alone.
    "<gabion_backend::portable::Portable as gabion_scheme::kernels::Kernels>::kem_compress",
    "<gabion_backend::portable::Portable as gabion_scheme::kernels::Kernels>::kem_encode12",
    "<gabion_backend::portable::Portable as gabion_scheme::kernels::Kernels>::kem_ntt",
    "<gabion_backend::portable::Portable as gabion_scheme::kernels::Kernels>::dsa_decompose",
    "<gabion_backend::portable::Portable as gabion_scheme::kernels::Kernels>::dsa_make_hint",
    "<gabion_backend::portable::Portable as gabion_scheme::kernels::Kernels>::dsa_bit_pack",
    "<gabion_backend::portable::Portable as gabion_scheme::kernels::Kernels>::dsa_ntt",
];

/// Returns whether a function is a portable kernel, which is read for divisions alone.
fn is_portable(name: &str) -> bool {
    name.trim_start_matches('<').starts_with("gabion_backend::portable::")
        && !name.contains("_vartime")
}

/// Functions that schedule sponges, and which of their arguments point to descriptions of jobs and
/// lanes; the others point to states and to staged bytes. A function of the module `sponge` that is
/// not listed is read as a kernel, in which a jump on a length from a description is a finding.
const SPONGES: &[(&str, &[usize])] = &[
    ("sponge_many", &[ARGUMENTS[0]]),
    ("stage_block", &[ARGUMENTS[0], ARGUMENTS[1]]),
    ("stage_short", &[ARGUMENTS[1]]),
    ("run_in_step", &[ARGUMENTS[2], ARGUMENTS[4]]),
    ("run_alone", &[ARGUMENTS[1], ARGUMENTS[2]]),
    ("absorb", &[ARGUMENTS[1], ARGUMENTS[3]]),
    ("squeeze", &[ARGUMENTS[1], ARGUMENTS[3]]),
    ("compact", &[ARGUMENTS[1], ARGUMENTS[2]]),
    ("Queue::pop", &[ARGUMENTS[0], ARGUMENTS[1]]),
    ("Queue::advance", &[ARGUMENTS[0], ARGUMENTS[1]]),
    ("class", &[ARGUMENTS[0]]),
];

/// Kernels that take descriptions of jobs, and which of their arguments point to them.
const SAMPLERS: &[(&str, &[usize])] = &[("lattice::kem_sample::sample_cbd", &[ARGUMENTS[1]])];

/// Functions that distribute the hashes of SLH-DSA, LMS and XMSS over lanes. They follow
/// descriptions of jobs to contexts and from there to lengths, so they are analysed as flows; the
/// hash functions are separate kernels.
const HASHES: &[&str] = &[
    "avx512::slh::chain_many",
    "avx512::slh::hash_many",
    "avx512::slh::sha256::",
    "avx512::slh::fors::",
    "avx512::slh::fors_many",
    "avx512::slh::sha512::",
    "avx512::slh::shake::hash",
    "avx2::sha256::hash",
    "avx512::hbs::",
    "avx512::sha2::sha512::hash",
    "avx512::sha2::sha512::absorb",
    "x86::sha_ni::Lanes::begin",
    "x86::sha_ni::chain_many",
    "x86::sha_ni::hash",
    "x86::sha_ni::lms_hash",
    "x86::sha_ni::xmss_",
];

/// Returns how a function's inputs are to be read; none if it is not scanned.
fn model(name: &str) -> Option<Model> {
    let within = |set| name.trim_start_matches('<').strip_prefix(set);
    let kernel = within("gabion_backend::avx512::").or(within("gabion_backend::avx2::"));
    if name.contains("_vartime") || name.ends_with("::detect") {
        return None;
    }
    // The kernels of LMS and XMSS schedule what hashes, which are functions of their own; they are left to memcheck as
    // well.
    let scheduled =
        ["lms_", "xmss_"].map(|of| format!(" as gabion_scheme::kernels::Kernels>::{of}"));
    if scheduled.iter().any(|kernel| name.contains(kernel)) {
        return None;
    }
    // The schedulers of jobs on AVX2, which mix descriptions with data, are left to memcheck, which
    // runs them.
    let scheduler = within("gabion_backend::avx2::");
    let schedules = |name: &str| {
        ["sponge::", "slh", "lms::", "xmss::", "sha512::hash"]
            .iter()
            .any(|beginning| name.starts_with(beginning))
    };
    if scheduler.is_some_and(schedules) {
        return None;
    }
    for (function, described) in SPONGES {
        if kernel
            .and_then(|kernel| kernel.rsplit_once("sponge::"))
            .is_some_and(|(_, name)| name == *function)
        {
            return Some(Model::Jobs(described));
        }
    }
    if let Some((_, described)) = SAMPLERS.iter().find(|(name, _)| kernel == Some(name)) {
        return Some(Model::Jobs(described));
    }
    let is_hashes = name
        .strip_prefix("gabion_backend::")
        .is_some_and(|name| HASHES.iter().any(|hashes| name.starts_with(hashes)));
    if is_hashes {
        return Some(Model::Flow);
    }
    let is_choice = [
        "gabion_scheme::ct::eq_mask",
        "gabion_scheme::ct::select",
        "gabion_scheme::ml_kem::flow::same",
        "gabion_scheme::ml_kem::flow::choose",
    ]
    .contains(&name);
    let is_sha_ni =
        ["gabion_backend::x86::sha_ni::advance", "gabion_backend::x86::sha_ni::compress"]
            .iter()
            .any(|kernel| name.starts_with(kernel));
    (kernel.is_some() || is_sha_ni || is_choice).then_some(Model::Kernel)
}

/// Returns objdump's output for an object.
fn objdump(arguments: &[&str], object: &str) -> Result<String, String> {
    let output = Command::new("objdump")
        .args(arguments)
        .arg(object)
        .output()
        .map_err(|error| format!("objdump can't be run ({error}); it is part of binutils"))?;
    if !output.status.success() {
        let reason = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("objdump {object}: {reason}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn disassemble(object: &str) -> Result<Vec<Function>, String> {
    let code = ["-d", "-C", "-M", "intel", "--no-show-raw-insn", "-w"];
    let mut functions = asm::parse(&objdump(&code, object)?);
    asm::bind(&mut functions, &objdump(&["-R"], object)?);
    Ok(functions)
}

/// The allow list: `FUNCTION KIND COUNT REASON`, one a line; `#` begins a comment.
fn allowances(text: &str) -> Result<BTreeMap<(String, String), usize>, String> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            match fields[..] {
                [function, kind, count, _, ..] => {
                    let count = count.parse().map_err(|_| format!("not a count: {line}"))?;
                    Ok(((function.to_owned(), kind.to_owned()), count))
                }
                _ => Err(format!("expected FUNCTION KIND COUNT REASON, not: {line}")),
            }
        })
        .collect()
}

/// Prints what is wrong and says how many functions passed and failed.
fn judge(
    functions: &[Function],
    allowed: &BTreeMap<(String, String), usize>,
) -> Result<(usize, usize), String> {
    let (mut passed, mut failed) = (0, 0);
    for function in functions {
        let findings = match model(&function.name) {
            Some(model) => flow::findings(function, model)?,
            None if is_portable(&function.name) => flow::divisions(function),
            None => continue,
        };
        let mut kinds: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
        for finding in &findings {
            kinds.entry(finding.kind).or_default().push(finding);
        }
        kinds.retain(|kind, found| {
            let key = (function.name.clone(), (*kind).to_owned());
            found.len() > allowed.get(&key).copied().unwrap_or(0)
        });
        for (kind, found) in &kinds {
            eprintln!("{}: {kind}, {} times:", function.name, found.len());
            for finding in found {
                eprintln!("    {:x}: {}", finding.address, finding.text);
            }
        }
        if kinds.is_empty() {
            passed += 1;
        } else {
            failed += 1;
        }
    }
    for expected in EXPECTED {
        if !functions.iter().any(|function| function.name == *expected) {
            eprintln!("{expected}: not in the object, so not checked");
            failed += 1;
        }
    }
    Ok((passed, failed))
}

/// Returns whether each leaky function is flagged, and the one that is not leaky is not.
fn demo() -> Result<(usize, usize), String> {
    leaky::keep();
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let functions = disassemble(&own.to_string_lossy())?;
    let (mut passed, mut failed) = (0, 0);
    for (name, expected) in leaky::EXPECTED {
        let suffix = format!("::leaky::{name}");
        let function = functions.iter().find(|f| f.name.ends_with(&suffix));
        let function = function.ok_or(format!("{suffix} is not in this program"))?;
        let found = flow::findings(function, Model::Kernel)?;
        let seen = match expected {
            Some(kind) => found.iter().any(|finding| finding.kind == *kind),
            None => found.is_empty(),
        };
        // Read for divisions alone, the function that divides is flagged and no other is.
        let divides = !flow::divisions(function).is_empty();
        if seen && divides == (*expected == Some("division")) {
            passed += 1;
        } else {
            failed += 1;
            eprintln!("{name}: expected {expected:?}, found {found:?}, divides: {divides}");
        }
    }
    Ok((passed, failed))
}

fn run() -> Result<(usize, usize), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [mode] if mode == "--demo" => demo(),
        [object, list] => {
            let text = std::fs::read_to_string(list).map_err(|error| format!("{list}: {error}"))?;
            judge(&disassemble(object)?, &allowances(&text)?)
        }
        _ => Err("expected `scan OBJECT ALLOW-LIST` or `scan --demo`".to_owned()),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok((passed, failed)) => {
            println!("{passed} passed, {failed} failed");
            ExitCode::from(u8::from(failed > 0 || passed == 0))
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
