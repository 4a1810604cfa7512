//! Common parts of LMS and XMSS on a device: cutting a batch into chunks, the frame around a
//! chunk's arrays, and lanes with known answers.
//!
//! Nodes of a tree have a canary of one leaf under a separate key, which is hashed with itself up
//! to the nodes' row. Signatures have two canaries: a valid signature, and one with a flipped bit.
//! The portable backend makes the answers at first use.

use gabion_backend::BatchOutcome;
use gabion_backend::portable::Portable;
use gabion_scheme::Status;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::lms::{D_INTR, LmsHash, prefix};
use gabion_scheme::kernels::xmss::{XmssAddress, XmssContext, XmssHash, address_type};
use gabion_scheme::lms::{self, LM_OTS, LMS, Levels, LmOts, Lms};
use gabion_scheme::xmss::{self, Scheme, Set};
use once_cell::race::OnceBox;

use crate::arguments::{LmsArguments, XmssArguments};
use crate::chunk::{Chunk, InFlight};
use crate::device::{Arguments, Device, Fault};
use crate::layout::{Layout, Region, largest_fit};
use crate::slots::SlotGuard;

/// Lanes of the canary among nodes, and among signatures.
pub(crate) const NODE_CANARIES: usize = 1;
pub(crate) const CANARIES: usize = 2;
/// Operations of a chunk of signatures that are enough to fill a device, some 67 chains each.
const ENOUGH: usize = 1024;
/// Chunks of a batch, where each has enough.
const CHUNKS: usize = 6;
/// The message of the verification canary.
const MESSAGE: &[u8] = b"a canary of hash-based signatures";

/// Operations of each chunk, whose inputs have these lengths, so that `fits` is true of the operations and the bytes of
/// their inputs; none if one alone doesn't.
pub(crate) fn sizes(
    inputs: impl ExactSizeIterator<Item = usize>,
    fits: impl Fn(usize, usize) -> bool,
) -> Option<Vec<usize>> {
    let most = ENOUGH.max(inputs.len().div_ceil(CHUNKS));
    let mut sizes = Vec::new();
    let (mut count, mut bytes) = (0, 0);
    for len in inputs {
        if count > 0 && (count == most || !fits(count + 1, bytes + len)) {
            sizes.push(count);
            (count, bytes) = (0, 0);
        }
        (count, bytes) = (count + 1, bytes + len);
        if !fits(count, bytes) {
            return None;
        }
    }
    sizes.push(count);
    Some(sizes)
}

/// Returns how many nodes fit into a slot, given the bytes for a number of nodes; limited so that
/// thread numbers have 32 bits.
pub(crate) fn nodes_that_fit(bytes: impl Fn(usize) -> usize, slot: usize, threads: usize) -> usize {
    largest_fit((1 << 31) / threads, |nodes| bytes(nodes) <= slot)
}

/// Runs operations in groups of one kind each, which `run` gives verdicts, and `tell`s each verdict. It ends with the
/// first group that is not done.
pub(crate) fn by_kind<T, K: Ord>(
    all: &mut [T],
    kind: impl Fn(&T) -> K,
    run: impl Fn(&[T], &mut [Status]) -> BatchOutcome,
    mut tell: impl FnMut(&T, Status),
) -> BatchOutcome {
    all.sort_by_key(&kind);
    for group in all.chunk_by(|a, b| kind(a) == kind(b)) {
        let mut verdicts = vec![Status::NotRun; group.len()];
        let ran = run(group, &mut verdicts);
        if ran != BatchOutcome::Done {
            return ran;
        }
        group.iter().zip(verdicts).for_each(|(one, verdict)| tell(one, verdict));
    }
    BatchOutcome::Done
}

/// The frame around a chunk's arrays: status words after them, and the part of a slot that is
/// cleared.
#[derive(Default)]
pub(crate) struct Frame {
    /// Bytes of a slot.
    pub(crate) bytes: usize,
    status: Region,
    secret: usize,
    tails: Vec<Region>,
}

impl Frame {
    /// Adds the status words of `n` operations to their arrays.
    pub(crate) fn new(mut layout: Layout, n: usize) -> Self {
        let status = layout.array(n, size_of::<u32>());
        let (bytes, secret, tails) = (layout.bytes(), layout.secret(), layout.tails());
        Frame { bytes, status, secret, tails }
    }

