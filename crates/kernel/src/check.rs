//! What this machine can do, and what to do where it cannot.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::Path;

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Support {
    /// As `uname -r` has it.
    pub kernel: String,
}

/// What is missing for MPTCP with controllers of ours, each with how to fix it; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing(pub Vec<Lack>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    pub what: &'static str,
    pub remedy: &'static str,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.what, self.remedy)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, lack) in self.0.iter().enumerate() {
            let separator = if index == 0 {
                "this machine lacks "
            } else {
                "; and "
            };
            write!(f, "{separator}{lack}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Missing {}

pub(crate) const ROOT: Lack = Lack {
    what: "root for this user",
    remedy: "run it with sudo, or grant CAP_SYS_ADMIN, CAP_NET_ADMIN, CAP_BPF and CAP_PERFMON",
};
const NO_MPTCP: Lack = Lack {
    what: "a kernel with MPTCP",
    remedy:
        "boot one with CONFIG_MPTCP, as Debian 12, Ubuntu 22.04 and Fedora 36 and later have it",
};
const MPTCP_OFF: Lack = Lack {
    what: "MPTCP switched on",
    remedy: "sysctl -w net.mptcp.enabled=1",
};
const NO_BTF: Lack = Lack {
    what: "type information of the kernel in /sys/kernel/btf/vmlinux",
    remedy: "boot a kernel with CONFIG_DEBUG_INFO_BTF, as the distributions' own have it",
};
const NO_BPFFS: Lack = Lack {
    what: "the bpf file system",
    remedy: "boot a kernel with CONFIG_BPF_SYSCALL and CONFIG_BPF_JIT",
};

/// Whether MPTCP controllers can be loaded and chosen here. Changes nothing.
pub fn check() -> Result<Support, Missing> {
    with(CAP_NET_ADMIN | CAP_SYS_ADMIN | CAP_PERFMON | CAP_BPF)?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Ok(Support {
        kernel: kernel.trim().to_owned(),
    })
}

/// Whether a BPF program may trace the kernel here, and there is MPTCP.
pub(crate) fn tracing() -> Result<(), Missing> {
    with(CAP_PERFMON | CAP_BPF)
}

fn with(capabilities: u64) -> Result<(), Missing> {
    let mut lacks: Vec<Lack> = mptcp().err().into_iter().collect();
    if !effective(capabilities) {
        lacks.push(ROOT);
    }
    lacks.extend(of_kernel());
    match lacks.is_empty() {
        true => Ok(()),
        false => Err(Missing(lacks)),
    }
}

/// What controllers need of the kernel, whoever asks.
pub(crate) fn of_kernel() -> Vec<Lack> {
    let mut lacks = Vec::new();
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        lacks.push(NO_BTF);
    }
    let file_systems = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    if !file_systems
        .lines()
        .any(|line| line.split_whitespace().last() == Some("bpf"))
    {
        lacks.push(NO_BPFFS);
    }
    lacks
}

/// Whether a program can have MPTCP sockets here; needs no privilege.
pub fn mptcp() -> Result<(), Lack> {
    // SAFETY: plain system call; the descriptor is ours.
    let fd = unsafe {
        libc::socket(
            libc::AF_INET,
            libc::SOCK_STREAM | libc::SOCK_CLOEXEC,
            libc::IPPROTO_MPTCP,
        )
    };
    if fd >= 0 {
        // SAFETY: just opened.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
        return Ok(());
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::ENOPROTOOPT) => Err(MPTCP_OFF),
        _ => Err(NO_MPTCP),
    }
}

/// Bits of include/uapi/linux/capability.h.
const CAP_NET_ADMIN: u64 = 1 << 12;
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_PERFMON: u64 = 1 << 38;
const CAP_BPF: u64 = 1 << 39;

/// Whether this process may manage paths.
pub fn net_admin() -> bool {
    effective(CAP_NET_ADMIN)
}

/// All of them that this kernel has: before Linux 5.8 CAP_SYS_ADMIN stands for the last two.
fn effective(needed: u64) -> bool {
    let last = fs::read_to_string("/proc/sys/kernel/cap_last_cap")
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok())
        .unwrap_or(63);
    let needed = needed & (u64::MAX >> (63 - last.min(63)));
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| {
            let line = status
                .lines()
                .find_map(|line| line.strip_prefix("CapEff:"))?
                .to_owned();
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .is_some_and(|effective| effective & needed == needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_is_one_line_that_says_how_to_mend_it() {
        let message = Missing(vec![MPTCP_OFF, ROOT]).to_string();
        assert!(message.starts_with(
            "this machine lacks MPTCP switched on (sysctl -w net.mptcp.enabled=1); and root"
        ));
        assert!(!message.contains('\n'));
    }
}
