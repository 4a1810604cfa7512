//! Layers: a crate depends only on stations below its own, in whatever table of its manifest.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Each crate of the workspace, and the crates of the workspace that it may depend on.
const LAYERS: &[(&str, &[&str])] = &[
    ("gabion-scheme", &[]),
    ("gabion-backend", &["gabion-scheme"]),
    ("gabion-machine", &[]),
    ("gabion-cuda", &["gabion-scheme", "gabion-backend"]),
    ("gabion-cuda-emulator", &["gabion-scheme", "gabion-backend", "gabion-cuda"]),
    ("gabion-engine", &["gabion-scheme", "gabion-backend", "gabion-cuda"]),
    ("gabion-disk", &[]),
    ("gabion-state", &["gabion-disk", "gabion-engine"]),
    ("gabion-rustls", &["gabion-engine"]),
    ("gabion-rustls-examples", &["gabion-engine", "gabion-rustls"]),
    ("gabion-probe", &["gabion-engine", "gabion-rustls"]),
    ("gabion-kms", &["gabion-disk", "gabion-engine"]),
    ("gabion-kms-wire", &[]),
    ("gabion-kms-client", &["gabion-kms-wire", "gabion-rustls"]),
    ("gabion-kms-server", &["gabion-engine", "gabion-kms", "gabion-kms-wire", "gabion-rustls"]),
    ("gabion-ship", &[]),
    ("gabion-rows", &["gabion-machine"]),
    ("gabion-provider-stats", &[]),
    ("gabion-provider-testing", &["gabion-provider-stats"]),
    ("gabion-cli-testing", &["gabion-ship"]),
    ("gabion-provider", &["gabion-engine", "gabion-state", "gabion-provider-stats"]),
    ("gabion-capi", &["gabion-engine", "gabion-state"]),
    (
        "gabion-cli",
        &[
            "gabion-disk",
            "gabion-engine",
            "gabion-machine",
            "gabion-state",
            "gabion-kms-client",
            "gabion-kms-server",
            "gabion-kms-wire",
            "gabion-probe",
            "gabion-ship",
            "gabion-provider-stats",
        ],
    ),
    // Kernels are timed alone for the cost of hashes, and a device for the time of its kernels.
    (
        "gabion-bench",
        &[
            "gabion-backend",
            "gabion-cli",
            "gabion-cuda",
            "gabion-disk",
            "gabion-engine",
            "gabion-kms",
            "gabion-kms-client",
            "gabion-kms-server",
            "gabion-kms-wire",
            "gabion-provider-stats",
            "gabion-rows",
            "gabion-rustls",
            "gabion-scheme",
            "gabion-ship",
            "gabion-state",
        ],
    ),
    (
        "gabion-tests",
        &[
            "gabion-scheme",
            "gabion-backend",
            "gabion-disk",
            "gabion-engine",
            "gabion-kms",
            "gabion-kms-server",
            "gabion-bench",
            "gabion-capi",
            "gabion-cli",
            "gabion-probe",
            "gabion-provider",
            "gabion-rows",
            "gabion-state",
        ],
    ),
    ("gabion-ctgrind", &["gabion-scheme", "gabion-backend", "gabion-engine"]),
    ("gabion-scan", &[]),
    ("xtask", &["gabion-rows"]),
];

/// Additional dependencies that tests of a crate may use.
const OF_TESTS: &[(&str, &str)] = &[
    ("gabion-bench", "gabion-cli-testing"),
    ("gabion-bench", "gabion-cuda-emulator"),
    ("gabion-cli", "gabion-cli-testing"),
    ("gabion-cli", "gabion-rustls"),
    ("gabion-kms-server", "gabion-kms-client"),
    ("gabion-provider", "gabion-provider-testing"),
    ("gabion-rustls", "gabion-rustls"), // with its feature `testing`
    ("gabion-state", "gabion-backend"),
    ("gabion-state", "gabion-scheme"),
    ("gabion-state", "gabion-state"), // with its feature `testing`
    ("gabion-tests", "gabion-cuda"),
    ("gabion-tests", "gabion-cuda-emulator"),
];

/// Folders whose crates are no part of the product and may depend on bench/. Crates of other folders may not, except for tests.
const OUTSIDE: &[&str] = &["bench", "tests", "xtask"];

