//! Who gets an answer, and who does not.

use std::fs::Permissions;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mp_testing::Ends;

use crate::common::Reply;
use crate::datagrams::{ask, both_paths, connect, echo, ECHO};
use crate::hosts::{until, Hosts, PUBLIC, RELAY, SERVER};
use crate::program::get;

/// What the relay sends to somebody who sends this, until it ends the connection.
pub fn answer(hosts: &Hosts, bytes: &[u8]) -> Vec<u8> {
    let mut stream = hosts.in_device(|| TcpStream::connect(RELAY).unwrap());
    stream
        .set_read_timeout(Some(Duration::from_secs(90)))
        .unwrap();
    stream.write_all(bytes).unwrap();
    let mut heard = Vec::new();
    match stream.read_to_end(&mut heard) {
        Ok(_) => heard,
        Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => heard,
        Err(e) => panic!("the relay keeps the connection: {e}"),
    }
}

#[test]
fn strangers_get_no_byte() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let hello = [&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3][..], &[7; 505]].concat();
    let knock_of_nobody = [&[1][..], &[0; 40], &hello].concat();
    std::thread::scope(|scope| {
        for bytes in [
            b"".as_slice(),
            b"GET / HTTP/1.1\r\n\r\n",
            &hello,
            &knock_of_nobody,
            &[1; 20],
        ] {
            let hosts = &hosts;
            scope.spawn(move || assert_eq!(answer(hosts, bytes), b""));
        }
    });
}

/// Neither of those that it reaches nor of those that it refuses.
#[test]
fn a_relay_says_nothing_of_destinations() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let refused = "192.168.99.9";
    let told = hosts.relay_says(|hosts| {
        let some = format!("get {SERVER} 1000");
        until("the relay answers again", || {
            hosts.run(&[], &some) == "whole"
        });
        let work = format!("get {refused}:80 1000");
        let mut program = hosts.run_as("home", &hosts.line, &[], &work);
        let reply = Reply::from(program.output().unwrap());
        assert!(!reply.out.contains("whole"), "{}", reply.out);
    });
    assert!(told.contains("relay on"), "{told}");
    let server = SERVER.split(':').next().unwrap();
    assert!(!told.contains(server) && !told.contains(refused), "{told}");
}

#[test]
fn a_line_is_for_one_device() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let work = format!("get {SERVER} 1000");
    assert_eq!(hosts.run(&[], &work), "whole");
    assert_eq!(
        hosts.run(&[], &work),
        "whole",
        "the same device may come again"
    );
    let other = |line: &str| {
        Reply::from(
            hosts
                .run_as("other-home", line, &[], &work)
                .output()
                .unwrap(),
        )
    };
    other(&hosts.line).refused(1, "relay 10.99.0.1:443: this line belongs to another device: multipilot relay --new-device NAME");
    let listed = hosts.relay_command(&["--devices"]).out;
    assert!(
        listed.starts_with("device-1")
            && listed.trim().ends_with("enrolled")
            && listed.lines().count() == 1,
        "{listed}"
    );

    // A line for the other device, from the relay that runs; and the first device's is taken from it.
    let second = hosts.relay_command(&["--new-device", "tablet"]).out;
    let reply = other(second.trim());
    assert!(reply.out.contains("worked: whole"), "{}", reply.err);
    hosts
        .relay_command(&["--new-device", "tablet"])
        .refused(2, "there is a device tablet already");
    assert_eq!(hosts.relay_command(&["--forget", "tablet"]).code, 0);
    other(second.trim()).refused(1, "relay 10.99.0.1:443: ");
}

#[test]
fn a_device_that_is_removed_opens_nothing_any_more() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    echo(&hosts, ECHO[0]);
    // What the relay does not take is not to go out directly.
    hosts.up(&["--leak", "block"]);
    both_paths(&hosts);
    let there: SocketAddr = PUBLIC[0].parse().unwrap();
    let stream = || {
        let within = Duration::from_secs(5);
        let stream = hosts.in_device(|| TcpStream::connect_timeout(&there, within))?;
        stream.set_read_timeout(Some(within))?;
        std::io::Result::Ok(stream)
    };
    let open = stream().unwrap();
    open.set_read_timeout(Some(Duration::from_secs(90)))
        .unwrap();
    ask(&connect(&hosts, ECHO[0]), b"who is there?");

    assert_eq!(hosts.relay_command(&["--forget", "device-1"]).code, 0);
    // Connections of the device are ready there: none serves any more.
    for _ in 0..6 {
        let opened = stream().map(|stream| get(stream, 1000, &mut |_| ()));
        assert_ne!(opened.as_deref().ok(), Some("whole"));
    }
    until("no new UDP flow opens", || {
        let socket = connect(&hosts, ECHO[0]);
        socket
            .set_read_timeout(Some(Duration::from_secs(2)))
            .unwrap();
        socket.send(b"who is there?").is_err() || socket.recv(&mut [0; 100]).is_err()
    });
    // What is open stays.
    assert_eq!(get(open, 100_000, &mut |_| ()), "whole");
}

