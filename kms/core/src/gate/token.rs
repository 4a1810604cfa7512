//! Tokens: a principal, caveats, and a tag that can be computed only with the root key.
//!
//! ```text
//!   gbk1.BASE64URL(head  caveat*  tag)
//!
//!   head     root key's id (8)  token's id (16)  length of the principal (1)  principal
//!   caveat   kind (1)  length of the value (2)  value
//!   tag      HMAC(... HMAC(HMAC(root key, label head), caveat) ..., caveat)              HMAC-SHA-256, 32 bytes
//! ```

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::caveat::Caveat;
use super::principal::Principal;
use crate::error::Error;
use crate::text::{base64url, hex, of_base64url, of_hex};

/// The prefix of a token.
const PREFIX: &str = "gbk1.";

/// Domain separation: no other value that a root key may ever authenticate is a token.
const LABEL: &[u8] = b"gabion kms token 1\0";

/// The maximum number of caveats of a token.
pub const CAVEATS_MAX: usize = 32;

/// The maximum length of a token's text in bytes.
pub const TEXT_MAX: usize = 4096;

const TAG: usize = 32;

/// The id of a token. A token and its attenuations have the same id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TokenId(pub(super) [u8; 16]);

/// The digest of a token's tag. It tells a token from those it was attenuated from, and a token
/// cannot be computed from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct TagDigest(pub(super) [u8; 16]);

impl TagDigest {
    fn of(tag: &[u8; TAG]) -> Self {
        let digest = Sha256::new().chain_update(LABEL).chain_update(tag).finalize();
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        TagDigest(first)
    }
}

/// A token. Secret: every holder may use it.
#[derive(Clone)]
pub struct Token {
    root: [u8; 8],
    id: TokenId,
    principal: Principal,
    caveats: Vec<Caveat>,
    tag: Zeroizing<[u8; TAG]>,
}

impl Token {
    /// Makes a token with a root key.
    pub(super) fn mint(
        root: [u8; 8],
        key: &[u8; 32],
        id: TokenId,
        principal: Principal,
        caveats: &[Caveat],
    ) -> Result<Self, Error> {
        let tag = first_tag(key, &head(&root, id, &principal));
        let token = Token { root, id, principal, caveats: Vec::new(), tag };
        caveats.iter().try_fold(token, |token, caveat| token.attenuate(caveat.clone()))
    }

    /// Returns the token with another caveat appended. This needs no key and no server.
    ///
    /// # Errors
    /// Too many caveats.
    pub fn attenuate(&self, caveat: Caveat) -> Result<Self, Error> {
        let refused = |what, most, got| Err(Error::TooLarge { what, most, got });
        if self.caveats.len() == CAVEATS_MAX {
            return refused("caveats", CAVEATS_MAX, CAVEATS_MAX + 1);
        }
        let mut token = self.clone();
        token.tag = next_tag(&self.tag, &caveat.encode());
        token.caveats.push(caveat);
        match token.to_string().len() {
            len if len > TEXT_MAX => refused("bytes of a token", TEXT_MAX, len),
            _ => Ok(token),
        }
    }

    /// Returns the token's id.
    pub fn id(&self) -> TokenId {
        self.id
    }

    /// Returns the principal.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Returns the caveats.
    pub fn caveats(&self) -> &[Caveat] {
        &self.caveats
    }

    /// Returns when the token expires, in milliseconds since 1970.
    pub fn expires_ms(&self) -> Option<u64> {
        let times = self.caveats.iter().map(|caveat| match caveat {
            Caveat::Expires(ms) => Some(*ms),
            Caveat::Tenant(_)
            | Caveat::KeyPrefix(_)
            | Caveat::Actions(_)
            | Caveat::Cidr(_)
            | Caveat::Cnf(_)
            | Caveat::BatchMax(_) => None,
        });
        times.flatten().min()
    }

    /// Returns the id of the root key that the token claims.
    pub(super) fn root(&self) -> [u8; 8] {
        self.root
    }

    /// Returns whether the root key made this token with exactly these caveats. Runs in constant
    /// time with respect to the tag.
    pub(super) fn is_of(&self, key: &[u8; 32]) -> bool {
        let first = first_tag(key, &head(&self.root, self.id, &self.principal));
        match self.caveats.split_last() {
            None => mac(key).chain_update(LABEL).chain_update(self.head()).verify(&self.tag[..]),
            Some((last, before)) => {
                let tag = before.iter().fold(first, |tag, caveat| next_tag(&tag, &caveat.encode()));
                mac(&tag).chain_update(last.encode()).verify(&self.tag[..])
            }
        }
    }

