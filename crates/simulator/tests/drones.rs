//! The policies of paper drones at work: cloning, delay balancing, MS-UCB alone and federated.

mod common;

use common::{goodput, mbit, ms, path, scenario, variant};
use mp_record::Run;
use mp_scenario::Scenario;

fn run(scenario: &Scenario, scheduler: &str, manager: &str) -> Run {
    let mut variant = variant("reno");
    variant.scheduler = scheduler.into();
    variant.path_manager = manager.into();
    common::simulate(scenario, &variant, 1)
}

/// Two paths of 20 Mbit/s; a download of so many bytes.
fn two(loss: f64, bytes: u64) -> Scenario {
    let paths = vec![
        path(mbit(20), ms(10), 100, loss),
        path(mbit(20), ms(15), 100, loss),
    ];
    let mut scenario = scenario(paths, ms(60_000));
    scenario.connections[0].bytes = Some(bytes);
    scenario
}

fn arrived(run: &Run) -> u64 {
    run.transfers[0].path_bytes.iter().map(|(_, b)| b).sum()
}

/// What arrived over all paths, of the stream's own size.
fn extra(run: &Run, bytes: u64) -> f64 {
    let transfer = &run.transfers[0];
    assert_eq!(transfer.bytes, bytes, "neither less nor twice");
    assert!(transfer.end_s.is_some());
    arrived(run) as f64 / bytes as f64
}

#[test]
fn cloning_sends_twice_as_much_as_is_lost() {
    let bytes = 3_000_000;
    for loss in [0.05, 0.1] {
        let cloned = extra(&run(&two(loss, bytes), "cloning", "fullmesh"), bytes);
        // c_p = p / (1 - p), of a p that is measured over few packets.
        let share = loss / (1.0 - loss);
        assert!(
            (0.5 * share..2.0 * share).contains(&(cloned - 1.0)),
            "{loss}: {cloned}"
        );
    }
    extra(&run(&two(0.3, 500_000), "cloning", "fullmesh"), 500_000);
}

#[test]
fn a_short_flow_is_cloned_without_loss() {
    let bytes = 60_000;
    // Slow enough that the second subflow is there before the end.
    let paths = vec![path(mbit(2), ms(10), 100, 0.0); 2];
    let mut scenario = scenario(paths, ms(60_000));
    scenario.connections[0].bytes = Some(bytes);
    let of = |scheduler| extra(&run(&scenario, scheduler, "fullmesh"), bytes);
    let (cloned, plain) = (of("cloning"), of("min-rtt"));
    assert!(cloned > plain + 0.2, "{cloned} against {plain}");
}

#[test]
fn without_loss_a_long_flow_is_not_cloned() {
    let bytes = 10_000_000;
    // Queues that take all of it: the loss of a full one would count.
    let paths = vec![
        path(mbit(20), ms(10), 10_000, 0.0),
        path(mbit(20), ms(15), 10_000, 0.0),
    ];
    let mut scenario = scenario(paths, ms(60_000));
    scenario.connections[0].bytes = Some(bytes);
    let cloned = extra(&run(&scenario, "cloning", "fullmesh"), bytes);
    let plain = extra(&run(&scenario, "min-rtt", "fullmesh"), bytes);
    assert_eq!(cloned, plain);
    assert!(cloned < 1.01, "{cloned}");
}

#[test]
fn full_segments_have_no_short_end() {
    let bytes = 10_000_000;
    for scheduler in ["min-rtt", "round-robin"] {
        let carried = extra(&run(&two(0.0, bytes), scheduler, "fullmesh"), bytes);
        assert!(carried < 1.02, "{scheduler}: {carried}");
    }
}

#[test]
fn delay_balancing_uses_both_paths() {
    let bytes = 10_000_000;
    let run = run(&two(0.0, bytes), "delay-balance", "fullmesh");
    assert_eq!(run.transfers[0].bytes, bytes);
    let end = run.transfers[0].end_s.expect("it ends");
    // 80 Mbit over 40 Mbit/s take 2 s at best, over one path alone 4 s.
    assert!(end < 3.5, "{end} s");
}

