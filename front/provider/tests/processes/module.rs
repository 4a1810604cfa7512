//! The module as a file: its exports, its dependencies, and whether its numbers are OpenSSL's.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The whole list. A symbol more would be another module's to trip over.
const EXPORTS: [&str; 1] = ["OSSL_provider_init"];

fn symbols(file: &Path, which: &str) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", which]).arg(file).output().expect("nm runs");
    assert!(
        output.status.success(),
        "nm {}: {}",
        file.display(),
        gabion_provider_testing::all_text(&output)
    );
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(|symbol| symbol.split('@').next().unwrap_or(symbol).to_owned())
        .collect()
}

#[test]
fn exports_one_symbol() {
    let exported = symbols(&gabion_provider_testing::module(), "--defined-only");
    assert_eq!(exported, EXPORTS.map(str::to_owned).into());
}

#[test]
fn needs_no_symbol_of_openssl() {
    let needed = symbols(&gabion_provider_testing::module(), "--undefined-only");
    assert!(needed.contains("malloc"), "nm tells what a module needs");
    let lib = gabion_provider_testing::prefix().join("lib");
    for library in ["libcrypto.so", "libssl.so"] {
        let offered = symbols(&lib.join(library), "--defined-only");
        assert!(offered.len() > 100, "nm tells what {library} offers");
        let shared: Vec<_> = needed.intersection(&offered).collect();
        assert!(shared.is_empty(), "{library}: {shared:?}");
    }
    let output =
        Command::new("readelf").arg("-d").arg(gabion_provider_testing::module()).output().unwrap();
    let dynamic = gabion_provider_testing::all_text(&output);
    assert!(dynamic.contains("libc.so.6"));
    assert!(!dynamic.contains("libcrypto") && !dynamic.contains("libssl"), "{dynamic}");
    // Its threads are left to themselves when it is unloaded.
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
}

/// `pub const NAME: c_int = NUMBER;` in one module of `src/ffi.rs`, or in a file that is one.
fn numbers(module: &str) -> Vec<(String, String)> {
    let body = match module {
        "function" => include_str!("../../src/ffi/function.rs"),
        _ => {
            let source = include_str!("../../src/ffi.rs");
            let (_, body) =
                source.split_once(&format!("pub mod {module} {{")).expect("the module is there");
            body.split_once("\n}").expect("the module ends").0
        }
    };
    body.lines()
        .filter_map(|line| line.trim().strip_prefix("pub const "))
        .filter_map(|line| line.strip_suffix(';')?.split_once(" = "))
        .map(|(name, value)| {
            let name = name.split(':').next().unwrap_or(name);
            (name.to_owned(), value.to_owned())
        })
        .collect()
}

#[test]
fn numbers_and_names_are_those_of_the_headers() {
    let include = gabion_provider_testing::prefix().join("include/openssl");
    let header = std::fs::read_to_string(include.join("core_dispatch.h")).unwrap();
    let defined = |name: &str| {
        header.lines().find_map(|line| {
            let mut words = line.strip_prefix('#')?.split_whitespace();
            (words.next() == Some("define") && words.next() == Some(name))
                .then(|| words.next().unwrap_or("").to_owned())
        })
    };
    let functions = numbers("function");
    assert!(functions.len() > 50);
    for (name, value) in functions {
        assert_eq!(defined(&format!("OSSL_FUNC_{name}")), Some(value), "{name}");
    }
    let operations = numbers("operation");
    assert_eq!(operations.len(), 8);
    for (name, value) in operations {
        assert_eq!(defined(&format!("OSSL_OP_{name}")), Some(value), "{name}");
    }

    let header = std::fs::read_to_string(include.join("core_names.h")).unwrap();
    let names = numbers("name");
    assert!(names.len() > 20);
    for (name, value) in names {
        let text = value.trim_start_matches('c');
        // New in 4.0, and in 3.6, which ask for key parameters by them.
        let later = ["SECURITY_CATEGORY", "CMS_RI_TYPE", "CMS_KEMRI_KDF_ALGORITHM"];
        assert!(
            header.contains(text) || later.contains(&name.as_str()),
            "{name} = {text} is not in core_names.h"
        );
    }
    // The reasons of errors: `const NAME: u32 = number`, of what is common to all libraries the first part.
    let headers = ["proverr.h", "err.h"].map(|name| std::fs::read_to_string(include.join(name)));
    let headers = headers.map(Result::unwrap).concat();
    let reasons = include_str!("../../src/error.rs").lines().filter_map(|line| {
        let (name, value) = line.strip_prefix("const ")?.split_once(": u32 = ")?;
        (!value.contains("<<")).then(|| (name, value.split([' ', ';']).next().unwrap()))
    });
    let reasons: Vec<_> = reasons.collect();
    assert_eq!(reasons.len(), 20);
    for (name, number) in reasons {
        let defined = headers.lines().find_map(|line| {
            let (_, value) = line.split_once(&format!("_R_{name} "))?;
            Some(value.trim().trim_start_matches('(').split([' ', ')']).next()?.to_owned())
        });
        assert_eq!(defined.as_deref(), Some(number), "{name}");
    }

    let source = include_str!("../../src/capabilities.rs");
    let (used, _) = source.split_once("#[cfg(test)]").expect("code, then its tests");
    let keys: Vec<_> = used.split("(c\"tls-").skip(1).filter_map(|s| s.split('"').next()).collect();
    assert!(keys.len() > 15);
    for key in keys {
        assert!(header.contains(&format!("\"tls-{key}\"")), "tls-{key} is not in core_names.h");
    }
}
