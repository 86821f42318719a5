//! What a run leaves behind.

use mp_record::{Run, Sample, Transfer};

use super::World;
use crate::time::seconds;

impl World<'_> {
    fn path_name(&self, index: u32) -> &str {
        let s = &self.subflows[index as usize];
        let plan = &self.plans[self.connections[s.connection as usize].plan];
        let found = self.scenario.paths.get_index(plan.paths[s.path]);
        found.map_or("", |(name, _)| name)
    }

    pub(super) fn sample(&mut self) {
        let mut samples = std::mem::take(&mut self.run.samples);
        for connection in self.connections.iter().filter(|c| !c.closed) {
            for &index in &connection.slots {
                let s = &self.subflows[index as usize];
                let flow = &s.sender.flow;
                if !s.sender.established || s.closed() {
                    continue;
                }
                samples.push(Sample {
                    time_s: seconds(self.net.now),
                    transfer: connection.id,
                    subflow: s.slot as u32,
                    path: self.path_name(index).to_owned(),
                    cwnd: flow.cwnd,
                    ssthresh: flow.ssthresh,
                    srtt_us: flow.srtt_us,
                    min_rtt_us: if flow.min_rtt_us == u32::MAX {
                        0
                    } else {
                        flow.min_rtt_us
                    },
                    delivered_bytes: s.sender.acked_bytes(),
                    in_order_bytes: Some(connection.delivered_bytes()),
                    lost: flow.lost as u32,
                    pacing_rate: flow.pacing_rate,
                    backup: s.backup,
                });
            }
        }
        self.run.samples = samples;
    }

    pub(super) fn finish(mut self) -> Run {
        for connection in &self.connections {
            let mut path_bytes: Vec<(String, u64)> = Vec::new();
            for &index in &connection.subflows {
                let s = &self.subflows[index as usize];
                let missing = connection.mss - s.sender.profile.short;
                let bytes = s.receiver.arrived * u64::from(connection.mss)
                    - s.receiver.arrived_short * u64::from(missing);
                let name = self.path_name(index);
                match path_bytes.iter_mut().find(|(n, _)| n == name) {
                    Some((_, sum)) => *sum += bytes,
                    None => path_bytes.push((name.to_owned(), bytes)),
                }
            }
            let plan = &self.plans[connection.plan];
            self.run.transfers.push(Transfer {
                connection: plan.name.clone(),
                id: connection.id,
                multipath: plan.multipath,
                fallback: connection.fallback,
                start_s: seconds(connection.started),
                end_s: connection.finished.map(seconds),
                bytes: connection.delivered_bytes(),
                intact: connection
                    .finished
                    .filter(|_| plan.bytes.is_some())
                    .map(|_| true),
                window_overruns: Some(connection.window_overruns),
                path_bytes,
            });
        }
        let overruns = self.connections.iter().map(|c| c.window_overruns);
        self.run.window_overruns = Some(overruns.sum());
        self.run.transfers.sort_by_key(|t| t.id);
        self.run
    }
}
