//! Common parts of the provider's tests: an OpenSSL to run, a configuration that names the module
//! under test, and the counters that show which provider did the work.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // A panic is how a test fails.

pub mod hss;
pub mod libcrypto;
pub mod libssl;
mod store;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use gabion_provider_stats::{self as stats, Snapshot};

use libcrypto::{Context, Libcrypto, Params};

/// The queries that ask for one provider and no other.
pub const OURS: &str = "provider=gabion";
/// The query for the default provider.
pub const STOCK: &str = "provider=default";

/// libcrypto of the OpenSSL under test.
pub static LIB: LazyLock<Libcrypto> = LazyLock::new(|| Libcrypto::load(&prefix()));

/// The parameter sets by OpenSSL's names.
pub const KEMS: [&str; 3] = ["ML-KEM-512", "ML-KEM-768", "ML-KEM-1024"];
/// The parameter sets by OpenSSL's names.
pub const SIGNATURES: [&str; 3] = ["ML-DSA-44", "ML-DSA-65", "ML-DSA-87"];
/// The parameter sets by OpenSSL's names, with n of FIPS 205, table 2.
pub const SLH_DSA: [(&str, usize); 12] = [
    ("SLH-DSA-SHA2-128s", 16),
    ("SLH-DSA-SHA2-128f", 16),
    ("SLH-DSA-SHA2-192s", 24),
    ("SLH-DSA-SHA2-192f", 24),
    ("SLH-DSA-SHA2-256s", 32),
    ("SLH-DSA-SHA2-256f", 32),
    ("SLH-DSA-SHAKE-128s", 16),
    ("SLH-DSA-SHAKE-128f", 16),
    ("SLH-DSA-SHAKE-192s", 24),
    ("SLH-DSA-SHAKE-192f", 24),
    ("SLH-DSA-SHAKE-256s", 32),
    ("SLH-DSA-SHAKE-256f", 32),
];
/// The algorithms that the default provider lacks, with the longest signature.
pub const OURS_ALONE: [(&str, usize); 10] = [
    ("Falcon-512", 752),
    ("Falcon-1024", 1462),
    ("Falcon-padded-512", 666),
    ("Falcon-padded-1024", 1280),
    ("FN-DSA-512-draft", 666),
    ("FN-DSA-1024-draft", 1280),
    ("MLDSA44-Ed25519-SHA512-draft19", 2484),
    ("MLDSA65-ECDSA-P384-SHA512-draft19", 3413),
    ("MLDSA87-ECDSA-P521-SHA512-draft19", 4766),
    ("MLDSA44-RSA2048-PSS-SHA256-draft19", 2676),
];

/// The registered hybrid groups, which the default provider has too.
pub const GROUPS: [&str; 3] = ["X25519MLKEM768", "SecP256r1MLKEM768", "SecP384r1MLKEM1024"];
/// The private groups and those of a draft, which only ours has.
pub const PRIVATE_GROUPS: [&str; 4] =
    ["SecP256r1MLKEM512", "SecP384r1MLKEM768", "SecP521r1MLKEM1024", "MLKEM512X25519"];

/// The provider whose cryptography a command uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The default provider alone.
    Stock,
    /// The default provider and ours, ours preferred.
    Gabion,
}

/// Both directions.
pub const BOTH_WAYS: [(Side, Side); 2] = [(Side::Stock, Side::Gabion), (Side::Gabion, Side::Stock)];

/// Client and server of every mix.
pub const EVERY_WAY: [(Side, Side); 4] = [
    (Side::Gabion, Side::Stock),
    (Side::Stock, Side::Gabion),
    (Side::Gabion, Side::Gabion),
    (Side::Stock, Side::Stock),
];

/// Returns the prefix of the OpenSSL under test, which all tests require.
pub fn prefix() -> PathBuf {
    let prefix = match std::env::var_os("GABION_OPENSSL_PREFIX") {
        Some(prefix) => PathBuf::from(prefix),
        None => {
            let home = std::env::var_os("HOME").expect("HOME is set");
            newest_bundle(&Path::new(&home).join(".cache/gabion/openssl"))
        }
    };
    assert!(
        prefix.join("bin/openssl").is_file(),
        "no OpenSSL bundle in {}: build it with `gabion bundle build`, or name another OpenSSL 3.5 \
         or newer in GABION_OPENSSL_PREFIX",
        prefix.display()
    );
    prefix
}

