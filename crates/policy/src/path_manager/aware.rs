//! Path awareness under its two names.

use super::{Action, Event, Known, Manage, View};
use crate::awareness::{Awareness, Config};

/// MPTCP-LA: loss, and what a path contributes.
#[derive(Debug, Clone)]
pub struct LossAware(pub Awareness);

impl Default for LossAware {
    fn default() -> Self {
        LossAware(Awareness::new(Config::loss_aware()))
    }
}

/// MPTCP-MA: signal strength.
#[derive(Debug, Clone)]
pub struct SignalAware(pub Awareness);

impl Default for SignalAware {
    fn default() -> Self {
        SignalAware(Awareness::new(Config::signal_aware()))
    }
}

impl Manage for LossAware {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        self.0.observe(event, view, actions);
    }

    fn told(&self) -> Option<Vec<Known>> {
        self.0.told()
    }

    fn hear(&mut self, known: &[Known], now_us: u64) {
        self.0.hear(known, now_us);
    }
}

impl Manage for SignalAware {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        self.0.observe(event, view, actions);
    }

    fn told(&self) -> Option<Vec<Known>> {
        self.0.told()
    }

    fn hear(&mut self, known: &[Known], now_us: u64) {
        self.0.hear(known, now_us);
    }
}
