//! Which packet of the TUN goes where: TCP that would leave this host is turned back into it, to a listener of ours.
//!
//! A packet from application A to target T comes out of the TUN, is readdressed from *inside* (the TUN's peer address and a
//! port that stands for the pair) to the listener, and goes back in; packets from the listener to an inside address become
//! packets from T to A. The SYN is held until the relay has connected, so that `connect()` ends as it would without relay.
//!
//! Where a transparent listener takes the connections of an address, their packets go back in as they are, and most of them
//! never come here: of those connections the SYN alone counts.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::wire::Refusal;

use super::answer;
use super::packet::{Packet, ACK, FIN, RST, SYN};

/// More connections at once are reset.
pub const MOST: usize = 16_384;
const FIRST_PORT: u16 = 1024;
/// A connection that both ends have closed is remembered for so long, as in TIME_WAIT.
const CLOSED: Duration = Duration::from_secs(60);
/// One whose flow has ended may still have data for a slow reader. TCP probes it at least every two minutes.
const ABANDONED: Duration = Duration::from_secs(300);

/// One connection, for as long as the process lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(u64);

/// The TUN's own addresses of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    pub listener: SocketAddr,
    pub peer: IpAddr,
    /// Whose connections a transparent listener takes ([`mp_kernel::transparent`]).
    pub transparent: Option<IpAddr>,
}

/// What is to be done with a packet.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    Drop,
    /// It goes back in, with new addresses where it needs them.
    Write,
    /// A SYN to this target: it waits for [`Translator::admit`] or [`Translator::refuse`].
    Open(Id, SocketAddr),
    /// This packet goes in instead.
    Answer(Vec<u8>),
}

#[derive(Debug)]
struct Entry {
    id: Id,
    application: SocketAddr,
    target: SocketAddr,
    /// Of the SYN: another number on the same pair is another connection.
    first: u32,
    /// Its packets keep their addresses.
    transparent: bool,
    held: bool,
    accepted: bool,
    /// What the application expects next from the target.
    next: u32,
    /// FIN from the application and to it.
    ended: [bool; 2],
    reset: bool,
    /// The flow is over.
    done: bool,
    /// When a packet was seen.
    last: Duration,
}

impl Entry {
    fn see(&mut self, flags: u8, way: usize, now: Duration) {
        self.last = now;
        self.ended[way] |= flags & FIN != 0;
        self.reset |= flags & RST != 0;
    }

    fn expired(&self, now: Duration) -> bool {
        let idle = now.saturating_sub(self.last);
        let closed = self.reset || self.ended == [true; 2];
        closed && idle >= CLOSED || self.done && idle >= ABANDONED
    }
}

/// Time is that since any fixed moment, and never goes back.
#[derive(Debug)]
pub struct Translator {
    ends: Vec<Ends>,
    /// By inside address.
    entries: HashMap<SocketAddr, Entry>,
    pairs: HashMap<(SocketAddr, SocketAddr), SocketAddr>,
    ids: HashMap<Id, SocketAddr>,
    next_id: u64,
    next_port: u16,
    over: bool,
}

impl Translator {
    /// At most one of each family.
    pub fn new(ends: Vec<Ends>) -> Translator {
        Translator {
            ends,
            entries: HashMap::new(),
            pairs: HashMap::new(),
            ids: HashMap::new(),
            next_id: 0,
            next_port: FIRST_PORT,
            over: false,
        }
    }

    /// One that came out of the TUN.
    pub fn packet(&mut self, bytes: &mut [u8], partial: bool, now: Duration) -> Action {
        let Some(mut packet) = Packet::parse(bytes, partial) else {
            return Action::Drop;
        };
        let (from, to) = (packet.source(), packet.destination());
        let same = |ends: &&Ends| ends.listener.is_ipv4() == from.is_ipv4();
        let Some(ends) = self.ends.iter().find(same).copied() else {
            return Action::Drop;
        };
        let flags = packet.flags();
        if to.ip() == ends.peer {
            let entry = self.entries.get_mut(&to);
            let Some(entry) = entry.filter(|_| from == ends.listener) else {
                return Action::Drop;
            };
            entry.see(flags, 1, now);
            packet.redirect(entry.target, entry.application);
            return Action::Write;
        }
        let begins = flags & (SYN | ACK | RST) == SYN;
        if let Some(inside) = self.pairs.get(&(from, to)).copied() {
            let entry = self.entries.get_mut(&inside).expect("kept together");
            if !begins || entry.first == packet.sequence() {
                if entry.held {
                    return Action::Drop;
                }
                entry.see(flags, 0, now);
                entry.next = packet.acknowledgement();
                if !entry.transparent {
                    packet.redirect(inside, ends.listener);
                }
                return Action::Write;
            }
            // The application has given up the old connection and begins another from the same port.
            self.remove(inside);
        }
        if begins {
            match self.insert(from, to, packet.sequence(), ends, now) {
                Some(id) => Action::Open(id, to),
                None => {
                    let next = packet.sequence().wrapping_add(1);
                    Action::Answer(answer::reset(to, from, 0, Some(next)))
                }
            }
        } else if ends.transparent == Some(from.ip()) {
            // The kernel knows whether there is such a connection.
            Action::Write
        } else if flags & RST == 0 {
            // Of a connection from before: its end is to be seen at once.
            let (sequence, next) = match flags & ACK {
                0 => (
                    0,
                    Some(packet.sequence().wrapping_add(packet.stream_length())),
                ),
                _ => (packet.acknowledgement(), None),
            };
            Action::Answer(answer::reset(to, from, sequence, next))
        } else {
            Action::Drop
        }
    }

