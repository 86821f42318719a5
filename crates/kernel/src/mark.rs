//! A mark (SO_MARK) on every socket that the programs of a cgroup open, for routing rules (`controllers/bpf/mark.bpf.c`).

use std::fs::File;
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::path::Path;

use libbpf_rs::Link;

use crate::error::{Context, Error};
use crate::{choose, object};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mark.o"));

/// struct mp_marking
#[repr(C)]
struct Marking {
    netns_cookie: u64,
    mark: u32,
    unused: u32,
}

/// Lasts as long as this value; a killed process leaves nothing attached. Sockets keep the mark.
#[derive(Debug)]
pub struct Marked {
    _link: Link,
}

impl Marked {
    /// Sockets in the calling thread's network namespace that programs of this cgroup (v2), or of one below it, open from now
    /// on.
    pub fn attach(cgroup: &Path, mark: u32) -> Result<Marked, Error> {
        let group = File::open(cgroup).context(cgroup.display())?;
        let mut open = object::open(OBJECT)?;
        let mut settings = open
            .maps_mut()
            .find(|map| map.name() == ".rodata.marking")
            .expect("mark.bpf.c has this map");
        let value = settings.initial_value_mut().expect("it has a value");
        let cookie = choose::own_cookie()?.to_ne_bytes();
        value[offset_of!(Marking, netns_cookie)..][..8].copy_from_slice(&cookie);
        value[offset_of!(Marking, mark)..][..4].copy_from_slice(&mark.to_ne_bytes());
        let refused = |why| {
            let place = cgroup.display();
            Error::Failed(format!(
                "the kernel refuses a BPF program that marks sockets of {place}: {why}"
            ))
        };
        let object = object::quietly(|| open.load()).map_err(refused)?;
        let program = object.progs_mut().next().expect("mark.bpf.c has a program");
        let attached = object::quietly(|| program.attach_cgroup(group.as_raw_fd()));
        Ok(Marked {
            _link: attached.map_err(refused)?,
        })
    }
}

#[cfg(test)]
#[test]
fn structs_match_the_layout_in_c() {
    use crate::layout::{assert_matches, layout_of};
    assert_matches(
        &["mark.bpf.c"],
        &[(
            "mp_marking",
            layout_of!(Marking: netns_cookie, mark, unused),
        )],
    );
}
