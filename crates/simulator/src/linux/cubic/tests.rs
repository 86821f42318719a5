use super::*;
use crate::congestion::INFINITE_SSTHRESH;

fn flow(cwnd: u32, ssthresh: u32) -> Flow {
    Flow {
        cwnd,
        ssthresh,
        is_cwnd_limited: true,
        mss: 1448,
        ..Flow::default()
    }
}

/// Grows for `seconds` at a constant round trip, every packet acknowledged singly. Returns time in seconds and window.
fn grow(cubic: &mut Cubic, flow: &mut Flow, seconds: f64, rtt_us: u32) -> Vec<(f64, f64)> {
    let mut round_ns = flow.now_ns;
    let end = round_ns + (seconds * 1e9) as u64;
    let mut seen = Vec::new();
    flow.rtt_us = rtt_us;
    while round_ns < end {
        let flight = u64::from(flow.cwnd);
        for k in 0..flight {
            flow.now_ns = round_ns + u64::from(rtt_us) * 1000 * k / flight;
            cubic.on_rtt(flow, 1, true);
            cubic.on_ack(flow, 1);
        }
        round_ns += u64::from(rtt_us) * 1000;
        flow.now_ns = round_ns;
        seen.push((round_ns as f64 / 1e9, f64::from(flow.cwnd)));
    }
    seen
}

fn after_loss(w_max: u32) -> (Cubic, Flow) {
    let mut cubic = Cubic::default();
    let mut flow = flow(w_max, INFINITE_SSTHRESH);
    cubic.init(&mut flow);
    flow.ssthresh = cubic.on_loss(&mut flow);
    flow.cwnd = flow.ssthresh;
    (cubic, flow)
}

#[test]
fn cube_root_is_exact() {
    for x in [0u64, 1, 2, 9, 1_000, 123_456, 2_000_000] {
        assert_eq!(cube_root(x.pow(3)), x);
        assert_eq!(cube_root(x.pow(3) + 3 * x * x + 3 * x), x);
    }
}

#[test]
fn window_follows_the_cubic_of_the_rfc() {
    // Large window and short RTT, where CUBIC is above Reno's estimate.
    let w_max = 10_000.0;
    let (mut cubic, mut flow) = after_loss(10_000);
    assert_eq!(flow.cwnd, 7_001);
    let k = ((w_max - 7_001.0) / 0.4_f64).cbrt(); // RFC 9438 equation 2: 19.6 s
    for (t, w) in grow(&mut cubic, &mut flow, 30.0, 20_000) {
        let model = 0.4 * (t - k).powi(3) + w_max;
        assert!(
            (w / model - 1.0).abs() < 0.01,
            "{t:.2} s: {w}, RFC 9438 gives {model:.0}"
        );
    }
}

#[test]
fn short_paths_grow_as_fast_as_reno() {
    // RFC 9438 section 4.3: α = 3 (1 − β)/(1 + β) packets a round trip.
    let (mut cubic, mut flow) = after_loss(50);
    let (start, beta, rtt) = (f64::from(flow.cwnd), 0.7, 0.01);
    for (t, w) in grow(&mut cubic, &mut flow, 0.5, 10_000) {
        let reno = start + 3.0 * (1.0 - beta) / (1.0 + beta) * t / rtt;
        // Evaluated every 31 ms at most, so it lags a little.
        assert!(
            (w / reno - 1.0).abs() <= 0.08,
            "{t:.2} s: {w} against {reno:.1}"
        );
    }
}

#[test]
fn slow_start_doubles_and_then_hands_over_at_ssthresh() {
    let mut cubic = Cubic::default();
    let mut flow = flow(10, 35);
    cubic.on_ack(&mut flow, 10);
    assert_eq!(flow.cwnd, 20);
    cubic.on_ack(&mut flow, 20);
    assert_eq!(flow.cwnd, 35); // 5 packets left over, 20 needed for one more
}

#[test]
fn a_window_that_was_not_filled_does_not_grow() {
    let mut cubic = Cubic::default();
    let mut flow = Flow {
        is_cwnd_limited: false,
        ..flow(10, 5)
    };
    cubic.on_ack(&mut flow, 1_000);
    assert_eq!(flow.cwnd, 10);
}

#[test]
fn fast_convergence_releases_a_peak_that_was_not_reached() {
    let (mut cubic, _) = after_loss(100);
    assert_eq!(cubic.last_max, 100);
    cubic.on_loss(&mut flow(80, 70));
    assert_eq!(cubic.last_max, 80 * 1741 / 2048);
}

#[test]
fn idle_time_does_not_count() {
    let (mut cubic, mut flow) = after_loss(1_000);
    grow(&mut cubic, &mut flow, 1.0, 20_000);
    let before = flow.cwnd;
    flow.last_sent_ns = flow.now_ns;
    flow.now_ns += 60_000_000_000;
    cubic.on_event(&mut flow, Event::TxStart);
    grow(&mut cubic, &mut flow, 0.1, 20_000);
    assert!(flow.cwnd < before + 20, "{before} → {}", flow.cwnd);
}

#[test]
fn hystart_leaves_slow_start_when_the_rtt_rises() {
    let mut cubic = Cubic::default();
    let mut flow = flow(32, INFINITE_SSTHRESH);
    cubic.init(&mut flow);
    // One round at 40 ms, its ACKs too far apart for a train; then one at 46 ms, above 40 + 40/8.
    for (round, rtt_us) in [(1u64, 40_000), (2, 46_000)] {
        flow.rtt_us = rtt_us;
        flow.snd_nxt = 100 * (round + 1);
        for k in 1..12 {
            flow.now_ns = (100 * round + 3 * k) * 1_000_000;
            flow.snd_una = 100 * round + k;
            cubic.on_rtt(&mut flow, 1, true);
        }
        assert_eq!(flow.ssthresh == 32, round == 2);
    }
}

#[test]
fn hystart_leaves_slow_start_when_the_train_fills_half_the_path() {
    let mut cubic = Cubic::default();
    let mut flow = Flow {
        snd_nxt: 100,
        rtt_us: 40_000,
        ..flow(64, INFINITE_SSTHRESH)
    };
    cubic.init(&mut flow);
    while flow.ssthresh == INFINITE_SSTHRESH {
        flow.now_ns += 1_000_000;
        cubic.on_rtt(&mut flow, 1, true);
    }
    assert_eq!(flow.now_us(), 21_000); // the first ACK more than 20 ms after the round's start
}

#[test]
fn a_reduction_drops_what_was_gathered_towards_the_next_packet() {
    let mut cubic = Cubic::default();
    let mut flow = flow(100, 10);
    cubic.on_ack(&mut flow, 1);
    assert_eq!(cubic.credit, 1);
    cubic.on_loss(&mut flow);
    assert_eq!(cubic.credit, 0);
    cubic.on_ack(&mut flow, 1);
    cubic.on_state(&mut flow, State::Loss);
    assert_eq!(cubic.credit, 0);
}
