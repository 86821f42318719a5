//! The edge server as its users have it: a process that is killed, stopped, cut off and full.

mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{call, multipilot, refused};
use mp_server::client::{Client, Settings};
use mp_server::wire::{Chooser, Context};
use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};

struct Server {
    child: Child,
    address: SocketAddr,
    token: String,
}

fn token(data: &Path, name: &str) -> String {
    let data = data.to_str().unwrap();
    let reply = call(&["serve", "--data", data, "--new-token", name]);
    assert_eq!(reply.code, 0, "{}", reply.err);
    reply.out.trim().to_owned()
}

impl Server {
    fn start(data: &Path, token: &str, extra: &str) -> Server {
        let config = data.join("server.toml");
        std::fs::write(&config, format!("limits.requests = 1000000\n{extra}")).unwrap();
        Server::launch(data, token, "127.0.0.1:0", &config)
    }

    fn launch(data: &Path, token: &str, listen: &str, config: &Path) -> Server {
        let mut child = multipilot()
            .args(["serve", "--listen", listen, "--data"])
            .arg(data)
            .arg("--config")
            .arg(config)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = lines
            .find_map(|line| line.ok().filter(|l| l.contains("serving on")))
            .expect("it says where it serves");
        let address = line.split("http://").nth(1).unwrap();
        let address = address.split(' ').next().unwrap().parse().unwrap();
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Server {
            child,
            address,
            token: token.to_owned(),
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a child of ours");
    }

    fn end(mut self) -> i32 {
        self.signal(Signal::INT);
        let status = self.child.wait().expect("a child of ours");
        status.code().unwrap_or(-1)
    }

    fn report(&self, ids: impl Iterator<Item = usize>) -> Option<(u16, Value)> {
        let outcomes: Vec<Value> = ids.map(outcome).collect();
        post(
            self.address,
            &self.token,
            "/v1/outcomes",
            &json!({ "outcomes": outcomes }),
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn outcome(id: usize) -> Value {
    json!({"id": format!("c{id}"), "location": "cafe", "path": if id.is_multiple_of(2) { "wifi" } else { "cellular" },
        "context": {"wifi.rtt_ms": 20.0}, "chosen_by": "server", "throughput_mbps": 10.0, "latency_ms": 20.0})
}

/// One request on a connection of its own; `None` where that broke.
fn post(address: SocketAddr, token: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

#[test]
fn kill_9_loses_no_acknowledged_outcome() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let mut acknowledged: Vec<usize> = Vec::new();
    for round in 0..3 {
        let server = Server::start(data.path(), &token, "");
        let dead = AtomicBool::new(false);
        let send = |lane: usize| {
            let mut kept = Vec::new();
            let base = (round * 8 + lane) * 1_000_000;
            for id in base.. {
                match server.report([id].into_iter()) {
                    Some((200, _)) => kept.push(id),
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
            std::thread::sleep(Duration::from_millis(600));
            server.signal(Signal::KILL);
            dead.store(true, Ordering::Relaxed);
            lanes.into_iter().map(|l| l.join().unwrap()).collect()
        });
        acknowledged.extend(kept.into_iter().flatten());
    }
    assert!(acknowledged.len() > 50, "{} outcomes", acknowledged.len());
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
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let reply = call(&[
        "serve",
        "--data",
        data.path().to_str().unwrap(),
        "--listen",
        &address,
    ]);
    assert_eq!(reply.code, 1);
    assert!(
        reply.err.contains(&format!("cannot listen on {address}")),
        "{}",
        reply.err
    );
    refused(&["serve", "--operator"], "the following required arguments were not provided: --new-token <NAME>; see multipilot --help");
    token(data.path(), "phone");
    let again = call(&[
        "serve",
        "--data",
        data.path().to_str().unwrap(),
        "--new-token",
        "phone",
    ]);
    assert_eq!(again.code, 2, "{}", again.err);
}

#[test]
fn the_api_describes_itself_without_a_server() {
    let reply = call(&["serve", "--openapi"]);
    assert_eq!((reply.code, reply.err.as_str()), (0, ""));
    assert_eq!(reply.json()["info"]["title"], "multipilot edge server");
}

#[test]
fn a_new_token_is_taken_up_on_sighup() {
    let data = tempfile::tempdir().unwrap();
    let first = token(data.path(), "phone-1");
    let server = Server::start(data.path(), &first, "");
    let second = token(data.path(), "phone-2");
    let ask = || {
        post(
            server.address,
            &second,
            "/v1/choose",
            &json!({"location": "x"}),
        )
        .unwrap()
        .0
    };
    assert_eq!(ask(), 401);
    server.signal(Signal::HUP);
    let until = Instant::now() + Duration::from_secs(20);
    while ask() != 200 {
        assert!(Instant::now() < until, "the token is not taken up");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_request_that_trickles_is_not_waited_for() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let server = Server::start(
        data.path(),
        &token,
        "limits.patience = \"300ms\"\nlimits.connections = 2\n",
    );
    let mut answers = Vec::new();
    for text in [
        "POST /v1/choose HTT".to_owned(),
        format!("POST /v1/choose HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{{\"lo"),
    ] {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
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

/// A file system of 4 MB, where this process may mount one.
struct Small<'a>(&'a Path);

impl Small<'_> {
    fn mount(folder: &Path) -> Option<Small<'_>> {
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(folder);
        let done = mount.output().is_ok_and(|o| o.status.success());
        done.then_some(Small(folder))
    }
}

impl Drop for Small<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn a_full_disk_is_a_clean_refusal() {
    let data = tempfile::tempdir().unwrap();
    let Some(_small) = Small::mount(data.path()) else {
        return mp_testing::skip("no small file system can be mounted (that takes root)");
    };
    let token = token(data.path(), "phone");
    let mut server = Server::start(data.path(), &token, "");
    let mut acknowledged = 0;
    let (status, said) = loop {
        let (status, said) = server.report(acknowledged..acknowledged + 64).unwrap();
        if status != 200 {
            break (status, said);
        }
        acknowledged += 64;
        assert!(acknowledged < 200_000, "4 MB hold no 200,000 outcomes");
    };
    assert_eq!(status, 507, "{said}");
    assert!(
        said["error"].as_str().unwrap().contains("is full"),
        "{said}"
    );
    let asked = post(
        server.address,
        &token,
        "/v1/choose",
        &json!({"location": "cafe"}),
    );
    assert_eq!(asked.unwrap().0, 200, "choices go on");
    assert!(server.child.try_wait().unwrap().is_none(), "it lives");
    // Room again: more of it, for the log of writes is not given back before it has been moved.
    let mut remount = Command::new("mount");
    remount.args(["-o", "remount,size=16m"]).arg(data.path());
    assert!(remount.status().unwrap().success());
    let (status, receipt) = server.report(0..64).unwrap();
    assert_eq!((status, &receipt["duplicates"]), (200, &json!(64)));
    let (status, receipt) = server.report(acknowledged..acknowledged + 64).unwrap();
    assert_eq!((status, &receipt["stored"]), (200, &json!(64)));
    assert_eq!(server.end(), 0);
}

fn context() -> Context {
    BTreeMap::from([("wifi.rtt_ms".to_owned(), Some(12.0))])
}

/// Tries until it holds; what is waited for happens in the background.
#[track_caller]
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < until, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_device_goes_on_without_the_server() {
    let data = tempfile::tempdir().unwrap();
    let token = token(data.path(), "phone");
    let server = Server::start(data.path(), &token, "");
    let (address, config) = (server.address, data.path().join("server.toml"));
    let models = data.path().join("models.json");
    let settings = Settings {
        // On a busy machine the test's server needs longer; the fallback below is what is tested.
        deadline: Duration::from_millis(500),
        file: Some(models.clone()),
        ..Settings::new(address, &token)
    };
    let client = Client::start(settings.clone()).unwrap();
    eventually("the server chooses", || {
        let choice = client.choose("cafe", &context(), None);
        choice.chosen_by == Chooser::Server && choice.path.is_some()
    });
    eventually("the device keeps a model of its own", || models.exists());

    // A server that hangs is as good as none.
    server.signal(Signal::STOP);
    eventually("the device chooses", || {
        let choice = client.choose("cafe", &context(), None);
        choice.chosen_by == Chooser::Device && choice.path.is_some()
    });
    let started = Instant::now();
    let choice = client.choose("cafe", &context(), None);
    assert_eq!(choice.chosen_by, Chooser::Device);
    assert!(
        started.elapsed() < settings.deadline,
        "the second question does not wait"
    );
    let only = ["cellular".to_owned()];
    assert_eq!(
        client
            .choose("cafe", &context(), Some(&only))
            .path
            .as_deref(),
        Some("cellular")
    );
    // Nothing is known of another place: the system decides.
    let elsewhere = client.choose("station", &context(), None);
    assert_eq!(
        (elsewhere.chosen_by, elsewhere.path.clone()),
        (Chooser::Stock, None)
    );

    // What came of it is handed in when the server is back, once.
    client.report(choice.outcome("c1", 12.0, Some(30.0)));
    drop(server);
    let server = Server::launch(data.path(), &token, &address.to_string(), &config);
    let handed_in = || {
        let body = json!({"outcomes": [{"id": "c1", "location": "cafe", "path": "wifi", "chosen_by": "stock",
            "throughput_mbps": 1.0}]});
        let (_, receipt) = post(address, &token, "/v1/outcomes", &body).unwrap();
        receipt["duplicates"] == 1
    };
    std::thread::sleep(Duration::from_secs(3));
    eventually("the outcome arrives", handed_in);
    eventually("the server is asked again", || {
        client.choose("cafe", &context(), None).chosen_by == Chooser::Server
    });
    drop(client);
    drop(server);

    // The models outlive the device's restart.
    let client = Client::start(settings).unwrap();
    assert_eq!(
        client.choose("cafe", &context(), None).chosen_by,
        Chooser::Device
    );
}

#[test]
fn a_device_without_server_and_model_leaves_it_to_the_system() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let client = Client::start(Settings::new(closed, "x")).unwrap();
    let choice = client.choose("cafe", &context(), None);
    assert_eq!((choice.chosen_by, choice.path), (Chooser::Stock, None));
}
