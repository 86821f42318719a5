//! What links, hosts and disks do to a relay, and programs hear of it as of any network, or not at all.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::{Reply, PATIENCE};
use crate::datagrams::{both_paths, connect};
use crate::hosts::{until, Hosts, ALLOWED, PUBLIC, RELAY, SERVER};
use crate::program::{get, put};
use crate::small::Small;
use crate::traffic::{in_the_middle, in_the_middle_of_much};

const MB: u64 = 1_000_000;

#[test]
fn a_link_that_carries_one_way_alone_does_not_break_flows() {
    in_the_middle(|hosts| hosts.silence_uploads(1));
    in_the_middle(|hosts| hosts.silence_downloads(1));
}

#[test]
fn a_link_that_flaps_does_not_break_flows() {
    in_the_middle(|hosts| {
        for away in [20, 200, 1000] {
            hosts.set_link(1, "down");
            thread::sleep(Duration::from_millis(away));
            hosts.set_link(1, "up");
            hosts.route(1);
            thread::sleep(Duration::from_millis(away));
        }
    });
}

#[test]
fn a_link_that_is_silent_now_and_then_does_not_break_flows() {
    in_the_middle(|hosts| {
        for away in [20, 200, 1000] {
            hosts.silence(1);
            thread::sleep(Duration::from_millis(away));
            hosts.unsilence(1);
            thread::sleep(Duration::from_millis(away));
        }
    });
}

#[test]
fn a_link_that_is_away_for_ten_seconds_is_used_again() {
    // More than the other link carries meanwhile.
    in_the_middle_of_much(|hosts| {
        hosts.set_link(1, "down");
        thread::sleep(Duration::from_secs(10));
        hosts.set_link(1, "up");
        hosts.route(1);
        let before = hosts.carried(1);
        until("the link is used again", || hosts.carried(1) > before + MB);
    });
}

#[test]
fn another_address_of_a_link_does_not_break_flows() {
    in_the_middle_of_much(|hosts| {
        hosts.renumber(1);
        let before = hosts.carried(1);
        until("the link is used again", || hosts.carried(1) > before + MB);
    });
}

#[test]
fn a_link_that_takes_smaller_packets_does_not_break_flows() {
    in_the_middle_of_much(|hosts| {
        hosts.on_device("ip link set wifi mtu 1280");
        hosts.in_relay(|| crate::namespace::sh("ip link set wifi mtu 1280"));
        let before = hosts.carried(1);
        until("the link goes on", || hosts.carried(1) > before + MB);
    });
}

#[test]
fn resets_of_path_connections_do_not_break_flows() {
    in_the_middle_of_much(|hosts| {
        for _ in 0..3 {
            // The kernel resets them, as a middlebox would.
            let ended = hosts.in_relay(|| {
                crate::namespace::sh("ss --no-header -tKn state established src 10.99.0.1")
            });
            assert!(ended.lines().count() >= 2, "{ended}");
            let before = hosts.carried(1);
            until("the link is used again", || hosts.carried(1) > before + MB);
        }
    });
}

/// As a laptop does whose lid is closed.
#[test]
fn an_end_that_is_stopped_for_a_while_does_not_break_flows() {
    in_the_middle(|hosts| {
        for relay in [false, true] {
            hosts.signal(relay, Signal::STOP);
            let carried = || hosts.carried(1) + hosts.carried(2);
            until("nothing moves", || {
                let before = carried();
                thread::sleep(Duration::from_millis(500));
                carried() - before < 20_000
            });
            hosts.signal(relay, Signal::CONT);
        }
    });
}

/// Process and kernel sleep: nothing is acknowledged. Longer than any timeout but those for which flows are held: the relay's
/// kernel gives connections up after 30 s (TCP_USER_TIMEOUT), the datagram lane its own after 15 s.
#[test]
fn a_device_that_sleeps_until_its_connections_are_given_up_does_not_break_flows() {
    in_the_middle(|hosts| {
        hosts.signal(false, Signal::STOP);
        [1, 2].iter().for_each(|link| hosts.silence(*link));
        let relays = || {
            let list = "ss --no-header -tn state established src 10.99.0.1";
            hosts.in_relay(|| crate::namespace::sh(list))
        };
        let waits = |line: &str| line.split_whitespace().nth(1) != Some("0");
        until("data wait for the device", || relays().lines().any(waits));
        let asleep = Instant::now();
        until("the relay's kernel has given up", || {
            !relays().lines().any(waits)
        });
        assert!(asleep.elapsed() > Duration::from_secs(15));
        [1, 2].iter().for_each(|link| hosts.unsilence(*link));
        hosts.signal(false, Signal::CONT);
    });
}

