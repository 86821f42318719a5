//! The path manager's wishes, addresses and priorities, and the end of subflows and connections.

use mp_policy::path_manager::{Action, Event, Role, State, Subflow as Slot, View};
use mp_policy::scheduler::Schedule;
use mp_policy::view::Activity;
use mp_policy::MAX_SUBFLOWS;

use super::handshake::PROBE;
use super::World;
use crate::agenda::NEVER;
use crate::mptcp::{Phase, Subflow};
use crate::network::{Kind, Packet, NO_SACK};
use crate::view::{activity, mark_silent, Halves, Receiving, Sending};

/// Retransmissions of an ADD_ADDR that is not echoed (`ADD_ADDR_RETRANS_MAX`).
const ANNOUNCE_RETRIES: u32 = 3;
/// An ADD_ADDR of an IPv4 address with its HMAC, bytes.
const ADDRESS: u32 = 16;

/// Both halves of a subflow, of which [`Halves::counters`] takes what the client's end can know.
pub(super) fn halves(s: &Subflow, mss: u32) -> Halves {
    let flow = &s.sender.flow;
    Halves {
        download: s.download,
        mss,
        handshake_us: s.handshake_us,
        sending: Sending {
            packets: s.sender.sent,
            lost: flow.lost,
            bytes: s.sender.delivered_bytes(),
            in_flight: u64::from(flow.packets_out()),
            srtt_us: flow.srtt_us,
            min_rtt_us: flow.min_rtt_us,
        },
        receiving: Receiving {
            in_order: s.receiver.rcv_nxt,
            held: s.receiver.held,
            arrived: s.receiver.arrived,
            out_of_order: s.receiver.out_of_order,
            rtt_us: s.receiver.rtt_us(),
        },
    }
}