    /// Returns a chunk for so many lanes and canaries, in its slot. `arguments` receives a function
    /// that maps a region to its address, or to 0 if the region is empty.
    pub(crate) fn chunk<'t, 'a, D: Device, A: Common>(
        &self,
        guard: &'t mut SlotGuard<'a, D>,
        set: &'static str,
        (lanes, canaries): (usize, usize),
        arguments: impl FnOnce(&dyn Fn(Region) -> u64) -> A,
    ) -> Result<Chunk<'t, 'a, D, A>, Fault> {
        guard.reserve(self.bytes, self.secret, &self.tails)?;
        let at = |place: Region| if place.bytes > 0 { guard.address(place.offset) } else { 0 };
        let mut arguments = arguments(&at);
        arguments.begin(at(self.status), (lanes + canaries) as u32, guard.generation());
        let (status, answers) = (self.status, Vec::new());
        Ok(Chunk { guard, set, arguments, lanes, canaries, status, answers })
    }
}

/// Arguments of kernels of either.
pub(crate) trait Common: Arguments {
    /// Sets the address of the status words, the number of operations, and the generation in the
    /// status words.
    fn begin(&mut self, status: u64, n: u32, generation: u32);

    /// The level that nodes are made from.
    fn set_level(&mut self, level: u32);
}

macro_rules! common {
    ($arguments:ty) => {
        impl Common for $arguments {
            fn begin(&mut self, status: u64, n: u32, generation: u32) {
                (self.status, self.n, self.generation) = (status, n, generation);
            }

            fn set_level(&mut self, level: u32) {
                self.level = level;
            }
        }
    };
}
common!(LmsArguments);
common!(XmssArguments);

/// Ends a chunk of nodes whose leaves are made: their trees, so high, up to the nodes, which come back from `out`, with the canary's.
pub(crate) fn fly_nodes<'a, D: Device, A: Common>(
    mut chunk: Chunk<'_, 'a, D, A>,
    low: u32,
    (out, canary): (Region, &[u8]),
    (output, status): (&'a mut [u8], &'a mut [Status]),
) -> Result<InFlight<'a, D>, Fault> {
    let (nodes, n) = (chunk.lanes, chunk.lanes + chunk.canaries);
    for level in 0..low {
        chunk.arguments.set_level(level);
        chunk.launch_jobs("tree", (nodes << (low - level - 1)) + NODE_CANARIES)?;
    }
    chunk.launch_jobs("finish", n)?;
    chunk.expect(out, &[canary])?;
    chunk.fetch(out, output)?;
    chunk.start(status, &[Status::Ok])
}

/// Sends the arrays of a chunk of signatures, the canary's part with each.
pub(crate) fn send_all<D: Device, A: Common>(
    chunk: &mut Chunk<'_, '_, D, A>,
    arrays: [(Region, Vec<u8>); 3],
) -> Result<(), Fault> {
    for (place, bytes) in arrays {
        chunk.send_own(place, bytes)?;
    }
    chunk.clear_status()
}

/// Bytes that look like a secret's, and are the same in every process.
fn pattern(first: u8) -> impl FnMut(usize) -> Vec<u8> {
    let mut next = first;
    move |len| {
        let byte = |_| {
            next = next.wrapping_mul(5).wrapping_add(0x3b);
            next
        };
        (0..len).map(byte).collect()
    }
}

/// The first leaf of an XMSS key that is used for nothing else.
pub(crate) struct XmssLeaf {
    /// root || SEED, and S_XMSS; the root is not used.
    pub(crate) key: Vec<u8>,
    pub(crate) secret: Vec<u8>,
    context: XmssContext,
    leaf: Vec<u8>,
}

/// A key of XMSS or XMSS^MT and signatures of [`MESSAGE`], of which the second one is invalid.
pub(crate) struct XmssSigned {
    pub(crate) key: xmss::VerifyKey,
    pub(crate) message: &'static [u8],
    pub(crate) signatures: [Vec<u8>; CANARIES],
}

/// The first set of a scheme with a set's hash function and n, and the number of all these before it.
fn lowest(scheme: Scheme, set: &Set) -> Option<(usize, &'static Set)> {
    let kind = |set: &Set| (set.family, set.n);
    let sets = scheme.sets();
    let at = sets.iter().position(|other| kind(other) == kind(set))?;
    // All sets of a kind stand together.
    let groups = sets[..at].chunk_by(|a, b| kind(a) == kind(b)).count();
    Some((groups, &sets[at]))
}

