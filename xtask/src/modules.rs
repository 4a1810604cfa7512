//! Circles between the modules of a crate.
//!
//! ```text
//!   sources --tokens--> modules, and the paths that each names
//!                          |  `use` followed to where a name is made
//!                          v
//!                       arrows between children of one module --> circles; rules
//! ```
//!
//! A module depends on the names it uses behind `crate::`, `super::` or `self::`, in a `use` or
//! anywhere else. Arrows between children of one module, and between everything in them, go one
//! way.
//!
//! Not counted: dependencies between a parent and its child, which share a room; code for tests
//! alone; names behind `$crate` in a macro, since the macro's callers need them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::Delimiter;

use crate::tokens::{self, Token};

/// A path as a source has it: its words, `*` at the end for all of them.
type Words = Vec<String>;

/// One module of a crate.
#[derive(Default)]
struct Module {
    /// Where it is, from the crate's root.
    place: Vec<String>,
    children: BTreeMap<String, usize>,
    /// The path that each name of a `use` stands for.
    uses: BTreeMap<String, Words>,
    globs: Vec<Words>,
    /// All paths that it names.
    named: Vec<Words>,
}

/// The modules of a crate, the root first.
pub struct Crate {
    modules: Vec<Module>,
}

/// An arrow: the module that names another one, and the path by which it does.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrow {
    /// The modules, from the crate's root.
    pub from: Vec<String>,
    /// The definition of the name.
    pub to: Vec<String>,
    /// The path as it stands there.
    pub path: String,
}

impl Crate {
    /// Reads a crate from the file of its root; `source` returns a file's text, or `None`.
    ///
    /// # Errors
    /// A source that is not valid Rust.
    pub fn read(root: &Path, source: &dyn Fn(&Path) -> Option<String>) -> Result<Self, String> {
        let mut all = Crate { modules: vec![Module::default()] };
        let folder = root.parent().unwrap_or(root);
        all.read_file(0, root, folder, source)?;
        Ok(all)
    }

    fn read_file(
        &mut self,
        module: usize,
        file: &Path,
        folder: &Path,
        source: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<(), String> {
        let text = source(file).ok_or_else(|| format!("{}: can't be read", file.display()))?;
        let tokens = tokens::read(&text).map_err(|why| format!("{}: {why}", file.display()))?;
        self.walk(module, &tokens, folder, source)
    }

    /// Collects what a module's tokens declare and name.
    fn walk(
        &mut self,
        module: usize,
        tokens: &[Token],
        folder: &Path,
        source: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<(), String> {
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at..] {
                [Token::Mark('#'), Token::Group(Delimiter::Bracket, inner, _), rest @ ..] => {
                    at += 2;
                    if tokens::is_test_only(inner) {
                        at += tokens::item_len(rest);
                    }
                }
                [Token::Word(word, _), Token::Word(name, _), body, ..] if word == "mod" => {
                    self.child(module, name, body, folder, source)?;
                    at += 3;
                }
                [Token::Word(word, _), rest @ ..] if word == "use" => {
                    at += 1 + self.take_use(module, rest);
                }
                [Token::Mark('$'), Token::Word(..), ..] => at += 2,
                [Token::Word(word, _), Token::Path, ..]
                    if ["crate", "super", "self"].contains(&word.as_str()) =>
                {
                    let mut paths = Vec::new();
                    at += read_path(&tokens[at..], &[], &mut paths);
                    let named = &mut self.modules[module].named;
                    named.extend(paths.into_iter().map(|(words, _)| words));
                }
                [Token::Group(_, inner, _), ..] => {
                    self.walk(module, inner, folder, source)?;
                    at += 1;
                }
                _ => at += 1,
            }
        }
        Ok(())
    }

    /// Reads a child: what is in the braces behind its name, or its file.
    fn child(
        &mut self,
        module: usize,
        name: &str,
        body: &Token,
        folder: &Path,
        source: &dyn Fn(&Path) -> Option<String>,
    ) -> Result<(), String> {
        let place = [&self.modules[module].place[..], &[name.to_owned()]].concat();
        let child = self.modules.len();
        let within = folder.join(name);
        match body {
            Token::Group(Delimiter::Brace, inner, _) => {
                self.add(module, name, place);
                self.walk(child, inner, &within, source)
            }
            _ => {
                let files: [PathBuf; 2] =
                    [folder.join(format!("{name}.rs")), within.join("mod.rs")];
                let Some(file) = files.iter().find(|file| source(file).is_some()) else {
                    // A file of another folder, by a path attribute: no module of this tree.
                    return Ok(());
                };
                self.add(module, name, place);
                self.read_file(child, file, &within, source)
            }
        }
    }

