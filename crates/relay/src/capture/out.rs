//! Where packets of the datagram lane come out.

use std::fs::File;
use std::io::{self, IoSlice, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU32, Ordering};

use mp_kernel::tun;
use rustix::io::fcntl_dupfd_cloexec;
use tokio::net::unix::pipe;

use super::fragments::{divide, LONGEST};
use super::{icmp, udp};
use crate::datagram::device::Sink;
use crate::datagram::echo::Answer;
use crate::datagram::packet::Destination;
use crate::links::same_family;
use crate::wire::Refusal;

/// Of the next packet in fragments.
static NEXT_ID: AtomicU32 = AtomicU32::new(0);

pub struct Out {
    pub tun: File,
    /// The TUN's, of each family.
    pub peers: Vec<IpAddr>,
}

impl Out {
    /// The TUN's packets; the descriptor is above that for writing.
    pub fn read(&self) -> io::Result<pipe::Receiver> {
        let above = self.tun.as_raw_fd() + 1;
        let file = File::from(fcntl_dupfd_cloexec(&self.tun, above)?);
        pipe::Receiver::from_file_unchecked(file)
    }

    pub fn peer(&self, as_of: SocketAddr) -> Option<IpAddr> {
        let same = |peer: &&IpAddr| same_family(**peer, as_of.ip());
        self.peers.iter().find(same).copied()
    }

    pub fn write(&self, packet: Option<Vec<u8>>) {
        let Some(packet) = packet else { return };
        if packet.first().is_some_and(|first| first >> 4 == 6) && packet.len() > LONGEST {
            let all = divide(&packet, NEXT_ID.fetch_add(1, Ordering::Relaxed));
            return all.iter().for_each(|fragment| self.put(fragment));
        }
        self.put(&packet);
    }

    fn put(&self, packet: &[u8]) {
        self.frame(&[0; tun::HEADER], packet);
    }

    /// What does not fit is lost, as on any link.
    pub fn frame(&self, header: &[u8], packet: &[u8]) {
        let parts = [IoSlice::new(header), IoSlice::new(packet)];
        let _ = (&self.tun).write_vectored(&parts);
    }
}

impl Sink for Out {
    fn deliver(&self, from: Destination, to: SocketAddr, payload: &[u8]) {
        self.write(match from {
            Destination::Udp(from) => udp::build(from, to, payload),
            Destination::Echo(target) => {
                Answer::decode(payload).and_then(|answer| icmp::answer(&answer, target, to))
            }
        });
    }

    fn refuse(&self, application: SocketAddr, target: Destination, why: Refusal) {
        let answer = self.peer(application).and_then(|peer| match target {
            // That nobody listens at a port its host says itself: traceroute ends there.
            Destination::Udp(target) if why == Refusal::ConnectionRefused => {
                udp::unreachable(application, target, why, target.ip())
            }
            Destination::Udp(target) => udp::unreachable(application, target, why, peer),
            Destination::Echo(target) => icmp::unreachable(application, target, why, peer),
        });
        self.write(answer);
    }
}
