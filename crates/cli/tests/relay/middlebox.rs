//! Somebody between device and relay who changes, cuts and keeps what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{Reply, PATIENCE};
use crate::datagrams::connect;
use crate::hosts::{Hosts, RELAY, SERVER};
use crate::strangers::answer;

const MB: u64 = 1_000_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Up,
    Down,
}

/// Where a piece stands that passes.
#[derive(Clone, Copy)]
struct Place {
    /// In order of their beginning.
    connection: usize,
    way: Way,
    offset: u64,
}

/// Changes a piece; whether the connection goes on.
type Meddling = Box<dyn Fn(Place, &mut [u8]) -> bool + Send + Sync>;

/// Listens beside the relay. The line that leads there.
fn start(hosts: &Hosts, port: u16, meddling: Meddling) -> String {
    let relay: SocketAddr = RELAY.parse().unwrap();
    hosts.in_relay(move || {
        let listener = TcpListener::bind((relay.ip(), port)).unwrap();
        let meddling = Arc::new(meddling);
        thread::spawn(move || {
            for (connection, device) in listener.incoming().enumerate() {
                let (device, relay) = (device.unwrap(), TcpStream::connect(relay));
                // It may be gone by now.
                let Ok(relay) = relay else { return };
                for way in [Way::Up, Way::Down] {
                    let ends = [&device, &relay].map(|end| end.try_clone().unwrap());
                    let meddling = meddling.clone();
                    let place = Place {
                        connection,
                        way,
                        offset: 0,
                    };
                    thread::spawn(move || pass(place, ends, &meddling));
                }
            }
        });
    });
    let (before, after) = hosts.line.split_once('#').unwrap();
    let (host, _) = before.rsplit_once(':').unwrap();
    format!("{host}:{port}#{after}")
}

fn pass(mut place: Place, [device, relay]: [TcpStream; 2], meddling: &Meddling) {
    let (mut from, mut to) = match place.way {
        Way::Up => (&device, &relay),
        Way::Down => (&relay, &device),
    };
    let mut buffer = [0; 1 << 14];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let piece = &mut buffer[..count];
        if !meddling(place, piece) || to.write_all(piece).is_err() {
            break;
        }
        place.offset += count as u64;
    }
    let _ = device.shutdown(Shutdown::Both);
    let _ = relay.shutdown(Shutdown::Both);
}

/// Inverts the byte at this offset of the connection, if the piece has it.
fn invert(place: Place, piece: &mut [u8], offset: u64) {
    let index = offset.checked_sub(place.offset).map(|index| index as usize);
    if let Some(byte) = index.and_then(|index| piece.get_mut(index)) {
        *byte = !*byte;
    }
}

#[test]
fn a_handshake_that_was_meddled_with_is_none() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    // In the device's hello: TLS 1.3 (RFC 8446, section 4.2.1: the extension, its length, one version) becomes 1.2.
    let downgraded = Arc::new(AtomicBool::new(false));
    let was = downgraded.clone();
    let downgrade: Meddling = Box::new(move |place, piece| {
        let found = piece
            .windows(7)
            .position(|bytes| bytes == [0, 43, 0, 3, 2, 3, 4]);
        if let (Way::Up, Some(found)) = (place.way, found) {
            piece[found + 6] = 3;
            was.store(true, Ordering::Relaxed);
        }
        true
    });
    let within = |way| -> Meddling {
        Box::new(move |place, piece| {
            if place.way == way {
                invert(place, piece, 100);
            }
            true
        })
    };
    let cut: Meddling = Box::new(|place, piece| {
        place.way == Way::Down || place.offset + (piece.len() as u64) < 100
    });
    let meddlings = [downgrade, within(Way::Up), within(Way::Down), cut];
    thread::scope(|scope| {
        for (port, meddling) in (8443..).zip(meddlings) {
            let line = start(&hosts, port, meddling);
            let hosts = &hosts;
            scope.spawn(move || {
                let work = format!("get {SERVER} 1000");
                let reply = hosts.run_as("home", &line, &[], &work).output().unwrap();
                Reply::from(reply).refused(1, &format!("relay 10.99.0.1:{port}: over "));
            });
        }
    });
    assert!(downgraded.load(Ordering::Relaxed));
    let listed = hosts.relay_command(&["--devices"]).out;
    assert!(
        listed.contains("not yet"),
        "no device has enrolled: {listed}"
    );
}

#[test]
fn what_is_changed_or_cut_in_a_stream_comes_whole_by_another_connection() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let corrupt: Meddling = Box::new(|place, piece| {
        invert(place, piece, 2 * MB);
        true
    });
    let cut: Meddling = Box::new(|place, _| place.offset < 2 * MB);
    for (port, meddling) in (8443..).zip([corrupt, cut]) {
        let line = start(&hosts, port, meddling);
        for work in ["get", "put"] {
            let work = format!("{work} {SERVER} {}", 7 * MB);
            let reply = hosts.run_as("home", &line, &[], &work).output().unwrap();
            let reply = Reply::from(reply);
            assert!(
                reply.out.contains("worked: whole"),
                "{work}: {}{}",
                reply.out,
                reply.err
            );
        }
    }
}

#[test]
fn what_was_heard_is_worth_nothing_later() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let heard = Arc::new(Mutex::new(Vec::new()));
    let first = heard.clone();
    let listen: Meddling = Box::new(move |place, piece| {
        if place.connection == 0 && place.way == Way::Up {
            first.lock().unwrap().extend_from_slice(piece);
        }
        true
    });
    let line = start(&hosts, 8443, listen);
    let one = ["--link", "wifi"];
    let work = format!("put {SERVER} 1000");
    let reply = hosts.run_as("home", &line, &one, &work).output().unwrap();
    assert!(Reply::from(reply).out.contains("worked: whole"));
    let heard = heard.lock().unwrap();
    assert!(heard.len() > 400, "{}", heard.len());
    assert_eq!(answer(&hosts, &heard), b"");
}

/// A device's first packet, kept from the relay, reaches it from an address that somebody else may have. QUIC answers before it
/// knows whose that is.
#[test]
fn a_knock_from_elsewhere_is_answered_once_and_with_little() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.line = start(&hosts, 8443, Box::new(|_, _| true));
    let keeper = hosts.in_relay(|| UdpSocket::bind("10.99.0.1:8443").unwrap());
    keeper.set_read_timeout(Some(PATIENCE)).unwrap();
    hosts.up(&[]);
    let mut packet = [0; 1500];
    let count = keeper.recv(&mut packet).unwrap();
    let packet = &packet[..count];
    let answered = |within: Duration| {
        let socket = connect(&hosts, RELAY);
        socket.send(packet).unwrap();
        let until = Instant::now() + within;
        let mut bytes = 0;
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            let left = left.max(Duration::from_millis(1));
            socket.set_read_timeout(Some(left)).unwrap();
            bytes += socket.recv(&mut [0; 1500]).unwrap_or(0);
        }
        bytes
    };
    // Until the relay gives the handshake up. QUIC may send three times as much, and noq ends with the packet that exceeds that.
    let first = answered(Duration::from_secs(7));
    assert!(
        (1..=3 * count + 1231).contains(&first),
        "{first} of {count}"
    );
    assert_eq!(answered(Duration::from_millis(500)), 0);
}
