//! File systems of the kernel's that we need, mounted where the system has not done so.

use std::ffi::CString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error};
use crate::state;

/// Always the same place, else two processes would not see each other's pins.
pub(crate) fn bpffs() -> Result<PathBuf, Error> {
    let place = PathBuf::from("/sys/fs/bpf");
    let _alone = state::lock_mounts()?;
    if !mounted("bpf")?.contains(&place) {
        mount("bpf", &place)?;
    }
    Ok(place)
}

/// The root of the cgroup v2 hierarchy, wherever the system has it.
pub(crate) fn cgroup2() -> Result<PathBuf, Error> {
    let _alone = state::lock_mounts()?;
    if let Some(place) = mounted("cgroup2")?.into_iter().next() {
        return Ok(place);
    }
    let place = Path::new(state::DIR).join("cgroup");
    mount("cgroup2", &place)?;
    Ok(place)
}

fn mounted(kind: &str) -> Result<Vec<PathBuf>, Error> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("/proc/self/mounts")?;
    let places = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (_, place, found) = (fields.next()?, fields.next()?, fields.next()?);
        (found == kind).then(|| PathBuf::from(place))
    });
    Ok(places.collect())
}

fn mount(kind: &str, place: &Path) -> Result<(), Error> {
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
    Ok(())
}
