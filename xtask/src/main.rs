//! Repository chores. `cargo run -p xtask -- performance NAME` writes a machine's page, such as
//! docs/reference/performance.md, from bench/results, `hbs NAME` that of hash-based signatures with
//! a state, `kms NAME` that of the key management service;
//! `cargo run -p xtask -- kms-gates NAME CRITERION` holds what Criterion measured against gates;
//! `cargo run -p xtask -- bom VERSION TIME TARGET BUNDLE OUT [COMPONENT...]` writes a bill of
//! materials and the notices of licences into the folder OUT, for `script/dist`;
//! `cargo run -p xtask -- packages` counts the packages behind the shipped programs, in the format
//! of xtask/packages.txt; `cargo run -p xtask -- suite-key NAME` prints the key under which
//! `script/test` keeps a deep suite's result; `cargo run -p xtask -- tidy` makes the checks that no
//! lint makes:
//!
//! - layers: a crate depends only on stations below its own, by whatever table of its manifest, and no product crate on bench/;
//! - modules: no circle inside a crate, and the rules of [`rooms`];
//! - banned patterns, each with what to write instead;
//! - lengths: files of at most 900 lines, functions of at most 70 (straight-line kernels excepted);
//! - `unsafe` only where the style allows it;
//! - names: types, variants, files and folders are called by nouns (`names`);
//! - packages: no more behind `gabion`, the provider and in Cargo.lock than recorded, or at most five;
//! - links: those between pages lead to a file, and to a heading that it has;
//! - the endpoint table of docs/reference/kms-http.md: it equals the server's routes (`kms-http` writes it);
//! - text: phrases, first lines of documentation and long lines, whose counts may only fall
//!   (`words` prints them); phrases in messages; the subjects of commits (`commit-msg` is the hook
//!   that `make hooks` installs).

#![forbid(unsafe_code)]

mod bom;
mod gates;
mod kms_http;
mod layers;
mod links;
mod modules;
mod names;
mod packages;
mod performance;
mod rooms;
mod suite_key;
mod tokens;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tokens::Token;

/// Text that is forbidden in source files, and its replacement.
const BANNED: &[(&str, &str)] = &[
    (concat!("to", "do!("), "finish it, or say in the documentation what is not supported"),
    (concat!("unimple", "mented!("), "finish it, or return an error that says so"),
    (concat!("dbg", "!("), "remove it"),
    (concat!("FIX", "ME"), "fix it, or describe the limit in the documentation"),
    (concat!("static", " mut "), "use an atomic or once_cell::race::OnceBox"),
    (concat!("#[ig", "nore]"), "a test runs or does not exist; long counts belong to `make soak`"),
];

/// Patterns that only the command line may contain.
const BANNED_IN_LIBRARIES: &[(&str, &str)] =
    &[(concat!("process::", "exit("), "return an error; a library never ends the process")];

/// Where `unsafe` may live.
const UNSAFE_ALLOWED: &[&str] = &[
    "scheme/src/ct.rs",
    "backend/",
    "bench/",
    "front/provider/",
    "front/capi/src/",
    "front/capi/tests/interface/hss.rs", // calls the C functions themselves
    "front/capi/tests/interface/key_batches.rs", // as does this
    "front/capi/tests/interface/randomness.rs", // as does this
    "front/capi/tests/interface/stateful.rs", // as does this
    "front/cli/src/",
    "kms/core/src/memory/", // pages of secrets
    "ship/src/",
    "tests/",
    "xtask/", // names the patterns it looks for
];

/// Where functions may be longer: straight-line kernels.
const LONG_FUNCTIONS_ALLOWED: &[&str] = &[
    "backend/src/avx2/",
    "backend/src/avx512/",
    "backend/src/portable/keccak.rs",
    "backend/examples/",
];

const FILE_LINES_MAX: usize = 900;
const FUNCTION_LINES_MAX: usize = 70;

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => tidy(&root),
        ["packages"] => show(packages::show(&root)),
        ["bom", version, time, target, bundle, out, ref others @ ..] => {
            let (bundle, out) = (Path::new(bundle), Path::new(out));
            show(bom::write(&root, &bom::Request { version, time, target, bundle, out, others }))
        }
        ["suite-key", name] => show(suite_key::key(&root, name).map(|key| format!("{key}\n"))),
        ["performance", name] => show(performance::write(&root, name)),
        ["hbs", name] => show(performance::hbs::write(&root, name)),
        ["kms", name] => show(performance::kms::write(&root, name)),
        ["words"] => show(words::show(&root)),
        ["commit-msg", file] => commit_message(Path::new(file)),
        ["kms-http"] => show(kms_http::write(&root)),
        ["kms-gates", name, criterion] => match gates::hold(&root, Path::new(criterion), name) {
            Ok(is_met) => ExitCode::from(u8::from(!is_met)),
            Err(error) => show(Err(error)),
        },
        _ => {
            eprintln!(
                "error: expected `tidy`, `bom ...`, `packages`, `suite-key NAME`, `performance NAME`, `hbs NAME`, `kms NAME`, `kms-http`, `words`, `commit-msg FILE` or `kms-gates NAME CRITERION`; example: cargo run -p xtask -- tidy"
            );
            ExitCode::from(2)
        }
    }
}