#[test]
fn a_slow_reader_stops_the_sender_and_gets_everything() {
    let Some(mut hosts) = Hosts::new("80mbit") else {
        return;
    };
    hosts.up(&[]);
    let mut stream = hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap());
    stream.write_all(b"get 60000000\n").unwrap();
    stream.read_exact(&mut [0; 1]).unwrap();
    let received = || -> u64 {
        let links = ["wifi", "lte"].map(|link| hosts.link(link)["received_bytes"].as_u64());
        links.into_iter().flatten().sum()
    };
    until("the sender has stopped", || {
        let before = received();
        thread::sleep(Duration::from_millis(500));
        before > MB && received() == before
    });
    // Windows and buffers, and not the whole.
    let stopped = received();
    assert!(stopped < 30 * MB, "{stopped}");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert_eq!(rest.len() as u64, 60 * MB - 1);
}

#[test]
fn a_server_that_has_said_all_still_hears_the_program() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    let listener = hosts.in_relay(|| TcpListener::bind("198.51.100.2:90").unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"all").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).map(|_| heard)
    });
    let mut stream = hosts.in_device(|| TcpStream::connect("198.51.100.2:90").unwrap());
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"all");
    let body: Vec<u8> = (0..3_000_000).map(|i| (i % 251) as u8).collect();
    stream.write_all(&body).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert!(server.join().unwrap().unwrap() == body);
}

/// Whichever end dies, half a body does not look like a whole one.
#[test]
fn what_is_cut_off_is_reset() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    hosts.socks(&[]);
    let mut download = hosts.through_socks(SERVER).unwrap();
    download.write_all(b"get 50000000\n").unwrap();
    download.read_exact(&mut [0; 1000]).unwrap();

    let listener = hosts.in_relay(|| TcpListener::bind("10.99.0.2:90").unwrap());
    let mut upload = hosts.through_socks("10.99.0.2:90").unwrap();
    let (mut served, _) = listener.accept().unwrap();
    upload.write_all(&[7; 100_000]).unwrap();
    served.read_exact(&mut [0; 1000]).unwrap();

    hosts.last().kill().unwrap();
    let end = download.read_to_end(&mut Vec::new()).map_err(|e| e.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
    hosts.kill_relay();
    let end = served.read_to_end(&mut Vec::new()).map_err(|e| e.kind());
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_relay_whose_disk_is_full_goes_on_with_the_devices_it_knows() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let elsewhere = "10.99.0.1:8443";
    let folder = hosts.path(elsewhere);
    std::fs::create_dir(&folder).unwrap();
    let Some(_small) = Small::mount(&folder) else {
        return mp_testing::skip("no small file system can be mounted (that takes root)");
    };
    hosts.line = hosts.start_relay(elsewhere, &["--allow=10.0.0.0/8"]);
    let work = format!("get {SERVER} 1000");
    assert_eq!(hosts.run(&[], &work), "whole");

    let filling = std::fs::write(folder.join("filling"), vec![0; 8 << 20]);
    assert_eq!(filling.unwrap_err().kind(), ErrorKind::StorageFull);
    let more = || hosts.relay_command_in(elsewhere, &["--new-device", "tablet"]);
    let refused = more();
    refused.refused(1, "");
    assert!(
        refused.err.contains("No space left on device"),
        "{}",
        refused.err
    );
    assert_eq!(hosts.run(&[], &work), "whole");
    std::fs::remove_file(folder.join("filling")).unwrap();
    assert_eq!(more().code, 0);
    let listed = hosts.relay_command_in(elsewhere, &["--devices"]).out;
    assert_eq!(listed.lines().count(), 2, "{listed}");
}

/// A full disk on the device's side: the daemon's key and what links have carried lie there.
#[test]
fn a_device_whose_disk_is_full_goes_on_with_the_key_it_has() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let state = hosts.path("state");
    std::fs::create_dir(&state).unwrap();
    let Some(_small) = Small::mount(&state) else {
        return mp_testing::skip("no small file system can be mounted (that takes root)");
    };
    let fill = || {
        let filling = std::fs::write(state.join("filling"), vec![0; 8 << 20]);
        assert_eq!(filling.unwrap_err().kind(), ErrorKind::StorageFull);
    };
    let free = || std::fs::remove_file(state.join("filling")).unwrap();
    let download = |hosts: &Hosts| {
        let stream = hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap());
        assert_eq!(get(stream, MB, &mut |_| ()), "whole");
    };
    fill();
    hosts.configure("", "");
    let line = hosts.line.clone();
    let up = hosts.multipilot(&[
        "up",
        "--relay",
        &line,
        "--log",
        hosts.path("daemon.log").to_str().unwrap(),
        "--config",
        hosts.path("daemon.toml").to_str().unwrap(),
    ]);
    assert_eq!(up.code, 1, "{}", up.err);
    assert!(up.err.contains("No space left on device"), "{}", up.err);
    free();
    hosts.up(&[]);
    download(&hosts);
    fill();
    download(&hosts);
    until("the daemon says so", || {
        let log = std::fs::read_to_string(hosts.path("daemon.log")).unwrap();
        log.contains("No space left on device")
    });
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    hosts.up(&[]);
    download(&hosts);
    free();
}

