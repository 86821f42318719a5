//! `path-manager = "userspace"`: each connection by itself.

use std::collections::{BTreeSet, VecDeque};

use serde_json::Value;

use crate::hosts::{until, Hosts, LINKS};
use crate::transfers::flood;

/// Of the connection to this port, on this link.
fn subflows(hosts: &Hosts, port: u16, link: &str) -> Vec<Value> {
    let status = hosts.status();
    let to = format!(":{port}");
    let all = status["subflows"].as_array().unwrap().iter();
    all.filter(|s| s["interface"] == link && s["remote"].as_str().unwrap().ends_with(&to))
        .cloned()
        .collect()
}

fn backup(hosts: &Hosts, port: u16, link: &str) -> Option<bool> {
    subflows(hosts, port, link).first()?["backup"].as_bool()
}

#[test]
fn a_connection_sets_a_path_that_is_dead_for_it_alone_to_backup() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    let _services = [5001, 5002, 5003].map(|port| hosts.listen(port, flood));
    let kind = |hosts: &Hosts| hosts.device("cat /proc/sys/net/mptcp/pm_type");
    // It is the kernel's, and stays so: from its endpoints it gets its second subflow.
    let old = hosts.download(5003);
    let config = "path-manager = \"userspace\"\n";
    hosts.up(config, &[]);
    assert_eq!(kind(&hosts).trim(), "1");
    let (first, second) = (hosts.download(5001), hosts.download(5002));
    let all_there = |hosts: &Hosts, ports: &[u16]| {
        let both = |port: &u16| LINKS.iter().all(|l| subflows(hosts, *port, l).len() == 1);
        ports.iter().all(both)
    };
    until("each connection is on both links", || {
        all_there(&hosts, &[5001, 5002, 5003])
    });

    // A path on which nothing has come yet cannot fall silent.
    let carries = |link: &&str| subflows(&hosts, 5002, link)[0]["rate_mbps"].as_f64() > Some(1.0);
    until("it receives on both", || LINKS.iter().all(&carries));
    hosts.server("ip rule add to 10.77.2.1 ipproto tcp sport 5002 blackhole");
    // By the log: two seconds later the subflow is closed.
    let token = subflows(&hosts, 5002, "wifi")[0]["token"].as_u64().unwrap();
    let said = format!("set to backup connection={token:x} ");
    until("one connection has the link in backup", || {
        hosts.read("log").contains(&said)
    });
    for port in [5001, 5003] {
        until("the others use it", || {
            backup(&hosts, port, "lte") == Some(false)
        });
    }
    first.goes_on();
    second.goes_on();
    // Handshakes go unanswered too, and their subflows are nowhere to be seen. In the end all of them come.
    let asks = "ss -Htn state syn-sent dport = 5002";
    let mut tried = BTreeSet::new();
    until("it has tried twice", || {
        second.goes_on();
        let asked = hosts.device(asks);
        let local = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
        tried.extend(asked.lines().filter_map(local));
        let status = hosts.status();
        eprintln!(
            "polls {} of {} ms: {tried:?}",
            status["polls"], status["poll_ms"]
        );
        tried.len() >= 2
    });
    hosts.server("ip rule del to 10.77.2.1 ipproto tcp sport 5002 blackhole");
    until("it is back", || {
        backup(&hosts, 5002, "lte") == Some(false) && hosts.device(asks).is_empty()
    });

    // The next daemon takes them over, and opens what is missing.
    hosts.kill();
    assert_eq!(kind(&hosts).trim(), "1");
    second.goes_on();
    hosts.up(config, &[]);
    hosts.device("ip link set wifi down");
    until("the link's subflows have gone", || {
        [5001, 5002]
            .iter()
            .all(|p| subflows(&hosts, *p, "wifi").is_empty())
    });
    first.goes_on();
    second.goes_on();
    hosts.device("ip link set wifi up");
    hosts.route("wifi", 1);
    until("all of them are on both links again", || {
        all_there(&hosts, &[5001, 5002])
    });

    for download in [old, first, second] {
        download.goes_on();
        download.end();
    }
    hosts.signal("TERM");
    until("new connections are the kernel's again", || {
        kind(&hosts).trim() == "0"
    });
}