/// Returns the newest bundle of the 3.5 line, as `gabion exec` selects it; otherwise the path where
/// one would be.
fn newest_bundle(cache: &Path) -> PathBuf {
    let release = |name: &str| name.strip_prefix("bundle-3.5.")?.parse::<u32>().ok();
    let entries = std::fs::read_dir(cache).into_iter().flatten().flatten();
    let bundles = entries.filter(|entry| entry.path().join("gabion-bundle.json").is_file());
    let numbered =
        bundles.filter_map(|entry| Some((release(entry.file_name().to_str()?)?, entry.path())));
    numbered.max().map_or_else(|| cache.join("bundle-3.5"), |(_, place)| place)
}

/// Returns the module under test: cargo puts it into the folder of the test program.
pub fn module() -> PathBuf {
    let program = std::env::current_exe().expect("the test program has a path");
    let module = program.with_file_name("libgabion_provider.so");
    assert!(module.is_file(), "{} is not there; cargo builds it with the tests", module.display());
    module
}

/// Names another installed OpenSSL: what the test that starts its process again sets.
const OTHER: &str = "GABION_TEST_OPENSSL";

/// The OpenSSL that this process loads.
pub fn lib_prefix() -> PathBuf {
    std::env::var_os(OTHER).map_or_else(prefix, PathBuf::from)
}

/// Returns whether this process was started again; a test by that name does nothing otherwise.
pub fn started_again() -> bool {
    std::env::var_os("GABION_STATS").is_some()
}

/// Starts this program again with one ignored test, counting into a file, once for each OpenSSL.
pub fn with_every_openssl(test: &str) {
    let mut prefixes = vec![prefix()];
    let name = prefixes[0].file_name().unwrap().to_string_lossy().into_owned();
    if std::env::var_os("GABION_OPENSSL_PREFIX").is_none() || name.starts_with("bundle-3.5.") {
        let cache = prefixes[0].parent().unwrap();
        prefixes.extend(["3.6.3", "4.0.3"].map(|version| cache.join(version)));
    }
    run_with(test, &prefixes, |prefix| {
        eprintln!("{}: not there; {test} was not run with it", prefix.display());
    });
}

/// Runs the test with OpenSSLs that front/go/script/openssl builds on request.
pub fn with_openssls(test: &str, names: &[&str]) {
    let prefix = prefix();
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/gabion/openssl"));
    // A copy of the bundle lies elsewhere.
    let folders = [prefix.parent().map(Path::to_owned), home];
    for name in names {
        let of = |folder: &PathBuf| folder.join(name);
        let there =
            folders.iter().flatten().map(of).find(|path| path.join("bin/openssl").is_file());
        run_with(test, &[there.unwrap_or_else(|| PathBuf::from(name))], |_| {
            eprintln!("skipped: no OpenSSL {name}; front/go/script/openssl {name} builds it");
        });
    }
}

fn run_with(test: &str, prefixes: &[PathBuf], missing: impl Fn(&Path)) {
    let place = TestFolder::new();
    for (round, prefix) in prefixes.iter().enumerate() {
        if !prefix.join("lib/libssl.so").is_file() {
            missing(prefix);
            continue;
        }
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env(OTHER, prefix)
            .env("GABION_STATS", place.path(&format!("stats{round}")))
            .env_remove("GABION_BACKEND")
            .output()
            .unwrap();
        let text = all_text(&output);
        assert!(output.status.success(), "{}: {text}", prefix.display());
        assert!(text.contains("1 passed"), "{}: {text}", prefix.display());
    }
}

/// A library context with both providers, ours preferred, and the folder that it is configured in.
pub fn both() -> (TestFolder, Context) {
    let place = TestFolder::new();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    (place, context)
}

/// Bytes that differ from call to call and repeat from run to run.
pub fn pattern(len: usize, round: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(151).wrapping_add(round)).collect()
}

/// Returns an empty list of parameters.
pub fn none() -> Params {
    Params::default()
}

/// A test's own folder, with the configuration in it.
pub struct TestFolder {
    folder: tempfile::TempDir,
    prefix: PathBuf,
}

