//! All of a host's TCP over the relay: what is taken, what is not, and what is left behind.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use rustix::process::{getrlimit, kill_process, setrlimit, Pid, Resource, Rlimit, Signal};
use socket2::{Domain, Socket, Type};

use crate::hosts::{until, Hosts, PUBLIC, SERVER};
use crate::program::{check, get, lose_patience, put};

const MB: u64 = 1_000_000;
/// The device's address on its first link, and on its second.
const WIFI: &str = "10.77.1.1";
const LTE: &str = "10.77.2.1";

fn connect(hosts: &Hosts, address: &str) -> Result<TcpStream, ErrorKind> {
    let stream = hosts.in_device(|| TcpStream::connect(address).map_err(|e| e.kind()))?;
    lose_patience(&stream);
    Ok(stream)
}

fn source(stream: &TcpStream) -> IpAddr {
    stream.local_addr().unwrap().ip()
}

fn is_taken(stream: &TcpStream) -> bool {
    match source(stream) {
        IpAddr::V4(v4) => v4.octets()[..2] == [198, 18],
        IpAddr::V6(v6) => v6.is_unique_local(),
    }
}

#[test]
fn every_connection_goes_over_both_links_and_arrives_whole() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.check_sources();
    hosts.up(&["--scheduler", "round-robin"]);
    for address in PUBLIC {
        for transfer in ["get", "put"] {
            let before = [1, 2].map(|link| hosts.carried(link));
            let stream = connect(&hosts, address).unwrap();
            assert!(is_taken(&stream), "{stream:?}");
            let result = match transfer {
                "get" => get(stream, 6 * MB, &mut |_| ()),
                // Ends with a half-close, after which the server answers.
                _ => put(stream, 6 * MB),
            };
            assert_eq!(result, "whole", "{transfer} {address}");
            for (link, before) in [1, 2].into_iter().zip(before) {
                let carried = hosts.carried(link) - before;
                // Half of it where both keep up.
                assert!(
                    carried > MB / 2,
                    "{transfer} {address}: link {link}: {carried}"
                );
            }
        }
    }
    let status = hosts.multipilot(&["status", "--json"]).json();
    assert_eq!(status["relay"]["opened"], 4, "{status}");
    assert_eq!(status["relay"]["links"][1]["link"], "lte", "{status}");
    let received = status["relay"]["links"][0]["received_bytes"].as_u64();
    assert!(received.unwrap() > MB / 2, "{status}");
    until("the flows end", || {
        hosts.multipilot(&["status", "--json"]).json()["relay"]["flows"] == 0
    });
}

#[test]
fn many_connections_at_once_are_independent() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    // A reader that stops reading keeps nobody else waiting.
    let mut stuck = connect(&hosts, PUBLIC[0]).unwrap();
    stuck.write_all(b"get 50000000\n").unwrap();
    std::thread::scope(|scope| {
        let flows: Vec<_> = (0..64)
            .map(|i| {
                let hosts = &hosts;
                scope.spawn(move || {
                    let stream = connect(hosts, PUBLIC[i % 2]).unwrap();
                    match i / 32 {
                        0 => get(stream, MB / 4, &mut |_| ()),
                        _ => put(stream, MB / 4),
                    }
                })
            })
            .collect();
        for flow in flows {
            assert_eq!(flow.join().unwrap(), "whole");
        }
    });
}

/// Near the relay's limit, 1,024.
#[test]
fn a_thousand_connections_are_open_at_once() {
    const ALL: usize = 1000;
    let most = getrlimit(Resource::Nofile);
    let limit = |current| setrlimit(Resource::Nofile, Rlimit { current, ..most }).unwrap();
    if most.maximum.is_some_and(|most| most < 8192) {
        return mp_testing::skip("a process may not have 8,192 descriptors");
    }
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    // As a shell has it: what a flow takes is up to the process.
    limit(Some(1024));
    hosts.up(&[]);
    limit(most.maximum);
    let streams: Vec<TcpStream> = hosts.in_device(|| {
        let begin = |i: usize| {
            let mut stream = TcpStream::connect(PUBLIC[i % 2]).unwrap();
            writeln!(stream, "get 20000").unwrap();
            stream
        };
        (0..ALL).map(begin).collect()
    });
    until("all are open", || hosts.relay_status()["flows"] == ALL);
    for mut stream in streams {
        assert_eq!(check(&mut stream, 20_000, &mut |_| ()), "whole");
    }
    until("all have ended", || hosts.relay_status()["flows"] == 0);
    limit(most.current);
}

