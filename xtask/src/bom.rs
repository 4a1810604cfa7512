//! The components of the packages: a bill of materials in CycloneDX 1.5, and the notices of the
//! licences.
//!
//! Crates are those that `cargo tree` links into the shipped programs and libraries; OpenSSL's version and hash are
//! those of the bundle, and SQLite's version is that of libsqlite3-sys. The same inputs give the same bytes: the serial
//! number is a hash of the document.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// Packages whose programs and libraries are shipped.
const SHIPPED: [&str; 4] = ["gabion-bench", "gabion-capi", "gabion-cli", "gabion-provider"];

/// Where names of files with licences begin, in lower case.
const LICENCE_FILES: [&str; 6] =
    ["licence", "license", "copying", "copyright", "notice", "unlicense"];

/// The inputs that no manifest has.
pub struct Request<'a> {
    /// Version of the packages.
    pub version: &'a str,
    /// Time of the document, as RFC 3339 has it.
    pub time: &'a str,
    /// The target that the packages are built for.
    pub target: &'a str,
    /// The bundle's `gabion-bundle.json`.
    pub bundle: &'a Path,
    /// The folder that `gabion.cdx.json` and `THIRD-PARTY` are written to.
    pub out: &'a Path,
    /// Further components, each as `NAME VERSION LICENCE`.
    pub others: &'a [&'a str],
}

/// A component: a linked crate, or a C library.
struct Component {
    name: String,
    version: String,
    /// An SPDX expression.
    licence: String,
    purl: String,
    sha256: Option<String>,
    cpe: Option<String>,
    repository: Option<String>,
    /// Texts of its licences; empty for our own crates, and for packages of a system, which bring their own.
    texts: Vec<String>,
}

impl Component {
    /// Returns whether its users may choose this licence.
    fn offers(&self, licence: &str) -> bool {
        self.licence.split(" OR ").any(|choice| choice == licence)
    }
}

/// Writes the bill of materials and the notices, and returns a line that counts the components.
///
/// # Errors
/// Returns what cargo says if it fails, and the name of a crate without a licence or its text.
pub fn write(root: &Path, request: &Request<'_>) -> Result<String, String> {
    let metadata = metadata(root, request.target)?;
    let linked = linked(root, request.target)?;
    let packages: Vec<&Value> = list(&metadata["packages"])
        .iter()
        .filter(|package| linked.contains(&name_and_version(package)))
        .collect();
    if packages.len() != linked.len() {
        return Err(format!("{} crates are linked, {} are known", linked.len(), packages.len()));
    }
    let checksums = checksums(&read(&root.join("Cargo.lock"))?);
    let apache = read(&root.join("LICENSE-APACHE"))?;
    let mut crates = Vec::new();
    for package in &packages {
        crates.push(crate_component(package, &checksums)?);
    }
    add_missing_texts(&mut crates, &apache)?;
    let mut others = vec![openssl(request.bundle, apache.clone())?, sqlite(&packages)?];
    for other in request.others {
        let mut other = other_component(other)?;
        if other.offers("Apache-2.0") {
            other.texts.push(apache.clone());
        }
        others.push(other);
    }
    let edges = edges(&metadata, &packages);
    let components: Vec<&Component> = crates.iter().chain(&others).collect();
    let document = document(request, &components, edges);
    let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())? + "\n";
    save(&request.out.join("gabion.cdx.json"), &text)?;
    save(&request.out.join("THIRD-PARTY"), &notices(&components))?;
    Ok(format!("{} components, {} of them crates\n", components.len(), crates.len()))
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
}

