//! Whose turn it is: a ring buffer has one reader, so one agent at a time steers a controller.
//!
//! The agents of single runs take it as it comes. One that a user starts for all of them goes first: they make way for
//! it, and go on when it has gone, whatever way it went, for the locks go with the process.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::error::{Context, Error};
use crate::state::{try_flock, try_flock_shared, unflock};

pub(super) struct Turn {
    /// Locked by who reads.
    reader: File,
    /// Locked by who goes first.
    first: File,
    is_first: bool,
}

impl Turn {
    pub fn open(folder: &Path, is_first: bool) -> Result<Turn, Error> {
        let open = |name: &str| {
            let path = folder.join(name);
            let mut options = OpenOptions::new();
            let options = options.create(true).truncate(false).write(true);
            options.open(&path).context(path.display())
        };
        Ok(Turn {
            reader: open("agent")?,
            first: open("agent-first")?,
            is_first,
        })
    }

    /// Whether it is ours now. To be asked again and again.
    pub fn take(&mut self) -> bool {
        let may = match self.is_first {
            true => try_flock(&self.first).is_ok(),
            false => !self.is_wanted(),
        };
        may && try_flock(&self.reader).is_ok()
    }

    /// Whether one that goes first is there.
    pub fn is_wanted(&self) -> bool {
        if self.is_first {
            return false;
        }
        let wanted = try_flock_shared(&self.first).is_err();
        unflock(&self.first);
        wanted
    }

    /// Ends ours, but not the claim to go first.
    pub fn pass(&mut self) {
        unflock(&self.reader);
    }
}
