//! The hosts, and the commands on them.

mod network;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use mp_kernel::choose::inside;
use mp_testing::{Turn, Turns};
use rustix::process::{kill_process, Pid, Signal};
use tempfile::TempDir;

pub use crate::common::until;
use crate::common::{Reply, PATIENCE};
use crate::multipilot;
use crate::namespace::{sh, Namespace};
use crate::program;

pub const LINKS: [&str; 2] = ["wifi", "lte"];
pub const RELAY: &str = "10.99.0.1:443";
pub const SERVER: &str = "10.99.0.2:80";
/// The same server at addresses of no private range.
pub const PUBLIC: [&str; 2] = ["198.51.100.2:80", "[2001:db8:99::2]:80"];
/// Where the relay lets the device go beside public addresses.
pub const ALLOWED: [&str; 3] = [
    "--allow=10.0.0.0/8",
    "--allow=198.51.100.0/24",
    "--allow=2001:db8:99::/48",
];

/// Two at a time: most of them wait for timers.
#[track_caller]
pub fn turn() -> Option<Turn<'static>> {
    static TURNS: Turns = Turns::new(2);
    let root = rustix::process::geteuid().is_root();
    TURNS.take((!root).then_some("network namespaces need root"))
}

pub struct Hosts {
    device: Namespace,
    relay: Namespace,
    folder: TempDir,
    running: Vec<Child>,
    /// The daemon.
    background: Option<Pid>,
    /// As the relay printed it.
    pub line: String,
    _turn: Turn<'static>,
}

impl Hosts {
    /// Two links of this rate, a relay that lets the device go everywhere, and a server behind it. `None` where this machine
    /// cannot have them.
    #[track_caller]
    pub fn new(rate: &str) -> Option<Hosts> {
        let turn = turn()?;
        let mut hosts = Hosts {
            device: Namespace::new("d"),
            relay: Namespace::new("r"),
            folder: tempfile::tempdir().unwrap(),
            running: Vec::new(),
            background: None,
            line: String::new(),
            _turn: turn,
        };
        hosts.furnish(rate);
        hosts.line = hosts.start_relay(RELAY, &ALLOWED);
        Some(hosts)
    }

