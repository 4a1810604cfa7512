//! Tokens of one id that revoked themselves: a set of bounded size that, at its limit, revokes more
//! tokens and never fewer.
//!
//! ```text
//!   token as it was made --caveat--> T1 --caveat--> T11         chain of a token: the digests of its tags, from the first one
//!                       |              '--caveat--> T12
//!                       '--caveat--> T2                         revoked here: T11, T12, T2
//! ```
//!
//! The holder of a token can make any number of attenuations of it, and each of them may revoke
//! itself. If the chains of revoked tokens need more than [`LINKS_MAX`] links, the heaviest branch
//! is revoked as a whole and replaces all chains within it. Only holders of tokens on that branch
//! can have made it heavy. So an attenuation that revokes thousands of attenuations below it loses
//! itself, and neither its siblings nor the token that it was made of.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;

use super::token::TagDigest;

/// The maximum number of links (digests of tags; a shared link counts once) per id: 64 KiB.
const LINKS_MAX: usize = 4096;

/// A branch with fewer links is never revoked as a whole.
const HEAVY: usize = LINKS_MAX / 16;

/// The version of the record's format.
const FORMAT: u8 = 1;

const DIGEST: usize = 16;

type Chain = Vec<TagDigest>;

/// The tokens of one id that revoked themselves.
#[derive(Default)]
pub struct RevokedChains {
    /// The chain of each revoked token. No chain is the beginning of another one.
    chains: BTreeSet<Chain>,
    /// The number of links of all chains.
    links: usize,
    /// Digests of revoked tokens whose chain is unknown: from records of older programs and from
    /// the audit log.
    unplaced: HashSet<TagDigest>,
    /// The last digest of each chain, and `unplaced`.
    ends: HashSet<TagDigest>,
}

impl RevokedChains {
    /// Returns whether the token with this chain, or a token that it was made of, is revoked.
    pub fn has(&self, chain: &[TagDigest]) -> bool {
        chain.iter().any(|digest| self.ends.contains(digest))
    }

    /// The number of revoked tokens whose chain is unknown.
    pub fn unplaced_len(&self) -> usize {
        self.unplaced.len()
    }

    /// Revokes a token whose chain is unknown.
    pub fn insert_unplaced(&mut self, digest: TagDigest) {
        self.unplaced.insert(digest);
        self.ends.insert(digest);
    }

