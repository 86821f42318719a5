//! `leak = "block"`: no packet leaves the device but to the relay, whatever happens to links, relay and daemon.

use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use crate::datagrams::{ask, connect, echo, lane, ECHO};
use crate::firewall;
use crate::hosts::{until, Hosts, LINKS, PUBLIC, RELAY};
use crate::namespace::sh;
use crate::ping::Pinger;
use crate::program::get;
use crate::rules::both_paths_open;

/// Programs' targets behind the relay, of either family.
const SERVERS: [&str; 2] = ["198.51.100.2", "2001:db8:99::2"];
/// The resolvers that /etc/resolv.conf names: a home router on the Wi-Fi.
const ROUTER: [&str; 2] = ["10.77.1.2", "fd77::2"];
/// Longer than the daemon takes to see other resolvers (2 s), or that the relay does not answer (4 s).
const NOTICED: Duration = Duration::from_secs(6);

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const HOP_BY_HOP: u8 = 0;
/// One that the relay does not carry.
const GRE: i32 = 47;
/// Multicast listener discovery, router solicitation, neighbour solicitation and advertisement.
const OF_NEIGHBOURS: [u8; 6] = [131, 132, 133, 135, 136, 143];

/// Hears every frame that leaves by a link of the device.
struct Watch {
    over: Arc<AtomicBool>,
    left: Arc<Mutex<Left>>,
    hearing: JoinHandle<()>,
}

#[derive(Default)]
struct Left {
    /// Packets to the relay by each link.
    to_relay: [u64; 2],
    elsewhere: BTreeSet<String>,
}

impl Watch {
    fn start(hosts: &Hosts) -> Watch {
        let own = LINKS.map(|link| address(hosts, link));
        let everything = Protocol::from(i32::from((libc::ETH_P_ALL as u16).to_be()));
        let mut socket =
            hosts.in_device(|| Socket::new(Domain::PACKET, Type::RAW, Some(everything)).unwrap());
        enlarge(&socket);
        let moment = Some(Duration::from_millis(20));
        socket.set_read_timeout(moment).unwrap();
        let (over, left) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Left>>::default());
        let (ends, heard) = (over.clone(), left.clone());
        let hearing = thread::spawn(move || {
            let mut buffer = vec![0; 1 << 17];
            // What had left before the end was told is heard too.
            loop {
                let last = ends.load(Ordering::Relaxed);
                match socket.read(&mut buffer) {
                    Ok(count) => take(&mut heard.lock().unwrap(), &buffer[..count], &own),
                    Err(e) if e.kind() == ErrorKind::WouldBlock && last => break,
                    Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                    // A link that goes down is told of too.
                    Err(e) if e.raw_os_error() == Some(libc::ENETDOWN) => {}
                    Err(e) => panic!("{e}"),
                }
            }
            assert_eq!(lost(&socket), 0, "frames that nobody has looked at");
        });
        Watch {
            over,
            left,
            hearing,
        }
    }

    fn elsewhere(&self) -> BTreeSet<String> {
        self.left.lock().unwrap().elsewhere.clone()
    }

    fn end(self) -> Left {
        self.over.store(true, Ordering::Relaxed);
        self.hearing.join().unwrap();
        let left = std::mem::take(&mut *self.left.lock().unwrap());
        left
    }
}

/// A link's own.
fn address(hosts: &Hosts, link: &str) -> [u8; 6] {
    let said = hosts.in_device(|| sh(&format!("ip -j link show dev {link}")));
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let text = said[0]["address"].as_str().unwrap();
    let bytes = text.split(':').map(|b| u8::from_str_radix(b, 16).unwrap());
    bytes.collect::<Vec<_>>().try_into().unwrap()
}

/// More than root's limit for others: a busy machine may keep the reader waiting.
fn enlarge(socket: &Socket) {
    let size: libc::c_int = 64 << 20;
    // SAFETY: the option takes an int, which outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVBUFFORCE,
            (&raw const size).cast(),
            size_of_val(&size) as libc::socklen_t,
        )
    };
    assert_eq!(result, 0);
}

/// Frames for which there was no room.
fn lost(socket: &Socket) -> u32 {
    let mut counts = libc::tpacket_stats {
        tp_packets: 0,
        tp_drops: 0,
    };
    let mut length = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes into a struct of that length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    counts.tp_drops
}

