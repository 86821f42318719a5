//! What the emulated paths do to real MPTCP connections.

mod common;

use common::{both_carried, bytes_on, goodput, only, run, run_over, turn};
use mp_testbed::Impairments;

/// 20 Mbit/s at 20 ms of round trip, and 40 at 40.
const TWO_PATHS: &str = r#"
    paths.a = { rate = "20Mbit", delay = "10ms" }
    paths.b = { rate = "40Mbit", delay = "20ms" }
    variants = [{ controller = "cubic" }]
"#;

#[test]
fn two_paths_aggregate_and_the_body_arrives_whole() {
    let Some(_turn) = turn() else { return };
    let run = run(&format!(
        "{TWO_PATHS}\nduration = \"20s\"\nconnections = [{{ bytes = \"30MB\" }}]"
    ));
    let transfer = only(&run);
    assert_eq!(transfer.intact, Some(true));
    assert!(!transfer.fallback);
    // A third and two thirds where the machine keeps up.
    both_carried(transfer, 3_000_000);
    for path in ["a", "b"] {
        assert!(run
            .samples
            .iter()
            .any(|s| s.path == path && s.cwnd > 10 && s.srtt_us > 20_000));
    }
}

#[test]
fn an_upload_aggregates_too() {
    let Some(_turn) = turn() else { return };
    let connection = "connections = [{ bytes = \"15MB\", direction = \"upload\" }]";
    let run = run(&format!("{TWO_PATHS}\nduration = \"20s\"\n{connection}"));
    let transfer = only(&run);
    assert_eq!((transfer.intact, transfer.fallback), (Some(true), false));
    both_carried(transfer, 1_500_000);
    assert!(run.samples.iter().any(|s| s.path == "b" && s.cwnd > 10));
    // The server counts for uploads, and this one is alone.
    assert!(run.window_overruns.is_some());
    assert_eq!(transfer.window_overruns, run.window_overruns);
}

#[test]
fn a_path_that_goes_down_does_not_stop_the_transfer() {
    let Some(_turn) = turn() else { return };
    let rest = "connections = [{ bytes = \"15MB\" }]\nevents = [{ at = \"1s\", path = \"b\", outage = true }]";
    let run = run(&format!("{TWO_PATHS}\nduration = \"60s\"\n{rest}"));
    let transfer = only(&run);
    assert_eq!(transfer.intact, Some(true));
    // No more than it carries in a second; without the event it would be 10 MB.
    let on_b = bytes_on(transfer, "b");
    assert!((100_000..6_000_000).contains(&on_b), "{on_b}");
    assert!(bytes_on(transfer, "a") > 9_000_000);
}

#[test]
fn an_outage_of_both_paths_is_survived() {
    let Some(_turn) = turn() else { return };
    let down = |at, path, down| format!("{{ at = \"{at}\", path = \"{path}\", outage = {down} }}");
    let events = [
        down("1s", "a", true),
        down("1s", "b", true),
        down("2s", "a", false),
        down("2s", "b", false),
    ];
    let text = format!(
        "{TWO_PATHS}\nduration = \"60s\"\nconnections = [{{ bytes = \"15MB\" }}]\nevents = [{}]",
        events.join(", ")
    );
    let run = run(&text);
    assert_eq!(only(&run).intact, Some(true));
    assert!(only(&run).end_s.unwrap() > 2.5);
}

#[test]
fn a_shared_link_is_one_bottleneck_for_all_who_meet_there() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "8s"
        links.backhaul = { rate = "20Mbit", delay = "5ms" }
        paths.a = { link = "backhaul", delay = "5ms" }
        paths.b = { link = "backhaul", delay = "5ms" }
        variants = [{ controller = "linux-reno" }]
        [[connections]]
        paths = ["a", "b"]
        [[connections]]
        name = "tcp"
        protocol = "tcp"
        paths = ["a"]
        controller = "linux-reno"
        client = "neighbour"
    "#;
    let (run, counts) = run_over(text, &Impairments::default()).unwrap();
    let [multipath, tcp] = &run.transfers[..] else {
        panic!()
    };
    // Links of their own would give three times as much.
    let sum = goodput(multipath, &run) + goodput(tcp, &run);
    assert!(sum < 25.0, "{sum} Mbit/s in all");
    both_carried(multipath, 100_000);
    assert!(tcp.bytes > 100_000, "{tcp:?}");
    let link = counts.iter().find(|c| c.name == "backhaul").unwrap();
    let seconds = run.elapsed_s.ceil() as u64 + 1;
    assert!(
        link.down.dropped > 0 && link.down.bytes < seconds * 20_100_000 / 8,
        "{link:?}"
    );
}

