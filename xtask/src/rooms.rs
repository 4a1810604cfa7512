//! Rules inside crates: no circle among modules, what a module may not name, and the order of rooms.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::modules::{Arrow, Crate, circles};

/// The root of each crate.
const ROOTS: &[&str] = &[
    "scheme/src/lib.rs",
    "backend/src/lib.rs",
    "backend/machine/src/lib.rs",
    "backend/cuda/src/lib.rs",
    "backend/cuda/emulator/src/lib.rs",
    "engine/src/lib.rs",
    "disk/src/lib.rs",
    "state/src/lib.rs",
    "tls/examples/src/lib.rs",
    "tls/probe/src/lib.rs",
    "tls/rustls/src/lib.rs",
    "kms/core/src/lib.rs",
    "kms/wire/src/lib.rs",
    "kms/client/src/lib.rs",
    "kms/server/src/lib.rs",
    "ship/src/lib.rs",
    "bench/src/lib.rs",
    "bench/rows/src/lib.rs",
    "bench/peers/src/main.rs",
    "front/provider/src/lib.rs",
    "front/provider/stats/src/lib.rs",
    "front/provider/testing/src/lib.rs",
    "front/capi/src/lib.rs",
    "front/cli/src/lib.rs",
    "front/cli/testing/src/lib.rs",
    "tests/src/lib.rs",
    "tests/constant-time/src/main.rs",
    "tests/constant-time/scan/src/main.rs",
    "xtask/src/main.rs",
];

/// A crate, a module of it, what that may not name, and why.
type Rule = (&'static str, &'static str, &'static [&'static str], &'static str);

/// Forbidden dependencies that are not circles.
const RULES: &[Rule] = &[
    ("backend", "avx512", &["avx2", "neon", "cpu"], ISA),
    ("backend", "avx2", &["avx512", "neon", "cpu"], ISA),
    ("backend", "neon", &["avx2", "avx512", "x86", "cpu"], ISA),
    ("backend", "portable", &["avx2", "avx512", "neon", "x86", "cpu"], ISA),
    ("backend", "batch", &["cpu", "portable", "avx2", "avx512", "neon"], SEAM),
    ("scheme", "kernels", &["ml_kem", "ml_dsa", "slh_dsa", "ed25519", "fn_dsa"], SEAM),
    (
        "kms/core",
        "store",
        &["model", "seal", "operations", "gate", "audit", "service"],
        "a store knows no keys",
    ),
    (
        "kms/core",
        "model",
        &["store", "seal", "operations", "gate", "audit", "service"],
        "the model does nothing",
    ),
    ("kms/core", "operations", &["gate", "audit", "service"], "an operation asks nobody"),
    ("kms/core", "gate", &["audit", "service"], "a gate tells nobody"),
    ("kms/core", "audit", &["operations", "service"], "a log does nothing with keys"),
    ("front/provider", "ffi", &["core", "border", "loaded"], "C's side is the lowest"),
];

/// A crate, and its rooms from the top: a room depends on those of the same level and below.
type Order = (&'static str, &'static [&'static [&'static str]]);

/// The order of rooms in crates that have one.
const ORDERS: &[Order] = &[(
    "kms/server",
    &[
        &["certificate", "dev", "server", "listen"],
        &["http"],
        &["api"],
        &["lifecycle"],
        &["config"],
        &["net", "parse", "blocking"],
        &["problem", "error"],
    ],
)];

const ISA: &str = "one instruction set knows no other";
const SEAM: &str = "a seam knows neither side";

/// Reads every crate's modules and holds them to the rules.
pub fn check(root: &Path, findings: &mut Vec<String>) {
    check_roots(&fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default(), findings);
    for of in ROOTS {
        let source = |path: &Path| fs::read_to_string(root.join(path)).ok();
        match Crate::read(Path::new(of), &source) {
            Ok(modules) => check_crate(of, &modules, findings),
            Err(why) => findings.push(why),
        }
    }
}

/// Reports members of the workspace whose modules are not checked.
fn check_roots(workspace: &str, findings: &mut Vec<String>) {
    let mut members = workspace.lines().skip_while(|line| !line.starts_with("members"));
    members.next();
    for line in members.take_while(|line| !line.starts_with(']')) {
        let member = line.split('"').nth(1).unwrap_or(line);
        let is_its_root = |root: &str| root.split("/src/").next() == Some(member);
        if !ROOTS.iter().any(|root| is_its_root(root)) {
            findings.push(format!("{member}: no root; give it one in xtask/src/rooms.rs"));
        }
    }
}

