//! Files that are read again when they change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// One field differs after a rewrite, and after a replacement.
#[derive(Clone, PartialEq)]
struct Stamp {
    modified_s: i64,
    modified_ns: i64,
    inode: u64,
    size: u64,
}

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
        Some(Stamp {
            modified_s: meta.mtime(),
            modified_ns: meta.mtime_nsec(),
            inode: meta.ino(),
            size: meta.size(),
        })
    };
    files.iter().map(stamp).collect()
}
