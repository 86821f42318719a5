//! Handshakes: three packets for MP_CAPABLE and plain TCP, four for MP_JOIN (RFC 8684 sections 3.1 and 3.2), each over
//! the links and at their mercy; MP_PRIO and ADD_ADDR arrive here too.

use mp_policy::path_manager::Event;

use super::{cx, World};
use crate::agenda::NEVER;
use crate::mptcp::{Buffer, Phase, Subflow, Window, FRAGMENT, FRAGMENTS_A_BURST};
use crate::network::{flag, Kind, Packet, NO_SACK};
use crate::tcp::{Profile, Receiver, Sender};
use crate::time::{MICROSECOND, MILLISECOND, SECOND};

/// IP and TCP headers with the options of a SYN, bytes.
const SYN_HEADER: u32 = 20 + 20 + 20;
/// MP_JOIN in a SYN, bytes; MP_CAPABLE is 4.
const JOIN: u32 = 12;
/// MP_CAPABLE with both keys, or MP_JOIN with its HMAC, bytes.
const KEYS: u32 = 24;
/// An HTTP request line in a download's third packet, bytes.
const REQUEST: u32 = 100;
/// net.ipv4.tcp_syn_retries, tcp_syn_linear_timeouts (`tcp_retransmit_timer`, Linux 6.5) and tcp_synack_retries: a SYN is repeated
/// after 1, 2, 3, 4, 5, 7, 11, 19, 35 and 67 s.
const SYN_RETRIES: u32 = 6;
const SYN_LINEAR: u32 = 4;
const SYN_ACK_RETRIES: u32 = 5;
/// Unanswered SYNs after which MP_CAPABLE is left out (net.mptcp.syn_retrans_before_tcp_fallback).
const PLAIN_AFTER: u32 = 2;
const THIRD_RETRIES: u32 = 15;
/// An echo request with 32 bytes of data (RFC 792).
pub(super) const PROBE: u32 = 20 + 8 + 32;

