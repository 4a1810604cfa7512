//! The records of keys in the store: their paths and encodings.
//!
//! ```text
//!   names/TENANT/NAME            the id of the key that has the name, or null
//!   keys/TENANT/UUID             the key's state
//!   versions/TENANT/UUID/NUMBER  a version's state, its public and its private key; with short nonces, the number of messages
//!                                reserved for it
//!   publics/TENANT/DIGEST        the version that has a public key
//!   counts/TENANT/UUID/NUMBER    the same number, for versions that an older program made and that have none themselves yet
//!   rotations/TENANT/UUID        when the key is rotated automatically, or null
//! ```

use gabion_engine::Engine;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use super::cache::{ExpandedVersion, KeyView, VersionView};
use super::context::StoreContext;
use super::material::{EncodedKey, Material, New};
use crate::error::Error;
use crate::model::{Key, KeyAlgorithm, KeyId, Label, Version};
use crate::store::RecordPath;
use crate::symmetric::TagRoot;

/// The size of the number of reserved messages in bytes.
const COUNT: usize = 8;

/// The plaintext of a record. It may be secret.
type Plain = Zeroizing<Vec<u8>>;

pub fn name_path(tenant: &Label, name: &Label) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("names/{tenant}/{name}"))?)
}

pub fn key_path(id: &KeyId) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("keys/{}/{}", id.tenant, id.uuid))?)
}

/// Returns the path of a key's record, which is created before or with its other records.
///
/// # Errors
/// Does not fail for valid ids.
pub fn key_record(id: &KeyId) -> Result<RecordPath, Error> {
    key_path(id)
}

/// Returns the path of all keys.
///
/// # Errors
/// Does not fail.
pub fn keys_path() -> Result<RecordPath, Error> {
    Ok(RecordPath::new("keys")?)
}

/// Returns the path of a key's versions.
pub fn versions_path(id: &KeyId) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("versions/{}/{}", id.tenant, id.uuid))?)
}

pub fn version_path(id: &KeyId, number: u32) -> Result<RecordPath, Error> {
    // Ten digits, so that paths sort by number.
    Ok(versions_path(id)?.join(&format!("{number:010}"))?)
}

/// Returns the path of the message counters of a key's versions in stores of older programs.
pub fn counts_path(id: &KeyId) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("counts/{}/{}", id.tenant, id.uuid))?)
}

pub fn count_path(id: &KeyId, number: u32) -> Result<RecordPath, Error> {
    Ok(counts_path(id)?.join(&format!("{number:010}"))?)
}

/// Returns the path of a key's next automatic rotation.
pub fn rotation_path(id: &KeyId) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("rotations/{}/{}", id.tenant, id.uuid))?)
}

/// Returns the path of the version that has a public key, by the key's digest.
pub fn public_path(tenant: &Label, digest: &[u8]) -> Result<RecordPath, Error> {
    Ok(RecordPath::new(format!("publics/{tenant}/{}", base16ct::lower::encode_string(digest)))?)
}

/// Seals a value as JSON, for a generation.
pub fn sealed<T: Serialize>(
    context: &StoreContext,
    path: &RecordPath,
    generation: u64,
    value: &T,
) -> Result<Vec<u8>, Error> {
    let text = serde_json::to_vec(value).map_err(|error| damaged(path, &error.to_string()))?;
    context.sealer.seal(path, generation, &text)
}

/// Reads a JSON value and its generation; `None` if it is missing.
pub fn opened<T: DeserializeOwned>(
    context: &StoreContext,
    path: &RecordPath,
) -> Result<Option<(T, u64)>, Error> {
    let Some((text, generation)) = opened_bytes(context, path)? else { return Ok(None) };
    let value = serde_json::from_slice(&text).map_err(|error| damaged(path, &error.to_string()))?;
    Ok(Some((value, generation)))
}

/// Reads the plaintext of a record and its generation.
pub fn opened_bytes(
    context: &StoreContext,
    path: &RecordPath,
) -> Result<Option<(Plain, u64)>, Error> {
    let read = context.store.read(std::slice::from_ref(path))?;
    let Some(record) = read.records.into_iter().next().flatten() else { return Ok(None) };
    match record.value {
        None => Err(Error::Destroyed),
        Some(value) => {
            let plain = context.sealer.open(path, record.generation, &value)?;
            Ok(Some((plain, record.generation)))
        }
    }
}

pub fn read_key(context: &StoreContext, id: &KeyId) -> Result<KeyView, Error> {
    let path = key_path(id)?;
    let (key, generation): (Key, u64) =
        opened(context, &path)?.ok_or_else(|| Error::NoKey(id.to_string()))?;
    // The record was sealed for its path, so another UUID means that the id was wrong.
    match key.id.uuid == id.uuid {
        true => Ok(KeyView { key: key.into(), generation }),
        false => Err(damaged(&path, "the key is another")),
    }
}

pub fn read_version(context: &StoreContext, id: &KeyId, number: u32) -> Result<VersionView, Error> {
    let path = version_path(id, number)?;
    let found = match opened_bytes(context, &path) {
        Err(Error::Destroyed) => return Err(Error::VersionDestroyed(number)),
        found => found?,
    };
    let Some((bytes, _)) = found else { return Err(damaged(&path, "it is missing")) };
    let expanded = read_expanded(&context.engine, &path, id.algorithm, &bytes)?;
    match expanded.version.version == number {
        true => Ok(VersionView::new(expanded)),
        false => Err(damaged(&path, "the version is another")),
    }
}

