//! CUBIC (RFC 9438) as Linux does it, net/ipv4/tcp_cubic.c, with HyStart (Ha, Rhee 2008).
//!
//! After a reduction at window W_max the window follows
//!
//! ```text
//! W(t) = C · (t − K)³ + W_max        K = ∛(W_max · (1 − β) / C)        RFC 9438 equations 1 and 2
//! ```
//!
//! with C = 0.4 packets/s³ and β = 0.7 (410/1024 and 717/1024 in the kernel), t in seconds since the epoch began plus
//! the minimum RTT, so that the target is the window one round trip ahead. Where Reno of the same loss rate would be
//! faster (RFC 9438 section 4.3) its estimate is followed instead.
//!
//! Departures: time has 1 ms steps (HZ = 1000), whatever the kernel's HZ; the cube root is exact where the kernel's is
//! within 0.2 %. The growth is capped at half a packet per packet acknowledged, as in the kernel.

/// C · 1024.
const C: u64 = 410;
/// β · 1024.
const BETA: u64 = 717;
const BETA_SCALE: u64 = 1024;
/// Packets acknowledged per packet of growth of the Reno estimate, per packet of window, · 8: (1 + β) / (3 (1 − β)).
const RENO_SCALE: u64 = 8 * (BETA_SCALE + BETA) / 3 / (BETA_SCALE - BETA);
/// K and t have 2^-10 s.
const TIME_BITS: u32 = 10;
/// Least time between two evaluations at an unchanged window, ms (HZ / 32).
const UPDATE_INTERVAL_MS: u64 = 31;

/// HyStart leaves windows below this alone, packets.
const HYSTART_LOW_WINDOW: u64 = 16;
/// ACKs at most this far apart belong to one train, µs.
const HYSTART_ACK_DELTA_US: u64 = 2_000;
/// RTT samples that a round needs before its minimum counts.
const HYSTART_MIN_SAMPLES: u32 = 8;
/// Bounds of the RTT rise that ends slow start, µs.
const HYSTART_DELAY_US: (u64, u64) = (4_000, 16_000);
/// Bytes of four segmentation-offload bursts (`sk_gso_max_size` · 4), whose sending delays the train's end.
const HYSTART_BURSTS: u64 = 4 * 65_536;

/// Window and threshold that CUBIC steers, packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub cwnd: u64,
    pub ssthresh: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Cubic {
    /// Packets to be acknowledged for one packet of growth.
    count: u64,
    /// Packets acknowledged and not yet turned into growth.
    credit: u64,
    last_max: u64,
    last_cwnd: u64,
    last_ms: u64,
    origin: u64,
    /// 2^-10 s
    k: u64,
    /// Minimum RTT since the last timeout, µs; 0: none.
    delay_min_us: u64,
    /// ms; `None` between a reduction and the next growth.
    epoch_ms: Option<u64>,
    acked: u64,
    reno_cwnd: u64,
    hystart: HyStart,
}

/// Slow start ends early when a round's ACK train is as long as the path, or its least RTT has risen.
#[derive(Debug, Clone, Default)]
struct HyStart {
    found: bool,
    samples: u32,
    round_start_us: u64,
    /// First sequence of the next round; `None` before the first round.
    round_end: Option<u64>,
    last_ack_us: u64,
    rtt_us: u64,
}

/// What HyStart sees with an RTT sample.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    pub now_us: u64,
    /// Oldest byte or packet not acknowledged, and the next to be sent, in one unit.
    pub una: u64,
    pub next: u64,
    /// bytes/s; 0 where unknown
    pub pacing_rate: u64,
    /// Sending is paced, which stretches a train to up to an RTT.
    pub paced: bool,
}

