use super::super::fixture::{carry_out, established, paths, view};
use super::super::Subflow;
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
            subflows: vec![established(0)],
            now_us: 0,
        }
    }

    fn on(&mut self, event: Event) {
        let mut paths = paths(self.rates_mbps.len());
        for &(path, rule) in &self.rules {
            paths[path].rule = rule;
        }
        let view = view(self.now_us, &paths, &self.subflows);
        let mut actions = Vec::new();
        self.manager.observe(event, &view, &mut actions);
        for action in actions {
            if let Action::Wake { at_us } = action {
                self.now_us = at_us;
            }
            carry_out(action, &mut self.subflows);
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
fn polls_within_a_round_change_nothing() {
    let (mut often, mut once) = (World::new(&SEVEN), World::new(&SEVEN));
    for world in [&mut often, &mut once] {
        world.on(Event::Established);
    }
    for _ in 0..50 {
        let at = often.now_us;
        for part in (1..4).rev() {
            // Its rates are the world's, whenever it polls.
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
    let told = world.manager.export_state().unwrap();
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
    new.manager
        .import_state(&old.manager.export_state().unwrap(), old.now_us);
    new.on(Event::Established);
    assert!(new.subflows.iter().any(|s| !s.backup && s.path == 5));
    assert!(
        arms(&new).iter().all(|a| a.count == 0.0),
        "it has seen nothing itself"
    );
}

#[test]
fn paths_beyond_a_set_of_links_stay_unused() {
    let mut rates = vec![5.0; MAX_LINKS + 1];
    rates[MAX_LINKS] = 500.0;
    let mut world = World::new(&rates);
    world.on(Event::Established);
    for _ in 0..30 {
        world.on(Event::Timer);
        let used: Vec<usize> = (world.subflows.iter().filter(|s| !s.backup))
            .map(|s| s.path)
            .collect();
        assert!(used.len() == 3 && !used.contains(&MAX_LINKS), "{used:?}");
    }
    world.on(Event::PathDown(MAX_LINKS));
    let seen = paths(rates.len());
    let reasons = world
        .manager
        .reasons(&view(world.now_us, &seen, &world.subflows));
    assert_eq!(reasons[MAX_LINKS], Some(Reason::Unchosen));
}