#[test]
fn a_relay_of_another_key_is_not_trusted() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    // The secret stays, so the relay answers; the device finds out that it is not the one of the line.
    let (place, rest) = hosts.line.split_once('#').unwrap();
    let (_, secret) = rest.split_once('.').unwrap();
    let forged = format!("{place}#{}.{secret}", "A".repeat(43));
    let reply = Reply::from(
        hosts
            .run_as("home", &forged, &[], &format!("get {SERVER} 1000"))
            .output()
            .unwrap(),
    );
    reply.refused(1, "relay 10.99.0.1:443: over ");
    assert!(!reply.out.contains("worked"));
    let listed = hosts.relay_command(&["--devices"]).out;
    assert!(
        listed.contains("not yet"),
        "no device has enrolled: {listed}"
    );
}

/// More than a relay bears at once, who begin to knock, a byte at a time, and come again when they are sent away.
#[test]
fn strangers_that_dawdle_keep_no_device_out() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let over = AtomicBool::new(false);
    let connect = || {
        let stream = TcpStream::connect(RELAY).unwrap();
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let (full, is_full) = std::sync::mpsc::channel();
    let dawdle = move |over: &AtomicBool| {
        let mut strangers: Vec<_> = (0..400).map(|_| connect()).collect();
        full.send(()).unwrap();
        while !over.load(Ordering::Relaxed) {
            for stranger in &mut strangers {
                // Sent away: the relay sends no byte.
                let gone = stranger
                    .read(&mut [0])
                    .map_or_else(|e| e.kind() != ErrorKind::WouldBlock, |_| true);
                if gone || stranger.write(&[1]).is_err() {
                    *stranger = connect();
                }
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    std::thread::scope(|scope| {
        let end = Ends(&over);
        scope.spawn(|| hosts.in_device(|| dawdle(&over)));
        is_full.recv().unwrap();
        let work = format!("get {SERVER} 1000");
        let replies: Vec<_> = (0..3)
            .map(|_| hosts.run_as("home", &hosts.line, &[], &work).output())
            .collect();
        drop(end);
        for reply in replies {
            let reply = Reply::from(reply.unwrap());
            assert!(reply.out.contains("worked: whole"), "{}", reply.err);
        }
    });
}

/// What `status` says of the streams, and of the datagrams; and the page has both.
#[track_caller]
fn both_lanes_say(hosts: &Hosts, why: &str) {
    until("both lanes say why", || {
        let relay = hosts.relay_status();
        let streams = relay["failure"].as_str().unwrap_or_default();
        streams.contains(why) && relay["datagrams"]["failure"] == streams
    });
    let page = hosts.multipilot(&["status"]).out;
    for begins in [
        "no connection to the relay is ready: over ",
        "no path for UDP and ICMP: over ",
    ] {
        let mut lines = page.lines().filter(|line| line.starts_with(begins));
        assert!(lines.any(|line| line.contains(why)), "{begins}: {page}");
    }
}

#[test]
fn both_lanes_say_why_the_relay_does_not_take_a_device() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    let unknown = "closed without an answer, as a relay does with a line that it does not know or that is too old: multipilot relay --new-device NAME";
    let (file, line) = (hosts.path("line"), hosts.line.clone());
    // Somebody else has it.
    assert_eq!(hosts.run(&[], &format!("get {SERVER} 1000")), "whole");
    let others = hosts.start_relay("10.99.0.1:8443", &[]);
    let (place, key, secret) = parts(&line);
    let (_, other_key, other_secret) = parts(&others);
    for (line, why) in [
        (
            line.clone(),
            "this line belongs to another device: multipilot relay --new-device NAME",
        ),
        (
            format!("{place}#{other_key}.{secret}"),
            "what answers has another key than the line says",
        ),
        (format!("{place}#{key}.{other_secret}"), unknown),
    ] {
        std::fs::write(&file, line).unwrap();
        std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        // Without waiting for the relay.
        hosts.configure(&format!("line-file = {file:?}\nleak = \"block\""), "");
        hosts.up_with(&[]);
        both_lanes_say(&hosts, why);
        assert_eq!(hosts.multipilot(&["down"]).code, 0);
    }

    // One that was taken, and is removed.
    hosts.configure("", "");
    hosts.line = hosts
        .relay_command(&["--new-device", "host"])
        .out
        .trim()
        .to_owned();
    hosts.up(&[]);
    both_paths(&hosts);
    assert_eq!(hosts.relay_command(&["--forget", "host"]).code, 0);
    both_lanes_say(&hosts, unknown);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

/// `mp1:HOST:PORT`, the key and the secret of a line.
fn parts(line: &str) -> (&str, &str, &str) {
    let (place, keys) = line.split_once('#').unwrap();
    let (key, secret) = keys.split_once('.').unwrap();
    (place, key, secret)
}
