//! `[bandit]`: where connections of this host start, asked of a server, learnt, or left to the routes.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Receiver};

use mp_kernel::cgroup::Group;
use serde_json::Value;

use crate::ca::{Ca, Signed};
use crate::hosts::{until, Hosts, BINARY};
use crate::transfers::Service;

const ANSWER: usize = 60_000;

fn initial_path(hosts: &Hosts) -> Value {
    hosts.status()["initial_path"].clone()
}

/// Downloads so many times, one after the other, in the cgroup.
fn downloads(hosts: &Hosts, group: &Group, times: usize) {
    let script = format!(
        "for i in $(seq {times}); do [ $(cat < /dev/tcp/10.99.0.1/5004 | wc -c) = {ANSWER} ] || exit 9; done"
    );
    let mut command = hosts.enter("bash");
    group.adopt(&mut command).unwrap();
    assert!(command.args(["-c", &script]).status().unwrap().success());
}

/// The connections' first addresses end up in the channel: 1 for the Wi-Fi, 2 for the LTE.
fn answer(hosts: &Hosts) -> (Service, Receiver<u8>) {
    let (send, from) = channel();
    let service = hosts.listen(5004, move |mut stream: TcpStream| {
        let std::net::IpAddr::V4(peer) = stream.peer_addr().unwrap().ip() else {
            unreachable!()
        };
        let _ = send.send(peer.octets()[2]);
        let _ = stream.write_all(&[7; ANSWER]);
    });
    (service, from)
}

struct Edge(Child);

impl Edge {
    fn new_token(hosts: &Hosts) {
        let mut command = Command::new(BINARY);
        let data = hosts.path("edge");
        let call = command.args(["serve", "--new-token", "device", "--data"]);
        let token = call.arg(data).output().unwrap().stdout;
        std::fs::write(hosts.path("token"), token).unwrap();
    }

    fn begin(hosts: &Hosts, signed: &Signed) -> Edge {
        let mut command = hosts.enter(BINARY);
        let call = command.args(["serve", "--listen", "127.0.0.1:9463", "--data"]);
        let call = call.arg(hosts.path("edge")).stderr(Stdio::piped());
        let call = call.arg("--tls-cert").arg(&signed.cert);
        let call = call.arg("--tls-key").arg(&signed.key);
        let mut child = call.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut lines = lines.map_while(Result::ok);
        assert!(lines.any(|line| line.contains("serving on")));
        std::thread::spawn(move || lines.for_each(drop));
        Edge(child)
    }
}

impl Drop for Edge {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_connection_starts_where_the_server_says_else_the_own_model_else_the_routes() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let group = Group::new().unwrap();
    let (_service, from) = answer(&hosts);
    Edge::new_token(&hosts);
    let ca = Ca::new("ours");
    ca.file(hosts.path("ca.pem"));
    let signed = ca.sign(&hosts.path(""), "localhost");
    let config = format!(
        "[bandit]\nmemory = \"{0}/memory\"\ncgroup = \"{1}\"\nserver = \"https://localhost:9463\"\n\
         ca = \"{0}/ca.pem\"\ntoken-file = \"{0}/token\"\nlocation = \"desk\"\npaths = {{ lte = \"cellular\" }}\n",
        hosts.path("").display(),
        group.path().display()
    );
    hosts.up(&config, &[]);

    // Nobody answers, and nothing is known.
    let offer = initial_path(&hosts);
    assert_eq!(offer["by"], "stock", "{offer}");
    assert_eq!(offer["interface"], Value::Null, "{offer}");
    downloads(&hosts, &group, 1);
    assert_eq!(from.recv().unwrap(), 1, "the routes prefer the Wi-Fi");
    // What the routes chose was learnt from.
    until("it has a model of its own", || {
        downloads(&hosts, &group, 3);
        initial_path(&hosts)["by"] == "device"
    });

    let edge = Edge::begin(&hosts, &signed);
    until("the server is asked", || {
        downloads(&hosts, &group, 1);
        initial_path(&hosts)["by"] == "server"
    });
    let _ = from.try_iter().count();
    for _ in 0..5 {
        let offer = initial_path(&hosts);
        let (chosen, decisions) = (&offer["interface"], &offer["decisions"]);
        downloads(&hosts, &group, 1);
        let link = ["wifi", "lte"][usize::from(from.recv().unwrap()) - 1];
        assert_eq!(*chosen, link);
        until("the next choice is ready", || {
            initial_path(&hosts)["decisions"] != *decisions
        });
    }
    until("it has the server's model", || {
        hosts.read("memory/server-models.json").contains("desk")
    });
    drop(edge);
    until("it goes on by that one", || {
        downloads(&hosts, &group, 1);
        let offer = initial_path(&hosts);
        offer["by"] == "device" && offer["why"].as_str().unwrap().contains("gave out last")
    });
    hosts.down();
    assert!(hosts
        .read("memory/bandit-wifi+lte.json")
        .contains("\"reward\":"));
    // The outcomes of connections, whoever chose: text stands in the files as it is.
    let files = std::fs::read_dir(hosts.path("memory/experience")).unwrap();
    let stored: Vec<u8> = files
        .flat_map(|file| std::fs::read(file.unwrap().path()).unwrap())
        .collect();
    for word in ["stock", "device", "server", "lte.rtt_ms"] {
        let there = stored.windows(word.len()).any(|at| at == word.as_bytes());
        assert!(there, "{word}");
    }
}
