//! MS-UCB as a path manager: of all links those carry data that a bandit chose, the others wait as backup.
//!
//! A round lasts [`ROUND_US`]. Its reward for a link in the super-arm is 1 − delay/T_ref, with the delay that a block of
//! [`BLOCK`] bytes takes there: the smoothed RTT and the block at the rate of this round. A subflow stays open once it
//! was opened, so that a change costs one MP_PRIO and no handshake. Where nothing moves at all for [`QUIET`] rounds, there is
//! nothing to send rather than no way through: what follows is no round.
//!
//! A world that wakes it more often than a round lasts does no harm: it waits for the round's end.

use super::{Action, Event, Known, Manage, Path, Rule, State, View};
use crate::awareness::Reason;
use crate::super_arm::{links, reward, Arm, MsUcb, Past, SuperArm, MAX_LINKS};

/// Long enough for several round trips of any link.
const ROUND_US: u64 = 200_000;
const BLOCK: f64 = 65_536.0;
/// T_ref: a link that takes longer for a block is worth nothing.
const REFERENCE_US: f64 = 200_000.0;
/// Links in a super-arm, where there are more.
const SIZE: usize = 3;
/// A dead super-arm is noticed within so many rounds.
const QUIET: u32 = 5;

#[derive(Debug, Clone)]
pub struct Chooser {
    bandit: MsUcb,
    /// What this connection has seen itself: what it tells others.
    own: Vec<Arm>,
    chosen: SuperArm,
    /// When the round began, and what each path had delivered then.
    since_us: u64,
    delivered: Vec<u64>,
    /// Packets and bytes of all subflows then, and rounds since they last grew.
    moved: u64,
    quiet: u32,
}

impl Default for Chooser {
    fn default() -> Self {
        Chooser {
            bandit: MsUcb::new(0, 0, Past::Discounted(0.99), 0),
            own: Vec::new(),
            chosen: 0,
            since_us: 0,
            delivered: Vec::new(),
            moved: 0,
            quiet: 0,
        }
    }
}

fn moved(view: &View<'_>) -> u64 {
    let of = view.subflows.iter().map(|s| s.counters);
    of.map(|c| c.packets() + c.bytes()).sum()
}

fn delivered(view: &View<'_>, path: usize) -> u64 {
    let of = view.subflows.iter().filter(|s| s.path == path);
    of.map(|s| s.counters.bytes()).sum()
}

impl Chooser {
    /// A path beyond [`MAX_LINKS`] never is: paths are numbered as they come, and a set of links has no bit for it.
    fn is_chosen(&self, path: usize) -> bool {
        path < MAX_LINKS && self.chosen >> path & 1 == 1
    }

    /// Whatever it has not chosen is in backup.
    fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        (0..view.paths.len())
            .map(|path| (!self.is_chosen(path)).then_some(Reason::Unchosen))
            .collect()
    }

    fn grow(&mut self, paths: &[Path]) {
        let links = paths.len();
        self.bandit
            .grow(links, SIZE.min(links.saturating_sub(1)).max(1));
        self.own.resize(links, Arm::default());
        self.delivered.resize(links, 0);
    }

    /// What the round that ends brought, of the links that were in use.
    fn learn(&mut self, view: &View<'_>) {
        self.quiet = match moved(view) {
            same if same == self.moved => self.quiet.saturating_add(1),
            _ => 0,
        };
        if self.quiet > QUIET {
            return;
        }
        let elapsed = view.now_us.saturating_sub(self.since_us) as f64;
        let mut rewards = Vec::new();
        for path in links(self.chosen).filter(|&p| p < view.paths.len()) {
            let live = |s: &&super::Subflow| s.path == path && s.state == State::Established;
            let Some(subflow) = view.subflows.iter().find(live) else {
                // Not even open: worth nothing, unless it is only on its way.
                if view.subflows_on(path) == 0 {
                    rewards.push((path, 0.0));
                }
                continue;
            };
            let bytes = delivered(view, path).saturating_sub(self.delivered[path]) as f64;
            let delay = f64::from(subflow.counters.srtt_us.unwrap_or(0)) + BLOCK * elapsed / bytes;
            rewards.push((path, reward(delay, REFERENCE_US)));
        }
        for &(path, reward) in &rewards {
            self.own[path].add(reward);
        }
        if !rewards.is_empty() {
            self.bandit.update(&rewards);
        }
    }

    fn choose(&mut self, view: &View<'_>, actions: &mut Vec<Action>) {
        let set = |wanted: &dyn Fn(&Path) -> bool| -> SuperArm {
            let open = view.paths.iter().enumerate().take(MAX_LINKS);
            let open = open.filter(|(_, p)| p.up && p.rule != Rule::Untrusted && wanted(p));
            open.fold(0, |all, (i, _)| all | 1 << i)
        };
        let available = match set(&|p| p.rule != Rule::Metered) {
            0 => set(&|_| true),
            free => free,
        };
        self.chosen = self.bandit.choose(available);
        (self.since_us, self.moved) = (view.now_us, moved(view));
        for path in 0..view.paths.len() {
            self.delivered[path] = delivered(view, path);
            if self.is_chosen(path) && view.subflows_on(path) == 0 {
                actions.push(Action::Open {
                    path,
                    backup: false,
                });
            }
        }
        for (slot, subflow) in view.subflows.iter().enumerate() {
            let backup = !self.is_chosen(subflow.path);
            if subflow.state != State::Closed && subflow.backup != backup {
                actions.push(Action::SetBackup { slot, backup });
            }
        }
        actions.push(Action::Wake {
            at_us: view.now_us + ROUND_US,
        });
    }

    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        self.grow(view.paths);
        match event {
            Event::Established => self.choose(view, actions),
            Event::Timer if view.now_us < self.since_us + ROUND_US => {}
            Event::Timer => {
                self.learn(view);
                self.choose(view, actions);
            }
            // A round without its links is no round.
            Event::PathDown(path) if self.is_chosen(path) => self.choose(view, actions),
            _ => {}
        }
    }
}

/// Each connection learns for itself.
#[derive(Debug, Clone, Default)]
pub struct Alone(Chooser);

/// A connection begins with what those before it have seen, and tells those after it.
#[derive(Debug, Clone, Default)]
pub struct Federated(Chooser);

impl Manage for Alone {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        self.0.observe(event, view, actions);
    }

    fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        self.0.reasons(view)
    }
}

impl Manage for Federated {
    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        self.0.observe(event, view, actions);
    }

    fn export_state(&self) -> Option<Vec<Known>> {
        Some(self.0.own.iter().copied().map(Known::Worth).collect())
    }

    fn import_state(&mut self, known: &[Known], _now_us: u64) {
        let arms: Vec<Arm> = known.iter().map(Known::worth).collect();
        self.0
            .bandit
            .grow(arms.len(), SIZE.min(arms.len().saturating_sub(1)).max(1));
        self.0.bandit.take_over(&arms);
    }

    fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        self.0.reasons(view)
    }
}

#[cfg(test)]
mod tests;
