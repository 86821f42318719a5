//! Data and ACKs at their ends: the path that every packet takes.

use super::{cx, World};
use crate::mptcp::Phase;
use crate::network::{flag, Kind, Packet, NO_SACK};
use crate::tcp::Reply;
use crate::time::{MICROSECOND, MILLISECOND};

/// IP and TCP headers with timestamps, bytes.
pub(super) const ACK_HEADER: u32 = 20 + 20 + 12;
/// Data sequence signal of a data packet (RFC 8684 section 3.3), bytes: with it a full MPTCP segment is as large on
/// the wire as a full TCP segment, and has as much less payload.
pub(super) const DATA_SIGNAL: u32 = 28;
/// Data-level acknowledgement in an ACK, bytes.
const DATA_ACK: u32 = 12;
/// SACK: option header, and each block.
const SACK_HEADER: u32 = 4;
const SACK_BLOCK: u32 = 8;

/// SACK blocks that fit into the 40 bytes of options, beside timestamps and the data-level acknowledgement.
pub(super) fn sack_room(multipath: bool) -> usize {
    if multipath {
        1
    } else {
        3
    }
}

impl World<'_> {
    /// What a loss has cut out of a train leaves runs, each of which the receiver sees, and answers, by itself.
    pub(super) fn on_data(&mut self, packet: &Packet) {
        if packet.segments() == u32::from(packet.count) {
            return self.on_run(packet);
        }
        packet.runs(|run| self.on_run(run));
    }

    fn on_run(&mut self, packet: &Packet) {
        let index = packet.subflow;
        let s = &mut self.subflows[index as usize];
        if s.receiver.is_closed() {
            return;
        }
        let receiving = if s.download { s.client } else { s.server };
        if receiving != Phase::Established {
            self.confirm_by_data(index);
            self.arm(index);
        }
        let end = packet.seq + u64::from(packet.count);
        if self.subflows[index as usize]
            .receiver
            .must_flush(packet.seq, end)
        {
            self.acknowledge(index);
        }
        let s = &mut self.subflows[index as usize];
        let owner = s.connection;
        let connection = &mut self.connections[owner as usize];
        let now = self.net.now;
        let rtt = u64::from(s.sender.flow.srtt_us) * 1000;
        let before = s.receiver.rcv_nxt;
        let mut reply = s.receiver.on_data(packet, packet.seq, end, now, rtt);
        let blocked = connection.reassembly.held > 0;
        let read = connection.reassembly.next;
        let whole = packet.seq == before && s.receiver.rcv_nxt == end;
        if connection.multipath && whole {
            connection.receive_run(packet.dseq, u64::from(packet.count));
        } else if connection.multipath {
            for seq in before..s.receiver.rcv_nxt {
                connection.receive(s.sender.board.at(seq).dseq());
            }
        } else {
            connection.reassembly.next = s.receiver.rcv_nxt;
        }
        let drained = connection.reassembly.held == 0;
        if reply == Reply::Later && drained {
            reply = s.receiver.drained();
        }
        let ahead = if connection.multipath {
            0
        } else {
            s.receiver.ahead()
        };
        let opened = s.receiver.opened;
        s.receiver.opened = connection.window.open(opened, u64::from(packet.segments()));
        if connection.reassembly.next == read {
            if !connection.multipath {
                connection.window.make_room(ahead);
            }
        } else if connection.window.due(now, rtt) {
            let rtts = connection.slots.iter().map(|&i| {
                let s = &self.subflows[i as usize];
                u64::from(s.sender.flow.srtt_us) * MICROSECOND
            });
            let longest = rtts.max().unwrap_or(rtt);
            let window = &mut connection.window;
            window.adjust(now, longest, connection.reassembly.next, ahead);
        }
        let done = connection.done();
        if reply == Reply::Now || done {
            self.acknowledge(index);
        }
        if blocked && drained {
            self.acknowledge_drained(owner);
        }
        if done {
            self.complete(owner);
            return;
        }
        let at = self.subflows[index as usize].receiver.deadline();
        self.arm_at(index, at);
    }

    /// The application has read what one subflow's data had held back of the others' (`mptcp_cleanup_rbuf`).
    fn acknowledge_drained(&mut self, owner: u32) {
        for k in 0..self.connections[owner as usize].slots.len() {
            let index = self.connections[owner as usize].slots[k];
            if self.subflows[index as usize].receiver.drained() == Reply::Now {
                self.acknowledge(index);
            }
        }
    }

    /// Sends an ACK from the data receiver.
    pub(super) fn acknowledge(&mut self, index: u32) {
        let s = &mut self.subflows[index as usize];
        let connection = &mut self.connections[s.connection as usize];
        let now = self.net.now;
        let mut size = ACK_HEADER;
        if connection.multipath {
            size += DATA_ACK;
        }
        let mut sack = NO_SACK;
        if let Some(blocks) = s.receiver.acknowledge() {
            size += SACK_HEADER + SACK_BLOCK * u32::from(blocks.len);
            sack = self.net.sacks.put(blocks);
        }
        let next = connection.reassembly.next;
        // Segments out of order on a subflow take no room of the connection's buffer yet.
        let held = if connection.multipath {
            connection.reassembly.held
        } else {
            s.receiver.held
        };
        let window = connection.window.announce(next, held, s.receiver.opened);
        let echo = s.receiver.echo();
        let packet = Packet {
            subflow: index,
            kind: Kind::Ack,
            flags: if s.receiver.echoes_congestion() {
                flag::ECE
            } else {
                0
            },
            count: 1,
            spread: 0,
            size,
            more: sack,
            seq: s.receiver.rcv_nxt,
            dseq: next,
            stamp: echo,
            // Both clocks tick in milliseconds.
            extra: Packet::ack_extra(window, now / MILLISECOND - echo / MILLISECOND),
        };
        let link = s.back();
        self.net.send(link, &packet);
    }

    pub(super) fn on_ack(&mut self, packet: &Packet) {
        let index = packet.subflow;
        let sack = self.net.sacks.take(packet.sack());
        let s = &mut self.subflows[index as usize];
        if s.sender.dead {
            return;
        }
        if !s.download && s.client == Phase::Unconfirmed {
            self.confirm(index);
        }
        let s = &mut self.subflows[index as usize];
        let owner = s.connection;
        let connection = &mut self.connections[owner as usize];
        if connection.multipath {
            connection.tell_data_level(s, packet);
        }
        if packet.dseq > connection.una {
            connection.una = packet.dseq;
            connection.progress = self.net.now;
        }
        // `ack_update_msk` takes the window that TCP has, and TCP takes none that shrank from a duplicate ACK
        // (`tcp_may_update_window`). So a data-level ACK that arrives with one moves the edge further than was announced.
        if packet.seq > s.sender.flow.snd_una || packet.window() > s.sender.window {
            s.sender.window = packet.window();
        }
        connection.edge = connection.edge.max(packet.dseq + s.sender.window);
        let multipath = connection.multipath;
        {
            let mut cx = cx(&mut self.net, connection);
            s.sender.on_ack(packet, sack.as_ref(), &mut cx);
            s.sender.push(&mut cx);
        }
        if multipath {
            if s.sender.expand_buffer() {
                self.resize_buffer(owner);
            } else {
                connection.buffer.refill(connection.una);
            }
            let s = &mut self.subflows[index as usize];
            s.stale = false;
            if s.sender.dead {
                self.close_subflow(index, true);
            } else {
                self.refresh(index);
            }
            self.feed(owner);
        }
        self.arm(index);
    }
}