impl Cubic {
    /// `cubictcp_acked`: an RTT sample, before [`Cubic::on_ack`] of the same ACK.
    pub fn on_rtt(&mut self, rtt_us: u64, round: &Round, window: &mut Window) {
        // Right after a reduction the queue still holds what overflowed it.
        if self.epoch_ms.is_some_and(|epoch| (round.now_us / 1000).saturating_sub(epoch) < 1000) {
            return;
        }
        let rtt_us = rtt_us.max(1);
        if self.delay_min_us == 0 || rtt_us < self.delay_min_us {
            self.delay_min_us = rtt_us;
        }
        if !self.hystart.found
            && window.cwnd < window.ssthresh
            && self.hystart.ends(rtt_us, self.delay_min_us, round, window.cwnd)
        {
            self.hystart.found = true;
            window.ssthresh = window.cwnd;
        }
    }

    /// `cubictcp_cong_avoid`: `acked` packets of a flight that filled the window.
    pub fn on_ack(&mut self, now_us: u64, mut acked: u64, window: &mut Window) {
        if window.cwnd < window.ssthresh {
            let grown = (window.cwnd + acked).min(window.ssthresh);
            acked -= grown - window.cwnd;
            window.cwnd = grown;
            if acked == 0 {
                return;
            }
        }
        self.update(now_us / 1000, window.cwnd, acked);
        self.avoid(acked, window);
    }

    /// `tcp_cong_avoid_ai`: one packet per `count` acknowledged.
    fn avoid(&mut self, acked: u64, window: &mut Window) {
        if self.credit >= self.count {
            self.credit = 0; // gathered at a higher count
            window.cwnd += 1;
        }
        self.credit += acked;
        window.cwnd += self.credit / self.count;
        self.credit %= self.count;
    }

    /// `bictcp_update`
    fn update(&mut self, now_ms: u64, cwnd: u64, acked: u64) {
        self.acked += acked;
        if self.last_cwnd == cwnd && now_ms.saturating_sub(self.last_ms) <= UPDATE_INTERVAL_MS {
            return;
        }
        if self.epoch_ms.is_none() || now_ms != self.last_ms {
            self.last_cwnd = cwnd;
            self.last_ms = now_ms;
            self.follow_cubic(now_ms, cwnd, acked);
        }
        self.follow_reno(cwnd);
        self.count = self.count.max(2);
    }

    fn follow_cubic(&mut self, now_ms: u64, cwnd: u64, acked: u64) {
        let epoch = *self.epoch_ms.get_or_insert_with(|| {
            self.acked = acked;
            self.reno_cwnd = cwnd;
            let below = self.last_max.saturating_sub(cwnd);
            self.k = cube_root((below << (10 + 3 * TIME_BITS)) / C);
            self.origin = self.last_max.max(cwnd);
            now_ms
        });
        let t = ((now_ms - epoch + self.delay_min_us.div_ceil(1000)) << TIME_BITS) / 1000;
        let offset = t.abs_diff(self.k);
        let delta = (u128::from(C) * u128::from(offset).pow(3)) >> (10 + 3 * TIME_BITS);
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        let target =
            if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        self.count = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        // Nothing known of the path yet: at least 5 % an RTT.
        if self.last_max == 0 {
            self.count = self.count.min(20);
        }
    }

    fn follow_reno(&mut self, cwnd: u64) {
        let per_packet = ((cwnd * RENO_SCALE) >> 3).max(1);
        // As the kernel's loop, which leaves 1 … per_packet packets over.
        let steps = self.acked.saturating_sub(1) / per_packet;
        self.acked -= steps * per_packet;
        self.reno_cwnd += steps;
        if self.reno_cwnd > cwnd {
            self.count = self.count.min(cwnd / (self.reno_cwnd - cwnd));
        }
    }

    /// `cubictcp_recalc_ssthresh`: a congestion event; returns the new threshold, packets.
    pub fn on_loss(&mut self, cwnd: u64) -> u64 {
        self.epoch_ms = None;
        // Fast convergence: a flow that stopped below its last peak leaves room for the newcomer that caused it.
        self.last_max =
            if cwnd < self.last_max { cwnd * (BETA_SCALE + BETA) / (2 * BETA_SCALE) } else { cwnd };
        (cwnd * BETA / BETA_SCALE).max(2)
    }