#[test]
fn a_clock_that_is_a_day_off_does_no_harm() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/relay/skew.c");
    for days in [-1, 1] {
        let library = hosts.path(&format!("skew{days}.so"));
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(format!("-DSKEW=({days} * 86400)"))
            .arg(source)
            .status();
        assert!(compiled.unwrap().success());
        // Another device, which has yet to enrol.
        let name = format!("days{days}");
        let line = hosts.relay_command(&["--new-device", &name]).out;
        let work = format!("get {SERVER} 1000");
        let mut device = hosts.run_as(&name, line.trim(), &[], &work);
        let reply = Reply::from(device.env("LD_PRELOAD", &library).output().unwrap());
        assert!(reply.out.contains("worked: whole"), "{days}: {}", reply.err);
    }
}

#[test]
fn a_second_relay_or_daemon_is_refused_and_the_first_goes_on() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.up(&[]);
    let network = hosts.network();
    let second = hosts.relay_command(&["--listen", RELAY]);
    second.refused(1, "cannot listen on 10.99.0.1:443: Address already in use");
    let line = hosts.relay_command(&["--new-device", "second"]).out;
    let line = line.trim();
    let [socket, relay_socket, log] = ["s", "r", "l"].map(|name| hosts.path(name));
    let [socket, relay_socket, log] =
        [&socket, &relay_socket, &log].map(|path| path.to_str().unwrap());
    let apart = ["--socket", socket, "--relay-socket", relay_socket];
    let up = ["up", "--relay", line, "--log", log];
    let daemon = hosts.plainly(&[&up[..], &apart].concat());
    daemon.refused(1, "another multipilot daemon (process ");
    let run = ["run", "--relay", line, "--all"];
    let all = hosts.plainly(&[&run[..], &apart[2..]].concat());
    all.refused(
        2,
        "tun-multipilot: another process has this interface; multipilot down ends it",
    );
    assert_eq!(hosts.network(), network);
    let stream = hosts.in_device(|| TcpStream::connect(PUBLIC[0]).unwrap());
    assert_eq!(get(stream, MB, &mut |_| ()), "whole");
}

#[test]
fn a_rate_holds_for_all_that_a_device_does_together() {
    let Some(mut hosts) = Hosts::new("80mbit") else {
        return;
    };
    // 1 MB/s, and buckets of 200 kB, of which streams have half.
    const SECOND: u64 = MB;
    const BUCKET: u64 = MB / 5;
    let elsewhere = "10.99.0.1:8443";
    let rate = [&ALLOWED[..], &["--rate", "8Mbit"]].concat();
    hosts.line = hosts.start_relay(elsewhere, &rate);
    hosts.socks(&[]);
    for upload in [false, true] {
        let began = Instant::now();
        let connect = || hosts.through_socks(SERVER).unwrap();
        let flows = [connect(), connect()].map(|stream| {
            thread::spawn(move || match upload {
                false => get(stream, 2 * MB, &mut |_| ()),
                true => put(stream, 2 * MB),
            })
        });
        for flow in flows {
            assert_eq!(flow.join().unwrap(), "whole");
        }
        let least = (4 * MB - BUCKET / 2) as f64 / SECOND as f64;
        let took = began.elapsed().as_secs_f64();
        assert!(took >= least, "{upload}: {took} s");
    }

    // Datagrams beyond it are dropped.
    let host = hosts.relay_command_in(elsewhere, &["--new-device", "host"]);
    hosts.line = host.out.trim().to_owned();
    hosts.up(&[]);
    both_paths(&hosts);
    let there = "198.51.100.2:4000";
    let server = hosts.in_relay(|| UdpSocket::bind(there).unwrap());
    server.set_read_timeout(Some(PATIENCE)).unwrap();
    let client = connect(&hosts, there);
    let began = Instant::now();
    let hearing = thread::spawn(move || {
        let mut heard = 0;
        loop {
            match server.recv(&mut [0; 2000]).unwrap() as u64 {
                1 => return heard,
                count => heard += count,
            }
        }
    });
    for _ in 0..800 {
        client.send(&[7; 1000]).unwrap();
    }
    until("the end arrives", || {
        // When it has arrived, nobody is there any more.
        let _ = client.send(&[7]);
        hearing.is_finished()
    });
    let heard = hearing.join().unwrap();
    let most = BUCKET as f64 + SECOND as f64 * began.elapsed().as_secs_f64();
    assert!(heard > 0 && heard as f64 <= most, "{heard} of {most}");
}
