//! Listeners that take the connections of one source address, whatever their destination: what TPROXY does by netfilter, by
//! BPF (`controllers/bpf/transparent.bpf.c`). SYNs come over a TUN; later packets need not.

use std::fs::File;
use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::error::{Context, Error};
use crate::{cgroup, choose, object};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/transparent.o"));

/// A listening socket (IP_TRANSPARENT, IPV6_TRANSPARENT) and the address whose connections it takes.
#[derive(Debug, Clone, Copy)]
pub struct Listener<'a> {
    pub socket: BorrowedFd<'a>,
    pub clients: IpAddr,
}

/// struct mp_clients
#[repr(C)]
struct Clients {
    netns_cookie: u64,
    interface: u32,
    mark: u32,
    v4: u32,
    v6: [u32; 4],
    unused: u32,
}

/// Lasts as long as this value; a killed process leaves nothing attached.
#[derive(Debug)]
pub struct Transparent {
    _links: Vec<Link>,
}

impl Transparent {
    /// In the calling thread's network namespace; at most one listener of each family. Packets that come in over this
    /// interface, a TUN, are the listeners'. Sockets of programs get the mark once they are connected.
    pub fn attach(listeners: &[Listener], interface: u32, mark: u32) -> Result<Transparent, Error> {
        let object = load(listeners, interface, mark)?;
        let map = object
            .maps()
            .find(|map| map.name() == "mp_listeners")
            .expect("transparent.bpf.c has this map");
        for listener in listeners {
            let key = u32::from(listener.clients.is_ipv6());
            let socket = listener.socket.as_raw_fd() as u64;
            map.update(&key.to_ne_bytes(), &socket.to_ne_bytes(), MapFlags::ANY)
                .context("a listener for every destination")?;
        }
        const HERE: &str = "/proc/thread-self/ns/net";
        let here = File::open(HERE).context(HERE)?;
        let root = cgroup::root()?;
        let everybody = File::open(&root).context(root.display())?;
        let mut links = Vec::new();
        for program in object.progs_mut() {
            let attached = object::quietly(|| match program.name().to_str() {
                Some("mp_accept") => program.attach_netns(here.as_raw_fd()),
                _ => program.attach_cgroup(everybody.as_raw_fd()),
            });
            links.push(attached.map_err(refused)?);
        }
        Ok(Transparent { _links: links })
    }
}

fn load(listeners: &[Listener], interface: u32, mark: u32) -> Result<Object, Error> {
    let mut open = object::open(OBJECT)?;
    let mut settings = open
        .maps_mut()
        .find(|map| map.name() == ".rodata.clients")
        .expect("transparent.bpf.c has this map");
    let value = settings
        .initial_value_mut()
        .expect("the clients have a value");
    let mut write = |offset: usize, bytes: &[u8]| {
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    write(
        offset_of!(Clients, netns_cookie),
        &choose::own_cookie()?.to_ne_bytes(),
    );
    write(offset_of!(Clients, interface), &interface.to_ne_bytes());
    write(offset_of!(Clients, mark), &mark.to_ne_bytes());
    for listener in listeners {
        match listener.clients {
            IpAddr::V4(v4) => write(offset_of!(Clients, v4), &v4.octets()),
            IpAddr::V6(v6) => write(offset_of!(Clients, v6), &v6.octets()),
        }
    }
    object::quietly(|| open.load()).map_err(refused)
}

fn refused(why: String) -> Error {
    Error::Failed(format!(
        "the kernel refuses a BPF program that assigns connections to listeners: {why}"
    ))
}

#[cfg(test)]
#[test]
fn structs_match_the_layout_in_c() {
    use crate::layout::{assert_matches, layout_of};
    assert_matches(
        &["transparent.bpf.c"],
        &[(
            "mp_clients",
            layout_of!(Clients: netns_cookie, interface, mark, v4, v6, unused),
        )],
    );
}
