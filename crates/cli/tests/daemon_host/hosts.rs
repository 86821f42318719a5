//! A device with two links and a server behind them, each in a network namespace, and a daemon on the device.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use mp_kernel::choose::{inside, own_cookie};
use mp_testing::{Turn, Turns};
use serde_json::Value;
use tempfile::TempDir;

pub use crate::common::{until, PATIENCE};
use crate::namespace::{sh, Namespace};
use crate::transfers::{mptcp_connect, mptcp_listener, Download, Service};

pub const BINARY: &str = env!("CARGO_BIN_EXE_multipilot");
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 99, 0, 1);
pub const LINKS: [&str; 2] = ["wifi", "lte"];
pub struct Hosts {
    device: Namespace,
    server: Namespace,
    folder: TempDir,
    daemon: Option<Child>,
    _turn: Turn<'static>,
}

impl Hosts {
    /// `None` where this machine cannot run any. Two pairs at a time: most tests wait for timers.
    #[track_caller]
    pub fn new(rate: &str) -> Option<Hosts> {
        static TURNS: Turns = Turns::new(2);
        let turn = TURNS.take(mp_kernel::check::check().err())?;
        // Mounts bpffs, if nobody has yet: each daemon would mount one of its own, unseen by the others.
        mp_kernel::controller::list().unwrap();
        let hosts = Hosts {
            device: Namespace::new("d"),
            server: Namespace::new("s"),
            folder: tempfile::tempdir().unwrap(),
            daemon: None,
            _turn: turn,
        };
        hosts.furnish(rate);
        Some(hosts)
    }

    /// The device's end has 10.77.NUMBER.1.
    pub fn link(&self, link: &str, number: u8, rate: &str) {
        let (device, server) = (&self.device.0, &self.server.0);
        sh(&format!(
            "ip link add {link} netns {device} type veth peer name {link} netns {server}"
        ));
        for (namespace, end) in [(device, 1), (server, 2)] {
            sh(&format!(
                "ip -n {namespace} address add 10.77.{number}.{end}/24 dev {link}
                 ip -n {namespace} link set {link} up
                 tc -n {namespace} qdisc add dev {link} root tbf rate {rate} burst 8kb latency 100ms"
            ));
        }
        self.route(link, number);
    }

    /// Links lose their routes when they go down: then this is the business of a DHCP client, here the test's.
    pub fn route(&self, link: &str, number: u8) {
        self.device(&format!(
            "ip route replace default via 10.77.{number}.2 dev {link} metric {number}"
        ));
    }

    /// Up and with a carrier, but nothing gets through it: frames go to nobody.
    pub fn lose(&self, number: u8) {
        let nobody = "lladdr 02:00:00:00:00:99 nud permanent";
        for (namespace, other) in [(&self.device, 2), (&self.server, 1)] {
            sh(&format!(
                "ip -n {} neigh replace 10.77.{number}.{other} dev {} {nobody}",
                namespace.0,
                LINKS[usize::from(number) - 1]
            ));
        }
    }

