//! The environment for learning: questions, answers, and that nothing but the seed decides.

use std::time::Duration;

use mp_record::Interval;
use mp_scenario::{Overrides, Scenario};
use mp_simulator::env::{Answers, Env, Lanes, Range, Replay, Task, Together};

fn scenario(text: &str) -> Scenario {
    let none = |_: &std::path::Path| Err(std::io::Error::other("no files"));
    let text = format!("variants = [{{ controller = \"ddpg-mpcc\" }}]\n{text}");
    let here = std::path::Path::new(".");
    let mut found =
        mp_scenario::parse("test", &text, here, &none, &Overrides::default()).expect("a scenario");
    found.cells.remove(0).scenario
}

fn two_paths() -> Scenario {
    scenario(
        "duration = \"600s\"\n\
         [paths.a]\nrate = \"20Mbit\"\ndelay = \"10ms\"\nqueue = \"40p\"\n\
         [paths.b]\nrate = \"10Mbit\"\ndelay = \"20ms\"\nqueue = \"40p\"\n",
    )
}

fn task() -> Task {
    Task {
        rate_mbps: Some(Range {
            low: 5.0,
            high: 30.0,
        }),
        loss: Some(Range {
            low: 0.0,
            high: 0.05,
        }),
        start: Some(Range {
            low: 0.4,
            high: 0.7,
        }),
        ..Task::new(two_paths())
    }
}

fn play(seed: u64, lanes: usize, threads: usize) -> Vec<Answers> {
    let mut lanes = Lanes::new(task(), lanes, seed, 2, 15, 8);
    let mut last = lanes.step(&[], threads).unwrap();
    let mut all = Vec::new();
    for _ in 0..40 {
        let actions: Vec<f32> = last
            .observations
            .chunks(6)
            .map(|o| 1.0 - 2.0 * o[0])
            .collect();
        last = lanes.step(&actions, threads).unwrap();
        all.push(last.clone());
    }
    all
}

#[test]
fn the_seed_decides_and_the_number_of_threads_does_not() {
    let bits = |answers: &[Answers]| format!("{answers:?}");
    let one = bits(&play(7, 3, 1));
    assert_eq!(one, bits(&play(7, 3, 1)));
    assert_eq!(one, bits(&play(7, 3, 2)));
    assert_ne!(one, bits(&play(8, 3, 1)));
}

#[test]
fn both_subflows_ask_and_episodes_follow_each_other() {
    let played = play(1, 1, 1);
    let who: std::collections::BTreeSet<i32> = played.iter().map(|a| a.agents[0]).collect();
    assert_eq!(who.into_iter().collect::<Vec<_>>(), [0, 1]);
    let begun = played.iter().filter(|a| a.fresh[0] == 1).count();
    assert_eq!(begun, 40 / 15);
    for answers in &played {
        assert!(answers.observations.iter().all(|x| (0.0..=1.0).contains(x)));
        assert_eq!(answers.observations.len(), 6);
    }
}

#[test]
fn an_episode_begins_at_a_part_of_the_utility() {
    for seed in 0..5 {
        let mut lanes = Lanes::new(task(), 1, seed, 1, 10, 1);
        let answers = lanes.step(&[], 1).unwrap();
        // The very first interval follows the rate it was begun at: 40 to 70 % of the utility of one full path.
        let rate = answers.facts[0][1];
        let capacity = 20e6f64.max(30e6) / 8.0;
        assert!(rate > 25_000.0 && rate < 0.7 * capacity, "{rate}");
    }
}

/// Mean utility of one subflow that always answers the same.
fn always(action: f32) -> f64 {
    let one = scenario(
        "duration = \"600s\"\n[paths.a]\nrate = \"20Mbit\"\ndelay = \"20ms\"\nqueue = \"80p\"\n",
    );
    let mut env = Env::new(one, 1, 1, vec![0.6], 1, |_| true).unwrap();
    let mut sum = 0.0;
    for _ in 0..60 {
        let question = env.next_question().expect("a question");
        sum += question.utility.clamp(-question.best, question.best) / question.best;
        env.answer(question.agent, action);
    }
    sum / 60.0
}

#[test]
fn more_is_not_always_better() {
    let (up, hold, down) = (always(1.0), always(0.0), always(-1.0));
    assert!(hold > 0.5 && hold < 0.7, "held at 60 %: {hold}");
    assert!(up < hold, "up {up}, hold {hold}");
    assert!(down < hold, "down {down}, hold {hold}");
}

#[test]
fn who_is_not_asked_runs_plain_mpcc() {
    let mut lanes = Lanes::new(Task::new(two_paths()), 1, 1, 1, 30, 1);
    for _ in 0..30 {
        let answers = lanes.step(&[0.0], 1).unwrap();
        assert_eq!(answers.agents, [0]);
    }
}

#[test]
fn a_scenario_without_a_learned_controller_is_refused() {
    let mut other = two_paths();
    other.variants[0].controller = "lia".into();
    other.duration = std::time::Duration::from_secs(11);
    let error = Lanes::new(Task::new(other), 1, 1, 1, 10, 8)
        .step(&[], 1)
        .unwrap_err();
    assert!(error.to_string().contains("ddpg-mpcc"), "{error}");
}

#[test]
fn a_connection_is_answered_together_and_a_path_in_backup_carries_nothing() {
    let mut all = Together::new(Task::new(two_paths()), 3, 1).unwrap();
    let first = all.reset(3).unwrap();
    assert_eq!(first.observation.len(), 6);
    for _ in 0..5 {
        let shown = all.step(&[0.0, 0.0], &[false, false]);
        assert!(shown.rates.iter().all(|&r| r > 0.0), "{shown:?}");
    }
    let mut shown = first;
    // What it was given before it was set to backup has to leave first.
    for _ in 0..20 {
        shown = all.step(&[0.0, 0.0], &[false, true]);
    }
    assert!(shown.rates[0] > 0.0 && shown.rates[1] == 0.0, "{shown:?}");
    for _ in 0..10 {
        shown = all.step(&[0.0, 0.0], &[false, false]);
    }
    assert!(shown.rates[1] > 0.0, "{shown:?}");
}

