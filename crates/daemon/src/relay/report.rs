//! What `status` says of the relay.

use mp_policy::link::{Decision, Priority};
use mp_relay::capture;
use mp_relay::device::{self, LinkReport};
use serde::{Deserialize, Serialize};

use super::judge::why;
use super::{RelaySupervisor, Stage, BLOCKED};

/// An interface, and why it could not carry anything; empty where it could.
pub struct InterfaceState<'a> {
    pub name: &'a str,
    pub out: &'static str,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RelayStatus {
    /// `on`, `connecting` or `off`
    pub state: String,
    /// Why it is not on.
    pub why: String,
    /// While it is on.
    #[serde(flatten)]
    pub report: Option<capture::Report>,
}

/// The priority of a link, for people.
pub fn state(priority: Option<Priority>) -> &'static str {
    priority.map_or("off", device::state)
}

impl RelaySupervisor {
    /// `None` where there is none, nor is one to be, nor has one before left a block. `interfaces`: those of the host, to name the
    /// links that are not used.
    pub fn status<'a>(
        &self,
        interfaces: impl Iterator<Item = InterfaceState<'a>>,
    ) -> Option<RelayStatus> {
        if self.settings.is_none() {
            return self.blocked.then(|| RelayStatus {
                state: "off".into(),
                why: BLOCKED.into(),
                report: None,
            });
        }
        let Stage::On(running) = &self.stage else {
            let state = match self.stage {
                Stage::Off => "off",
                _ => "connecting",
            };
            return Some(RelayStatus {
                state: state.into(),
                why: self.failure.clone(),
                report: None,
            });
        };
        let mut report = running.capture.report();
        for interface in interfaces {
            let name = interface.name;
            if !report.links.iter().any(|l| l.link == name) {
                report.links.push(self.unused(&interface));
            }
        }
        for link in &mut report.links {
            let Decision { priority, reason } = self.judge.decide(&link.link);
            if let (true, Some(reason)) = (link.state == state(priority), reason) {
                link.why = why(reason).into();
            }
            link.month_bytes = Some(self.carried.bytes(&link.link));
            link.limit_bytes = self.judge.limit(&link.link);
        }
        Some(RelayStatus {
            state: "on".into(),
            why: String::new(),
            report: Some(report),
        })
    }

    fn unused(&self, interface: &InterfaceState<'_>) -> LinkReport {
        let unfit = match interface.out {
            "" => "it has no default route",
            out => out,
        };
        LinkReport {
            link: interface.name.to_owned(),
            ready: 0,
            sent_bytes: 0,
            received_bytes: 0,
            state: "off".into(),
            why: unfit.into(),
            carried_bytes: 0,
            month_bytes: None,
            limit_bytes: None,
        }
    }
}
