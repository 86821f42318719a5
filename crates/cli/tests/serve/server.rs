//! A server of its own for each test, and how it is asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};

use crate::common::{call, multipilot};

pub struct Server {
    pub child: Child,
    pub address: SocketAddr,
    token: String,
}

pub fn token(data: &Path, name: &str) -> String {
    let data = data.to_str().unwrap();
    let reply = call(&["serve", "--data", data, "--new-token", name]);
    assert_eq!(reply.code, 0, "{}", reply.err);
    reply.out.trim().to_owned()
}

impl Server {
    pub fn start(data: &Path, token: &str, extra: &str) -> Server {
        let config = data.join("server.toml");
        std::fs::write(&config, format!("limits.requests = 1000000\n{extra}")).unwrap();
        Server::launch(data, token, "127.0.0.1:0", &config)
    }

    pub fn launch(data: &Path, token: &str, listen: &str, config: &Path) -> Server {
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

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a child of ours");
    }

    pub fn end(mut self) -> i32 {
        self.signal(Signal::INT);
        let status = self.child.wait().expect("a child of ours");
        status.code().unwrap_or(-1)
    }

    pub fn report(&self, ids: impl Iterator<Item = usize>) -> Option<(u16, Value)> {
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

pub fn outcome(id: usize) -> Value {
    json!({"id": format!("c{id}"), "location": "cafe", "path": if id.is_multiple_of(2) { "wifi" } else { "cellular" },
        "context": {"wifi.rtt_ms": 20.0}, "chosen_by": "server", "throughput_mbps": 10.0, "latency_ms": 20.0})
}

/// One request on a connection of its own; `None` where that broke.
pub fn post(address: SocketAddr, token: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
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
