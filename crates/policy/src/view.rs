//! What a host can know of its connections: the contract between the worlds and the policies.
//!
//! Every world (simulator, testbed, daemon) fills in the same [`View`]. A value that a world does not have is `None` and
//! never an invented number. What a policy concludes from missing values is the policy's own affair
//! ([`estimate`](crate::estimate)).
//!
//! | value | [`Role::Sender`] | [`Role::Receiver`] |
//! | --- | --- | --- |
//! | packets, lost, acknowledged, in flight | [`Sent`] | `None` in the simulator; the host's own requests on the kernel |
//! | packets, out of order, payload | `None` in the simulator; answers on the kernel | [`Received`] |
//! | smoothed RTT | of the ACKs | of the data (`tcpi_rcv_rtt`); before the first data as the next one |
//! | minimum RTT | of the ACKs | of the handshake, and on the kernel of the ACKs of its own requests |
//!
//! `crates/testbed/tests/views.rs` holds the worlds to it with recorded transfers.
//!
//! The unit is a connection. Where one policy judges a host, all its connections are summed, path by path.

/// Which end of the data the host is: the one that most payload came from, or went to, of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Role {
    #[default]
    Sender,
    Receiver,
}

/// A pair of addresses that a subflow could connect. Its index in the slice is its name; the list only ever grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path {
    /// Both addresses exist and the local interface is up.
    pub up: bool,
    /// The connection was opened over it; `None` where the view is of a host, whose connections differ in that.
    pub initial: Option<bool>,
    /// What the user says of its interface.
    pub rule: Rule,
    /// Received signal strength, dBm; `None` where the interface has none.
    pub signal_dbm: Option<i32>,
    pub probes: Probes,
}

/// What the user says of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rule {
    #[default]
    None,
    /// Set to backup last.
    Preferred,
    /// Carries data only while no other path does.
    Metered,
    /// Never used.
    Untrusted,
}

/// Outcome of the probes of a path so far. A probe is lost where one that was sent later is answered, until it is
/// answered itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probes {
    pub answered: u64,
    pub lost: u64,
}

impl Probes {
    /// Since `last`. A late answer takes back a loss, and counts as none.
    pub fn since(&self, last: &Probes) -> Probes {
        Probes {
            answered: self.answered.saturating_sub(last.answered),
            lost: self.lost.saturating_sub(last.lost),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Slot is free.
    #[default]
    Closed,
    /// SYN sent.
    Opening,
    Established,
}

/// A subflow slot. Its index in the slice is the slot. A host's slot stands for all subflows of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Subflow {
    pub state: State,
    /// Index of its path.
    pub path: usize,
    pub backup: bool,
    pub counters: Counters,
}

/// Data that this host sent, since the subflow was established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sent {
    /// Packets, retransmissions included.
    pub packets: u64,
    /// Packets marked lost, less those that the peer calls needless.
    pub lost: u64,
    /// Payload acknowledged, bytes.
    pub bytes: u64,
    /// Packets sent and not acknowledged now.
    pub in_flight: u64,
}

/// Data that arrived at this host, since the subflow was established.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    /// Packets, duplicates included.
    pub packets: u64,
    /// Packets that arrived ahead of a hole in the sequence of the subflow (`tcpi_rcv_ooopack`).
    pub out_of_order: u64,
    /// New payload, in order or not, bytes.
    pub bytes: u64,
    /// Dead-path detection ([`Silence`](crate::estimate::Silence)) finds that the path has died.
    pub silent: bool,
}

/// Counters of a subflow. They only ever grow; another subflow in the slot begins again at 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    pub sent: Option<Sent>,
    pub received: Option<Received>,
    /// Smoothed round-trip time, µs; `None` before the first sample.
    pub srtt_us: Option<u32>,
    /// Lowest round-trip time, µs; `None` before the first sample.
    pub min_rtt_us: Option<u32>,
}

/// What moved between two polls, either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    pub packets: u64,
    /// Losses: a sender's, and one for a poll in which a receiver saw holes. All packets that follow a hole arrive out of
    /// order until it is filled, so their number says nothing of the number of losses.
    pub lost: u64,
    /// Payload, bytes.
    pub bytes: u64,
}

impl Counters {
    /// Packets so far, either way.
    pub fn packets(&self) -> u64 {
        self.sent.map_or(0, |s| s.packets) + self.received.map_or(0, |r| r.packets)
    }

    /// Payload so far, either way, bytes.
    pub fn bytes(&self) -> u64 {
        self.sent.map_or(0, |s| s.bytes) + self.received.map_or(0, |r| r.bytes)
    }

    /// Since `last`; `None` if these are the counters of another subflow.
    pub fn since(&self, last: &Counters) -> Option<Moved> {
        let (sent, was) = (self.sent.unwrap_or_default(), last.sent.unwrap_or_default());
        let (received, before) = (
            self.received.unwrap_or_default(),
            last.received.unwrap_or_default(),
        );
        let holes = received.out_of_order > before.out_of_order;
        Some(Moved {
            packets: sent.packets.checked_sub(was.packets)?
                + received.packets.checked_sub(before.packets)?,
            lost: sent.lost.saturating_sub(was.lost) + u64::from(holes),
            bytes: sent.bytes.checked_sub(was.bytes)? + received.bytes.checked_sub(before.bytes)?,
        })
    }
}

