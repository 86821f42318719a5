//! MPTCP for programs that ask for TCP, statically linked ones too: a BPF program on the kernel's
//! `update_socket_protocol` (`controllers/bpf/mptcpify.bpf.c`). [`crate::preload`] does it for one process tree where the
//! kernel lets no such program be loaded.

use std::fs::{self, File};
use std::mem::offset_of;
use std::os::fd::AsRawFd;
use std::path::Path;

use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramInput};

use crate::error::{Context, Error};
use crate::{check, choose, object};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/mptcpify.o"));
const FUNCTION: &str = "update_socket_protocol";

/// struct mp_scope
#[repr(C)]
struct Scope {
    netns_cookie: u64,
    by_cgroup: u64,
    exempt: [u8; 16],
}

/// Lasts as long as this value; a killed process leaves nothing attached. Sockets that exist keep their protocol.
#[derive(Debug)]
pub struct Mptcpify {
    _link: Link,
}

impl Mptcpify {
    /// For programs in the calling thread's network namespace, and of those only for the ones in this cgroup (v2) or
    /// below it, where one is given. Processes with the calling process's name keep TCP: what multipilot itself opens, it
    /// opens as it wants it.
    pub fn attach(cgroup: Option<&Path>) -> Result<Mptcpify, Error> {
        check::tracing()?;
        let scope = scope(cgroup.is_some())?;
        let object = load(&scope)?;
        if let Some(path) = cgroup {
            let group = File::open(path).context(path.display())?;
            let descriptor = group.as_raw_fd().to_ne_bytes();
            map(&object, "mp_cgroup")
                .update(&0u32.to_ne_bytes(), &descriptor, MapFlags::ANY)
                .context(format!("{} is no cgroup (v2)", path.display()))?;
        }
        let program = |name: &str| {
            object
                .progs_mut()
                .find(|program| program.name() == name)
                .expect("mptcpify.bpf.c has this program")
        };
        let found = program("mp_find_pernet")
            .test_run(ProgramInput::default())
            .context("cannot look for net.mptcp.enabled in the kernel")?;
        if found.return_value == 0 {
            return Err(Error::Failed(
                "this kernel keeps net.mptcp.enabled where multipilot does not find it".into(),
            ));
        }
        let link = object::quietly(|| program("mp_mptcpify").attach()).map_err(refused)?;
        Ok(Mptcpify { _link: link })
    }
}

fn scope(by_cgroup: bool) -> Result<Scope, Error> {
    const NAME: &str = "/proc/self/comm";
    let name = fs::read(NAME).context(NAME)?;
    let mut exempt = [0; 16];
    let letters = name.iter().take(15).take_while(|&&letter| letter != b'\n');
    exempt
        .iter_mut()
        .zip(letters)
        .for_each(|(to, letter)| *to = *letter);
    Ok(Scope {
        netns_cookie: choose::own_cookie()?,
        by_cgroup: u64::from(by_cgroup),
        exempt,
    })
}

fn load(scope: &Scope) -> Result<Object, Error> {
    let mut open = object::open(OBJECT)?;
    let mut settings = open
        .maps_mut()
        .find(|map| map.name() == ".rodata.scope")
        .expect("mptcpify.bpf.c has this map");
    let value = settings.initial_value_mut().expect("the scope has a value");
    let mut write = |offset: usize, bytes: &[u8]| {
        value[offset..offset + bytes.len()].copy_from_slice(bytes);
    };
    write(
        offset_of!(Scope, netns_cookie),
        &scope.netns_cookie.to_ne_bytes(),
    );
    write(offset_of!(Scope, by_cgroup), &scope.by_cgroup.to_ne_bytes());
    write(offset_of!(Scope, exempt), &scope.exempt);
    object::quietly(|| open.load()).map_err(refused)
}

fn map<'a>(object: &'a Object, name: &str) -> libbpf_rs::Map<'a> {
    object
        .maps()
        .find(|map| map.name() == name)
        .expect("mptcpify.bpf.c has this map")
}

/// The kernel's own answer alone would name neither the version that it takes nor the function.
fn refused(detail: String) -> Error {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    // libbpf names the function where it does not find it.
    let what = match detail.contains(FUNCTION) {
        true => format!("kernel {release} has no {FUNCTION}: Linux 6.6 and later have it"),
        false => format!("kernel {release} refuses a BPF program on {FUNCTION}"),
    };
    Error::Refused { what, detail }
}

#[cfg(test)]
#[test]
fn the_text_of_libbpf_is_no_part_of_the_reason() {
    let detail = "Invalid argument (os error 22) (libbpf: prog 'mp_mptcpify': BPF program load failed: -EINVAL)";
    let refused = refused(detail.into());
    let said = refused.to_string();
    assert!(
        said.ends_with(" refuses a BPF program on update_socket_protocol"),
        "{said}"
    );
    assert!(matches!(refused, Error::Refused { detail: kept, .. } if kept == detail));
}

#[cfg(test)]
#[test]
fn structs_match_the_layout_in_c() {
    use crate::layout::{assert_matches, layout_of};
    assert_matches(
        &["mptcpify.bpf.c"],
        &[(
            "mp_scope",
            layout_of!(Scope: netns_cookie, by_cgroup, exempt),
        )],
    );
}
