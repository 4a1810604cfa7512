//! The C interface: the header, the two libraries, the exported names, the examples.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the path of a library under test: cargo puts both into the folder of the test program.
fn library(name: &str) -> PathBuf {
    let program = std::env::current_exe().expect("the test program has a path");
    let library = program.with_file_name(name);
    assert!(
        library.is_file(),
        "{} is not there; cargo builds it with the tests",
        library.display()
    );
    library
}

fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// A C compiler with every warning an error.
fn compiler(program: &str, standard: &str) -> Command {
    let mut command = Command::new(program);
    command.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1", "-I"]);
    command.arg(folder().join("include"));
    command
}

#[test]
fn header_has_the_sizes_of_the_table() {
    let header = std::fs::read_to_string(folder().join("include/gabion.h")).unwrap();
    let renewed = gabion::header::renewed(&header).expect("the header has its two marks");
    assert!(header == renewed, "run `cargo run -p gabion-capi --example header`");
    assert!(header.contains("#define GABION_ML_DSA_65_SIGNATURE_BYTES 3309\n"));
}

#[test]
fn header_compiles_as_c99_and_as_cpp() {
    let place = tempfile::tempdir().unwrap();
    for (program, standard, name) in [("cc", "-std=c99", "h.c"), ("c++", "-std=c++11", "h.cc")] {
        if Command::new(program).arg("--version").output().is_err() {
            assert_eq!(program, "c++", "there is no C compiler");
            continue;
        }
        let source = place.path().join(name);
        let text = "#include <gabion.h>\n\
                    int main(void) { gabion_message m = GABION_MESSAGE_INIT; return m.prehash != 0; }\n";
        std::fs::write(&source, text).unwrap();
        run(compiler(program, standard).arg("-fsyntax-only").arg(&source));
    }
}

#[test]
fn exports_are_the_listed_names_and_no_others() {
    let output =
        run(Command::new("nm").args(["-D", "--defined-only"]).arg(library("libgabion.so")));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split(' ').nth(2)).collect();
    names.sort_unstable();
    let listed = std::fs::read_to_string(folder().join("exports.txt")).unwrap();
    assert_eq!(names, listed.lines().collect::<Vec<_>>());
    // And every one is declared, but for what the compiler's own checks would miss.
    let header = std::fs::read_to_string(folder().join("include/gabion.h")).unwrap();
    for name in names {
        assert!(header.contains(&format!("{name}(")), "{name} is not in the header");
    }
}

/// Compiles an example with the given way of linking and runs it.
fn example(name: &str, link: &[&std::ffi::OsStr]) -> String {
    program(&Path::new("examples-c").join(name), link)
}

/// Compiles, links and runs any program of this crate.
fn program(name: &Path, link: &[&std::ffi::OsStr]) -> String {
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("program");
    run(compiler("cc", "-std=c99")
        .arg("-D_POSIX_C_SOURCE=200809L")
        .arg(folder().join(name).with_extension("c"))
        .args(link)
        .arg("-o")
        .arg(&program));
    String::from_utf8(run(&mut Command::new(&program)).stdout).unwrap()
}

/// Runs the examples and checks their output.
fn examples(link: &[&std::ffi::OsStr]) {
    assert_eq!(example("kem", link), "both sides have the same 32-byte secret\n");
    let text = example("verify_many", link);
    let expected = "lane 41: the signature does not verify\n63 of 64 signatures verify (";
    assert!(text.starts_with(expected), "{text}");
    let text = example("keys_many", link);
    assert!(text.starts_with("64 of 64 key pairs agree on a secret ("), "{text}");
    assert_eq!(example("misuse", link), "every misuse was refused\n");
}

#[test]
fn memory_that_is_lacking_is_a_status_and_passes() {
    let said = with_the_shared_library(|link| program(Path::new("tests/memory"), link));
    assert_eq!(said, "every allocation was done without\n");
}

#[test]
fn examples_run_with_the_shared_library() {
    with_the_shared_library(examples);
}