/// What a live subflow did since the poll before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity {
    /// The world's own names for its connection, and for itself.
    pub connection: u32,
    pub id: u64,
    /// `None`: on no path of the host's.
    pub path: Option<usize>,
    /// This end has it in backup.
    pub backup: bool,
    /// New payload that arrived, in order or not, bytes.
    pub arrived: u64,
    /// Payload either way, bytes.
    pub moved: u64,
    /// Packets with data that have arrived so far; wraps.
    pub packets: u32,
    /// Round-trip time of the data that arrive, else of the ACKs, µs; `None` before the first sample.
    pub rtt_us: Option<u32>,
}

/// What a path manager sees of one connection, or of all connections of a host together. Only the end that opened a
/// connection opens further subflows, because the other one mostly sits behind its NAT: path managers run at that end alone.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub now_us: u64,
    pub role: Role,
    pub paths: &'a [Path],
    pub subflows: &'a [Subflow],
    /// Payload bytes delivered in order so far, either way.
    pub bytes: u64,
    /// When the oldest of the connections that move data began to, or began anew after a rest (RFC 5681 section 4.1), µs;
    /// `None` while none is known to move.
    pub began_us: Option<u64>,
}

impl View<'_> {
    /// Subflows on a path, open or opening.
    pub fn subflows_on(&self, path: usize) -> usize {
        self.subflows
            .iter()
            .filter(|s| s.state != State::Closed && s.path == path)
            .count()
    }

    /// What is wrong with this view, and with it after `before`: every world's adapter is tested with it.
    pub fn check(&self, before: Option<&View<'_>>) -> Result<(), String> {
        let fail = |what: String| Err(format!("view at {} us: {what}", self.now_us));
        for (slot, s) in self.subflows.iter().enumerate() {
            let c = &s.counters;
            if s.path >= self.paths.len() {
                return fail(format!("slot {slot} is on no path"));
            }
            if c.srtt_us == Some(0) || c.min_rtt_us == Some(0) {
                return fail(format!(
                    "slot {slot} has a round-trip time of 0, which is None"
                ));
            }
            let own = match self.role {
                Role::Sender => c.sent.is_some(),
                Role::Receiver => c.received.is_some(),
            };
            // Before the first poll there are none at all.
            let polled = c.sent.is_some() || c.received.is_some();
            if s.state == State::Established && polled && !own {
                return fail(format!("slot {slot} lacks the counters of its role"));
            }
            if c.received.is_some_and(|r| r.packets == 0 && r.bytes > 0) {
                return fail(format!("slot {slot} has payload of no packet"));
            }
        }
        match before {
            Some(b) if b.now_us > self.now_us || b.bytes > self.bytes => {
                fail("time or goodput went backwards".into())
            }
            Some(b) if b.paths.len() > self.paths.len() => fail("a path has gone".into()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(packets: u64, lost: u64, bytes: u64) -> Counters {
        let in_flight = 0;
        Counters {
            sent: Some(Sent {
                packets,
                lost,
                bytes,
                in_flight,
            }),
            ..Counters::default()
        }
    }

    #[test]
    fn a_poll_with_holes_is_one_loss_however_many_packets_follow_them() {
        let received = |packets, out_of_order, bytes| Counters {
            received: Some(Received {
                packets,
                out_of_order,
                bytes,
                silent: false,
            }),
            ..Counters::default()
        };
        let moved = received(150, 30, 140_000).since(&received(100, 0, 100_000));
        let (packets, lost, bytes) = (50, 1, 40_000);
        assert_eq!(
            moved,
            Some(Moved {
                packets,
                lost,
                bytes
            })
        );
    }

    #[test]
    fn another_subflow_has_no_difference_to_the_last() {
        let (old, new) = (counters(100, 3, 90_000), counters(7, 0, 7_000));
        assert_eq!(new.since(&old), None);
        assert_eq!(old.since(&new).map(|m| (m.packets, m.lost)), Some((93, 3)));
    }

    #[test]
    fn a_view_that_claims_what_its_role_cannot_know_is_found() {
        let subflows = [Subflow {
            state: State::Established,
            counters: counters(10, 0, 9_000),
            ..Subflow::default()
        }];
        let sender = View {
            now_us: 5,
            role: Role::Sender,
            paths: &[Path::default()],
            subflows: &subflows,
            bytes: 9_000,
            began_us: None,
        };
        assert_eq!(sender.check(None), Ok(()));
        let receiver = View {
            role: Role::Receiver,
            ..sender
        };
        assert!(receiver.check(None).unwrap_err().contains("its role"));
        let earlier = View {
            now_us: 4,
            ..sender
        };
        assert!(earlier.check(Some(&sender)).is_err());
    }
}
