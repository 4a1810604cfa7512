//! The types of HSS and LMS private keys. [`StatefulKey`] makes their trees and signs with them.

use std::borrow::Borrow;
use std::fmt;
use std::num::NonZero;
use std::ops::ControlFlow;

use gabion_backend::{Hss, Operation, Task};
use gabion_scheme::Algorithm;
use gabion_scheme::kernels::Kernels;
use gabion_scheme::lms::{self, Generation, LmOts, Lms, SigningKey};
use zeroize::Zeroizing;

use super::signer::{self, Secret, guarded, of_scheme};
use crate::entropy::Entropy;
use crate::error::{Error, check_length, private_key};
use crate::route::Engine;

pub use super::signer::Progress;
pub use gabion_scheme::lms::Levels;

/// A private key of HSS that signs, with the trees it signs with.
pub type StatefulKey<'e> = signer::StatefulKey<'e, HssSecret>;

/// The private key of HSS: its sets, the identifier I, and the seed from which all secrets are
/// derived.
pub struct HssSecret {
    levels: Levels,
    id: [u8; 16],
    seed: Zeroizing<Vec<u8>>,
}

impl HssSecret {
    /// Draws a new secret.
    ///
    /// # Errors
    /// [`Error::Entropy`].
    pub fn draw(levels: Levels, entropy: &dyn Entropy) -> Result<Self, Error> {
        let (mut id, mut seed) = ([0; 16], Zeroizing::new(vec![0; levels.n()]));
        entropy.fill(&mut id)?;
        entropy.fill(&mut seed)?;
        Ok(HssSecret { levels, id, seed })
    }

    /// Returns a secret that was drawn elsewhere.
    ///
    /// # Errors
    /// [`Error::Input`] if the seed is not as long as a hash value.
    pub fn new(levels: Levels, id: [u8; 16], seed: &[u8]) -> Result<Self, Error> {
        check_length("a seed of HSS", levels.n(), seed)?;
        Ok(HssSecret { levels, id, seed: Zeroizing::new(seed.to_vec()) })
    }

    /// Returns the secret as one of the sectors of its tree, which these sets name.
    ///
    /// # Errors
    /// [`Error::Input`] if its sets differ.
    pub fn in_sector(self, levels: Levels) -> Result<Self, Error> {
        match levels.sets() == self.levels.sets() {
            true => Ok(HssSecret { levels, ..self }),
            false => Err(private_key(Algorithm::Hss, "its sector is one of other sets")),
        }
    }

    /// Returns the identifier I of its top tree, which is public.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }

    /// Returns the sets.
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Encodes the secret as `u32str(L) || (type || otstype) of each level || SEED || I`, the
    /// format of hash-sigs and others, but without the index, which the key file does not contain,
    /// and without the sector. The result is secret.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let sets = self.levels.sets();
        let mut bytes =
            Zeroizing::new(Vec::with_capacity(4 + 8 * sets.len() + self.seed.len() + 16));
        bytes.extend_from_slice(&(sets.len() as u32).to_be_bytes());
        for (lms, ots) in sets {
            bytes.extend_from_slice(&lms.typecode.to_be_bytes());
            bytes.extend_from_slice(&ots.typecode.to_be_bytes());
        }
        bytes.extend_from_slice(&self.seed);
        bytes.extend_from_slice(&self.id);
        bytes
    }

    /// Parses the encoding that [`HssSecret::encode`] returns.
    ///
    /// # Errors
    /// [`Error::Input`] if the length is wrong, or if the parameter sets are missing or use several
    /// hash functions.
    pub fn decode(bytes: &[u8]) -> Result<Self, Error> {
        let refused =
            || private_key(Algorithm::Hss, "it is not a list of parameter sets, a seed and I");
        let (count, rest) = bytes.split_first_chunk().ok_or_else(refused)?;
        let count = u32::from_be_bytes(*count) as usize;
        let len = count.checked_mul(8).filter(|_| count <= lms::LEVELS_MAX).ok_or_else(refused)?;
        let (codes, rest) = rest.split_at_checked(len).ok_or_else(refused)?;
        let sets = codes.as_chunks::<8>().0.iter().map(|[a, b, c, d, e, f, g, h]| {
            let lms = Lms::from_typecode(u32::from_be_bytes([*a, *b, *c, *d]));
            lms.zip(LmOts::from_typecode(u32::from_be_bytes([*e, *f, *g, *h])))
        });
        let sets: Vec<_> = sets.collect::<Option<_>>().ok_or_else(refused)?;
        let levels = Levels::new(&sets)?;
        let (seed, id) = rest.split_at_checked(levels.n()).ok_or_else(refused)?;
        let id = id.try_into().map_err(|_| refused())?;
        HssSecret::new(levels, id, seed)
    }
}