impl XmssLeaf {
    /// Returns the leaf of a set's hash function and n; `None` if the portable backend cannot make
    /// one.
    pub(crate) fn for_set(set: &Set) -> Option<&'static XmssLeaf> {
        static ALL: [OnceBox<XmssLeaf>; 7] = [const { OnceBox::new() }; 7];
        let (place, set) = lowest(Scheme::Xmss, set)?;
        ALL.get(place)?.get_or_try_init(|| Self::make(set).map(Box::new).ok_or(())).ok()
    }

    fn make(set: &'static Set) -> Option<Self> {
        let seeds = pattern(7)(3 * set.n);
        let mut making = xmss::Generation::new(set, &seeds).ok()?;
        let (mut first, _) = making.span(1)?.split_at(1);
        first.run(&Portable, &mut xmss::Scratch::new()).ok()?;
        let (secret, seed) = (seeds[..set.n].to_vec(), &seeds[2 * set.n..]);
        let context = XmssContext::new(set.family, seed);
        let (key, leaf) = ([&vec![0; set.n], seed].concat(), first.job().output.to_vec());
        Some(XmssLeaf { key, secret, context, leaf })
    }

    /// Returns the node at this height above the leaves.
    pub(crate) fn node(&self, low: u32) -> Vec<u8> {
        let mut node = self.leaf.clone();
        for level in 0..low {
            let address =
                XmssAddress::new(0, 0, address_type::TREE).with(XmssAddress::CHAIN, level);
            let (input, context) = ([&node[..], &node].concat(), &self.context);
            Portable.xmss_hash_many(&mut [XmssHash {
                context,
                address,
                input: &input,
                output: &mut node,
            }]);
        }
        node
    }
}

impl XmssSigned {
    /// Those of a scheme and a set's hash function and n.
    pub(crate) fn for_set(scheme: Scheme, set: &Set) -> Option<&'static XmssSigned> {
        static ALL: [OnceBox<XmssSigned>; 14] = [const { OnceBox::new() }; 14];
        let (place, set) = lowest(scheme, set)?;
        let place = place + if scheme == Scheme::Xmss { 0 } else { 7 };
        ALL.get(place)?.get_or_try_init(|| Self::make(set).map(Box::new).ok_or(())).ok()
    }

    fn make(set: &'static Set) -> Option<Self> {
        let index = set.signatures() / 3;
        let (key, good) =
            xmss::testing_only_signatures(&Portable, set, index, &[MESSAGE], &mut pattern(11));
        let key = xmss::VerifyKey::decode(set.scheme, &key).ok()?;
        let good = good.into_iter().next()?;
        let mut bad = good.clone();
        *bad.last_mut()? ^= 1;
        Some(XmssSigned { key, message: MESSAGE, signatures: [good, bad] })
    }
}

/// The leaf of an LMS key that is used for nothing else: number 32 of a tree, outside of any real
/// tree.
pub(crate) struct LmsLeaf {
    /// I || SEED.
    pub(crate) key: Vec<u8>,
    lms: &'static Lms,
    leaf: Vec<u8>,
}

/// A key of LMS in HSS's form and signatures of [`MESSAGE`], of which the second one is invalid.
pub(crate) struct LmsSigned {
    pub(crate) key: lms::VerifyKey,
    pub(crate) message: &'static [u8],
    pub(crate) signatures: [Vec<u8>; CANARIES],
}

/// Returns the lowest tree with a one-time signature's hash function, and the index of the one-time
/// set.
fn tree_of(ots: &LmOts) -> Option<(usize, &'static Lms, &'static LmOts)> {
    let place = LM_OTS.iter().position(|set| set.typecode == ots.typecode)?;
    let lms = LMS.iter().find(|lms| (lms.family, lms.n) == (ots.family, ots.n))?;
    Some((place, lms, &LM_OTS[place]))
}

