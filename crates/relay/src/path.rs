//! A path of a flow: its connection, and what the schedulers see of it (TCP_INFO).

use std::io;
use std::time::{Duration, Instant};

use mp_kernel::mptcp_info::{tcp_info, TcpInfo};
use mp_policy::link::Priority;
use mp_policy::scheduler::SubflowView;
use socket2::SockRef;

use crate::carrier::Carrier;
use crate::control::Group;
use crate::socket::Transport;
use crate::wire::{Frame, Header};

/// No acknowledgement for the larger of this and the lesser of [`STALE_ROUND_TRIPS`] and RFC 6298's timeout (RTT + 4 RTTVAR),
/// while there should be some: the path is stale. On a link that fades, round trips have grown with its queue, the timeout
/// less. Linux' own timeout is at least 200 ms longer than a round trip.
const STALE: Duration = Duration::from_millis(200);
const STALE_ROUND_TRIPS: u32 = 4;
/// Then another connection over the same link is to take its place: a NAT that has forgotten this one lets new ones through.
const GIVEN_UP: Duration = Duration::from_secs(3);
/// What may wait in the socket: the data of so long at the pacing rate …
const WAITING: Duration = Duration::from_millis(10);
/// … within these bounds, bytes.
const LOWAT: (u64, u64) = (16 << 10, 1 << 20);
/// The system is asked no more often.
const FRESH: Duration = Duration::from_micros(500);
/// A record of TLS is longer than its content by so much.
pub const RECORD: u64 = 22;
/// Of an MPTCP connection the socket's buffer is the only limit: the flow sees a path with a window of so many segments of so many
/// bytes, a round trip of 1 s, and room for so many bytes between two readings.
const MPTCP_VIEW: (u32, u32, u64) = (1 << 10, 1 << 14, 1 << 18);

pub struct Path {
    pub carrier: Carrier,
    transport: Transport,
    priority: Priority,
    view: SubflowView,
    lowat: u64,
    /// Given since the last reading, bytes.
    given: u64,
    not_sent: u64,
    read: Option<Instant>,
    /// The socket has got something since then.
    unread: bool,
    /// When it got something last.
    spoke: Instant,
    silence: Silence,
    given_up: bool,
}

/// When bytes were acknowledged last, or none were in flight, and how many had been then.
struct Silence(Instant, u64);

impl Silence {
    /// Takes a reading; whether acknowledgements are overdue.
    fn is_stale(&mut self, info: &TcpInfo, now: Instant) -> bool {
        if info.unacked == 0 || info.bytes_acked != self.1 {
            *self = Silence(now, info.bytes_acked);
        }
        let round_trip = Duration::from_micros(info.rtt.into());
        let timeout = round_trip + 4 * Duration::from_micros(info.rttvar.into());
        let patience = STALE.max(timeout.min(STALE_ROUND_TRIPS * round_trip));
        now.duration_since(self.0) > patience
    }
}

impl Path {
    pub fn new(carrier: Carrier, priority: Priority, now: Instant) -> Path {
        Path {
            transport: Transport::of(carrier.stream()),
            carrier,
            priority,
            view: SubflowView::default(),
            lowat: 0,
            given: 0,
            not_sent: 0,
            read: None,
            unread: false,
            spoke: now,
            silence: Silence(now, 0),
            given_up: false,
        }
    }

    pub fn view(&self) -> SubflowView {
        self.view
    }

    /// From now on it is used so at this end.
    pub fn set_priority(&mut self, priority: Priority) {
        self.priority = priority;
        self.view.set_priority(priority);
    }

    pub fn is_backup(&self) -> bool {
        self.priority == Priority::Backup
    }

    /// The kernel couples the subflows of MPTCP by itself.
    pub fn join(&self, group: &Group) {
        if self.transport == Transport::Mptcp {
            return;
        }
        group.put(self.carrier.stream(), self.is_backup());
    }

