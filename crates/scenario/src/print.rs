//! A scenario as TOML with every default spelled out, which parses back to the same scenario.

use std::fmt::{Display, Write};

use crate::defaults;
use crate::model::*;
use crate::radio;
use crate::trace::TraceKind;
use crate::tree::{quote, show_float, show_key};
use crate::units::{show_duration, show_rate, show_size};

/// The expanded scenario. Trace files are named as they were found.
pub fn print(s: &Scenario) -> String {
    let mut out = Lines(String::new());
    out.text("name", &s.name);
    out.text("title", &s.title);
    out.text("description", &s.description);
    out.text("duration", &show_duration(s.duration));
    out.raw("seed", s.seed);
    out.text("sample_interval", &show_duration(s.sample_interval));
    out.raw("segment_train", s.segment_train);
    out.raw("mss", s.mss);
    let Buffers {
        send,
        receive,
        autotune,
    } = &s.buffers;
    out.section("[buffers]");
    out.text("send", &show_size(*send));
    out.text("receive", &show_size(*receive));
    out.raw("autotune", autotune);
    for (kind, paths) in [("links", &s.links), ("paths", &s.paths)] {
        for (name, path) in paths {
            out.section(&format!("[{kind}.{}]", show_key(name)));
            out.path(path);
        }
    }
    s.connections.iter().for_each(|c| out.connection(c));
    s.events.iter().for_each(|e| out.event(e));
    s.variants.iter().for_each(|v| out.variant(v));
    out.0
}

struct Lines(String);

impl Lines {
    fn section(&mut self, header: &str) {
        let _ = writeln!(self.0, "\n{header}");
    }

    fn raw(&mut self, key: &str, value: impl Display) {
        let _ = writeln!(self.0, "{key} = {value}");
    }

    fn text(&mut self, key: &str, value: &str) {
        self.raw(key, quote(value));
    }