    /// Returns the chain: the digests of the tags from which this token's tag was computed, its own
    /// last. They belong to the token as it was made, and to each attenuation. The holder of one of
    /// those tokens can make this one.
    pub(super) fn line(&self, key: &[u8; 32]) -> Vec<TagDigest> {
        let mut tag = first_tag(key, &self.head());
        let mut line = vec![TagDigest::of(&tag)];
        for caveat in &self.caveats {
            tag = next_tag(&tag, &caveat.encode());
            line.push(TagDigest::of(&tag));
        }
        line
    }

    fn head(&self) -> Vec<u8> {
        head(&self.root, self.id, &self.principal)
    }
}

/// Writes the complete token, including the secret tag.
impl fmt::Display for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = Zeroizing::new(self.head());
        for caveat in &self.caveats {
            bytes.extend_from_slice(&caveat.encode());
        }
        bytes.extend_from_slice(&self.tag[..]);
        write!(out, "{PREFIX}{}", base64url(&bytes))
    }
}

/// Writes the token without its tag.
impl fmt::Debug for Token {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Token {} of {}", self.id, self.principal)
    }
}

impl FromStr for Token {
    type Err = Error;

    /// Error messages do not repeat any part of the text.
    fn from_str(text: &str) -> Result<Self, Error> {
        read(text).ok_or_else(|| {
            Error::Parameter("invalid token; expected gbk1. followed by base64url".to_owned())
        })
    }
}

impl fmt::Display for TokenId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for TokenId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl FromStr for TokenId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        of_hex(text).map(TokenId).ok_or_else(|| {
            Error::Parameter("invalid token id; expected 32 digits 0-9 a-f".to_owned())
        })
    }
}

fn read(text: &str) -> Option<Token> {
    let text = text.strip_prefix(PREFIX).filter(|text| text.len() <= TEXT_MAX)?;
    let bytes = Zeroizing::new(of_base64url(text)?);
    let (root, rest) = bytes.split_first_chunk::<8>()?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (&len, rest) = rest.split_first()?;
    let (principal, rest) = rest.split_at_checked(usize::from(len))?;
    let (mut rest, tag) = rest.split_last_chunk::<TAG>()?;
    let principal = Principal::new(std::str::from_utf8(principal).ok()?).ok()?;
    let mut caveats = Vec::new();
    while !rest.is_empty() {
        if caveats.len() == CAVEATS_MAX {
            return None;
        }
        caveats.push(Caveat::decode(&mut rest)?);
    }
    Some(Token { root: *root, id: TokenId(*id), principal, caveats, tag: Zeroizing::new(*tag) })
}

fn head(root: &[u8; 8], id: TokenId, principal: &Principal) -> Vec<u8> {
    let principal = principal.as_str().as_bytes();
    // A principal has at most 255 bytes.
    [&root[..], &id.0, &[principal.len() as u8], principal].concat()
}

fn first_tag(key: &[u8; 32], head: &[u8]) -> Zeroizing<[u8; TAG]> {
    mac(key).chain_update(LABEL).chain_update(head).tag()
}

fn next_tag(tag: &[u8; TAG], caveat: &[u8]) -> Zeroizing<[u8; TAG]> {
    mac(tag).chain_update(caveat).tag()
}

/// HMAC-SHA-256 (FIPS 198-1) under a key of 32 bytes.
struct Chain(Hmac<Sha256>);

fn mac(key: &[u8; 32]) -> Chain {
    // Pad the key with zeros to HMAC's block length, as HMAC itself does, so that the constructor
    // cannot fail.
    let mut block = Zeroizing::new([0; 64]);
    block[..key.len()].copy_from_slice(key);
    Chain(Hmac::<Sha256>::new((&*block).into()))
}

impl Chain {
    fn chain_update(self, bytes: impl AsRef<[u8]>) -> Self {
        Chain(self.0.chain_update(bytes))
    }

    fn tag(self) -> Zeroizing<[u8; TAG]> {
        Zeroizing::new(self.0.finalize().into_bytes().into())
    }