fn check_crate(root: &str, modules: &Crate, findings: &mut Vec<String>) {
    let name = root.split("/src/").next().unwrap_or(root);
    let arrows = modules.arrows();
    for (room, members) in circles(&arrows) {
        let within = [&[name.to_owned()], &room[..]].concat().join("::");
        let mut ties = BTreeMap::new();
        for arrow in &arrows {
            let ends = [&arrow.from, &arrow.to].map(|place| place.get(room.len()));
            let is_tie = arrow.from.starts_with(&room)
                && arrow.to.starts_with(&room)
                && ends[0] != ends[1]
                && ends.iter().all(|end| end.is_some_and(|end| members.contains(end)));
            if is_tie {
                let text = format!("    {} names {}", arrow.from.join("::"), arrow.path);
                ties.entry(ends).or_insert((text, 0)).1 += 1;
            }
        }
        let ties: Vec<String> = ties
            .into_values()
            .map(|(first, count)| match count {
                1 => first,
                _ => format!("{first}, and {} more of its", count - 1),
            })
            .collect();
        findings.push(format!(
            "{within}: a circle of {}; turn one arrow round:\n{}",
            members.join(", "),
            ties.join("\n")
        ));
    }
    for (of, floors) in ORDERS.iter().filter(|order| order.0 == name) {
        check_order(of, floors, &arrows, findings);
    }
    for (of, module, others, why) in RULES.iter().filter(|rule| rule.0 == name) {
        for arrow in &arrows {
            let is_at = |place: &[String], at: &str| place.first().is_some_and(|first| first == at);
            let other = others.iter().find(|other| is_at(&arrow.to, other));
            if let Some(other) = other.filter(|_| is_at(&arrow.from, module)) {
                let from = arrow.from.join("::");
                findings.push(format!("{of}: {from} names {} of {other}: {why}", arrow.path));
            }
        }
    }
}

/// Reports arrows that point up, and modules without a room.
fn check_order(of: &str, floors: &[&[&str]], arrows: &BTreeSet<Arrow>, findings: &mut Vec<String>) {
    let floor = |place: &[String]| {
        let room = place.first()?;
        let found = floors.iter().position(|floor| floor.contains(&room.as_str()));
        Some(found.ok_or_else(|| format!("{of}: {room} has no room; give it one in ORDERS")))
    };
    let mut found = BTreeSet::new();
    for arrow in arrows {
        let (Some(from), Some(to)) = (floor(&arrow.from), floor(&arrow.to)) else { continue };
        match (from, to) {
            (Ok(from), Ok(to)) if to < from => {
                let from = arrow.from.join("::");
                found.insert(format!("{of}: {from} names {}, which is above it", arrow.path));
            }
            (Ok(_), Ok(_)) => {}
            (Err(why), _) | (_, Err(why)) => _ = found.insert(why),
        }
    }
    findings.extend(found);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(root: &str, files: &[(&str, &str)]) -> Vec<String> {
        let source = |path: &Path| {
            let name = path.to_str()?;
            files.iter().find(|(file, _)| *file == name).map(|(_, text)| (*text).to_owned())
        };
        let mut findings = Vec::new();
        check_crate(root, &Crate::read(Path::new(root), &source).unwrap(), &mut findings);
        findings
    }

    #[test]
    fn a_planted_circle_is_told_with_its_ties() {
        let files = [
            ("ship/src/lib.rs", "mod a;\nmod b;\n"),
            ("ship/src/a.rs", "use crate::b::f;\n"),
            ("ship/src/b.rs", "fn g() { crate::a::h() }\n"),
        ];
        let findings = found("ship/src/lib.rs", &files);
        assert_eq!(findings.len(), 1);
        for part in ["ship: a circle of a, b", "a names crate::b::f", "b names crate::a::h"] {
            assert!(findings[0].contains(part), "{findings:?}");
        }
    }

    #[test]
    fn a_member_without_a_root_is_told() {
        let mut findings = Vec::new();
        let members = "[workspace]\nmembers = [\n    \"engine\", # all\n    \"abacus\",\n]\n";
        check_roots(members, &mut findings);
        assert_eq!(findings, ["abacus: no root; give it one in xtask/src/rooms.rs"]);
    }

    #[test]
    fn a_planted_arrow_against_the_order_is_reported() {
        let files = [
            ("kms/server/src/lib.rs", "mod http;\nmod net;\nmod cellar;\n"),
            ("kms/server/src/http.rs", "use crate::net::f;\n"),
            ("kms/server/src/net.rs", "mod tls { use crate::http::g; }\n"),
            ("kms/server/src/cellar.rs", "use crate::net::f;\n"),
        ];
        let findings = found("kms/server/src/lib.rs", &files);
        assert!(findings[0].contains("a circle of http, net"), "{findings:?}");
        assert_eq!(
            findings[1..],
            [
                "kms/server: cellar has no room; give it one in ORDERS",
                "kms/server: net::tls names crate::http::g, which is above it",
            ]
        );
    }

    #[test]
    fn a_planted_upward_arrow_is_told() {
        let files = [
            ("backend/src/lib.rs", "mod avx2;\nmod avx512;\n"),
            ("backend/src/avx2.rs", ""),
            ("backend/src/avx512.rs", "mod kernel { use crate::avx2::f; }\n"),
        ];
        let findings = found("backend/src/lib.rs", &files);
        assert_eq!(
            findings,
            [format!("backend: avx512::kernel names crate::avx2::f of avx2: {ISA}")]
        );
    }
}
