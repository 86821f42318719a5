//! Samples of every subflow, whatever its congestion controller, from a BPF program on the root cgroup.
//!
//! The kernel offers a sample once a round trip, so an interval below the RTT gives one a round trip; besides on every
//! retransmission timeout, and when the socket closes. Only sockets established after [`Telemetry::start`] are seen.

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::{MapCore, MapFlags, Object, RingBufferBuilder};

use crate::error::{Context, Error};
use crate::{bytes, check, mounts, object};

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/telemetry.o"));

/// How often samples are fetched; the kernel side wakes nobody.
const FETCH: Duration = Duration::from_millis(20);

/// One subflow at one time, seen from this end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// CLOCK_MONOTONIC, ns
    pub time_ns: u64,
    /// See [`crate::choose::namespace_cookie`].
    pub netns_cookie: u64,
    /// Of the MPTCP connection, unique within its namespace; 0 for plain TCP.
    pub token: u32,
    pub local: (IpAddr, u16),
    pub remote: (IpAddr, u16),
    /// packets
    pub cwnd: u32,
    /// packets
    pub ssthresh: u32,
    pub srtt_us: u32,
    /// Windowed by the kernel: minimum of the last 300 s.
    pub min_rtt_us: u32,
    /// Payload bytes acknowledged so far.
    pub delivered_bytes: u64,
    /// Packets marked lost so far.
    pub lost: u32,
    /// bytes/s; u32::MAX and above mean unlimited.
    pub pacing_rate: u64,
    /// Either end asked that it carry nothing while another subflow can.
    pub backup: bool,
    /// The last sample of this subflow.
    pub closed: bool,
}

/// Runs until dropped; a killed process leaves nothing attached.
pub struct Telemetry {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    samples: Vec<Sample>,
    dropped: u64,
}

impl Telemetry {
    /// Watches the sockets of these network namespaces (by cookie), or of all where none is named.
    pub fn start(namespaces: &[u64], interval: Duration) -> Result<Telemetry, Error> {
        Telemetry::with_buffer(namespaces, interval, 1 << 20)
    }

    /// With room for so many bytes (a power of two, at least a page) of samples of 96 bytes that are not yet fetched.
    pub fn with_buffer(
        namespaces: &[u64],
        interval: Duration,
        buffer: u32,
    ) -> Result<Telemetry, Error> {
        check::check()?;
        let (stop, shared) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(Shared::default())),
        );
        let (ready, started) = mpsc::sync_channel(1);
        let thread = {
            let (stop, shared, namespaces) = (stop.clone(), shared.clone(), namespaces.to_vec());
            std::thread::Builder::new()
                .name("telemetry".into())
                .spawn(move || {
                    if let Err(error) = watch(&namespaces, interval, buffer, &stop, &shared, &ready)
                    {
                        let _ = ready.send(Err(error));
                    }
                })
                .context("cannot start a thread")?
        };
        let telemetry = Telemetry {
            stop,
            thread: Some(thread),
            shared,
        };
        started.recv().expect("the thread reports")?;
        Ok(telemetry)
    }

    /// Takes the samples that came in since the last call.
    pub fn take(&self) -> Vec<Sample> {
        std::mem::take(&mut self.shared.lock().unwrap().samples)
    }

    /// Samples lost so far because this process did not keep up.
    pub fn dropped(&self) -> u64 {
        self.shared.lock().unwrap().dropped
    }

    /// Ends it; hands over the remaining samples, and how many were lost in all.
    pub fn stop(mut self) -> (Vec<Sample>, u64) {
        self.end();
        (self.take(), self.dropped())
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        self.end();
    }
}

fn watch(
    namespaces: &[u64],
    interval: Duration,
    buffer: u32,
    stop: &AtomicBool,
    shared: &Mutex<Shared>,
    ready: &mpsc::SyncSender<Result<(), Error>>,
) -> Result<(), Error> {
    let object = load(namespaces, interval, buffer)?;
    let root = mounts::cgroup2()?;
    let cgroup = File::open(&root).context(root.display())?;
    let program = object
        .progs_mut()
        .find(|program| program.name() == "mp_watch")
        .expect("telemetry.bpf.c has mp_watch");
    let _attached =
        object::quietly(|| program.attach_cgroup(cgroup.as_raw_fd())).map_err(|why| {
            Error::Failed(format!(
                "cannot watch the sockets of {}: {why}",
                root.display()
            ))
        })?;
    let map = |name: &str| {
        object
            .maps()
            .find(|map| map.name() == name)
            .expect("telemetry.bpf.c has this map")
    };
    let (samples, dropped) = (map("mp_samples"), map(".data.dropped"));
    let mut builder = RingBufferBuilder::new();
    builder
        .add(&samples, |record| {
            shared.lock().unwrap().samples.extend(Sample::parse(record));
            0
        })
        .context("mp_samples")?;
    let ring = builder.build().context("mp_samples")?;
    let _ = ready.send(Ok(()));
    loop {
        let last = stop.load(Ordering::Relaxed);
        ring.consume().context("mp_samples")?;
        if let Ok(Some(value)) = dropped.lookup(&0u32.to_ne_bytes(), MapFlags::ANY) {
            shared.lock().unwrap().dropped = bytes::u64_at(&value, 0);
        }
        if last {
            return Ok(());
        }
        std::thread::sleep(FETCH);
    }
}

fn load(namespaces: &[u64], interval: Duration, buffer: u32) -> Result<Object, Error> {
    let mut open = object::open(OBJECT)?;
    let mut settings = open
        .maps_mut()
        .find(|map| map.name() == ".rodata.telemetry")
        .expect("telemetry.bpf.c has settings");
    let value = settings
        .initial_value_mut()
        .expect("the settings have a value");
    value[..8].copy_from_slice(&(interval.as_nanos() as u64).to_ne_bytes());
    value[8..16].copy_from_slice(&u64::from(namespaces.is_empty()).to_ne_bytes());
    let mut samples = open
        .maps_mut()
        .find(|map| map.name() == "mp_samples")
        .expect("telemetry.bpf.c has this map");
    samples.set_max_entries(buffer).context("mp_samples")?;
    let object = object::quietly(|| open.load())
        .map_err(|why| Error::Failed(format!("the kernel refused the telemetry program: {why}")))?;
    let watched = object
        .maps()
        .find(|map| map.name() == "mp_namespaces")
        .expect("telemetry.bpf.c has this map");
    for cookie in namespaces {
        watched
            .update(&cookie.to_ne_bytes(), &1u64.to_ne_bytes(), MapFlags::ANY)
            .context("mp_namespaces")?;
    }
    Ok(object)
}

impl Sample {
    /// struct mp_sample, controllers/bpf/telemetry.bpf.c
    fn parse(record: &[u8]) -> Option<Sample> {
        if record.len() != 96 {
            return None;
        }
        let u64_at = |at| bytes::u64_at(record, at);
        let u32_at = |at| bytes::u32_at(record, at);
        let u16_at = |at| bytes::u16_at(record, at);
        let address = |at| bytes::address_at(record, at, u16_at(56).into());
        Some(Sample {
            time_ns: u64_at(0),
            netns_cookie: u64_at(8),
            delivered_bytes: u64_at(16),
            pacing_rate: u64_at(24),
            token: u32_at(32),
            cwnd: u32_at(36),
            ssthresh: u32_at(40),
            srtt_us: u32_at(44),
            min_rtt_us: u32_at(48),
            lost: u32_at(52),
            local: (address(64), u16_at(58)),
            remote: (address(80), u16_at(60)),
            backup: record[62] != 0,
            closed: record[63] != 0,
        })
    }
}
