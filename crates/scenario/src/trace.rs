//! Links that change over time, and the files of such links: Mahimahi's packet-delivery format and CSV steps, either gzipped
//! or not. Units as in [`crate::model`].

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use crate::error::Error;

/// A trace that unpacks to more is refused: it would be some gigabit for hours, or a bomb.
const LIMIT: u64 = 256 << 20;
const MAHIMAHI: &str = "whole milliseconds in ascending order, one a line, the last above 0";
const CSV: &str = "time_s,rate_mbps[,delay_ms[,loss]] with times ascending from 0";

/// A link whose capacity changes over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// As the scenario names it, resolved against the scenario's folder.
    pub file: PathBuf,
    pub kind: TraceKind,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TraceKind {
    /// Mahimahi: each entry is a chance to send 1500 bytes (IP packet) at that time; repeats with the period of its last entry.
    Opportunities {
        times: Vec<Duration>,
        period: Duration,
    },
    /// CSV `time_s,rate_mbps[,delay_ms[,loss]]`: a step function from each time on, holding its last value.
    Steps(Vec<Step>),
    /// A link of [`Scenario::radio`](crate::Scenario::radio); its steps are known once
    /// [`Scenario::tuned`](crate::Scenario::tuned) was called.
    Radio(RadioLink),
}

#[derive(Debug, Clone, PartialEq)]
pub struct RadioLink {
    pub device: usize,
    /// From 0 for each device.
    pub link: usize,
    /// A queue that waits for the mean rate: how many bandwidth-delay products, and the round trip. Its limit in packets is the
    /// least that it may come to.
    pub queue: Option<(f64, Duration)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub at: Duration,
    /// bit/s; 0 is an outage
    pub rate: u64,
    pub delay: Option<Duration>,
    pub loss: Option<f64>,
}

/// Reads a trace; `name` is what errors call it, and its ending tells the format: `.csv` or `.csv.gz`, else Mahimahi.
pub fn parse(name: &str, content: &[u8]) -> Result<TraceKind, Error> {
    let mut text = String::new();
    let read = match content.starts_with(&[0x1f, 0x8b]) {
        true => flate2::read::MultiGzDecoder::new(content)
            .take(LIMIT)
            .read_to_string(&mut text),
        false => content.take(LIMIT).read_to_string(&mut text),
    };
    let length = read.map_err(|e| {
        Error::new(
            name,
            "",
            format!("cannot be read: {e}"),
            "text, or text packed by gzip",
        )
    })?;
    if length as u64 == LIMIT {
        return Err(Error::new(
            name,
            "",
            "is longer than 256 MiB",
            "a shorter trace",
        ));
    }
    let stem = name.strip_suffix(".gz").unwrap_or(name);
    if stem.ends_with(".csv") {
        steps(name, &text)
    } else {
        opportunities(name, &text)
    }
}

/// One timestamp in milliseconds a line, each a chance to send 1500 bytes.
fn opportunities(name: &str, text: &str) -> Result<TraceKind, Error> {
    let mut times = Vec::new();
    for (number, line) in lines(text) {
        let bad = |problem| Error::new(format!("{name}:{number}"), "", problem, MAHIMAHI);
        let millis: u64 = line
            .parse()
            .map_err(|_| bad(format!("\"{}\" is no timestamp", short(line))))?;
        let time = Duration::from_millis(millis);
        if times.last().is_some_and(|last| time < *last) {
            return Err(bad(format!("{millis} runs backwards")));
        }
        times.push(time);
    }
    match times.last() {
        None => Err(Error::new(name, "", "is empty", MAHIMAHI)),
        Some(&Duration::ZERO) => Err(Error::new(name, "", "never leaves time 0", MAHIMAHI)),
        Some(&period) => Ok(TraceKind::Opportunities { times, period }),
    }
}

fn steps(name: &str, text: &str) -> Result<TraceKind, Error> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, line) in lines(text) {
        if steps.is_empty() && line.starts_with("time_s") {
            continue;
        }
        let step = step(line)
            .map_err(|problem| Error::new(format!("{name}:{number}"), "", problem, CSV))?;
        let in_order = steps
            .last()
            .map_or(step.at.is_zero(), |last| step.at > last.at);
        if !in_order {
            let problem = if steps.is_empty() {
                "does not begin at 0"
            } else {
                "does not come after the line before"
            };
            return Err(Error::new(format!("{name}:{number}"), "", problem, CSV));
        }
        steps.push(step);
    }
    match steps.iter().any(|s| s.rate > 0) {
        true => Ok(TraceKind::Steps(steps)),
        false => Err(Error::new(name, "", "has no line with a rate above 0", CSV)),
    }
}

