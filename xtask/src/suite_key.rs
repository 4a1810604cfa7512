//! Keys of the test cache. The key of a deep suite is a hash over everything that decides its result: the content of
//! the files it is built from, the tools it runs, the processor, and the variables that change a build or a run.
//! Neither the place of the checkout nor a commit or a file's time is part of it, so that clones share results.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The dependencies of a suite.
struct Suite {
    name: &'static str,
    /// Packages it builds; those they depend on in this workspace belong to them.
    packages: &'static [&'static str],
    /// Folders and files outside of these packages.
    paths: &'static [&'static str],
    /// Commands whose versions decide the result.
    tools: &'static [&'static [&'static str]],
    /// Whether it runs against the OpenSSL of `GABION_OPENSSL_PREFIX`.
    uses_bundle: bool,
}

const COMPILERS: &[&[&str]] = &[&["cc", "--version"], &["c++", "--version"], &["ld", "--version"]];

/// The suites whose results are kept. `script/test` has the same names.
const SUITES: &[Suite] = &[
    Suite {
        name: "ctgrind",
        packages: &["gabion-ctgrind", "gabion-backend"],
        paths: &[],
        tools: &[&["valgrind", "--version"]],
        uses_bundle: false,
    },
    Suite {
        name: "asan",
        packages: &["gabion-scheme", "gabion-backend", "gabion-engine"],
        paths: &["tests/memory/asan.sh"],
        tools: &[],
        uses_bundle: false,
    },
    Suite {
        name: "interleavings",
        packages: &["gabion-engine", "gabion-provider"],
        paths: &[],
        tools: &[],
        uses_bundle: false,
    },
    Suite {
        name: "scan",
        packages: &["gabion-scan", "gabion-provider"],
        paths: &["tests/constant-time/scan.sh", "tests/constant-time/scan-allowed.txt"],
        tools: &[&["objdump", "--version"]],
        uses_bundle: false,
    },
    Suite {
        name: "malformed",
        packages: &["gabion-cli", "gabion-provider"],
        paths: &["tests/interop", "tests/servers"],
        tools: &[&["go", "version"], &["perl", "-e", "print $]"]],
        uses_bundle: true,
    },
    Suite {
        name: "reproducible",
        packages: &["gabion-provider", "gabion-capi"],
        paths: &[
            "script/dist",
            "script/dist-check",
            "script/tools",
            "tests/packages/reproducible.sh",
        ],
        tools: &[],
        uses_bundle: false,
    },
    Suite {
        name: "survival",
        packages: &["gabion-cli", "gabion-provider"],
        paths: &["packaging", "script/dist", "script/tools", "tests/packages", "tests/packages.sh"],
        tools: &[],
        uses_bundle: false,
    },
    Suite {
        name: "kernels",
        packages: &[],
        paths: &["backend/cuda/kernels", "backend/cuda/emulator", "tests/cuda"],
        tools: &[&["valgrind", "--version"]],
        uses_bundle: false,
    },
    Suite {
        name: "cuda",
        packages: &["gabion-cuda-emulator"],
        paths: &["backend/cuda/kernels"],
        tools: &[],
        uses_bundle: false,
    },
    Suite {
        name: "examples",
        packages: &["gabion-rustls-examples"],
        paths: &[],
        tools: &[],
        uses_bundle: false,
    },
    Suite {
        name: "families",
        packages: &["gabion-engine"],
        paths: &[],
        tools: &[],
        uses_bundle: false,
    },
];

/// The dependencies of every suite: the build's settings and the scripts that run it.
const COMMON: &[&str] =
    &["Cargo.toml", "Cargo.lock", "script/openssl", "script/setup", "script/steps", "script/test"];

/// Variables that change what is built or run, by how their names begin.
const VARIABLES: &[&str] = &[
    "ASAN_",
    "CARGO_",
    "CC",
    "CFLAGS",
    "CPPFLAGS",
    "CXX",
    "GABION_",
    "GLIBC_TUNABLES",
    "GO",
    "LDFLAGS",
    "LD_",
    "LSAN_",
    "MALLOC_",
    "OPENSSL_",
    "RUST",
    "UBSAN_",
    "VALGRIND_",
];

