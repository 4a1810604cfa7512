//! The tree and its entries in files (C2SP tlog-tiles). They are derived from the segments and
//! rebuilt from them if lost, so they are not synced.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use gabion_disk::{Access, Disk, read_full, write_all};

use super::segment::{damaged, unwritable};
use super::tree::{Full, Hash, Parts, Tree, WIDTH, perfect};
use crate::error::AuditError;

/// The content of a tile file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TileKind {
    /// The hashes of a level of the tree.
    Level(u8),
    /// The entries.
    Entries,
}

/// The size of an entry's length field in a bundle of entries.
const LENGTH: usize = 2;

/// Returns the folder names and the file name of a tile, relative to the log's folder.
fn names(of: TileKind, index: u64, width: usize) -> Vec<String> {
    let mut names = vec!["tile".to_owned()];
    names.push(match of {
        TileKind::Level(level) => level.to_string(),
        TileKind::Entries => "entries".to_owned(),
    });
    let mut digits = vec![format!("{:03}", index % 1000)];
    let mut rest = index / 1000;
    while rest > 0 {
        digits.push(format!("x{:03}", rest % 1000));
        rest /= 1000;
    }
    names.extend(digits.into_iter().rev());
    if width < WIDTH {
        if let Some(last) = names.last_mut() {
            last.push_str(".p");
        }
        names.push(width.to_string());
    }
    names
}

/// Returns the path of a tile's file.
pub fn path_of(folder: &Path, of: TileKind, index: u64, width: usize) -> PathBuf {
    names(of, index, width).iter().fold(folder.to_owned(), |path, name| path.join(name))
}

/// Writes a tile or a bundle.
pub fn write(
    disk: &dyn Disk,
    folder: &Path,
    of: TileKind,
    index: u64,
    hashes: &[Hash],
) -> Result<PathBuf, AuditError> {
    let mut bytes = Vec::with_capacity(hashes.len() * (LENGTH + 32));
    for hash in hashes {
        if of == TileKind::Entries {
            bytes.extend_from_slice(&(hash.len() as u16).to_be_bytes());
        }
        bytes.extend_from_slice(hash);
    }
    let names = names(of, index, hashes.len());
    let mut path = folder.to_owned();
    for (place, name) in names.iter().enumerate() {
        path.push(name);
        if place + 1 < names.len() {
            disk.make_folder(&path).map_err(|error| unwritable(&path, &error))?;
        }
    }
    replace(disk, folder, &path, &bytes, false)?;
    Ok(path)
}

