//! Manual pages, shell completions and what a build says of itself.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use crate::harness::{CommandResult, Work, commands};

/// Returns whether a program can be started.
fn is_installed(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    let found = command.status().is_ok();
    if !found {
        eprintln!("not run: {program} is not installed");
    }
    found
}

#[test]
fn every_command_has_a_manual_page_and_each_page_renders() {
    let work = Work::new();
    work.gabion(&["man", "new/man1"]).ok();
    let run = |arguments: &[String]| work.gabion(arguments);
    let mut expected: BTreeSet<String> = commands(&run_own(&run), &[])
        .iter()
        .map(|command| [&["gabion".to_owned()], &command[..]].concat().join("-") + ".1")
        .collect();
    expected.extend(["bench", "report", "run"].map(|name| format!("gabion-{name}.1")));
    let folder = work.path("new/man1");
    let entries = std::fs::read_dir(&folder).unwrap();
    let pages: BTreeSet<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(pages, expected);
    assert!(pages.contains("gabion-kms-audit-verify.1") || cfg!(not(feature = "kms")));
    let page = std::fs::read_to_string(folder.join("gabion-sign.1")).unwrap();
    assert!(page.contains(".SH OPTIONS") && page.contains("gabion sign"), "{page}");
    if is_installed("groff") {
        let mut groff = Command::new("groff");
        // Of lines without a blank to stretch nothing is to be heard.
        groff.args(["-man", "-Tutf8", "-ww", "-Wbreak", "-z"]).args(&pages).current_dir(&folder);
        let rendered = CommandResult::of(groff.output().unwrap()).ok();
        assert_eq!(rendered.err, "");
    }
    if is_installed("mandoc") {
        let mut mandoc = Command::new("mandoc");
        mandoc.args(["-T", "lint", "-W", "error"]).args(&pages).current_dir(&folder);
        CommandResult::of(mandoc.output().unwrap()).ok();
    }
    work.write("file", "");
    work.gabion(&["man", "file"]).fails(3).says("file");
}

/// Runs commands, except those that another program has, whose help is that one's.
fn run_own(run: &dyn Fn(&[String]) -> CommandResult) -> impl Fn(&[String]) -> CommandResult {
    move |arguments| match arguments {
        [first, ..] if ["bench", "report", "run"].contains(&first.as_str()) => {
            run(&["--version".to_owned()])
        }
        _ => run(arguments),
    }
}

#[test]
fn each_shell_accepts_its_completion_script() {
    let work = Work::new();
    for shell in ["bash", "fish", "zsh"] {
        let script = work.gabion(&["completions", shell]).ok();
        assert!(script.text().contains("keygen"), "{shell}");
        work.write(shell, &script.out);
        if is_installed(shell) {
            let check = Command::new(shell).arg("-n").arg(work.path(shell)).output().unwrap();
            assert_eq!(CommandResult::of(check).ok().err, "", "{shell}");
        }
    }
    work.gabion(&["completions", "tcsh"]).fails(2).says("bash");
}

#[test]
fn bash_completes_commands_options_and_values() {
    if !is_installed("bash") {
        return;
    }
    let work = Work::new();
    work.write("script", work.gabion(&["completions", "bash"]).ok().out);
    for (words, expected) in [
        (&["gabion", "key"][..], "keygen"),
        (&["gabion", "provider", "enab"], "enable"),
        (&["gabion", "completions", "f"], "fish"),
        (&["gabion", "sign", "--k"], "--key"),
    ] {
        let complete = format!(
            "source ./script; COMP_WORDS=({}); COMP_CWORD={}; _gabion gabion {} {}; echo ${{COMPREPLY[*]}}",
            words.join(" "),
            words.len() - 1,
            words[words.len() - 1],
            words[words.len() - 2],
        );
        let mut bash = Command::new("bash");
        bash.args(["--norc", "-c", &complete]).current_dir(work.folder());
        let said = CommandResult::of(bash.output().unwrap()).ok().text();
        assert_eq!(said.trim(), expected, "{words:?}");
    }
}

#[test]
fn a_build_says_what_it_is() {
    let work = Work::new();
    let build = work.gabion(&["--version", "--json"]).ok();
    assert_eq!(build.out, work.gabion(&["--json", "-V"]).ok().out);
    let build = build.json();
    let version = build["version"].as_str().unwrap().to_owned();
    assert_eq!(work.gabion(&["--version"]).ok().text(), format!("gabion {version}\n"));
    assert!(build["commit"].is_null() || build["commit"].is_string());
    assert_eq!(
        build["features"].as_array().unwrap().contains(&"kms".into()),
        cfg!(feature = "kms")
    );
    assert!(build["backends"].as_array().unwrap().contains(&"portable".into()));
    assert!(["debug", "release"].contains(&build["profile"].as_str().unwrap()));
    assert_eq!(build["target"], format!("{}-linux", std::env::consts::ARCH));
    assert_eq!(build.as_object().unwrap().len(), 6);
}
