//! The log of a process that `up` starts.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use mp_daemon::Error;

pub struct Log {
    path: PathBuf,
    file: File,
    /// Bytes of processes before this one.
    before: u64,
}

impl Log {
    pub fn open(path: &Path) -> Result<Log, Error> {
        let refused = |e: io::Error| mp_daemon::log::refused(path, &e);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(refused)?;
        }
        let file = File::options().create(true).append(true).open(path);
        let file = file.map_err(refused)?;
        let before = file.metadata().map_err(refused)?.len();
        Ok(Log {
            path: path.to_owned(),
            file,
            before,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// What the process said last, without the command's name.
    pub fn last_line(&self) -> String {
        let all = fs::read(&self.path).unwrap_or_default();
        let before = usize::try_from(self.before).unwrap_or(0);
        // Shorter: it has begun a new file.
        let own = String::from_utf8_lossy(all.get(before..).unwrap_or(&all));
        let last = own
            .lines()
            .last()
            .unwrap_or("the process ended without a word");
        last.trim_start_matches("multipilot: ").to_owned()
    }
}
