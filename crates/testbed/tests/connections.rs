//! How connections use their paths: path managers, fallback, many at once.

mod common;

use std::collections::HashMap;

use common::{both_carried, bytes_on, only, run, run_over, turn};
use mp_record::{Sample, Transfer};
use mp_testbed::{Error, Impairments};

/// The run ends with the transfer.
const TWO_PATHS: &str = r#"
    duration = "60s"
    paths.a = { rate = "20Mbit", delay = "5ms" }
    paths.b = { rate = "20Mbit", delay = "5ms" }
    connections = [{ bytes = "6MB" }]
"#;

#[test]
fn a_peer_without_mptcp_means_fallback_and_is_said() {
    let Some(_turn) = turn() else { return };
    let impairments = Impairments {
        server_without_mptcp: true,
        ..Impairments::default()
    };
    let (run, _) = run_over(TWO_PATHS, &impairments).unwrap();
    let transfer = only(&run);
    assert!(transfer.fallback && transfer.multipath);
    assert_eq!(transfer.intact, Some(true));
    assert_eq!(bytes_on(transfer, "b"), 0);
    assert!(bytes_on(transfer, "a") >= 6_000_000);
    assert!(
        run.notes.iter().any(|n| n.contains("fell back")),
        "{:?}",
        run.notes
    );
}

#[test]
fn a_middlebox_that_strips_the_option_means_fallback_and_is_said() {
    let Some(_turn) = turn() else { return };
    let impairments = Impairments {
        stripping: vec!["a".into()],
        ..Impairments::default()
    };
    let (run, _) = run_over(TWO_PATHS, &impairments).unwrap();
    assert!(only(&run).fallback);
    assert_eq!(only(&run).intact, Some(true));
    assert!(
        run.notes.iter().any(|n| n.contains("fell back")),
        "{:?}",
        run.notes
    );
}

#[test]
fn a_middlebox_on_the_second_path_only_costs_that_path() {
    let Some(_turn) = turn() else { return };
    let impairments = Impairments {
        stripping: vec!["b".into()],
        ..Impairments::default()
    };
    let (run, _) = run_over(TWO_PATHS, &impairments).unwrap();
    assert!(!only(&run).fallback);
    assert_eq!(only(&run).intact, Some(true));
    assert_eq!(bytes_on(only(&run), "b"), 0);
}

#[test]
fn a_backup_path_stays_idle_until_the_first_one_fails() {
    let Some(_turn) = turn() else { return };
    let variant = "variants = [{ path_manager = \"backup\" }]";
    let quiet = run(&format!("{TWO_PATHS}\n{variant}"));
    assert!(bytes_on(only(&quiet), "b") < 100_000);
    assert!(quiet.samples.iter().any(|s| s.path == "b" && s.backup));
    let event = "events = [{ at = \"1s\", path = \"a\", outage = true }]";
    let failed = run(&format!("{TWO_PATHS}\n{variant}\n{event}"));
    assert_eq!(only(&failed).intact, Some(true));
    assert!(bytes_on(only(&failed), "b") > 2_000_000);
}

/// The buffer is too small to wait for what the path loses.
#[test]
fn a_lossy_path_is_set_to_backup_by_the_client_alone() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "8s"
        sample_interval = "50ms"
        paths.a = { rate = "20Mbit", delay = "5ms" }
        paths.b = { rate = "20Mbit", delay = "10ms" }
        buffers = { autotune = false, receive = "256kB" }
        connections = [{ direction = "upload" }]
        events = [{ at = "1s", path = "a", loss = 0.1 }]
        variants = [{ controller = "lia", path_manager = "loss-aware" }]
    "#;
    let run = run(text);
    assert!(run.samples.iter().any(|s| s.path == "a" && s.backup));
}

/// By probes, or at the end of its time in backup. How soon, and that it stays in use, is exact in the simulator alone
/// (`a_path_restored_after_its_loss_stays_in_use`).
#[test]
fn a_path_in_backup_for_its_loss_is_used_again_after_that_has_ended() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "26s"
        sample_interval = "50ms"
        paths.a = { rate = "20Mbit", delay = "5ms" }
        paths.b = { rate = "20Mbit", delay = "10ms" }
        buffers = { autotune = false, receive = "256kB" }
        connections = [{ direction = "upload" }]
        events = [
            { at = "1s", path = "a", loss = 0.1 },
            { at = "10s", path = "a", loss = 0.0 },
        ]
        variants = [{ controller = "lia", path_manager = "loss-aware" }]
    "#;
    let run = run(text);
    let on_a = || run.samples.iter().filter(|s| s.path == "a");
    let mut states: Vec<(f64, bool)> = on_a().map(|s| (s.time_s, s.backup)).collect();
    states.dedup_by_key(|s| s.1);
    // Probes that were answered by chance may have restored it meanwhile.
    assert!(on_a().any(|s| s.time_s < 10.0 && s.backup), "{states:?}");
    assert!(on_a().any(|s| s.time_s > 10.0 && !s.backup), "{states:?}");
}

