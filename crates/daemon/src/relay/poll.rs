//! One poll of the relay's links: what they have carried, and what the rules make of them.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use mp_policy::link::Reason;
use mp_relay::capture;

use super::judge::{self, why, LinkRules};
use super::{report, RelaySupervisor, Stage};
use crate::log::{self, Level};

/// Polling interval of the links: a limit is overrun by what they carry meanwhile.
const POLL_EVERY: Duration = Duration::from_secs(1);
/// Between two writes of what links have carried.
const SAVE_EVERY: Duration = Duration::from_secs(10);

impl RelaySupervisor {
    /// Polls what the links have carried, and at the interfaces: the name of each, and whether its signal is weak.
    pub fn poll<'a>(&mut self, interfaces: impl Iterator<Item = (&'a str, bool)>) {
        if self.polled.elapsed() < POLL_EVERY {
            return;
        }
        self.polled = Instant::now();
        if let Stage::On(running) = &self.stage {
            self.carried.take(&running.capture.links(), &judge::month());
            if self.saved.elapsed() >= SAVE_EVERY {
                self.save();
            }
            self.tell_of_moves();
            self.warn_of_cgroups();
            self.warn_of_removals();
        }
        let mut weak = BTreeSet::new();
        for (name, is_weak) in interfaces {
            let known = self.decisions.entry(name.to_owned());
            known.or_insert_with(|| self.judge.decide(name));
            if is_weak {
                weak.insert(name.to_owned());
            }
        }
        let mut judge = self.judge.clone();
        judge.set_weak(weak);
        judge.observe(&self.carried);
        self.judge(judge);
    }

    fn tell_of_moves(&mut self) {
        let Stage::On(running) = &self.stage else {
            return;
        };
        let addresses = running.device.relay();
        if addresses != self.addresses {
            let all: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
            let fields: &[(&str, &dyn Display)] = &[("addresses", &all.join(", "))];
            log::line(Level::Info, "the relay was found elsewhere", fields);
            self.addresses = addresses;
        }
    }

    /// Once for each change: a service that starts again has a new cgroup.
    pub(super) fn warn_of_cgroups(&mut self) {
        let Stage::On(running) = &self.stage else {
            return;
        };
        let refused = running.capture.refused_cgroups();
        if refused == self.refused_cgroups {
            return;
        }
        if let Some(warning) = capture::Refused::warning(&refused) {
            log::line(Level::Warning, &warning, &[]);
        }
        self.refused_cgroups = refused;
    }

    pub(super) fn warn_of_removals(&mut self) {
        let Stage::On(running) = &self.stage else {
            return;
        };
        let restored = running.capture.restored();
        if restored != self.restored {
            self.restored = restored;
            log::line(Level::Warning, capture::RESTORED, &[]);
        }
    }

    /// From now on the links are used as this one says.
    pub(super) fn judge(&mut self, new: LinkRules) {
        if new == self.judge {
            return;
        }
        self.judge = new;
        self.rules.send_replace(self.judge.rules());
        for (link, known) in &mut self.decisions {
            let decision = self.judge.decide(link);
            if decision == *known {
                continue;
            }
            // A bandit's choice, several times a second.
            let level = match (known.reason, decision.reason) {
                (None, Some(Reason::Unchosen)) | (Some(Reason::Unchosen), None) => Level::Debug,
                _ => Level::Info,
            };
            *known = decision;
            if matches!(self.stage, Stage::On(_)) {
                let is = report::state(decision.priority);
                let why = decision.reason.map_or("", why);
                let fields: &[(&str, &dyn Display)] = &[("link", link), ("is", &is), ("why", &why)];
                log::line(level, "link of the relay", fields);
            }
        }
    }
}
