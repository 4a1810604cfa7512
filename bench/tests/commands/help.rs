//! The help of every command.

use std::process::Command;

use gabion_cli_testing::{CommandResult, Work, commands, example, program, runs_long_checks};

/// Stands for `gabion`, which the examples call.
const GABION: &str = "#!/bin/sh\n[ \"$1\" != bench ] || shift\nexec gabion-bench \"$@\"\n";

#[test]
fn help_opens_with_a_sentence_and_an_example_that_works() {
    let work = Work::new();
    let run = |arguments: &[String]| work.bench(arguments);
    let all = commands(&run, &[]);
    assert!(all.len() >= 13, "{all:?}");
    let runs_examples = runs_long_checks("the examples of gabion-bench");
    for command in all {
        let script = example(&run(&[&command[..], &["--help".to_owned()]].concat()).ok().text());
        assert!(script.contains("gabion"), "{command:?}: {script}");
        // These need a bundle, or their verdict is one of time; `tables.rs` runs them. So does the program's own example.
        let tables = ["run", "tls", "wire", "memory", "size", "openssl", "pkeyutl", "switches"];
        let is_table = command.iter().any(|name| tables.contains(&name.as_str()));
        if command.is_empty() || is_table || (!runs_examples && command[0] != "report") {
            continue;
        }
        let place = Work::new();
        place.write("gabion", GABION);
        CommandResult::of(
            Command::new("chmod").args(["+x"]).arg(place.path("gabion")).output().unwrap(),
        )
        .ok();
        let bench = program("gabion-bench");
        let folders = [place.folder(), bench.parent().unwrap().to_path_buf()]
            .map(|folder| folder.display().to_string());
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &script]).current_dir(place.folder());
        shell.env("PATH", format!("{}:{}", folders.join(":"), std::env::var("PATH").unwrap()));
        shell.env("XDG_STATE_HOME", place.state_home());
        CommandResult::of(shell.output().unwrap()).ok();
    }
    work.bench(&["no-such-command"]).fails(2);
    work.bench(&["tls", "--no-such-option"]).fails(2);
}

/// `gabion bench` starts the program by that name, so that its messages say what was typed.
#[test]
fn usage_repeats_the_name_that_the_program_was_started_under() {
    use std::os::unix::process::CommandExt;
    for (name, arguments, usage) in [
        ("gabion bench", ["tls", "--help"], "Usage: gabion bench tls"),
        ("gabion", ["run", "--help"], "Usage: gabion run"),
    ] {
        let output =
            Command::new(program("gabion-bench")).arg0(name).args(arguments).output().unwrap();
        let help = CommandResult::of(output).ok().text();
        assert!(help.contains(usage), "{help}");
    }
}

#[test]
fn every_command_has_a_manual_page_and_bash_accepts_the_completion_script() {
    let work = Work::new();
    work.bench(&["man", "man1"]).ok();
    for command in commands(&|arguments: &[String]| work.bench(arguments), &[]) {
        let page = [&["gabion-bench".to_owned()], &command[..]].concat().join("-");
        assert!(work.has(&format!("man1/{page}.1")), "{page}");
    }
    let script = work.bench(&["completions", "bash"]).ok();
    work.write("script", &script.out);
    let check = Command::new("bash").arg("-n").arg(work.path("script")).output().unwrap();
    CommandResult::of(check).ok();
    assert!(script.text().contains("gabion-bench"));
}
