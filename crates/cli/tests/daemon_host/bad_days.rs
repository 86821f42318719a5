//! What happens to a host, and a daemon that lives through it.

use std::fs;
use std::net::Shutdown;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::common::copy;
use crate::hosts::{until, Hosts, LINKS};
use crate::namespace::sh;
use crate::transfers::flood;

/// Wall-clock time is a year ago from the moment at which a file is there.
const JUMP: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time)
{
    int (*real)(clockid_t, struct timespec *) = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, time);
    if (clock == CLOCK_REALTIME && access(getenv("JUMPED"), F_OK) == 0)
        time->tv_sec -= 365 * 86400;
    return result;
}
"#;

fn priority(hosts: &Hosts, interface: &str) -> String {
    let path = hosts.interface(interface);
    path["priority"].as_str().unwrap_or("unknown").to_owned()
}

fn endpoints(hosts: &Hosts) -> String {
    hosts.device("ip mptcp endpoint show")
}

#[test]
fn a_download_outlives_all_that_happens_to_the_links_and_the_daemon_follows() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    fs::write(hosts.path("jump.c"), JUMP).unwrap();
    let shim = hosts.path("jump.so");
    sh(&format!(
        "cc -shared -fPIC -o {} {} -ldl",
        shim.display(),
        hosts.path("jump.c").display()
    ));
    let jumped = hosts.path("jumped");
    let before = hosts.device("ip mptcp limits");
    hosts.up(
        "interfaces.cell.rule = \"metered\"\n",
        &[("LD_PRELOAD", shim.as_path()), ("JUMPED", jumped.as_path())],
    );
    let _service = hosts.listen(5001, flood);
    let download = hosts.download(5001);
    until("both links have a subflow", || {
        LINKS.iter().all(|l| hosts.interface(l)["subflows"] == 1)
    });

    // Renamed, as udev does it; the rule of the new name holds.
    hosts.device("ip link set lte down; ip link set lte name cell; ip link set cell up");
    hosts.route("cell", 2);
    until("the new name has its rule", || {
        priority(&hosts, "cell") == "backup"
    });
    // Its endpoint was deleted as the link went, and rests before it is added.
    until("so has its endpoint", || {
        endpoints(&hosts).contains("backup dev cell")
    });
    download.goes_on();

    // Another lease.
    hosts.device(
        "ip address del 10.77.1.1/24 dev wifi; ip address add 10.77.1.7/24 dev wifi
         ip route replace default via 10.77.1.2 dev wifi metric 1",
    );
    until("the new address has a subflow", || {
        let wifi = hosts.interface("wifi");
        wifi["addresses"][0] == "10.77.1.7" && wifi["subflows"] == 1
    });
    until("the old one has no endpoint", || {
        !endpoints(&hosts).contains("10.77.1.1 ")
    });
    download.goes_on();

    // Both gone, and back: the connection has had no path at all.
    hosts.device("ip link set wifi down; ip link set cell down");
    until("both are off", || {
        ["wifi", "cell"].map(|l| priority(&hosts, l)) == ["off", "off"]
    });
    hosts.device("ip link set wifi up; ip link set cell up");
    hosts.route("wifi", 1);
    hosts.route("cell", 2);
    download.goes_on();
    until("both are as before", || {
        ["wifi", "cell"].map(|l| priority(&hosts, l)) == ["normal", "backup"]
    });

    // More news than the socket holds, while nobody listens.
    hosts.signal("STOP");
    hosts.device(
        "for i in $(seq 250); do for j in 1 2 3 4; do echo address add 10.80.$i.$j/32 dev cell; done; done > batch
         sed 's/address add/address del/' batch > unbatch; ip -batch batch; ip -batch unbatch",
    );
    hosts.link("usb", 3, "20mbit");
    // Of the kernel's routing sockets, the one of the daemon's that listens.
    let sockets = hosts.device("cat /proc/net/netlink");
    let lost = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields[1] == "0" && fields[3] != "00000000" && fields[8] != "0"
    };
    assert!(sockets.lines().skip(1).any(lost), "{sockets}");
    hosts.signal("CONT");
    until("a change without an event is found", || {
        priority(&hosts, "usb") == "normal"
    });
    until("it has a subflow", || {
        hosts.interface("usb")["subflows"] == 1
    });

    // The clock is set.
    fs::write(&jumped, "").unwrap();
    let year = |preload: &str| {
        let mut date = Command::new("date");
        date.arg("+%Y").env("JUMPED", &jumped);
        let date = date.env("LD_PRELOAD", preload).output().unwrap();
        let text = String::from_utf8(date.stdout).unwrap();
        text.trim().parse::<u32>().unwrap()
    };
    assert!(year(shim.to_str().unwrap()) < year(""), "the shim works");
    hosts.device("ip link set usb down");
    until("it still sees links go", || {
        priority(&hosts, "usb") == "off"
    });
    let uptime = hosts.status()["uptime_s"].as_f64().unwrap();
    assert!((0.0..3600.0).contains(&uptime), "{uptime}");
    download.goes_on();

    // Killed, and taken over again.
    let two = || endpoints(&hosts).matches(" id ").count() == 2;
    until("each link that is left has an endpoint", two);
    hosts.kill();
    assert_eq!(endpoints(&hosts).matches(" id ").count(), 2);
    download.goes_on();
    hosts.up("interfaces.cell.rule = \"metered\"\n", &[]);
    assert_eq!(priority(&hosts, "cell"), "backup");
    download.goes_on();
    download.end();
    until("the connection is gone", || {
        hosts.status()["connections"] == 0
    });
    hosts.down();
    assert_eq!(endpoints(&hosts), "");
    assert_eq!(hosts.device("ip mptcp limits"), before);
}

