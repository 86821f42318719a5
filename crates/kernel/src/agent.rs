//! The agent of a learned controller (`controllers/ddpg_mpcc.h`): its network, in user space, answers each monitor
//! interval's record with a rate.
//!
//! Records come by a ring buffer, answers go into memory that the kernel reads. An answer that is late, or none, costs
//! nothing but the network's advice: the controller waits a quarter of a round trip, and after three in vain goes on as
//! plain MPCC. So it is when the agent is killed, overloaded, or its network talks nonsense.

mod log;
mod turn;

use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::{MapHandle, RingBufferBuilder};
use mp_policy::actor::{self, Pilot};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::controller::Controller;
use crate::error::{Context, Error};
use crate::initial_path::now_ns;
pub use log::{Interval, Log, Logged};
use turn::Turn;

/// How long its end, or that of another agent before it, may be overlooked.
const LOOK: Duration = Duration::from_millis(50);
/// MP_ANSWERS, controllers/bpf/settings.h
const ANSWERS: u64 = 65536;
/// Delays that are remembered; enough for the 99th percentile.
const DELAYS: usize = 1 << 16;

/// One monitor interval of one subflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    /// When the controller left it, ns of `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The subflow, for as long as it lives.
    pub owner: u64,
    pub serial: u64,
    /// Rates of the siblings, as the controller knew them, bytes/s.
    pub others: u64,
    /// Of the subflow's socket; without meaning where it is of IPv6.
    pub local: SocketAddrV4,
    pub remote: SocketAddrV4,
    pub seen: actor::Record,
}

/// What steers: a new one for each machine of subflows.
pub trait Mind: Send {
    /// The rate to go to, bytes/s. One that is no number, or further than [`actor::LARGEST_STEP`] from the record's, is no
    /// answer.
    fn answer(&mut self, record: &Record) -> f64;
    /// A subflow has left.
    fn forget(&mut self, _owner: u64) {}
}

/// A network at work, with a memory for each subflow.
pub struct Pilots {
    fresh: Pilot,
    at_work: HashMap<u64, Pilot>,
}

impl Pilots {
    /// `fresh` is one that has seen nothing yet.
    pub fn new(fresh: Pilot) -> Pilots {
        Pilots {
            fresh,
            at_work: HashMap::new(),
        }
    }
}

/// With the network that multipilot ships.
impl Default for Pilots {
    fn default() -> Pilots {
        Pilots::new(Pilot::shipped())
    }
}

impl Mind for Pilots {
    fn answer(&mut self, record: &Record) -> f64 {
        let fresh = || self.fresh.clone();
        let pilot = self.at_work.entry(record.owner).or_insert_with(fresh);
        pilot.answer(&record.seen) as f64
    }

    fn forget(&mut self, owner: u64) {
        self.at_work.remove(&owner);
    }
}

/// What an agent has done so far.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    pub answered: u64,
    /// Answers that were none.
    pub refused: u64,
    /// From the kernel's record to the answer in its memory, µs, of the last answers, ascending.
    pub delays_us: Vec<f64>,
}

#[derive(Default)]
struct Shared {
    steers: AtomicBool,
    answered: AtomicU64,
    refused: AtomicU64,
    delays_us: Mutex<Vec<f32>>,
}

