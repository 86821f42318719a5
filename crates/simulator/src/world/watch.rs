//! What an observer of the client's interfaces is told.

use super::World;
use crate::network::{Kind, Packet, Sack};
use crate::observe::{Observer, Passing};

impl World<'_> {
    /// A packet has reached a host; only the client is watched.
    pub(super) fn show_arrival(&self, packet: &Packet, observer: &mut dyn Observer) {
        if matches!(packet.kind, Kind::Probe | Kind::ProbeEcho) {
            return;
        }
        let download = self.subflows[packet.subflow as usize].download;
        let to_client = match packet.kind {
            Kind::Data => download,
            Kind::Ack => !download,
            Kind::SynAck | Kind::AddAddr | Kind::ProbeEcho => true,
            Kind::Syn | Kind::Third | Kind::Fourth | Kind::Priority => false,
            Kind::AddAddrEcho | Kind::Probe => false,
        };
        if to_client {
            self.show(
                false,
                packet,
                self.net.sacks.get(packet.sack()).as_ref(),
                observer,
            );
        }
    }

    /// Whatever the client has sent since the last call.
    pub(super) fn show_departures(&mut self, observer: &mut dyn Observer) {
        let Some(mut sent) = self.net.tap.take() else {
            return;
        };
        for (link, packet, sack) in sent.drain(..) {
            if matches!(packet.kind, Kind::Probe | Kind::ProbeEcho) {
                continue;
            }
            // A shared link behind the first one hands on what has left its sender before.
            let sender = &self.subflows[packet.subflow as usize].sender;
            if packet.kind == Kind::Data && link == sender.profile.link {
                observer.sent(&packet);
            }
            // A first link in the client's direction is left by the client alone.
            if link == self.subflows[packet.subflow as usize].up {
                self.show(true, &packet, sack.as_ref(), observer);
            }
        }
        self.net.tap = Some(sent);
    }

    fn show(
        &self,
        from_client: bool,
        packet: &Packet,
        sack: Option<&Sack>,
        observer: &mut dyn Observer,
    ) {
        let subflow = &self.subflows[packet.subflow as usize];
        let connection = &self.connections[subflow.connection as usize];
        let path = |i: usize| self.plans[connection.plan].paths[i] as u32;
        let announced = match packet.kind {
            Kind::AddAddr | Kind::AddAddrEcho => path(packet.seq as usize),
            _ => path(subflow.path),
        };
        observer.packet(&Passing {
            now_ns: self.net.now,
            transfer: connection.id,
            join: subflow.join,
            path: path(subflow.path),
            announced,
            from_client,
            download: subflow.download,
            mss: connection.mss,
            packet,
            sack,
        });
    }
}