/// Variables of these that name a place or a number of jobs, or that `script/test` sets by itself.
const VARIABLES_LEFT_OUT: &[&str] = &[
    "CARGO",
    "CARGO_HOME",
    "CARGO_INCREMENTAL",
    "CARGO_MANIFEST_DIR",
    "CARGO_MANIFEST_PATH",
    "CARGO_TARGET_DIR",
    "GABION_BUILT",
    "GABION_COMMIT",
    "GABION_OPENSSL_PREFIX",
    "GABION_TEST_NEEDS_BUNDLE",
    "GOPATH",
    "GOROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_RECURSION_COUNT",
];

/// Returns the key of a suite in hexadecimal.
///
/// # Errors
/// A text that says what could not be read: without everything there is no key, and the suite runs.
pub fn key(root: &Path, name: &str) -> Result<String, String> {
    let suite = SUITES.iter().find(|suite| suite.name == name).ok_or_else(|| {
        let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
        format!("no cached suite `{name}`; expected one of {}", names.join(", "))
    })?;
    let mut hash = Sha256::new();
    let mut part = |title: &str, content: &[u8]| {
        hash.update((title.len() as u64).to_le_bytes());
        hash.update(title);
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    };
    part("suite", name.as_bytes());
    for file in files(root, suite)? {
        part(&file.to_string_lossy(), &content(&root.join(&file))?);
    }
    part("rustc", &output(Command::new("rustc").arg("-vV"))?);
    for tool in COMPILERS.iter().chain(suite.tools) {
        if let [program, arguments @ ..] = *tool {
            part(program, &output(Command::new(program).args(arguments))?);
        }
    }
    part("libc", &output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?);
    part("kernel", &output(Command::new("uname").arg("-srm"))?);
    part("processor", processor()?.as_bytes());
    for (variable, value) in variables() {
        part(&variable, value.as_bytes());
    }
    for (index, config) in cargo_configs(root).iter().enumerate() {
        part(&format!("cargo's configuration {index}"), &content(config)?);
    }
    if suite.uses_bundle {
        part("bundle", bundle()?.as_bytes());
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The files a suite depends on, relative to the root, in order.
fn files(root: &Path, suite: &Suite) -> Result<BTreeSet<PathBuf>, String> {
    let metadata: Value = serde_json::from_slice(&output(
        Command::new("cargo")
            .args(["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"])
            .current_dir(root),
    )?)
    .map_err(|error| format!("cargo metadata: {error}"))?;
    let packages = Packages::read(root, &metadata)?;
    let within = packages.closure(suite.packages)?;
    // Suites build with the features that all members ask for together, so every manifest counts.
    let mut found: BTreeSet<PathBuf> =
        packages.folders.values().map(|folder| folder.join("Cargo.toml")).collect();
    for package in &within {
        let folder = &packages.folders[*package];
        let nested: Vec<&PathBuf> = (packages.folders.iter())
            .filter(|(name, other)| {
                !within.contains(name.as_str()) && *other != folder && other.starts_with(folder)
            })
            .map(|(_, other)| other)
            .collect();
        let all = listed(root, folder)?;
        found.extend(
            all.into_iter().filter(|file| !nested.iter().any(|other| file.starts_with(other))),
        );
    }
    for path in COMMON.iter().chain(suite.paths) {
        let all = listed(root, Path::new(path))?;
        if all.is_empty() {
            return Err(format!("{path}: expected a file or folder of this repository"));
        }
        found.extend(all);
    }
    Ok(found)
}

/// The packages of the workspace: their folders relative to the root, and their dependencies among
/// themselves.
struct Packages {
    folders: BTreeMap<String, PathBuf>,
    dependencies: BTreeMap<String, Vec<(String, bool)>>,
}

impl Packages {
    fn read(root: &Path, metadata: &Value) -> Result<Self, String> {
        let root =
            fs::canonicalize(root).map_err(|error| format!("{}: {error}", root.display()))?;
        let mut packages = Self { folders: BTreeMap::new(), dependencies: BTreeMap::new() };
        for package in metadata["packages"].as_array().into_iter().flatten() {
            let (Some(name), Some(manifest)) =
                (package["name"].as_str(), package["manifest_path"].as_str())
            else {
                continue;
            };
            let folder = Path::new(manifest).parent().unwrap_or(Path::new(""));
            let folder =
                fs::canonicalize(folder).map_err(|error| format!("{manifest}: {error}"))?;
            let folder =
                folder.strip_prefix(&root).map_err(|error| format!("{manifest}: {error}"))?;
            packages.folders.insert(name.to_owned(), folder.to_path_buf());
            let dependencies = (package["dependencies"].as_array().into_iter().flatten())
                .filter(|dependency| dependency["path"].is_string())
                .filter_map(|dependency| {
                    let name = dependency["name"].as_str()?.to_owned();
                    Some((name, dependency["kind"].as_str() == Some("dev")))
                })
                .collect();
            packages.dependencies.insert(name.to_owned(), dependencies);
        }
        Ok(packages)
    }

    /// These packages, whose tests may be built as well, and all that they depend on.
    fn closure<'a>(&'a self, names: &[&str]) -> Result<BTreeSet<&'a str>, String> {
        let mut found = BTreeSet::new();
        let mut waiting: Vec<(&str, bool)> = names.iter().map(|name| (*name, true)).collect();
        let mut seen = BTreeSet::new();
        while let Some((name, has_tests)) = waiting.pop() {
            if !seen.insert((name.to_owned(), has_tests)) {
                continue;
            }
            let (name, dependencies) = self
                .dependencies
                .get_key_value(name)
                .ok_or_else(|| format!("the workspace has no package `{name}`"))?;
            found.insert(name.as_str());
            for (dependency, is_dev) in dependencies {
                if has_tests || !is_dev {
                    waiting.push((dependency, false));
                }
            }
        }
        Ok(found)
    }
}

