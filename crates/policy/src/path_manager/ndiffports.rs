//! Several subflows over the initial path, from different source ports, so that per-flow balancing in the network
//! (ECMP) spreads one connection over several of its links (Raiciu et al. 2011).

use super::{Action, Event, Manage, Path, View};

#[derive(Debug, Clone)]
pub struct Ndiffports {
    /// Subflows in all, the first included.
    pub subflows: usize,
}

impl Default for Ndiffports {
    /// Two, the default of net/mptcp/mptcp_ndiffports.c of the out-of-tree MPTCP.
    fn default() -> Self {
        Ndiffports { subflows: 2 }
    }
}

impl Manage for Ndiffports {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        let initial = |p: &Path| p.initial == Some(true) && p.up;
        let path = match event {
            Event::Established => view.paths.iter().position(initial),
            Event::PathUp(path) => Some(path).filter(|&p| initial(&view.paths[p])),
            _ => None,
        };
        if let Some(path) = path {
            let missing = self.subflows.saturating_sub(view.subflows_on(path));
            actions.extend((0..missing).map(|_| Action::Open {
                path,
                backup: false,
            }));
        }
    }
}