/// Draws the secrets of all `count` sectors of a tree. Each sector has a separate seed, so a
/// sector's secret signs only with the indexes of that sector. All sectors have the same identifier
/// I. `known` contains previously drawn sectors, each at the position of its number.
///
/// # Errors
/// [`Error::Input`] if these sets have no such sectors, or the known ones are not sectors of one
/// key; [`Error::Entropy`].
pub fn draw_sectors(
    levels: &Levels,
    count: u32,
    entropy: &dyn Entropy,
    mut known: Vec<Option<HssSecret>>,
) -> Result<Vec<HssSecret>, Error> {
    // No number of sectors that is asked for is believed before it is looked at.
    levels.clone().sector(count, 0, &[])?;
    known.resize_with(count as usize, || None);
    let mut id = known.iter().flatten().next().map(|secret| secret.id);
    let drawn = (0..count).zip(known).map(|(number, known)| {
        let levels = levels.clone().sector(count, number, &[])?;
        let secret = match known {
            Some(secret) => secret,
            None => {
                let fresh = HssSecret::draw(levels.clone(), entropy)?;
                HssSecret { id: id.unwrap_or(fresh.id), ..fresh }
            }
        };
        if secret.levels != levels || *id.get_or_insert(secret.id) != secret.id {
            return Err(private_key(Algorithm::Hss, "it is not a sector of the same key"));
        }
        Ok(secret)
    });
    drawn.collect()
}

/// Makes the keys of all sectors of a tree under one public key. The secrets come from
/// [`draw_sectors`]; `rows` contain earlier progress, or are empty. `watch` is called after each
/// wave with the sector's number, one sector after the other. If it stops the generation, the
/// result is `None`.
///
/// # Errors
/// Those of [`StatefulKey::generate`]; [`Error::Input`] if there is not one row for each sector.
pub fn generate_sectors<'e>(
    engine: &'e Engine,
    secrets: &[impl Borrow<HssSecret>],
    rows: Vec<Vec<u8>>,
    threads: NonZero<usize>,
    watch: &mut dyn FnMut(usize, Progress<'_>) -> ControlFlow<()>,
) -> Result<Option<Vec<(HssSecret, StatefulKey<'e>)>>, Error> {
    let secrets: Vec<&HssSecret> = secrets.iter().map(Borrow::borrow).collect();
    let first = secrets.first().filter(|_| secrets.len() == rows.len());
    let first = first.ok_or_else(|| {
        private_key(Algorithm::Hss, "the number of rows differs from the number of sectors")
    })?;
    let (mut whole, mut roots) = (Vec::new(), Vec::new());
    for (number, (secret, row)) in secrets.iter().copied().zip(rows).enumerate() {
        let mut watch = |progress: Progress<'_>| watch(number, progress);
        let Some(row) = row_of(engine, secret, &row, threads, &mut watch)? else { return Ok(None) };
        roots.extend_from_slice(&on_kernels(engine, |kernels| {
            let made = secret.begin()?.resume(kernels, &row)?;
            Ok(made.own_root().unwrap_or_default().to_vec())
        })?);
        whole.push(row);
    }
    let ways =
        on_kernels(engine, |kernels| lms::sector_paths(kernels, &first.levels, &first.id, &roots))?;
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let mut keys = Vec::new();
    for ((secret, row), way) in secrets.into_iter().zip(whole).zip(ways) {
        let (count, number) = secret.levels.sectors();
        let levels = secret.levels.clone().sector(count, number, &way)?;
        let secret = HssSecret::new(levels, secret.id, &secret.seed)?;
        let key = StatefulKey::generate(engine, &secret, &row, threads, &mut go_on)?;
        keys.push((secret, key.ok_or(Error::Lost)?));
    }
    Ok(Some(keys))
}

/// The row of a sector that is whole, and has no way up yet; from a part of it on.
fn row_of(
    engine: &Engine,
    secret: &HssSecret,
    part: &[u8],
    threads: NonZero<usize>,
    watch: &mut dyn FnMut(Progress<'_>) -> ControlFlow<()>,
) -> Result<Option<Vec<u8>>, Error> {
    let mut row = None;
    let mut until_whole = |progress: Progress<'_>| {
        let said = watch(progress);
        if said.is_continue() && progress.done == progress.all {
            row = Some(progress.row.to_vec());
            return ControlFlow::Break(());
        }
        said
    };
    StatefulKey::generate(engine, secret, part, threads, &mut until_whole)?;
    Ok(row)
}

fn on_kernels<T>(
    engine: &Engine,
    work: impl FnOnce(&dyn Kernels) -> Result<T, gabion_scheme::Error>,
) -> Result<T, Error> {
    let kernels = engine.kernels_for(Algorithm::Hss)?;
    guarded((Algorithm::Hss, Task::Keygen), || Ok(work(kernels)?))
}

impl fmt::Debug for HssSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HssSecret of {:?}", self.levels.sets())
    }
}

impl Secret for HssSecret {
    of_scheme!(lms);

    fn algorithm(&self) -> Algorithm {
        Algorithm::Hss
    }

    fn begin(&self) -> Result<Generation, gabion_scheme::Error> {
        Generation::new(self.levels.clone(), &self.id, &self.seed)
    }

    fn batch<'a>(&self, piece: Self::Piece<'a>) -> (Operation<'a>, usize) {
        let nodes = piece.nodes();
        (Operation::Hss(Hss::Nodes { piece }), nodes)
    }

    fn signatures(key: &SigningKey) -> u64 {
        key.levels().signatures()
    }

    fn signature_len(key: &SigningKey) -> usize {
        key.levels().signature_len()
    }
}