    /// Asks the system anew, unless that was just now.
    pub fn refresh(&mut self, now: Instant) -> io::Result<Option<TcpInfo>> {
        if self.read.is_some_and(|at| now.duration_since(at) < FRESH) {
            return Ok(None);
        }
        if self.transport == Transport::Mptcp {
            self.take_all(now);
            return Ok(None);
        }
        let info = tcp_info(self.carrier.stream())?;
        self.take(&info, now);
        let wanted = (info.pacing_rate.min(u64::from(u32::MAX)) * WAITING.as_millis() as u64
            / 1000)
            .clamp(LOWAT.0, LOWAT.1);
        if wanted.abs_diff(self.lowat) > self.lowat / 4 {
            SockRef::from(self.carrier.stream()).set_tcp_notsent_lowat(wanted as u32)?;
            self.lowat = wanted;
        }
        Ok(Some(info))
    }

    /// TCP_INFO of an MPTCP socket is that of its first subflow alone: the kernel deals, and finds dead subflows.
    fn take_all(&mut self, now: Instant) {
        (self.read, self.given, self.unread) = (Some(now), 0, false);
        let (cwnd, mss, room) = MPTCP_VIEW;
        self.view = SubflowView {
            active: true,
            mss,
            srtt_us: 1_000_000,
            min_rtt_us: 1_000_000,
            cwnd,
            room: if self.carrier.blocked() { 0 } else { room },
            pacing_rate: u64::from(cwnd) * u64::from(mss),
            ..SubflowView::default()
        };
        self.view.set_priority(self.priority);
    }

    fn take(&mut self, info: &TcpInfo, now: Instant) {
        let mss = info.snd_mss.max(1);
        let in_flight = (info.unacked + info.retrans).saturating_sub(info.sacked + info.lost);
        let lowat = self.lowat.max(LOWAT.0);
        // A little may wait in the socket, or it would run dry between two looks.
        let ahead = (lowat / u64::from(mss)).min(u64::from(info.snd_cwnd / 4 + 2)) as u32;
        (self.read, self.given, self.unread) = (Some(now), 0, false);
        self.not_sent = u64::from(info.notsent_bytes);
        self.view = SubflowView {
            active: true,
            stale: self.silence.is_stale(info, now),
            mss,
            srtt_us: info.rtt,
            rttvar_us: info.rttvar,
            // All ones before the first sample.
            min_rtt_us: if info.min_rtt == u32::MAX {
                0
            } else {
                info.min_rtt
            },
            cwnd: info.snd_cwnd.saturating_add(ahead),
            in_flight,
            unsent: info.notsent_bytes.div_ceil(mss),
            queued: u64::from(in_flight) * u64::from(mss) + self.not_sent,
            room: if self.carrier.blocked() {
                0
            } else {
                lowat.saturating_sub(self.not_sent)
            },
            pacing_rate: info.pacing_rate,
            sent: u64::from(info.data_segs_out),
            lost: u64::from(info.total_retrans.saturating_sub(info.dsack_dups)),
            delivered: u64::from(info.delivered),
            ..SubflowView::default()
        };
        self.view.set_priority(self.priority);
    }

    /// So many bytes go to it now: the view has them before the system is asked again.
    pub fn give(&mut self, bytes: u64) {
        self.given += bytes;
        self.view.unsent =
            (self.not_sent + self.given).div_ceil(u64::from(self.view.mss.max(1))) as u32;
        self.view.queued += bytes;
        self.view.room = self.view.room.saturating_sub(bytes);
    }

    /// A frame whose acknowledgement is watched for.
    pub fn put(&mut self, frame: &Frame) {
        self.carrier.put(frame);
        self.give(RECORD + Header::of(frame).bytes().len() as u64);
    }

    /// Gives the socket what it takes.
    pub fn flush(&mut self, now: Instant) -> io::Result<()> {
        if self.carrier.blocked() {
            (self.unread, self.spoke) = (true, now);
        }
        self.carrier.flush()
    }

    /// Nothing was said on it for so long: whether the peer still hears is not known.
    pub fn is_mute(&self, now: Instant, time: Duration) -> bool {
        now.duration_since(self.spoke) >= time
    }