impl TestFolder {
    #[allow(clippy::new_without_default)] // It makes a folder.
    pub fn new() -> Self {
        let place = TestFolder { folder: tempfile::tempdir().unwrap(), prefix: prefix() };
        // In a subfolder, so that the test also owns the parent folder.
        std::fs::create_dir(place.path("")).unwrap();
        std::fs::create_dir(place.path("modules")).unwrap();
        std::fs::copy(module(), place.path("modules/gabion.so")).unwrap();
        let common = "[req]\ndistinguished_name = dn\nx509_extensions = ca\n[dn]\n\
                      [ca]\nbasicConstraints = critical,CA:TRUE\n";
        let gabion = format!(
            "openssl_conf = init\nconfig_diagnostics = 1\n[init]\nproviders = prov\n\
             alg_section = alg\n[prov]\ndefault = def\ngabion = gab\n[def]\nactivate = 1\n\
             [gab]\nmodule = {}\nactivate = 1\n[alg]\ndefault_properties = ?provider=gabion\n",
            place.path("modules/gabion.so").display()
        );
        std::fs::write(place.path("stock.cnf"), common).unwrap();
        std::fs::write(place.path("gabion.cnf"), format!("{gabion}{common}")).unwrap();
        place
    }

    /// A configuration for the FIPS module of this OpenSSL, as the bundle's own one: `fips=yes` is the
    /// default property. None where this OpenSSL was built without the module.
    pub fn fips_configuration(&self) -> Option<PathBuf> {
        let integrity = self.prefix.join("ssl/fipsmodule.cnf");
        if !integrity.is_file() {
            let is_bundle = self.prefix.join("gabion-bundle.json").is_file();
            assert!(!is_bundle, "{} is not there", integrity.display());
            eprintln!("skipped: no FIPS module in {}", self.prefix.display());
            return None;
        }
        let text = format!(
            "openssl_conf = init\nconfig_diagnostics = 1\n.include {}\n[init]\nproviders = prov\n\
             alg_section = alg\n[prov]\nfips = fips_sect\nbase = base_sect\n[fips_sect]\n\
             module = {}\n[base_sect]\nactivate = 1\n[alg]\ndefault_properties = fips=yes\n",
            integrity.display(),
            self.prefix.join("lib/ossl-modules/fips.so").display()
        );
        let path = self.path("fips.cnf");
        std::fs::write(&path, text).unwrap();
        Some(path)
    }

    /// Adds a line to the provider's section of the configuration.
    pub fn configure(&self, line: &str) {
        let config = std::fs::read_to_string(self.path("gabion.cnf")).unwrap();
        let config = config.replace("[gab]\n", &format!("[gab]\n{line}\n"));
        std::fs::write(self.path("gabion.cnf"), config).unwrap();
    }

    /// Names our provider before the default one, in whose order they are loaded.
    pub fn load_ours_first(&self) {
        let config = std::fs::read_to_string(self.path("gabion.cnf")).unwrap();
        let config =
            config.replace("default = def\ngabion = gab\n", "gabion = gab\ndefault = def\n");
        std::fs::write(self.path("gabion.cnf"), config).unwrap();
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    /// A file's bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// An `openssl` command line, words separated by spaces, in the folder.
    pub fn command(&self, side: Side, words: &str) -> Command {
        let mut command = Command::new(self.prefix.join("bin/openssl"));
        let conf = if side == Side::Gabion { "gabion.cnf" } else { "stock.cnf" };
        command
            .args(words.split_whitespace())
            .current_dir(self.path(""))
            .env("LD_LIBRARY_PATH", self.prefix.join("lib"))
            .env("OPENSSL_CONF", self.path(conf))
            .env("OPENSSL_MODULES", self.path("modules"))
            .env("GABION_STATS", self.path("stats"))
            .env_remove("GABION_BACKEND");
        command
    }

    /// Runs a command that must succeed; returns its output.
    pub fn openssl(&self, side: Side, words: &str) -> String {
        let output = self.command(side, words).output().unwrap();
        let text = all_text(&output);
        assert!(output.status.success(), "{side:?}: openssl {words}: {}\n{text}", output.status);
        text
    }

    /// Runs a command that must fail; returns its output.
    pub fn openssl_refuses(&self, side: Side, words: &str) -> String {
        let output = self.command(side, words).output().unwrap();
        let text = all_text(&output);
        let code = output.status.code();
        assert!(matches!(code, Some(1..)), "{side:?}: openssl {words}: {}\n{text}", output.status);
        text
    }

    /// The counters so far; all zero where the provider was never loaded.
    pub fn stats(&self) -> Snapshot {
        let file = self.path("stats");
        if file.exists() { stats::read(&file).unwrap() } else { Snapshot::default() }
    }

    /// Calls and errors so far.
    pub fn count(&self, algorithm: &str, operation: &str) -> (u64, u64) {
        self.stats()
            .rows
            .iter()
            .find(|row| row.algorithm == algorithm && row.operation == operation)
            .map_or((0, 0), |row| (row.calls, row.errors))
    }
}

/// Standard output and standard error of a command.
pub fn all_text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