/// The files under a path that git tracks or would track, relative to the root.
fn listed(root: &Path, path: &Path) -> Result<Vec<PathBuf>, String> {
    let out = output(
        Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"])
            .arg(path)
            .current_dir(root),
    )?;
    let text = String::from_utf8(out).map_err(|error| format!("git ls-files: {error}"))?;
    // A tracked file that was removed is listed still.
    Ok((text.split('\0').filter(|name| !name.is_empty()).map(PathBuf::from))
        .filter(|file| root.join(file).symlink_metadata().is_ok())
        .collect())
}

/// The content of a file, and whether it can be run; of a link where it leads.
fn content(path: &Path) -> Result<Vec<u8>, String> {
    use std::os::unix::fs::PermissionsExt;
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let metadata = path.symlink_metadata().map_err(failed)?;
    if metadata.is_symlink() {
        let target = fs::read_link(path).map_err(failed)?;
        return Ok(format!("link to {}", target.display()).into_bytes());
    }
    let mut bytes = vec![u8::from(metadata.permissions().mode() & 0o100 != 0)];
    bytes.extend(fs::read(path).map_err(failed)?);
    Ok(bytes)
}

/// Returns the standard output of a command.
fn output(command: &mut Command) -> Result<Vec<u8>, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    Ok(output.stdout)
}

/// Returns the processor's model and features, of the first one that the kernel lists.
fn processor() -> Result<String, String> {
    let text =
        fs::read_to_string("/proc/cpuinfo").map_err(|error| format!("/proc/cpuinfo: {error}"))?;
    let first = text.split("\n\n").next().unwrap_or_default();
    let kept = [
        "vendor_id",
        "cpu family",
        "model",
        "stepping",
        "microcode",
        "flags",
        "bugs",
        "CPU ",
        "Features",
    ];
    Ok(first.lines().filter(|line| kept.iter().any(|name| line.starts_with(name))).collect())
}

