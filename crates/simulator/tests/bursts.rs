//! How packets bunch, and what that does to those who share a queue: pinned to what Linux 6.18 does on emulated paths.

mod common;
use common::*;

use pcap_file::pcapng::{Block, PcapNgReader};

/// IP lengths of all packets that the client sees.
fn lengths(scenario: &mp_scenario::Scenario, controller: &str) -> Vec<u32> {
    let mut out = Vec::new();
    mp_simulator::capture(scenario, &variant(controller), 1, &mut out).expect("runs");
    let mut reader = PcapNgReader::new(&out[..]).expect("a capture");
    let mut lengths = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("a block") {
            lengths.push(packet.original_len);
        }
    }
    lengths
}

/// Two subflows and one TCP meet at a bottleneck of 20 Mbit/s, 40 ms.
fn shared() -> mp_scenario::Scenario {
    let mut s = bottleneck(20, ms(0), 67, ms(20));
    s.duration = ms(30_000);
    s
}

/// Linux cuts its send buffer into fragments of 32,728 bytes and gives a subflow two at a time: 46 segments of 1420 bytes,
/// and 136 bytes over. In the kernel world 1.2 % of all packets here are short.
#[test]
fn a_burst_ends_in_a_short_packet() {
    let share = |lengths: &[u32]| {
        let count = |wanted: u32| lengths.iter().filter(|&&l| l == wanted).count() as f64;
        count(80 + 136) / (count(80 + 136) + count(1500))
    };
    let short = share(&lengths(&shared(), "reno"));
    assert!((0.006..0.016).contains(&short), "{short:.4}");
    // One subflow gets burst after burst: what is left of one goes with the next.
    let one = scenario(vec![path(mbit(10), ms(20), 100, 0.0)], ms(10_000));
    let short = share(&lengths(&one, "reno"));
    assert!(short < 0.002, "{short:.4}");
}

/// A short packet makes its subflow's next two arrive half a packet's time early at a full queue, where they are dropped;
/// subflows whose ACKs were held back together send together. So two uncoupled subflows leave to one TCP not a third of a
/// bottleneck but half of it. Who grows by one segment sends three at once rather than four a round later, and so is hit
/// itself; and what a slow subflow holds back fills the send buffer, so that the other one runs dry. (Kernel world, Mbit/s of
/// 19: Reno 9.4 ± 0.7, LIA 7.1 ± 0.6, OLIA 6.5 ± 0.5, BALIA 6.6 ± 0.5.)
#[test]
fn two_subflows_and_a_tcp_share_a_bottleneck_as_in_linux() {
    let mut s = shared();
    s.buffers.receive = 6 << 20;
    s.buffers.send = 4 << 20;
    for (controller, least, most) in [
        ("reno", 8.8, 10.1),
        ("lia", 6.5, 7.7),
        ("olia", 6.0, 7.2),
        ("balia", 6.0, 7.3),
    ] {
        let goodputs: Vec<f64> = (1..33)
            .map(|seed| {
                let run = simulate(&s, &variant(controller), seed);
                run.transfers[0].bytes as f64 * 8e-6 / run.elapsed_s
            })
            .collect();
        let mean = goodputs.iter().sum::<f64>() / goodputs.len() as f64;
        assert!((least..most).contains(&mean), "{controller}: {mean:.2}");
        // Chance, not the rhythm of packets of one size, decides who loses.
        let spread = goodputs
            .iter()
            .map(|g| (g - mean).abs())
            .fold(0.0, f64::max);
        assert!(spread > 0.5, "{controller}: {goodputs:?}");
    }
}

/// A connection's send buffer is the sum of its subflows': of fixed ones of 32 KiB two, and one for itself.
#[test]
fn the_send_buffers_of_subflows_add_up() {
    let way = || path(mbit(100), ms(50), 1000, 0.0);
    let mut s = scenario(vec![way(), way()], ms(20_000));
    s.buffers.send = 32 << 10;
    s.buffers.autotune = false;
    let got = goodput(&simulate(&s, &variant("reno"), 1));
    let one = f64::from(32 << 10) * 8e-6 / 0.1;
    assert!(
        (1.5 * one..4.1 * one).contains(&got),
        "{got:.2} of {one:.2} Mbit/s"
    );
}

/// A connection may have 64 KiB out until its receiver has seen how much it reads in a round trip; from then on each
/// subflow's announced window opens by two segments for each that arrives. (Kernel world, two paths of 10 Mbit/s and
/// 150 ms: 45, 96, 278, 689 and 1023 segments after 0.6, 0.75, 1.04, 1.3 and 1.5 s.)
#[test]
fn the_receive_window_holds_back_slow_start() {
    let mut s = scenario(
        vec![
            path(mbit(10), ms(75), 125, 0.0),
            path(mbit(10), ms(75), 125, 0.0),
        ],
        ms(2_000),
    );
    s.sample_interval = ms(50);
    s.buffers.receive = 6 << 20;
    s.buffers.send = 4 << 20;
    let run = simulate(&s, &variant("reno"), 1);
    let window = |at: f64| -> u32 {
        let samples = run.samples.iter();
        let near = samples.filter(|x| (x.time_s - at).abs() < 0.01);
        near.map(|x| x.cwnd).sum()
    };
    // Unhindered, the windows would have doubled each 150 ms from 10 at 0.38 s and at 0.6 s.
    assert!((120..230).contains(&window(0.95)), "{}", window(0.95));
    assert!(window(1.4) > 500, "{}", window(1.4));
}

/// A data-level ACK that comes with a duplicate ACK of its subflow opens the window further than was announced: Linux drops
/// what is sent there although its subflow acknowledges it, and a data-level timeout has to send it again. That takes a sender
/// that fills the window whatever is lost. (Kernel world: 37 and 82 packets dropped in two runs, 11.8 Mbit/s in both.)
#[test]
fn a_window_overrun_at_the_data_level_costs_timeouts() {
    let mut s = scenario(
        vec![
            path(mbit(10), ms(75), 125, 0.03),
            path(mbit(10), ms(75), 125, 0.03),
        ],
        ms(30_000),
    );
    s.buffers.receive = 1229 << 10;
    s.buffers.send = 840 << 10;
    let seen = |controller: &str| {
        let runs = (1..7).map(|seed| simulate(&s, &variant(controller), seed));
        let (mut twice, mut all) = (0, 0);
        for run in runs {
            let t = &run.transfers[0];
            let arrived: u64 = t.path_bytes.iter().map(|p| p.1).sum();
            // What waits for a hole when the run ends has arrived as well: a window at most.
            twice += arrived.saturating_sub(t.bytes) / 1420;
            all += t.bytes;
        }
        (twice / 6, all as f64 * 8e-6 / 180.0)
    };
    let ((bbr, goodput), (reno, _)) = (seen("bbr"), seen("reno"));
    assert!(bbr > reno + 20, "{bbr} {reno} segments");
    assert!((10.5..14.5).contains(&goodput), "{goodput:.2} Mbit/s");
}
