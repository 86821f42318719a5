//! The edge server as its users have it: a process that is killed, stopped, cut off and full.

mod backup;
#[path = "../common/ca.rs"]
mod ca;
#[path = "../common/mod.rs"]
mod common;
mod device;
mod full;
mod observed;
mod server;
#[path = "../common/small.rs"]
mod small;
mod tls;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{call, refused, until};
use rustix::process::Signal;
use serde_json::json;
use server::{token, Server};

#[test]
fn kill_9_loses_no_acknowledged_outcome() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let mut acknowledged: Vec<usize> = Vec::new();
    for round in 0..3 {
        let server = Server::start(data.path(), &token, "");
        let (dead, count) = (AtomicBool::new(false), AtomicUsize::new(0));
        let send = |lane: usize| {
            let mut kept = Vec::new();
            let base = (round * 8 + lane) * 1_000_000;
            for id in base.. {
                match server.report([id].into_iter()) {
                    Some((200, _)) => {
                        kept.push(id);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    // Cut off in the middle: it may be there or not.
                    None => break,
                    Some((status, said)) => panic!("{status}: {said}"),
                }
                if dead.load(Ordering::Relaxed) {
                    break;
                }
            }
            kept
        };
        let kept: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let lanes: Vec<_> = (0..4).map(|lane| scope.spawn(move || send(lane))).collect();
            until("some are acknowledged", || {
                count.load(Ordering::Relaxed) > 50
            });
            server.signal(Signal::KILL);
            dead.store(true, Ordering::Relaxed);
            lanes.into_iter().map(|l| l.join().unwrap()).collect()
        });
        acknowledged.extend(kept.into_iter().flatten());
    }
    let server = Server::start(data.path(), &token, "");
    for some in acknowledged.chunks(64) {
        let (status, receipt) = server.report(some.iter().copied()).unwrap();
        assert_eq!(status, 200);
        assert_eq!(receipt, json!({"stored": 0, "duplicates": some.len()}));
    }
    assert_eq!(server.end(), 0);
}

#[test]
fn ctrl_c_answers_what_is_under_way_and_ends_well() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let server = Server::start(data.path(), &token, "");
    let address = server.address;
    // One that is idle, and one that has sent half a request, hold nothing up.
    let _idle = TcpStream::connect(address).unwrap();
    let mut half = TcpStream::connect(address).unwrap();
    half.write_all(b"POST /v1/choose HTTP/1.1\r\nHost: x\r\n")
        .unwrap();
    assert_eq!(server.report(0..10).unwrap().0, 200);
    let started = Instant::now();
    assert_eq!(server.end(), 0);
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(
        TcpStream::connect(address).is_err(),
        "nobody listens any more"
    );
    let server = Server::start(data.path(), &token, "");
    assert_eq!(server.report(0..10).unwrap().1["duplicates"], 10);
}

#[test]
fn one_folder_has_one_server() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let _server = Server::start(data.path(), &token, "");
    let folder = data.path().to_str().unwrap();
    let second = call(&["serve", "--data", folder, "--listen", "127.0.0.1:0"]);
    let line = format!("multipilot: another multipilot serve works in {folder}: end it, or give this one another folder (--data)\n");
    assert_eq!((second.code, second.err), (1, line));
}

#[test]
fn a_wrong_call_is_one_line() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().join("edge");
    let folder = folder.to_str().unwrap();
    let file = data.path().join("server.toml");
    std::fs::write(&file, "limits.bodi = \"1MB\"\n").unwrap();
    let shown = file.to_str().unwrap();
    for option in ["--check", "--config"] {
        let reply = call(&["serve", option, shown]);
        assert_eq!(reply.code, 2);
        assert!(
            reply.err.starts_with(&format!(
                "multipilot: {shown}:1:8: limits.bodi: unknown key (did you mean \"body\"?)"
            )),
            "{}",
            reply.err
        );
        assert_eq!(reply.err.lines().count(), 1);
    }
    for (text, line) in [
        (
            "listen = '0.0.0.0:9463'",
            "0.0.0.0:9463: tokens would cross the network in clear text",
        ),
        (
            "tls = { cert = '/nowhere/c.pem', key = '/nowhere/k.pem' }",
            "--tls-cert: /nowhere/c.pem: ",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        call(&["serve", "--check", shown]).refused(2, line);
    }
    let handed = "listen = '0.0.0.0:9463'\ntls = { cert = '/run/credentials/a', key = '/run/credentials/b' }";
    std::fs::write(&file, handed).unwrap();
    assert_eq!(
        call(&["serve", "--check", shown]).out,
        format!("{shown}: valid\n")
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let reply = call(&["serve", "--data", folder, "--listen", &address]);
    let in_use = "Address already in use (os error 98): another program has this port, choose another (--listen)\n";
    assert_eq!(
        (reply.code, reply.err),
        (
            1,
            format!("multipilot: cannot listen on {address}: {in_use}")
        )
    );
    refused(&["serve", "--operator"], "the following required arguments were not provided: --new-token <NAME>; see multipilot serve --help");
    token(folder.as_ref(), "phone");
    let again = call(&["serve", "--data", folder, "--new-token", "phone"]);
    assert_eq!(again.code, 2, "{}", again.err);
}

#[test]
fn the_api_describes_itself_without_a_server() {
    let reply = call(&["serve", "--openapi"]);
    assert_eq!((reply.code, reply.err.as_str()), (0, ""));
    assert_eq!(reply.json()["info"]["title"], "multipilot edge server");
}

#[test]
fn a_request_that_trickles_is_not_waited_for() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let server = Server::start(
        data.path(),
        &token,
        "limits.patience = \"2s\"\nlimits.connections = 2\n",
    );
    let mut answers = Vec::new();
    for text in [
        "POST /v1/choose HTT".to_owned(),
        format!("POST /v1/choose HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{\"lo"),
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
        answers.push(stream);
    }
    // Both of the two connections are taken: the next request waits until they have been given up, and then is answered.
    assert_eq!(server.report(0..1).unwrap().0, 200);
    let said: Vec<String> = answers
        .iter_mut()
        .map(|stream| {
            let mut text = String::new();
            let _ = stream.read_to_string(&mut text);
            text
        })
        .collect();
    assert!(said[1].starts_with("HTTP/1.1 408"), "{said:?}");
}

#[test]
fn a_client_that_takes_no_answers_is_not_waited_for() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let limits = "limits.patience = \"2s\"\nlimits.connections = 1\n";
    let server = Server::start(data.path(), &token, limits);
    let mut stream = TcpStream::connect(server.address).unwrap();
    // More than the sockets hold.
    let asked = "GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n".repeat(5000);
    stream.set_nonblocking(true).unwrap();
    let _ = stream.write(asked.as_bytes()).unwrap();
    // The one connection is taken until it has been given up.
    assert_eq!(server.report(0..1).unwrap().0, 200);
    drop(stream);
}
