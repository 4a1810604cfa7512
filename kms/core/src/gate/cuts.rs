//! Tokens of one id that were revoked by themselves: a tree of bounded size, which at its limit revokes more and never less.
//!
//! ```text
//!   token as it was made --caveat--> T1 --caveat--> T11         a line: the digests from the first tag to a token
//!                       |              '--caveat--> T12
//!                       '--caveat--> T2                         revoked: T11, T12, T2
//! ```
//!
//! Whoever has a token makes as many attenuations of it as they like, and each of them may revoke itself. Beyond
//! [`LINKS_MAX`] links the heaviest branch is revoked as a whole, in place of all that was revoked within it. Its links were made by
//! holders of tokens on that branch: an attenuation that revokes itself in thousands of ways takes along the token that all of
//! those were made of, and neither that token's siblings nor the token that it was made of.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;

use super::token::TagDigest;

/// Most links (digests of tags, counted once where lines share them) that are kept of one id: 64 KiB.
const LINKS_MAX: usize = 4096;

/// A branch with fewer links is never revoked as a whole.
const HEAVY: usize = LINKS_MAX / 16;

/// The form of the record.
const FORMAT: u8 = 1;

const DIGEST: usize = 16;

type Line = Vec<TagDigest>;

/// Tokens of one id that were revoked by themselves.
#[derive(Default)]
pub struct Cuts {
    /// From the first tag to the revoked token. None is the beginning of another.
    lines: BTreeSet<Line>,
    /// How many links those have together.
    links: usize,
    /// Of tokens whose line is not known: records of older programs, and what the audit log says.
    loose: HashSet<TagDigest>,
    /// The ends of lines, and those.
    ends: HashSet<TagDigest>,
}

impl Cuts {
    /// Whether a token, or one that it was made of, is revoked.
    pub fn has(&self, line: &[TagDigest]) -> bool {
        line.iter().any(|digest| self.ends.contains(digest))
    }

    /// How many tokens there are whose line is not known.
    pub fn loose(&self) -> usize {
        self.loose.len()
    }

    /// Revokes a token whose line is not known.
    pub fn insert_loose(&mut self, digest: TagDigest) {
        self.loose.insert(digest);
        self.ends.insert(digest);
    }

    /// Revokes the token at the end of a line. All that is revoked by that: this token, and branches that were too heavy.
    pub fn insert(&mut self, line: &[TagDigest]) -> Vec<TagDigest> {
        let Some(own) = line.last() else { return Vec::new() };
        let mut revoked = vec![*own];
        if !self.is_within(line) {
            self.replace(line);
        }
        while self.links > LINKS_MAX {
            let branch = self.heaviest();
            revoked.extend(branch.last());
            self.replace(&branch);
        }
        revoked.sort_unstable();
        revoked.dedup();
        revoked
    }

    /// What a record says of the lines: each as how many of its digests the line before has, and the others.
    pub fn encode(&self) -> Vec<u8> {
        let (mut bytes, mut before) = (vec![FORMAT], &[][..]);
        for line in &self.lines {
            let shared = shared(before, line);
            let own = &line[shared..];
            // No token has more caveats than a byte says.
            bytes.extend_from_slice(&[shared as u8, own.len() as u8]);
            own.iter().for_each(|digest| bytes.extend_from_slice(&digest.0));
            before = line;
        }
        bytes
    }

    /// Takes the lines of a record; none of what is no such record.
    pub fn decode(&mut self, bytes: &[u8]) -> Option<()> {
        let (&[FORMAT], mut rest) = bytes.split_first_chunk::<1>()? else { return None };
        let mut line = Line::new();
        while let Some((&[shared, own], after)) = rest.split_first_chunk::<2>() {
            let (digests, after) = after.split_at_checked(usize::from(own) * DIGEST)?;
            line.truncate(Some(usize::from(shared)).filter(|&shared| shared <= line.len())?);
            let (digests, _) = digests.as_chunks::<DIGEST>();
            line.extend(digests.iter().map(|digest| TagDigest(*digest)));
            line.last()?;
            self.add(&line);
            rest = after;
        }
        rest.is_empty().then_some(())
    }

