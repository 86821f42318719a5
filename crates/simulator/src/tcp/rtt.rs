//! Round-trip time and retransmission timeout: `tcp_rtt_estimator` and `tcp_set_rto` of net/ipv4/tcp_input.c.

use crate::time::{MICROSECOND, MILLISECOND, SECOND};

/// `TCP_RTO_MIN`, µs.
pub const RTO_MIN_US: u32 = 200_000;
/// `TCP_RTO_MAX`, ns.
pub const RTO_MAX: u64 = 120 * SECOND;
/// `TCP_TIMEOUT_INIT`, ns.
pub const RTO_INITIAL: u64 = SECOND;

#[derive(Debug, Clone)]
pub struct Rtt {
    /// µs, times 8.
    srtt_us8: u32,
    /// Mean deviation, µs times 4.
    mdev_us4: u32,
    mdev_max_us: u32,
    rttvar_us: u32,
    /// `snd_nxt` at which the current round ends.
    round_end: u64,
}

impl Default for Rtt {
    fn default() -> Self {
        Rtt {
            srtt_us8: 0,
            mdev_us4: 0,
            mdev_max_us: RTO_MIN_US,
            rttvar_us: 0,
            round_end: 0,
        }
    }
}

impl Rtt {
    /// A measurement, µs, by an ACK that moves the window to `snd_una`.
    pub fn sample(&mut self, rtt_us: u32, snd_una: u64, snd_nxt: u64) {
        let mut m = i64::from(rtt_us.max(1));
        if self.srtt_us8 == 0 {
            self.srtt_us8 = (m << 3) as u32;
            self.mdev_us4 = (m << 1) as u32;
            self.rttvar_us = self.mdev_us4.max(RTO_MIN_US);
            self.mdev_max_us = self.rttvar_us;
            self.round_end = snd_nxt;
            return;
        }
        m -= i64::from(self.srtt_us8 >> 3);
        self.srtt_us8 = (i64::from(self.srtt_us8) + m).max(8) as u32; // 7/8 old + 1/8 new
        if m < 0 {
            m = -m - i64::from(self.mdev_us4 >> 2);
            // A fall of the RTT must not raise the RTO: Eifel's finer gain.
            if m > 0 {
                m >>= 3;
            }
        } else {
            m -= i64::from(self.mdev_us4 >> 2);
        }
        self.mdev_us4 = (i64::from(self.mdev_us4) + m).max(0) as u32; // 3/4 old + 1/4 new
        if self.mdev_us4 > self.mdev_max_us {
            self.mdev_max_us = self.mdev_us4;
            self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
        }
        if snd_una > self.round_end {
            if self.mdev_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
            }
            self.round_end = snd_nxt;
            self.mdev_max_us = RTO_MIN_US;
        }
    }

    #[inline]
    pub fn srtt_us(&self) -> u32 {
        self.srtt_us8 >> 3
    }

    /// Mean deviation, µs.
    #[inline]
    pub fn deviation_us(&self) -> u32 {
        self.mdev_us4 >> 2
    }

    /// Retransmission timeout without back-off, ns.
    #[inline]
    pub fn rto(&self) -> u64 {
        if self.srtt_us8 == 0 {
            return RTO_INITIAL;
        }
        ((u64::from(self.srtt_us8 >> 3) + u64::from(self.rttvar_us)) * MICROSECOND).min(RTO_MAX)
    }

    /// When a tail loss is probed for (`tcp_schedule_loss_probe`), ns from now.
    #[inline]
    pub fn probe(&self, packets_out: u32) -> u64 {
        if self.srtt_us8 == 0 {
            return RTO_INITIAL;
        }
        let twice = u64::from(self.srtt_us8 >> 2) * MICROSECOND;
        // One packet alone may wait for a delayed ACK.
        if packets_out == 1 {
            twice + u64::from(RTO_MIN_US) * MICROSECOND
        } else {
            twice + 2 * MILLISECOND
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_rtt_gives_the_floor_above_it() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.rto(), SECOND);
        for i in 0..1000 {
            rtt.sample(50_000, i, i + 10);
        }
        assert_eq!(rtt.srtt_us(), 50_000);
        assert_eq!(rtt.rto(), 250 * MILLISECOND);
    }

    #[test]
    fn a_varying_rtt_raises_the_timeout() {
        let mut rtt = Rtt::default();
        for i in 0..1000u64 {
            rtt.sample(if i % 20 < 10 { 100_000 } else { 900_000 }, i, i + 10);
        }
        assert!(rtt.rto() > 900 * MILLISECOND, "{}", rtt.rto());
    }
}