#[test]
fn a_metered_link_carries_while_nothing_gets_through_the_other() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    hosts.up("interfaces.lte.rule = \"metered\"\n", &[]);
    let _services = [
        hosts.listen(5001, flood),
        hosts.listen(5002, |mut stream| {
            std::thread::spawn(move || std::io::copy(&mut stream, &mut std::io::sink()));
        }),
    ];
    let priorities = |hosts: &Hosts| LINKS.map(|l| priority(hosts, l));
    let dies_and_returns = |hosts: &Hosts, what: &str, goes_on: &dyn Fn(&Hosts)| {
        until("both links have a subflow", || {
            LINKS.iter().all(|l| hosts.interface(l)["subflows"] == 1)
        });
        assert_eq!(priorities(hosts), ["normal", "backup"]);
        goes_on(hosts);
        hosts.lose(1);
        let lost = Instant::now();
        until("the metered link stands in", || {
            priorities(hosts) == ["backup", "normal"]
        });
        assert_eq!(hosts.interface("wifi")["why"], "nothing gets through");
        goes_on(hosts);
        eprintln!("{what}: {:.1} s", lost.elapsed().as_secs_f64());
        hosts.find(1);
        let found = Instant::now();
        until("the link is back, and the metered one rests", || {
            priorities(hosts) == ["normal", "backup"]
        });
        goes_on(hosts);
        eprintln!("{what}, back: {:.1} s", found.elapsed().as_secs_f64());
    };

    let upload = hosts.connect(5002, 1).remove(0);
    let end = upload.try_clone().unwrap();
    flood(upload);
    let sent = |hosts: &Hosts| {
        let all = || -> u64 {
            let of = |l| hosts.interface(l)["sent_bytes"].as_u64().unwrap();
            LINKS.map(of).iter().sum()
        };
        let before = all();
        until("the upload goes on", || all() > before + 500_000);
    };
    dies_and_returns(&hosts, "upload", &sent);
    end.shutdown(Shutdown::Both).unwrap();
    until("the connection is gone", || {
        hosts.status()["connections"] == 0
    });

    let download = hosts.download(5001);
    dies_and_returns(&hosts, "download", &|_| download.goes_on());
    download.end();
    hosts.down();
}