    fn insert(
        &mut self,
        application: SocketAddr,
        target: SocketAddr,
        first: u32,
        ends: Ends,
        now: Duration,
    ) -> Option<Id> {
        if self.over || self.entries.len() >= MOST {
            return None;
        }
        let inside = loop {
            let inside = SocketAddr::new(ends.peer, self.next_port);
            self.next_port = self.next_port.checked_add(1).unwrap_or(FIRST_PORT);
            if !self.entries.contains_key(&inside) {
                break inside;
            }
        };
        let id = Id(self.next_id);
        self.next_id += 1;
        self.pairs.insert((application, target), inside);
        self.ids.insert(id, inside);
        let entry = Entry {
            id,
            application,
            target,
            first,
            transparent: ends.transparent == Some(application.ip()),
            held: true,
            accepted: false,
            next: 0,
            ended: [false; 2],
            reset: false,
            done: false,
            last: now,
        };
        self.entries.insert(inside, entry);
        Some(id)
    }

    fn remove(&mut self, inside: SocketAddr) {
        if let Some(entry) = self.entries.remove(&inside) {
            self.pairs.remove(&(entry.application, entry.target));
            self.ids.remove(&entry.id);
        }
    }

    fn held(&mut self, id: Id) -> Option<(SocketAddr, &mut Entry)> {
        let inside = *self.ids.get(&id)?;
        let entry = self.entries.get_mut(&inside)?;
        entry.held.then_some((inside, entry))
    }

    /// Readdresses the SYN that has waited: the listener is to have it. `false`: the application has given up meanwhile.
    pub fn admit(&mut self, id: Id, syn: &mut [u8], partial: bool, now: Duration) -> bool {
        let Some((inside, entry)) = self.held(id) else {
            return false;
        };
        (entry.held, entry.last) = (false, now);
        if entry.transparent {
            return true;
        }
        let Some(mut packet) = Packet::parse(syn, partial) else {
            return false;
        };
        let family = self.ends.iter().find(|e| e.peer == inside.ip());
        let Some(ends) = family else { return false };
        packet.redirect(inside, ends.listener);
        true
    }

    /// Forgets the connection; what the application is to be told in answer to its SYN.
    pub fn refuse(&mut self, id: Id, syn: &mut [u8], why: Refusal) -> Option<Vec<u8>> {
        let (inside, _) = self.held(id)?;
        self.remove(inside);
        let packet = Packet::parse(syn, true)?;
        let (application, target) = (packet.source(), packet.destination());
        let next = packet.sequence().wrapping_add(1);
        Some(answer::refusal(why, syn, target, application, next))
    }

    /// The connection that has come to a listener from this address, of a socket with that one: once each.
    pub fn accept(&mut self, from: SocketAddr, local: SocketAddr) -> Option<Id> {
        let transparent = |inside: &&SocketAddr| self.entries[*inside].transparent;
        let kept = self.pairs.get(&(from, local)).filter(transparent);
        let inside = *kept.unwrap_or(&from);
        let entry = self.entries.get_mut(&inside)?;
        let new = !entry.held && !std::mem::replace(&mut entry.accepted, true);
        new.then_some(entry.id)
    }

    /// Its flow is over.
    pub fn finish(&mut self, id: Id, now: Duration) {
        let Some(inside) = self.ids.get(&id).copied() else {
            return;
        };
        let Some(entry) = self.entries.get_mut(&inside) else {
            return;
        };
        (entry.done, entry.last) = (true, now);
        if entry.held || entry.transparent {
            self.remove(inside);
        }
    }

    /// Forgets connections that nobody can hear of any more. Called now and then.
    pub fn expire(&mut self, now: Duration) {
        let old: Vec<SocketAddr> = self
            .entries
            .iter()
            .filter(|(_, entry)| entry.expired(now))
            .map(|(inside, _)| *inside)
            .collect();
        for inside in old {
            self.remove(inside);
        }
    }

    /// No more connections: what the applications of all there are have to be told. One that has just received data does
    /// not believe it, and asks; it is answered as any stranger is.
    pub fn end(&mut self) -> Vec<Vec<u8>> {
        // The kernel resets the others that are transparent, with our sockets.
        let told = self
            .entries
            .values()
            .filter(|entry| entry.held || !entry.transparent);
        let resets = told.map(|entry| {
            let (sequence, next) = match entry.held {
                true => (0, Some(entry.first.wrapping_add(1))),
                false => (entry.next, None),
            };
            answer::reset(entry.target, entry.application, sequence, next)
        });
        let resets = resets.collect();
        self.over = true;
        self.entries.clear();
        self.pairs.clear();
        self.ids.clear();
        resets
    }

    /// Connections that are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Every connection can be found by its inside address, its pair and its number, and nothing else can. For tests.
    #[doc(hidden)]
    pub fn is_consistent(&self) -> bool {
        let found = self.entries.iter().all(|(inside, entry)| {
            self.pairs.get(&(entry.application, entry.target)) == Some(inside)
                && self.ids.get(&entry.id) == Some(inside)
        });
        found
            && self.pairs.len() == self.len()
            && self.ids.len() == self.len()
            && self.len() <= MOST
    }
}