/// Calls `with` with what links the shared library.
fn with_the_shared_library<T>(with: impl FnOnce(&[&std::ffi::OsStr]) -> T) -> T {
    // As installation lays it out: the name for the linker, and the one in the library itself.
    let place = tempfile::tempdir().unwrap();
    for name in ["libgabion.so", "libgabion.so.1"] {
        std::os::unix::fs::symlink(library("libgabion.so"), place.path().join(name)).unwrap();
    }
    let search = format!("-L{}", place.path().display());
    let rpath = format!("-Wl,-rpath,{}", place.path().display());
    with(&[search.as_ref(), "-lgabion".as_ref(), rpath.as_ref()])
}

#[test]
fn examples_run_with_the_static_library() {
    let library = library("libgabion.a");
    let rest = ["-lpthread", "-ldl", "-lm", "-lutil", "-lrt"].map(std::ffi::OsStr::new);
    examples(&[&[library.as_os_str()], &rest[..]].concat());
}

/// Returns pkg-config's output for an installation, split into words.
fn pkg_config(prefix: &Path, ask: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")).args(ask).arg("gabion");
    let text = String::from_utf8(run(&mut command).stdout).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Installs the libraries under test as `make install` does.
fn install(place: &Path, variables: &[String]) {
    let built = place.join("built");
    std::fs::create_dir(&built).unwrap();
    for name in ["libgabion.so", "libgabion.a"] {
        std::os::unix::fs::symlink(library(name), built.join(name)).unwrap();
    }
    let root = folder().join("../..");
    run(Command::new("make")
        .arg("-C")
        .arg(root)
        .arg("install-c")
        .arg(format!("RELEASE={}", built.display()))
        .args(variables)
        // A make that runs these tests has its own ideas of where things go.
        .env_remove("MAKEFLAGS")
        .env_remove("DESTDIR")
        .env_remove("PREFIX"));
}

#[test]
fn an_example_builds_by_what_pkg_config_says_of_the_installation() {
    let place = tempfile::tempdir().unwrap();
    let prefix = place.path().join("prefix");
    install(place.path(), &[format!("PREFIX={}", prefix.display())]);
    assert_eq!(pkg_config(&prefix, &["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let source = folder().join("examples-c/kem.c");
    // With the shared library; with the archive in its place, and its dependencies; with everything
    // linked into the program, including libc.
    for (name, is_static) in [("shared", false), ("static", true), ("alone", true)] {
        let ask: &[&str] =
            if is_static { &["--cflags", "--libs", "--static"] } else { &["--cflags", "--libs"] };
        let archive = |word: String| match word.as_str() {
            "-lgabion" if is_static => "-l:libgabion.a".to_owned(),
            _ => word,
        };
        let words = pkg_config(&prefix, ask).into_iter().map(archive);
        let program = place.path().join(name);
        // No path of ours: the header too is found by what pkg-config says.
        run(Command::new("cc")
            .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"])
            .arg(&source)
            .args(words)
            .args((name == "alone").then_some("-static"))
            .arg("-o")
            .arg(&program));
        let mut command = Command::new(&program);
        command.env_remove("LD_LIBRARY_PATH");
        if !is_static {
            command.env("LD_LIBRARY_PATH", prefix.join("lib"));
        }
        let text = String::from_utf8(run(&mut command).stdout).unwrap();
        assert_eq!(text, "both sides have the same 32-byte secret\n");
    }
    let sections =
        run(Command::new("readelf").args(["-SW"]).arg(prefix.join("lib/libgabion.a"))).stdout;
    assert!(!String::from_utf8_lossy(&sections).contains(".debug_line"), "most of its size");
}

/// A package is put together elsewhere than where it will lie: only the latter may be written in it.
#[test]
fn an_installation_for_a_package_names_the_place_it_will_have() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    let variables = [format!("DESTDIR={}", root.display()), "PREFIX=/opt/gabion".to_owned()];
    install(place.path(), &variables);
    let prefix = root.join("opt/gabion");
    let text = std::fs::read_to_string(prefix.join("lib/pkgconfig/gabion.pc")).unwrap();
    assert!(text.starts_with("prefix=/opt/gabion\n") && !text.contains('@'), "{text}");
    for name in ["include/gabion.h", "lib/libgabion.so", "lib/libgabion.so.1", "lib/libgabion.a"] {
        assert!(prefix.join(name).is_file(), "{name}");
    }
}
