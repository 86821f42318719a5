//! A TUN device (Documentation/networking/tuntap.rst): an interface whose packets a process reads and writes. It is not
//! persistent, so the kernel removes it with its addresses and routes when the process ends, however it ends.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use libc::{IFF_NO_PI, IFF_TUN, IFF_TUN_EXCL, IFF_VNET_HDR};

use crate::check::{Lack, Missing};
use crate::error::{Context, Error};

const FILE: &str = "/dev/net/tun";
/// `struct virtio_net_hdr` precedes each packet: checksums may be partial, and one TCP packet may be up to 64 KiB long.
pub const HEADER: usize = 10;
/// Of its first byte: the checksum field covers the pseudo-header alone.
pub const PARTIAL_CHECKSUM: u8 = 1;

/// Whether this process could make one.
pub fn check() -> Result<(), Missing> {
    device().map(drop)
}

fn lacks(what: &'static str, remedy: &'static str) -> Missing {
    Missing(vec![Lack { what, remedy }])
}

fn device() -> Result<File, Missing> {
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(FILE);
    opened.map_err(|e| match e.kind() {
        io::ErrorKind::PermissionDenied => lacks("the right to open /dev/net/tun", "run as root"),
        _ => lacks("/dev/net/tun", "modprobe tun, as root"),
    })
}

/// Reads and writes do not wait.
pub fn open(name: &str) -> Result<File, Error> {
    let file = device().map_err(Error::Missing)?;
    if name.len() >= libc::IFNAMSIZ {
        return Err(Error::Usage(format!("{name}: too long for an interface")));
    }
    // SAFETY: all zeros is a valid ifreq, and its name keeps a final zero.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (IFF_TUN | IFF_NO_PI | IFF_VNET_HDR | IFF_TUN_EXCL) as i16;
    let offload = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    let done = |result: libc::c_int| match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: both take this descriptor; the request outlives the first call.
    let set = unsafe {
        done(libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request)).and_then(|()| {
            done(libc::ioctl(
                file.as_raw_fd(),
                libc::TUNSETOFFLOAD,
                libc::c_ulong::from(offload),
            ))
        })
    };
    match set {
        Err(e) if e.raw_os_error() == Some(libc::EBUSY) => Err(Error::Usage(format!(
            "{name}: another process has this interface; multipilot down ends it"
        ))),
        Err(e) if e.raw_os_error() == Some(libc::EPERM) => Err(Error::Missing(lacks(
            "the right to make interfaces",
            "run as root (CAP_NET_ADMIN)",
        ))),
        set => set.context(name).map(|()| file),
    }
}