/// Checks the subject of a commit message: the hook that `make hooks` installs.
fn commit_message(file: &Path) -> ExitCode {
    let subject = fs::read_to_string(file)
        .map(|text| text.lines().next().unwrap_or_default().to_owned())
        .map_err(|error| format!("{}: {error}", file.display()));
    // `tidy` skips merges, whose subjects git writes.
    let checked = |subject: String| match subject.starts_with("Merge ") {
        true => Ok(()),
        false => words::refuse(&subject).map_or(Ok(()), Err),
    };
    match subject.and_then(checked) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a page at the end of `make bench`, or the error; if standard output is closed, the file
/// still has the page.
fn show(page: Result<String, String>) -> ExitCode {
    match page {
        Ok(page) => {
            use std::io::Write;
            let _ = std::io::stdout().write_all(page.as_bytes());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(3)
        }
    }
}

/// Runs every check and prints the findings.
fn tidy(root: &Path) -> ExitCode {
    let mut findings = Vec::new();
    layers::check(root, &mut findings);
    rooms::check(root, &mut findings);
    packages::check(root, &mut findings);
    names::check(root, &mut findings);
    let mut sources = Vec::new();
    for top in [
        "scheme", "backend", "engine", "disk", "state", "kms", "front", "ship", "bench", "tests",
        "xtask",
    ] {
        collect_sources(&root.join(top), &mut sources);
    }
    sources.sort();
    for source in &sources {
        let name = source.strip_prefix(root).unwrap_or(source).to_string_lossy().into_owned();
        match fs::read_to_string(source) {
            Ok(text) => check_source(&name, &text, &mut findings),
            Err(error) => findings.push(format!("{name}: can't be read: {error}")),
        }
    }
    links::check(root, &mut findings);
    kms_http::check(root, &mut findings);
    words::check(root, &mut findings);
    for finding in &findings {
        eprintln!("{finding}");
    }
    println!("tidy: {} files, {} findings", sources.len(), findings.len());
    ExitCode::from(u8::from(!findings.is_empty()))
}

fn collect_sources(folder: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                collect_sources(&path, out);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

fn check_source(name: &str, text: &str, findings: &mut Vec<String>) {
    let starts = |list: &[&str]| list.iter().any(|prefix| name.starts_with(prefix));
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.push(format!("{name}: {lines} lines; at most {FILE_LINES_MAX}: split it"));
    }
    for (number, line) in text.lines().enumerate() {
        let at = number + 1;
        for (pattern, instead) in BANNED {
            if line.contains(pattern) {
                findings.push(format!("{name}:{at}: `{pattern}`: {instead}"));
            }
        }
        let is_command = name.starts_with("front/cli/src/") || name.starts_with("xtask/");
        for (pattern, instead) in BANNED_IN_LIBRARIES {
            if !is_command && line.contains(pattern) {
                findings.push(format!("{name}:{at}: `{pattern}`: {instead}"));
            }
        }
        let code = line.split("//").next().unwrap_or("");
        if (code.contains("unsafe {") || code.contains("unsafe fn")) && !starts(UNSAFE_ALLOWED) {
            findings.push(format!("{name}:{at}: unsafe code has no place in this station"));
        }
    }
    if !starts(LONG_FUNCTIONS_ALLOWED) {
        match tokens::read(text) {
            Ok(tokens) => check_functions(name, &tokens, findings),
            Err(why) => findings.push(format!("{name}: {why}")),
        }
    }
}

/// Measures every function, by its tokens: also those of traits, macros and other functions.
fn check_functions(name: &str, tokens: &[Token], findings: &mut Vec<String>) {
    let mut functions = Vec::new();
    tokens::functions(tokens, &mut functions);
    for tokens::Function { name: function, line, lines } in functions {
        if lines > FUNCTION_LINES_MAX {
            findings.push(format!(
                "{name}:{line}: `{function}` has {lines} lines; at most {FUNCTION_LINES_MAX}"
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings_in(name: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_source(name, text, &mut findings);
        findings
    }

    #[test]
    fn banned_patterns_are_found() {
        for (pattern, _) in BANNED {
            assert_eq!(
                findings_in("engine/src/x.rs", &format!("// {pattern}")).len(),
                1,
                "{pattern}"
            );
        }
        let exit = format!("// {}", BANNED_IN_LIBRARIES[0].0);
        assert_eq!(findings_in("engine/src/x.rs", &exit).len(), 1);
        assert!(findings_in("front/cli/src/main.rs", &exit).is_empty());
    }

    #[test]
    fn unsafe_is_found_where_it_may_not_be() {
        let text = "fn f() {\n    unsafe { g() }\n}\n";
        assert_eq!(findings_in("engine/src/x.rs", text).len(), 1);
        assert!(findings_in("backend/src/avx512/x.rs", text).is_empty());
    }

    #[test]
    fn long_functions_are_found() {
        let body = "    let _ = 1;\n".repeat(FUNCTION_LINES_MAX - 2);
        assert!(findings_in("engine/src/x.rs", &format!("fn f() {{\n{body}}}\n")).is_empty());
        let text = "trait T {\n    fn f();\n".to_owned() + &body + "}\n";
        assert!(findings_in("engine/src/x.rs", &text).is_empty());
        let text = format!("fn f() {{\n{body}    let _ = 2;\n}}\n");
        for head in ["", "pub unsafe ", "async ", "extern \"C\" "] {
            assert_eq!(
                findings_in("backend/src/x.rs", &format!("{head}{text}")).len(),
                1,
                "{head}"
            );
        }
    }
}