/// Frames of other interfaces, and those that come in, have another source.
fn take(left: &mut Left, frame: &[u8], own: &[[u8; 6]; 2]) {
    let source = frame.get(6..12).unwrap_or_default();
    let Some(link) = own.iter().position(|own| own == source) else {
        return;
    };
    let relay: SocketAddr = RELAY.parse().unwrap();
    match destination(&frame[12..14], &frame[14..]) {
        Some((_, to, _)) if to == relay.ip() => left.to_relay[link] += 1,
        Some((protocol, to, port)) => {
            let name = match protocol {
                TCP => "TCP",
                UDP => "UDP",
                ICMP | ICMPV6 => "ICMP",
                _ => "another protocol",
            };
            left.elsewhere.insert(format!("{name} {to} {port}"));
        }
        None => {}
    }
}

/// Protocol, address and port (0 where there is none); [`None`] of what neighbours tell each other.
fn destination(kind: &[u8], packet: &[u8]) -> Option<(u8, IpAddr, u16)> {
    let (protocol, to, rest) = match kind {
        [8, 0] => {
            let to: [u8; 4] = packet[16..20].try_into().unwrap();
            let header = usize::from(packet[0] & 15) * 4;
            (packet[9], Ipv4Addr::from(to).into(), &packet[header..])
        }
        [0x86, 0xdd] => {
            let to: [u8; 16] = packet[24..40].try_into().unwrap();
            let to = Ipv6Addr::from(to).into();
            match packet[6] {
                HOP_BY_HOP => (packet[40], to, &packet[48..]),
                protocol => (protocol, to, &packet[40..]),
            }
        }
        // ARP.
        [8, 6] => return None,
        _ => return Some((0, Ipv4Addr::UNSPECIFIED.into(), 0)),
    };
    if protocol == ICMPV6 && OF_NEIGHBOURS.contains(&rest[0]) {
        return None;
    }
    let has_port = [TCP, UDP].contains(&protocol);
    let port = has_port.then(|| u16::from_be_bytes([rest[2], rest[3]]));
    Some((protocol, to, port.unwrap_or(0)))
}

/// Between two packets of a kind.
const PAUSE: Duration = Duration::from_millis(400);

/// Each kind of packet that programs send. Nobody waits for an answer.
struct Talk {
    streams: Vec<Socket>,
    pingers: Vec<Pinger>,
}

impl Talk {
    fn new(hosts: &Hosts) -> Talk {
        Talk {
            streams: Vec::new(),
            pingers: SERVERS.map(|there| Pinger::new(hosts, there)).into(),
        }
    }

    fn all(&mut self, hosts: &Hosts) {
        let tcp = |to: &'static str, port| (Protocol::TCP, to, port);
        let mut streams = Vec::from(ROUTER.map(|to| tcp(to, 53)));
        for to in SERVERS {
            streams.extend([tcp(to, 53), tcp(to, 80), (Protocol::MPTCP, to, 80)]);
        }
        self.streams = hosts.in_device(|| {
            let begin = |(protocol, to, port): (Protocol, &str, u16)| {
                let to = SocketAddr::new(to.parse().unwrap(), port);
                let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let _ = UdpSocket::bind(any).unwrap().send_to(b"?", to);
                // Not every kernel has MPTCP.
                let socket =
                    Socket::new(Domain::for_address(to), Type::STREAM, Some(protocol)).ok()?;
                socket.set_nonblocking(true).unwrap();
                let _ = socket.connect(&to.into());
                Some(socket)
            };
            for to in SERVERS {
                let to = SocketAddr::new(to.parse().unwrap(), 0);
                let socket = Socket::new(
                    Domain::for_address(to),
                    Type::RAW,
                    Some(Protocol::from(GRE)),
                )
                .unwrap();
                let _ = socket.send_to(&[0; 4], &to.into());
            }
            streams.into_iter().filter_map(begin).collect()
        });
        for pinger in &self.pingers {
            let _ = pinger.try_ask(1, b"?");
        }
        thread::sleep(PAUSE);
    }

    fn all_for(&mut self, hosts: &Hosts, time: Duration) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.all(hosts);
        }
    }
}

/// IPv6 on a link, whose addresses go when it goes down.
fn lead_ipv6(hosts: &Hosts, number: u8) {
    let link = LINKS[usize::from(number) - 1];
    let addresses = |end| {
        let add = |prefix: &str| format!("ip address replace {prefix}::{end}/64 dev {link} nodad");
        let public = add(&format!("2001:db8:77:{number}"));
        match number {
            1 => public + "\n" + &add("fd77"),
            _ => public,
        }
    };
    hosts.in_relay(|| sh(&addresses(2)));
    hosts.on_device(&format!(
        "{}
         ip -6 route replace default via 2001:db8:77:{number}::2 dev {link} metric {number}",
        addresses(1)
    ));
}