/// Steers a controller's subflows until it is dropped.
pub struct Agent {
    stop: Arc<AtomicBool>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl Agent {
    /// `None` where the controller asks no agent. One agent at a time steers a controller: where another process has one, this
    /// one waits to take over.
    pub fn start(
        controller: &Controller,
        mind: impl Mind + 'static,
    ) -> Result<Option<Agent>, Error> {
        Agent::begin(controller, mind, false)
    }

    /// As [`Agent::start`], but those that were started so wait for this one.
    pub fn start_first(
        controller: &Controller,
        mind: impl Mind + 'static,
    ) -> Result<Option<Agent>, Error> {
        Agent::begin(controller, mind, true)
    }

    fn begin(
        controller: &Controller,
        mind: impl Mind + 'static,
        is_first: bool,
    ) -> Result<Option<Agent>, Error> {
        let Some((pins, holders)) = controller.places()? else {
            return Ok(None);
        };
        if !pins.join("records").exists() {
            return Ok(None);
        }
        let (stop, shared) = (Arc::new(AtomicBool::new(false)), Arc::<Shared>::default());
        let (ready, started) = mpsc::sync_channel(1);
        let turn = Turn::open(&holders, is_first)?;
        let thread = {
            let (stop, shared) = (stop.clone(), shared.clone());
            std::thread::Builder::new()
                .name("agent".into())
                .spawn(move || serve(&pins, turn, mind, &stop, &shared, &ready))
                .context("cannot start a thread")?
        };
        let mut agent = Agent {
            stop,
            shared,
            thread: Some(thread),
        };
        // It says nothing where it could not begin.
        match started.recv() {
            Ok(()) => Ok(Some(agent)),
            Err(_) => agent.end().map(|()| None),
        }
    }

    /// Whether it is its turn.
    pub fn steers(&self) -> bool {
        self.shared.steers.load(Ordering::Relaxed)
    }

    /// Whether it works, or waits for its turn; where not, [`Agent::end`] says why.
    pub fn lives(&self) -> bool {
        self.thread.as_ref().is_some_and(|t| !t.is_finished())
    }

    /// As dropping it, with what went wrong before.
    pub fn end(&mut self) -> Result<(), Error> {
        self.stop.store(true, Ordering::Relaxed);
        let result = self.thread.take().map(JoinHandle::join);
        result.map_or(Ok(()), |joined| joined.expect("the agent does not panic"))
    }

    pub fn tally(&self) -> Tally {
        let delays = self.shared.delays_us.lock().unwrap();
        let mut delays_us: Vec<f64> = delays.iter().map(|us| f64::from(*us)).collect();
        delays_us.sort_by(f64::total_cmp);
        Tally {
            answered: self.shared.answered.load(Ordering::Relaxed),
            refused: self.shared.refused.load(Ordering::Relaxed),
            delays_us,
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A mind that panicked has been heard of.
            let _ = thread.join();
        }
    }
}

fn serve(
    pins: &Path,
    mut turn: Turn,
    mut mind: impl Mind,
    stop: &AtomicBool,
    shared: &Shared,
    ready: &mpsc::SyncSender<()>,
) -> Result<(), Error> {
    let open = |name: &str| {
        let pin = pins.join(name);
        MapHandle::from_pinned_path(&pin).context(pin.display())
    };
    let (records, answers) = (open("records")?, Answers::new(&open("answers")?)?);
    let _ = ready.send(());
    while !stop.load(Ordering::Relaxed) {
        if !turn.take() {
            std::thread::sleep(LOOK);
            continue;
        }
        shared.steers.store(true, Ordering::Relaxed);
        let steered = steer(&records, &answers, &mut mind, shared, || {
            stop.load(Ordering::Relaxed) || turn.is_wanted()
        });
        shared.steers.store(false, Ordering::Relaxed);
        turn.pass();
        steered?;
    }
    Ok(())
}

/// Answers records `until` then.
fn steer(
    records: &MapHandle,
    answers: &Answers,
    mind: &mut impl Mind,
    shared: &Shared,
    until: impl Fn() -> bool,
) -> Result<(), Error> {
    let mut builder = RingBufferBuilder::new();
    builder
        .add(records, |bytes| {
            let Some(record) = parse(bytes) else {
                return 0;
            };
            if record.serial == 0 {
                mind.forget(record.owner);
                return 0;
            }
            match accept(mind.answer(&record), record.seen.rate) {
                Some(rate) => {
                    answers.put(&record, rate);
                    shared.answered.fetch_add(1, Ordering::Relaxed);
                    let mut delays = shared.delays_us.lock().unwrap();
                    let delay = now_ns().saturating_sub(record.time_ns) as f32 / 1000.0;
                    if delays.len() < DELAYS {
                        delays.push(delay);
                    } else {
                        delays[record.serial as usize % DELAYS] = delay;
                    }
                }
                None => drop(shared.refused.fetch_add(1, Ordering::Relaxed)),
            }
            0
        })
        .context("mp_records")?;
    let ring = builder.build().context("mp_records")?;
    while !until() {
        match ring.poll(LOOK) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(error).context("mp_records")
            }
            _ => {}
        }
    }
    Ok(())
}

