//! MPTCP, and a congestion controller, for a whole process tree of unmodified programs: by `LD_PRELOAD`.
//!
//! What it cannot help: statically linked programs (they never ask libc for a socket) and set-user-ID ones (the dynamic
//! linker ignores the variable for them).

use std::env;
use std::ffi::{CString, OsString};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::error::{Context, Error};
use crate::state;

/// Names a file: the shim leaves sockets as they are where that does not exist.
pub const WHILE: &str = "MULTIPILOT_WHILE";

const SHIM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// Makes `command` and all it starts use MPTCP, and the controller where one is named.
pub fn apply(command: &mut Command, controller: Option<&str>) -> Result<(), Error> {
    let mut list = OsString::from(install()?);
    if let Some(earlier) = env::var_os("LD_PRELOAD").filter(|earlier| !earlier.is_empty()) {
        list.push(":");
        list.push(earlier);
    }
    command.env("LD_PRELOAD", list);
    // A session's: this command gets it whether a daemon is at work or not.
    command.env_remove(WHILE);
    match controller {
        Some(name) => command.env("MULTIPILOT_CONTROLLER", name),
        None => command.env_remove("MULTIPILOT_CONTROLLER"),
    };
    Ok(())
}

/// Has connections of `command` and all it starts begin at these addresses, one a family. [`crate::initial_path`] does it better
/// where BPF is to be had: this needs routing rules by source address, and reaches no statically linked program.
pub fn start_from(command: &mut Command, addresses: &[IpAddr]) {
    let list: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    command.env("MULTIPILOT_FROM", list.join(","));
}

/// Leads the TCP connections of `command` and all it starts, but those to this host, to a port of this host, where they
/// say what they want (crates/relay, `front`). Their sockets stay TCP.
pub fn relay(command: &mut Command, port: u16, token: &[u8; 16]) {
    let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    command.env("MULTIPILOT_RELAY", format!("{port},{token}"));
    command.env("MULTIPILOT_TCP", "1");
}

/// Whether the shim reaches this program: `false` for a statically linked ELF file.
pub fn reaches(program: &Path) -> bool {
    const PT_INTERP: u32 = 3;
    let Ok(bytes) = fs::read(program) else {
        return true;
    };
    if bytes.len() < 64 || bytes[..5] != *b"\x7fELF\x02" {
        return true; // a script: its interpreter decides
    }
    let word = |at: usize, size: usize| {
        bytes.get(at..at + size).map_or(0, |raw| {
            raw.iter()
                .rev()
                .fold(0u64, |value, byte| value << 8 | u64::from(*byte))
        })
    };
    let (table, size, count) = (
        word(32, 8) as usize,
        word(54, 2) as usize,
        word(56, 2) as usize,
    );
    (0..count).any(|index| word(table.saturating_add(index * size), 4) as u32 == PT_INTERP)
}

/// The library as a file, for any program to preload. It stays for the processes that outlive us.
///
/// # Errors
/// If none of the folders for it can be written to, or programs may be run from none of them.
pub fn install() -> Result<PathBuf, Error> {
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let set = |name| env::var_os(name).map(PathBuf::from);
    let folders = match user {
        // Debian mounts /run without permission to execute.
        0 => vec![
            PathBuf::from(state::DIR),
            PathBuf::from("/var/lib/multipilot"),
        ],
        _ => [
            set("XDG_RUNTIME_DIR").map(|folder| folder.join("multipilot")),
            Some(env::temp_dir().join(format!("multipilot-{user}"))),
            set("HOME").map(|folder| folder.join(".cache/multipilot")),
        ]
        .into_iter()
        .flatten()
        .collect(),
    };
    let mut refused = None;
    for folder in folders {
        match put(&folder, user) {
            Ok(path) => return Ok(path),
            Err(e) => refused = refused.or(Some(e)),
        }
    }
    Err(refused.expect("everybody has a folder"))
}

fn put(folder: &Path, user: u32) -> Result<PathBuf, Error> {
    // Root's is for every user that root's children turn into.
    let mode = if user == 0 { 0o755 } else { 0o700 };
    fs::DirBuilder::new()
        .recursive(true)
        .mode(mode)
        .create(folder)
        .context(folder.display())?;
    if fs::metadata(folder).context(folder.display())?.uid() != user {
        return Err(Error::Failed(format!(
            "{} belongs to somebody else: remove it",
            folder.display()
        )));
    }
    if may_not_execute(folder).context(folder.display())? {
        return Err(Error::Failed(format!(
            "{}: no program may be run from there (mounted with noexec)",
            folder.display()
        )));
    }
    let hash = Sha256::digest(SHIM);
    let path = folder.join(format!(
        "preload-{:02x}{:02x}{:02x}{:02x}.so",
        hash[0], hash[1], hash[2], hash[3]
    ));
    if fs::read(&path).is_ok_and(|there| there == SHIM) {
        return Ok(path);
    }
    mp_files::replace(&path, SHIM).context(path.display())?;
    Ok(path)
}

/// The dynamic linker could not map a library from there.
fn may_not_execute(folder: &Path) -> io::Result<bool> {
    let name = CString::new(folder.as_os_str().as_bytes())?;
    // SAFETY: plain numbers.
    let mut system: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: both outlive the call.
    match unsafe { libc::statvfs(name.as_ptr(), &mut system) } {
        0 => Ok(system.f_flag & libc::ST_NOEXEC != 0),
        _ => Err(io::Error::last_os_error()),
    }
}
