//! Choose a congestion controller, by its kernel name, for a socket or for a network namespace. For a process tree there
//! is [`crate::preload`].

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::error::{Context, Error};

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// For one socket, TCP or MPTCP; before it connects, to have it from the first packet on.
pub fn for_socket(socket: BorrowedFd<'_>, kernel_name: &str) -> Result<(), Error> {
    // An MPTCP socket that has no subflow yet takes any name, and falls back silently later: ask a TCP socket first.
    let probe = tcp_socket().context("socket")?;
    set(probe.as_fd(), kernel_name).and_then(|()| set(socket, kernel_name)).map_err(|error| {
        let why = match error.raw_os_error() {
            Some(libc::ENOENT) => "it is not registered (any more)".to_owned(),
            Some(libc::EPERM) => "only root may choose it; sysctl net.ipv4.tcp_allowed_congestion_control lists the others".to_owned(),
            _ => error.to_string(),
        };
        Error::Failed(format!("cannot use the congestion controller {kernel_name}: {why}"))
    })
}

/// For every socket that is opened in a network namespace from now on (`/proc/PID/ns/net`, `/run/netns/NAME`). The
/// kernel's own but for reno may refuse: they are not for every namespace (`TCP_CONG_NON_RESTRICTED`).
pub fn for_namespace(namespace: BorrowedFd<'_>, kernel_name: &str) -> Result<(), Error> {
    inside(namespace, || {
        fs::write(DEFAULT, kernel_name).context(format!(
            "cannot make {kernel_name} the default of a network namespace"
        ))?;
        let now = fs::read_to_string(DEFAULT).context(DEFAULT)?;
        if now.trim() == kernel_name {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "the network namespace stayed with {} in place of {kernel_name}",
            now.trim()
        )))
    })?
}

/// The number by which BPF knows a network namespace (`SO_NETNS_COOKIE`).
pub fn namespace_cookie(namespace: BorrowedFd<'_>) -> Result<u64, Error> {
    inside(namespace, own_cookie)?
}

/// The same of the calling thread's namespace, for which it needs no privilege.
pub fn own_cookie() -> Result<u64, Error> {
    const SO_NETNS_COOKIE: i32 = 71; // include/uapi/asm-generic/socket.h
    let socket = tcp_socket().context("socket")?;
    let (mut cookie, mut size) = (0u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: eight bytes for a 64-bit option.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut size,
        )
    };
    match failed {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()).context("SO_NETNS_COOKIE"),
    }
}

/// Runs `action` on a thread of its own in that network namespace; this thread stays where it is.
pub fn inside<T: Send>(
    namespace: BorrowedFd<'_>,
    action: impl FnOnce() -> T + Send,
) -> Result<T, Error> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the descriptor is open; setns changes this thread alone.
            match unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) } {
                0 => Ok(action()),
                _ => Err(io::Error::last_os_error()).context("cannot enter the network namespace"),
            }
        });
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Whether the kernel has it, perhaps in a module that this makes it load.
pub(crate) fn loads(kernel_name: &str) -> bool {
    tcp_socket()
        .and_then(|socket| set(socket.as_fd(), kernel_name))
        .is_ok()
}

fn tcp_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call.
    match unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: just opened, owned by nobody else.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

fn set(socket: BorrowedFd<'_>, kernel_name: &str) -> io::Result<()> {
    // SAFETY: pointer and length of the name.
    let failed = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            kernel_name.as_ptr().cast(),
            kernel_name.len() as libc::socklen_t,
        )
    };
    match failed {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