    fn list(&mut self, key: &str, values: &[String]) {
        self.raw(
            key,
            format!(
                "[{}]",
                values
                    .iter()
                    .map(|v| quote(v))
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        );
    }

    /// Loss always by direction: which one a common value counts in depends on the connections.
    fn path(&mut self, path: &Path) {
        if let Some(link) = &path.link {
            self.text("link", link);
        }
        if path.rule != Rule::None {
            let named = RULES.iter().find(|(_, rule)| *rule == path.rule);
            named.iter().for_each(|(name, _)| self.text("rule", name));
        }
        let (down, up) = (direction(&path.down), direction(&path.up));
        for (key, value) in down
            .iter()
            .filter(|entry| entry.0 != "loss" && up.contains(entry))
        {
            self.raw(key, value);
        }
        for (side, own, other) in [("downlink", &down, &up), ("uplink", &up, &down)] {
            for (key, value) in own
                .iter()
                .filter(|entry| entry.0 == "loss" || !other.contains(entry))
            {
                self.raw(&format!("{side}.{key}"), value);
            }
        }
    }

    fn connection(&mut self, c: &Connection) {
        self.section("[[connections]]");
        self.text("name", &c.name);
        self.text(
            "protocol",
            if c.protocol == Protocol::Tcp {
                "tcp"
            } else {
                "mptcp"
            },
        );
        self.list("paths", &c.paths);
        self.text("client", &c.client);
        self.raw("count", c.count);
        self.text(
            "direction",
            if c.direction == TransferDirection::Upload {
                "upload"
            } else {
                "download"
            },
        );
        self.text("start", &show_duration(c.start));
        if let Some(bytes) = c.bytes {
            self.text("bytes", &show_size(bytes));
        }
        if let Some((low, high)) = c.lasting {
            self.text(
                "lasting",
                &format!("{}..{}", show_duration(low), show_duration(high)),
            );
        }
        if let Some(rate) = c.arrivals {
            self.text("arrivals", &format!("{rate}/s"));
        }
        let own = [
            ("command", &c.command),
            ("controller", &c.controller),
            ("path_manager", &c.path_manager),
            ("initial_path", &c.initial_path),
            ("scheduler", &c.scheduler),
        ];
        for (key, value) in own {
            if let Some(value) = value {
                self.text(key, value);
            }
        }
    }

    fn event(&mut self, e: &Event) {
        self.section("[[events]]");
        self.text("at", &show_duration(e.at));
        self.text("path", &e.path);
        match &e.change {
            Change::Down => self.raw("outage", true),
            Change::Up => self.raw("outage", false),
            Change::Rate(rate) => self.text("rate", &show_rate(*rate)),
            Change::Delay(delay) => self.text("delay", &show_duration(*delay)),
            Change::Loss(loss) => self.raw("loss", show_loss(loss)),
            Change::Backup(on) => self.raw("backup", on),
            Change::Signal(dbm) => self.text("signal", &format!("{dbm}dBm")),
            Change::Readings(all) => {
                let pairs: Vec<String> = all
                    .iter()
                    .map(|(name, value)| format!("{name} = {}", show_float(*value)))
                    .collect();
                self.raw("readings", format!("{{ {} }}", pairs.join(", ")));
            }
        }
    }

    fn variant(&mut self, v: &Variant) {
        self.section("[[variants]]");
        self.text("name", &v.name);
        self.text("controller", &v.controller);
        self.text("path_manager", &v.path_manager);
        self.text("initial_path", &v.initial_path);
        self.text("scheduler", &v.scheduler);
        // Of one world alone.
        if v.carrier != defaults::CARRIER {
            self.text("carrier", &v.carrier);
        }
        for (key, value) in &v.parameters {
            self.raw(&format!("parameters.{}", show_key(key)), value);
        }
        for (key, value) in &v.path_manager_parameters {
            let key = format!("path_manager_parameters.{}", show_key(key));
            self.raw(&key, value);
        }
        if !v.agent {
            self.raw("agent", false);
        }
    }
}

fn direction(d: &Direction) -> Vec<(&'static str, String)> {
    let mut out = vec![match &d.rate {
        Rate::Unlimited => ("rate", quote("unlimited")),
        Rate::Constant(rate) => ("rate", quote(&show_rate(*rate))),
        Rate::Trace(trace) => {
            let file = trace.file.to_string_lossy();
            radio::show(&file).unwrap_or_else(|| ("trace", quote(&file)))
        }
    }];
    out.push(("delay", quote(&show_duration(d.delay))));
    if let Some((low, high)) = d.jitter {
        out.push((
            "jitter",
            quote(&format!("{}..{}", show_duration(low), show_duration(high))),
        ));
    }
    out.push(("reorder", d.reorder.to_string()));
    out.push(("loss", show_loss(&d.loss)));
    if let Some(policer) = d.policer {
        let (rate, burst) = (show_rate(policer.rate), show_size(policer.burst));
        let (rate, burst) = (quote(&rate), quote(&burst));
        out.push(("policer", format!("{{ rate = {rate}, burst = {burst} }}")));
    }
    out.extend(show_queue(d).map(|queue| ("queue", queue)));
    out
}

fn show_loss(loss: &Loss) -> String {
    let f = |value: &f64| show_float(*value);
    match loss {
        Loss::None => "0.0".into(),
        Loss::Bernoulli(p) => f(p),
        Loss::GilbertElliott { p, r, good, bad } => {
            format!(
                "{{ gilbert-elliott = {{ p = {}, r = {}, good = {}, bad = {} }} }}",
                f(p),
                f(r),
                f(good),
                f(bad)
            )
        }
    }
}

/// The queue, but one that is the default and waits for a radio.
fn show_queue(d: &Direction) -> Option<String> {
    let limit = show_limit(d);
    let first = limit
        .as_ref()
        .map_or(String::new(), |limit| format!("limit = {limit}, "));
    let ecn = d.queue.ecn;
    Some(match d.queue.discipline {
        Discipline::DropTail => limit?,
        Discipline::CoDel { target, interval } => {
            let (target, interval) = (
                quote(&show_duration(target)),
                quote(&show_duration(interval)),
            );
            format!("{{ {first}discipline = \"codel\", target = {target}, interval = {interval}, ecn = {ecn} }}")
        }
        Discipline::Red {
            min,
            max,
            probability,
        } => {
            let [min, max, probability] = [min, max, probability].map(show_float);
            format!("{{ {first}discipline = \"red\", min = {min}, max = {max}, probability = {probability}, ecn = {ecn} }}")
        }
    })
}

/// How much a queue holds; nothing where that is the default of a rate that is not known yet.
fn show_limit(d: &Direction) -> Option<String> {
    let waits = match &d.rate {
        Rate::Trace(trace) => match &trace.kind {
            TraceKind::Radio(link) => link.queue,
            _ => None,
        },
        _ => None,
    };
    match (waits, d.queue.limit) {
        (Some(_), QueueLimit::Packets(defaults::QUEUE_FLOOR)) => None,
        (Some((multiple, _)), _) => Some(quote(&format!("{multiple}bdp"))),
        (None, QueueLimit::Packets(packets)) => Some(quote(&format!("{packets}p"))),
        (None, QueueLimit::Bytes(bytes)) => Some(quote(&show_size(bytes))),
    }
}