    /// Since when nothing was acknowledged, where it is time for another connection. Once each time.
    pub fn given_up(&mut self, now: Instant) -> Option<Instant> {
        let Silence(since, _) = self.silence;
        let gives_up = self.view.stale && now.duration_since(since) > GIVEN_UP;
        let before = std::mem::replace(&mut self.given_up, gives_up);
        (gives_up && !before).then_some(since)
    }

    /// Something of it is not acknowledged yet, as far as is known.
    pub fn busy(&self) -> bool {
        self.unread || self.view.in_flight > 0 || self.view.unsent > 0 || self.carrier.blocked()
    }

    /// The socket has data for so long, at the pacing rate.
    pub fn holds(&self) -> Duration {
        let bytes = u128::from(self.not_sent + self.given);
        let nanoseconds = bytes * 1_000_000_000 / u128::from(self.view.pacing_rate.max(1));
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }

    /// Bytes a second that it carries, by its window.
    pub fn rate(&self) -> u64 {
        let v = &self.view;
        u64::from(v.cwnd) * u64::from(v.mss) * 1_000_000 / u64::from(v.srtt_us.max(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::tests::pair;

    /// A path that acknowledges until 0 ms and then no more; the first look that finds it stale, ms.
    fn found_stale_after(rtt_ms: u32, rttvar_ms: u32) -> u64 {
        let start = Instant::now();
        let mut info = TcpInfo {
            unacked: 3,
            bytes_acked: 1000,
            rtt: rtt_ms * 1000,
            rttvar: rttvar_ms * 1000,
            // As Linux has it: with 200 ms for the variance at least.
            rto: (rtt_ms + 4 * rttvar_ms.max(50)) * 1000,
            ..TcpInfo::default()
        };
        let mut silence = Silence(start, 0);
        for _ in 0..100 {
            assert!(!silence.is_stale(&info, start), "something is acknowledged");
            info.bytes_acked += 1000;
        }
        let at = |ms| start + Duration::from_millis(ms);
        (0..).find(|ms| silence.is_stale(&info, at(*ms))).unwrap()
    }

    /// An opener or an acknowledgement that goes out at the end of a turn would else be looked for a minute later.
    #[tokio::test]
    async fn what_went_out_is_busy_until_it_is_read_as_acknowledged() {
        let (here, _there) = pair().await;
        let mut path = Path::new(here, Priority::Normal, Instant::now());
        let read = |path: &mut Path| {
            path.read = None;
            path.refresh(Instant::now()).unwrap()
        };
        while read(&mut path).unwrap().unacked > 0 {
            tokio::task::yield_now().await;
        }
        assert!(!path.busy());
        path.carrier.put(&Frame::Opened(Ok(())));
        path.flush(Instant::now()).unwrap();
        assert!(path.busy());
        while read(&mut path).unwrap().unacked > 0 {
            assert!(path.busy());
            tokio::task::yield_now().await;
        }
        assert!(!path.busy());
        path.flush(Instant::now()).unwrap();
        assert!(!path.busy(), "there was nothing to send");
    }

    #[test]
    fn a_path_is_stale_when_acknowledgements_are_overdue() {
        assert_eq!(found_stale_after(20, 5), 201, "the least");
        // A queue of 100 ms on a link that fades: not 301, with Linux' timeout.
        assert_eq!(found_stale_after(120, 10), 201);
        assert_eq!(found_stale_after(150, 30), 271);
        assert_eq!(found_stale_after(150, 200), 601, "four round trips at most");
    }

    #[test]
    fn a_path_with_nothing_in_flight_is_not_stale() {
        let start = Instant::now();
        let mut silence = Silence(start, 0);
        let idle = TcpInfo::default();
        assert!(!silence.is_stale(&idle, start + Duration::from_secs(60)));
        let busy = TcpInfo { unacked: 1, ..idle };
        let sent = start + Duration::from_secs(60);
        assert!(!silence.is_stale(&busy, sent + STALE));
        assert!(silence.is_stale(&busy, sent + STALE * 2));
    }
}
