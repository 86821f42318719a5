//! systemd-resolved asks over the link that a server is of: while the relay answers, the TUN's resolver has all names. A program of
//! the test's own takes its part, on a bus of the test's own.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use tokio::runtime::Runtime;
use zbus::connection::Builder;
use zbus::Connection;

use crate::clients::installed;
use crate::hosts::{until, Hosts};
use crate::namespace::sh;
use crate::rules::both_paths_open;

type Calls = Arc<Mutex<Vec<String>>>;

struct Manager(Calls);

#[zbus::interface(name = "org.freedesktop.resolve1.Manager")]
impl Manager {
    #[zbus(name = "SetLinkDNS")]
    fn set_link_dns(&self, link: i32, servers: Vec<(i32, Vec<u8>)>) {
        self.note(format!("{link} servers {servers:?}"));
    }

    fn set_link_domains(&self, link: i32, domains: Vec<(String, bool)>) {
        self.note(format!("{link} domains {domains:?}"));
    }

    fn revert_link(&self, link: i32) {
        self.note(format!("{link} reverted"));
    }
}

impl Manager {
    fn note(&self, call: String) {
        self.0.lock().unwrap().push(call);
    }
}

/// With the service on it, until it is dropped.
struct Bus {
    daemon: Child,
    address: String,
    calls: Calls,
    _service: Connection,
    _runtime: Runtime,
}

impl Bus {
    fn start(folder: &Path) -> Bus {
        let address = format!("unix:path={}", folder.join("bus").display());
        let mut daemon = Command::new("dbus-daemon");
        daemon.args(["--session", "--nofork", "--nopidfile"]);
        let daemon = daemon.arg(format!("--address={address}"));
        let daemon = daemon.stdout(Stdio::null()).spawn().unwrap();
        until("the bus is there", || folder.join("bus").exists());
        let runtime = Runtime::new().unwrap();
        let calls = Calls::default();
        Bus {
            daemon,
            _service: runtime.block_on(serve(&address, calls.clone())).unwrap(),
            _runtime: runtime,
            address,
            calls,
        }
    }

    /// Whether these are the last calls.
    fn was_told(&self, all: &[String]) -> bool {
        self.calls.lock().unwrap().ends_with(all)
    }
}

async fn serve(address: &str, calls: Calls) -> zbus::Result<Connection> {
    Builder::address(address)?
        .name("org.freedesktop.resolve1")?
        .serve_at("/org/freedesktop/resolve1", Manager(calls))?
        .build()
        .await
}

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

#[track_caller]
fn ready() -> Option<(Hosts, Bus)> {
    if !installed(&["dbus-daemon"]) {
        return None;
    }
    let hosts = Hosts::new("40mbit")?;
    let bus = Bus::start(&hosts.path(""));
    Some((hosts, bus))
}

#[test]
fn it_asks_the_relays_resolver_while_the_relay_answers() {
    let Some((mut hosts, bus)) = ready() else {
        return;
    };
    hosts.up_on_bus(&bus.address);
    let link = hosts.in_device(|| sh("ip -o link show tun-multipilot"));
    let (link, _) = link.split_once(':').unwrap();
    let asked = [
        format!("{link} servers [(2, [198, 18, 77, 2])]"),
        format!("{link} domains [(\".\", true)]"),
    ];
    until("it is told", || bus.was_told(&asked));
    hosts.kill_relay();
    let reverted = [format!("{link} reverted")];
    until("it goes back to what it did", || bus.was_told(&reverted));
    hosts.restart_relay();
    until("it is told again", || bus.was_told(&asked));
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
}

#[test]
fn it_is_left_alone_where_dns_is_direct() {
    let Some((mut hosts, bus)) = ready() else {
        return;
    };
    hosts.configure("dns = \"direct\"", "");
    hosts.up_on_bus(&bus.address);
    both_paths_open(&hosts);
    assert_eq!(hosts.multipilot(&["down"]).code, 0);
    assert_eq!(*bus.calls.lock().unwrap(), Vec::<String>::new());
}
