//! Which transfer and subflow each monitor interval of an agent belongs to: both ends' addresses and ports tell.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use mp_kernel::agent;
use mp_record::Interval;

use crate::network::path_of;

#[derive(Debug, Clone, Copy)]
pub struct Place {
    pub transfer: u32,
    pub subflow: u32,
    /// The path of a subflow whose addresses do not tell it.
    pub initial: usize,
}

/// By local and remote end.
pub type Places = HashMap<(SocketAddr, SocketAddr), Place>;

pub fn path_between(local: SocketAddr, remote: SocketAddr) -> Option<usize> {
    path_of(local.ip()).or(path_of(remote.ip()))
}

/// As a record has them. Those of a subflow that was gone before its first sample are left out.
pub fn placed(
    asked: &[agent::Interval],
    epoch: Instant,
    paths: &[String],
    places: &Places,
) -> Vec<Interval> {
    let one = |interval: &agent::Interval| {
        let agent::Record {
            serial,
            others,
            seen,
            ..
        } = interval.record;
        let (local, remote) = (interval.record.local.into(), interval.record.remote.into());
        let place = places.get(&(local, remote))?;
        let path = path_between(local, remote).unwrap_or(place.initial);
        let after = interval.at.saturating_duration_since(epoch);
        let before = epoch.saturating_duration_since(interval.at);
        Some(Interval {
            time_s: after.as_secs_f64() - before.as_secs_f64(),
            transfer: place.transfer,
            subflow: place.subflow,
            path: paths[path].clone(),
            serial,
            rate: seen.rate,
            mss: seen.mss,
            delivered: seen.delivered,
            lost: seen.lost,
            elapsed_us: seen.elapsed_us,
            rtt_us: seen.rtt_us,
            min_rtt_us: seen.min_rtt_us,
            others,
            answer: interval.answer.map(u64::from),
            delay_us: interval.delay.as_micros() as u64,
        })
    };
    asked.iter().filter_map(one).collect()
}