#[test]
fn what_others_set_on_an_untrusted_link_is_taken_away_and_given_back() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let set = "ip mptcp limits set subflow 4
        ip mptcp endpoint add 10.77.1.1 dev wifi id 7 subflow
        ip mptcp endpoint add 10.77.2.1 dev lte id 9 subflow backup fullmesh";
    hosts.device(set);
    let before = endpoints(&hosts);
    let _service = hosts.listen(5001, flood);
    let download = hosts.download(5001);
    let on_lte = |hosts: &Hosts| hosts.interface("lte")["subflows"].as_u64();
    hosts.up("", &[]);
    until("both links have a subflow", || on_lte(&hosts) == Some(1));

    let untrusted = "interfaces.lte.rule = \"untrusted\"\n";
    let reload = |hosts: &Hosts, config: &str| {
        fs::write(hosts.path("daemon.toml"), config).unwrap();
        hosts.signal("HUP");
    };
    reload(&hosts, untrusted);
    until("nothing goes over it", || on_lte(&hosts) == Some(0));
    assert!(!endpoints(&hosts).contains("lte"), "{}", endpoints(&hosts));
    // Others may insist.
    hosts.device("ip mptcp endpoint add 10.77.2.1 dev lte id 9 subflow backup fullmesh");
    until("it is taken away again", || {
        !endpoints(&hosts).contains("lte")
    });
    download.goes_on();

    // The next daemon knows what is to be given back.
    hosts.kill();
    hosts.up(untrusted, &[]);
    reload(&hosts, "");
    until("it is trusted again", || on_lte(&hosts) == Some(1));
    reload(&hosts, untrusted);
    until("and no more", || on_lte(&hosts) == Some(0));
    download.goes_on();
    download.end();
    hosts.down();
    assert_eq!(endpoints(&hosts), before);
}

#[test]
fn it_refuses_to_fight_another_path_manager_and_clears_up_after_the_dead() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let refused = |hosts: &Hosts| {
        let output = hosts.daemon_command("").output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{complaint}");
        complaint
    };
    hosts.device("echo 1 > /proc/sys/net/mptcp/pm_type");
    assert!(refused(&hosts).contains("net.mptcp.pm_type is 1"));
    hosts.device("echo 0 > /proc/sys/net/mptcp/pm_type");

    // By its name, which is all that can be seen of it from outside.
    let program = hosts.path("mptcpd");
    copy("/bin/sleep".as_ref(), &program);
    let mut other = hosts.enter(program.to_str().unwrap());
    let mut other = other.arg("60").stdout(Stdio::null()).spawn().unwrap();
    until("the other one runs", || {
        fs::read_to_string(format!("/proc/{}/comm", other.id())).unwrap_or_default() == "mptcpd\n"
    });
    let complaint = refused(&hosts);
    assert!(
        complaint.contains(&format!("mptcpd (process {})", other.id())),
        "{complaint}"
    );
    other.kill().unwrap();
    other.wait().unwrap();

    // A daemon that was killed, and then its namespace went: the next one anywhere clears up.
    hosts.up("", &[]);
    let of_dead = hosts.notes();
    assert_eq!(of_dead.len(), 2, "{of_dead:?}");
    hosts.kill();
    let live = |name: &String| Path::new("/run/multipilot").join(name).exists();
    hosts.up("", &[]);
    assert!(of_dead.iter().all(live), "its namespace lives");
    hosts.kill();
    hosts.renew("20mbit");
    hosts.up("", &[]);
    assert!(!of_dead.iter().any(live), "{of_dead:?}");
    hosts.down();
}

#[test]
fn ten_thousand_connections_are_watched_within_the_memory_that_the_unit_file_allows() {
    const CONNECTIONS: usize = 10_000;
    let Some(mut hosts) = Hosts::new("1gbit") else {
        return;
    };
    hosts.up("", &[]);
    let _listener = hosts.queue(5001, CONNECTIONS);
    let _connections = hosts.connect(5001, CONNECTIONS);
    until("it has seen them all", || {
        hosts.status()["connections"] == CONNECTIONS
    });
    until("each has a subflow on either link", || {
        LINKS
            .iter()
            .all(|l| hosts.interface(l)["subflows"] == CONNECTIONS)
    });
    fs::write(
        hosts.path("daemon.toml"),
        "interfaces.lte.rule = \"metered\"\n",
    )
    .unwrap();
    hosts.signal("HUP");
    until("all set one link to backup", || {
        let status = hosts.status();
        let of_lte = |s: &&serde_json::Value| s["interface"] == "lte";
        let mut subflows = status["subflows"].as_array().unwrap().iter().filter(of_lte);
        subflows.all(|s| s["backup"] == true)
    });
    let memory = fs::read_to_string(format!("/proc/{}/status", hosts.pid())).unwrap();
    let most = memory.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    let kib: u64 = most
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap();
    assert!(kib < 128 << 10, "{most}");
}