fn save(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn cargo(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(arguments)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cargo {}: {error}", arguments[0]))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn metadata(root: &Path, target: &str) -> Result<Value, String> {
    let arguments = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    serde_json::from_str(&cargo(root, &arguments)?).map_err(|error| error.to_string())
}

/// Name and version of each crate that is linked, with the features of the shipped build; macros are not.
fn linked(root: &Path, target: &str) -> Result<BTreeSet<(String, String)>, String> {
    let mut arguments = vec!["tree", "--locked", "--prefix", "none", "--no-dedupe"];
    arguments.extend(["--edges", "normal,no-proc-macro", "--format", "{p}", "--target", target]);
    for package in SHIPPED {
        arguments.extend(["--package", package]);
    }
    Ok(cargo(root, &arguments)?.lines().filter_map(tree_line).collect())
}

/// Reads a line such as `gabion-engine v0.1.0 (/gabion/engine)`.
fn tree_line(line: &str) -> Option<(String, String)> {
    let mut words = line.split(' ');
    Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn name_and_version(package: &Value) -> (String, String) {
    (text(&package["name"]), text(&package["version"]))
}

/// The folder of a package's manifest.
fn folder(package: &Value) -> PathBuf {
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    manifest.parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Hashes of the archives of crates, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let value = |entry: &str, key: &str| {
        let line = entry.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|rest| rest.strip_suffix('"')).map(str::to_owned)
    };
    let entries = lock.split("[[package]]").skip(1);
    let read = |entry: &str| {
        Some(((value(entry, "name")?, value(entry, "version")?), value(entry, "checksum")?))
    };
    entries.filter_map(read).collect()
}

fn crate_component(
    package: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Component, String> {
    let (name, version) = name_and_version(package);
    // The older way to write "or".
    let licence = text(&package["license"]).replace('/', " OR ");
    if licence.is_empty() {
        return Err(format!("{name} {version} names no licence"));
    }
    let is_ours = package["source"].is_null();
    let mut texts = Vec::new();
    if !is_ours {
        collect_texts(&folder(package), &mut texts)?;
    }
    Ok(Component {
        purl: format!("pkg:cargo/{name}@{}", version.replace('+', "%2B")),
        sha256: checksums.get(&(name.clone(), version.clone())).cloned(),
        cpe: None,
        repository: package["repository"].as_str().map(str::to_owned),
        name,
        version,
        licence,
        texts,
    })
}

/// Collects the texts of licences in a folder and those below it, in the order of their paths.
fn collect_texts(folder: &Path, texts: &mut Vec<String>) -> Result<(), String> {
    let failed = |error| format!("{}: {error}", folder.display());
    let entries: Result<Vec<PathBuf>, std::io::Error> =
        fs::read_dir(folder).map_err(failed)?.map(|entry| Ok(entry?.path())).collect();
    let mut paths = entries.map_err(failed)?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect_texts(&path, texts)?;
        } else if is_licence_file(&path) {
            texts.push(read(&path)?);
        }
    }
    Ok(())
}

fn is_licence_file(path: &Path) -> bool {
    let is_source = matches!(path.extension().and_then(OsStr::to_str), Some("rs" | "go" | "h"));
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    !is_source && LICENCE_FILES.iter().any(|start| name.starts_with(start))
}

/// Gives crates whose archive has no text that of their licence: Apache-2.0 from this repository, the Unlicense from
/// another crate.
fn add_missing_texts(crates: &mut [Component], apache: &str) -> Result<(), String> {
    let is_unlicense = |text: &&String| text.starts_with("This is free and unencumbered software");
    let unlicense = crates.iter().flat_map(|one| &one.texts).find(is_unlicense).cloned();
    for one in crates.iter_mut().filter(|one| one.texts.is_empty()) {
        let text = if one.offers("Apache-2.0") {
            Some(apache.to_owned())
        } else if one.offers("Unlicense") {
            unlicense.clone()
        } else {
            None
        };
        let missing = || format!("{} {}: no text of {}", one.name, one.version, one.licence);
        one.texts = vec![text.ok_or_else(missing)?];
    }
    Ok(())
}

fn openssl(bundle: &Path, apache: String) -> Result<Component, String> {
    let manifest: Value = serde_json::from_str(&read(bundle)?)
        .map_err(|error| format!("{}: {error}", bundle.display()))?;
    let version = text(&manifest["version"]);
    Ok(Component {
        purl: format!("pkg:generic/openssl@{version}"),
        cpe: Some(format!("cpe:2.3:a:openssl:openssl:{version}:*:*:*:*:*:*:*")),
        sha256: manifest["source_sha256"].as_str().map(str::to_owned),
        repository: Some("https://github.com/openssl/openssl".to_owned()),
        name: "openssl".to_owned(),
        version,
        licence: "Apache-2.0".to_owned(),
        texts: vec![apache],
    })
}