/// RM_ADDR, which the other path takes far longer to carry than this one a handshake, closes what the peer then has from the
/// address: a new subflow too.
#[test]
fn the_path_that_a_connection_began_on_is_used_again_after_it_was_dead() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "16s"
        sample_interval = "100ms"
        paths.a = { rate = "20Mbit", delay = "5ms" }
        paths.b = { rate = "20Mbit", delay = "80ms" }
        connections = [{ direction = "upload" }]
        events = [
            { at = "2s", path = "a", outage = true },
            { at = "7s", path = "a", outage = false },
        ]
        variants = [{ path_manager = "loss-aware" }]
    "#;
    let run = run(text);
    let mut late: HashMap<u32, (u64, u64)> = HashMap::new();
    for s in &run.samples {
        if s.path == "a" && s.time_s > 10.0 {
            let seen = s.delivered_bytes;
            late.entry(s.subflow).or_insert((seen, seen)).1 = seen;
        }
    }
    let carried: u64 = late.values().map(|(first, last)| last - first).sum();
    assert!(carried > 1_000_000, "{carried} bytes: {late:?}");
    // The stream in order, whichever path brought it.
    let in_order: Vec<u64> = (run.samples.iter())
        .map(|s| s.in_order_bytes.expect("what the server took"))
        .collect();
    assert!(in_order.is_sorted());
    let (last, all) = (in_order[in_order.len() - 1], run.transfers[0].bytes);
    assert!(last <= all && last > all / 2, "{last} of {all}");
}

#[test]
fn a_weak_signal_sets_its_path_to_backup_until_it_is_back() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "5s"
        sample_interval = "50ms"
        paths.a = { rate = "20Mbit", delay = "5ms" }
        paths.b = { rate = "20Mbit", delay = "10ms" }
        connections = [{}]
        events = [
            { at = "1s", path = "a", signal = "-80dBm" },
            { at = "3s", path = "a", signal = "-60dBm" },
        ]
        variants = [{ path_manager = "signal-aware" }]
    "#;
    let run = run(text);
    let mut states: Vec<(f64, bool)> = (run.samples.iter())
        .filter(|s| s.path == "a" && s.time_s > 0.3)
        .map(|s| (s.time_s, s.backup))
        .collect();
    states.dedup_by_key(|s| s.1);
    let changed = |from: f64, to: f64, backup: bool| {
        let when = |s: &&(f64, bool)| (from..to).contains(&s.0);
        states.iter().filter(when).any(|s| s.1 == backup)
    };
    // While the signal is weak, and once it is strong again.
    assert!(changed(1.0, 3.0, true), "{states:?}");
    assert!(changed(3.0, 5.0, false), "{states:?}");
}

#[test]
fn a_metered_path_carries_data_only_while_no_other_does() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "9s"
        sample_interval = "50ms"
        paths.a = { rate = "20Mbit", delay = "5ms" }
        paths.b = { rate = "20Mbit", delay = "10ms", rule = "metered" }
        paths.c = { rate = "20Mbit", delay = "10ms", rule = "untrusted" }
        connections = [{}]
        events = [{ at = "3s", path = "a", outage = true }]
        variants = [{ path_manager = "loss-aware" }]
    "#;
    let run = run(text);
    let on = |path: &str, t: f64| {
        let of = |s: &&Sample| s.path == path && s.time_s <= t;
        let counts = run.samples.iter().filter(of).map(|s| s.delivered_bytes);
        counts.max().unwrap_or(0)
    };
    let at = [1.0, 2.9, 9.0].map(|t| on("b", t));
    assert!(at[1] - at[0] < 20_000, "{at:?}");
    assert!(at[2] - at[1] > 1_000_000, "{at:?}");
    assert_eq!(on("c", 9.0), 0, "untrusted");
}