/// Goodput in Mbit/s, share lost and round trip in ms of an agent that holds its rate at 95 % of 100 Mbit/s.
fn held(train: u32, delay: u32, loss: f64) -> [f64; 3] {
    let text = format!(
        "duration = \"10h\"\nsegment_train = {train}\n\
         [paths.a]\nrate = \"100Mbit\"\ndelay = \"{delay}ms\"\nqueue = \"400p\"\nloss = {loss}\n"
    );
    let near = Range {
        low: 0.95,
        high: 0.95,
    };
    let task = Task {
        start: Some(near),
        ..Task::new(scenario(&text))
    };
    let mut lanes = Lanes::new(task, 1, 1, 1, u32::MAX, 1);
    let mut sums = [0.0; 4];
    for step in 0..600 {
        let facts = lanes.step(&[], 1).expect("a question").facts[0];
        if step >= 100 {
            for (sum, k) in sums.iter_mut().zip([2, 3, 4, 5]) {
                *sum += facts[k];
            }
        }
    }
    let [delivered, lost, elapsed_us, rtt_us] = sums;
    [
        delivered * 1420.0 * 8.0 / elapsed_us,
        lost / (lost + delivered),
        rtt_us / 500e3,
    ]
}

#[test]
fn trains_see_the_goodput_round_trip_and_loss_that_packets_see() {
    for (delay, loss) in [(12, 0.0), (40, 0.01)] {
        let [goodput, lost, rtt] = held(1, delay, loss);
        let trains = held(64, delay, loss);
        assert!((trains[0] / goodput - 1.0).abs() < 0.02, "{trains:?}");
        assert!((trains[1] - lost).abs() < 0.01, "{trains:?} {lost}");
        assert!((trains[2] / rtt - 1.0).abs() < 0.08, "{trains:?} {rtt}");
    }
}

#[test]
fn a_recorded_interval_is_worth_what_a_watched_one_is() {
    let mut scenario = two_paths();
    scenario.paths[0].down.loss = mp_scenario::Loss::Bernoulli(0.02);
    let variant = scenario.variants[0].clone();
    let connection = scenario.connections[0].name.clone();
    let mut replays = ["a", "b"].map(|path| {
        Replay::new(scenario.clone(), &variant, &connection, path, 1).expect("a replay")
    });
    let mut env = Env::new(scenario, 1, 1, Vec::new(), 8, |_| true).unwrap();
    env.watch(&[0]);
    let mut seen = [0; 2];
    for _ in 0..200 {
        let watched = env.next_question().expect("a report");
        let path = env.path(watched.agent);
        seen[path] += 1;
        let record = watched.record;
        let (_, replayed) = replays[path].next(&Interval {
            time_s: watched.time_s,
            serial: record.serial,
            rate: record.rate,
            delivered: record.delivered,
            lost: record.lost,
            elapsed_us: record.elapsed_us,
            rtt_us: record.rtt_us,
            others: watched.others,
            ..Interval::default()
        });
        let capacity = env.capacity(watched.agent);
        let facts = watched.facts(path, capacity);
        for (ours, theirs) in replays[path].facts(&replayed).iter().zip(facts) {
            // The clock counts whole microseconds.
            let near = 1e-3 * theirs.abs().max(1.0);
            assert!((ours - theirs).abs() <= near, "{replayed:?}");
        }
        let [ours, theirs] = [replayed, watched].map(|q| q.reward().clamp(-1.0, 1.0));
        assert!((ours - theirs).abs() < 1e-3, "{ours} {theirs}");
    }
    assert!(seen.iter().all(|&n| n > 20), "{seen:?}");
}

#[test]
fn every_path_may_be_lossy_and_jitter_changes_no_other_draw() {
    let plain = task();
    let harsh = Task {
        lossy: 1.0,
        jitter_ms: Some(Range {
            low: 2.0,
            high: 2.0,
        }),
        ..task()
    };
    for seed in 0..20 {
        let (ours, theirs) = (harsh.draw(seed).0, plain.draw(seed).0);
        let mut quiet = ours.clone();
        for (path, other) in quiet.paths.values_mut().zip(theirs.paths.values()) {
            assert_ne!(path.down.loss, mp_scenario::Loss::None);
            let late = Some((Duration::ZERO, Duration::from_millis(2)));
            assert_eq!((path.down.jitter, path.up.jitter), (late, late));
            path.down.loss = other.down.loss.clone();
            (path.down.jitter, path.up.jitter) = (None, None);
        }
        assert_eq!(quiet.paths, theirs.paths);
    }
}

#[test]
fn without_its_agent_the_learned_controller_is_plain_mpcc() {
    let mut scenario = two_paths();
    scenario.duration = Duration::from_secs(5);
    let bytes = |controller: &str, agent| {
        let variant = mp_scenario::Variant {
            controller: controller.into(),
            agent,
            ..scenario.variants[0].clone()
        };
        let run = mp_simulator::simulate(&scenario, &variant, 1).expect("a run");
        run.transfers[0].bytes as f64
    };
    let (left, plain) = (bytes("ddpg-mpcc", false), bytes("mpcc", true));
    // It waits in vain for three answers, once.
    assert!((left / plain - 1.0).abs() < 0.1, "{left} {plain}");
    assert_ne!(left, bytes("ddpg-mpcc", true));
}
