//! Parsing and validation of policy texts.
//!
//! Cedar's parser and validator recurse once for each nested operator and bracket, and a stack
//! overflow ends the process. Therefore the nesting of the text is bounded first, and the text is
//! parsed on a stack that is large enough for the bound.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::LazyLock;

use cedar_policy::{
    EntityId, EntityUid, Policy, PolicyId, PolicySet, Schema, ValidationError, ValidationMode,
    Validator,
};
use miette::Diagnostic;

use super::action::Action;
use super::principal::canonical;
use crate::error::Error;
use crate::model::Label;

/// The maximum size of a set in bytes.
pub const POLICY_TEXT_MAX: usize = 64 << 10;

/// The maximum depth of nested brackets.
const BRACKETS_MAX: usize = 32;

/// The maximum number of operators and brackets of a policy, all of which may be nested.
const OPERATORS_MAX: usize = 256;

/// Twice 64 KiB for each operator, which an unoptimized build needs.
const STACK: usize = 32 << 20;

/// The maximum number of errors in one message.
const FAULTS_MAX: usize = 8;

/// The Cedar schema of policies.
static SCHEMA: LazyLock<Result<Schema, String>> = LazyLock::new(|| {
    Schema::from_cedarschema_str(include_str!("policy.cedarschema"))
        .map(|(schema, _)| schema)
        .map_err(|error| error.to_string())
});

pub fn schema() -> Result<&'static Schema, Error> {
    SCHEMA.as_ref().map_err(|error| Error::Parameter(error.clone()))
}

/// Parses a set. Its policies are named `NAME#0` and so on, in the order of the text.
///
/// # Errors
/// [`Error::Parameter`], with lines and columns.
pub fn read(name: &Label, text: &str) -> Result<Vec<Policy>, Error> {
    measure(text)?;
    stacker::grow(STACK, || checked(name, text, Warnings::Refused))
}

/// Parses a set that was accepted before. Warnings of newer Cedar versions are ignored, because
/// they do not change the meaning of a policy.
///
/// # Errors
/// Those of [`read`], except Cedar's warnings.
pub fn read_accepted(name: &Label, text: &str) -> Result<Vec<Policy>, Error> {
    measure(text)?;
    stacker::grow(STACK, || checked(name, text, Warnings::Ignored))
}

/// The handling of Cedar's warnings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Warnings {
    Refused,
    Ignored,
}

fn checked(name: &Label, text: &str, warnings: Warnings) -> Result<Vec<Policy>, Error> {
    let set = PolicySet::from_str(text)
        .map_err(|errors| refused(errors.iter().map(|error| fault(text, error))))?;
    if set.templates().next().is_some() {
        return Err(refused(["policy templates (`?principal`, `?resource`) are not supported"]));
    }
    let found = Validator::new(schema()?.clone()).validate(&set, ValidationMode::Strict);
    let is_accepted = match warnings {
        Warnings::Refused => found.validation_passed_without_warnings(),
        Warnings::Ignored => found.validation_passed(),
    };
    if !is_accepted {
        let errors = found.validation_errors().map(|error| match error {
            ValidationError::UnrecognizedActionId(_) => unknown_action(text, error),
            error => fault(text, error),
        });
        let warnings = found.validation_warnings().map(|warning| fault(text, warning));
        return Err(refused(errors.chain(warnings)));
    }
    // Cedar names the policies policy0, policy1 and so on.
    let number = |policy: &Policy| {
        let id: &str = policy.id().as_ref();
        id.trim_start_matches(|digit: char| !digit.is_ascii_digit()).parse::<usize>().unwrap_or(0)
    };
    let in_order: BTreeMap<usize, &Policy> =
        set.policies().map(|policy| (number(policy), policy)).collect();
    if in_order.is_empty() {
        return Err(refused(["it contains no policy"]));
    }
    let named = |(number, policy): (usize, &Policy)| {
        Ok(with_canonical_names(policy)?.new_id(PolicyId::new(format!("{name}#{number}"))))
    };
    in_order.into_iter().map(named).collect()
}

/// Rewrites names of certificates to the gate's canonical form, so that a policy matches a
/// certificate regardless of the spelling of the name.
fn with_canonical_names(policy: &Policy) -> Result<Policy, Error> {
    let names = policy.entity_literals().into_iter().filter_map(|uid| {
        let name = canonical(uid.id().unescaped());
        let is_other = uid.type_name().basename() == "Certificate" && name != uid.id().unescaped();
        let other =
            || EntityUid::from_type_name_and_id(uid.type_name().clone(), EntityId::new(name));
        is_other.then(|| (uid.clone(), other()))
    });
    let names: BTreeMap<EntityUid, EntityUid> = names.collect();
    match names.is_empty() {
        true => Ok(policy.clone()),
        false => {
            policy.sub_entity_literals(names).map_err(|error| Error::Parameter(error.to_string()))
        }
    }
}

