//! The network that the hosts are in, and what becomes of it.

use std::fs;
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

use mp_kernel::choose::inside;

use super::{until, Hosts, LINKS, PUBLIC, SERVER};
use crate::namespace::{sh, Namespace};
use crate::program;

impl Hosts {
    pub(super) fn furnish(&self, rate: &str) {
        let (device, relay) = (&self.device.0, &self.relay.0);
        for (number, link) in (1..).zip(LINKS) {
            sh(&format!(
                "ip link add {link} netns {device} type veth peer name {link} netns {relay}"
            ));
            for (namespace, end) in [(device, 1), (relay, 2)] {
                sh(&format!(
                    "ip -n {namespace} address add 10.77.{number}.{end}/24 dev {link}
                     ip -n {namespace} link set {link} up
                     tc -n {namespace} qdisc add dev {link} root tbf rate {rate} burst 8kb latency 50ms"
                ));
            }
            self.route(number);
        }
        sh(&format!(
            "ip -n {relay} address add 10.99.0.1/32 dev lo
             ip -n {relay} address add 10.99.0.2/32 dev lo
             ip -n {relay} address add 198.51.100.2/32 dev lo
             ip -n {relay} address add 2001:db8:99::2/128 dev lo nodad
             ip -n {relay} link set lo up
             ip -n {device} link set lo up"
        ));
        for address in [SERVER, PUBLIC[0], PUBLIC[1]] {
            program::serve(self.in_relay(|| TcpListener::bind(address).unwrap()));
        }
    }

    /// A link loses its routes when it goes down; bringing them back is a DHCP client's business, here the test's.
    pub fn route(&self, number: u8) {
        let link = LINKS[usize::from(number) - 1];
        sh(&format!(
            "ip -n {} route replace default via 10.77.{number}.2 dev {link} metric {number}",
            self.device.0
        ));
    }

    /// The device has another address there, as after a new lease.
    pub fn renumber(&self, number: u8) {
        let link = LINKS[usize::from(number) - 1];
        self.on_device(&format!(
            "ip address del 10.77.{number}.1/24 dev {link}
             ip address add 10.77.{number}.7/24 dev {link}"
        ));
        self.route(number);
    }

    pub fn set_link(&self, number: u8, state: &str) {
        sh(&format!(
            "ip -n {} link set {} {state}",
            self.device.0,
            LINKS[usize::from(number) - 1]
        ));
    }

    /// Up and with a carrier, but nothing gets through: frames go to nobody.
    pub fn silence(&self, number: u8) {
        self.silence_uploads(number);
        self.silence_downloads(number);
    }

    /// What the relay's host sends arrives on the device, but not the other way round.
    pub fn silence_uploads(&self, number: u8) {
        Self::lead_astray(&self.device, number, 2);
    }

    /// What the device sends arrives on the relay's host, but not the other way round.
    pub fn silence_downloads(&self, number: u8) {
        Self::lead_astray(&self.relay, number, 1);
    }

    fn lead_astray(from: &Namespace, number: u8, to: u8) {
        sh(&format!(
            "ip -n {} neigh replace 10.77.{number}.{to} dev {} lladdr 02:00:00:00:00:99 nud permanent",
            from.0,
            LINKS[usize::from(number) - 1]
        ));
    }

    /// It gets through again.
    pub fn unsilence(&self, number: u8) {
        for (namespace, other) in [(&self.device, 2), (&self.relay, 1)] {
            sh(&format!(
                "ip -n {} neigh del 10.77.{number}.{other} dev {}",
                namespace.0,
                LINKS[usize::from(number) - 1]
            ));
        }
    }

    /// Commands in the device's namespace.
    #[track_caller]
    pub fn on_device(&self, commands: &str) {
        self.in_device(|| sh(commands));
    }

    /// Makes a BPF program of one that lies beside this file.
    pub fn compile(&self, name: &str, defines: &[String], object: &Path) {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/relay");
        let status = Command::new("clang")
            .args(["-target", "bpf", "-O2", "-g", "-c"])
            .args(defines)
            .arg(format!("{folder}/{name}.bpf.c"))
            .arg("-o")
            .arg(object)
            .status();
        assert!(status.unwrap().success());
    }

    /// Has it handle the packets that leave by a link of the device (`egress`) or come in (`ingress`), in place of another.
    pub fn filter(&self, link: &str, way: &str, object: &Path) {
        self.on_device(&format!(
            "tc qdisc show dev {link} clsact | grep -q . || tc qdisc add dev {link} clsact
             tc filter replace dev {link} {way} prio 1 handle 1 bpf direct-action object-file {} section tc",
            object.display()
        ));
    }

    /// Bytes that the device has received and sent on a link.
    pub fn carried(&self, number: u8) -> u64 {
        self.counted(LINKS[usize::from(number) - 1], "bytes")
    }

    /// The same of any interface, or packets.
    pub fn counted(&self, link: &str, what: &str) -> u64 {
        let text = sh(&format!(
            "ip -n {} -s -j link show dev {link}",
            self.device.0
        ));
        let all: serde_json::Value = serde_json::from_str(&text).unwrap();
        let count = |way: &str| all[0]["stats64"][way][what].as_u64().unwrap();
        count("rx") + count("tx")
    }

    /// A router behind the relay, which is 198.51.100.130 and 2001:db8:99:1::2. Packets to 198.51.100.192/27 and
    /// 2001:db8:99:2::/64 turn round there; there is no way to 198.51.100.224/27.
    pub fn router(&self) -> Namespace {
        let router = Namespace::new("x");
        let (relay, name) = (&self.relay.0, &router.0);
        sh(&format!(
            "ip link add behind netns {relay} type veth peer name behind netns {name}
             ip -n {relay} address add 198.51.100.129/26 dev behind
             ip -n {relay} address add 2001:db8:99:1::1/64 dev behind nodad
             ip -n {relay} link set behind up
             ip -n {name} address add 198.51.100.130/26 dev behind
             ip -n {name} address add 2001:db8:99:1::2/64 dev behind nodad
             ip -n {name} link set behind up
             ip -n {relay} route add 198.51.100.192/26 via 198.51.100.130
             ip -n {relay} route add 2001:db8:99:2::/64 via 2001:db8:99:1::2
             ip -n {name} route add default via 198.51.100.129
             ip -n {name} route add default via 2001:db8:99:1::1
             ip -n {name} route add unreachable 198.51.100.224/27"
        ));
        inside(router.file().as_fd(), || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
        })
        .unwrap();
        router
    }

    /// Whatever of the device's network could be left changed.
    pub fn network(&self) -> String {
        let device = &self.device.0;
        until("addresses are settled", || {
            !sh(&format!("ip -n {device} address")).contains("tentative")
        });
        sh(&format!(
            "for what in rule '-6 rule' 'route show table all' '-6 route show table all' 'address show up' link; do
                 ip -n {device} $what | sed 's/ expires [0-9]*sec//; s/ valid_lft.*//'
             done"
        ))
    }

    /// Of interfaces that are to come: packets are dropped unless answers would leave where they came in.
    pub fn check_sources(&self) {
        self.in_device(|| fs::write("/proc/sys/net/ipv4/conf/default/rp_filter", "1").unwrap());
    }
}