fn set_up(hosts: &Hosts, number: u8) {
    hosts.set_link(number, "up");
    hosts.route(number);
    lead_ipv6(hosts, number);
}

fn is_led(hosts: &Hosts, there: &str) -> bool {
    let own = connect(hosts, there).local_addr().unwrap().ip();
    match own {
        IpAddr::V4(v4) => v4.octets()[..2] == [198, 18],
        // The router's network is another one.
        IpAddr::V6(v6) => v6.is_unique_local() && v6.segments()[0] != 0xfd77,
    }
}

#[test]
fn nothing_leaves_but_to_the_relay() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    ECHO.iter().for_each(|address| echo(&hosts, address));
    [1, 2].iter().for_each(|link| lead_ipv6(&hosts, *link));
    let router = ROUTER.map(|to| format!("nameserver {to}\n")).concat();
    hosts.resolvers(&router, "nameserver 198.51.100.2\n");
    hosts.kill_relay();
    hosts.restart_relay();
    hosts.up(&["--leak", "block"]);
    let router = ROUTER.map(|to| SocketAddr::new(to.parse().unwrap(), 53).to_string());
    until("DNS is led to the relay", || {
        router.iter().all(|to| is_led(&hosts, to))
    });
    until("UDP has both paths", || {
        lane(&hosts)["paths"].as_array().unwrap().len() == 2
    });

    let watch = Watch::start(&hosts);
    let mut talk = Talk::new(&hosts);
    for to in &router {
        ask(&connect(&hosts, to), b"where is example.org?");
    }
    // Data are in flight whatever happens.
    let streams = SERVERS.map(|to| {
        let to = SocketAddr::new(to.parse().unwrap(), 80);
        let stream = hosts.in_device(|| TcpStream::connect(to).unwrap());
        thread::spawn(|| get(stream, 1 << 40, &mut |_| ()))
    });
    talk.all(&hosts);
    for link in [1, 2] {
        hosts.set_link(link, "down");
        talk.all_for(&hosts, NOTICED / 3);
        set_up(&hosts, link);
        talk.all_for(&hosts, NOTICED / 3);
    }
    [1, 2].iter().for_each(|link| hosts.set_link(*link, "down"));
    talk.all_for(&hosts, NOTICED);
    [1, 2].iter().for_each(|link| set_up(&hosts, *link));
    talk.all_for(&hosts, NOTICED / 3);

    hosts.kill_relay();
    until("no path is left", || {
        talk.all(&hosts);
        lane(&hosts)["paths"].as_array().unwrap().is_empty()
    });
    talk.all_for(&hosts, NOTICED);
    hosts.restart_relay();
    let udp = connect(&hosts, ECHO[0]);
    udp.set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    until("UDP is answered again", || {
        talk.all(&hosts);
        udp.send(b"?").is_ok() && udp.recv(&mut [0; 9]).is_ok()
    });
    hosts.kill_background();
    talk.all_for(&hosts, NOTICED / 3);
    let left = watch.end();
    assert_eq!(left.elsewhere, BTreeSet::new());
    assert!(left.to_relay.iter().all(|packets| *packets > 100));
    for stream in streams {
        assert_ne!(stream.join().unwrap(), "whole");
    }

    // It hears each kind where nothing is blocked.
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    let watch = Watch::start(&hosts);
    let ports = |to: &'static str| {
        let ports = ["TCP", "UDP"].map(|of| [format!("{of} {to} 53"), format!("{of} {to} 80")]);
        let rest = ["ICMP", "another protocol"].map(|of| format!("{of} {to} 0"));
        ports.concat().into_iter().chain(rest)
    };
    let mut all: BTreeSet<String> = SERVERS.into_iter().flat_map(ports).collect();
    for to in ROUTER {
        all.extend(["TCP", "UDP"].map(|of| format!("{of} {to} 53")));
    }
    until("every kind goes out", || {
        talk.all(&hosts);
        watch.elsewhere().is_superset(&all)
    });
    watch.end();
}

/// UDP to every server, all the time.
struct Flood {
    over: Arc<AtomicBool>,
    sending: JoinHandle<()>,
}

