//! A server of its own for each test, and how it is asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{kill_process, Pid, Signal};
use serde_json::{json, Value};

use crate::common::{call, multipilot};

pub struct Server {
    pub child: Child,
    pub address: SocketAddr,
    pub url: String,
    token: String,
    said: Arc<Mutex<String>>,
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

    /// With further options in place of a configuration.
    pub fn with(data: &Path, token: &str, options: &[&Path]) -> Server {
        Server::launched(data, token, "127.0.0.1:0", None, options)
    }

    pub fn launch(data: &Path, token: &str, listen: &str, config: &Path) -> Server {
        Server::launched(data, token, listen, Some(config), &[])
    }

    pub fn launched(
        data: &Path,
        token: &str,
        listen: &str,
        config: Option<&Path>,
        options: &[&Path],
    ) -> Server {
        let mut command = multipilot();
        command.args(["serve", "--listen", listen, "--data"]);
        command.arg(data).args(options);
        if let Some(config) = config {
            command.arg("--config").arg(config);
        }
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts");
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let said = Arc::new(Mutex::new(String::new()));
        let heard = said.clone();
        let hear = move |line: &str| *heard.lock().unwrap() += &format!("{line}\n");
        let line = lines.find_map(|line| {
            let line = line.ok()?;
            hear(&line);
            Some(line).filter(|line| line.contains("serving on"))
        });
        let line = line.expect("it says where it serves");
        let url = line.split("serving on ").nth(1).unwrap();
        let url = url.split(' ').next().unwrap().to_owned();
        let address = url.split("://").nth(1).unwrap().parse().unwrap();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| hear(&line)));
        Server {
            child,
            address,
            url,
            token: token.to_owned(),
            said,
        }
    }

    /// Its stderr until now.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().clone()
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
    let (status, body) = ask(address, token, "POST", path, &body.to_string())?;
    Some((status, serde_json::from_str(&body).ok()?))
}

pub fn get(address: SocketAddr, token: &str, path: &str) -> Option<(u16, String)> {
    ask(address, token, "GET", path, "")
}

fn ask(
    address: SocketAddr,
    token: &str,
    method: &str,
    path: &str,
    body: &str,
) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}