fn step(line: &str) -> Result<Step, String> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if !(2..=4).contains(&cells.len()) {
        return Err(format!("has {} columns", cells.len()));
    }
    let number = |cell: &str, what: &str| match cell.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..1e9).contains(&value) => Ok(value),
        _ => Err(format!("\"{}\" is no {what}", short(cell))),
    };
    let optional = |i: usize, what: &str| {
        cells
            .get(i)
            .filter(|c| !c.is_empty())
            .map(|c| number(c, what))
            .transpose()
    };
    let loss = optional(3, "loss")?;
    if loss.is_some_and(|l| l > 1.0) {
        return Err(format!("\"{}\" is no probability", cells[3]));
    }
    Ok(Step {
        at: Duration::from_secs_f64(number(cells[0], "time")?),
        rate: (number(cells[1], "rate")? * 1e6).round() as u64,
        delay: optional(2, "delay")?.map(|ms| Duration::from_secs_f64(ms / 1e3)),
        loss,
    })
}

fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Mean rate in bit/s (over the steps that a CSV names, by time, its last one left out unless it is alone).
pub(crate) fn mean_rate(kind: &TraceKind) -> f64 {
    match kind {
        TraceKind::Opportunities { times, period } => {
            times.len() as f64 * crate::defaults::PACKET as f64 * 8.0 / period.as_secs_f64()
        }
        TraceKind::Steps(steps) => {
            let span = steps.last().map_or(0.0, |s| s.at.as_secs_f64());
            if span == 0.0 {
                return steps.first().map_or(0.0, |s| s.rate as f64);
            }
            let bits: f64 = steps
                .windows(2)
                .map(|w| w[0].rate as f64 * (w[1].at - w[0].at).as_secs_f64())
                .sum();
            bits / span
        }
        // Not known before the radio was run.
        TraceKind::Radio(_) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn mahimahi_plain_and_packed() {
        let expected = TraceKind::Opportunities {
            times: [0, 0, 3, 10].map(Duration::from_millis).to_vec(),
            period: Duration::from_millis(10),
        };
        assert_eq!(parse("lte.down", b"0\n0\n3\n10\n"), Ok(expected.clone()));
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(b"0\n0\n3\n10\n").unwrap();
        assert_eq!(
            parse("lte.down.gz", &gz.finish().unwrap()),
            Ok(expected.clone())
        );
        assert_eq!(mean_rate(&expected), 4.0 * 12_000.0 / 0.010);
    }

    #[test]
    fn csv_with_and_without_header() {
        let step = |s, mbit: u64, delay: Option<u64>, loss| Step {
            at: Duration::from_secs(s),
            rate: mbit * 1_000_000,
            delay: delay.map(Duration::from_millis),
            loss,
        };
        let kind = parse(
            "x.csv",
            b"time_s,rate_mbps,delay_ms,loss\n0,10,5,0.1\n2,0,,\n4,20\n",
        )
        .unwrap();
        let expected = vec![
            step(0, 10, Some(5), Some(0.1)),
            step(2, 0, None, None),
            step(4, 20, None, None),
        ];
        assert_eq!(kind, TraceKind::Steps(expected));
        assert_eq!(mean_rate(&kind), 5e6);
    }

    #[test]
    fn says_what_is_wrong_and_where() {
        let message = |name, content: &[u8]| parse(name, content).unwrap_err().to_string();
        assert_eq!(
            message("a", b"1\n0\n"),
            "a:2: 0 runs backwards; expected whole milliseconds in ascending order, one a line, the last above 0"
        );
        assert!(message("a", b"1\nx\n").starts_with("a:2: \"x\" is no timestamp"));
        assert!(message("a", b"").starts_with("a: is empty"));
        assert!(message("a", b"0\n0\n").starts_with("a: never leaves time 0"));
        assert!(message("a", b"\xff\xfe").starts_with("a: cannot be read"));
        assert!(message("a.gz", b"\x1f\x8bjunk").starts_with("a.gz: cannot be read"));
        assert!(message("a.csv", b"0,1\n0,2\n")
            .starts_with("a.csv:2: does not come after the line before"));
        assert!(message("a.csv", b"1,1\n").starts_with("a.csv:1: does not begin at 0"));
        assert!(message("a.csv", b"0,1,2,1.5\n").starts_with("a.csv:1: \"1.5\" is no probability"));
        assert!(message("a.csv", b"0,0\n").starts_with("a.csv: has no line with a rate above 0"));
        assert!(message("a.csv", b"0\n").starts_with("a.csv:1: has 1 columns"));
        assert!(message("a.csv", b"0,nan\n").starts_with("a.csv:1: \"nan\" is no rate"));
    }
}
