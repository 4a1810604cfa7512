//! Names of types, variants, files and folders: nouns, and no bare participles, pronouns, adverbs, prepositions or verbs.
//!
//! Only names of one word are read: `Held` is refused, `HeldLock` is not. Participles that name a state or an outcome are
//! idiomatic for variants (`Closed`, `Done`, `Failed`), so variants are held to pronouns, adverbs and prepositions alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::Delimiter;

use crate::tokens::{self, Token};

/// Pronouns and determiners.
const PRONOUNS: &str = "
    all another any anybody anyone anything both each either else everybody everyone everything he her hers him
    his it its mine more most much my neither no nobody none nothing one other others our ours several she some
    somebody someone something such that their theirs them then these they this those us we what whatever which
    whichever who whoever whom whose you yours";

/// Adverbs and conjunctions.
const ADVERBS: &str = "
    again ago ahead almost alone along already also always apart aside away back besides beyond down elsewhere
    enough even ever everywhere forth hence here how however if inside just later maybe meanwhile near never
    next not now nowhere off often on once only out outside perhaps quite rather so somehow sometimes somewhere
    soon still than there thus together too twice up when where whereabouts whether while why yet";

/// Prepositions.
const PREPOSITIONS: &str = "
    about above across after against among around as at because before behind below beneath beside between but
    by during except for from in into like of onto over past per since through till to toward towards under
    until unto upon via with within without";

/// Irregular participles, and verbs in forms that are no nouns. Those that are nouns too (`set`, `read`, `run`) are left out.
const VERBS: &str = "
    am are ask asks be been begun being born bought bound brought built came caught chosen come dealt did do
    does done drawn driven due eaten fallen fed fell felt forgotten fought found frozen gave given gone got
    grown had has have heard held hidden hung is kept knew known laid led left lent lost made meant met paid ran
    risen rode said saw say says seen sent shown shut sold sought spent spoken stolen stood struck stuck sung
    swept sworn swung taken taught tell tells thought thrown told took torn tried understood was went were woken
    won worn wound written";

/// Nouns that end like regular participles. `marshaling` is Vault's marshaling_algorithm; `remaining` is what a key or a
/// slice has left, as the design calls it.
const NOUNS: &str = "
    bed binding breed building ceiling coding decoding deed encoding feed finding heading hearing king listing
    mapping marshaling meaning need opening padding pairing ping reading red remaining ring rounding routing
    seed setting settings shed sibling signing spacing speed spring string tampering testing thing timing
    unsealing warning wing wrapping";

/// Variants that are no nouns and that every reader knows, from the standard library and from options of programs.
const VARIANTS_ALLOWED: &str = "
    all any both down either no none off on other up";

/// A file, a name in it, and why that stays.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "front/provider/src/keymgmt.rs",
        "Has",
        "the type of OpenSSL's OSSL_FUNC_keymgmt_has, as its neighbours are of New, Load and Match",
    ),
    ("ship/src/environment.rs", "Only", "the value `only` of the FIPS mode"),
    (
        "kms/core/src/service/coalesced.rs",
        "coalesced",
        "signs and verifies coalesced requests; the server coalesces them",
    ),
    ("kms/core/tests/core/coalesced.rs", "coalesced", "the tests of service/coalesced.rs"),
    (
        "kms/server/src/blocking.rs",
        "blocking",
        "runs calls that block, as reqwest::blocking and tokio's spawn_blocking are named",
    ),
];

/// Looks through every Rust source and folder of the project.
pub fn check(root: &Path, findings: &mut Vec<String>) {
    let mut sources = Vec::new();
    collect(root, &mut sources);
    sources.sort();
    let mut folders = BTreeSet::new();
    for source in &sources {
        let path = source.strip_prefix(root).unwrap_or(source);
        let name = path.to_string_lossy();
        check_path(path, &mut folders, findings);
        match fs::read_to_string(source)
            .map_err(|error| error.to_string())
            .and_then(|text| tokens::read(&text))
        {
            Ok(tokens) => check_items(&name, &tokens, findings),
            Err(why) => findings.push(format!("{name}: {why}")),
        }
    }
}

/// The sources below a folder, without build outputs and hidden folders.
fn collect(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let is_hidden = name.to_string_lossy().starts_with('.') || name == "target";
        if path.is_dir() && !is_hidden {
            collect(&path, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            out.push(path);
        }
    }
}

