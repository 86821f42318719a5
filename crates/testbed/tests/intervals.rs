//! The monitor intervals of a learned controller in the record of a run.

mod common;

use std::collections::{BTreeSet, HashMap};

use common::{run, turn};
use mp_policy::actor::{Pilot, Record};
use mp_record::{Interval, Run};

const TWO_PATHS: &str = r#"
    duration = "4s"
    paths.a = { rate = "20Mbit", delay = "5ms" }
    paths.b = { rate = "10Mbit", delay = "10ms" }
    connections = [{ count = 2 }]
"#;

fn seen(interval: &Interval) -> Record {
    Record {
        rate: interval.rate,
        mss: interval.mss,
        delivered: interval.delivered,
        lost: interval.lost,
        elapsed_us: interval.elapsed_us,
        rtt_us: interval.rtt_us,
        min_rtt_us: interval.min_rtt_us,
    }
}

/// By transfer and subflow, in order.
fn by_subflow(run: &Run) -> HashMap<(u32, u32), Vec<&Interval>> {
    let mut found: HashMap<_, Vec<&Interval>> = HashMap::new();
    for interval in &run.intervals {
        let key = (interval.transfer, interval.subflow);
        found.entry(key).or_default().push(interval);
    }
    let keys: BTreeSet<_> = found.keys().copied().collect();
    assert_eq!(keys, BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]));
    for intervals in found.values() {
        let paths: BTreeSet<_> = intervals.iter().map(|i| &i.path).collect();
        assert_eq!(paths.len(), 1, "one path a subflow");
        assert!(intervals.len() > 10, "{} intervals", intervals.len());
        for (i, interval) in intervals.iter().enumerate() {
            assert_eq!(interval.serial, i as u64 + 1, "none is missing");
            assert!((0.0..30.0).contains(&interval.time_s), "{interval:?}");
        }
        assert!(intervals.windows(2).all(|w| w[0].time_s < w[1].time_s));
    }
    found
}

#[test]
fn the_shipped_actor_gives_the_recorded_answers_to_the_recorded_intervals() {
    let Some(_turn) = turn() else { return };
    let run = run(&format!(
        "{TWO_PATHS}\nvariants = [{{ controller = \"ddpg-mpcc\" }}]"
    ));
    let found = by_subflow(&run);
    for intervals in found.values() {
        let mut pilot = Pilot::shipped();
        for interval in intervals {
            assert_eq!(interval.answer, Some(pilot.answer(&seen(interval))));
        }
    }
    let sampled: BTreeSet<_> = run
        .samples
        .iter()
        .map(|s| (s.transfer, s.subflow, &s.path))
        .collect();
    let recorded: BTreeSet<_> = run
        .intervals
        .iter()
        .map(|i| (i.transfer, i.subflow, &i.path))
        .collect();
    assert_eq!(recorded, sampled, "numbered as in the samples");
    // Coupled: each knows what its sibling sends.
    assert!(run.intervals.iter().any(|i| i.others > 0));
}

#[test]
fn without_an_agent_plain_mpcc_leaves_its_intervals() {
    let Some(_turn) = turn() else { return };
    let run = run(&format!(
        "{TWO_PATHS}\nvariants = [{{ controller = \"ddpg-mpcc\", agent = false }}]"
    ));
    let found = by_subflow(&run);
    assert!(run.intervals.iter().all(|i| i.answer.is_none()));
    for intervals in found.values() {
        // It probes both ways.
        let steps: Vec<_> = intervals
            .windows(2)
            .map(|w| w[1].rate.cmp(&w[0].rate))
            .collect();
        assert!(steps.contains(&std::cmp::Ordering::Less));
        assert!(steps.contains(&std::cmp::Ordering::Greater));
    }
}
