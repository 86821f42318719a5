//! A disk that is soon full.

use std::path::Path;
use std::process::Command;

/// A file system of 4 MB, unmounted when dropped.
pub struct Small<'a>(&'a Path);

impl Small<'_> {
    /// `None` where this process may not mount one.
    pub fn mount(folder: &Path) -> Option<Small<'_>> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(folder);
        let done = mount.output().is_ok_and(|o| o.status.success());
        done.then_some(Small(folder))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}