/// The kernel tells it once, in a packet that nobody acknowledges.
#[test]
fn a_peer_that_does_not_know_that_a_path_is_in_backup_is_told_again() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "10s"
        sample_interval = "50ms"
        paths.a = { rate = "5Mbit", delay = "5ms", rule = "metered" }
        paths.b = { rate = "5Mbit", delay = "10ms" }
        connections = [{}]
        variants = [{ path_manager = "loss-aware" }]
    "#;
    let impairments = Impairments {
        deaf: vec![("a".into(), 1)],
        ..Impairments::default()
    };
    let (run, _) = run_over(text, &impairments).unwrap();
    let on_a = |t: f64| {
        let of = |s: &&Sample| s.path == "a" && s.time_s <= t;
        let counts = run.samples.iter().filter(of).map(|s| s.delivered_bytes);
        counts.max().unwrap_or(0)
    };
    let at = [1.0, 7.0, 10.0].map(on_a);
    // In the time in which it was told, a tenth of a second, the path carries 60 kB.
    assert!(at[0] > 100_000, "it began there and did not know: {at:?}");
    assert!(at[2] - at[1] < 20_000, "{at:?}");
}

#[test]
fn ms_ucb_plays_on_real_subflows_with_ld_mpsp() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "12s"
        sample_interval = "50ms"
        paths.a = { rate = "500kbit", delay = "60ms", queue = "10p" }
        paths.b = { rate = "10Mbit", delay = "10ms" }
        paths.c = { rate = "10Mbit", delay = "5ms" }
        connections = [{ direction = "upload" }]
        variants = [{ controller = "ld-mpsp", path_manager = "ms-ucb", parameters.target_us = 30000 }]
    "#;
    let run = run(text);
    let in_backup = |path: &str| {
        let of = || (run.samples.iter()).filter(|s| s.path == path && s.time_s > 4.0);
        of().filter(|s| s.backup).count() as f64 / of().count().max(1) as f64
    };
    let (a, b, c) = (in_backup("a"), in_backup("b"), in_backup("c"));
    let said = format!("in backup {a:.2} {b:.2} {c:.2} of the time");
    // Two of three carry data at a time, and the bad one, on which the connection began, is tried now and then. How often is
    // exact in the simulator alone.
    assert!(a > 0.0 && a < 1.0, "{said}");
    for path in ["a", "b", "c"] {
        assert!(bytes_on(only(&run), path) > 50_000);
    }
}

#[test]
fn a_backup_event_moves_the_traffic_away() {
    let Some(_turn) = turn() else { return };
    let text = TWO_PATHS.replace("6MB", "12MB");
    let run = run(&format!(
        "{text}\nevents = [{{ at = \"1s\", path = \"a\", backup = true }}]"
    ));
    let transfer = only(&run);
    assert_eq!(transfer.intact, Some(true));
    let (a, b) = (bytes_on(transfer, "a"), bytes_on(transfer, "b"));
    assert!(a < 5_000_000 && b > 7_000_000, "{a} {b}");
    assert!(run
        .samples
        .iter()
        .any(|s| s.path == "a" && s.backup && s.time_s > 1.0));
}

#[test]
fn ndiffports_opens_two_subflows_over_the_first_path() {
    let Some(_turn) = turn() else { return };
    let run = run(&format!(
        "{TWO_PATHS}\nvariants = [{{ path_manager = \"ndiffports\" }}]"
    ));
    assert_eq!(bytes_on(only(&run), "b"), 0);
    let subflows: std::collections::BTreeSet<u32> = run.samples.iter().map(|s| s.subflow).collect();
    assert_eq!(subflows.len(), 2, "{:?}", run.notes);
    assert!(run
        .samples
        .iter()
        .filter(|s| s.subflow == 1)
        .any(|s| s.delivered_bytes > 200_000));
}

#[test]
fn a_single_path_is_one_subflow_and_no_fallback() {
    let Some(_turn) = turn() else { return };
    let run = run(&format!(
        "{TWO_PATHS}\nvariants = [{{ path_manager = \"single\" }}]"
    ));
    assert!(!only(&run).fallback);
    assert_eq!(bytes_on(only(&run), "b"), 0);
    assert!(run.samples.iter().all(|s| s.subflow == 0));
    // One subflow's data are in order.
    assert_eq!(only(&run).window_overruns, Some(0));
}

