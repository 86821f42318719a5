//! Links and what travels over them.

mod link;
mod packet;

pub use link::{Link, Outcome, Replan};
pub use packet::{flag, Kind, Packet, NO_SACK, SPREAD};

use crate::agenda::Agenda;

/// Blocks of one selective acknowledgement, the most recent first.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sack {
    /// `[start, end)`, segments.
    pub blocks: [(u64, u64); 3],
    pub len: u8,
    /// The first block reports a duplicate (RFC 2883).
    pub duplicate: bool,
}

/// The selective acknowledgements under way: few packets carry one, so they live beside the packets.
#[derive(Debug, Default)]
pub struct Sacks {
    slots: Vec<Sack>,
    free: Vec<u32>,
}

impl Sacks {
    pub fn put(&mut self, sack: Sack) -> u32 {
        match self.free.pop() {
            Some(i) => {
                self.slots[i as usize] = sack;
                i
            }
            None => {
                self.slots.push(sack);
                self.slots.len() as u32 - 1
            }
        }
    }

    pub fn get(&self, index: u32) -> Option<Sack> {
        self.slots.get(index as usize).copied()
    }

    pub fn take(&mut self, index: u32) -> Option<Sack> {
        (index != NO_SACK).then(|| {
            self.free.push(index);
            self.slots[index as usize]
        })
    }
}

/// All links, and the clock that drives them. A link's number is also its own in the agenda.
#[derive(Debug, Default)]
pub struct Network {
    pub now: u64,
    pub agenda: Agenda,
    pub links: Vec<Link>,
    pub sacks: Sacks,
    /// Data segments sent so far, retransmissions included.
    pub data_packets: u64,
    /// What was sent since it was last emptied, where the run is watched: link, packet and its SACK blocks.
    pub tap: Option<Vec<(u32, Packet, Option<Sack>)>>,
}

impl Network {
    pub fn add(&mut self, link: Link) -> u32 {
        self.links.push(link);
        self.agenda.links.add()
    }

    #[inline]
    pub fn send(&mut self, index: u32, packet: &Packet) {
        if let Some(tap) = &mut self.tap {
            tap.push((index, *packet, self.sacks.get(packet.sack())));
        }
        let link = &mut self.links[index as usize];
        if link.send(self.now, packet) {
            let next = link.next_event();
            if next < self.agenda.links.at(index) {
                self.agenda.links.set(index, next);
            }
        } else {
            self.sacks.take(packet.sack());
        }
    }

    /// Carries out the event of a link that is due. True where a packet has reached the far host: it is in `packet`.
    #[inline]
    pub fn advance(&mut self, index: u32, packet: &mut Packet) -> bool {
        let link = &mut self.links[index as usize];
        let outcome = link.advance(self.now, packet);
        let onward = link.next;
        let next = link.next_event();
        self.agenda.links.set(index, next);
        match outcome {
            Outcome::Nothing => false,
            Outcome::Gone => {
                self.sacks.take(packet.sack());
                false
            }
            Outcome::Arrived => match onward {
                Some(onward) => {
                    self.send(onward, packet);
                    false
                }
                None => true,
            },
        }
    }

    /// After a change to a link from outside.
    pub fn rearm(&mut self, index: u32) {
        let next = self.links[index as usize].next_event();
        self.agenda.links.set(index, next);
    }
}
