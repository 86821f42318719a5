//! Files that are replaced as a whole: written beside their place, and only then renamed into it. And the one of resolvers
//! that each host has.

#![forbid(unsafe_code)]

pub mod resolv_conf;

use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{fchown, MetadataExt, PermissionsExt};
use std::path::Path;

use tempfile::NamedTempFile;

/// Whoever opens the file finds what was there before or all of `content`, even where the writer is killed. A loss of power
/// may still leave an empty file: see [`replace_durably`].
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    rename(beside(path, content)?, path)
}

/// As [`replace`], and a loss of power at any point leaves the one or the other too. Waits for the disk.
pub fn replace_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let fresh = beside(path, content)?;
    fresh.as_file().sync_all()?;
    rename(fresh, path)?;
    // The rename itself lasts once the folder is on the disk.
    File::open(folder(path))?.sync_all()
}

/// As [`replace_durably`], for a file that nobody but its owner reads. `fill` writes it; where it fails, nothing is replaced. As
/// root the file belongs to the folder's owner: a service of its own user reads it.
pub fn replace_private<E: From<io::Error>>(
    path: &Path,
    fill: impl FnOnce(&mut NamedTempFile) -> Result<(), E>,
) -> Result<(), E> {
    let mut fresh = tempfile::Builder::new().tempfile_in(folder(path))?;
    fill(&mut fresh)?;
    belong_to_folder(fresh.as_file(), path)?;
    fresh.as_file().sync_all()?;
    rename(fresh, path)?;
    File::open(folder(path))?.sync_all()?;
    Ok(())
}

/// Root's files for a service belong to whom the folder belongs to.
pub fn belong_to_folder(file: &File, path: &Path) -> io::Result<()> {
    let (own, folder) = (file.metadata()?, std::fs::metadata(folder(path))?);
    if own.uid() == 0 && folder.uid() != 0 {
        fchown(file, Some(folder.uid()), Some(folder.gid()))?;
    }
    Ok(())
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

fn beside(path: &Path, content: &[u8]) -> io::Result<NamedTempFile> {
    // Temporary files are their owner's alone; this one is whose the umask says, as any other file.
    let mut fresh = tempfile::Builder::new()
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder(path))?;
    fresh.write_all(content)?;
    Ok(fresh)
}

fn rename(fresh: NamedTempFile, path: &Path) -> io::Result<()> {
    fresh.persist(path).map(drop).map_err(|e| e.error)
}
