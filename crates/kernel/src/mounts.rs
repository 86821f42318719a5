//! File systems of the kernel's that we need, mounted where the system has not done so.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error};
use crate::state;

/// Where bpffs is mounted.
pub(crate) fn bpffs() -> Result<PathBuf, Error> {
    find_or_mount("bpf", Path::new("/sys/fs/bpf"))
}

/// The root of the cgroup v2 hierarchy.
pub(crate) fn cgroup2() -> Result<PathBuf, Error> {
    find_or_mount("cgroup2", &Path::new(state::DIR).join("cgroup"))
}

fn find_or_mount(kind: &str, place: &Path) -> Result<PathBuf, Error> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, place, found) = (fields.next()?, fields.next()?, fields.next()?);
        (found == kind).then(|| PathBuf::from(place))
    });
    if let Some(place) = mounted {
        return Ok(place);
    }
    if !place.exists() {
        fs::create_dir_all(place).context(format!("cannot create {}", place.display()))?;
    }
    let (source, target) = (
        CString::new(kind).unwrap(),
        CString::new(place.to_str().unwrap()).unwrap(),
    );
    // SAFETY: three terminated strings, no data.
    let failed = unsafe {
        libc::mount(
            source.as_ptr(),
            target.as_ptr(),
            source.as_ptr(),
            0,
            std::ptr::null(),
        )
    } != 0;
    if failed {
        return Err(io::Error::last_os_error())
            .context(format!("cannot mount {kind} at {}", place.display()));
    }
    Ok(place.to_owned())
}
