//! The window of a path: bytes in flight above which bulk packets wait. It holds the path's own bytes and a short queue.
//!
//! Losses do not reduce the window (but for [`LOSSY`]), because the flows inside react to theirs. The queueing delay of packets that
//! nearly used up the window does. It is the lowest of a [`PERIOD`], so neither jitter nor acknowledgements in bursts count. A queue that
//! does not shrink with the window belongs to other flows, and counts as part of the path from then on.

use std::collections::VecDeque;
use std::time::Duration;

/// The interval of CoDel (RFC 8289, section 4.2); one round trip if that is longer …
pub const PERIOD: Duration = Duration::from_millis(100);
/// … and at least so many packets: the delay of fewer may be jitter.
const PACKETS: u32 = 8;
/// Bytes at the start, when nothing is known of the path.
const FIRST: u64 = 64 * 1400;
/// Bytes at least.
const FEWEST: u64 = 8 * 1400;
/// A packet nearly uses up the window if this share of it is in flight, or no further packet has room …
const NEARLY: f64 = 0.9;
/// … and a period counts as limited by the window with so many of them.
const SAMPLES: u32 = 4;
/// The queue that is aimed at, or a quarter of the path's round trip.
const TARGET: Duration = Duration::from_millis(10);
/// The share of lost packets from which on a queue overflows whose delay is below the target (RFC 8085, section 3.1.11: a tunnel that
/// carries flows without congestion control needs its own limit).
const LOSSY: f64 = 0.2;
/// A queue that shrinks by less than this share of what the window's reduction explains …
const OWN: f64 = 0.5;
/// … in so many periods in a row is of other flows.
const PERIODS: u32 = 3;
/// After a longer round trip has become the base, the window is halved for one period so often: a shorter one can show.
const PROBE: Duration = Duration::from_secs(5);

/// Time is that since any fixed moment; windows and rates are in bytes and bytes/s.
#[derive(Debug)]
pub struct Window {
    bytes: u64,
    /// The path's own round trip.
    base: Option<Duration>,
    /// A queue above the target, or an overflow, has occurred.
    is_known: bool,
    sent: VecDeque<Sent>,
    period: Period,
    /// The lowest round trip of the period before.
    low: Duration,
    /// When the path's round trip was found to be longer, or probed since, and the window before a probe.
    probed: Option<Duration>,
    before_probe: Option<f64>,
    standing: Option<Standing>,
}

/// A queue above the target.
#[derive(Debug)]
struct Standing {
    longest: Duration,
    /// At its beginning.
    window: f64,
    rate: f64,
    /// In a row that tell of other flows.
    periods: u32,
}

#[derive(Debug)]
struct Sent {
    number: u64,
    /// With this packet.
    in_flight: u64,
    /// It nearly used up the window.
    is_full: bool,
}

#[derive(Debug, Default)]
struct Period {
    since: Duration,
    low: Option<Duration>,
    /// Packets from this number on were sent in it. Until the path is known only they count: the window doubles, and those before tell of
    /// half of it.
    first: u64,
    /// Of packets that nearly used up the window, and how many there were.
    low_of_full: Option<Duration>,
    full: u32,
    /// The most bytes in flight, each for its round trip, of packets with a queue above the target.
    rate_of_queued: f64,
    delivered: u64,
    packets: u32,
    lost: u32,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            bytes: FIRST,
            base: None,
            is_known: false,
            sent: VecDeque::new(),
            period: Period::default(),
            low: Duration::ZERO,
            probed: None,
            before_probe: None,
            standing: None,
        }
    }
}

fn target(base: Duration) -> Duration {
    TARGET.max(base / 4)
}

impl Window {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The path's own round trip; none before the first acknowledgement.
    pub fn base(&self) -> Option<Duration> {
        self.base
    }

    /// Queueing delay: the lowest round trip of the last period or two, less the base.
    pub fn queue(&self) -> Duration {
        let low = self.period.low.map_or(self.low, |low| low.min(self.low));
        low.saturating_sub(self.base.unwrap_or(low))
    }

    /// Packets of at most `mss` bytes, and those of them that may be sent now. Packets in flight count as whole ones.
    pub fn packets(&self, in_flight: u64, mss: u64) -> (u64, u64) {
        let packets = self.bytes / mss.max(1);
        (
            packets,
            packets.saturating_sub(in_flight.div_ceil(mss.max(1))),
        )
    }