/// Queries the workspace's crates from cargo and compares their dependencies with the layers.
pub fn check(root: &Path, findings: &mut Vec<String>) {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root);
    let metadata = match cargo.output() {
        Ok(output) if output.status.success() => serde_json::from_slice(&output.stdout),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return findings.push(format!("cargo metadata: {said}"));
        }
        Err(error) => return findings.push(format!("cargo metadata: {error}")),
    };
    match metadata {
        Ok(metadata) => check_metadata(&metadata, findings),
        Err(error) => findings.push(format!("cargo metadata: {error}")),
    }
}

fn check_metadata(metadata: &Value, findings: &mut Vec<String>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let members = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> = members.iter().map(|member| text(&member["name"])).collect();
    let root = text(&metadata["workspace_root"]) + "/";
    let folder = |member: &Value| {
        let manifest = text(&member["manifest_path"]);
        let path = manifest.strip_prefix(&root).unwrap_or(&manifest);
        path.split('/').next().unwrap_or_default().to_owned()
    };
    let is_of_bench = |name: &str| {
        members.iter().any(|member| text(&member["name"]) == name && folder(member) == "bench")
    };
    for member in members {
        let name = text(&member["name"]);
        let is_product = !OUTSIDE.contains(&folder(member).as_str());
        let Some((_, below)) = LAYERS.iter().find(|(of, _)| *of == name) else {
            findings.push(format!("{name}: has no layer; give it one in xtask/src/layers.rs"));
            continue;
        };
        for dependency in member["dependencies"].as_array().into_iter().flatten() {
            let (on, kind) = (text(&dependency["name"]), text(&dependency["kind"]));
            let is_test_only = kind == "dev" && OF_TESTS.contains(&(&name, &on));
            if is_product && kind != "dev" && is_of_bench(&on) {
                findings
                    .push(format!("{name}: {on} is in bench/, which no product crate depends on"));
            }
            if names.contains(&on) && !below.contains(&on.as_str()) && !is_test_only {
                let table = if kind.is_empty() { String::new() } else { format!("{kind}-") };
                findings
                    .push(format!("{name}: {on} is not below this station ({table}dependencies)"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_upward_edge_is_found_in_every_table() {
        for kind in [json!(null), json!("dev"), json!("build")] {
            let edge =
                |to: &str| json!([{"name": to, "kind": kind}, {"name": "serde", "kind": kind}]);
            let metadata = json!({"packages": [
                {"name": "gabion-engine", "dependencies": edge("gabion-provider")},
                {"name": "gabion-provider", "dependencies": edge("gabion-engine")},
                {"name": "gabion-bench", "dependencies": edge("gabion-cuda-emulator")},
                {"name": "gabion-cuda-emulator", "dependencies": []},
            ]});
            let mut findings = Vec::new();
            check_metadata(&metadata, &mut findings);
            assert!(findings[0].starts_with("gabion-engine: gabion-provider is not below"));
            assert_eq!(findings.len(), if kind == "dev" { 1 } else { 2 }, "{findings:?}");
        }
    }

    #[test]
    fn a_product_crate_that_depends_on_bench_is_found() {
        let found = |folder: &str, kind: Value| {
            let dependency = json!({"name": "gabion-rows", "kind": kind});
            let metadata = json!({"workspace_root": "/w", "packages": [
                {"name": "xtask", "manifest_path": format!("/w/{folder}/Cargo.toml"), "dependencies": [dependency]},
                {"name": "gabion-rows", "manifest_path": "/w/bench/rows/Cargo.toml", "dependencies": []},
            ]});
            let mut findings = Vec::new();
            check_metadata(&metadata, &mut findings);
            findings
        };
        for kind in [json!(null), json!("build")] {
            assert_eq!(
                found("front/cli", kind),
                ["xtask: gabion-rows is in bench/, which no product crate depends on"]
            );
        }
        assert!(found("front/cli", json!("dev")).is_empty());
        for folder in ["bench", "tests", "xtask"] {
            assert!(found(folder, json!(null)).is_empty());
        }
    }

    #[test]
    fn a_crate_without_a_layer_is_found() {
        let mut findings = Vec::new();
        let metadata = json!({"packages": [{"name": "gabion-new", "dependencies": []}]});
        check_metadata(&metadata, &mut findings);
        assert_eq!(findings.len(), 1);
    }
}