/// Rejects texts that could be nested too deeply for the stack.
fn measure(text: &str) -> Result<(), Error> {
    if text.len() > POLICY_TEXT_MAX {
        let (what, most) = ("bytes of a set of policies", POLICY_TEXT_MAX);
        return Err(Error::TooLarge { what, most, got: text.len() });
    }
    let (mut depth, mut operators) = (0usize, 0);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let mut taken = next.len_utf8();
        match next {
            '"' => taken = text_len(rest),
            '/' if rest.starts_with("//") => taken = rest.find('\n').unwrap_or(rest.len()),
            ';' => (depth, operators) = (0, 0),
            '(' | '[' | '{' => {
                depth += 1;
                operators += 1;
            }
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            '.' | '+' | '-' | '*' | '!' => operators += 1,
            '&' | '|' if rest[1..].starts_with(next) => {
                taken = 2;
                operators += 1;
            }
            letter if letter.is_alphabetic() || letter == '_' => {
                let is_within = |next: char| next.is_alphanumeric() || next == '_';
                taken = rest.find(|next| !is_within(next)).unwrap_or(rest.len());
                operators += usize::from(&rest[..taken] == "if");
            }
            _ => {}
        }
        if depth > BRACKETS_MAX || operators > OPERATORS_MAX {
            let at = place(text, text.len() - rest.len());
            return Err(refused([format!(
                "{at}: a policy has at most {OPERATORS_MAX} operators and brackets, and {BRACKETS_MAX} brackets within each other"
            )]));
        }
        rest = &rest[taken..];
    }
    Ok(())
}

/// Returns the length of the string literal at the beginning of `rest`, including its quotes.
fn text_len(rest: &str) -> usize {
    let mut is_escaped = false;
    for (at, next) in rest.char_indices().skip(1) {
        match next {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Describes an unknown action and suggests a similar one. Cedar's own suggestion compares the name
/// with names that include their type, so it favors short ones.
fn unknown_action(text: &str, error: &ValidationError) -> String {
    let said = error.to_string();
    let typed = said.split_once("Action::\"").and_then(|(_, rest)| rest.split('"').next());
    let Some(typed) = typed.filter(|typed| typed.len() <= ACTION_MAX) else {
        return fault(text, error);
    };
    let by_distance = |action: &Action| distance(typed, action.as_str());
    let nearest = Action::ALL.iter().copied().min_by_key(by_distance);
    let help = match nearest.filter(|nearest| by_distance(nearest) <= typed.len() / 2) {
        Some(nearest) => format!("did you mean `Action::\"{nearest}\"`?"),
        None => {
            let all: Vec<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
            format!("expected one of {}", all.join(", "))
        }
    };
    format!("{}{error} ({help})", at(text, error))
}

/// The maximum length of a name that is compared with the names of actions.
const ACTION_MAX: usize = 64;

/// Returns the Levenshtein distance: the number of letters to insert, remove or replace in one text
/// to get the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, letter) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, wanted) in other.bytes().enumerate() {
            let above = row[column + 1];
            let replaced = diagonal + usize::from(letter != wanted);
            row[column + 1] = replaced.min(above + 1).min(row[column] + 1);
            diagonal = above;
        }
    }
    row[other.len()]
}

/// Formats an error with its position.
fn fault(text: &str, error: &dyn Diagnostic) -> String {
    let help = error.help().map(|help| format!(" ({help})")).unwrap_or_default();
    format!("{}{error}{help}", at(text, error))
}

/// Formats the position of an error, followed by a colon.
fn at(text: &str, error: &dyn Diagnostic) -> String {
    let label = error.labels().and_then(|mut labels| labels.next());
    label.map(|label| place(text, label.offset()) + ": ").unwrap_or_default()
}

/// Returns the line and the column, both from 1.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&next| next != '\n').count() + 1;
    format!("line {line}, column {column}")
}