    /// Revokes the token with this chain. Returns the digests of everything that this revokes: the
    /// token, and branches that were revoked to stay within the limit.
    pub fn insert(&mut self, chain: &[TagDigest]) -> Vec<TagDigest> {
        let Some(own) = chain.last() else { return Vec::new() };
        let mut revoked = vec![*own];
        if !self.is_within(chain) {
            self.replace(chain);
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

    /// Encodes the chains: for each one, the number of digests shared with the previous chain, and
    /// the other digests.
    pub fn encode(&self) -> Vec<u8> {
        let (mut bytes, mut before) = (vec![FORMAT], &[][..]);
        for chain in &self.chains {
            let shared = shared(before, chain);
            let own = &chain[shared..];
            // A token has at most 32 caveats.
            bytes.extend_from_slice(&[shared as u8, own.len() as u8]);
            own.iter().for_each(|digest| bytes.extend_from_slice(&digest.0));
            before = chain;
        }
        bytes
    }

    /// Decodes a record and adds its chains. Returns `None` if the record is malformed.
    pub fn decode(&mut self, bytes: &[u8]) -> Option<()> {
        let (&[FORMAT], mut rest) = bytes.split_first_chunk::<1>()? else { return None };
        let mut chain = Chain::new();
        while let Some((&[shared, own], after)) = rest.split_first_chunk::<2>() {
            let (digests, after) = after.split_at_checked(usize::from(own) * DIGEST)?;
            chain.truncate(Some(usize::from(shared)).filter(|&shared| shared <= chain.len())?);
            let (digests, _) = digests.as_chunks::<DIGEST>();
            chain.extend(digests.iter().map(|digest| TagDigest(*digest)));
            chain.last()?;
            self.add(&chain);
            rest = after;
        }
        rest.is_empty().then_some(())
    }

    /// Returns whether this chain, or a prefix of it, is in the set.
    fn is_within(&self, chain: &[TagDigest]) -> bool {
        (1..=chain.len()).any(|len| self.chains.contains(&chain[..len]))
    }

    /// Adds a chain and removes the chains that continue it.
    fn replace(&mut self, chain: &[TagDigest]) {
        let from = (Bound::Included(chain), Bound::Unbounded);
        let after = self.chains.range::<[TagDigest], _>(from);
        let within: Vec<Chain> =
            after.take_while(|other| other.starts_with(chain)).cloned().collect();
        for other in within {
            self.chains.remove(&other);
            self.links -= self.own_links(&other);
            if let Some(end) = other.last().filter(|end| !self.unplaced.contains(end)) {
                self.ends.remove(end);
            }
        }
        self.add(chain);
    }

    fn add(&mut self, chain: &[TagDigest]) {
        self.ends.extend(chain.last());
        self.links += self.own_links(chain);
        self.chains.insert(chain.to_vec());
    }

    /// The number of links that this chain shares with no other chain in the set.
    fn own_links(&self, chain: &[TagDigest]) -> usize {
        let mut before =
            self.chains.range::<[TagDigest], _>((Bound::Unbounded, Bound::Excluded(chain)));
        let mut after =
            self.chains.range::<[TagDigest], _>((Bound::Excluded(chain), Bound::Unbounded));
        let beside = [before.next_back(), after.next()];
        let most = beside.into_iter().flatten().map(|other| shared(other, chain)).max();
        chain.len() - most.unwrap_or(0)
    }

    /// Returns the branch to revoke: follows the heaviest child from the first tag as long as it
    /// has [`HEAVY`] links.
    fn heaviest(&self) -> Chain {
        let mut branch = Chain::new();
        loop {
            let at = branch.len();
            let within =
                self.chains.iter().filter(|chain| chain.starts_with(&branch) && chain.len() > at);
            let within: Vec<&Chain> = within.collect();
            let children = within.chunk_by(|a, b| a[at] == b[at]);
            let heaviest = children.max_by_key(|of| links(of.iter().copied()));
            match heaviest {
                // All chains of an id share the first tag.
                Some(of) if at == 0 || links(of.iter().copied()).saturating_sub(at) >= HEAVY => {
                    branch.push(of[0][at]);
                }
                _ => return branch,
            }
        }
    }
}

/// Counts the links of sorted chains.
fn links<'a>(chains: impl Iterator<Item = &'a Chain>) -> usize {
    let (mut all, mut before) = (0, &[][..]);
    for chain in chains {
        all += chain.len() - shared(before, chain);
        before = chain;
    }
    all
}

/// The length of the common prefix of two chains.
fn shared(one: &[TagDigest], other: &[TagDigest]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain that these numbers identify.
    fn chain(path: &[u32]) -> Chain {
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
    fn a_revoked_token_revokes_its_attenuations_and_nothing_else() {
        let mut set = RevokedChains::default();
        assert_eq!(set.insert(&chain(&[1, 2, 3])), [*chain(&[1, 2, 3]).last().unwrap()]);
        assert!(set.has(&chain(&[1, 2, 3])) && set.has(&chain(&[1, 2, 3, 9])));
        for alive in [&[1][..], &[1, 2], &[1, 2, 4], &[1, 3, 3], &[2, 2, 3]] {
            assert!(!set.has(&chain(alive)), "{alive:?}");
        }
        // A chain below a revoked one changes nothing; a chain above revoked ones replaces them.
        set.insert(&chain(&[1, 2, 3, 4]));
        assert_eq!((set.chains.len(), set.ends.len()), (1, 1));
        set.insert(&chain(&[1, 2, 5]));
        set.insert(&chain(&[1, 2]));
        assert_eq!((set.chains.len(), set.ends.len()), (1, 1));
        assert!(set.has(&chain(&[1, 2, 7])) && !set.has(&chain(&[1, 3])));
    }

    #[test]
    fn a_record_is_written_and_read() {
        let mut set = RevokedChains::default();
        for path in [&[1, 2, 3][..], &[1, 2, 4], &[1, 5], &[1, 6, 7, 8, 9]] {
            set.insert(&chain(path));
        }
        let bytes = set.encode();
        assert_eq!(bytes.len(), 1 + 4 * 2 + 9 * DIGEST);
        let read = |bytes: &[u8]| {
            let mut read = RevokedChains::default();
            read.decode(bytes).map(|()| read)
        };
        let again = read(&bytes).unwrap();
        assert_eq!((&again.chains, &again.ends), (&set.chains, &set.ends));
        assert!(read(&[FORMAT]).is_some());
        let whole = (0..bytes.len()).filter(|&len| read(&bytes[..len]).is_some());
        assert_eq!(whole.count(), 4, "at the end of a chain alone");
        for wrong in [&[FORMAT + 1][..], &[FORMAT, 1, 0], &[FORMAT, 0, 0], &[FORMAT, 9, 0]] {
            assert!(read(wrong).is_none(), "{wrong:?}");
        }
    }

    /// F8: the holder of the attenuation (1, 2) revokes any number of attenuations below it.
    #[test]
    fn a_heavy_branch_is_revoked_as_a_whole_and_its_siblings_are_not() {
        // Direct attenuations, long chains, many branches, and a deep tree.
        let shapes: [fn(u32) -> Vec<u32>; 4] = [
            |at| vec![1, 2, at],
            |at| [1, 2, at].into_iter().chain(0..28).collect(),
            |at| vec![1, 2, at % 64, at],
            |at| (1..3).chain((0..12).map(|bit| at >> bit & 1)).chain([at]).collect(),
        ];
        for (shape, path) in shapes.iter().enumerate() {
            let mut set = RevokedChains::default();
            // Other holders have revoked tokens, too.
            (0..30).for_each(|at| drop(set.insert(&chain(&[1, 3, at]))));
            (0..20).for_each(|at| drop(set.insert(&chain(&[1, 4 + at]))));
            let mut revoked = 0;
            for at in 0..8000 {
                let own = chain(&path(at));
                if set.has(&own) {
                    continue;
                }
                revoked += 1;
                set.insert(&own);
                assert!(set.has(&own), "shape {shape}");
                assert!(set.links <= LINKS_MAX && set.ends.len() == set.chains.len());
            }
            assert_eq!(set.links, links(set.chains.iter()));
            assert!(set.encode().len() <= 1 + LINKS_MAX * (DIGEST + 2));
            assert!(revoked > 100, "shape {shape}: {revoked}");
            for alive in [&[1][..], &[1, 3], &[1, 3, 30], &[1, 99]] {
                assert!(!set.has(&chain(alive)), "shape {shape}: {alive:?}");
            }
            for dead in [&[1, 3, 7][..], &[1, 9]] {
                assert!(set.has(&chain(dead)), "shape {shape}: {dead:?}");
            }
        }
    }

    /// If no branch is heavy, the whole id is revoked.
    #[test]
    fn too_many_revoked_branches_revoke_their_parent() {
        let mut set = RevokedChains::default();
        for at in 0..LINKS_MAX as u32 - 1 {
            assert_eq!(set.insert(&chain(&[1, at])).len(), 1);
        }
        assert!(!set.has(&chain(&[1])));
        let own = chain(&[1, 1 << 20]);
        assert_eq!(set.insert(&own).len(), 2);
        assert!(set.has(&chain(&[1])) && set.has(&own));
        assert_eq!(set.ends.len(), 1);
    }
}