    /// Whether a line, or the beginning of it, is there.
    fn is_within(&self, line: &[TagDigest]) -> bool {
        (1..=line.len()).any(|len| self.lines.contains(&line[..len]))
    }

    /// Puts a line in place of those that go on from it.
    fn replace(&mut self, line: &[TagDigest]) {
        let from = (Bound::Included(line), Bound::Unbounded);
        let after = self.lines.range::<[TagDigest], _>(from);
        let within: Vec<Line> =
            after.take_while(|other| other.starts_with(line)).cloned().collect();
        for other in within {
            self.lines.remove(&other);
            self.links -= self.own_links(&other);
            if let Some(end) = other.last().filter(|end| !self.loose.contains(end)) {
                self.ends.remove(end);
            }
        }
        self.add(line);
    }

    fn add(&mut self, line: &[TagDigest]) {
        self.ends.extend(line.last());
        self.links += self.own_links(line);
        self.lines.insert(line.to_vec());
    }

    /// How many links a line has that no other one has, whether or not it is there.
    fn own_links(&self, line: &[TagDigest]) -> usize {
        let mut before =
            self.lines.range::<[TagDigest], _>((Bound::Unbounded, Bound::Excluded(line)));
        let mut after =
            self.lines.range::<[TagDigest], _>((Bound::Excluded(line), Bound::Unbounded));
        let beside = [before.next_back(), after.next()];
        let most = beside.into_iter().flatten().map(|other| shared(other, line)).max();
        line.len() - most.unwrap_or(0)
    }

    /// The branch to revoke: from the first tag along the heaviest one, as long as that is heavy.
    fn heaviest(&self) -> Line {
        let mut branch = Line::new();
        loop {
            let at = branch.len();
            let within =
                self.lines.iter().filter(|line| line.starts_with(&branch) && line.len() > at);
            let within: Vec<&Line> = within.collect();
            let children = within.chunk_by(|a, b| a[at] == b[at]);
            let heaviest = children.max_by_key(|of| links(of.iter().copied()));
            match heaviest {
                // All lines have the first tag in common.
                Some(of) if at == 0 || links(of.iter().copied()).saturating_sub(at) >= HEAVY => {
                    branch.push(of[0][at]);
                }
                _ => return branch,
            }
        }
    }
}

/// How many links sorted lines have together.
fn links<'a>(lines: impl Iterator<Item = &'a Line>) -> usize {
    let (mut all, mut before) = (0, &[][..]);
    for line in lines {
        all += line.len() - shared(before, line);
        before = line;
    }
    all
}