/// Checks a file's name, and those of its folders once.
fn check_path(path: &Path, folders: &mut BTreeSet<PathBuf>, findings: &mut Vec<String>) {
    for folder in path.ancestors().skip(1).filter(|folder| folder.file_name().is_some()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy();
        if let Some(class) = class_of(&name).filter(|_| folders.insert(folder.to_owned())) {
            findings.push(finding(&folder.to_string_lossy(), 1, "folder", &name, class));
        }
    }
    let (name, stem) = (path.to_string_lossy(), path.file_stem().unwrap_or_default());
    let stem = stem.to_string_lossy();
    if let Some(class) = class_of(&stem).filter(|_| !is_exception(&name, &stem)) {
        findings.push(finding(&name, 1, "file", &stem, class));
    }
}

/// Checks the types and variants among tokens, those in functions and macros too.
fn check_items(path: &str, tokens: &[Token], findings: &mut Vec<String>) {
    for (at, token) in tokens.iter().enumerate() {
        if let Token::Group(_, inner, _) = token {
            check_items(path, inner, findings);
        }
        let (Some(kind), Some(Token::Word(name, line))) = (token.word(), tokens.get(at + 1)) else {
            continue;
        };
        if !matches!(kind, "struct" | "enum" | "trait" | "type" | "union") || !is_word(name) {
            continue;
        }
        if let Some(class) = class_of(name).filter(|_| !is_exception(path, name)) {
            findings.push(finding(path, *line, kind, name, class));
        }
        if kind == "enum" {
            let body = tokens[at + 2..].iter().find_map(|token| match token {
                Token::Group(Delimiter::Brace, body, _) => Some(body),
                _ => None,
            });
            check_variants(path, name, body.map_or(&[], Vec::as_slice), findings);
        }
    }
}

/// Checks the variants of an enum, which begin after its brace and after each comma.
fn check_variants(path: &str, of: &str, body: &[Token], findings: &mut Vec<String>) {
    for variant in body.split(|token| matches!(token, Token::Mark(','))) {
        let mut rest = variant;
        while let [Token::Mark('#'), Token::Group(..), next @ ..] = rest {
            rest = next;
        }
        let Some(Token::Word(name, line)) = rest.first() else { continue };
        let class = class_of_variant(name).filter(|_| !is_exception(path, name));
        if let Some(class) = class {
            findings.push(finding(path, *line, "variant", &format!("{of}::{name}"), class));
        }
    }
}

fn is_exception(path: &str, name: &str) -> bool {
    EXCEPTIONS.iter().any(|(file, of, _)| (*file, *of) == (path, name))
}

fn finding(path: &str, line: usize, kind: &str, name: &str, class: &str) -> String {
    format!(
        "{path}:{line}: {kind} `{name}` is {class}; name it by a noun of the field, for what it holds or does"
    )
}

/// Returns whether a name begins like a type's and has one word.
fn is_word(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Returns the class of word for which a name is refused; `None` if it is fine, or has several
/// words.
fn class_of(name: &str) -> Option<&'static str> {
    let word = single(name)?;
    let is_in = |list: &str| list.split_ascii_whitespace().any(|listed| listed == word);
    let is_participle = |ending: &str| word.len() > ending.len() + 1 && word.ends_with(ending);
    match () {
        () if is_in(PRONOUNS) => Some("a pronoun"),
        () if is_in(ADVERBS) => Some("an adverb"),
        () if is_in(PREPOSITIONS) => Some("a preposition"),
        () if is_in(VERBS) => Some("a bare verb or participle"),
        () if is_in(NOUNS) => None,
        () if is_participle("ed") || is_participle("ing") => Some("a bare participle"),
        () => None,
    }
}

/// Returns the class of word for which a variant's name is refused.
fn class_of_variant(name: &str) -> Option<&'static str> {
    let word = single(name)?;
    let is_in = |list: &str| list.split_ascii_whitespace().any(|listed| listed == word);
    match () {
        () if is_in(VARIANTS_ALLOWED) => None,
        () if is_in(PRONOUNS) => Some("a pronoun"),
        () if is_in(ADVERBS) => Some("an adverb"),
        () if is_in(PREPOSITIONS) => Some("a preposition"),
        () => None,
    }
}

