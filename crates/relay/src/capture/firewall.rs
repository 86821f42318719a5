//! Whether what comes in over the TUN reaches a listener of this host. Behind a firewall that drops it, as ufw and firewalld
//! do, every connection of the host would wait in vain.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use etherparse::PacketBuilder;
use mp_kernel::tun;
use tokio::net::unix::pipe;
use tokio::time::timeout;

use super::answer;
use super::out::Out;
use super::packet::Packet;
use crate::links::TUN;
use crate::Error;

/// The kernel answers its own packet at once.
const PATIENCE: Duration = Duration::from_secs(1);
/// Connections of programs seem to come from higher ones.
const PORT: u16 = 1;
const SEQUENCE: u32 = 1;
const WINDOW: u16 = 1024;

/// Opens a connection to the listener, as far as its first answer. Nobody else reads the TUN yet.
pub async fn check(out: &Out, peer: IpAddr, listener: SocketAddr) -> Result<(), Error> {
    let from = SocketAddr::new(peer, PORT);
    let failed = |e: io::Error| Error::failed(TUN, e);
    let reading = out.read().map_err(failed)?;
    out.write(syn(from, listener));
    let answered = timeout(PATIENCE, answer(&reading, listener, from)).await;
    out.write(Some(answer::reset(from, listener, SEQUENCE + 1, None)));
    match answered {
        Ok(answered) => answered.map_err(failed),
        Err(_) => Err(Error::Missing(format!(
            "a firewall of this host drops what comes in over {TUN}: allow it, such as by ufw allow in on {TUN}, or by firewall-cmd --zone=trusted --add-interface={TUN}"
        ))),
    }
}

/// IPv4 alone: a firewall has the same rule for both families.
fn syn(from: SocketAddr, to: SocketAddr) -> Option<Vec<u8>> {
    let (IpAddr::V4(source), IpAddr::V4(target)) = (from.ip(), to.ip()) else {
        return None;
    };
    let mut packet = Vec::new();
    PacketBuilder::ipv4(source.octets(), target.octets(), 64)
        .tcp(from.port(), to.port(), SEQUENCE, WINDOW)
        .syn()
        .write(&mut packet, &[])
        .ok()?;
    Some(packet)
}

async fn answer(reading: &pipe::Receiver, from: SocketAddr, to: SocketAddr) -> io::Result<()> {
    let mut buffer = [0; 2048];
    loop {
        reading.readable().await?;
        let count = match reading.try_read(&mut buffer) {
            Err(e) if e.kind() == ErrorKind::WouldBlock => continue,
            count => count?,
        };
        let packet = buffer.get_mut(tun::HEADER..count).unwrap_or_default();
        if Packet::parse(packet, true).is_some_and(|p| (p.source(), p.destination()) == (from, to))
        {
            return Ok(());
        }
    }
}