    /// With the packet of this number so many bytes are in flight. Numbers never fall.
    pub fn on_sent(&mut self, number: u64, in_flight: u64, mss: u64) {
        let (_, more) = self.packets(in_flight, mss);
        let is_full = more == 0 || in_flight as f64 >= NEARLY * self.bytes as f64;
        self.sent.push_back(Sent {
            number,
            in_flight,
            is_full,
        });
    }

    pub fn on_lost(&mut self) {
        self.period.lost += 1;
    }

    pub fn on_ack(&mut self, number: u64, bytes: u64, rtt: Duration, now: Duration) {
        while self.sent.front().is_some_and(|of| of.number < number) {
            self.sent.pop_front();
        }
        let is_next = self.sent.front().is_some_and(|of| of.number == number);
        let sent = is_next.then(|| self.sent.pop_front()).flatten();
        let period = &mut self.period;
        if self.base.is_none() {
            (period.since, self.low) = (now, rtt);
        }
        self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        // A period has its own round trips alone.
        let low = period.low.map_or(rtt, |low| low.min(rtt));
        period.low = Some(low);
        period.delivered += bytes;
        period.packets += 1;
        if let Some(sent) = sent {
            if sent.is_full && (self.is_known || number >= period.first) {
                period.full += 1;
                period.low_of_full = Some(period.low_of_full.map_or(rtt, |low| low.min(rtt)));
            }
            if self.base.is_some_and(|base| rtt > base + target(base)) {
                let rate = sent.in_flight as f64 / rtt.as_secs_f64();
                period.rate_of_queued = period.rate_of_queued.max(rate);
            }
        }
        let elapsed = now.saturating_sub(period.since);
        let least = PERIOD.max(rtt);
        let has_enough = self.is_known || period.full >= SAMPLES || elapsed >= 2 * least;
        if elapsed >= least && period.packets >= PACKETS && has_enough {
            let first = self.sent.back().map_or(number, |of| of.number) + 1;
            let next = Period {
                since: now,
                first,
                ..Period::default()
            };
            let period = std::mem::replace(&mut self.period, next);
            self.low = low;
            self.end(&period, low, elapsed, now);
        }
    }

    fn end(&mut self, period: &Period, low: Duration, elapsed: Duration, now: Duration) {
        let next = match self.before_probe.take() {
            Some(before) => before,
            None if self
                .probed
                .is_some_and(|at| now.saturating_sub(at) >= PROBE) =>
            {
                self.probed = Some(now);
                self.before_probe = Some(self.bytes as f64);
                self.bytes as f64 / 2.0
            }
            None => self.adapted(period, low, elapsed, now),
        };
        self.bytes = (next as u64).max(FEWEST);
    }

    fn adapted(&mut self, period: &Period, low: Duration, elapsed: Duration, now: Duration) -> f64 {
        let base = self.base.unwrap_or(low);
        let rate = period.delivered as f64 / elapsed.as_secs_f64();
        let lost = f64::from(period.lost) / f64::from(period.packets + period.lost);
        let target = target(base);
        let window = self.bytes as f64;
        let round_trip = period.low_of_full.filter(|_| period.full >= SAMPLES);
        let Some(round_trip) = round_trip else {
            let rate = match low.saturating_sub(base) > target {
                true => rate,
                false if period.lost > 0 && period.rate_of_queued > 0.0 => period.rate_of_queued,
                false => return window,
            };
            let most = (rate * (base + target).as_secs_f64()).max(FIRST as f64);
            return most.clamp(window / 2.0, window);
        };
        let queue = round_trip.saturating_sub(base);
        if queue > target {
            self.is_known = true;
            if self.is_of_others(queue, target, round_trip, rate) {
                // The reduction was in vain.
                let before = self.standing.take();
                (self.base, self.probed) = (Some(low), Some(now));
                return before.map_or(window, |of| of.window);
            }
        } else {
            self.standing = None;
            if lost > LOSSY {
                self.is_known = true;
                return window * (1.0 - lost).max(0.5);
            }
            if !self.is_known {
                return 2.0 * window;
            }
        }
        // The window takes this round trip: with the whole difference the next queue would be the target. A period may still tell of the
        // window before; then the whole would swing without end.
        let difference = target.as_secs_f64() - queue.as_secs_f64();
        let factor = 1.0 + difference / round_trip.as_secs_f64().max(1e-6) / 2.0;
        window * factor.clamp(0.5, 2.0)
    }