    /// It is found again.
    pub fn find(&self, number: u8) {
        for (namespace, other) in [(&self.device, 2), (&self.server, 1)] {
            sh(&format!(
                "ip -n {} neigh del 10.77.{number}.{other} dev {}",
                namespace.0,
                LINKS[usize::from(number) - 1]
            ));
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// A command in the device's namespace.
    pub fn enter(&self, program: &str) -> Command {
        let mut command = self.device.enter(program);
        command.current_dir(self.folder.path());
        command
    }

    #[track_caller]
    pub fn server(&self, script: &str) {
        let status = self.server.enter("sh").args(["-ec", script]).status();
        assert!(status.unwrap().success(), "{script}");
    }

    #[track_caller]
    pub fn device(&self, script: &str) -> String {
        let output = self.enter("sh").args(["-ec", script]).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{script}: {complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `multipilot daemon`; its exit code and last words, if it refuses.
    pub fn daemon_command(&self, config: &str) -> Command {
        fs::write(self.path("daemon.toml"), config).unwrap();
        // What becomes of files there is seen by nobody else.
        let mut command = self.enter("unshare");
        command.args(["--mount", BINARY, "daemon", "--config"]);
        command.arg(self.path("daemon.toml"));
        command.arg("--socket").arg(self.path("control.sock"));
        command
    }

    /// Something done to files as the daemon that is at work sees them.
    #[track_caller]
    pub fn to_its_files(&self, script: &str) {
        let mount = format!("--mount=/proc/{}/ns/mnt", self.pid());
        let mut command = self.enter("nsenter");
        let status = command.args([&mount, "sh", "-ec", script]).status();
        assert!(status.unwrap().success(), "{script}");
    }

    /// Starts one and waits until it answers.
    #[track_caller]
    pub fn up(&mut self, config: &str, environment: &[(&str, &Path)]) {
        let mut command = self.daemon_command(config);
        command.envs(environment.iter().copied());
        self.start(command);
    }

    /// Starts one that may set endpoints and nothing else, with the default configuration.
    #[track_caller]
    pub fn up_without_bpf(&mut self) {
        let daemon = self.daemon_command("");
        let mut command = self.enter("setpriv");
        command.args(["--bounding-set", "-bpf,-perfmon,-sys_admin"]);
        // Without unshare, which it may not do.
        command.args(daemon.get_args().skip_while(|&word| word != BINARY));
        self.start(command);
    }

    /// A command with a /run of its own, which lies in the test's folder: `run`.
    pub fn enter_apart(&self, program: &str) -> Command {
        fs::create_dir_all(self.path("run")).unwrap();
        let mut command = self.enter("unshare");
        let script = "mount --bind run /run; exec \"$0\" \"$@\"";
        command.args(["--mount", "sh", "-ec", script, program]);
        command
    }

    /// Starts one there.
    #[track_caller]
    pub fn up_apart(&mut self, config: &str) {
        let daemon = self.daemon_command(config);
        let mut command = self.enter_apart(BINARY);
        command.args(daemon.get_args().skip_while(|&word| word != "daemon"));
        self.start(command);
    }

    #[track_caller]
    fn start(&mut self, mut command: Command) {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.path("log"));
        self.daemon = Some(command.stderr(log.unwrap()).spawn().unwrap());
        until("the daemon answers", || self.try_status().is_some());
    }

    /// What a command that asks the daemon prints.
    #[track_caller]
    pub fn multipilot(&self, words: &[&str]) -> String {
        let mut command = self.enter(BINARY);
        command.args(words).arg("--socket");
        let output = command.arg(self.path("control.sock")).output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {complaint}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    pub fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("one was started").id()
    }

    pub fn signal(&self, name: &str) {
        sh(&format!("kill -{name} {}", self.pid()));
    }

    /// As nobody would wish: without a word.
    pub fn kill(&mut self) {
        let mut daemon = self.daemon.take().expect("one was started");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    #[track_caller]
    pub fn down(&mut self) -> String {
        let mut command = self.enter(BINARY);
        let down = command
            .arg("down")
            .arg("--socket")
            .arg(self.path("control.sock"));
        let output = down.output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{complaint}{}", self.read("log"));
        if let Some(mut daemon) = self.daemon.take() {
            daemon.wait().unwrap();
        }
        complaint
    }

    fn try_status(&self) -> Option<Value> {
        let mut command = self.enter(BINARY);
        let socket = self.path("control.sock");
        let status = command.args(["status", "--json", "--socket"]).arg(socket);
        let output = status.output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    #[track_caller]
    pub fn status(&self) -> Value {
        self.try_status()
            .unwrap_or_else(|| panic!("no answer: {}", self.read("log")))
    }

    /// What status says of one interface; null where it knows none of that name.
    #[track_caller]
    pub fn interface(&self, name: &str) -> Value {
        let status = self.status();
        let mut paths = status["paths"].as_array().unwrap().iter();
        let found = paths.find(|p| p["interface"] == name);
        found.cloned().unwrap_or_default()
    }

    /// The namespaces go, with all that is in them, and others take their place.
    pub fn renew(&mut self, rate: &str) {
        (self.device, self.server) = (Namespace::new("d"), Namespace::new("s"));
        self.furnish(rate);
    }

    fn furnish(&self, rate: &str) {
        for host in [&self.device, &self.server] {
            sh(&format!("ip -n {} link set lo up", host.0));
        }
        sh(&format!(
            "ip -n {0} address add {SERVER}/32 dev lo; ip -n {0} mptcp limits set subflow 8",
            self.server.0
        ));
        for (number, link) in (1..).zip(LINKS) {
            self.link(link, number, rate);
        }
    }

    /// A port of the device that another program has.
    pub fn bind(&self, address: &str) -> TcpListener {
        self.on_device(|| TcpListener::bind(address).unwrap())
    }

    /// What daemons keep in files about the device.
    pub fn notes(&self) -> Vec<String> {
        let namespace = self.device.file();
        let cookie = inside(namespace.as_fd(), own_cookie).unwrap().unwrap();
        let all = fs::read_dir("/run/multipilot").into_iter().flatten();
        all.flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with(&format!("daemon-{cookie:x}.")))
            .collect()
    }

    /// Serves everybody who comes, until dropped.
    pub fn listen(&self, port: u16, serve: impl FnMut(TcpStream) + Send + 'static) -> Service {
        Service::start(self.on_server(|| mptcp_listener(port, 4096)), serve)
    }

    pub fn on_device<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        inside(self.device.file().as_fd(), action).unwrap()
    }

    pub fn on_server<T: Send>(&self, action: impl FnOnce() -> T + Send) -> T {
        inside(self.server.file().as_fd(), action).unwrap()
    }

    /// Where so many connections stand without anybody taking them: a process may not have as many files open.
    pub fn queue(&self, port: u16, length: usize) -> TcpListener {
        self.server(&format!("echo {length} > /proc/sys/net/core/somaxconn"));
        self.on_server(|| mptcp_listener(port, length))
    }

    /// So many connections over which a byte has gone: only then may further subflows join.
    pub fn connect(&self, port: u16, times: usize) -> Vec<TcpStream> {
        let namespace = self.device.file();
        let connect = || (0..times).map(|_| mptcp_connect(port)).collect();
        inside(namespace.as_fd(), connect).unwrap()
    }

    /// A download that goes on until it is ended.
    pub fn download(&self, port: u16) -> Download {
        let stream = self.connect(port, 1).remove(0);
        Download::start(stream)
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        if std::thread::panicking() {
            eprintln!("{}", self.read("log"));
        }
    }
}