fn seven(connections: u32) -> Scenario {
    let rates = [2, 30, 3, 25, 2, 40, 3];
    let paths = rates.map(|r| path(mbit(r), ms(10), 100, 0.0)).to_vec();
    let mut scenario = scenario(paths, ms(20_000));
    scenario.connections[0].count = connections;
    scenario
}

#[test]
fn ms_ucb_finds_links_worth_using() {
    let ours = run(&seven(1), "default", "ms-ucb");
    let carried = &ours.transfers[0].path_bytes;
    let of = |names: [&str; 3]| -> u64 {
        carried
            .iter()
            .filter(|(n, _)| names.contains(&n.as_str()))
            .map(|(_, b)| b)
            .sum()
    };
    assert!(of(["b", "d", "f"]) > 4 * of(["a", "c", "e"]), "{carried:?}");
    assert!(goodput(&ours) > goodput(&run(&seven(1), "default", "single")));
}

#[test]
fn a_federated_connection_begins_where_others_are() {
    // One after the other over the same links: beside one that fills their queues, a newcomer's first seconds are chance.
    let mut scenario = seven(1);
    scenario.duration = ms(12_000);
    let mut first = scenario.connections[0].clone();
    let mut late = first.clone();
    first.lasting = Some((ms(9_500), ms(9_500)));
    late.name = "late".into();
    late.start = ms(10_000);
    scenario.connections = vec![first, late];
    // One seed says little: of 96, 22 are below 1.5, and in 17 of those the newcomer stalls alike either way.
    let early = |manager: &str| {
        let mut variant = variant("reno");
        variant.path_manager = manager.into();
        let bytes = |seed| {
            let run = common::simulate(&scenario, &variant, seed);
            let late = run.transfers.iter().find(|t| t.connection == "late");
            late.expect("it started").bytes
        };
        (1..17).map(bytes).sum::<u64>()
    };
    let (alone, federated) = (early("ms-ucb"), early("ms-ucb-federated"));
    assert!(2 * federated > 3 * alone, "{federated} against {alone}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for (scheduler, manager) in [("cloning", "ms-ucb-federated"), ("delay-balance", "ms-ucb")] {
        let bytes = |run: Run| {
            run.transfers
                .iter()
                .map(|t| t.path_bytes.clone())
                .collect::<Vec<_>>()
        };
        let mut scenario = seven(2);
        scenario.duration = ms(3_000);
        let (a, b) = (
            run(&scenario, scheduler, manager),
            run(&scenario, scheduler, manager),
        );
        assert_eq!(bytes(a), bytes(b));
    }
}

/// Mean queueing delay of the second half of a run, ms, on paths of 20 ms.
fn late_queue_ms(run: &Run, half_s: f64) -> f64 {
    let late: Vec<f64> = (run.samples.iter())
        .filter(|s| s.time_s > half_s)
        .map(|s| f64::from(s.srtt_us) / 1e3 - 20.0)
        .collect();
    late.iter().sum::<f64>() / late.len() as f64
}

#[test]
fn delay_balancing_sets_the_target_of_ld_mpsp() {
    // Queues of 120 ms: longer than the balanced target, shorter than the setting.
    let paths = vec![path(mbit(20), ms(10), 200, 0.0); 2];
    let mut scenario = scenario(paths, ms(40_000));
    scenario.sample_interval = ms(100);
    let of = |scheduler: &str| {
        let mut variant = variant("ld-mpsp");
        variant.scheduler = scheduler.into();
        variant.parameters.insert("target_us".into(), 200_000);
        let run = common::simulate(&scenario, &variant, 1);
        let carried = goodput(&run);
        assert!(carried > 20.0, "{scheduler}: {carried} Mbit/s");
        late_queue_ms(&run, 20.0)
    };
    let fixed = of("min-rtt");
    // 64 packets over both links take 19 ms, whatever the setting says.
    for scheduler in ["delay-balance", "ld-mpsp"] {
        let balanced = of(scheduler);
        assert!(
            balanced < 0.6 * fixed,
            "{scheduler}: {balanced} ms, with the setting {fixed} ms"
        );
    }
}
