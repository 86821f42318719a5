//! The flows of this host as `status` shows them: those that carry something now, and of these the largest.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crate::datagram::device::{Lane, UdpFlow};
use crate::datagram::packet::Destination;
use crate::device::Device;
use crate::flow::FlowStats;
use crate::socket::Transport;

/// Rows of flows.
const MOST: usize = 20;
/// A flow that has carried nothing for so long comes after all others, s.
const QUIET_S: f64 = 10.0;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FlowReport {
    /// Address and port; a name where the program gave one.
    pub target: String,
    /// `stream` or `datagram`
    pub lane: String,
    /// `stream`; of the datagram lane `copied` or `bulk`
    pub class: String,
    /// Both ways together, copies and repeated data among them.
    pub bytes: u64,
    /// Since it carried something.
    pub quiet_s: f64,
    pub paths: Vec<PathShare>,
    /// Why these paths.
    pub why: String,
}

/// What one path has of a flow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PathShare {
    pub link: String,
    /// Of the flow's bytes; 0 to 1.
    pub share: f64,
    pub backup: bool,
}

pub fn flows(device: &Device, lane: &Lane) -> Vec<FlowReport> {
    let scheduler = device.settings().scheduler.name;
    let streams = device.settings().observer.iter();
    let streams = streams.flat_map(|observer| observer.flows());
    let mut all: Vec<FlowReport> = streams
        .filter_map(|flow| stream(device, &flow, scheduler))
        .collect();
    let datagrams = lane.flows().into_iter();
    all.extend(datagrams.map(|flow| datagram(device, &flow, scheduler)));
    busiest(all)
}

fn busiest(mut all: Vec<FlowReport>) -> Vec<FlowReport> {
    all.sort_by_key(|flow| (flow.quiet_s >= QUIET_S, Reverse(flow.bytes)));
    all.truncate(MOST);
    all
}

/// Shares of bytes by link; a path is open or has carried some.
fn shares(paths: impl Iterator<Item = (String, u64, bool)>) -> (u64, Vec<PathShare>) {
    let mut sums: Vec<(String, u64, bool)> = Vec::new();
    for (link, bytes, backup) in paths {
        match sums.iter_mut().find(|(name, ..)| *name == link) {
            // The path that came last is the link's now.
            Some(known) => (known.1, known.2) = (known.1 + bytes, backup),
            None => sums.push((link, bytes, backup)),
        }
    }
    let total: u64 = sums.iter().map(|(_, bytes, _)| bytes).sum();
    let share = |bytes: u64| bytes as f64 / total.max(1) as f64;
    let shares = sums.into_iter().map(|(link, bytes, backup)| PathShare {
        link,
        share: share(bytes),
        backup,
    });
    (total, shares.collect())
}

/// [`None`] before its program is connected.
fn stream(device: &Device, flow: &FlowStats, scheduler: &str) -> Option<FlowReport> {
    let target = flow.target()?.to_string();
    let paths = flow.paths();
    let open = paths.iter().filter(|path| path.open).count();
    let of = paths.into_iter().map(|path| {
        let link = device.path_name(path.slot);
        (link, path.acknowledged + path.received, path.backup)
    });
    let (bytes, paths) = shares(of);
    let mptcp = device.settings().transport == Transport::Mptcp;
    let why = match open {
        0 => "no path: it waits for a link".to_owned(),
        _ if mptcp => "the kernel's MPTCP chooses the path of each segment".to_owned(),
        1 => "one path is open".to_owned(),
        _ => format!("{scheduler} chooses the path of each segment"),
    };
    Some(FlowReport {
        target,
        lane: "stream".into(),
        class: "stream".into(),
        bytes,
        quiet_s: flow.quiet().as_secs_f64(),
        paths,
        why,
    })
}

fn datagram(device: &Device, flow: &UdpFlow, scheduler: &str) -> FlowReport {
    let carried = flow.carried.iter().enumerate();
    let used = carried.filter(|(_, bytes)| **bytes > 0);
    let (bytes, paths) =
        shares(used.map(|(slot, bytes)| (device.link_name(slot), *bytes, flow.backup[slot])));
    let (class, why) = match flow.bulk {
        false => (
            "copied",
            "small: each packet goes over every path".to_owned(),
        ),
        true => (
            "bulk",
            format!("over 3 Mbit/s: {scheduler} chooses the path of each packet"),
        ),
    };
    FlowReport {
        target: match flow.target {
            Destination::Udp(address) => address.to_string(),
            Destination::Echo(ip) => format!("{ip} (ping)"),
        },
        lane: "datagram".into(),
        class: class.into(),
        bytes,
        quiet_s: flow.quiet.as_secs_f64(),
        paths,
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_flows_come_first_and_no_more_than_some() {
        let flow = |bytes, quiet_s| FlowReport {
            target: String::new(),
            lane: String::new(),
            class: String::new(),
            bytes,
            quiet_s,
            paths: Vec::new(),
            why: String::new(),
        };
        let mut all = vec![flow(900, 10.0), flow(5, 9.9), flow(800, 60.0), flow(7, 0.0)];
        let order: Vec<u64> = busiest(all.clone()).iter().map(|f| f.bytes).collect();
        assert_eq!(order, [7, 5, 900, 800]);
        all.extend((0..100).map(|bytes| flow(1000 + bytes, 0.0)));
        let most = busiest(all);
        assert_eq!(
            (most.len(), most[0].bytes, most[19].bytes),
            (20, 1099, 1080)
        );
    }

    #[test]
    fn a_links_connections_count_together() {
        let path = |link: &str, bytes, backup| (link.to_owned(), bytes, backup);
        let paths = [
            path("wifi", 50, false),
            path("lte", 25, true),
            path("wifi", 25, true),
        ];
        let (total, shares) = shares(paths.into_iter());
        assert_eq!(total, 100);
        let shown: Vec<_> = shares
            .iter()
            .map(|s| (s.link.as_str(), s.share, s.backup))
            .collect();
        assert_eq!(shown, [("wifi", 0.75, true), ("lte", 0.25, true)]);
        assert_eq!(
            super::shares([path("wifi", 0, false)].into_iter()).1[0].share,
            0.0
        );
    }
}
