//! The path that connections of unmodified programs start on; further subflows are the kernel's path manager's.
//!
//! [`Attachment`] attaches to a cgroup (see [`crate::cgroup`]) a program that binds each new TCP or MPTCP connection, just
//! before its SYN, to what [`Choices`] has for its destination: [`crate::preload`] does less of it where BPF is not to
//! be had. [`Connections`] makes of the events what came of each connection.

mod abi;
mod connections;
mod event;

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, MapHandle, Object, RingBufferBuilder};
use zerocopy::{FromBytes, IntoBytes};

use crate::error::{Context, Error};
use crate::{check, object};

pub use connections::{Connections, Finished};
pub use event::{Event, EventKind, Start};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/initial_path.o"));
/// How long the end of it may be overlooked.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Addresses that have their first bits in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    pub address: IpAddr,
    pub bits: u8,
}

/// How a connection starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Choice {
    /// Index of the interface; 0: whichever the routes say.
    pub interface: u32,
    /// Source addresses. Connections of a family that has none start as the routing table has it; with none at all, those
    /// of the interface are the kernel's choice.
    pub v4: Option<Ipv4Addr>,
    pub v6: Option<Ipv6Addr>,
    /// After so long it is stale: connections then start as the routing table has it. `None`: never.
    pub valid: Option<Duration>,
    /// Comes back with the connections that were started by it.
    pub tag: u64,
}

/// What is chosen, by destination: the longest prefix counts. May be changed at any time, by any thread.
#[derive(Debug, Clone)]
pub struct Choices(Arc<MapHandle>);

/// Lasts as long as this value; a killed process leaves nothing attached.
pub struct Attachment {
    choices: Choices,
    /// A counter.
    lost: MapHandle,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Attachment {
    /// For all that lives in this cgroup or below it. Events go to `report`, on a thread of their own.
    pub fn attach(
        cgroup: &Path,
        report: impl FnMut(Event) + Send + 'static,
    ) -> Result<Attachment, Error> {
        check::check()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, started) = mpsc::sync_channel(1);
        let thread = {
            let (stop, cgroup) = (stop.clone(), cgroup.to_owned());
            std::thread::Builder::new()
                .name("initial-path".into())
                .spawn(move || {
                    if let Err(error) = serve(&cgroup, report, &stop, &ready) {
                        let _ = ready.send(Err(error));
                    }
                })
                .context("cannot start a thread")?
        };
        let (choices, lost) = match started.recv().expect("the thread reports") {
            Ok(maps) => maps,
            Err(error) => {
                let _ = thread.join();
                return Err(error);
            }
        };
        Ok(Attachment {
            choices,
            lost,
            stop,
            thread: Some(thread),
        })
    }

    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// Events so far that found no room because those before them were not taken in yet. What became of their connections is
    /// not known.
    pub fn events_lost(&self) -> u64 {
        let value = self.lost.lookup(&0u32.to_ne_bytes(), MapFlags::ANY);
        let value = value.ok().flatten();
        value.map_or(0, |v| u64::read_from_bytes(&v).unwrap_or_default())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Choices {
    pub fn set(&self, to: Prefix, choice: &Choice) -> Result<(), Error> {
        let value = choice.raw(now_ns());
        self.0
            .update(to.key().as_bytes(), value.as_bytes(), MapFlags::ANY)
            .context(format!(
                "cannot choose a path to {}/{}",
                to.address, to.bits
            ))
    }

    /// Leaves the prefix to the routing table, also where a shorter one has a choice.
    pub fn exempt(&self, to: Prefix) -> Result<(), Error> {
        self.set(to, &Choice::default())
    }

    pub fn forget(&self, to: Prefix) {
        let _ = self.0.delete(to.key().as_bytes());
    }
}

impl Prefix {
    /// Of every address of both families.
    pub const ALL: Prefix = Prefix {
        address: IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        bits: 0,
    };

    pub fn only(address: IpAddr) -> Prefix {
        let bits = if address.is_ipv4() { 32 } else { 128 };
        Prefix { address, bits }
    }

    fn key(&self) -> abi::Prefix {
        let (length, address) = match self.address {
            IpAddr::V4(v4) => (u32::from(self.bits.min(32)) + 96, v4.to_ipv6_mapped()),
            IpAddr::V6(v6) => (u32::from(self.bits.min(128)), v6),
        };
        abi::Prefix {
            length,
            address: address.octets(),
        }
    }
}

impl Choice {
    fn raw(&self, now_ns: u64) -> abi::Choice {
        let until = |valid: Duration| now_ns.saturating_add(valid.as_nanos() as u64);
        abi::Choice {
            expires_ns: self.valid.map_or(0, until),
            tag: self.tag,
            interface: self.interface,
            has_v4: u32::from(self.v4.is_some()),
            has_v6: u32::from(self.v6.is_some()),
            v4: self.v4.map_or([0; 4], |v4| v4.octets()),
            v6: self.v6.map_or([0; 16], |v6| v6.octets()),
        }
    }
}

/// CLOCK_MONOTONIC, as bpf_ktime_get_ns reads it.
pub(crate) fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid clock and a place for its time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn serve(
    cgroup: &Path,
    mut report: impl FnMut(Event),
    stop: &AtomicBool,
    ready: &mpsc::SyncSender<Result<(Choices, MapHandle), Error>>,
) -> Result<(), Error> {
    let object = load()?;
    let descriptor = File::open(cgroup).context(cgroup.display())?;
    let mut attached = Vec::new();
    for program in object.progs_mut() {
        let link =
            object::quietly(|| program.attach_cgroup(descriptor.as_raw_fd())).map_err(|why| {
                Error::Failed(format!(
                    "cannot choose paths for the cgroup {}: {why}",
                    cgroup.display()
                ))
            })?;
        attached.push(link);
    }
    let map = |name: &str| {
        object
            .maps()
            .find(|map| map.name() == name)
            .expect("initial_path.bpf.c has this map")
    };
    let events = map("mp_events");
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&events, |record| {
            if let Some(event) = Event::parse(record) {
                report(event);
            }
            0
        })
        .context("mp_events")?;
    let ring = builder.build().context("mp_events")?;
    let choices = MapHandle::try_from(&map("mp_choices")).context("mp_choices")?;
    let lost = MapHandle::try_from(&map(".data.dropped")).context("mp_events_dropped")?;
    let _ = ready.send(Ok((Choices(Arc::new(choices)), lost)));
    loop {
        let last = stop.load(Ordering::Relaxed);
        match ring.poll(if last { Duration::ZERO } else { POLL_INTERVAL }) {
            // A signal came in between.
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(error).context("mp_events")
            }
            _ => {}
        }
        if last {
            return Ok(());
        }
    }
}

fn load() -> Result<Object, Error> {
    let open = object::open(OBJECT)?;
    object::quietly(|| open.load()).map_err(|why| {
        Error::Failed(format!(
            "the kernel refused the program that chooses paths: {why}"
        ))
    })
}