    fn add(&mut self, module: usize, name: &str, place: Vec<String>) {
        let child = self.modules.len();
        self.modules[module].children.insert(name.to_owned(), child);
        self.modules.push(Module { place, ..Module::default() });
    }

    /// Notes what a `use` brings; gives the number of its tokens.
    fn take_use(&mut self, module: usize, rest: &[Token]) -> usize {
        let mut paths = Vec::new();
        let len = read_path(rest, &[], &mut paths);
        let module = &mut self.modules[module];
        for (words, name) in paths {
            if name == "*" {
                module.globs.push(words[..words.len() - 1].to_vec());
            } else {
                module.uses.entry(name).or_insert_with(|| words.clone());
            }
            module.named.push(words);
        }
        len
    }

    /// The module in which what a path names is made; none where that is another crate.
    fn resolve(&self, from: usize, words: &[String], depth: usize) -> Option<usize> {
        const DEPTH_MAX: usize = 16;
        let mut at = from;
        let mut rest = words;
        match rest.first().map(String::as_str) {
            Some("crate") => (at, rest) = (0, &rest[1..]),
            Some("self") => rest = &rest[1..],
            Some("super") => {
                while rest.first().is_some_and(|word| word == "super") {
                    at = self.parent(at);
                    rest = &rest[1..];
                }
            }
            Some(name) if self.modules[from].children.contains_key(name) => {}
            _ => return None,
        }
        while let Some(name) = rest.first() {
            let module = &self.modules[at];
            if let Some(&child) = module.children.get(name) {
                (at, rest) = (child, &rest[1..]);
                continue;
            }
            let by_name =
                module.uses.get(name).filter(|path| path.last() == Some(name) || *path != words);
            let made = by_name.filter(|_| depth < DEPTH_MAX).and_then(|path| {
                let path = [&path[..], &rest[1..]].concat();
                self.resolve(at, &path, depth + 1)
            });
            return made.or_else(|| self.by_globs(at, rest, depth)).or(Some(at));
        }
        Some(at)
    }

    /// Looks for a name through the `use x::*` of a module.
    fn by_globs(&self, at: usize, rest: &[String], depth: usize) -> Option<usize> {
        let name = &rest[0];
        self.modules[at].globs.iter().find_map(|glob| {
            let other = self.resolve(at, glob, depth + 1).filter(|&other| other != at)?;
            let module = &self.modules[other];
            let knows = module.children.contains_key(name) || module.uses.contains_key(name);
            let path = [&["self".to_owned()], rest].concat();
            knows.then(|| self.resolve(other, &path, depth + 1)).flatten()
        })
    }

    fn parent(&self, module: usize) -> usize {
        let place = &self.modules[module].place;
        let above = &place[..place.len().saturating_sub(1)];
        self.modules.iter().position(|other| other.place == above).unwrap_or(0)
    }

    /// Returns all arrows, except those between a module and its descendants.
    pub fn arrows(&self) -> BTreeSet<Arrow> {
        let mut arrows = BTreeSet::new();
        for (index, module) in self.modules.iter().enumerate() {
            for words in &module.named {
                let Some(to) = self.resolve(index, words, 0) else { continue };
                let (from, to) = (module.place.clone(), self.modules[to].place.clone());
                if !from.starts_with(&to) && !to.starts_with(&from) {
                    arrows.insert(Arrow { from, to, path: words.join("::") });
                }
            }
        }
        arrows
    }
}

/// Reads a path, or the tree of a `use`, into whole paths with the names that they get; gives the number
/// of its tokens.
fn read_path(tokens: &[Token], before: &[String], paths: &mut Vec<(Words, String)>) -> usize {
    let mut words = before.to_vec();
    let mut at = 0;
    loop {
        match &tokens[at..] {
            [Token::Group(Delimiter::Brace, inner, _), ..] => {
                for part in inner.split(|token| matches!(token, Token::Mark(','))) {
                    read_path(part, &words, paths);
                }
                return at + 1;
            }
            [Token::Mark('*'), ..] if at > 0 => {
                words.push("*".to_owned());
                paths.push((words, "*".to_owned()));
                return at + 1;
            }
            [Token::Word(word, _), Token::Path, ..] => {
                words.push(word.clone());
                at += 2;
            }
            [Token::Word(word, _), rest @ ..] => {
                // `use a::{self}` is `a`.
                if word != "self" || words.is_empty() {
                    words.push(word.clone());
                }
                let mut name = words.last().cloned().unwrap_or_default();
                at += 1;
                if let [Token::Word(renamed, _), Token::Word(other, _), ..] = rest
                    && renamed == "as"
                {
                    name = other.clone();
                    at += 2;
                }
                paths.push((words, name));
                return at;
            }
            // `::` before the name of a crate, or a type in the middle of a path.
            [Token::Path, ..] => at += 1,
            _ => return at.max(1),
        }
    }
}