    /// `cubictcp_state` with `TCP_CA_Loss`: a retransmission timeout, after [`Cubic::on_loss`].
    pub fn on_timeout(&mut self, now_us: u64, next: u64) {
        let credit = self.credit;
        *self = Cubic { credit, ..Cubic::default() };
        self.hystart.restart(now_us, next);
    }

    /// `cubictcp_cwnd_event` with `CA_EVENT_TX_START`: sending resumes after `idle_us` without any. The curve stands still
    /// meanwhile.
    pub fn on_idle(&mut self, now_us: u64, idle_us: u64) {
        if let Some(epoch) = &mut self.epoch_ms {
            *epoch = (*epoch + idle_us / 1000).min(now_us / 1000);
        }
    }
}

impl HyStart {
    fn restart(&mut self, now_us: u64, next: u64) {
        self.round_start_us = now_us;
        self.last_ack_us = now_us;
        self.round_end = Some(next);
        self.rtt_us = u64::MAX;
        self.samples = 0;
    }

    /// `hystart_update`
    fn ends(&mut self, rtt_us: u64, delay_min_us: u64, round: &Round, cwnd: u64) -> bool {
        if self.round_end.is_none_or(|end| round.una > end) {
            self.restart(round.now_us, round.next);
        }
        if cwnd < HYSTART_LOW_WINDOW {
            return false;
        }
        let mut found = false;
        if round.now_us.saturating_sub(self.last_ack_us) <= HYSTART_ACK_DELTA_US {
            self.last_ack_us = round.now_us;
            let bursts = match round.pacing_rate {
                0 => 0,
                rate => (HYSTART_BURSTS * 1_000_000 / rate).min(1_000),
            };
            let limit = delay_min_us + bursts;
            let limit = if round.paced { limit } else { limit / 2 };
            found = round.now_us - self.round_start_us > limit;
        }
        self.rtt_us = self.rtt_us.min(rtt_us);
        if self.samples < HYSTART_MIN_SAMPLES {
            self.samples += 1;
        } else {
            let rise = (delay_min_us / 8).clamp(HYSTART_DELAY_US.0, HYSTART_DELAY_US.1);
            found |= self.rtt_us > delay_min_us + rise;
        }
        found
    }
}

