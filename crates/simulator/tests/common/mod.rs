//! Scenarios for the tests, built without a file.
#![allow(dead_code)]

use std::time::Duration;

use mp_record::Run;
use mp_scenario::*;

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn mbit(n: u64) -> u64 {
    n * 1_000_000
}

/// One way of a path: bit/s, delay, queue in packets.
pub fn direction(rate: u64, delay: Duration, queue: u64) -> Direction {
    Direction {
        rate: if rate == 0 {
            Rate::Unlimited
        } else {
            Rate::Constant(rate)
        },
        delay,
        jitter: None,
        reorder: false,
        loss: Loss::None,
        policer: None,
        queue: Queue {
            limit: QueueLimit::Packets(queue),
            discipline: Discipline::DropTail,
            ecn: false,
        },
    }
}

/// Symmetric, loss in the data direction of a download.
pub fn path(rate: u64, delay: Duration, queue: u64, loss: f64) -> Path {
    let mut path = Path {
        link: None,
        rule: Rule::None,
        down: direction(rate, delay, queue),
        up: direction(rate, delay, queue),
    };
    if loss > 0.0 {
        path.down.loss = Loss::Bernoulli(loss);
    }
    path
}

pub fn connection(paths: &[&str]) -> Connection {
    Connection {
        name: "main".into(),
        protocol: Protocol::Mptcp,
        paths: paths.iter().map(|p| p.to_string()).collect(),
        client: "client".into(),
        count: 1,
        direction: TransferDirection::Download,
        bytes: None,
        start: Duration::ZERO,
        lasting: None,
        arrivals: None,
        controller: None,
        path_manager: None,
        initial_path: None,
        scheduler: None,
        command: None,
    }
}

/// Paths are named a, b, c, …; one endless MPTCP download over all of them.
pub fn scenario(paths: Vec<Path>, duration: Duration) -> Scenario {
    let names: Vec<String> = (b'a'..)
        .take(paths.len())
        .map(|c| (c as char).to_string())
        .collect();
    let refs: Vec<&str> = names.iter().map(String::as_str).collect();
    Scenario {
        name: "test".into(),
        title: String::new(),
        description: String::new(),
        duration,
        seed: 1,
        sample_interval: ms(1000),
        segment_train: 1,
        mss: 1420,
        buffers: Buffers {
            send: 64 << 20,
            receive: 64 << 20,
            autotune: true,
        },
        links: Default::default(),
        connections: vec![connection(&refs)],
        paths: names.iter().cloned().zip(paths).collect(),
        events: Vec::new(),
        variants: vec![variant("reno")],
        radio: None,
    }
}

/// Two subflows and one TCP (Reno) meet at a bottleneck, Mbit/s, behind two paths without limits of their own; 200 s.
pub fn bottleneck(rate: u64, delay: Duration, queue: u64, access: Duration) -> Scenario {
    let way = || path(0, access, 0, 0.0);
    let mut s = scenario(vec![way(), way()], ms(200_000));
    s.links
        .insert("core".into(), path(mbit(rate), delay, queue, 0.0));
    for p in s.paths.values_mut() {
        p.link = Some("core".into());
    }
    let mut tcp = connection(&["a"]);
    tcp.protocol = Protocol::Tcp;
    tcp.controller = Some("reno".into());
    s.connections.push(tcp);
    s
}

pub fn variant(controller: &str) -> Variant {
    Variant {
        name: controller.into(),
        controller: controller.into(),
        parameters: Default::default(),
        path_manager: "fullmesh".into(),
        path_manager_parameters: Default::default(),
        initial_path: "first".into(),
        scheduler: "default".into(),
        carrier: "tcp".into(),
        agent: true,
    }
}

pub fn simulate(scenario: &Scenario, variant: &Variant, seed: u64) -> Run {
    mp_simulator::simulate(scenario, variant, seed).unwrap()
}

/// Payload Mbit/s of all transfers over the whole run.
pub fn goodput(run: &Run) -> f64 {
    run.transfers
        .iter()
        .map(|t| t.bytes as f64 * 8e-6)
        .sum::<f64>()
        / run.elapsed_s
}
