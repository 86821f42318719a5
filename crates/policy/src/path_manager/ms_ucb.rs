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
use crate::super_arm::{reward, Arm, MsUcb, Past, SuperArm};

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
    /// Whatever it has not chosen is in backup.
    fn reasons(&self, view: &View<'_>) -> Vec<Option<Reason>> {
        let chosen = |path: usize| self.chosen >> path & 1 == 1;
        (0..view.paths.len())
            .map(|path| (!chosen(path)).then_some(Reason::Unchosen))
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
        for path in crate::super_arm::links(self.chosen).filter(|&p| p < view.paths.len()) {
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
            let open = view.paths.iter().enumerate();
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
            let wanted = self.chosen >> path & 1 == 1;
            if wanted && view.subflows_on(path) == 0 {
                actions.push(Action::Open {
                    path,
                    backup: false,
                });
            }
        }
        for (slot, subflow) in view.subflows.iter().enumerate() {
            let backup = self.chosen >> subflow.path & 1 == 0;
            if subflow.state != State::Closed && subflow.backup != backup {
                actions.push(Action::SetBackup { slot, backup });
            }
        }
        actions.push(Action::Wake {
            at_us: view.now_us + ROUND_US,
        });
    }

    fn observe(&mut self, event: Event, view: &View<'_>, actions: &mut Vec<Action>) {
        if !view.client {
            return;
        }
        self.grow(view.paths);
        match event {
            Event::Established => self.choose(view, actions),
            Event::Timer if view.now_us < self.since_us + ROUND_US => {}
            Event::Timer => {
                self.learn(view);
                self.choose(view, actions);
            }
            // A round without its links is no round.
            Event::PathDown(path) if self.chosen >> path & 1 == 1 => self.choose(view, actions),
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

    fn told(&self) -> Option<Vec<Known>> {
        Some(self.0.own.iter().copied().map(Known::Worth).collect())
    }

    fn hear(&mut self, known: &[Known], _now_us: u64) {
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
mod tests {
    use super::super::{Counters, Role, Subflow};
    use super::*;

    /// Paths that deliver at their own rates while they are not backup.
    struct World {
        manager: Federated,
        rates_mbps: Vec<f64>,
        rules: Vec<(usize, Rule)>,
        subflows: Vec<Subflow>,
        now_us: u64,
    }

    impl World {
        fn new(rates_mbps: &[f64]) -> World {
            World {
                manager: Federated::default(),
                rates_mbps: rates_mbps.to_vec(),
                rules: Vec::new(),
                subflows: vec![Subflow {
                    state: State::Established,
                    ..Subflow::default()
                }],
                now_us: 0,
            }
        }

        fn on(&mut self, event: Event) {
            let paths: Vec<Path> = (0..self.rates_mbps.len())
                .map(|i| Path {
                    local: i as u8,
                    remote: i as u8,
                    up: true,
                    primary: i == 0,
                    rule: (self.rules.iter().find(|(path, _)| *path == i))
                        .map_or(Rule::None, |(_, rule)| *rule),
                    ..Path::default()
                })
                .collect();
            let view = View {
                now_us: self.now_us,
                paths: &paths,
                subflows: &self.subflows,
                role: Role::Sender,
                connections: 1,
                bytes: 0,
                began_us: None,
                client: true,
            };
            let mut actions = Vec::new();
            self.manager.observe(event, &view, &mut actions);
            for action in actions {
                match action {
                    Action::Open { path, backup } => self.subflows.push(Subflow {
                        state: State::Established,
                        path,
                        backup,
                        counters: Counters::default(),
                    }),
                    Action::SetBackup { slot, backup } => self.subflows[slot].backup = backup,
                    Action::Wake { at_us } => self.now_us = at_us,
                    _ => {}
                }
            }
            for s in self.subflows.iter_mut().filter(|s| !s.backup) {
                let bits = self.rates_mbps[s.path] * ROUND_US as f64;
                s.counters.sent.get_or_insert_default().bytes += (bits / 8.0) as u64;
                s.counters.srtt_us = Some(20_000);
            }
        }

        /// Rounds in which exactly these paths carried data.
        fn rounds(&mut self, rounds: usize, best: &[usize]) -> usize {
            (0..rounds)
                .filter(|_| {
                    self.on(Event::Timer);
                    let used = self.subflows.iter().filter(|s| !s.backup);
                    let mut used: Vec<usize> = used.map(|s| s.path).collect();
                    used.sort_unstable();
                    used == best
                })
                .count()
        }
    }

    const SEVEN: [f64; 7] = [2.0, 80.0, 4.0, 60.0, 3.0, 100.0, 2.5];

    #[test]
    fn the_fastest_links_come_to_carry_the_data() {
        let mut world = World::new(&SEVEN);
        world.on(Event::Established);
        world.rounds(150, &[]);
        let (early, late) = (
            World::new(&SEVEN).rounds(20, &[1, 3, 5]),
            world.rounds(100, &[1, 3, 5]),
        );
        assert!(late > 25 && early < 20, "{late} of 100 rounds");
        assert_eq!(world.subflows.len(), 7, "one subflow a link, all kept");
    }

    #[test]
    fn three_links_are_used_at_a_time() {
        let mut world = World::new(&SEVEN);
        world.on(Event::Established);
        for _ in 0..50 {
            world.on(Event::Timer);
            assert_eq!(world.subflows.iter().filter(|s| !s.backup).count(), 3);
        }
        let mut two = World::new(&[5.0, 50.0]);
        two.on(Event::Established);
        two.on(Event::Timer);
        assert_eq!(two.subflows.iter().filter(|s| !s.backup).count(), 1);
    }

    #[test]
    fn looks_within_a_round_change_nothing() {
        let (mut often, mut once) = (World::new(&SEVEN), World::new(&SEVEN));
        for world in [&mut often, &mut once] {
            world.on(Event::Established);
        }
        for _ in 0..50 {
            let at = often.now_us;
            for part in (1..4).rev() {
                // Its rates are the world's, whenever it looks.
                let before = often.subflows.clone();
                often.now_us = at - part * ROUND_US / 4;
                often.on(Event::Timer);
                (often.subflows, often.now_us) = (before, at);
            }
            often.on(Event::Timer);
            once.on(Event::Timer);
        }
        assert_eq!(arms(&often), arms(&once));
        assert!(arms(&once).iter().all(|a| a.count > 0.0));
    }

    #[test]
    fn a_pause_of_the_program_says_nothing_of_its_links() {
        let mut world = World::new(&SEVEN);
        world.on(Event::Established);
        world.rounds(100, &[]);
        let rates = std::mem::replace(&mut world.rates_mbps, vec![0.0; 7]);
        let before: f64 = seen(&world);
        world.rounds(300, &[]);
        assert!(
            seen(&world) <= before + f64::from(3 * (QUIET + 1)),
            "a minute of nothing"
        );
        world.rates_mbps = rates;
        world.rounds(10, &[]);
        assert!(seen(&world) >= before + 20.0, "and then it goes on");
    }

    fn seen(world: &World) -> f64 {
        arms(world).iter().map(|a| a.count).sum()
    }

    fn arms(world: &World) -> Vec<Arm> {
        let told = world.manager.told().unwrap();
        told.iter().map(Known::worth).collect()
    }

    #[test]
    fn rules_come_before_rewards() {
        let mut world = World::new(&SEVEN);
        world.rules = vec![(5, Rule::Metered), (3, Rule::Untrusted)];
        world.on(Event::Established);
        for _ in 0..60 {
            world.on(Event::Timer);
            let used = |path| world.subflows.iter().any(|s| s.path == path && !s.backup);
            assert!(!used(5) && !used(3));
        }
        let mut metered = World::new(&[5.0, 50.0]);
        metered.rules = vec![(0, Rule::Metered), (1, Rule::Metered)];
        metered.on(Event::Established);
        assert!(
            metered.subflows.iter().any(|s| !s.backup),
            "no other is there"
        );
    }

    #[test]
    fn a_newcomer_begins_with_what_others_have_seen() {
        let mut old = World::new(&SEVEN);
        old.on(Event::Established);
        old.rounds(300, &[]);
        let told = arms(&old);
        assert!(told.iter().all(|a| a.count > 0.0));
        let best = |arms: &[Arm]| (0..7).max_by(|&a, &b| arms[a].mean.total_cmp(&arms[b].mean));
        assert_eq!(best(&told), Some(5));
        let mut new = World::new(&SEVEN);
        new.manager.hear(&old.manager.told().unwrap(), old.now_us);
        new.on(Event::Established);
        assert!(new.subflows.iter().any(|s| !s.backup && s.path == 5));
        assert!(
            arms(&new).iter().all(|a| a.count == 0.0),
            "it has seen nothing itself"
        );
    }
}