/// The variables of this process that change a build or a run.
fn variables() -> BTreeMap<String, String> {
    env::vars()
        .filter(|(name, _)| VARIABLES.iter().any(|begin| name.starts_with(begin)))
        .filter(|(name, _)| {
            // Cargo sets these for xtask itself.
            !VARIABLES_LEFT_OUT.contains(&name.as_str()) && !name.starts_with("CARGO_PKG_")
        })
        .collect()
}

/// Cargo's configuration files that hold for the root, from the nearest outwards.
fn cargo_configs(root: &Path) -> Vec<PathBuf> {
    let root = fs::canonicalize(root).unwrap_or_else(|_| root.to_path_buf());
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    (root.ancestors().map(|folder| folder.join(".cargo")).chain(home))
        .flat_map(|folder| [folder.join("config.toml"), folder.join("config")])
        .filter(|file| file.is_file())
        .collect()
}

/// Returns the inputs of the bundle under test, without its location and build time.
fn bundle() -> Result<String, String> {
    let prefix = env::var_os("GABION_OPENSSL_PREFIX").ok_or("GABION_OPENSSL_PREFIX is not set")?;
    let file = Path::new(&prefix).join("gabion-bundle.json");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let manifest: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
    let options: Vec<&str> = (manifest["options"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .filter(|option| !option.contains('/'))
        .collect();
    let identity = ["version", "source_sha256", "fips_module", "core_patch_sha256"]
        .map(|field| manifest[field].to_string());
    Ok(format!("{} {}", identity.join(" "), options.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn files_of(name: &str) -> BTreeSet<PathBuf> {
        let suite = SUITES.iter().find(|suite| suite.name == name).unwrap();
        files(&root(), suite).unwrap()
    }

    #[test]
    fn every_suite_depends_on_the_packages_it_builds_and_on_theirs() {
        let of_ctgrind = files_of("ctgrind");
        for file in [
            "scheme/src/lib.rs",
            "backend/src/lib.rs",
            "backend/build.rs",
            "backend/cuda/src/lib.rs",
            "engine/Cargo.toml",
            "tests/constant-time/ctgrind.sh",
            "Cargo.lock",
        ] {
            assert!(of_ctgrind.contains(Path::new(file)), "{file}");
        }
        assert!(of_ctgrind.contains(Path::new("kms/core/Cargo.toml")));
        for file in ["kms/core/src/lib.rs", "backend/cuda/emulator/build.rs", "README.md"] {
            assert!(!of_ctgrind.contains(Path::new(file)), "{file}");
        }
        assert!(files_of("malformed").contains(Path::new("kms/server/src/lib.rs")));
        assert!(files_of("interleavings").contains(Path::new("front/provider/src/lib.rs")));
    }

    #[test]
    fn the_suites_are_the_deep_ones_of_the_script() {
        let script = fs::read_to_string(root().join("script/test")).unwrap();
        let line = script.lines().find_map(|line| line.strip_prefix("deep_suites='")).unwrap();
        let of_script: BTreeSet<&str> = line.trim_end_matches('\'').split(' ').collect();
        let ours: BTreeSet<&str> = SUITES.iter().map(|suite| suite.name).collect();
        assert_eq!(ours, of_script);
    }

    #[test]
    fn a_link_or_a_mode_is_part_of_the_content() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = env::temp_dir().join(format!("gabion-suite-key-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (file, link) = (folder.join("file"), folder.join("link"));
        fs::write(&file, "text").unwrap();
        symlink("file", &link).unwrap();
        let plain = content(&file).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_ne!(content(&file).unwrap(), plain);
        assert_eq!(content(&link).unwrap(), b"link to file");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_suite_without_a_key_is_named() {
        let error = key(&root(), "tests").unwrap_err();
        assert!(error.starts_with("no cached suite `tests`; expected one of ctgrind"), "{error}");
    }
}