impl Flood {
    fn start(hosts: &Hosts) -> Flood {
        let sockets = hosts.in_device(|| ["0.0.0.0:0", "[::]:0"].map(UdpSocket::bind));
        let sockets = sockets.map(Result::unwrap);
        let over = Arc::<AtomicBool>::default();
        let ends = over.clone();
        let sending = thread::spawn(move || {
            while !ends.load(Ordering::Relaxed) {
                for (socket, to) in sockets.iter().zip(SERVERS) {
                    let _ = socket.send_to(b"?", (to.parse::<IpAddr>().unwrap(), 80));
                }
                thread::sleep(Duration::from_millis(1));
            }
        });
        Flood { over, sending }
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        self.sending.join().unwrap();
    }
}

/// A daemon's file with this line and `leak = "block"`.
fn block(hosts: &Hosts, line: &str) {
    let file = hosts.path("line");
    fs::write(&file, format!("{line}\n")).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    hosts.configure(&format!("line-file = {file:?}\nleak = \"block\""), "");
}

#[track_caller]
fn await_start(hosts: &Hosts) {
    until("connections go to the relay", || {
        hosts.relay_status()["state"] == "on"
    });
}

/// Until `status` says why there is no relay.
#[track_caller]
fn await_reason(hosts: &Hosts, word: &str) {
    until(&format!("{word} is named"), || {
        let why = hosts.relay_status()["why"].clone();
        why.as_str().unwrap_or_default().contains(word)
    });
}

#[track_caller]
fn is_cut_off(hosts: &Hosts) {
    let to: SocketAddr = PUBLIC[0].parse().unwrap();
    let connected = hosts.in_device(|| TcpStream::connect(to));
    let why = connected.expect_err("it goes out").kind();
    let unreachable = [ErrorKind::HostUnreachable, ErrorKind::NetworkUnreachable];
    assert!(unreachable.contains(&why), "{why:?}");
}

fn log(hosts: &Hosts) -> String {
    fs::read_to_string(hosts.path("daemon.log")).unwrap()
}

/// Behind the relay, a resolver that knows `relay.example` alone.
fn resolver(hosts: &Hosts) {
    let socket = hosts.in_relay(|| UdpSocket::bind("198.51.100.2:53").unwrap());
    let relay: SocketAddr = RELAY.parse().unwrap();
    let IpAddr::V4(relay) = relay.ip() else {
        panic!("{relay}")
    };
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut query) {
            let name = 12 + query[12..length].iter().position(|b| *b == 0).unwrap();
            let is_a = query[name + 1..name + 3] == [0, 1];
            let mut answer = query[..2].to_vec();
            answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
            answer.extend(&query[12..name + 5]);
            if is_a {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4]);
                answer.extend(relay.octets());
            }
            let _ = socket.send_to(&answer, from);
        }
    });
}

#[test]
fn a_relays_name_needs_no_resolver_while_all_is_blocked() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    resolver(&hosts);
    let file = "nameserver 198.51.100.2\noptions timeout:1 attempts:1\n";
    hosts.resolvers(file, file);
    block(
        &hosts,
        &hosts.line.replacen("10.99.0.1", "relay.example", 1),
    );
    let download = |hosts: &Hosts| {
        let stream = hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap());
        assert_eq!(get(stream, 100_000, &mut |_| ()), "whole");
    };
    let of_before = "its addresses are those of before";
    hosts.up_with(&[]);
    await_start(&hosts);
    download(&hosts);
    assert!(!log(&hosts).contains(of_before), "{}", log(&hosts));
    for restart in 1..=2 {
        hosts.kill_background();
        is_cut_off(&hosts);
        hosts.up_with(&[]);
        await_start(&hosts);
        assert_eq!(log(&hosts).matches(of_before).count(), restart);
        download(&hosts);
    }
    // It begins anew by itself.
    hosts.on_device("ip link del tun-multipilot");
    until("the daemon has seen it", || {
        log(&hosts).contains("somebody has removed")
    });
    await_start(&hosts);
    download(&hosts);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

/// Ours among others. The order within a priority counts for nothing.
fn ours(hosts: &Hosts) -> String {
    hosts.in_device(|| {
        sh("for version in -4 -6; do
                ip $version rule | sort
                for table in 27101 27102 27103 27104; do
                    ip $version route show table $table 2>/dev/null | sort
                done
            done")
    })
}

#[test]
fn what_another_program_removes_is_set_again() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let router = format!("nameserver {}\n", ROUTER[0]);
    hosts.resolvers(&router, &router);
    hosts.up(&["--leak", "block"]);
    both_paths_open(&hosts);
    until("DNS is led to the relay", || {
        is_led(&hosts, &format!("{}:53", ROUTER[0]))
    });
    let before = ours(&hosts);
    let again = "another program removed rules or routes of the relay";
    assert!(!log(&hosts).contains(again), "{}", log(&hosts));
    for removal in [
        // As systemd-networkd does when it starts.
        "ip rule flush protocol 177; ip -6 rule flush protocol 177",
        "ip rule del priority 27105; ip rule del priority 27100; ip -6 rule del priority 27100",
        "ip rule del priority 27110; ip -6 rule del priority 27110; ip rule del priority 27107",
        "for table in 27101 27102 27103 27104; do
             ip route flush table $table; ip -6 route flush table $table
         done",
    ] {
        hosts.on_device(removal);
        until("all stands again", || ours(&hosts) == before);
    }
    until("the log says so", || log(&hosts).contains(again));
    hosts.kill_background();
    is_cut_off(&hosts);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert!(!ours(&hosts).contains("proto 177"), "{}", ours(&hosts));
}