    /// Whether other flows fill the queue, or the path has become longer: a smaller window then lowers the delivery rate, and not the
    /// queue. A link that overflows has a queue that does not shrink either, but delivers as much.
    fn is_of_others(
        &mut self,
        queue: Duration,
        target: Duration,
        round_trip: Duration,
        rate: f64,
    ) -> bool {
        let window = self.bytes as f64;
        let Some(of) = &mut self.standing else {
            self.standing = Some(Standing {
                longest: queue,
                window,
                rate,
                periods: 0,
            });
            return false;
        };
        of.longest = of.longest.max(queue);
        let reduced = of.window - window;
        let explained = reduced / window * round_trip.as_secs_f64();
        let fell = (of.longest - queue).as_secs_f64();
        let is_slower = 1.0 - rate / of.rate >= OWN * reduced / of.window;
        match explained > target.as_secs_f64() && fell < OWN * explained && is_slower {
            true => of.periods += 1,
            false => of.periods = 0,
        }
        of.periods >= PERIODS
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// Shorter than what fits, as packets of QUIC inside are.
    const PACKET: u64 = 1321;
    const MSS: u64 = 1452;

    /// A link with a queue, and a sender that always has more; a step is 100 us.
    struct Path {
        window: Window,
        /// Bytes/s.
        rate: f64,
        rtt: Duration,
        /// Packets; beyond, they are lost.
        room: u64,
        /// Acknowledgements come at multiples of it only.
        burst: Duration,
        /// What others have in the queue all the time.
        others: Duration,
        now: Duration,
        /// When the link is free.
        free: Duration,
        /// When each is acknowledged, when it was sent, and its number.
        acks: VecDeque<(Duration, Duration, u64)>,
        losses: VecDeque<Duration>,
        delivered: u64,
        waits: Duration,
        /// Packets that come to the sender each millisecond in every other quarter of a second, and that have come; 0: always more.
        comes: u64,
        came: u64,
        sent: u64,
        lost: u64,
        /// At most, from an arithmetic that looks random.
        jitter: Duration,
        /// One of so many packets is lost; 0: none.
        one_in: u32,
    }

    impl Path {
        fn new(mbit: f64, rtt: Duration) -> Path {
            Path {
                window: Window::default(),
                rate: mbit * 1e6 / 8.0,
                rtt,
                room: 1_000_000,
                burst: Duration::ZERO,
                others: Duration::ZERO,
                now: Duration::ZERO,
                free: Duration::ZERO,
                acks: VecDeque::new(),
                losses: VecDeque::new(),
                delivered: 0,
                waits: Duration::ZERO,
                comes: 0,
                came: 0,
                sent: 0,
                lost: 0,
                jitter: Duration::ZERO,
                one_in: 0,
            }
        }

        fn has_more(&self) -> bool {
            self.comes == 0 || self.sent < self.came
        }

        fn in_flight(&self) -> u64 {
            (self.acks.len() + self.losses.len()) as u64 * PACKET
        }

        /// Mbit/s, and the mean queue a packet of ours waits in.
        fn run(&mut self, time: Duration) -> (f64, Duration) {
            let end = self.now + time;
            let (before, mut waited) = (self.delivered, 0);
            self.waits = Duration::ZERO;
            while self.now < end {
                self.now += MS / 10;
                let micros = self.now.as_micros();
                if micros.is_multiple_of(1_000) && (micros / 250_000).is_multiple_of(2) {
                    self.came += self.comes;
                }
                while self.losses.front().is_some_and(|at| *at <= self.now) {
                    self.losses.pop_front();
                    self.window.on_lost();
                }
                while let Some((at, of, number)) = self.acks.front().copied() {
                    if at > self.now {
                        break;
                    }
                    self.acks.pop_front();
                    self.delivered += PACKET;
                    self.window.on_ack(number, PACKET, self.now - of, self.now);
                }
                while self.window.packets(self.in_flight(), MSS).1 > 0 && self.has_more() {
                    let wait = self.free.saturating_sub(self.now);
                    let each = Duration::from_secs_f64(PACKET as f64 / self.rate);
                    self.sent += 1;
                    if wait > each * self.room as u32 {
                        self.lost += 1;
                        self.losses.push_back(self.now + wait + self.rtt);
                    } else {
                        self.free = self.now + wait + each;
                        waited += 1;
                        self.waits += wait + self.others;
                        let random = (self.sent.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as u32;
                        let jitter = self.jitter.mul_f64(f64::from(random % 1000) / 1000.0);
                        let mut at = self.free + self.others + self.rtt + jitter;
                        if !self.burst.is_zero() {
                            let turns = at.as_nanos().div_ceil(self.burst.as_nanos());
                            at = self.burst * turns as u32;
                        }
                        if self.one_in > 0 && (random / 1000).is_multiple_of(self.one_in) {
                            self.losses.push_back(at);
                        } else {
                            self.acks.push_back((at, self.now, self.sent));
                        }
                    }
                    self.window.on_sent(self.sent, self.in_flight(), MSS);
                }
            }
            let mbit = (self.delivered - before) as f64 * 8e-6 / time.as_secs_f64();
            (mbit, self.waits / waited.max(1))
        }
    }

    /// Rates and round trips from a bad LTE to a LAN: the link is full, and the queue short.
    #[test]
    fn a_link_is_full_and_its_queue_short() {
        for (mbit, rtt) in [
            (2.0, 50),
            (20.0, 20),
            (20.0, 80),
            (200.0, 2),
            (300.0, 40),
            (40.0, 300),
        ] {
            let mut path = Path::new(mbit, rtt * MS);
            path.run(Duration::from_secs(10));
            let (carried, queue) = path.run(Duration::from_secs(10));
            assert!(carried > 0.97 * mbit, "{mbit} {rtt}: {carried}");
            // A packet of 2 Mbit/s takes 6 ms.
            let fewest = Duration::from_secs_f64(FEWEST as f64 / path.rate);
            let most = (2 * TARGET.max(rtt * MS / 4)).max(fewest);
            assert!(queue < most, "{mbit} {rtt}: {queue:?}");
        }
    }

    /// Of a download that begins: what waits behind another path for longer than [`super::super::order::LONGEST`] is of no use.
    #[test]
    fn until_a_link_is_known_its_queue_stays_short() {
        for (mbit, rtt) in [
            (2.0, 50),
            (20.0, 80),
            (40.0, 20),
            (200.0, 2),
            (300.0, 40),
            (40.0, 300),
        ] {
            let mut path = Path::new(mbit, rtt * MS);
            let longest = (0..300).map(|_| {
                path.run(10 * MS);
                path.free.saturating_sub(path.now)
            });
            let longest = longest.max().unwrap_or_default();
            let first = Duration::from_secs_f64(FIRST as f64 / path.rate);
            assert!(
                longest < first.max(5 * rtt * MS / 4 + 4 * TARGET),
                "{mbit} {rtt}: {longest:?}"
            );
        }
    }

    #[test]
    fn acknowledgements_in_bursts_are_no_queue() {
        let mut path = Path::new(200.0, 2 * MS);
        path.burst = 18 * MS;
        path.run(Duration::from_secs(3));
        let (carried, _) = path.run(Duration::from_secs(5));
        assert!(carried > 190.0, "{carried}");
    }

    /// The rate falls to a tenth, and returns.
    #[test]
    fn it_follows_the_rate() {
        let mut path = Path::new(20.0, 30 * MS);
        path.run(Duration::from_secs(3));
        path.rate /= 10.0;
        path.run(Duration::from_secs(2));
        let (carried, queue) = path.run(Duration::from_secs(3));
        assert!(carried > 1.9 && queue < 100 * MS, "{carried} {queue:?}");
        path.rate *= 10.0;
        path.run(Duration::from_secs(2));
        let (carried, queue) = path.run(Duration::from_secs(3));
        assert!(carried > 19.0 && queue < 25 * MS, "{carried} {queue:?}");
    }

    /// A path that becomes longer, as with another cell, or whose queue others fill.
    #[test]
    fn a_queue_of_others_does_not_starve_it() {
        let mut path = Path::new(20.0, 20 * MS);
        path.run(Duration::from_secs(3));
        path.others = 60 * MS;
        path.run(Duration::from_secs(2));
        let (carried, queue) = path.run(Duration::from_secs(3));
        assert!(carried > 19.0, "{carried}");
        assert!(queue < path.others + 40 * MS, "{queue:?}");
        path.others = Duration::ZERO;
        path.run(Duration::from_secs(12));
        let (carried, queue) = path.run(Duration::from_secs(3));
        assert!(carried > 19.0 && queue < 25 * MS, "{carried} {queue:?}");
    }

    /// It grows for three seconds, as where another download fills a buffer, and stays.
    #[test]
    fn a_growing_queue_of_others_does_not_starve_it() {
        let mut path = Path::new(20.0, 20 * MS);
        path.run(Duration::from_secs(3));
        for _ in 0..30 {
            path.others += 10 * MS;
            path.run(100 * MS);
        }
        path.run(Duration::from_secs(10));
        let (carried, queue) = path.run(Duration::from_secs(3));
        // A probe for a shorter round trip, halving the window, costs a twentieth.
        assert!(carried > 17.0, "{carried}");
        assert!(queue < path.others + 150 * MS, "{queue:?}");
    }

    /// A fade that takes most packets for two seconds.
    #[test]
    fn it_recovers_from_the_smallest_window() {
        let mut path = Path::new(20.0, 20 * MS);
        path.run(Duration::from_secs(3));
        path.one_in = 2;
        path.run(Duration::from_secs(2));
        assert!(path.window.bytes() < 2 * FEWEST, "{}", path.window.bytes());
        path.one_in = 0;
        path.run(Duration::from_secs(2));
        let (carried, queue) = path.run(Duration::from_secs(3));
        assert!(carried > 19.0 && queue < 25 * MS, "{carried} {queue:?}");
    }

    /// Its queue is shorter than the target: losses tell.
    #[test]
    fn a_link_without_a_queue_is_not_flooded() {
        let mut path = Path::new(20.0, 40 * MS);
        path.room = 3;
        path.run(Duration::from_secs(3));
        let (carried, _) = path.run(Duration::from_secs(5));
        assert!(carried > 15.0, "{carried}");
        let most = 2.0 * path.rate * path.rtt.as_secs_f64();
        assert!((path.window.bytes() as f64) < most);
    }

    /// 42 Mbit/s half of the time leave the link empty in between, and would overflow its queue of 20 ms.
    #[test]
    fn bursts_do_not_overflow_a_queue() {
        let mut path = Path::new(30.0, 20 * MS);
        (path.room, path.comes) = (52, 4);
        path.run(Duration::from_secs(3));
        let before = path.lost;
        let (carried, _) = path.run(Duration::from_secs(5));
        assert!(carried > 21.0, "{carried}");
        assert_eq!(path.lost, before);
    }

    /// Neither tells of a queue: the link stays full.
    #[test]
    fn jitter_and_random_losses_do_not_starve_it() {
        for (mbit, rtt, jitter, one_in) in
            [(50.0, 30, 10, 50), (20.0, 60, 40, 20), (100.0, 10, 5, 100)]
        {
            let mut path = Path::new(mbit, rtt * MS);
            (path.jitter, path.one_in) = (jitter * MS, one_in);
            path.run(Duration::from_secs(5));
            let (carried, _) = path.run(Duration::from_secs(10));
            let most = mbit * (1.0 - 1.0 / f64::from(one_in));
            assert!(
                carried > 0.93 * most,
                "{mbit} {rtt} {jitter} {one_in}: {carried}"
            );
        }
    }

    /// A flow that never fills its window meets none.
    #[test]
    fn who_sends_little_keeps_the_first_window() {
        let mut window = Window::default();
        for ms in 50..10_000 {
            window.on_sent(ms.into(), 3 * PACKET, MSS);
            window.on_ack(ms.into(), PACKET, (20 + ms % 30) * MS, ms * MS);
        }
        assert_eq!(window.bytes(), FIRST);
    }
}
