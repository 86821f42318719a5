//! What one path does, measured from its acknowledgements: the schedulers' view of it.

use std::time::Duration;

use mp_policy::scheduler::SubflowView;

use super::window::Window;

/// No acknowledgement for the larger of this and [`STALE_ROUND_TRIPS`] while there should be some: the path is stale. The
/// peer may wait 25 ms with an acknowledgement (RFC 9000, max_ack_delay).
const STALE: Duration = Duration::from_millis(250);
const STALE_ROUND_TRIPS: u32 = 4;
/// The delivery rate is the highest of so many intervals …
const INTERVALS: usize = 10;
/// … each of a round trip, and at least so long.
const INTERVAL: Duration = Duration::from_millis(10);
/// The loss is that of about so many packets of late …
const LOSS_OVER: u32 = 256;
/// … and unknown, thus none, before so many.
const LOSS_FROM: u32 = 64;
/// Bytes that noq counts for each datagram that it has taken, beside the datagram's.
const OVERHEAD: u64 = 32;

/// Time is that since any fixed moment.
#[derive(Debug, Default)]
pub struct Meter {
    /// Bytes of a packet at most.
    mss: u32,
    srtt: Duration,
    rttvar: Duration,
    window: Window,
    in_flight: u64,
    sent: u64,
    lost: u64,
    delivered: u64,
    /// Packets of late whose fate is known, and those of them that were lost.
    fates: (u32, u32),
    /// Since when an acknowledgement is due.
    waiting: Option<Duration>,
    /// Highest numbers sent, but for probes of the path MTU, and acknowledged.
    newest: Option<u64>,
    acked: Option<u64>,
    /// Bytes delivered since, the interval under way.
    interval: (Duration, u64),
    rates: [u64; INTERVALS],
    next: usize,
}

impl Meter {
    pub fn on_mtu(&mut self, mss: u32) {
        self.mss = mss;
    }

    pub fn on_sent(&mut self, number: u64, bytes: u64, now: Duration) {
        self.sent += 1;
        self.in_flight += bytes;
        let mss = u64::from(self.mss);
        self.window.on_sent(number, self.in_flight, mss);
        // A probe of the path MTU that is lost is not sent again, so that nothing would be acknowledged.
        if mss == 0 || bytes <= mss {
            self.newest = Some(number);
            self.waiting.get_or_insert(now);
        }
    }

    pub fn on_ack(&mut self, number: u64, bytes: u64, sent: Duration, now: Duration) {
        self.delivered += 1;
        self.learn(false);
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.acked = self.acked.max(Some(number));
        self.waiting = (self.newest > self.acked).then_some(now);
        let rtt = now.saturating_sub(sent);
        match self.window.base() {
            None => (self.srtt, self.rttvar) = (rtt, rtt / 2),
            // RFC 6298.
            Some(_) => {
                self.rttvar = (3 * self.rttvar + self.srtt.abs_diff(rtt)) / 4;
                self.srtt = (7 * self.srtt + rtt) / 8;
            }
        }
        self.window.on_ack(number, bytes, rtt, now);
        self.interval.1 += bytes;
        let elapsed = now.saturating_sub(self.interval.0);
        if elapsed >= INTERVAL.max(self.srtt) {
            let rate = u128::from(self.interval.1) * 1_000_000 / elapsed.as_micros().max(1);
            self.rates[self.next] = u64::try_from(rate).unwrap_or(u64::MAX);
            self.next = (self.next + 1) % INTERVALS;
            self.interval = (now, 0);
        }
    }

    /// Of no bytes in flight: it has acknowledgements alone, and counts neither when it is sent nor when it arrives.
    pub fn on_lost(&mut self, bytes: u64) {
        if bytes == 0 {
            return;
        }
        self.lost += 1;
        self.learn(true);
        self.window.on_lost();
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    fn learn(&mut self, lost: bool) {
        let (all, gone) = &mut self.fates;
        (*all, *gone) = (*all + 1, *gone + u32::from(lost));
        if *all >= 2 * LOSS_OVER {
            (*all, *gone) = (*all / 2, *gone / 2);
        }
    }

    /// The share of packets of late that were lost.
    pub fn loss(&self) -> f64 {
        match self.fates {
            (all, _) if all < LOSS_FROM => 0.0,
            (all, gone) => f64::from(gone) / f64::from(all),
        }
    }

    /// What a packet waits in queues at least, by the round trips of late.
    pub fn queue(&self) -> Duration {
        self.window.queue()
    }

    /// As the transport has counted them.
    pub fn set_in_flight(&mut self, bytes: u64) {
        self.in_flight = bytes;
        if bytes == 0 {
            self.waiting = None;
        }
    }

    /// Bytes/s.
    pub fn rate(&self) -> u64 {
        self.rates.into_iter().max().unwrap_or(0)
    }

    pub fn is_stale(&self, now: Duration) -> bool {
        let patience = STALE.max(self.srtt * STALE_ROUND_TRIPS);
        self.waiting
            .is_some_and(|since| now.saturating_sub(since) > patience)
    }

    /// With so many bytes that QUIC has not sent yet, and so many that it still takes.
    pub fn view(&self, unsent: u64, takes: u64, now: Duration) -> SubflowView {
        let mss = u64::from(self.mss.max(1));
        let micros = |d: Duration| u32::try_from(d.as_micros()).unwrap_or(u32::MAX);
        let min_rtt_us = self.window.base().map_or(0, micros);
        let packets = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let in_flight = packets(self.in_flight.div_ceil(mss));
        let waiting = packets(unsent / mss);
        // What QUIC does not take is lost.
        let most = in_flight
            .saturating_add(waiting)
            .saturating_add(packets(takes / (mss + OVERHEAD)));
        let cwnd = packets(self.window.packets(0, mss).0).min(most);
        let room = cwnd.saturating_sub(in_flight.saturating_add(waiting));
        SubflowView {
            active: true,
            stale: self.is_stale(now),
            mss: self.mss.max(1),
            srtt_us: micros(self.srtt),
            rttvar_us: micros(self.rttvar),
            min_rtt_us,
            cwnd,
            in_flight,
            unsent: waiting,
            queued: self.in_flight + unsent,
            room: u64::from(room) * mss,
            pacing_rate: self.rate(),
            sent: self.sent,
            lost: self.lost,
            delivered: self.delivered,
            ..SubflowView::default()
        }
    }
}