    fn verify(self, tag: &[u8]) -> bool {
        self.0.verify_slice(tag).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(caveats: &[&str]) -> Token {
        let caveats: Vec<Caveat> = caveats.iter().map(|text| text.parse().unwrap()).collect();
        let principal = Principal::new("ci@example.com").unwrap();
        Token::mint([1; 8], &[7; 32], TokenId([2; 16]), principal, &caveats).unwrap()
    }

    #[test]
    fn a_token_is_golden() {
        // HMAC-SHA-256 of another implementation (Python's), over the bytes that the module
        // documentation shows.
        let text = token(&["expires=1790000000000", "actions=sign"]).to_string();
        assert_eq!(text, include_str!("../../tests/golden/token.txt").trim_end());
        let read: Token = text.parse().unwrap();
        assert!(read.is_of(&[7; 32]) && !read.is_of(&[8; 32]));
        assert_eq!(read.to_string(), text);
        assert_eq!(read.expires_ms(), Some(1_790_000_000_000));
    }

    #[test]
    fn no_token_of_another_text_is_one() {
        let text = token(&["expires=9", "tenant=a", "batch_max=3"]).to_string();
        for place in 0..text.len() {
            for digit in ["A", "B", "_", "-", "9", ".", "=", "\u{e4}"] {
                let mut other = text.clone();
                other.replace_range(place..=place, digit);
                let is_of = other.parse::<Token>().is_ok_and(|token| token.is_of(&[7; 32]));
                assert!(other == text || !is_of, "{other}");
            }
            assert!(!text[..place].parse::<Token>().is_ok_and(|token| token.is_of(&[7; 32])));
        }
        // Every single bit.
        let bytes = of_base64url(text.strip_prefix(PREFIX).unwrap()).unwrap();
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            let other = format!("{PREFIX}{}", base64url(&other));
            assert!(!other.parse::<Token>().is_ok_and(|token| token.is_of(&[7; 32])), "bit {bit}");
        }
    }

    #[test]
    fn no_caveat_is_taken_away_moved_or_repeated() {
        let whole = token(&["expires=9", "tenant=a", "key_prefix=web", "actions=sign"]);
        for place in 0..whole.caveats.len() {
            let mut other = whole.clone();
            other.caveats.remove(place);
            assert!(!other.is_of(&[7; 32]), "without {place}");
            let mut other = whole.clone();
            other.caveats.rotate_left(place);
            assert_eq!(other.is_of(&[7; 32]), place == 0, "rotated by {place}");
            let mut other = whole.clone();
            other.caveats.insert(place, whole.caveats[place].clone());
            assert!(!other.is_of(&[7; 32]), "twice {place}");
        }
        let mut other = whole.clone();
        other.principal = Principal::new("root").unwrap();
        assert!(!other.is_of(&[7; 32]));
        let mut other = whole.clone();
        other.id = TokenId([3; 16]);
        assert!(!other.is_of(&[7; 32]));
    }

    #[test]
    fn a_caveat_is_appended_without_a_key() {
        let before = token(&["expires=9"]);
        let after = before.attenuate("tenant=a".parse().unwrap()).unwrap();
        assert!(after.is_of(&[7; 32]) && after.id() == before.id());
        assert_eq!(after.to_string(), token(&["expires=9", "tenant=a"]).to_string());
        let mut many = before;
        while let Ok(more) = many.attenuate(Caveat::BatchMax(1)) {
            many = more;
        }
        assert_eq!(many.caveats.len(), CAVEATS_MAX);
        assert!(many.to_string().parse::<Token>().unwrap().is_of(&[7; 32]));
    }

    /// The holder of a token can append any caveat, with the right tag.
    #[test]
    fn a_token_with_an_unknown_caveat_is_refused() {
        let known = token(&["expires=9"]);
        for caveat in [
            &[200, 0, 1, 7][..],
            &[1, 0, 7, 0, 0, 0, 0, 0, 0, 9],
            &[4, 0, 8, 0xff, 0, 0, 0, 0, 0, 0, 0],
            &[5, 0, 5, 8, 10, 0, 0, 1],
        ] {
            let mut bytes = [known.head(), known.caveats[0].encode(), caveat.to_vec()].concat();
            bytes.extend_from_slice(&next_tag(&known.tag, caveat)[..]);
            let text = format!("{PREFIX}{}", base64url(&bytes));
            assert!(text.parse::<Token>().is_err(), "{caveat:?}");
        }
    }

    #[test]
    fn debug_output_omits_the_token_tag() {
        let token = token(&["expires=9"]);
        let tag = hex(&token.tag[..]);
        let shown = format!("{token:?} {:?} {:?}", token.id(), "gbk1.AAAA".parse::<Token>().err());
        assert!(!shown.contains(&tag) && !shown.contains("AAAA"), "{shown}");
    }
}