#[test]
fn programs_see_why_a_connection_failed() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    for (address, expected) in [
        ("198.51.100.2:81", ErrorKind::ConnectionRefused),
        ("[2001:db8:99::2]:81", ErrorKind::ConnectionRefused),
        // The relay does not connect there.
        ("203.0.113.1:80", ErrorKind::HostUnreachable),
        ("[2001:db8:1::1]:80", ErrorKind::PermissionDenied),
    ] {
        assert_eq!(connect(&hosts, address).err(), Some(expected), "{address}");
    }
}

#[test]
fn a_reset_reaches_the_program() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    let listener = hosts.in_relay(|| TcpListener::bind("198.51.100.2:90").unwrap());
    let mut stream = connect(&hosts, "198.51.100.2:90").unwrap();
    let (accepted, _) = listener.accept().unwrap();
    Socket::from(accepted)
        .set_linger(Some(std::time::Duration::ZERO))
        .unwrap();
    let kind = stream.read(&mut [0]).map_err(|e| e.kind());
    assert_eq!(kind, Err(ErrorKind::ConnectionReset));
}

/// Bytes that the TUN has carried, both ways: its packets are of any size up to 64 KiB.
fn through_the_tun(hosts: &Hosts) -> u64 {
    hosts.counted("tun-multipilot", "bytes")
}

#[test]
fn an_established_connection_needs_no_tun() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    for address in PUBLIC {
        // Its handshake and its end alone, with what they repeat on a busy machine; or everything.
        for (mark, fewest, most) in [(0, 0, 40_000), (7, 4 * MB, u64::MAX)] {
            let there: SocketAddr = address.parse().unwrap();
            let stream = hosts.in_device(|| {
                let socket = Socket::new(Domain::for_address(there), Type::STREAM, None).unwrap();
                // A program that has marked its socket keeps its mark, and the TUN.
                socket.set_mark(mark).unwrap();
                socket.connect(&there.into()).unwrap();
                TcpStream::from(socket)
            });
            assert_eq!(stream.peer_addr().unwrap(), there);
            let before = through_the_tun(&hosts);
            assert_eq!(put(stream, 4 * MB), "whole");
            let bytes = through_the_tun(&hosts) - before;
            assert!((fewest..most).contains(&bytes), "{address} {mark}: {bytes}");
        }
    }
}

#[test]
fn without_bpf_the_tun_carries_all() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let before = hosts.network();
    let (mut running, said) = hosts.run_all_without_bpf("plain");
    assert!(said.contains("TCP goes through the TUN"), "{said}");
    for address in PUBLIC {
        let before = through_the_tun(&hosts);
        let stream = connect(&hosts, address).unwrap();
        assert!(is_taken(&stream));
        assert_eq!(put(stream, MB), "whole");
        assert!(through_the_tun(&hosts) - before >= MB, "{address}");
    }
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(running.wait().unwrap().code(), Some(0));
    assert_eq!(hosts.network(), before);
}

#[test]
fn what_is_not_meant_stays_direct() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&["--direct", "2001:db8:99::/48"]);
    let hosts = &hosts;
    let direct = |address: &str| {
        let stream = connect(hosts, address).unwrap();
        assert_eq!(source(&stream).to_string(), WIFI);
        assert_eq!(get(stream, 1000, &mut |_| ()), "whole");
    };
    // A private range, and the relay itself.
    direct(SERVER);
    assert_eq!(
        source(&connect(hosts, "10.99.0.1:443").unwrap()).to_string(),
        WIFI
    );
    // By --direct: there is no route without the relay.
    assert_eq!(
        connect(hosts, PUBLIC[1]).err(),
        Some(ErrorKind::NetworkUnreachable)
    );
    // A program that chooses its address.
    let bound = hosts.in_device(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let own: SocketAddr = format!("{WIFI}:0").parse().unwrap();
        socket.bind(&own.into()).unwrap();
        let there: SocketAddr = PUBLIC[0].parse().unwrap();
        socket.connect(&there.into()).unwrap();
        TcpStream::from(socket)
    });
    assert_eq!(source(&bound).to_string(), WIFI);
    // A server on the device, for a client to which there is but the default route.
    let listener = hosts.in_device(|| TcpListener::bind((LTE, 8000)).unwrap());
    let mut client = hosts.in_relay(|| {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let own: SocketAddr = "198.51.100.2:0".parse().unwrap();
        socket.bind(&own.into()).unwrap();
        let there: SocketAddr = format!("{LTE}:8000").parse().unwrap();
        socket.connect(&there.into()).unwrap();
        TcpStream::from(socket)
    });
    let (mut served, _) = listener.accept().unwrap();
    served.write_all(b"ok").unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).unwrap();
    // UDP likewise: a private range, and a program that chooses its address.
    for (own, there) in [
        ("0.0.0.0:0", "10.99.0.2:53"),
        ("10.77.1.1:0", "198.51.100.2:53"),
    ] {
        let socket = hosts.in_device(|| {
            let socket = UdpSocket::bind(own).unwrap();
            socket.connect(there).unwrap();
            socket
        });
        assert_eq!(socket.local_addr().unwrap().ip().to_string(), WIFI);
    }
}