/// Replaces a file atomically.
pub fn replace(
    disk: &dyn Disk,
    folder: &Path,
    path: &Path,
    bytes: &[u8],
    is_synced: bool,
) -> Result<(), AuditError> {
    let new = folder.join("new");
    let written = || {
        match disk.remove(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let file = disk.open(&new, Access::New)?;
        write_all(&*file, bytes, 0)?;
        if is_synced {
            file.sync()?;
        }
        disk.rename(&new, path)
    };
    written().map_err(|error| unwritable(path, &error))
}

/// Reads a whole file; `None` if it does not exist.
pub fn read_file(disk: &dyn Disk, path: &Path, most: usize) -> Result<Option<Vec<u8>>, AuditError> {
    let read = || -> io::Result<Option<Vec<u8>>> {
        let file = match disk.open(path, Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = vec![0; most.min(file.size()? as usize)];
        let len = read_full(&*file, &mut bytes, 0)?;
        bytes.truncate(len);
        Ok(Some(bytes))
    };
    read().map_err(|error| unwritable(path, &error))
}

/// Reads the first hashes of a tile or bundle, from the file of that width or from the full one.
pub fn read(
    disk: &dyn Disk,
    folder: &Path,
    of: TileKind,
    index: u64,
    width: usize,
) -> Result<Option<Vec<Hash>>, AuditError> {
    let step = if of == TileKind::Entries { LENGTH + 32 } else { 32 };
    for file in [width, WIDTH] {
        let Some(bytes) = read_file(disk, &path_of(folder, of, index, file), step * WIDTH)? else {
            continue;
        };
        let hashes: Option<Vec<Hash>> = bytes
            .chunks(step)
            .map(|chunk| {
                let (len, hash) = chunk.split_at_checked(step - 32)?;
                let is_length = len.is_empty() || len == [0, 32];
                hash.try_into().ok().filter(|_| is_length)
            })
            .take(width)
            .collect();
        if let Some(hashes) = hashes.filter(|hashes| hashes.len() == width) {
            return Ok(Some(hashes));
        }
    }
    Ok(None)
}

/// Returns whether the full tiles and bundles of a log of this size exist, judging by their
/// lengths. They are not synced, so a power failure may remove one and leave later ones.
pub fn are_there(disk: &dyn Disk, folder: &Path, size: u64) -> Result<bool, AuditError> {
    let levels = (0..8u8).map(|level| (TileKind::Level(level), size >> (8 * u32::from(level)), 32));
    for (of, count, step) in levels.chain([(TileKind::Entries, size, LENGTH + 32)]) {
        for index in 0..count / WIDTH as u64 {
            let path = path_of(folder, of, index, WIDTH);
            match disk.open(&path, Access::Read).and_then(|file| file.size()) {
                Ok(len) if len == (step * WIDTH) as u64 => {}
                Ok(_) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(unwritable(&path, &error)),
            }
        }
    }
    Ok(true)
}

/// Reads a full bundle of entries.
pub fn bundle(disk: &dyn Disk, folder: &Path, index: u64) -> Result<Vec<Hash>, AuditError> {
    read(disk, folder, TileKind::Entries, index, WIDTH)?.ok_or_else(|| {
        damaged(&path_of(folder, TileKind::Entries, index, WIDTH), "the file is missing")
    })
}

/// Syncs full bundles of entries and their folders.
pub fn sync_bundles(
    disk: &dyn Disk,
    folder: &Path,
    indexes: std::ops::Range<u64>,
) -> Result<(), AuditError> {
    let mut folders = std::collections::BTreeSet::new();
    for index in indexes {
        let path = path_of(folder, TileKind::Entries, index, WIDTH);
        let synced = disk.open(&path, Access::Write).and_then(|file| file.sync());
        synced.map_err(|error| unwritable(&path, &error))?;
        let above = path.ancestors().skip(1).take_while(|above| above.starts_with(folder));
        folders.extend(above.map(Path::to_owned));
    }
    // Innermost folders first.
    for above in folders.iter().rev() {
        disk.sync_folder(above).map_err(|error| unwritable(above, &error))?;
    }
    Ok(())
}

/// Reads the edge of the tree of a size from tiles, and the entries of the incomplete bundle;
/// `None` if a file is missing.
pub fn edge(
    disk: &dyn Disk,
    folder: &Path,
    size: u64,
) -> Result<Option<(Tree, Vec<Hash>)>, AuditError> {
    let part = |of, count: u64| match (count % WIDTH as u64) as usize {
        0 => Ok(Some(Vec::new())),
        width => read(disk, folder, of, count / WIDTH as u64, width),
    };
    let mut levels = Vec::new();
    for level in (0..8u8).take_while(|level| size >> (8 * u32::from(*level)) > 0) {
        let Some(hashes) = part(TileKind::Level(level), size >> (8 * u32::from(level)))? else {
            return Ok(None);
        };
        levels.push(hashes);
    }
    let entries = part(TileKind::Entries, size)?;
    Ok(entries.map(|entries| (Tree::of_edge(size, levels), entries)))
}

/// Writes tiles and bundles that became full.
pub fn write_full(
    disk: &dyn Disk,
    folder: &Path,
    tiles: &[Full],
    bundles: &[Full],
) -> Result<(), AuditError> {
    for tile in tiles {
        write(disk, folder, TileKind::Level(tile.level), tile.index, &tile.hashes)?;
    }
    for bundle in bundles {
        write(disk, folder, TileKind::Entries, bundle.index, &bundle.hashes)?;
    }
    Ok(())
}

/// The tiles of a tree of a size, as parts of the tree.
pub struct Tiles<'d> {
    disk: &'d dyn Disk,
    folder: &'d Path,
    size: u64,
    last: Option<(u8, u64, Vec<Hash>)>,
}

impl<'d> Tiles<'d> {
    pub fn new(disk: &'d dyn Disk, folder: &'d Path, size: u64) -> Self {
        Tiles { disk, folder, size, last: None }
    }
}

impl Parts for Tiles<'_> {
    fn part(&mut self, height: u32, index: u64) -> Result<Hash, AuditError> {
        let (level, within) = ((height / 8) as u8, height % 8);
        let first = index << within;
        let tile = first / WIDTH as u64;
        if !matches!(&self.last, Some((had, which, _)) if (*had, *which) == (level, tile)) {
            let all = self.size >> (8 * u32::from(level));
            let width = all.saturating_sub(tile * WIDTH as u64).min(WIDTH as u64) as usize;
            let found = read(self.disk, self.folder, TileKind::Level(level), tile, width)?;
            let hashes = found.ok_or_else(|| {
                damaged(
                    &path_of(self.folder, TileKind::Level(level), tile, width),
                    "the file is missing",
                )
            })?;
            self.last = Some((level, tile, hashes));
        }
        let hashes = self.last.as_ref().map_or(&[][..], |(_, _, hashes)| hashes);
        let start = (first % WIDTH as u64) as usize;
        let part = hashes.get(start..start + (1 << within));
        part.map(perfect).ok_or_else(|| {
            damaged(
                &path_of(self.folder, TileKind::Level(level), tile, hashes.len()),
                "it is too short",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_tlog_tiles() {
        let path = |of, index, width| {
            path_of(Path::new(""), of, index, width).to_str().unwrap().to_owned()
        };
        assert_eq!(path(TileKind::Level(0), 1_234_067, 256), "tile/0/x001/x234/067");
        assert_eq!(path(TileKind::Level(2), 0, 1), "tile/2/000.p/1");
        assert_eq!(path(TileKind::Entries, 273, 112), "tile/entries/273.p/112");
        assert_eq!(path(TileKind::Entries, 1000, 256), "tile/entries/x001/000");
    }
}
