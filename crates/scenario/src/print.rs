//! A scenario as TOML with every default spelled out, which parses back to the same scenario. The keys are the fields of
//! [`crate::model`]; here is how their values are written.

use std::time::Duration;

use serde::{Serialize, Serializer};
use toml::{Table, Value};

use crate::defaults;
use crate::model::*;
use crate::radio;
use crate::units::{show_duration, show_rate, show_size};

/// The expanded scenario. Trace files are named as they were found.
pub fn print(scenario: &Scenario) -> String {
    show(scenario)
}

pub(crate) fn show(document: &impl Serialize) -> String {
    toml::to_string(document).expect("keys are strings, values TOML's own")
}

type Written<S> = Result<<S as Serializer>::Ok, <S as Serializer>::Error>;

pub(crate) fn duration<S: Serializer>(value: &Duration, to: S) -> Written<S> {
    show_duration(*value).serialize(to)
}

pub(crate) fn size<S: Serializer>(value: &u64, to: S) -> Written<S> {
    show_size(*value).serialize(to)
}

pub(crate) fn maybe_size<S: Serializer>(value: &Option<u64>, to: S) -> Written<S> {
    value.map(show_size).serialize(to)
}

pub(crate) fn per_second<S: Serializer>(value: &Option<f64>, to: S) -> Written<S> {
    value.map(|rate| format!("{rate}/s")).serialize(to)
}

pub(crate) fn maybe_range<S: Serializer>(
    value: &Option<(Duration, Duration)>,
    to: S,
) -> Written<S> {
    value.map(range).serialize(to)
}

/// Links have none.
pub(crate) fn rule<S: Serializer>(value: &Rule, to: S) -> Written<S> {
    let named = RULES.iter().find(|(_, rule)| rule == value);
    let named = named.filter(|(_, rule)| *rule != Rule::None);
    named.map(|(name, _)| name).serialize(to)
}

impl Serialize for Direction {
    fn serialize<S: Serializer>(&self, to: S) -> Written<S> {
        let rate = match &self.rate {
            Rate::Unlimited => ("rate", text("unlimited")),
            Rate::Constant(bits) => ("rate", text(show_rate(*bits))),
            Rate::Trace(trace) => {
                let file = trace.file.to_string_lossy();
                radio::show(&file).map_or(("trace", text(file)), |link| ("radio", Some(link)))
            }
        };
        let policer = self.policer.map(|p| {
            let (rate, burst) = (text(show_rate(p.rate)), text(show_size(p.burst)));
            table([("rate", rate), ("burst", burst)]).into()
        });
        table([
            rate,
            ("delay", text(show_duration(self.delay))),
            ("jitter", self.jitter.map(range).map(Value::from)),
            ("reorder", Some(self.reorder.into())),
            ("loss", Some(loss(&self.loss))),
            ("policer", policer),
            ("queue", queue(self)),
        ])
        .serialize(to)
    }
}

/// Of an event: one key.
impl Serialize for Change {
    fn serialize<S: Serializer>(&self, to: S) -> Written<S> {
        let (key, value) = match self {
            Change::Down => ("down", true.into()),
            Change::Up => ("down", false.into()),
            Change::Rate(rate) => ("rate", show_rate(*rate).into()),
            Change::Delay(delay) => ("delay", show_duration(*delay).into()),
            Change::Loss(how) => ("loss", loss(how)),
            Change::Backup(on) => ("backup", (*on).into()),
            Change::Signal(dbm) => ("signal", format!("{dbm}dBm").into()),
            Change::Readings(all) => {
                let values: Table = all.iter().map(|(k, v)| (k.clone(), (*v).into())).collect();
                ("readings", values.into())
            }
        };
        table([(key, Some(value))]).serialize(to)
    }
}

/// Of the entries that have a value.
fn table<const N: usize>(entries: [(&str, Option<Value>); N]) -> Table {
    let given = entries
        .into_iter()
        .filter_map(|(k, v)| Some((k.to_owned(), v?)));
    given.collect()
}

fn text(value: impl Into<String>) -> Option<Value> {
    Some(Value::String(value.into()))
}

fn range((low, high): (Duration, Duration)) -> String {
    format!("{}..{}", show_duration(low), show_duration(high))
}

fn loss(loss: &Loss) -> Value {
    match *loss {
        Loss::None => 0.0.into(),
        Loss::Bernoulli(p) => p.into(),
        Loss::GilbertElliott { p, r, good, bad } => {
            let chain = [("p", p), ("r", r), ("good", good), ("bad", bad)];
            let chain = table(chain.map(|(key, value)| (key, Some(value.into()))));
            table([("gilbert-elliott", Some(chain.into()))]).into()
        }
    }
}

/// The queue, but one that is the default and waits for a radio.
fn queue(d: &Direction) -> Option<Value> {
    let (limit, ecn) = (limit(d), Some(d.queue.ecn.into()));
    let queue = match d.queue.discipline {
        Discipline::DropTail => return limit,
        Discipline::CoDel { target, interval } => table([
            ("limit", limit),
            ("discipline", text("codel")),
            ("target", text(show_duration(target))),
            ("interval", text(show_duration(interval))),
            ("ecn", ecn),
        ]),
        Discipline::Red {
            min,
            max,
            probability,
        } => table([
            ("limit", limit),
            ("discipline", text("red")),
            ("min", Some(min.into())),
            ("max", Some(max.into())),
            ("probability", Some(probability.into())),
            ("ecn", ecn),
        ]),
    };
    Some(queue.into())
}

/// How much a queue holds; nothing where that is the default of a rate that is not known yet.
fn limit(d: &Direction) -> Option<Value> {
    let waits = match &d.rate {
        Rate::Trace(trace) => match &trace.kind {
            TraceKind::Radio(link) => link.queue,
            _ => None,
        },
        _ => None,
    };
    match (waits, d.queue.limit) {
        (Some(_), QueueLimit::Packets(defaults::QUEUE_FLOOR)) => None,
        (Some((multiple, _)), _) => text(format!("{multiple}bdp")),
        (None, QueueLimit::Packets(packets)) => text(format!("{packets}p")),
        (None, QueueLimit::Bytes(bytes)) => text(show_size(bytes)),
    }
}
