//! Files that are read again when they change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Time of change (s, ns), inode and size: one of them differs after a rewrite and after a replacement.
type Stamp = (i64, i64, u64, u64);

pub struct Followed {
    files: Vec<PathBuf>,
    seen: Mutex<Vec<Option<Stamp>>>,
}

impl Followed {
    /// To be made before the files are read, so that no change between is missed.
    pub fn new(files: &[&Path]) -> Followed {
        let files: Vec<PathBuf> = files.iter().map(|f| f.to_path_buf()).collect();
        let seen = Mutex::new(stamps(&files));
        Followed { files, seen }
    }

    /// Whether they changed since this was asked last.
    pub fn changed(&self) -> bool {
        let now = stamps(&self.files);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *seen, now.clone()) != now
    }
}

fn stamps(files: &[PathBuf]) -> Vec<Option<Stamp>> {
    let stamp = |file: &PathBuf| {
        let meta = fs::metadata(file).ok()?;
        Some((meta.mtime(), meta.mtime_nsec(), meta.ino(), meta.size()))
    };
    files.iter().map(stamp).collect()
}