/// A rate, in whole bytes/s, that is one.
fn accept(rate: f64, now: u64) -> Option<u32> {
    // A rounded rate may be half a byte outside.
    let most = now as f64 * f64::from(actor::LARGEST_STEP) + 1.0;
    let fits = rate.is_finite() && (rate - now as f64).abs() <= most && rate >= 1.0;
    fits.then_some(rate as u32)
}

/// `struct mp_record` of controllers/bpf/settings.h; a test compares the layouts.
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct RawRecord {
    time_ns: u64,
    owner: u64,
    serial: u64,
    rate: u64,
    mss: u64,
    delivered: u64,
    lost: u64,
    elapsed_us: u64,
    rtt_us: u64,
    min_rtt_us: u64,
    others: u64,
    local_ip: u32,
    remote_ip: u32,
    local_port: u32,
    remote_port: u32,
}

fn parse(bytes: &[u8]) -> Option<Record> {
    let raw = RawRecord::read_from_bytes(bytes).ok()?;
    let address = |ip: u32, port| SocketAddrV4::new(ip.to_ne_bytes().into(), port);
    Some(Record {
        time_ns: raw.time_ns,
        owner: raw.owner,
        serial: raw.serial,
        others: raw.others,
        local: address(raw.local_ip, raw.local_port as u16),
        remote: address(raw.remote_ip, u16::from_be(raw.remote_port as u16)),
        seen: actor::Record {
            rate: raw.rate,
            mss: raw.mss,
            delivered: raw.delivered,
            lost: raw.lost,
            elapsed_us: raw.elapsed_us,
            rtt_us: raw.rtt_us,
            min_rtt_us: raw.min_rtt_us,
        },
    })
}

/// The kernel's map of answers, in our memory: no system call between a thought and its effect.
struct Answers {
    memory: *mut [AtomicU64; 2],
}

const LENGTH: usize = ANSWERS as usize * size_of::<[AtomicU64; 2]>();

impl Answers {
    fn new(map: &MapHandle) -> Result<Answers, Error> {
        // SAFETY: a shared mapping of the whole map; the descriptor may be closed afterwards.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                LENGTH,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        if memory == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error()).context("mp_answers");
        }
        Ok(Answers {
            memory: memory.cast(),
        })
    }

    fn put(&self, record: &Record, rate: u32) {
        // SAFETY: within the mapping, which lives as long as we do; the kernel reads whole words.
        let [owner, answer] = unsafe { &*self.memory.add((record.owner % ANSWERS) as usize) };
        // Another's answer must not pass for this one's.
        answer.store(0, Ordering::SeqCst);
        owner.store(record.owner, Ordering::SeqCst);
        answer.store(record.serial << 32 | u64::from(rate), Ordering::SeqCst);
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`, and not used any more.
        unsafe { libc::munmap(self.memory.cast(), LENGTH) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_matches_the_layout_in_c() {
        let record = crate::layout::layout_of!(
            RawRecord: time_ns, owner, serial, rate, mss, delivered, lost, elapsed_us, rtt_us, min_rtt_us,
            others, local_ip, remote_ip, local_port, remote_port
        );
        crate::layout::assert_matches(
            &["kernel.h", "../mp.h", "settings.h"],
            &[("mp_record", record)],
        );
    }

    #[test]
    fn only_a_rate_within_a_tenth_is_an_answer() {
        assert_eq!(accept(1_100_000.0, 1_000_000), Some(1_100_000));
        assert_eq!(accept(900_000.0, 1_000_000), Some(900_000));
        for nonsense in [1_100_010.0, 899_990.0, f64::NAN, f64::INFINITY, -1.0, 0.0] {
            assert_eq!(accept(nonsense, 1_000_000), None, "{nonsense}");
        }
        assert_eq!(accept(-0.0, 1), None);
    }
}