fn sqlite(packages: &[&Value]) -> Result<Component, String> {
    let package = packages.iter().find(|package| package["name"] == "libsqlite3-sys");
    let header = folder(package.ok_or("libsqlite3-sys is not linked")?).join("sqlite3/sqlite3.h");
    let source = read(&header)?;
    let version = source
        .lines()
        .find_map(|line| line.strip_prefix("#define SQLITE_VERSION ")?.trim().strip_prefix('"'))
        .and_then(|rest| rest.strip_suffix('"'))
        .ok_or_else(|| format!("{}: no SQLITE_VERSION", header.display()))?;
    // The first comment, up to its line of stars.
    let lines = source.lines().skip(1).take_while(|line| line.starts_with("**"));
    let blessing = lines.take_while(|line| !line.starts_with("****"));
    let blessing: Vec<&str> = blessing.map(|line| line[2..].trim()).collect();
    Ok(Component {
        purl: format!("pkg:generic/sqlite@{version}"),
        cpe: Some(format!("cpe:2.3:a:sqlite:sqlite:{version}:*:*:*:*:*:*:*")),
        sha256: None,
        repository: Some("https://sqlite.org/src".to_owned()),
        name: "sqlite".to_owned(),
        version: version.to_owned(),
        licence: "blessing".to_owned(),
        texts: vec![blessing.join("\n") + "\n"],
    })
}

/// Reads `NAME VERSION LICENCE`.
fn other_component(given: &str) -> Result<Component, String> {
    let words: Vec<&str> = given.splitn(3, ' ').collect();
    let &[name, version, licence] = words.as_slice() else {
        return Err(format!("{given:?}: expected NAME VERSION LICENCE"));
    };
    Ok(Component {
        purl: format!("pkg:generic/{name}@{}", version.replace('+', "%2B")),
        cpe: None,
        sha256: None,
        repository: None,
        name: name.to_owned(),
        version: version.to_owned(),
        licence: licence.to_owned(),
        texts: Vec::new(),
    })
}

/// For each linked crate the linked crates that it depends on, as package URLs. Features may leave out some of them.
fn edges(metadata: &Value, packages: &[&Value]) -> BTreeMap<String, BTreeSet<String>> {
    let purl = |package: &Value| {
        let (name, version) = name_and_version(package);
        format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
    };
    let purls: BTreeMap<String, String> =
        packages.iter().map(|package| (text(&package["id"]), purl(package))).collect();
    let is_normal = |dependency: &&Value| {
        list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null())
    };
    let nodes = list(&metadata["resolve"]["nodes"]).iter();
    let edges_of = |node: &Value| {
        let from = purls.get(&text(&node["id"]))?.clone();
        let to = list(&node["deps"]).iter().filter(is_normal);
        Some((from, to.filter_map(|to| purls.get(&text(&to["pkg"])).cloned()).collect()))
    };
    nodes.filter_map(edges_of).collect()
}

fn document(
    request: &Request<'_>,
    components: &[&Component],
    mut edges: BTreeMap<String, BTreeSet<String>>,
) -> Value {
    let version = request.version;
    let root = format!("pkg:generic/gabion@{version}");
    let is_direct = |one: &&&Component| {
        SHIPPED.contains(&one.name.as_str()) || !one.purl.starts_with("pkg:cargo/")
    };
    let direct = components.iter().filter(is_direct).map(|one| one.purl.clone());
    edges.insert(root.clone(), direct.collect());
    let sqlite = components.iter().find(|one| one.name == "sqlite").map(|one| one.purl.clone());
    for (from, to) in &mut edges {
        if from.starts_with("pkg:cargo/libsqlite3-sys@") {
            to.extend(sqlite.clone());
        }
    }
    let listed: Vec<Value> = components.iter().map(|one| component_json(one)).collect();
    let dependencies: Vec<Value> =
        edges.iter().map(|(from, to)| json!({ "ref": from, "dependsOn": to })).collect();
    let mut document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": request.time,
            "authors": [{ "name": "The Gabion authors" }],
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "gabion",
                "version": version,
                "licenses": [{ "expression": "MIT OR Apache-2.0" }],
                "properties": [{ "name": "target", "value": request.target }],
            },
        },
        "components": listed,
        "dependencies": dependencies,
    });
    document["serialNumber"] = json!(serial_number(&document.to_string()));
    document
}