    pub fn in_relay<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        inside(self.relay.file().as_fd(), act).unwrap()
    }

    pub fn in_device<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        inside(self.device.file().as_fd(), act).unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `multipilot` on one of the hosts, with a home of its own.
    fn command(&self, host: &Namespace, home: &str) -> Command {
        let resolvers = self.path(&host.0);
        let mut command = match resolvers.exists() {
            true => {
                let mut command = host.enter("unshare");
                let mount = "mount --bind \"$0\" /etc/resolv.conf && exec \"$@\"";
                command.args(["--mount", "sh", "-c", mount]).arg(resolvers);
                command.arg(multipilot().get_program());
                command
            }
            false => host.enter(multipilot().get_program()),
        };
        command
            .current_dir(self.folder.path())
            .env("XDG_STATE_HOME", self.path(home));
        command
    }

    /// What /etc/resolv.conf says from now on to the commands on the device, and on the relay's host.
    pub fn resolvers(&self, device: &str, relay: &str) {
        fs::write(self.path(&self.device.0), device).unwrap();
        fs::write(self.path(&self.relay.0), relay).unwrap();
    }

    /// `multipilot relay`, to its end.
    pub fn relay_command(&self, arguments: &[&str]) -> Reply {
        self.relay_command_in("relay", arguments)
    }

    /// For the relay with this folder.
    pub fn relay_command_in(&self, state: &str, arguments: &[&str]) -> Reply {
        let mut command = self.command(&self.relay, "relay-home");
        command
            .arg("relay")
            .args(["--state"])
            .arg(self.path(state))
            .args(arguments);
        Reply::from(command.output().unwrap())
    }

    /// Ends the relay of [`Hosts::new`], which was started first.
    pub fn kill_relay(&mut self) {
        let mut relay = self.running.remove(0);
        relay.kill().unwrap();
        relay.wait().unwrap();
    }

    /// Waits for the end of the relay of [`Hosts::new`].
    pub fn relay_has_ended(&mut self) -> ExitStatus {
        self.running.remove(0).wait().unwrap()
    }

    /// The same again; until it listens.
    pub fn restart_relay(&mut self) {
        let relay = self.known_relay(RELAY, "relay").spawn().unwrap();
        self.running.insert(0, relay);
        // Not from the device, whose links may be down.
        until("the relay listens", || {
            self.in_relay(|| TcpStream::connect(RELAY).is_ok())
        });
    }

    /// A relay whose folder has devices, so that it prints no line; until it listens.
    pub fn further_relay(&mut self, listen: &str, state: &str) {
        let relay = self.known_relay(listen, state).spawn().unwrap();
        self.running.push(relay);
        until("the relay listens", || {
            self.in_device(|| TcpStream::connect(listen).is_ok())
        });
    }

    /// The relay of [`Hosts::new`] to its end, while something happens; what it says meanwhile.
    pub fn relay_says(&mut self, while_it_runs: impl FnOnce(&Hosts)) -> String {
        self.kill_relay();
        let mut command = self.known_relay(RELAY, "relay");
        let relay = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        self.running.insert(0, relay);
        while_it_runs(self);
        self.signal(true, Signal::TERM);
        let reply = Reply::from(self.running.remove(0).wait_with_output().unwrap());
        reply.out + &reply.err
    }

    fn known_relay(&self, listen: &str, state: &str) -> Command {
        let mut command = self.command(&self.relay, "relay-home");
        command.args(["relay", "--listen", listen, "--state"]);
        command.arg(self.path(state)).args(ALLOWED);
        command
    }

    /// Starts the relay and waits until it listens; the line that it prints.
    pub fn start_relay(&mut self, listen: &str, arguments: &[&str]) -> String {
        let mut command = self.command(&self.relay, "relay-home");
        command
            .args(["relay", "--listen", listen, "--state"])
            .arg(self.path(if listen == RELAY { "relay" } else { listen }))
            .args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        self.running.push(child);
        let mut words = arguments.iter().skip_while(|word| **word != "--address");
        let place = words.nth(1).unwrap_or(&listen);
        assert!(line.starts_with(&format!("mp1:{place}#")), "{line:?}");
        line.trim().to_owned()
    }

    /// `multipilot run --relay LINE` on the device, as the user of this home.
    pub fn run_as(&self, home: &str, line: &str, arguments: &[&str], work: &str) -> Command {
        let mut command = self.command(&self.device, home);
        command.args(["run", "--relay", line]).args(arguments);
        command
            .arg("--")
            .arg(std::env::current_exe().unwrap())
            .args(program::words());
        program::work(&mut command, work);
        command
    }

    /// What the program says of its work.
    #[track_caller]
    pub fn run(&self, arguments: &[&str], work: &str) -> String {
        let reply = Reply::from(
            self.run_as("home", &self.line, arguments, work)
                .output()
                .unwrap(),
        );
        let said = program::result(&reply.out);
        said.unwrap_or_else(|| panic!("{}: {}{}", reply.code, reply.out, reply.err))
            .to_owned()
    }

    /// A SOCKS5 proxy on the device, until the hosts are gone.
    pub fn socks(&mut self, arguments: &[&str]) {
        let log = self.path("socks.log");
        let mut command = self.command(&self.device, "home");
        command
            .args(["run", "--relay", &self.line, "--socks", "127.0.0.1:1080"])
            .args(arguments);
        let child = command.stderr(File::create(&log).unwrap()).spawn().unwrap();
        self.running.push(child);
        until("the proxy listens", || {
            fs::read_to_string(&log)
                .unwrap()
                .contains("SOCKS5 proxy on 127.0.0.1:1080")
        });
    }

    /// Any program on the device.
    pub fn program(&self, name: &str) -> Command {
        self.device.enter(name)
    }

    /// `multipilot` on the device.
    pub fn plain(&self, words: &[&str]) -> Command {
        let mut command = self.command(&self.device, "home");
        command.args(words);
        command
    }

    pub fn plainly(&self, words: &[&str]) -> Reply {
        Reply::from(self.plain(words).output().unwrap())
    }

    /// One of the commands that have to do with all of the device's connections.
    pub fn multipilot(&self, words: &[&str]) -> Reply {
        self.output_of(self.command(&self.device, "home"), words)
    }

    fn output_of(&self, mut command: Command, words: &[&str]) -> Reply {
        command.args(words).arg("--relay-socket");
        command.arg(self.path("relay.sock"));
        if words[0] != "run" {
            command.arg("--socket").arg(self.path("control.sock"));
        }
        Reply::from(command.output().unwrap())
    }

    /// What the daemon is to do, from its next start or reload on.
    pub fn configure(&self, relay: &str, rest: &str) {
        let state = self.path("state");
        let text =
            format!("controller = \"system\"\n[relay]\nstate = {state:?}\n{relay}\n{rest}\n");
        fs::write(self.path("daemon.toml"), text).unwrap();
    }

    /// `reload`, `status`, `daemon --check`: with the socket alone.
    pub fn daemon(&self, words: &[&str]) -> Reply {
        let mut command = self.command(&self.device, "home");
        command.args(words);
        if words[0] != "daemon" {
            command.arg("--socket").arg(self.path("control.sock"));
        }
        Reply::from(command.output().unwrap())
    }

    /// What `status` says of the relay.
    #[track_caller]
    pub fn relay_status(&self) -> serde_json::Value {
        self.multipilot(&["status", "--json"]).json()["relay"].clone()
    }

    /// And of one link.
    #[track_caller]
    pub fn link(&self, name: &str) -> serde_json::Value {
        let relay = self.relay_status();
        let mut links = relay["links"].as_array().into_iter().flatten();
        let found = links.find(|link| link["link"] == name);
        found.cloned().unwrap_or_default()
    }

    /// On the host where the relay runs.
    pub fn on_relays_host(&self, words: &[&str]) -> Reply {
        let mut command = self.command(&self.relay, "home");
        command.args(words).arg("--relay-socket");
        command.arg(self.path("relay.sock"));
        Reply::from(command.output().unwrap())
    }

    /// `multipilot up --relay`: from now on all of the device's connections are taken.
    #[track_caller]
    pub fn up(&mut self, more: &[&str]) -> Reply {
        let line = self.line.clone();
        let mut words = vec!["--relay", &line];
        words.extend(more);
        self.up_with(&words)
    }

    /// The same beside the services of this system bus.
    #[track_caller]
    pub fn up_on_bus(&mut self, bus: &str) -> Reply {
        let mut command = self.command(&self.device, "home");
        command.env("DBUS_SYSTEM_BUS_ADDRESS", bus);
        let line = self.line.clone();
        self.up_by(command, &["--relay", &line])
    }

    /// `multipilot up` with the daemon's file.
    #[track_caller]
    pub fn up_with(&mut self, more: &[&str]) -> Reply {
        self.up_by(self.command(&self.device, "home"), more)
    }

    /// The same where the kernel lets no BPF program be loaded.
    #[track_caller]
    pub fn up_without_bpf(&mut self, more: &[&str]) -> Reply {
        self.up_by(self.command_without_bpf(), more)
    }

    #[track_caller]
    fn up_by(&mut self, command: Command, more: &[&str]) -> Reply {
        let (log, config) = (self.path("daemon.log"), self.path("daemon.toml"));
        if !config.exists() {
            self.configure("", "");
        }
        let (log, config) = (log.to_str().unwrap(), config.to_str().unwrap());
        let mut words = vec!["up", "--log", log, "--config", config];
        words.extend(more);
        let reply = self.output_of(command, &words);
        assert_eq!(reply.code, 0, "{}", reply.err);
        let (_, number) = reply.err.split_once("(process ").unwrap();
        let (number, _) = number.split_once(')').unwrap();
        self.background = Pid::from_raw(number.parse().unwrap());
        reply
    }

    /// kill -9 of what `up` has started.
    pub fn kill_background(&mut self) {
        let process = self.background.take().unwrap();
        kill_process(process, Signal::KILL).unwrap();
        let tun = || sh(&format!("ip -n {} link", self.device.0));
        until("the kernel removes what was the process's", || {
            let socket = UnixStream::connect(self.path("control.sock"));
            socket.is_err() && !tun().contains("tun-multipilot")
        });
    }

    /// `multipilot run --relay - --all` in the foreground, as a device of this name.
    pub fn run_all(&self, name: &str) -> Child {
        self.begin_all(self.command(&self.device, "home"), name, 1)
            .0
    }

    /// The same where the kernel lets no BPF program be loaded; and what it says of that.
    pub fn run_all_without_bpf(&self, name: &str) -> (Child, String) {
        self.begin_all(self.command_without_bpf(), name, 2)
    }

    fn command_without_bpf(&self) -> Command {
        let mut command = self.device.enter("setpriv");
        command.args(["--bounding-set", "-bpf,-perfmon,-sys_admin"]);
        command.arg(multipilot().get_program());
        command
            .current_dir(self.folder.path())
            .env("XDG_STATE_HOME", self.path("home"));
        command
    }

    /// With the last of so many lines that it says.
    fn begin_all(&self, mut command: Command, name: &str, lines: usize) -> (Child, String) {
        command.args(["run", "--relay", "-", "--all", "--relay-socket"]);
        command.arg(self.path("relay.sock")).stdin(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        // The daemon is another device.
        let line = self.relay_command(&["--new-device", name]).out;
        child
            .stdin
            .take()
            .unwrap()
            .write_all(line.as_bytes())
            .unwrap();
        let stderr = BufReader::new(child.stderr.as_mut().unwrap());
        let said: Vec<String> = stderr.lines().take(lines).map(Result::unwrap).collect();
        let goes = &said[0];
        assert!(goes.contains("goes to the relay over wifi, lte"), "{goes}");
        (child, said.last().unwrap().clone())
    }

    /// A connection through the proxy, or the code of its refusal.
    pub fn through_socks(&self, target: &str) -> Result<TcpStream, u8> {
        let mut stream = self.in_device(|| TcpStream::connect("127.0.0.1:1080").unwrap());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut request = vec![5, 1, 0, 5, 1, 0];
        match target.parse::<SocketAddr>() {
            Ok(SocketAddr::V4(v4)) => {
                request.push(1);
                request.extend(v4.ip().octets());
                request.extend(v4.port().to_be_bytes());
            }
            Ok(SocketAddr::V6(v6)) => {
                request.push(4);
                request.extend(v6.ip().octets());
                request.extend(v6.port().to_be_bytes());
            }
            Err(_) => {
                let (name, port) = target.split_once(':').unwrap();
                request.extend([3, name.len() as u8]);
                request.extend(name.as_bytes());
                request.extend(port.parse::<u16>().unwrap().to_be_bytes());
            }
        }
        stream.write_all(&request).unwrap();
        let mut reply = [0; 12];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[..3], [5, 0, 5]);
        match reply[3] {
            0 => Ok(stream),
            code => Err(code),
        }
    }

    /// To the relay of [`Hosts::new`], or else to the process that was started last.
    pub fn signal(&self, relay: bool, signal: Signal) {
        let process = match relay {
            true => self.running.first(),
            false => self.running.last(),
        };
        kill_process(Pid::from_child(process.unwrap()), signal).unwrap();
    }

    /// The process that was started last.
    pub fn last(&mut self) -> &mut Child {
        self.running.last_mut().unwrap()
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if self.background.is_some() {
            self.multipilot(&["down"]);
        }
        if std::thread::panicking() {
            let log = fs::read_to_string(self.path("daemon.log"));
            eprintln!("{}", log.unwrap_or_default());
        }
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
