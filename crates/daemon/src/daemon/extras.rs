//! What is at work only where the configuration asks for it.

use std::time::{Duration, Instant};

use mp_host::adapter::PathState;
use mp_host::endpoints::ChangeKind;
use mp_kernel::interfaces;
use mp_policy::path_manager::PathPolicy;

use super::{Daemon, Part};
use crate::initial_path::InitialPathBandit;
use crate::log::{self, Level};
use crate::{status, tunnel};

/// Before another try of what failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bandit changes which paths carry data several times a second; `switches` of the status counts that.
pub(super) fn level(policy: PathPolicy, kind: ChangeKind) -> Level {
    let bandit = matches!(policy, PathPolicy::MsUcb | PathPolicy::MsUcbFederated);
    match kind {
        ChangeKind::SetToBackup | ChangeKind::SetToNormal if bandit => Level::Debug,
        _ => Level::Info,
    }
}

impl Daemon {
    /// With a bandit: it works over the interfaces that there are, and not while a tunnel carries all: connections would pass by
    /// it. Of the tunnel it warns in any case.
    pub(super) fn keep_initial_path(&mut self) {
        let tunnelled = self.warn_of_tunnel();
        let Some(settings) = self.config.bandit.as_ref().filter(|_| !tunnelled) else {
            self.initial_path = None;
            return;
        };
        if let Some(initial_path) = &mut self.initial_path {
            initial_path.warn_of_lost_events();
            if initial_path.fits(&self.config) {
                let failed = initial_path.keep_exempt().err();
                let failure =
                    |e| format!("networks that came since are not left to the routing table: {e}");
                return self.trouble(Part::InitialPath, failed.map(failure));
            }
        }
        if Instant::now() < self.initial_path_at {
            return;
        }
        // What it knows is saved before it is read again.
        self.initial_path = None;
        match InitialPathBandit::begin(&self.config, settings) {
            Ok(chooser) => {
                self.initial_path = chooser;
                self.trouble(Part::InitialPath, None);
            }
            Err(e) => {
                self.initial_path_at = Instant::now() + PATIENCE;
                self.trouble(
                    Part::InitialPath,
                    Some(format!(
                        "connections start as the routing table has it: {e}"
                    )),
                );
            }
        }
    }

    /// Linux opens subflows over every endpoint, whatever its connection goes through.
    fn warn_of_tunnel(&mut self) -> bool {
        let all = interfaces::all().unwrap_or_default();
        let what = tunnel::in_use(&self.config, &all).map(|tunnel| {
            format!("{tunnel} carries this host's traffic and is ignored: MPTCP subflows of other interfaces pass by it; rule = \"untrusted\" prevents them")
        });
        let tunnelled = what.is_some();
        self.trouble(Part::Tunnel, what);
        tunnelled
    }

    /// With the userspace path manager: what each connection's own adapter wants.
    pub(super) fn each_connection(&mut self) {
        let now = self.now_us();
        let Some(connections) = &mut self.connections else {
            return;
        };
        for change in connections.poll(now, &self.adapter, &self.config.paths) {
            let of = |p: &&PathState| p.interface.addresses.contains(&change.address);
            let path = self.adapter.paths.iter().find(of).map(|p| &p.interface);
            let why = path.and_then(|i| connections.reason(now, change.token, i.index));
            log::line(
                level(self.config.paths.policy, change.kind),
                &change.kind.to_string(),
                &[
                    ("connection", &format!("{:x}", change.token)),
                    ("address", &change.address),
                    ("interface", &path.map_or("", |i| &i.name)),
                    ("why", &why.map_or("", status::why)),
                ],
            );
        }
        for request in connections.probe_requests() {
            self.adapter.ask_for_probes(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bandits_changes_of_priority_are_left_out_of_the_log() {
        let of = |policy, what| matches!(level(policy, what), Level::Debug);
        for policy in [PathPolicy::MsUcb, PathPolicy::MsUcbFederated] {
            assert!(of(policy, ChangeKind::SetToBackup) && of(policy, ChangeKind::SetToNormal));
            assert!(!of(policy, ChangeKind::Removed));
        }
        assert!(!of(PathPolicy::Awareness, ChangeKind::SetToBackup));
    }
}