/// How many digests two lines have in common at their beginning.
fn shared(one: &[TagDigest], other: &[TagDigest]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The line whose digests have these numbers.
    fn line(path: &[u32]) -> Line {
        let mut all = 0;
        let digest = |at: &u32| {
            all = u64::from(*at).wrapping_add(all).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (all >> 7);
            let mut digest = [0; DIGEST];
            digest[..8].copy_from_slice(&all.to_be_bytes());
            digest[8..12].copy_from_slice(&at.to_be_bytes());
            TagDigest(digest)
        };
        path.iter().map(digest).collect()
    }

    #[test]
    fn a_token_takes_along_what_was_made_of_it_and_nothing_else() {
        let mut cuts = Cuts::default();
        assert_eq!(cuts.insert(&line(&[1, 2, 3])), [*line(&[1, 2, 3]).last().unwrap()]);
        assert!(cuts.has(&line(&[1, 2, 3])) && cuts.has(&line(&[1, 2, 3, 9])));
        for alive in [&[1][..], &[1, 2], &[1, 2, 4], &[1, 3, 3], &[2, 2, 3]] {
            assert!(!cuts.has(&line(alive)), "{alive:?}");
        }
        // One that is within another changes nothing, and one that has others within takes their place.
        cuts.insert(&line(&[1, 2, 3, 4]));
        assert_eq!((cuts.lines.len(), cuts.ends.len()), (1, 1));
        cuts.insert(&line(&[1, 2, 5]));
        cuts.insert(&line(&[1, 2]));
        assert_eq!((cuts.lines.len(), cuts.ends.len()), (1, 1));
        assert!(cuts.has(&line(&[1, 2, 7])) && !cuts.has(&line(&[1, 3])));
    }

    #[test]
    fn a_record_is_written_and_read() {
        let mut cuts = Cuts::default();
        for path in [&[1, 2, 3][..], &[1, 2, 4], &[1, 5], &[1, 6, 7, 8, 9]] {
            cuts.insert(&line(path));
        }
        let bytes = cuts.encode();
        assert_eq!(bytes.len(), 1 + 4 * 2 + 9 * DIGEST);
        let read = |bytes: &[u8]| {
            let mut read = Cuts::default();
            read.decode(bytes).map(|()| read)
        };
        let again = read(&bytes).unwrap();
        assert_eq!((&again.lines, &again.ends), (&cuts.lines, &cuts.ends));
        assert!(read(&[FORMAT]).is_some());
        let whole = (0..bytes.len()).filter(|&len| read(&bytes[..len]).is_some());
        assert_eq!(whole.count(), 4, "at the end of a line alone");
        for wrong in [&[FORMAT + 1][..], &[FORMAT, 1, 0], &[FORMAT, 0, 0], &[FORMAT, 9, 0]] {
            assert!(read(wrong).is_none(), "{wrong:?}");
        }
    }

    /// F8: the holder of an attenuation (1, 2) revokes as many of it as they like.
    #[test]
    fn a_heavy_branch_is_revoked_as_a_whole_and_its_siblings_are_not() {
        // Attenuations of (1, 2) itself, long ones, ones of many branches, and ones that are deep.
        let shapes: [fn(u32) -> Vec<u32>; 4] = [
            |at| vec![1, 2, at],
            |at| [1, 2, at].into_iter().chain(0..28).collect(),
            |at| vec![1, 2, at % 64, at],
            |at| (1..3).chain((0..12).map(|bit| at >> bit & 1)).chain([at]).collect(),
        ];
        for (shape, path) in shapes.iter().enumerate() {
            let mut cuts = Cuts::default();
            // Others have revoked some of theirs, too, and one a few hundred.
            (0..30).for_each(|at| drop(cuts.insert(&line(&[1, 3, at]))));
            (0..20).for_each(|at| drop(cuts.insert(&line(&[1, 4 + at]))));
            let mut revoked = 0;
            for at in 0..8000 {
                let own = line(&path(at));
                if cuts.has(&own) {
                    continue;
                }
                revoked += 1;
                cuts.insert(&own);
                assert!(cuts.has(&own), "shape {shape}");
                assert!(cuts.links <= LINKS_MAX && cuts.ends.len() == cuts.lines.len());
            }
            assert_eq!(cuts.links, links(cuts.lines.iter()));
            assert!(cuts.encode().len() <= 1 + LINKS_MAX * (DIGEST + 2));
            assert!(revoked > 100, "shape {shape}: {revoked}");
            for alive in [&[1][..], &[1, 3], &[1, 3, 30], &[1, 99]] {
                assert!(!cuts.has(&line(alive)), "shape {shape}: {alive:?}");
            }
            for dead in [&[1, 3, 7][..], &[1, 9]] {
                assert!(cuts.has(&line(dead)), "shape {shape}: {dead:?}");
            }
        }
    }

    /// Where there is no heavy branch, all tokens of the id are revoked: more, and never less.
    #[test]
    fn many_light_branches_revoke_what_they_were_made_of() {
        let mut cuts = Cuts::default();
        for at in 0..LINKS_MAX as u32 - 1 {
            assert_eq!(cuts.insert(&line(&[1, at])).len(), 1);
        }
        assert!(!cuts.has(&line(&[1])));
        let own = line(&[1, 1 << 20]);
        assert_eq!(cuts.insert(&own).len(), 2);
        assert!(cuts.has(&line(&[1])) && cuts.has(&own));
        assert_eq!(cuts.ends.len(), 1);
    }
}
