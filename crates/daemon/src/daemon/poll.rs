//! One poll: the kernel's counters are read, and its endpoints brought in line with what follows from them.

use std::time::{Duration, Instant};

use mp_host::adapter::PathState;
use mp_host::endpoints::EndpointChange;
use mp_host::radio::Radio;
use nix::time::{clock_gettime, ClockId};

use super::{extras, Daemon, Part, REVIEW};
use crate::{log, status, Error};

/// Between two polls, however much they cost, µs: a link that dies is to be noticed.
const LONGEST_US: u64 = 10_000_000;

/// Time of a core that this thread has taken: to wait for the kernel, or for a core, is no work.
fn worked() -> Duration {
    let now = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
    now.map(Duration::from).unwrap_or_default()
}

impl Daemon {
    pub(super) fn pause(&mut self) -> Duration {
        let (now_us, interval_us) = (self.now_us(), self.config.paths.awareness.interval_us);
        let own_us = self.adapter.pace().pause_us(now_us, interval_us);
        let longest_us = interval_us.max(LONGEST_US);
        Duration::from_micros(own_us.min(longest_us).min(self.relay.pause_us(interval_us)))
    }

    pub(super) fn poll(&mut self) {
        let began = worked();
        match self.diag.subflows() {
            Ok(subflows) => {
                let now = self.now_us();
                let radio: &mut dyn Radio = &mut self.radio;
                self.adapter.poll(now, subflows, Some(radio));
                self.each_connection();
                self.prober.serve(&mut self.adapter);
                if let Some(initial_path) = &self.initial_path {
                    let since = Duration::from_micros(now);
                    let mut readings = |p: &PathState| {
                        let name = p.interface.name.clone();
                        let readings = self.radio.readings(&name, since);
                        (name, readings)
                    };
                    initial_path.set_readings(self.adapter.paths.iter().map(&mut readings));
                }
                self.trouble(Part::Subflows, None);
            }
            Err(e) => self.trouble(Part::Subflows, Some(e.to_string())),
        }
        self.apply();
        self.polls += 1;
        let cost = worked().saturating_sub(began);
        self.adapter.pace().took(cost.as_micros() as u64);
        // It waits for the disk now and then, which is no work: polls would become rare, and limits be overrun.
        self.poll_relay();
    }

    /// Brings the kernel's endpoints in line, if anything has changed or it is time to see whether somebody else did.
    pub(super) fn apply(&mut self) {
        let (wanted, again) = (self.adapter.wanted(), self.adapter.again());
        let due = Instant::now() >= self.review_at;
        if !due && again.is_empty() && !self.endpoints.differ(&wanted) {
            return;
        }
        self.review_at = Instant::now() + REVIEW;
        if due {
            self.keep_initial_path();
        }
        let applied = self
            .diag
            .subflows()
            .map_err(Error::from)
            .and_then(|mut subflows| {
                let interfaces = self.adapter.paths.iter().map(|p| &p.interface);
                let endpoints = &mut self.endpoints;
                let mut kept = endpoints.keep_off(&self.config.paths, interfaces, &mut subflows)?;
                let applied = endpoints.apply(&wanted, &again, &subflows)?;
                kept.done.extend(applied.done);
                let refused = kept.refused.or(applied.refused);
                Ok((kept.done, refused.map(|e| e.to_string())))
            });
        match applied {
            Ok((done, refused)) => {
                self.trouble(Part::Endpoints, refused);
                if !done.is_empty() {
                    let now_us = self.started.elapsed().as_micros() as u64;
                    self.adapter.pace().changed(now_us);
                }
                for EndpointChange { address, kind } in done {
                    let address = address.to_string();
                    let paths = status::paths(&self.adapter, self.now_us());
                    let path = paths.iter().find(|p| p.addresses.contains(&address));
                    log::line(
                        extras::level(self.config.paths.policy, kind),
                        &kind.to_string(),
                        &[
                            ("address", &address),
                            ("interface", &path.map_or("", |p| &p.interface)),
                            ("why", &path.map_or("", |p| &p.why)),
                        ],
                    );
                }
            }
            Err(e) => self.trouble(Part::Endpoints, Some(e.to_string())),
        }
    }
}