/// Largest x with x³ ≤ a.
fn cube_root(a: u64) -> u64 {
    let mut x = 0u64;
    for bit in (0..=21).rev() {
        let y = x | 1 << bit;
        if u128::from(y).pow(3) <= u128::from(a) {
            x = y;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Grows for `seconds` at a round trip of `rtt_us`, every packet acknowledged singly. Returns the window by time, µs.
    fn grow(cubic: &mut Cubic, window: &mut Window, from_us: u64, seconds: f64, rtt_us: u64) -> Vec<(u64, u64)> {
        let (mut now, end) = (from_us, from_us + (seconds * 1e6) as u64);
        let mut seen = Vec::new();
        while now < end {
            let flight = window.cwnd;
            for k in 0..flight {
                let at = now + rtt_us * k / flight;
                let round = Round { now_us: at, una: 0, next: 0, pacing_rate: 0, paced: false };
                cubic.on_rtt(rtt_us, &round, window);
                cubic.on_ack(at, 1, window);
            }
            now += rtt_us;
            seen.push((now, window.cwnd));
        }
        seen
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
        // Large window and short RTT, where CUBIC is above Reno's estimate: W_max 10,000, RTT 20 ms.
        let (mut cubic, rtt_us, w_max) = (Cubic::default(), 20_000, 10_000u64);
        let ssthresh = cubic.on_loss(w_max);
        assert_eq!(ssthresh, 7_001);
        let mut window = Window { cwnd: ssthresh, ssthresh };
        let k = ((w_max as f64 - ssthresh as f64) / 0.4).cbrt(); // RFC 9438 equation 2: 19.57 s
        for (at, w) in grow(&mut cubic, &mut window, 0, 30.0, rtt_us) {
            let t = at as f64 / 1e6;
            let model = 0.4 * (t - k).powi(3) + w_max as f64;
            assert!((w as f64 / model - 1.0).abs() < 0.01, "{t:.2} s: {w}, RFC 9438 gives {model:.0}");
        }
    }

    #[test]
    fn short_paths_grow_as_fast_as_reno() {
        // RFC 9438 section 4.3: α = 3 (1 − β)/(1 + β) packets a round trip. W_max 50, RTT 10 ms.
        let mut cubic = Cubic::default();
        let ssthresh = cubic.on_loss(50);
        let mut window = Window { cwnd: ssthresh, ssthresh };
        let start = window.cwnd as f64;
        let (beta, rtt) = (0.7, 0.01);
        for (at, w) in grow(&mut cubic, &mut window, 0, 0.5, 10_000) {
            let reno = start + 3.0 * (1.0 - beta) / (1.0 + beta) * at as f64 / 1e6 / rtt;
            assert!((w as f64 - reno).abs() <= 2.0, "{at} us: {w} against {reno:.1}");
        }
    }

    #[test]
    fn slow_start_doubles_and_then_hands_over_at_ssthresh() {
        let mut cubic = Cubic::default();
        let mut window = Window { cwnd: 10, ssthresh: 35 };
        cubic.on_ack(1_000, 10, &mut window);
        assert_eq!(window.cwnd, 20);
        cubic.on_ack(2_000, 20, &mut window);
        assert!((35..=37).contains(&window.cwnd), "{}", window.cwnd);
    }

    #[test]
    fn fast_convergence_releases_a_peak_that_was_not_reached() {
        let mut cubic = Cubic::default();
        cubic.on_loss(100);
        assert_eq!(cubic.last_max, 100);
        cubic.on_loss(80);
        assert_eq!(cubic.last_max, 80 * 1741 / 2048);
    }

    #[test]
    fn idle_time_does_not_count() {
        let mut cubic = Cubic::default();
        let ssthresh = cubic.on_loss(1_000);
        let mut window = Window { cwnd: ssthresh, ssthresh };
        grow(&mut cubic, &mut window, 0, 1.0, 20_000);
        let before = window.cwnd;
        cubic.on_idle(61_000_000, 60_000_000);
        grow(&mut cubic, &mut window, 61_000_000, 0.1, 20_000);
        assert!(window.cwnd < before + 20, "{before} → {}", window.cwnd);
    }

    #[test]
    fn hystart_leaves_slow_start_when_the_rtt_rises() {
        let mut cubic = Cubic::default();
        let mut window = Window { cwnd: 32, ssthresh: u64::MAX >> 1 };
        // One round at 40 ms, spaced beyond a train; then one at 46 ms, above 40 + 40/8.
        for (first, rtt_us) in [(0u64, 40_000u64), (1, 46_000)] {
            for k in 0..12 {
                let round = Round {
                    now_us: 100_000 * (first + 1) + k * 3_000,
                    una: 100 * (first + 1) + k,
                    next: 100 * (first + 2),
                    pacing_rate: 0,
                    paced: false,
                };
                cubic.on_rtt(rtt_us, &round, &mut window);
            }
            assert_eq!(window.ssthresh == 32, first == 1);
        }
    }

    #[test]
    fn hystart_leaves_slow_start_when_the_train_fills_half_the_path() {
        let mut cubic = Cubic::default();
        let mut window = Window { cwnd: 64, ssthresh: u64::MAX >> 1 };
        let at = |now_us| Round { now_us, una: 0, next: 100, pacing_rate: 0, paced: false };
        let mut last = 0;
        for k in 0..30 {
            if window.ssthresh > 64 {
                cubic.on_rtt(40_000, &at(1_000 + k * 1_000), &mut window);
                last = k;
            }
        }
        assert_eq!(last, 21); // the first ACK more than 20 ms after the round's start
    }
}