#[test]
fn a_policed_download_stays_below_the_rate_and_never_queues() {
    let Some(_turn) = turn() else { return };
    let text = r#"
        duration = "5s"
        paths.a = { rate = "100Mbit", delay = "10ms", downlink = { policer = { rate = "10Mbit", burst = "30kB" } } }
        variants = [{ controller = "cubic" }]
    "#;
    let (run, counts) = run_over(text, &Impairments::default()).unwrap();
    let (down, up) = (counts[0].down, counts[0].up);
    assert!(down.policed > 10 && up.policed == 0, "{down:?} {up:?}");
    assert_eq!(down.dropped, 0);
    // Bytes of the burst and of 10 Mbit/s, for as long as anything was sent.
    let seconds = run.elapsed_s.ceil() as u64 + 1;
    assert!(down.bytes <= 30_000 + seconds * 10_000_000 / 8, "{down:?}");
    assert!(down.bytes > 500_000, "{down:?}");
}

#[test]
fn loss_is_what_the_scenario_says_and_the_seed_repeats_it() {
    let Some(_turn) = turn() else { return };
    for loss in ["0.02", "{ gilbert-elliott = { p = 0.005, r = 0.245 } }"] {
        let text = format!(
            "duration = \"20s\"\npaths.a = {{ rate = \"30Mbit\", delay = \"2ms\", loss = {loss} }}\n\
             connections = [{{ bytes = \"12MB\" }}]\nvariants = [{{ controller = \"bbr\" }}]"
        );
        let (run, counts) = run_over(&text, &Impairments::default()).unwrap();
        assert_eq!(only(&run).intact, Some(true));
        let down = counts[0].down;
        let rate = down.lost as f64 / down.entered as f64;
        // Some 8400 packets: a standard deviation of 0.15 points, and of 0.4 for the bursts.
        assert!((rate - 0.02).abs() < 0.012, "{rate}");
        assert_eq!(counts[0].up.lost, 0);
        // The kernel saw the same losses that the emulator made, and some more where the machine stood still.
        let seen = run.samples.last().unwrap().lost as f64 / (down.lost + down.dropped) as f64;
        assert!((0.7..2.0).contains(&seen), "{seen}");
    }
}

#[test]
fn a_slow_trace_does_not_stall() {
    let Some(_turn) = turn() else { return };
    let folder = tempfile::tempdir().unwrap();
    // 1.2 Mbit/s: an opportunity every 10 ms.
    let times: String = (1..=100).map(|i| format!("{}\n", i * 10)).collect();
    let file = folder.path().join("slow.mahi");
    std::fs::write(&file, times).unwrap();
    let run = run(&format!(
        "duration = \"6s\"\npaths.a = {{ trace = \"{}\", delay = \"10ms\" }}\nvariants = [{{ controller = \"cubic\" }}]",
        file.display()
    ));
    let rate = goodput(only(&run), &run);
    assert!((0.5..1.2).contains(&rate), "{rate}");
    // To the end, not only in the beginning.
    let late: Vec<u64> = run
        .samples
        .iter()
        .filter(|s| s.time_s > 4.0)
        .map(|s| s.delivered_bytes)
        .collect();
    let gained = late.last().unwrap() - late.first().unwrap();
    assert!(gained > 50_000, "{gained}");
}

#[test]
fn jitter_spreads_the_delay_and_keeps_the_order() {
    let Some(_turn) = turn() else { return };
    let run = run(
        "duration = \"3s\"\npaths.a = { rate = \"10Mbit\", delay = \"10ms\", jitter = \"0..10ms\", queue = \"2000p\" }\n\
         connections = [{ bytes = \"1MB\" }]\nvariants = [{ controller = \"linux-reno\" }]",
    );
    let last = run.samples.last().unwrap();
    assert_eq!(only(&run).intact, Some(true));
    // Reordered, most of the 700 packets would have been retransmitted; a busy machine has some, and a tail-loss probe is one.
    assert!(last.lost <= 100, "{}", last.lost);
    assert!(
        (20_000..40_000).contains(&last.min_rtt_us),
        "{}",
        last.min_rtt_us
    );
}

#[test]
fn a_queue_with_ecn_marks_what_it_would_have_dropped() {
    let Some(_turn) = turn() else { return };
    let text = |ecn| {
        format!(
            "duration = \"3s\"\nvariants = [{{ controller = \"linux-reno\" }}]\n[paths.a]\nrate = \"10Mbit\"\n\
             delay = \"10ms\"\nqueue = {{ limit = \"1000p\", discipline = \"codel\", ecn = {ecn} }}"
        )
    };
    let (_, without) = run_over(&text(false), &Impairments::default()).unwrap();
    assert!(without[0].down.dropped > 0 && without[0].down.marked == 0);
    let (run, with) = run_over(&text(true), &Impairments::default()).unwrap();
    assert!(with[0].down.marked > 0 && with[0].down.dropped == 0);
    // The sender heeds the marks: the queue stays short, whatever a stall of the machine does to some samples. Full it has 1.2 s.
    let mut srtt_us: Vec<u32> = run.samples.iter().map(|s| s.srtt_us).collect();
    srtt_us.sort_unstable();
    let median = srtt_us[srtt_us.len() / 2];
    assert!(median < 100_000, "{median}");
}
