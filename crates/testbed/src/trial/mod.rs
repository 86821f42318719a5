//! What a user has of a second link: a download, a call and pages, by programs that know nothing of it, while a link dies.
//!
//! The device's links have default routes, as those to a home router and to a modem have. The server has an address of no
//! private range, so that a relay may carry what goes there. Other than in [`run`](crate::run), what carries the packets is
//! chosen by [`Carrier`], and the programs are always the same.

mod client;
mod network;
mod server;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::time::Duration;

use mp_record::metrics::quantile;
use mp_scenario::Scenario;
use serde::Serialize;

use crate::plan::Multipath;
use crate::run::{check, Threads, TICK};
use crate::Error;
use client::Programs;
pub use network::NOTICED;
use network::{Faults, Hosts};

/// Of a range for documentation (RFC 5737): a stranger's server.
const SERVER: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const WEB: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(SERVER), 80);
const CALL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(SERVER), 3478);

/// The download's bytes are counted in steps of this length, s.
pub const STEP_S: f64 = 0.25;
/// A voice codec's packets: 50 a second, of 160 bytes.
const CALL_EVERY: Duration = Duration::from_millis(20);
const CALL_BYTES: usize = 160;
/// An answer that comes later is as good as lost.
const CALL_PATIENCE: Duration = Duration::from_millis(400);
const PAGE_EVERY: Duration = Duration::from_millis(500);
const PAGE_BYTES: u64 = 2_000;
/// How long people wait for a page.
pub const PAGE_PATIENCE: Duration = Duration::from_secs(3);

/// What carries the programs' packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carrier {
    /// TCP and UDP by the routing table: the first link while it is up.
    Direct,
    /// TCP and UDP over this link alone.
    Link(String),
    /// Connections over the kernel's MPTCP, to a server that speaks it; UDP as with [`Carrier::Direct`].
    Mptcp,
    /// TCP and UDP over our relay, as `multipilot up --relay` has it, with this scheduler.
    Relay(&'static str),
}

/// What the programs had.
#[derive(Debug, Clone, Serialize)]
pub struct Experience {
    pub download: Download,
    pub call: Call,
    pub pages: Vec<Page>,
    /// What went wrong with the emulation.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Download {
    pub bytes: u64,
    /// Of each [`STEP_S`].
    pub steps: Vec<u64>,
    /// The longest time without a byte, to the end of the trial, s.
    pub pause_s: f64,
    /// Whether what came is what was sent, in order.
    pub intact: bool,
    /// Why it ended before its time.
    pub broke: Option<String>,
}

#[derive(Debug, Clone, Serialize)]
pub struct Call {
    /// Of each packet, ms; `None`: lost on its way there or back, or late.
    pub round_trips_ms: Vec<Option<f64>>,
}

impl Call {
    pub fn lost(&self) -> f64 {
        let lost = self.round_trips_ms.iter().filter(|t| t.is_none()).count();
        lost as f64 / self.round_trips_ms.len().max(1) as f64
    }

    /// The longest run of lost packets, s.
    pub fn pause_s(&self) -> f64 {
        let runs = self.round_trips_ms.split(|t| t.is_some());
        let longest = runs.map(<[_]>::len).max().unwrap_or_default();
        longest as f64 * CALL_EVERY.as_secs_f64()
    }

    /// 99 % of the answers came within this time, ms.
    pub fn p99_ms(&self) -> Option<f64> {
        let answered: Vec<f64> = self.round_trips_ms.iter().flatten().copied().collect();
        quantile(&answered, 0.99)
    }
}

#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// When it was asked for, s.
    pub at_s: f64,
    /// From the connection's first packet to the page's last; `None`: it failed, or took longer than 3 s.
    pub took_s: Option<f64>,
}

/// Runs the programs for the scenario's duration. `progress` is told the elapsed seconds, negative ones before they begin;
/// `stop` ends it early, with [`Error::Stopped`].
pub fn trial(
    scenario: &Scenario,
    carrier: &Carrier,
    seed: u64,
    progress: &mut dyn FnMut(f64),
    stop: &AtomicBool,
) -> Result<Experience, Error> {
    check(match carrier {
        Carrier::Mptcp => Multipath::Mptcp,
        _ => Multipath::Relay,
    })?;
    let hosts = Hosts::new(scenario, carrier, seed)?;
    let mut threads = Threads::default();
    hosts.serve(&mut threads, seed)?;
    hosts.carry(&mut threads)?;
    let epoch = hosts.begin();
    let programs = Programs {
        link: match carrier {
            Carrier::Link(link) => Some(link.clone()),
            _ => None,
        },
        mptcp: *carrier == Carrier::Mptcp,
        seed,
        epoch,
        duration: scenario.duration,
    };
    let (results, answer) = channel();
    threads
        .clients
        .push(programs.start(hosts.device(), results, threads.stop.subscribe())?);

    let mut faults = Faults::of(scenario);
    let experience = loop {
        match answer.recv_timeout(TICK) {
            Ok(experience) => break Ok(experience),
            Err(RecvTimeoutError::Timeout) => {}
            // `join` says why.
            Err(RecvTimeoutError::Disconnected) => break Err(Error::Stopped),
        }
        if stop.load(Ordering::Relaxed) {
            break Err(Error::Stopped);
        }
        let elapsed = epoch.elapsed().as_secs_f64();
        progress(elapsed);
        faults.due(elapsed, &hosts)?;
    };
    threads.join()?;
    let notes = hosts.finish()?;
    Ok(Experience {
        notes,
        ..experience?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_what_nothing_answered() {
        let mut round_trips_ms: Vec<Option<f64>> = (1..=98).map(|ms| Some(f64::from(ms))).collect();
        round_trips_ms.insert(40, None);
        let mut call = Call { round_trips_ms };
        call.round_trips_ms.splice(60..60, [None; 3]);
        assert_eq!(call.lost(), 4.0 / 102.0);
        assert_eq!(call.pause_s(), 0.06);
        // Between the 97th and the 98th of 98: position 96.03.
        assert!((call.p99_ms().unwrap() - 97.03).abs() < 1e-9);
        call.round_trips_ms.clear();
        assert_eq!(
            (call.lost(), call.pause_s(), call.p99_ms()),
            (0.0, 0.0, None)
        );
    }
}
