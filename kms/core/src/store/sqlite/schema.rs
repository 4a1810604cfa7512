//! The schema of a store's file, and the rejection of everything else in it.
//!
//! Triggers and views run inside the statements of this program. An attacker who can write the
//! file, but has no unseal share, could plant a trigger that deletes each revocation as it is
//! written. So the schema has to match the one that this program writes, byte for byte.

use rusqlite::{Connection, ErrorCode};

use super::{APPLICATION, Marks, error_of, number};
use crate::store::terms::{FORMAT, Identity, StoreError};

pub(super) const SCHEMA: &str = "
    CREATE TABLE store (
        one INTEGER PRIMARY KEY CHECK (one = 1),
        min_reader INTEGER NOT NULL,
        min_writer INTEGER NOT NULL,
        id BLOB NOT NULL CHECK (length(id) = 16),
        incarnation INTEGER NOT NULL,
        revision INTEGER NOT NULL
    ) STRICT;
    CREATE TABLE records (
        path TEXT PRIMARY KEY NOT NULL,
        generation INTEGER NOT NULL,
        value BLOB,
        digest BLOB NOT NULL
    ) STRICT;
";

/// The triggers that enforce the rules of generations and tombstones.
pub(super) const RULES: &str = "
    CREATE TRIGGER generations_begin BEFORE INSERT ON records
        WHEN NEW.generation <> 1 + coalesce((SELECT generation FROM records WHERE path = NEW.path), 0)
            OR EXISTS (SELECT 1 FROM records WHERE path = NEW.path AND value IS NULL)
        BEGIN SELECT RAISE(ABORT, 'a record counts its writes, and a buried one stays'); END;
    CREATE TRIGGER records_are_never_deleted BEFORE DELETE ON records
        BEGIN SELECT RAISE(ABORT, 'records are never deleted'); END;
    CREATE TRIGGER generations_count BEFORE UPDATE ON records
        WHEN NEW.generation <> OLD.generation + 1 OR OLD.value IS NULL OR NEW.path <> OLD.path
        BEGIN SELECT RAISE(ABORT, 'a record counts its writes, and a buried one stays'); END;
";

/// Settings of the file that this program never changes, and their values.
const SETTINGS: [(&str, &str); 3] =
    [("user_version", "0"), ("auto_vacuum", "0"), ("encoding", "UTF-8")];

/// Reads the file's marks, if this program may read the file and wrote its whole schema.
pub(super) fn marks(connection: &Connection) -> Result<Marks, StoreError> {
    let application = setting(connection, "application_id")?;
    if application != APPLICATION.to_string() {
        return Err(StoreError::NotAStore("it was written by another program".to_owned()));
    }
    // Check this first: a newer format may have another schema. A view with this name would run a
    // foreign statement.
    let table = "SELECT count(*) FROM sqlite_schema WHERE name = 'store' AND type = 'table' AND rootpage > 0";
    let tables: i64 = connection.query_row(table, (), |row| row.get(0)).map_err(error_of)?;
    if tables != 1 {
        return Err(StoreError::NotAStore("it has no table `store`".to_owned()));
    }
    let reader = connection.query_row("SELECT min_reader FROM store", (), |row| row.get(0));
    let reader = number(reader.map_err(|error| match error.sqlite_error_code() {
        Some(ErrorCode::Unknown) => StoreError::NotAStore(error.to_string()),
        _ => error_of(error),
    })?)?;
    if reader > FORMAT {
        return Err(StoreError::TooOld { what: "read", wanted: reader, has: FORMAT });
    }
    check(connection)?;
    let columns = "SELECT min_writer, id, incarnation FROM store";
    let (writer, id, incarnation) = connection
        .query_row(columns, (), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .map_err(error_of)?;
    let identity = Identity { id, incarnation: number(incarnation)? };
    let min_writer = number(writer)?;
    match reader == min_writer || min_writer > FORMAT {
        true => Ok(Marks { identity, min_writer }),
        false => Err(foreign(&format!("the formats {reader} and {min_writer}"))),
    }
}

/// Rejects tables, indexes, triggers, views and settings that this program did not write.
fn check(connection: &Connection) -> Result<(), StoreError> {
    let ours = Connection::open_in_memory().map_err(error_of)?;
    ours.execute_batch(SCHEMA).map_err(error_of)?;
    ours.execute_batch(RULES).map_err(error_of)?;
    let (found, wanted) = (objects(connection)?, objects(&ours)?);
    if let Some((kind, name, ..)) = found.iter().find(|object| !wanted.contains(object)) {
        return Err(foreign(&format!("the {kind} `{name}`")));
    }
    if let Some((kind, name, ..)) = wanted.iter().find(|object| !found.contains(object)) {
        return Err(StoreError::Foreign(format!("the {kind} `{name}` is missing")));
    }
    if found.len() != wanted.len() {
        return Err(foreign("an object twice"));
    }
    for (name, wanted) in SETTINGS {
        let found = setting(connection, name)?;
        if found != wanted {
            return Err(foreign(&format!("the setting {name} = {found}")));
        }
    }
    Ok(())
}

/// Returns SQLite's counter of schema changes.
pub(super) fn version(connection: &Connection) -> Result<i64, StoreError> {
    connection.query_row("PRAGMA schema_version", (), |row| row.get(0)).map_err(error_of)
}

/// The type, name, table and statement of a schema object.
type Object = (String, String, String, Option<String>);

fn objects(connection: &Connection) -> Result<Vec<Object>, StoreError> {
    let text = "SELECT type, name, tbl_name, sql FROM sqlite_schema";
    let mut statement = connection.prepare(text).map_err(error_of)?;
    let rows = statement
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .map_err(error_of)?;
    rows.map(|row| row.map_err(error_of)).collect()
}

fn setting(connection: &Connection, name: &str) -> Result<String, StoreError> {
    let value: rusqlite::types::Value =
        connection.query_row(&format!("PRAGMA {name}"), (), |row| row.get(0)).map_err(error_of)?;
    Ok(match value {
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => format!("{other:?}"),
    })
}

fn foreign(what: &str) -> StoreError {
    StoreError::Foreign(format!("it has {what}, which this program did not write"))
}
