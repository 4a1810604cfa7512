//! Tables of commands and options in the reference pages, from the definition of a command line.
//!
//! A table stands between the comments `<!-- PROGRAM: COMMAND, COMMAND -->` and `<!-- end -->`. A
//! command with subcommands stands for all of them. Without commands (`<!-- PROGRAM -->`), the
//! table is an overview of the program's commands.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};

const END: &str = "<!-- end -->";

/// Checks the tables of `pages` (in docs/reference), and that they contain every command. If
/// `GABION_UPDATE_PAGES` is set, rewrites the tables instead.
#[track_caller]
pub fn check(mut program: Command, pages: &[&str]) {
    program.build();
    let mut documented = Vec::new();
    for page in pages {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference").join(page);
        let current = std::fs::read_to_string(&path).unwrap();
        let expected = with_tables(&current, &program, &mut documented);
        if std::env::var_os("GABION_UPDATE_PAGES").is_some() {
            std::fs::write(&path, expected).unwrap();
            continue;
        }
        let differing = current.lines().zip(expected.lines()).find(|(old, new)| old != new);
        let hint = "run this test with GABION_UPDATE_PAGES=1 to update the page";
        assert!(
            current == expected,
            "{page} differs from the command line: {differing:#?}; {hint}"
        );
    }
    for command in leaves(&program) {
        let name = name(command);
        assert!(documented.contains(&name), "{name} is in no table of {pages:?}");
    }
}

/// Returns a page with new tables, and adds the names of their commands to `documented`.
fn with_tables(page: &str, program: &Command, documented: &mut Vec<String>) -> String {
    let start = format!("<!-- {}", program.get_name());
    let mut out = String::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        out += &format!("{line}\n");
        let Some(paths) = line.strip_prefix(&start).and_then(|rest| rest.strip_suffix(" -->"))
        else {
            continue;
        };
        let tables = match paths.strip_prefix(": ") {
            Some(paths) => {
                let named = paths.split(", ").map(|path| find(program, path));
                let commands: Vec<&Command> = named.flat_map(leaves).collect();
                documented.extend(commands.iter().map(|command| name(command)));
                usage_table(&commands) + &option_table(&commands)
            }
            None if paths.is_empty() => overview(program),
            None => continue, // of a program whose name begins with this one's
        };
        out += &format!("\n{tables}\n{END}\n");
        assert!(lines.any(|line| line == END), "{line} has no {END}");
    }
    out
}

/// Returns the command at `path`, such as `kms key`.
fn find<'a>(program: &'a Command, path: &str) -> &'a Command {
    path.split(' ').fold(program, |command, name| {
        command.find_subcommand(name).unwrap_or_else(|| panic!("no command `{path}`"))
    })
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
}

/// Returns the command itself, or all commands below it.
fn leaves(command: &Command) -> Vec<&Command> {
    match subcommands(command).next() {
        Some(_) => subcommands(command).flat_map(leaves).collect(),
        None => vec![command],
    }
}

/// Returns the name of a command without that of its program: `kms key list`.
fn name(command: &Command) -> String {
    let full = command.get_bin_name().unwrap();
    full.split_once(' ').unwrap().1.to_owned()
}

fn overview(program: &Command) -> String {
    let mut table = "| command | effect |\n|---|---|\n".to_owned();
    for command in subcommands(program) {
        let _ = writeln!(table, "| `{}` | {} |", command.get_bin_name().unwrap(), about(command));
    }
    table
}

fn usage_table(commands: &[&Command]) -> String {
    let mut table = "| command | effect |\n|---|---|\n".to_owned();
    for command in commands {
        let usage = (*command).clone().render_usage().to_string();
        let usage = cell(usage.trim_start_matches("Usage: "));
        let _ = writeln!(table, "| `{usage}` | {} |", about(command));
    }
    table
}

/// Returns a table of all options and arguments. Commands share the row of an option that has the
/// same help in each.
fn option_table(commands: &[&Command]) -> String {
    let mut rows: Vec<(String, String, Vec<String>)> = Vec::new();
    for (command, short) in commands.iter().zip(short_names(commands)) {
        for arg in command.get_arguments().filter(|arg| is_listed(arg)) {
            let (option, help) = (cell(&arg.to_string()), help(arg));
            match rows.iter_mut().find(|row| row.0 == option && row.1 == help) {
                Some(row) => row.2.push(short.clone()),
                None => rows.push((option, help, vec![short.clone()])),
            }
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let (mut table, has_one) = (String::new(), commands.len() == 1);
    table += if has_one { "\n| option |" } else { "\n| option | commands |" };
    table += if has_one { " meaning |\n|---|---|\n" } else { " meaning |\n|---|---|---|\n" };
    for (option, help, of) in rows {
        let of = match of.len() {
            _ if has_one => String::new(),
            all if all == commands.len() => " all |".into(),
            _ => format!(" `{}` |", of.join("`, `")),
        };
        let _ = writeln!(table, "| `{option}` |{of} {help} |");
    }
    table
}

fn is_listed(arg: &Arg) -> bool {
    !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str())
}

/// Returns the names of commands without the word that all of them begin with, such as `kms`.
fn short_names(commands: &[&Command]) -> Vec<String> {
    let mut names: Vec<String> = commands.iter().map(|command| name(command)).collect();
    while let Some((first, _)) = names[0].split_once(' ') {
        let prefix = format!("{first} ");
        if !names.iter().all(|name| name.starts_with(&prefix)) {
            break;
        }
        names = names.iter().map(|name| name[prefix.len()..].to_owned()).collect();
    }
    names
}

/// Returns the first paragraph of a command's help.
fn about(command: &Command) -> String {
    cell(&command.get_about().unwrap().to_string())
}

/// Returns the help of an option, with its default and its values as in `--help`.
fn help(arg: &Arg) -> String {
    let mut help = arg.get_help().unwrap_or_else(|| panic!("{arg} has no help")).to_string();
    if !arg.get_action().takes_values() {
        return cell(&help);
    }
    let join = |values: Vec<String>| values.join(", ");
    let defaults = arg.get_default_values().iter().filter(|value| *value != "-");
    let defaults = defaults.map(|value| value.to_string_lossy().into_owned());
    let values = arg.get_possible_values();
    let values = values.iter().filter(|value| !value.is_hide_set());
    for (title, list) in [
        ("default", join(defaults.collect())),
        ("values", join(values.map(|value| value.get_name().to_owned()).collect())),
    ] {
        if !list.is_empty() {
            help += &format!(" [{title}: {list}]");
        }
    }
    cell(&help)
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
