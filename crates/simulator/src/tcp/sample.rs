//! What an ACK measures: round trips (`tcp_ack_update_rtt`) and delivery rates (net/ipv4/tcp_rate.c).

use super::board::EVER_RETRANS;
use super::control::Congestion;
use super::recovery::Told;
use super::sender::Sender;
use crate::congestion::RateSample;
use crate::time::MICROSECOND;

/// Times of sending that one ACK gives RTT samples of; 0: none.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sent {
    /// Oldest and newest of the first transmissions acknowledged cumulatively.
    pub first: u64,
    pub last: u64,
    /// The same of those acknowledged selectively.
    pub first_sacked: u64,
    pub last_sacked: u64,
    /// Newest transmission that was delivered, sent again or not.
    pub newest: u64,
    /// End of what had been acknowledged selectively before this ACK (`prior_fack`).
    pub prior_highest: u64,
    /// Lowest first transmission delivered below a later one: reordering.
    pub reordered: Option<u64>,
}

impl Sender {
    /// Samples and their consequences; true where there is a new one (`tcp_ack_update_rtt`).
    #[inline]
    pub(super) fn sample_rtt(
        &mut self,
        told: &Told,
        sent: &Sent,
        echo: u64,
        sample: &mut RateSample,
    ) -> bool {
        let now = self.flow.now_ns;
        let micros = |at: u64| ((now - at) / MICROSECOND).max(1) as u32;
        let mut smooth = None;
        let mut latest = None;
        if sent.first != 0 && !told.retrans_acked {
            smooth = Some(micros(sent.first));
            latest = Some(micros(sent.last));
        }
        if sent.first_sacked != 0 {
            smooth = smooth.or(Some(micros(sent.first_sacked)));
            latest = Some(micros(sent.last_sacked));
        }
        if smooth.is_none() && told.una_advanced && echo != 0 && echo <= now {
            smooth = Some(micros(echo));
            latest = latest.or(smooth);
        }
        let Some(rtt_us) = smooth else {
            return false;
        };
        if let Some(latest) = latest {
            sample.rtt_us = i64::from(latest);
            self.flow.rtt_us = latest;
            self.flow.min_rtt_us = self.flow.min_rtt_us.min(latest);
        }
        self.rtt
            .sample(rtt_us, self.flow.snd_una, self.flow.snd_nxt);
        self.flow.srtt_us = self.rtt.srtt_us();
        true
    }

    /// The forward delay that the receiver's timestamp tells, in the 1 ms steps of its clock.
    #[inline]
    pub(super) fn note_delay(&mut self, delay_ms: u64) {
        if let Congestion::Shared(shared) = &mut self.congestion {
            self.min_delay_ms = self.min_delay_ms.min(delay_ms);
            shared.queue_owd_us = (delay_ms - self.min_delay_ms) * 1000;
        }
    }

    /// `tcp_rate_skb_delivered`
    #[inline]
    pub(super) fn sample_delivery(
        &mut self,
        seq: u64,
        sent: u64,
        flags: u8,
        sample: &mut RateSample,
        newest: &mut (u64, u64),
    ) {
        let Some(tx) = self.board.transmission_mut(seq) else {
            return;
        };
        if tx.delivered_ns == 0 {
            return;
        }
        if sample.prior_ns == 0 || (sent, seq) > *newest {
            *newest = (sent, seq);
            sample.prior_delivered = tx.delivered;
            sample.prior_ns = tx.delivered_ns;
            sample.is_app_limited = tx.app_limited;
            sample.is_retrans = flags & EVER_RETRANS != 0;
            sample.interval_us = ((sent - tx.first_ns) / MICROSECOND) as i64;
            self.first_ns = sent;
        }
        tx.delivered_ns = 0;
    }

    /// `tcp_rate_gen`
    pub(super) fn rate_sample(&mut self, sample: &mut RateSample, delivered: u32, lost: u32) {
        let now = self.flow.now_ns;
        if self.flow.app_limited != 0 && self.flow.delivered > self.flow.app_limited {
            self.flow.app_limited = 0;
        }
        if delivered > 0 {
            self.delivered_ns = now;
        }
        sample.acked_sacked = delivered;
        sample.losses = lost;
        if sample.prior_ns == 0 {
            sample.delivered = -1;
            sample.interval_us = -1;
            return;
        }
        sample.delivered = (self.flow.delivered - sample.prior_delivered) as i64;
        let ack_us = ((now - sample.prior_ns) / MICROSECOND) as i64;
        sample.interval_us = sample.interval_us.max(ack_us);
        if sample.interval_us < i64::from(self.flow.min_rtt_us) {
            sample.interval_us = -1;
        }
    }
}