/// Encodes a version with its key: its state as JSON, the public key, and one form of the private
/// key, each preceded by its length; then the form. If its messages are counted, the number of
/// reserved ones follows, at first 0.
pub fn write_version(
    version: &Version,
    key: &New,
    is_counted: bool,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let state = serde_json::to_vec(version).map_err(|error| Error::Parameter(error.to_string()))?;
    let EncodedKey { public, secret, form } = key.written();
    let len = 3 * 4 + 1 + COUNT + state.len() + public.len() + secret.len();
    // Allocate the final size at once, so that reallocation leaves no copies in memory.
    let mut bytes = Zeroizing::new(Vec::with_capacity(len));
    for part in [&state[..], public, secret] {
        bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
        bytes.extend_from_slice(part);
    }
    bytes.push(form);
    if is_counted {
        bytes.extend_from_slice(&[0; COUNT]);
    }
    Ok(bytes)
}

/// Returns the number of messages reserved for a version. `None` if an older program made the
/// version and counted them in another record.
pub fn read_reserved(path: &RecordPath, bytes: &[u8]) -> Result<Option<u64>, Error> {
    let (_, count) = behind_keys(path, bytes)?;
    Ok(count.first_chunk().copied().map(u64::from_le_bytes))
}

/// Returns the record of a version with another number of reserved messages.
pub fn rewrite_reserved(
    path: &RecordPath,
    bytes: &[u8],
    reserved: u64,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let (_, count) = behind_keys(path, bytes)?;
    let keys = &bytes[..bytes.len() - count.len()];
    let mut new = Zeroizing::new(Vec::with_capacity(keys.len() + COUNT));
    new.extend_from_slice(keys);
    new.extend_from_slice(&reserved.to_le_bytes());
    Ok(new)
}

/// Returns the part of a record after the keys: the form of the private one, and a count or
/// nothing.
fn behind_keys<'a>(path: &RecordPath, bytes: &'a [u8]) -> Result<(u8, &'a [u8]), Error> {
    let rest = &mut &*bytes;
    let found = (|| {
        for _ in 0..3 {
            part(rest)?;
        }
        rest.split_first().filter(|(_, count)| [0, COUNT].contains(&count.len()))
    })();
    let (&form, count) =
        found.ok_or_else(|| damaged(path, "its parts have other lengths than it has"))?;
    Ok((form, count))
}

/// Returns the record of a version in another state.
pub fn rewrite_version(
    path: &RecordPath,
    version: &Version,
    bytes: &[u8],
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let state = serde_json::to_vec(version).map_err(|error| Error::Parameter(error.to_string()))?;
    let rest = &mut &*bytes;
    part(rest).ok_or_else(|| damaged(path, "it is too short"))?;
    let mut new = Zeroizing::new(Vec::with_capacity(4 + state.len() + rest.len()));
    new.extend_from_slice(&(state.len() as u32).to_le_bytes());
    new.extend_from_slice(&state);
    new.extend_from_slice(rest);
    Ok(new)
}

/// Decodes the state of a version, without its key.
pub fn read_state(path: &RecordPath, bytes: &[u8]) -> Result<Version, Error> {
    let state = part(&mut &*bytes).ok_or_else(|| damaged(path, "it is too short"))?;
    serde_json::from_slice(state).map_err(|error| damaged(path, &error.to_string()))
}

/// Decodes the state of a version and its public key, without its private key.
pub fn read_public(path: &RecordPath, bytes: &[u8]) -> Result<(Version, Vec<u8>), Error> {
    let rest = &mut &*bytes;
    let parts = (|| Some([part(rest)?, part(rest)?]))();
    let [state, public] = parts.ok_or_else(|| damaged(path, "it is too short"))?;
    let version =
        serde_json::from_slice(state).map_err(|error| damaged(path, &error.to_string()))?;
    Ok((version, public.to_vec()))
}

/// Decodes a version with its encoded key.
pub fn read_written<'a>(
    path: &RecordPath,
    bytes: &'a [u8],
) -> Result<(Version, EncodedKey<'a>), Error> {
    let (form, _) = behind_keys(path, bytes)?;
    let rest = &mut &*bytes;
    let parts = (|| Some([part(rest)?, part(rest)?, part(rest)?]))();
    let [state, public, secret] = parts.ok_or_else(|| damaged(path, "it is too short"))?;
    let version =
        serde_json::from_slice(state).map_err(|error| damaged(path, &error.to_string()))?;
    Ok((version, EncodedKey { public, secret, form }))
}

/// Decodes a version and expands its key.
pub fn read_expanded(
    engine: &Engine,
    path: &RecordPath,
    algorithm: KeyAlgorithm,
    bytes: &[u8],
) -> Result<ExpandedVersion, Error> {
    let (version, written) = read_written(path, bytes)?;
    let secret = written.secret;
    let material =
        Material::read(engine, algorithm, written)?.map_err(|reason| damaged(path, &reason))?;
    let has_root = !material.is_public() && !matches!(material, Material::Mac(_));
    let tag_root = has_root.then(|| TagRoot::of_secret(secret));
    Ok(ExpandedVersion { version, material, tag_root })
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, more) = rest.split_first_chunk::<4>()?;
    let (part, more) = more.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *rest = more;
    Some(part)
}

pub fn damaged(path: &RecordPath, reason: &str) -> Error {
    Error::Integrity { path: path.to_string(), reason: reason.to_owned() }
}