#[test]
fn many_connections_from_several_hosts_and_short_ones_between() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "5s"
        paths.a = { rate = "20Mbit", delay = "5ms" }
        paths.b = { rate = "20Mbit", delay = "5ms" }
        [[connections]]
        name = "long"
        count = 3
        [[connections]]
        name = "other"
        client = "second"
        count = 2
        [[connections]]
        name = "short"
        bytes = "50kB"
        arrivals = "4/s"
        count = 20
        [[connections]]
        name = "timed"
        lasting = "1s..2s"
        start = "1s"
    "#;
    let run = run(text);
    let of = |name: &str| {
        run.transfers
            .iter()
            .filter(|t| t.connection == name)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (of("long").len(), of("other").len(), of("timed").len()),
        (3, 2, 1)
    );
    assert!(
        (6..50).contains(&of("short").len()),
        "{}",
        of("short").len()
    );
    assert!(
        of("short")
            .iter()
            .filter(|t| t.intact == Some(true))
            .count()
            >= 5
    );
    assert!(of("long")
        .iter()
        .chain(&of("other"))
        .all(|t| t.end_s.is_none() && t.bytes > 100_000));
    let timed = of("timed")[0];
    assert!((1.9..5.0).contains(&timed.end_s.unwrap()), "{timed:?}");
    let on = |path| -> u64 { run.transfers.iter().map(|t| bytes_on(t, path)).sum() };
    assert!(on("a") > 1_000_000 && on("b") > 1_000_000);
    assert!(run
        .transfers
        .iter()
        .enumerate()
        .all(|(i, t)| t.id == i as u32));
}

#[test]
fn a_coupled_controller_of_ours_carries_the_data_and_is_gone_afterwards() {
    let Some(_turn) = turn() else { return };
    let run = run(&format!(
        "{TWO_PATHS}\nvariants = [{{ controller = \"lia\" }}]"
    ));
    assert_eq!(only(&run).intact, Some(true));
    both_carried(only(&run), 600_000);
}

#[test]
fn what_the_kernel_world_lacks_is_said_in_one_line() {
    let Some(_turn) = turn() else { return };
    let error = run_over(
        &format!("{TWO_PATHS}\nvariants = [{{ scheduler = \"round-robin\" }}]"),
        &Impairments::default(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("--world sim"), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(!matches!(error, Error::Stopped));
}

#[test]
fn a_program_of_the_users_runs_over_mptcp_and_is_counted() {
    let Some(_turn) = turn() else { return };
    let command =
        |text: &str| TWO_PATHS.replace("{ bytes", &format!("{{ command = '{text}', bytes"));
    let run = run(&command(
        "curl -sS --fail --interface \"$MULTIPILOT_ADDRESS\" -o /dev/null \"$MULTIPILOT_URL\"",
    ));
    let transfer = only(&run);
    assert!(
        transfer.end_s.is_some() && !transfer.fallback,
        "{:?}",
        run.notes
    );
    assert!((6_000_000..6_500_000).contains(&transfer.bytes));
    both_carried(transfer, 600_000);

    let failed = common::run(&command("echo no such luck >&2; exit 3"));
    assert_eq!(only(&failed).end_s, None);
    assert!(
        failed.notes[0].contains("exit status: 3: no such luck"),
        "{:?}",
        failed.notes
    );
}

#[test]
fn a_bandit_no_longer_starts_connections_on_a_bad_wifi() {
    let Some(_turn) = turn() else { return };
    let text = |initial: &str, duration: &str| {
        format!(
            "duration = '{duration}'\n[paths.wifi]\nrate = '2Mbit'\ndelay = '40ms'\n[paths.lte]\nrate = '20Mbit'\ndelay = '15ms'\n\
             [[connections]]\nbytes = '20kB'\narrivals = '9/s'\ncount = 3\n[[variants]]\ninitial_path = '{initial}'\n"
        )
    };
    let learnt = run(&text("active-explorer", "24s"));
    let decisions = &learnt.decisions;
    assert!(decisions.len() > 60, "{} connections", decisions.len());
    // By then it has been trained on all of the first fifty, by a busy machine too.
    let first = decisions.len() * 7 / 8;
    let late = &decisions[first..];
    let good = late.iter().filter(|d| d.arm == "lte").count();
    assert!(
        good * 2 > late.len(),
        "{good} of the last {} started on LTE",
        late.len()
    );
    for decision in decisions.iter().filter(|d| d.reward.is_some()) {
        assert!(decision.throughput_mbps.unwrap() > 0.0 && decision.features.len() == 20);
        // The round trip of the path that it did start on, as the emulator made it.
        let least = if decision.arm == "lte" { 29.0 } else { 79.0 };
        assert!(decision.latency_ms.unwrap() > least, "{decision:?}");
    }
    // Of the few, one that meets a stall of this machine would move the mean.
    let median = |transfers: &[Transfer]| {
        let ends = transfers.iter().filter_map(|t| Some(t.end_s? - t.start_s));
        let mut took: Vec<f64> = ends.collect();
        took.sort_by(f64::total_cmp);
        took[took.len() / 2]
    };
    let stock = run(&text("first", "5s"));
    assert!(stock.decisions.is_empty());
    let with = median(&learnt.transfers[first..]);
    let without = median(&stock.transfers);
    assert!(with < without, "{with:.3} s against {without:.3} s");
}