impl LmsLeaf {
    /// Returns the leaf of a set of one-time signatures; `None` if the portable backend cannot make
    /// one.
    pub(crate) fn for_set(ots: &LmOts) -> Option<&'static LmsLeaf> {
        static ALL: [OnceBox<LmsLeaf>; 16] = [const { OnceBox::new() }; 16];
        let (place, lms, ots) = tree_of(ots)?;
        ALL.get(place)?.get_or_try_init(|| Self::make(lms, ots).map(Box::new).ok_or(())).ok()
    }

    fn make(lms: &'static Lms, ots: &'static LmOts) -> Option<Self> {
        let levels = Levels::new(&[(lms, ots)]).ok()?;
        let (id, seed) = (std::array::from_fn(|at| at as u8 ^ 0x5a), pattern(13)(lms.n));
        let mut making = lms::Generation::new(levels, &id, &seed).ok()?;
        let (mut first, _) = making.span(1)?.split_at(1);
        first.run(&Portable, &mut lms::Scratch::new()).ok()?;
        let leaf = first.job().output.to_vec();
        Some(LmsLeaf { key: [&id[..], &seed].concat(), lms, leaf })
    }

    /// Returns the node at this height above the leaves.
    pub(crate) fn node(&self, low: u32) -> Vec<u8> {
        let (mut node, mut number) = (self.leaf.clone(), 1 << self.lms.h);
        let id = std::array::from_fn(|at| self.key[at]);
        for _ in 0..low {
            number >>= 1;
            let (input, family) = ([&node[..], &node].concat(), self.lms.family);
            let prefix = prefix(&id, number, D_INTR);
            Portable.lms_hash_many(&mut [LmsHash {
                family,
                prefix,
                input: &input,
                output: &mut node,
            }]);
        }
        node
    }
}

impl LmsSigned {
    /// Those of a set of one-time signatures.
    pub(crate) fn for_set(ots: &LmOts) -> Option<&'static LmsSigned> {
        static ALL: [OnceBox<LmsSigned>; 16] = [const { OnceBox::new() }; 16];
        let (place, lms, ots) = tree_of(ots)?;
        ALL.get(place)?.get_or_try_init(|| Self::make(lms, ots).map(Box::new).ok_or(())).ok()
    }

    fn make(lms: &'static Lms, ots: &'static LmOts) -> Option<Self> {
        let (key, good) =
            lms::testing_only_signatures(&Portable, (lms, ots), 21, &[MESSAGE], &mut pattern(17));
        let key = lms::VerifyKey::decode(&[&[0, 0, 0, 1], &key[..]].concat()).ok()?;
        let good = [&[0; 4], &good.into_iter().next()?[..]].concat();
        let mut bad = good.clone();
        *bad.last_mut()? ^= 1;
        Some(LmsSigned { key, message: MESSAGE, signatures: [good, bad] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_as_large_as_fits() {
        let fits = |count: usize, bytes: usize| count <= 4 && bytes <= 100;
        assert_eq!(
            sizes([30, 30, 30, 30, 100, 1, 1, 1, 1, 1].into_iter(), fits),
            Some(vec![3, 1, 1, 4, 1])
        );
        assert_eq!(sizes([30, 101].into_iter(), fits), None);
        assert_eq!(sizes([1; 3000].into_iter(), |_, _| true), Some(vec![1024, 1024, 952]));
        assert_eq!(nodes_that_fit(|nodes| 100 + 7 * nodes, 800, 1), 100);
        assert_eq!(nodes_that_fit(|nodes| 100 + 7 * nodes, 90, 1), 0);
        assert_eq!(nodes_that_fit(|nodes| nodes, 800, 1 << 30), 2);
    }

    #[test]
    fn every_set_has_a_canary() {
        for ots in &LM_OTS {
            assert!(LmsLeaf::for_set(ots).is_some_and(|leaf| leaf.node(3).len() == ots.n));
            assert!(
                LmsSigned::for_set(ots)
                    .is_some_and(|signed| signed.key.sets().map(|sets| sets.1) == Some(ots))
            );
        }
        for scheme in [Scheme::Xmss, Scheme::XmssMt] {
            for set in scheme.sets() {
                let signed = XmssSigned::for_set(scheme, set).and_then(|signed| signed.key.set());
                let kind = |set: &Set| (set.scheme, set.family, set.n);
                assert_eq!(signed.map(kind), Some(kind(set)), "{}", set.name);
                assert_eq!(XmssLeaf::for_set(set).is_some(), set.can_sign(), "{}", set.name);
            }
        }
    }
}