fn component_json(one: &Component) -> Value {
    let mut value = json!({
        "type": "library",
        "bom-ref": one.purl,
        "name": one.name,
        "version": one.version,
        "purl": one.purl,
        "licenses": [{ "expression": one.licence }],
    });
    if let Some(sha256) = &one.sha256 {
        value["hashes"] = json!([{ "alg": "SHA-256", "content": sha256 }]);
    }
    if let Some(cpe) = &one.cpe {
        value["cpe"] = json!(cpe);
    }
    if let Some(repository) = &one.repository {
        value["externalReferences"] = json!([{ "type": "vcs", "url": repository }]);
    }
    value
}

/// A UUID of version 8 (RFC 9562) from the hash of a text.
fn serial_number(text: &str) -> String {
    let mut id: [u8; 16] = [0; 16];
    id.copy_from_slice(&Sha256::digest(text.as_bytes())[..16]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "urn:uuid:{}-{}-{}-{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..]
    )
}

/// A list of the components with their licences, then each text once, under the components that it goes with.
fn notices(components: &[&Component]) -> String {
    let theirs: Vec<&&Component> = components.iter().filter(|one| !one.texts.is_empty()).collect();
    let mut page = String::from(
        "The programs and libraries of Gabion contain these components. Each text follows the names of the components \
         that have it.\n\n",
    );
    let mut holders: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for one in theirs {
        let name = format!("{} {}", one.name, one.version);
        page.push_str(&format!("{name}: {}\n", one.licence));
        for text in &one.texts {
            holders.entry(text.trim_end()).or_default().insert(name.clone());
        }
    }
    let mut texts: Vec<(&BTreeSet<String>, &str)> =
        holders.iter().map(|(text, names)| (names, *text)).collect();
    texts.sort();
    for (names, text) in texts {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let line = "=".repeat(80);
        page.push_str(&format!("\n{line}\n{}\n{line}\n\n{text}\n", names.join("\n")));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(name: &str, licence: &str, texts: &[&str]) -> Component {
        let mut one = other_component(&format!("{name} 1.0 {licence}")).unwrap();
        one.texts = texts.iter().map(|text| (*text).to_owned()).collect();
        one
    }

    #[test]
    fn the_serial_number_follows_the_content() {
        let serial = serial_number("a");
        assert_eq!(serial, serial_number("a"));
        assert_ne!(serial, serial_number("b"));
        assert_eq!(serial.len(), "urn:uuid:".len() + 36);
        assert_eq!(&serial[23..24], "8");
    }

    #[test]
    fn a_crate_without_the_text_of_its_licence_is_refused() {
        let unlicense = "This is free and unencumbered software released";
        let mut crates = [
            component("a", "ISC OR Apache-2.0", &[]),
            component("b", "Unlicense OR MIT", &[unlicense]),
            component("c", "Unlicense", &[]),
        ];
        add_missing_texts(&mut crates, "Apache").unwrap();
        assert_eq!(crates[0].texts, ["Apache"]);
        assert_eq!(crates[2].texts, [unlicense]);
        let error = add_missing_texts(&mut [component("d", "ISC", &[])], "Apache").unwrap_err();
        assert_eq!(error, "d 1.0: no text of ISC");
    }

    #[test]
    fn checksums_are_read_from_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ff\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let found = checksums(lock);
        assert_eq!(found.len(), 1);
        assert_eq!(found[&("a".to_owned(), "1.0.0".to_owned())], "ff");
    }

    #[test]
    fn each_text_is_printed_once() {
        let (a, b) = (component("a", "MIT", &["text\n"]), component("b", "MIT", &["text"]));
        let page = notices(&[&a, &b]);
        assert_eq!(page.matches("text\n").count(), 1);
        assert!(page.contains("a 1.0\nb 1.0\n="), "{page}");
    }

    #[test]
    fn sources_are_no_licences() {
        assert!(is_licence_file(Path::new("LICENSE-MIT")));
        assert!(is_licence_file(Path::new("x/UNLICENSE")));
        assert!(!is_licence_file(Path::new("src/license.rs")));
        assert!(!is_licence_file(Path::new("README.md")));
    }
}
