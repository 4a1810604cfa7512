//! Rust sources as tokens, in macros too, without comments.

use std::iter::Peekable;

use proc_macro2::{Delimiter, TokenStream, TokenTree, token_stream::IntoIter};

/// One token, or several within brackets.
#[derive(Clone, Debug)]
pub enum Token {
    /// A name or keyword, and its line.
    Word(String, usize),
    /// One character; `::` is a separate mark.
    Mark(char),
    /// `::`.
    Path,
    /// Brackets, what is between them, and the line of the closing one.
    Group(Delimiter, Vec<Token>, usize),
    /// A string literal as it is written, and its line.
    Text(String, usize),
    /// A number, a character, a lifetime.
    Other,
}

impl Token {
    /// Returns whether it is this word.
    pub fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(name, _) if name == word)
    }

    /// The word, if it is one.
    pub fn word(&self) -> Option<&str> {
        match self {
            Token::Word(name, _) => Some(name),
            _ => None,
        }
    }
}

/// The tokens of a source.
///
/// # Errors
/// It is no Rust.
pub fn read(text: &str) -> Result<Vec<Token>, String> {
    let stream: TokenStream = text.parse().map_err(|error| format!("is no Rust: {error}"))?;
    Ok(flatten(stream))
}

fn flatten(stream: TokenStream) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = stream.into_iter().peekable();
    while let Some(token) = rest.next() {
        match token {
            TokenTree::Ident(word) => {
                tokens.push(Token::Word(word.to_string(), word.span().start().line));
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                tokens.push(match text.trim_start_matches(['b', 'c', 'r', '#']).starts_with('"') {
                    true => Token::Text(text, literal.span().start().line),
                    false => Token::Other,
                });
            }
            TokenTree::Group(group) => {
                let end = group.span_close().end().line;
                tokens.push(Token::Group(group.delimiter(), flatten(group.stream()), end));
            }
            TokenTree::Punct(mark) => match mark.as_char() {
                ':' if take_mark(&mut rest, ':') => tokens.push(Token::Path),
                // A lifetime's name is no word of the path before it.
                '\'' => {
                    rest.next();
                    tokens.push(Token::Other);
                }
                mark => tokens.push(Token::Mark(mark)),
            },
        }
    }
    tokens
}

/// Takes the next token if it is this mark.
fn take_mark(rest: &mut Peekable<IntoIter>, wanted: char) -> bool {
    rest.next_if(|next| matches!(next, TokenTree::Punct(mark) if mark.as_char() == wanted))
        .is_some()
}

/// Returns whether an attribute, by what is between its brackets, keeps an item for tests alone.
pub fn is_test_only(attribute: &[Token]) -> bool {
    let [cfg, Token::Group(_, condition, _)] = attribute else { return false };
    cfg.is("cfg") && asks_for_test(condition)
}

/// Returns whether a condition is `test`, or `all(..)` of which a part is.
fn asks_for_test(condition: &[Token]) -> bool {
    match condition {
        [word] => word.is("test"),
        [all, Token::Group(_, parts, _)] if all.is("all") => {
            parts.split(|token| matches!(token, Token::Mark(','))).any(asks_for_test)
        }
        _ => false,
    }
}

/// The number of tokens of an item behind an attribute: to its braces, or to its semicolon.
pub fn item_len(rest: &[Token]) -> usize {
    let is_use =
        rest.iter().take_while(|token| !matches!(token, Token::Mark(';'))).any(|t| t.is("use"));
    let is_end = |token: &Token| match token {
        Token::Mark(';') => true,
        Token::Group(Delimiter::Brace, ..) => !is_use,
        _ => false,
    };
    rest.iter().position(is_end).map_or(rest.len(), |end| end + 1)
}

/// Collects the string literals with their lines, without documentation and items for tests alone.
pub fn texts<'a>(tokens: &'a [Token], found: &mut Vec<(&'a str, usize)>) {
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at..] {
            [Token::Mark('#'), Token::Group(Delimiter::Bracket, inner, _), rest @ ..]
                if is_test_only(inner) || inner.first().is_some_and(|word| word.is("test")) =>
            {
                at += 1 + item_len(rest);
            }
            [Token::Group(Delimiter::Bracket, inner, _), ..]
                if inner.first().is_some_and(|word| word.is("doc")) => {}
            [Token::Group(_, inner, _), ..] => texts(inner, found),
            [Token::Text(text, line), ..] => found.push((text, *line)),
            _ => {}
        }
        at += 1;
    }
}

/// A function: its name, first line and number of lines, without attributes and comments above it.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// The name; `$` for one that a macro gives.
    pub name: String,
    /// The line of `fn`.
    pub line: usize,
    /// The number of lines, including the closing brace.
    pub lines: usize,
}

/// Every function with a body, also within functions and macros.
pub fn functions(tokens: &[Token], found: &mut Vec<Function>) {
    for (at, token) in tokens.iter().enumerate() {
        match (token, tokens.get(at + 1)) {
            (Token::Word(word, line), Some(next @ (Token::Word(..) | Token::Mark('$'))))
                if word == "fn" =>
            {
                if let Some(end) = body_end(&tokens[at + 2..]) {
                    let name = next.word().unwrap_or("$").to_owned();
                    found.push(Function { name, line: *line, lines: end + 1 - line });
                }
            }
            (Token::Group(_, inner, _), _) => functions(inner, found),
            _ => {}
        }
    }
}

/// The line on which a function's body ends; none where it has no body. Braces before a `>` or a comma are
/// arguments of a type.
fn body_end(rest: &[Token]) -> Option<usize> {
    for (at, token) in rest.iter().enumerate() {
        match token {
            Token::Mark(';') => return None,
            Token::Group(Delimiter::Brace, _, end) => match rest.get(at + 1) {
                Some(Token::Mark('>' | ',')) => {}
                _ => return Some(*end),
            },
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, usize, usize)> {
        let mut found = Vec::new();
        functions(&read(text).unwrap(), &mut found);
        found.into_iter().map(|one| (one.name, one.line, one.lines)).collect()
    }

    #[test]
    fn functions_of_every_head_are_measured() {
        for head in [
            "fn f()",
            "pub(crate) const fn f()",
            "pub unsafe fn f()",
            "async fn f()",
            "pub extern \"C\" fn f()",
            "unsafe extern \"C\" fn f<const N: usize>(a: [u8; { N }]) -> Wrapped<{ N }>\nwhere\n    A: B,",
        ] {
            let text = format!("{head} {{\n    g();\n}}\n");
            let lines = text.lines().count();
            assert_eq!(found(&text), [("f".to_owned(), 1, lines)], "{head}");
        }
        assert_eq!(
            found("trait T {\n    fn f();\n    fn g() {\n    }\n}"),
            [("g".to_owned(), 3, 2)]
        );
        assert_eq!(found("type F = fn(u8) -> u8;\n"), []);
        assert_eq!(
            found("macro_rules! m { () => { fn $name() {\n\n} } }"),
            [("$".to_owned(), 1, 3)]
        );
        assert_eq!(found("// fn f() {\nconst T: &str = \"fn g() {\";\n"), []);
    }

    #[test]
    fn test_only_cfg_attributes_are_recognized() {
        let is = |attribute: &str| is_test_only(&read(attribute).unwrap());
        assert!(is("cfg(test)") && is("cfg(all(test, loom))") && is("cfg(all(test, not(loom)))"));
        assert!(!is("cfg(not(test))") && !is("cfg(any(test, fuzzing))") && !is("test"));
        assert!(!is("cfg(all(not(test), loom))") && !is("cfg_attr(test, allow(x))"));
    }
}
