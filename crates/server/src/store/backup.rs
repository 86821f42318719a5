//! A copy of the database while a server writes it, and back.

use std::fs;
use std::path::Path;
use std::time::Duration;

use rusqlite::{params, Connection, OpenFlags};

use super::{beside, check_format, FORMAT};
use crate::Error;

/// Copies the database as of one commit; `to` is replaced as a whole or not at all. Returns the number of outcomes.
pub fn backup(database: &Path, to: &Path) -> Result<i64, Error> {
    if fs::canonicalize(to).is_ok_and(|to| fs::canonicalize(database).is_ok_and(|from| from == to))
    {
        return Err(Error::Usage(format!(
            "--backup: {}: the database itself: name another file",
            to.display()
        )));
    }
    copy(database, to, || Ok(()))
}

/// Puts a backup in the database's place. No server may be at work there.
pub fn restore(from: &Path, database: &Path) -> Result<i64, Error> {
    let backup = open(from)?;
    let verdict = backup.pragma_query_value(None, "integrity_check", |row| row.get::<_, String>(0));
    match verdict {
        Ok(verdict) if verdict == "ok" => {}
        Ok(verdict) => return Err(no_backup(from, &verdict)),
        Err(e) => return Err(no_backup(from, &e.to_string())),
    }
    if check_format(&backup, from)? != FORMAT {
        return Err(no_backup(from, "another program's database"));
    }
    drop(backup);
    // The former database's log of writes must not be taken for the backup's. Folded in, whoever kills this leaves the
    // former database whole; one that cannot be folded in is spoilt, and what this is here to replace.
    let _ = connect(database, OpenFlags::SQLITE_OPEN_READ_WRITE)
        .and_then(|old| old.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
    copy(from, database, || {
        for file in beside(database) {
            match fs::remove_file(&file) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(failed(&file, &e))
                }
                _ => {}
            }
        }
        Ok(())
    })
}

/// `last` is done before the copy takes the name.
fn copy(from: &Path, to: &Path, last: impl FnOnce() -> Result<(), Error>) -> Result<i64, Error> {
    let source = open(from)?;
    let mut outcomes = 0;
    let copied = mp_files::replace_private(to, |fresh| {
        // Of one moment, and without the holes that deleted outcomes left.
        let fresh = fresh.path();
        let name = fresh.to_string_lossy();
        let read = source
            .execute("VACUUM INTO ?1", params![name])
            .and_then(|_| {
                let copy = connect(fresh, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
                copy.query_row("SELECT count(*) FROM outcomes", [], |row| row.get(0))
            });
        outcomes = read.map_err(|e| Filling::Copy(failed(to, &e)))?;
        last().map_err(Filling::Copy)
    });
    match copied {
        Ok(()) => Ok(outcomes),
        Err(Filling::Copy(e)) => Err(e),
        Err(Filling::Write(e)) => Err(failed(to, &e)),
    }
}

/// An error of a copy, of the database or of the disk.
enum Filling {
    Copy(Error),
    Write(std::io::Error),
}

impl From<std::io::Error> for Filling {
    fn from(e: std::io::Error) -> Filling {
        Filling::Write(e)
    }
}

/// Of a database that is there.
fn open(file: &Path) -> Result<Connection, Error> {
    if let Err(e) = fs::metadata(file) {
        return Err(Error::Usage(format!("{}: {e}", file.display())));
    }
    connect(file, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|e| no_backup(file, &e.to_string()))
}

fn connect(file: &Path, how: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(file, how)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}

fn failed(file: &Path, e: &dyn std::fmt::Display) -> Error {
    Error::Failed(format!("{}: {e}", file.display()))
}

fn no_backup(file: &Path, why: &str) -> Error {
    Error::Usage(format!(
        "{}: no backup of an edge server: {why}",
        file.display()
    ))
}