#[test]
fn nothing_leaves_while_a_daemon_starts_again_or_cannot() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    [1, 2].iter().for_each(|link| lead_ipv6(&hosts, *link));
    let routers = ROUTER.map(|ip| format!("nameserver {ip}\n")).concat();
    hosts.resolvers(&routers, &routers);
    let before = hosts.network();
    block(&hosts, &hosts.line);
    hosts.on_device(firewall::RULES);
    hosts.up_with(&[]);
    await_reason(&hosts, "ufw");
    let watch = Watch::start(&hosts);
    let flood = Flood::start(&hosts);
    is_cut_off(&hosts);
    // Several tries, 1, 2 and 4 s apart.
    Talk::new(&hosts).all_for(&hosts, NOTICED);
    is_cut_off(&hosts);
    hosts.on_device("nft add rule inet f input iifname tun-multipilot accept");
    await_start(&hosts);
    for _ in 0..3 {
        hosts.kill_background();
        is_cut_off(&hosts);
        hosts.up_with(&[]);
        await_start(&hosts);
    }
    flood.end();
    assert_eq!(watch.end().elsewhere, BTreeSet::new());
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(hosts.network(), before);

    // By hand: whoever asked is told, and the host stays as it was.
    hosts.on_device("nft delete table inet f");
    hosts.on_device(firewall::RULES);
    hosts.configure("", "");
    let (log, config) = (hosts.path("daemon.log"), hosts.path("daemon.toml"));
    let (log, config) = (log.to_str().unwrap(), config.to_str().unwrap());
    let line = hosts.line.clone();
    let words = ["up", "--log", log, "--config", config, "--relay", &line];
    let reply = hosts.multipilot(&[&words[..], &["--leak", "block"]].concat());
    assert_eq!(reply.code, 3, "{}", reply.err);
    assert_eq!(hosts.network(), before);
}

#[test]
fn a_link_that_is_not_there_yet_opens_no_way_around_the_relay() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let file = hosts.path("line");
    block(&hosts, &hosts.line);
    let keys =
        format!("line-file = {file:?}\nleak = \"block\"\nlinks = [\"modem0\"]\nlan = [\"ap0\"]");
    hosts.configure(&keys, "");
    hosts.up_with(&[]);
    await_reason(&hosts, "ap0");
    is_cut_off(&hosts);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert!(!ours(&hosts).contains("proto 177"), "{}", ours(&hosts));
}

#[test]
fn a_daemon_whose_file_no_longer_blocks_ends_the_block_before_the_relay_answers() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let file = hosts.path("line");
    block(&hosts, &hosts.line);
    hosts.up_with(&[]);
    await_start(&hosts);
    hosts.kill_background();
    hosts.kill_relay();
    is_cut_off(&hosts);
    hosts.configure(&format!("line-file = {file:?}"), "");
    hosts.up_with(&[]);
    until("connections go out directly", || {
        !ours(&hosts).contains("proto 177")
    });
    assert_ne!(hosts.relay_status()["state"], "on");
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

#[test]
fn a_daemon_that_does_not_know_the_relay_says_that_all_is_blocked() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let before = hosts.network();
    let file = hosts.path("line");
    block(&hosts, &hosts.line);
    hosts.configure(&format!("line-file = {file:?}"), "");
    hosts.up_with(&[]);
    await_start(&hosts);
    // In place of the file's.
    let reply = hosts.multipilot(&["up", "--relay", &hosts.line, "--leak", "block"]);
    assert_eq!(reply.code, 0, "{}", reply.err);
    assert_eq!(hosts.relay_status()["leak"], "block");
    hosts.kill_background();
    hosts.configure("", "");
    hosts.up_with(&[]);
    await_reason(&hosts, "blocked");
    is_cut_off(&hosts);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(hosts.network(), before);
}