impl World<'_> {
    /// Tells the client's path manager and does what it asks for.
    pub(super) fn manage(&mut self, owner: u32, event: Event) {
        let connection = &self.connections[owner as usize];
        if !connection.multipath || !connection.managed || connection.closed {
            return;
        }
        let mss = connection.mss;
        let slot = |&i: &u32| {
            let s = &self.subflows[i as usize];
            Slot {
                state: match s.client {
                    Phase::Closed | Phase::Idle => State::Closed,
                    Phase::Opening | Phase::Unconfirmed => State::Opening,
                    Phase::Established => State::Established,
                },
                path: s.path,
                backup: s.client_backup,
                counters: halves(s, mss).counters(),
            }
        };
        let mut slots: Vec<Slot> = connection.slots.iter().map(slot).collect();
        if event == Event::Timer {
            self.poll(owner, &mut slots);
        }
        let now_us = self.net.now / 1000;
        let connection = &mut self.connections[owner as usize];
        let view = View {
            now_us,
            paths: &connection.paths,
            subflows: &slots,
            role: if self.plans[connection.plan].download {
                Role::Receiver
            } else {
                Role::Sender
            },
            bytes: connection.delivered_bytes(),
            began_us: connection.driver.began_us(now_us),
        };
        for action in connection.driver.observe(event, &view) {
            match action {
                Action::Open { path, backup } => self.join(owner, path, backup),
                Action::Close { slot } => {
                    if let Some(&i) = self.connections[owner as usize].slots.get(slot) {
                        self.close_subflow(i, false);
                    }
                }
                Action::SetBackup { slot, backup } => {
                    if let Some(&i) = self.connections[owner as usize].slots.get(slot) {
                        self.prioritise(i, backup);
                    }
                }
                Action::Probe { path, count } => self.probe(owner, path, count),
                Action::Wake { at_us } => {
                    self.connections[owner as usize].wake_at = at_us * 1000;
                    self.arm_connection(owner);
                }
            }
        }
    }

    /// What the subflows did since the last poll; peers that do not know of a backup, or of its end, are told again.
    fn poll(&mut self, owner: u32, slots: &mut [Slot]) {
        let connection = &mut self.connections[owner as usize];
        let mut activities: Vec<Activity> = Vec::with_capacity(slots.len());
        for (slot, &i) in slots.iter().zip(&connection.slots) {
            let polled = &mut self.subflows[i as usize].polled_bytes;
            let before = std::mem::replace(polled, slot.counters.bytes());
            activities.push(activity(i.into(), slot, before));
        }
        let in_backup = |path: usize| slots.iter().any(|s| s.path == path && s.backup);
        let now_us = self.net.now / 1000;
        let polled = connection.driver.poll(now_us, &activities, in_backup);
        mark_silent(slots, &polled.silent);
        for (slot, s) in slots.iter().enumerate() {
            if s.state == State::Established && polled.retry.contains(&s.path) {
                self.prioritise(self.connections[owner as usize].slots[slot], s.backup);
            }
        }
    }

    /// Over the path's subflow, which has its links.
    fn probe(&mut self, owner: u32, path: usize, count: u32) {
        let connection = &mut self.connections[owner as usize];
        let on = |i: &&u32| {
            let s = &self.subflows[**i as usize];
            s.path == path && !s.closed()
        };
        let Some(&index) = connection.slots.iter().find(on) else {
            return;
        };
        for seq in connection.probing[path].send(count) {
            self.send_control(index, true, Kind::Probe, 0, PROBE, seq);
        }
    }

    pub(super) fn on_echo(&mut self, index: u32, seq: u64) {
        let s = &self.subflows[index as usize];
        let connection = &mut self.connections[s.connection as usize];
        let probing = &mut connection.probing[s.path];
        probing.answer(seq);
        connection.paths[s.path].probes = probing.told;
    }

    fn join(&mut self, owner: u32, path: usize, backup: bool) {
        let connection = &mut self.connections[owner as usize];
        let free = connection
            .slots
            .iter()
            .position(|&i| self.subflows[i as usize].closed());
        let slot = free.unwrap_or(connection.slots.len());
        if slot >= MAX_SUBFLOWS || path >= connection.paths.len() {
            return;
        }
        connection.scheduler.forget(slot);
        connection.views[slot] = Default::default();
        connection.cursors[slot] = connection.una;
        self.open(owner, slot, path, backup);
    }

    pub(super) fn apply_backup(&mut self, index: u32, backup: bool) {
        let s = &mut self.subflows[index as usize];
        if s.closed() {
            return;
        }
        s.backup = backup;
        s.sender.flow.backup = backup;
        let owner = s.connection;
        if !backup {
            self.take_airtime(index);
        }
        self.refresh(index);
        self.feed(owner);
    }

    /// The server tells the addresses that the client's other paths lead to.
    pub(super) fn announce(&mut self, index: u32) {
        let owner = self.subflows[index as usize].connection;
        let connection = &mut self.connections[owner as usize];
        if !connection.multipath || connection.paths.len() < 2 {
            return;
        }
        let initial = connection
            .paths
            .iter()
            .position(|p| p.initial == Some(true));
        // More addresses than bits are not told, and no connection has so many subflows.
        let told = connection.paths.len().min(32);
        let first = 1u32.checked_shl(initial.unwrap_or(0) as u32).unwrap_or(0);
        connection.unannounced = (u32::MAX >> (32 - told)) & !first;
        connection.announce_tries = 0;
        self.announce_again(owner);
    }

    pub(super) fn announce_again(&mut self, owner: u32) {
        let connection = &mut self.connections[owner as usize];
        connection.announce_at = NEVER;
        let first = connection.slots.first().copied();
        let (Some(first), true) = (first, connection.unannounced != 0 && !connection.closed) else {
            return;
        };
        if connection.announce_tries > ANNOUNCE_RETRIES {
            return;
        }
        let s = &self.subflows[first as usize];
        let rto = s.sender.rto();
        connection.announce_at = self.net.now + (rto << connection.announce_tries);
        connection.announce_tries += 1;
        let missing = connection.unannounced;
        for path in (0..32).filter(|path| missing >> path & 1 == 1) {
            self.send_address(first, path, false);
        }
        self.arm_connection(owner);
    }

    fn send_address(&mut self, index: u32, path: usize, echo: bool) {
        let s = &self.subflows[index as usize];
        let packet = Packet {
            subflow: index,
            kind: if echo {
                Kind::AddAddrEcho
            } else {
                Kind::AddAddr
            },
            flags: 0,
            count: 1,
            spread: 0,
            size: super::transfer::ACK_HEADER + ADDRESS,
            more: NO_SACK,
            seq: path as u64,
            dseq: 0,
            stamp: self.net.now,
            extra: 1,
        };
        let link = if echo { s.up } else { s.down };
        self.net.send(link, &packet);
    }

    /// The client learns an address.
    pub(super) fn on_address(&mut self, index: u32, path: usize) {
        let owner = self.subflows[index as usize].connection;
        self.send_address(index, path, true);
        let connection = &mut self.connections[owner as usize];
        if path < connection.paths.len() && !connection.paths[path].up {
            connection.paths[path].up = true;
            self.manage(owner, Event::PathUp(path));
        }
    }

    /// A subflow ends. Linux then sends all data again that are not acknowledged, whether the subflow carried any or not
    /// (`__mptcp_close_ssk`, `__mptcp_retransmit_pending_data`). The sender of a download has no subflow before the third packet
    /// of its handshake (`subflow_syn_recv_sock`), and then nothing to close.
    pub(super) fn close_subflow(&mut self, index: u32, error: bool) {
        let s = &mut self.subflows[index as usize];
        if s.closed() {
            return;
        }
        let (owner, slot, path) = (s.connection, s.slot, s.path);
        let sender_has_it = !s.download || s.server == Phase::Established;
        self.shut(index);
        self.resize_buffer(owner);
        self.refresh(index);
        if self.connections[owner as usize].multipath {
            if sender_has_it {
                self.send_all_again(owner);
            }
            self.manage(owner, Event::SubflowClosed { slot, path, error });
            self.feed(owner);
        }
        let connection = &self.connections[owner as usize];
        let dead = |&i: &u32| self.subflows[i as usize].closed();
        if error && connection.slots.iter().all(dead) {
            let id = connection.id;
            self.run.notes.push(format!("transfer {id}: timed out"));
            self.end(owner);
        }
    }

    fn shut(&mut self, index: u32) {
        let s = &mut self.subflows[index as usize];
        s.client = Phase::Closed;
        s.server = Phase::Closed;
        s.client_attempt.at = NEVER;
        s.server_attempt.at = NEVER;
        let connection = &mut self.connections[s.connection as usize];
        s.sender.close(&mut connection.shared);
        s.receiver.close();
    }

    /// The last byte has been delivered.
    pub(super) fn complete(&mut self, owner: u32) {
        self.connections[owner as usize].finished = Some(self.net.now);
        self.end(owner);
    }

    fn end(&mut self, owner: u32) {
        self.learn(owner);
        self.remember(owner);
        let connection = &mut self.connections[owner as usize];
        connection.closed = true;
        connection.retransmit_at = NEVER;
        connection.announce_at = NEVER;
        connection.wake_at = NEVER;
        let plan = connection.plan;
        self.live[plan] -= 1;
        for k in 0..self.connections[owner as usize].subflows.len() {
            let index = self.connections[owner as usize].subflows[k];
            if !self.subflows[index as usize].closed() {
                self.shut(index);
            }
        }
    }
}