#[test]
fn down_and_ctrl_c_leave_no_trace() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let before = hosts.network();
    hosts.up(&["--leak", "block"]);
    assert_ne!(hosts.network(), before);
    let again = hosts.multipilot(&["up", "--relay", &hosts.line]);
    again.refused(
        2,
        "this host's connections go to a relay already: multipilot down",
    );
    let table = hosts.multipilot(&["status"]).out;
    assert!(table.contains("\nrelay 10.99.0.1:443 since "), "{table}");
    assert!(
        table.contains("(the relay takes their connections)"),
        "{table}"
    );
    assert!(table.contains("direct: nothing; leak block"), "{table}");
    // Nobody answers there, and yet somebody has the relay.
    let captured = hosts.network();
    let (socket, elsewhere) = (hosts.path("control.sock"), hosts.path("elsewhere.sock"));
    fs::rename(&socket, &elsewhere).unwrap();
    let down = hosts.multipilot(&["down"]);
    down.refused(
        1,
        "another multipilot process has this host's relay: end it with",
    );
    assert_eq!(hosts.network(), captured);
    fs::rename(&elsewhere, &socket).unwrap();
    // Half a body is not to look like a whole one.
    let mut cut = connect(&hosts, PUBLIC[0]).unwrap();
    cut.write_all(b"get 50000000\n").unwrap();
    cut.read_exact(&mut [0; 1000]).unwrap();
    let down = hosts.multipilot(&["down"]);
    assert_eq!((down.code, down.err.as_str()), (0, ""));
    assert_eq!(hosts.network(), before);
    let end = cut.read_to_end(&mut Vec::new()).map_err(|e| e.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
    assert_eq!(hosts.multipilot(&["status"]).code, 1);

    for end in ["Ctrl-C", "down"] {
        let mut running = hosts.run_all(end);
        assert!(is_taken(&connect(&hosts, PUBLIC[0]).unwrap()));
        match end {
            "down" => assert_eq!(hosts.multipilot(&["down"]).code, 0),
            _ => kill_process(Pid::from_child(&running), Signal::INT).unwrap(),
        }
        let ended = running.wait().unwrap();
        assert_eq!(ended.code(), Some(0), "{end}: {ended}");
        assert_eq!(hosts.network(), before);
    }
}

#[test]
fn a_killed_process_leaves_the_network_as_was_asked_for() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let before = hosts.network();
    for (leak, afterwards) in [
        ("direct", Ok(WIFI.to_owned())),
        ("block", Err(ErrorKind::HostUnreachable)),
    ] {
        hosts.up(&["--leak", leak]);
        let mut cut = connect(&hosts, PUBLIC[0]).unwrap();
        assert!(is_taken(&cut));
        cut.write_all(b"get 50000000\n").unwrap();
        cut.read_exact(&mut [0; 1000]).unwrap();
        hosts.kill_background();
        // Half a body is not to look like a whole one.
        let end = cut.read_to_end(&mut Vec::new()).map_err(|e| e.kind());
        assert_eq!(end, Err(ErrorKind::ConnectionReset));
        let result = connect(&hosts, PUBLIC[0]).map(|stream| source(&stream).to_string());
        assert_eq!(result, afterwards, "{leak}");
        let down = hosts.multipilot(&["down"]);
        assert_eq!(down.code, 0, "{}", down.err);
        assert!(
            down.err.contains("removed the routing rules"),
            "{}",
            down.err
        );
        assert_eq!(hosts.network(), before);
        let direct = connect(&hosts, PUBLIC[0]).unwrap();
        assert_eq!(source(&direct).to_string(), WIFI);
    }
}

#[test]
fn a_relay_on_this_host_is_refused() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let before = hosts.network();
    let line = hosts.start_relay("127.0.0.1:8443", &[]);
    let reply = hosts.on_relays_host(&["run", "--relay", &line, "--all"]);
    reply.refused(2, "the relay is on this host");
    assert_eq!(hosts.network(), before);
}