impl World<'_> {
    /// The client opens a subflow in `slot`.
    pub(super) fn open(&mut self, owner: u32, slot: usize, path: usize, backup: bool) {
        let index = self.subflows.len() as u32;
        let connection = &self.connections[owner as usize];
        let plan = &self.plans[connection.plan];
        let (up, down) = self.path_links[plan.paths[path]];
        let join = !connection.subflows.is_empty();
        let link = if plan.download { down } else { up };
        let ecn = self.net.links[link as usize].marks()
            || self.net.links[link as usize]
                .next
                .is_some_and(|n| self.net.links[n as usize].marks());
        let multipath = connection.multipath;
        let profile = Profile {
            subflow: index,
            link,
            mss: plan.mss,
            header: super::transfer::ACK_HEADER
                + if multipath {
                    super::transfer::DATA_SIGNAL
                } else {
                    0
                },
            short: if multipath && self.scenario.segment_train == 1 {
                FRAGMENTS_A_BURST * FRAGMENT % plan.mss
            } else {
                0
            },
            train: self.scenario.segment_train,
            ecn,
            plain: !multipath,
        };
        let controller = plan.controller.build(slot, self.subflow_seed(index));
        let sender = Sender::new(profile, controller, plan.send_buffer);
        let download = plan.download;
        let source = self.new_source(super::Source::Subflow(index));
        self.subflows.push(Subflow {
            connection: owner,
            slot,
            path,
            up,
            down,
            download,
            join,
            backup,
            client_backup: backup,
            syn_sent: 0,
            handshake_us: 0,
            polled_bytes: 0,
            sender,
            receiver: Receiver::new(
                super::transfer::sack_room(multipath),
                Window::first(profile.mss),
            ),
            client: Phase::Idle,
            server: Phase::Idle,
            client_attempt: Default::default(),
            server_attempt: Default::default(),
            source,
            scheduled: NEVER,
            stale: false,
            stale_count: 0,
            stale_stamp: 0,
        });
        let connection = &mut self.connections[owner as usize];
        connection.subflows.push(index);
        if slot < connection.slots.len() {
            connection.slots[slot] = index;
        } else {
            connection.slots.push(index);
        }
        if !backup {
            self.take_airtime(index);
        }
        self.send_syn(index);
    }

    pub(super) fn send_control(
        &mut self,
        index: u32,
        to_server: bool,
        kind: Kind,
        flags: u8,
        size: u32,
        seq: u64,
    ) {
        let s = &self.subflows[index as usize];
        let link = if to_server { s.up } else { s.down };
        let packet = Packet {
            subflow: index,
            kind,
            flags,
            count: 1,
            spread: 0,
            size,
            more: NO_SACK,
            seq,
            dseq: 0,
            stamp: self.net.now,
            extra: 1,
        };
        self.net.send(link, &packet);
    }

    fn send_syn(&mut self, index: u32) {
        let now = self.net.now;
        let s = &mut self.subflows[index as usize];
        let tries = s.client_attempt.tries;
        if tries > SYN_RETRIES + SYN_LINEAR {
            return self.close_subflow(index, true);
        }
        if tries == 0 {
            s.client_attempt.first = now;
            s.client = Phase::Opening;
        }
        s.client_attempt.at = now + (SECOND << tries.saturating_sub(SYN_LINEAR));
        s.client_attempt.tries += 1;
        let (join, backup) = (s.join, s.backup);
        let asks =
            self.connections[s.connection as usize].multipath && (join || tries <= PLAIN_AFTER);
        let mut flags = 0;
        let mut size = SYN_HEADER;
        if asks {
            flags |= flag::MULTIPATH;
            size += if join { JOIN } else { 4 };
        }
        if backup {
            flags |= flag::BACKUP;
        }
        self.send_control(index, true, Kind::Syn, flags, size, 0);
        self.arm(index);
    }

    pub(super) fn on_handshake(&mut self, packet: &Packet) {
        let index = packet.subflow;
        if self.subflows[index as usize].closed() {
            return;
        }
        match packet.kind {
            Kind::Syn => self.on_syn(index, packet),
            Kind::SynAck => self.on_syn_ack(index, packet),
            Kind::Third => self.on_third(index),
            Kind::Fourth => self.confirm(index),
            Kind::Priority => self.apply_backup(index, packet.seq == 1),
            Kind::AddAddr => self.on_address(index, packet.seq as usize),
            Kind::AddAddrEcho => {
                let owner = self.subflows[index as usize].connection;
                self.connections[owner as usize].unannounced &= !(1 << packet.seq);
            }
            Kind::Probe => {
                self.send_control(index, false, Kind::ProbeEcho, 0, PROBE, packet.seq);
            }
            Kind::ProbeEcho => self.on_echo(index, packet.seq),
            Kind::Data | Kind::Ack => {}
        }
    }

    /// The server answers, again for a SYN that comes again.
    fn on_syn(&mut self, index: u32, packet: &Packet) {
        let s = &self.subflows[index as usize];
        let owner = s.connection;
        if !packet.has(flag::MULTIPATH) && !s.join && self.connections[owner as usize].multipath {
            self.fall_back(owner);
        }
        let s = &mut self.subflows[index as usize];
        s.syn_sent = packet.stamp;
        match s.server {
            Phase::Idle => {
                s.server = Phase::Opening;
                s.server_attempt.first = self.net.now;
                self.send_syn_ack(index);
            }
            Phase::Opening => self.send_syn_ack(index),
            _ => {}
        }
    }

    fn send_syn_ack(&mut self, index: u32) {
        let now = self.net.now;
        let s = &mut self.subflows[index as usize];
        if s.server_attempt.tries > SYN_ACK_RETRIES {
            s.server_attempt.at = NEVER;
            return;
        }
        s.server_attempt.at = now + (SECOND << s.server_attempt.tries);
        s.server_attempt.tries += 1;
        let size = SYN_HEADER + if s.join { JOIN + 4 } else { 12 };
        let echo = s.syn_sent;
        self.send_control(index, false, Kind::SynAck, 0, size, echo);
        self.arm(index);
    }

    fn on_syn_ack(&mut self, index: u32, packet: &Packet) {
        let now = self.net.now;
        let s = &mut self.subflows[index as usize];
        if s.client != Phase::Opening {
            // Our third packet was lost.
            return self.send_third(index);
        }
        let rtt = (s.client_attempt.tries == 1).then_some(now - s.client_attempt.first);
        s.handshake_us = ((now - packet.seq) / MICROSECOND).max(1) as u32;
        s.client = Phase::Unconfirmed;
        s.client_attempt = Default::default();
        s.client_attempt.first = rtt.unwrap_or(SECOND);
        let starts = !s.download && !s.join;
        self.send_third(index);
        if starts {
            self.establish(index, rtt);
        }
    }

    /// Also the request of a download: sent again until something comes back.
    fn send_third(&mut self, index: u32) {
        let now = self.net.now;
        let s = &mut self.subflows[index as usize];
        let attempt = &mut s.client_attempt;
        if s.client == Phase::Unconfirmed {
            if attempt.tries > THIRD_RETRIES {
                return self.close_subflow(index, true);
            }
            // A probe of the one packet out (`tcp_schedule_loss_probe`), then back-off.
            let wait = 2 * attempt.first + 200 * MILLISECOND;
            attempt.at = now + (wait << attempt.tries.min(9));
            attempt.tries += 1;
        }
        let mut size = super::transfer::ACK_HEADER;
        if self.connections[s.connection as usize].multipath {
            size += KEYS;
        }
        if s.download && !s.join {
            size += REQUEST;
        }
        self.send_control(index, true, Kind::Third, 0, size, 0);
        self.arm(index);
    }

    fn on_third(&mut self, index: u32) {
        let now = self.net.now;
        let s = &mut self.subflows[index as usize];
        let (join, download) = (s.join, s.download);
        if s.server == Phase::Established {
            if join {
                self.send_fourth(index);
            }
            return;
        }
        let rtt = (s.server_attempt.tries == 1).then_some(now - s.server_attempt.first);
        s.server = Phase::Established;
        s.server_attempt.at = NEVER;
        if join {
            self.send_fourth(index);
        } else {
            self.announce(index);
        }
        if download {
            self.establish(index, rtt);
        }
    }

    fn send_fourth(&mut self, index: u32) {
        let size = super::transfer::ACK_HEADER;
        self.send_control(index, false, Kind::Fourth, 0, size, 0);
    }

    /// Data show that the other end is there.
    #[cold]
    pub(super) fn confirm_by_data(&mut self, index: u32) {
        let s = &self.subflows[index as usize];
        if s.download {
            self.confirm(index);
        } else {
            self.on_third(index);
        }
    }

    /// The client knows that the server has its third packet.
    pub(super) fn confirm(&mut self, index: u32) {
        let s = &mut self.subflows[index as usize];
        if s.client != Phase::Unconfirmed {
            return;
        }
        let rtt = s.client_attempt.first;
        s.client = Phase::Established;
        s.client_attempt.at = NEVER;
        let (owner, slot, join) = (s.connection, s.slot, s.join);
        if join && !s.download {
            self.establish(index, Some(rtt));
        }
        if join {
            self.manage(owner, Event::SubflowEstablished(slot));
        } else if self.connections[owner as usize].multipath {
            self.connections[owner as usize].managed = true;
            self.federate(owner);
            self.manage(owner, Event::Established);
        }
    }

    /// The data sender of a subflow may start.
    fn establish(&mut self, index: u32, rtt: Option<u64>) {
        let s = &mut self.subflows[index as usize];
        let owner = s.connection;
        if s.sender.established {
            return;
        }
        let connection = &mut self.connections[owner as usize];
        s.sender.flow.backup = s.backup;
        {
            let mut cx = cx(&mut self.net, connection);
            s.sender.establish(&mut cx, rtt);
        }
        self.resize_buffer(owner);
        self.refresh(index);
        self.feed(owner);
        self.arm(index);
    }

    /// MP_CAPABLE got no answer: the connection goes on as plain TCP.
    fn fall_back(&mut self, owner: u32) {
        let connection = &mut self.connections[owner as usize];
        connection.multipath = false;
        connection.fallback = true;
        connection.buffer = Buffer::unlimited(connection.mss);
        let s = &mut self.subflows[connection.slots[0] as usize];
        s.sender.profile.plain = true;
        s.sender.profile.header = super::transfer::ACK_HEADER;
        s.receiver = Receiver::new(super::transfer::sack_room(false), s.receiver.opened);
        let note = format!(
            "transfer {}: no answer to MP_CAPABLE, went on as plain TCP",
            connection.id
        );
        self.run.notes.push(note);
    }

    /// Handshake packets that are due once more.
    pub(super) fn on_attempts(&mut self, index: u32) {
        let now = self.net.now;
        let s = &mut self.subflows[index as usize];
        if s.server_attempt.at <= now {
            s.server_attempt.at = NEVER;
            if s.server == Phase::Opening {
                self.send_syn_ack(index);
            }
        }
        let s = &mut self.subflows[index as usize];
        if s.client_attempt.at <= now {
            s.client_attempt.at = NEVER;
            match s.client {
                Phase::Opening => self.send_syn(index),
                Phase::Unconfirmed => self.send_third(index),
                _ => {}
            }
        }
    }
}