/// A name in small letters, if it is one word.
fn single(name: &str) -> Option<String> {
    let inner = name.strip_prefix("r#").unwrap_or(name);
    let has_one = !inner.chars().skip(1).any(|c| c.is_ascii_uppercase() || "_-".contains(c));
    has_one.then(|| inner.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check_items("engine/src/x.rs", &tokens::read(text).unwrap(), &mut findings);
        findings
    }

    #[test]
    fn types_are_nouns() {
        for (name, class) in [
            ("Taken", "a bare verb or participle"),
            ("Cached", "a bare participle"),
            ("Making", "a bare participle"),
            ("Others", "a pronoun"),
            ("Together", "an adverb"),
            ("Of", "a preposition"),
            ("Said", "a bare verb or participle"),
        ] {
            for text in [
                format!("struct {name};"),
                format!("pub(crate) struct {name}<'a, T>(&'a T);"),
                format!("enum {name} {{}}"),
                format!("pub unsafe trait {name} {{}}"),
                format!("type {name} = u8;"),
                format!("union {name} {{ a: u8 }}"),
                format!("trait Secret {{ type {name}; }}"),
                format!("fn f() {{ struct {name}; }}"),
                format!("macro_rules! m {{ () => {{ struct {name}; }} }}"),
            ] {
                let findings = found(&text);
                assert_eq!(findings.len(), 1, "{text}: {findings:?}");
                assert!(
                    findings[0].starts_with("engine/src/x.rs:1: ") && findings[0].contains(class),
                    "{findings:?}"
                );
            }
        }
        for name in [
            "Slot",
            "TakenSlot",
            "Seed",
            "Encoding",
            "Padding",
            "Ring",
            "Set",
            "Read",
            "Leaves",
            "Sha2",
        ] {
            assert_eq!(found(&format!("struct {name};")), [""; 0], "{name}");
        }
        assert_eq!(
            found("/// struct Taken;\nconst T: &str = \"enum Taken {}\"; // type Of\n"),
            [""; 0]
        );
        assert_eq!(found("macro_rules! m { ($name:ident) => { struct $name; } }"), [""; 0]);
        assert_eq!(found("\n\nstruct Held;")[0].split(' ').next(), Some("engine/src/x.rs:3:"));
    }

    #[test]
    fn variants_may_be_states_and_no_pronouns_adverbs_or_prepositions() {
        let text = "enum State<const N: usize> where A: B {\n    /// None, Of.\n    Waiting,\n    Done(Of, At),\n    \
                    #[default]\n    Failed { at: At },\n    Closed = 3,\n    None,\n    All,\n}\n";
        assert_eq!(found(text), [""; 0]);
        for (variant, class) in [
            ("Apart", "an adverb"),
            ("Of(u8)", "a preposition"),
            ("Nothing", "a pronoun"),
            ("There", "an adverb"),
        ] {
            let findings =
                found(&format!("enum State {{\n    Done,\n    /// One.\n    {variant},\n}}"));
            assert_eq!(findings.len(), 1, "{variant}: {findings:?}");
            assert!(
                findings[0].starts_with("engine/src/x.rs:4: variant `State::")
                    && findings[0].contains(class)
            );
        }
    }

    #[test]
    fn files_and_folders_are_nouns() {
        let check = |path: &str| {
            let (mut findings, mut folders) = (Vec::new(), BTreeSet::new());
            check_path(Path::new(path), &mut folders, &mut findings);
            check_path(Path::new(path), &mut folders, &mut findings);
            findings
        };
        assert_eq!(check("engine/src/route/quarantine.rs"), [""; 0]);
        assert_eq!(check("engine/src/self_test/known_answers.rs"), [""; 0]);
        let findings = check("engine/src/route/aside.rs");
        assert_eq!(findings.len(), 2, "a file each time: {findings:?}");
        assert!(findings[0].starts_with("engine/src/route/aside.rs:1: file `aside` is an adverb"));
        let findings = check("backend/shared/sha2.rs");
        assert_eq!(findings.len(), 1, "a folder once: {findings:?}");
        assert!(findings[0].starts_with("backend/shared:1: folder `shared` is a bare participle"));
    }

    #[test]
    fn exceptions_hold_for_one_name_of_one_file() {
        let (mut folders, mut findings) = (BTreeSet::new(), Vec::new());
        check_path(Path::new("kms/server/src/blocking.rs"), &mut folders, &mut findings);
        assert_eq!(findings, [""; 0]);
        check_path(Path::new("kms/server/src/api/blocking.rs"), &mut folders, &mut findings);
        assert_eq!(findings.len(), 1);
        let (path, name, why) = EXCEPTIONS[0];
        assert!(!why.is_empty());
        let (text, mut findings) = (format!("type {name} = u8;"), Vec::new());
        check_items(path, &tokens::read(&text).unwrap(), &mut findings);
        assert_eq!(findings, [""; 0]);
        assert_eq!(found(&text).len(), 1);
    }
}
