//! One poll: the kernel's counters are read, and its endpoints brought in line with what follows from them.

use std::time::{Duration, Instant};

use mp_host::adapter::PathState;
use mp_host::endpoints::EndpointChange;
use mp_host::radio::Radio;

use super::{extras, Daemon, Part, REVIEW};
use crate::{log, status, Error};

impl Daemon {
    pub(super) fn pause(&mut self) -> Duration {
        let (now_us, interval_us) = (self.now_us(), self.config.paths.awareness.interval_us);
        let own_us = self.adapter.pace().pause_us(now_us, interval_us);
        Duration::from_micros(own_us.min(self.relay.pause_us(interval_us)))
    }

    pub(super) fn poll(&mut self) {
        let began = Instant::now();
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
        self.poll_relay();
        self.apply();
        self.polls += 1;
        self.adapter.pace().took(began.elapsed().as_micros() as u64);
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
                let mut done = endpoints.keep_off(&self.config.paths, interfaces, &mut subflows)?;
                let applied = endpoints.apply(&wanted, &again, &subflows)?;
                done.extend(applied.done);
                Ok((done, applied.refused))
            });
        match applied {
            Ok((done, refused)) => {
                self.trouble(Part::Endpoints, refused.map(|e| e.to_string()));
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