/// Returns the circles among children of one module, each by the names of its members.
pub fn circles(arrows: &BTreeSet<Arrow>) -> Vec<(Vec<String>, Vec<String>)> {
    let mut rooms: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for arrow in arrows {
        let common = arrow.from.iter().zip(&arrow.to).take_while(|(a, b)| a == b).count();
        let room = rooms.entry(arrow.from[..common].to_vec()).or_default();
        room.entry(arrow.from[common].clone()).or_default().insert(arrow.to[common].clone());
        room.entry(arrow.to[common].clone()).or_default();
    }
    let mut found = Vec::new();
    for (room, edges) in rooms {
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            edges.keys().map(|name| (name, reachable(name, &edges))).collect();
        let mut seen = BTreeSet::new();
        for name in edges.keys() {
            if !reached[name].contains(name) || seen.contains(name) {
                continue;
            }
            let members: Vec<&String> = edges
                .keys()
                .filter(|other| reached[name].contains(other) && reached[other].contains(name))
                .collect();
            seen.extend(members.iter().copied());
            found.push((room.clone(), members.into_iter().cloned().collect()));
        }
    }
    found
}

fn reachable<'a>(
    from: &str,
    edges: &'a BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<&'a String> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&String> = edges.get(from).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(edges.get(next).into_iter().flatten());
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate of files that are not on a disk.
    fn planted(files: &[(&str, &str)]) -> Crate {
        let source = |path: &Path| {
            let name = path.to_str()?;
            files.iter().find(|(file, _)| *file == name).map(|(_, text)| (*text).to_owned())
        };
        Crate::read(Path::new("src/lib.rs"), &source).unwrap()
    }

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let circles = circles(&planted(files).arrows());
        circles.into_iter().map(|(room, members)| [room, members].concat().join(" ")).collect()
    }

    #[test]
    fn a_circle_is_found_however_it_is_named() {
        let root = "mod a;\nmod b;\nmod c;\npub use b::Thing;\n";
        let b = "pub struct Thing;\nfn f() { crate::c::g() }\n";
        for c in [
            "use crate::a::x;",
            "use crate::{a::{self, x as y}, b as other};",
            "use super::a::*;",
            "fn g() { super::a::x(); }",
            "fn g() -> Vec<crate::a::X> { m!(1, crate::a::x) }",
        ] {
            for a in ["use crate::Thing;", "use crate::b::Thing;", "pub(crate) use super::b;"] {
                let files =
                    [("src/lib.rs", root), ("src/a.rs", a), ("src/b.rs", b), ("src/c.rs", c)];
                assert_eq!(found(&files), ["a b c"], "{a} {c}");
            }
        }
    }

    #[test]
    fn a_circle_between_children_of_a_child_is_found() {
        let files = [
            ("src/lib.rs", "mod room;\nmod low;\n"),
            ("src/low.rs", ""),
            ("src/room/mod.rs", "mod x;\nmod y { use super::x::f; use crate::low; }\n"),
            ("src/room/x.rs", "use super::y;\n"),
        ];
        assert_eq!(found(&files), ["room x y"]);
    }

    #[test]
    fn acyclic_modules_are_accepted() {
        let root = "mod a;\nmod b;\n";
        for a in [
            "#[cfg(test)]\nmod tests { use crate::b::f; }\n",
            "#[cfg(test)]\n#[allow(x)]\nuse crate::{b::f};\n",
            "#[cfg(all(test, loom))]\nmod loom;\n",
            "macro_rules! m { () => { $crate::b::f() } }\n",
            "// use crate::b;\nconst T: &str = \"crate::b::f\";\n",
            "use other::b::f;\nuse super::b_of_another;\n",
            "mod b { fn f() { super::g() } }\nfn g() { b::f() }\n",
        ] {
            let files = [("src/lib.rs", root), ("src/a.rs", a), ("src/b.rs", "use crate::a::g;\n")];
            assert!(found(&files).is_empty(), "{a}");
        }
        // A parent and its child.
        let files = [
            ("src/lib.rs", "mod a;"),
            ("src/a.rs", "mod b;\nuse b::f;"),
            ("src/a/b.rs", "use super::g;"),
        ];
        assert!(found(&files).is_empty());
    }
}