fn refused<T: Into<String>>(faults: impl IntoIterator<Item = T>) -> Error {
    let mut told: Vec<String> = Vec::new();
    for fault in faults.into_iter().map(Into::into) {
        // The validator reports the same error once for each combination of principal and action.
        if told.len() < FAULTS_MAX && !told.contains(&fault) {
            told.push(fault);
        }
    }
    Error::Parameter(format!("invalid policies: {}", told.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Policy>, Error> {
        read(&Label::new("set", "web").unwrap(), text)
    }

    #[test]
    fn the_schema_has_every_action_and_no_other() {
        let mut known: Vec<String> =
            schema().unwrap().actions().map(|action| action.id().unescaped().to_owned()).collect();
        let mut ours: Vec<&str> = Action::ALL.iter().map(|action| action.as_str()).collect();
        known.sort_unstable();
        ours.sort_unstable();
        assert_eq!(known, ours);
    }

    #[test]
    fn policies_have_names_in_their_order() {
        let policy = "permit(principal, action, resource);\n";
        let ids: Vec<String> =
            of(&policy.repeat(12)).unwrap().iter().map(|policy| policy.id().to_string()).collect();
        assert_eq!(ids, (0..12).map(|at| format!("web#{at}")).collect::<Vec<_>>());
    }

    #[test]
    fn policy_errors_are_reported_with_their_position() {
        for (text, says) in [
            ("permit(principal, action, resource)", "line 1, column 36"),
            (
                "\n permit(principal, action == Action::\"sing\", resource);",
                "did you mean `Action::\"sign\"`",
            ),
            (
                "permit(principal, action == Action::\"sgin\", resource);",
                "did you mean `Action::\"sign\"`",
            ),
            (
                "permit(principal, action in [Action::\"decript\"], resource);",
                "did you mean `Action::\"decrypt\"`",
            ),
            (
                "permit(principal, action == Action::\"authorize\", resource);",
                "expected one of create, list,",
            ),
            (
                "permit(principal, action, resource)\nwhen { resource.colour == 1 };",
                "line 2, column 8",
            ),
            ("permit(principal == User::\"a\", action, resource);", "User"),
            ("permit(principal, action, resource) when { context.now == 3 };", "column"),
            // An optional attribute needs a `has` check first.
            (
                "permit(principal, action, resource) when { context.address.isLoopback() };",
                "address",
            ),
            ("forbid(principal, action, resource) when { false };", "line 1"),
            ("permit(principal == ?principal, action, resource);", "?principal"),
            ("// nothing\n", "no policy"),
            ("permit(principal, action, resource) when { \"a\" < 1 };", "line 1"),
        ] {
            let error = of(text).map(|policies| policies.len()).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    /// Another version of Cedar may warn about texts that this version accepts.
    #[test]
    fn a_set_that_was_accepted_is_read_whatever_cedar_warns_about() {
        let name = Label::new("set", "web").unwrap();
        let text = "forbid(principal, action, resource) when { false };";
        assert!(read(&name, text).unwrap_err().to_string().contains("line 1"));
        assert_eq!(read_accepted(&name, text).unwrap().len(), 1);
        for wrong in ["permit(principal, action == Action::\"sing\", resource);", "permit(", ""] {
            assert!(read_accepted(&name, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn deeply_nested_policies_are_refused() {
        let when =
            |text: &str| format!("permit(principal, action, resource is Key) when {{ {text} }};\n");
        let deep = |before: &str, many: usize, after: &str| {
            when(&format!("{}true{}", before.repeat(many), after.repeat(many)))
        };
        for text in [
            deep("true && ", 10_000, ""),
            deep("(", 33, ")"),
            deep("if true then true else ", 300, ""),
            when(&format!("{}1 == 1", "1 + ".repeat(300))),
            when(&format!("resource{} == 1", ".a".repeat(300))),
            "x".repeat(POLICY_TEXT_MAX + 1),
        ] {
            let error = of(&text).map(|policies| policies.len()).unwrap_err().to_string();
            assert!(error.contains("at most") || error.contains("the limit is"), "{error}");
        }
        // Accepted texts, which are parsed several times, and operators inside of strings and
        // comments.
        for text in [
            deep("true && ", 250, ""),
            deep("(", 30, ")"),
            deep("if true then true else ", 250, ""),
            when("resource.name == \"((((((((((((((((((((((((((((((((((((\\\"((((((((\" // (((((((((((((((((((((((((\n").repeat(2),
            when("resource.name like \"*\"").repeat(300),
        ] {
            of(&text).unwrap();
        }
    }

    #[test]
    fn no_text_ends_the_process() {
        let words = [
            "permit",
            "forbid",
            "(",
            ")",
            "principal",
            ",",
            "action",
            "resource",
            ";",
            "when",
            "{",
            "}",
            "\"",
            "\\",
            "//",
            "\n",
            "in",
            "[",
            "]",
            "Action::\"sign\"",
            "==",
            "context",
            ".",
            "now",
            "&&",
            "|",
            "if",
            "then",
            "else",
            "!",
            "-",
            "like",
            "is",
            "has",
            "\u{e4}",
            "\u{202e}",
            "@",
            "?principal",
            "9223372036854775808",
        ];
        let mut state = 28u64;
        for _ in 0..2000 {
            let mut text = String::new();
            for _ in 0..30 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                text.push_str(words[(state >> 33) as usize % words.len()]);
                text.push(' ');
            }
            assert!(of(&text).is_err(), "{text}");
        }
    }
}
