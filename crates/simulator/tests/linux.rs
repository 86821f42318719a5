//! CUBIC and BBR on a link that is known: 20 Mbit/s, 50 ms there and back, 200 packets of buffer (120 ms).

use mp_record::{Run, Sample};
use mp_scenario::{parse, Overrides, Scenario};

/// Payload of a full packet, of 1500 bytes.
const SHARE: f64 = 1448.0 / 1500.0;
/// Packets in flight that fill the link: 20 Mbit/s · 50 ms / 1500 bytes.
const PIPE: f64 = 83.3;

fn scenario(controller: &str, loss: f64) -> Scenario {
    let text = format!(
        "title = \"one link\"\nduration = \"40s\"\nsample_interval = \"20ms\"\n\
         [paths.p]\nrate = \"20Mbit\"\ndelay = \"25ms\"\nqueue = \"200p\"\nloss = {loss}\n\
         [[connections]]\npaths = [\"p\"]\nprotocol = \"tcp\"\n\
         [[variants]]\ncontroller = \"{controller}\"\n"
    );
    let none = |_: &std::path::Path| unreachable!("no trace");
    let experiment = parse(
        "link.toml",
        &text,
        ".".as_ref(),
        &none,
        &Overrides::default(),
    )
    .expect("a valid scenario");
    experiment.cells[0].scenario.clone()
}

fn run(controller: &str, loss: f64, seed: u64) -> Run {
    let scenario = scenario(controller, loss);
    mp_simulator::simulate(&scenario, &scenario.variants[0], seed).expect("runs")
}

fn mbps(run: &Run) -> f64 {
    run.transfers[0].bytes as f64 * 8e-6 / run.elapsed_s
}

/// Median over the samples from `from` s on.
fn median(run: &Run, from: f64, what: impl Fn(&Sample) -> f64) -> f64 {
    let mut values: Vec<f64> = run
        .samples
        .iter()
        .filter(|s| s.time_s >= from)
        .map(what)
        .collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn bbr_finds_bandwidth_and_round_trip() {
    let run = run("bbr", 0.0, 1);
    assert!(mbps(&run) > 0.93 * 20.0 * SHARE, "{} Mbit/s", mbps(&run));
    let min_rtt = median(&run, 2.0, |s| f64::from(s.min_rtt_us));
    assert!((50_000.0..51_500.0).contains(&min_rtt), "{min_rtt} us");
    // Paced at the bandwidth most of the time (payload bytes/s, 1 % below), and a window of two pipes.
    let rate = median(&run, 2.0, |s| s.pacing_rate as f64) * 8e-6;
    assert!((rate / (20.0 * SHARE) - 0.99).abs() < 0.04, "{rate} Mbit/s");
    let cwnd = median(&run, 2.0, |s| f64::from(s.cwnd));
    assert!((1.8 * PIPE..2.5 * PIPE).contains(&cwnd), "{cwnd} packets");
}

#[test]
fn bbr_keeps_the_queue_short_and_cubic_fills_it() {
    let queue = |run: &Run| median(run, 5.0, |s| f64::from(s.srtt_us)) / 1e3 - 50.0;
    let (bbr, cubic) = (run("bbr", 0.0, 1), run("cubic", 0.0, 1));
    assert!(queue(&bbr) < 20.0, "{} ms", queue(&bbr));
    assert!(queue(&cubic) > 50.0, "{} ms", queue(&cubic));
    assert!(
        mbps(&cubic) > 0.95 * 20.0 * SHARE,
        "{} Mbit/s",
        mbps(&cubic)
    );
}

#[test]
fn bbr_probes_the_round_trip_every_ten_seconds() {
    let run = run("bbr", 0.0, 1);
    let low: Vec<f64> = run
        .samples
        .iter()
        .filter(|s| s.cwnd <= 4 && s.time_s > 1.0)
        .map(|s| s.time_s)
        .collect();
    let mut probes = low.clone();
    probes.dedup_by(|b, a| *b - *a < 2.0);
    assert!((3..=4).contains(&probes.len()), "{probes:?}");
    for (probe, next) in probes.iter().zip(&probes[1..]) {
        assert!((9.5..12.0).contains(&(next - probe)), "{probes:?}");
    }
    // 200 ms and a round each.
    let each = low.len() as f64 * 0.02 / probes.len() as f64;
    assert!((0.15..0.5).contains(&each), "{each} s");
}

#[test]
fn bbr_shrugs_off_random_loss_and_cubic_does_not() {
    let mean = |controller| {
        (1..=3)
            .map(|seed| mbps(&run(controller, 0.01, seed)))
            .sum::<f64>()
            / 3.0
    };
    let (bbr, cubic) = (mean("bbr"), mean("cubic"));
    assert!(bbr > 0.85 * 20.0 * SHARE, "{bbr} Mbit/s");
    assert!(cubic < 0.4 * bbr, "{cubic} Mbit/s");
}

#[test]
fn cubic_goes_back_to_seven_tenths() {
    let run = run("cubic", 0.0, 1);
    let windows: Vec<f64> = run
        .samples
        .iter()
        .filter(|s| s.time_s > 5.0)
        .map(|s| f64::from(s.cwnd))
        .collect();
    let full = PIPE + 200.0;
    let most = windows.iter().copied().fold(0.0, f64::max);
    let least = windows.iter().copied().fold(f64::MAX, f64::min);
    assert!((0.95 * full..1.25 * full).contains(&most), "{most} packets");
    assert!(
        (0.6..0.76).contains(&(least / most)),
        "{least} after {most} packets"
    );
}