/// A single packet tells it, and that one is lost.
#[test]
fn a_peer_that_does_not_know_that_a_link_is_in_backup_is_told_again() {
    let Some(mut hosts) = Hosts::new("10mbit") else {
        return;
    };
    let _service = hosts.listen(5001, flood);
    let config = "path-manager = \"userspace\"\n";
    hosts.up(config, &[]);
    let download = hosts.download(5001);
    let rate = |hosts: &Hosts, link: &str| {
        let there = subflows(hosts, 5001, link);
        there
            .first()
            .map_or(0.0, |s| s["rate_mbps"].as_f64().unwrap())
    };
    until("it receives on both", || {
        LINKS.iter().all(|link| rate(&hosts, link) > 1.0)
    });
    hosts.lose(2);
    let metered = format!("{config}interfaces.lte.rule = \"metered\"\n");
    std::fs::write(hosts.path("daemon.toml"), metered).unwrap();
    hosts.signal("HUP");
    until("the link is in backup here", || {
        backup(&hosts, 5001, "lte") == Some(true)
    });
    hosts.find(2);
    until("the peer is told again", || {
        hosts.read("log").contains("told again")
    });
    until("it has heard", || rate(&hosts, "lte") < 0.1);
    download.goes_on();
    download.end();
    hosts.down();
}

/// Three links of which one is slow: two at a time carry data.
#[test]
fn ms_ucb_comes_to_the_links_that_are_worth_it_and_tells_what_it_saw() {
    const ALL: [&str; 3] = ["wifi", "lte", "usb"];
    let Some(mut hosts) = Hosts::new("10mbit") else {
        return;
    };
    hosts.link("usb", 3, "2mbit");
    // Queues would make the fast ones slow, too.
    hosts.server(
        "for link in wifi lte; do
            tc qdisc replace dev $link root tbf rate 10mbit burst 8kb latency 20ms
         done",
    );
    let _service = hosts.listen(5001, flood);
    let folder = hosts.path("links");
    let config = format!(
        "path-manager = \"userspace\"\nawareness.policy = \"ms-ucb-federated\"\n\
         [federation]\nfolder = \"{}\"\nlinks = {{ usb = \"far\" }}\n",
        folder.display()
    );
    hosts.up(&config, &[]);
    assert_eq!(hosts.read("links/own.json"), "{}");
    let download = hosts.download(5001);
    until("every link was tried", || {
        ALL.iter().all(|l| subflows(&hosts, 5001, l).len() == 1)
    });
    let told =
        |hosts: &Hosts| -> Value { serde_json::from_str(&hosts.read("links/own.json")).unwrap() };
    let of = |told: &Value, link: &str| [0, 1].map(|i| told[link][i].as_f64().unwrap_or(0.0));
    let mut seen = told(&hosts);
    // While the slow one holds up the stream, the others carry nothing either: that takes some rounds to wear off.
    until(
        "the fast links are known to be worth more, and used more",
        || {
            seen = told(&hosts);
            let [far, worth] = of(&seen, "far");
            let better = |[count, mean]: [f64; 2]| mean > worth + 0.1 && count > 1.5 * far;
            far >= 2.0
                && ["wifi", "lte"]
                    .map(|l| of(&seen, l))
                    .into_iter()
                    .all(better)
        },
    );
    let mut polls = VecDeque::new();
    until("it is the slow one that is in backup", || {
        let in_backup = |link: &&str| backup(&hosts, 5001, link) == Some(true);
        let in_backup: Vec<&str> = ALL.into_iter().filter(|l| in_backup(l)).collect();
        polls.push_back(in_backup == ["usb"]);
        let often = polls.iter().filter(|slow| **slow).count() >= 40;
        polls.len() > 60 && polls.pop_front().is_some() && often
    });
    download.goes_on();
    download.end();

    // The next daemon goes on from there: its first connection does not try the slow link at all.
    hosts.kill();
    let scale = |link: &str, of: &Value| format!("\"{link}\":[1000,{}]", of[link][1]);
    let known = ["wifi", "lte", "far"].map(|l| scale(l, &seen)).join(",");
    std::fs::write(folder.join("known.json"), format!("{{{known}}}")).unwrap();
    hosts.up(&config, &[]);
    let again = hosts.download(5001);
    until("two links carry", || {
        LINKS.iter().all(|l| backup(&hosts, 5001, l) == Some(false))
    });
    for _ in 0..20 {
        let slow = subflows(&hosts, 5001, "usb");
        assert!(slow.iter().all(|s| s["backup"] == true), "{slow:?}");
        again.goes_on();
    }
    until("it tells what it has seen since", || {
        of(&told(&hosts), "wifi")[0] > of(&seen, "wifi")[0]
    });
    again.end();
    hosts.down();
}
