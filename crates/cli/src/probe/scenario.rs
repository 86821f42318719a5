//! Measurements as a scenario file, and as traces that it can name.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use mp_relay::probe::{Direction, Link};

use super::{loaded_ms, place, Figures};
use crate::outcome::{Failure, Outcome};

/// Bytes of an IP packet for each byte of the stream: headers of IP, TCP, TLS and frames.
const OVERHEAD: f64 = 1500.0 / 1448.0 * 1.003;
/// Of one delivery opportunity in Mahimahi's format.
const PACKET: u64 = 1500;
/// Less than this of jitter is the hosts' own, ms.
const NOTICEABLE_MS: f64 = 0.5;
const LEAST_QUEUE: f64 = 10.0;

/// All files that will be written.
pub fn files(out: &Path, links: &[String], trace: bool) -> Vec<PathBuf> {
    let traces = links.iter().filter(|_| trace);
    let traces = traces.map(|link| place(out, &trace_name(link)));
    std::iter::once(out.to_owned()).chain(traces).collect()
}

pub fn write(out: &Path, measured: &[Link], trace: bool) -> Outcome {
    if trace {
        for link in measured {
            put(
                &place(out, &trace_name(&link.link)),
                &mahimahi(&link.down.course),
            )?;
        }
    }
    put(out, &text(measured, trace))
}

fn put(file: &Path, text: &str) -> Outcome {
    mp_files::replace(file, text.as_bytes())
        .map_err(|e| Failure::Run(format!("{}: {e}", file.display())))
}

fn trace_name(link: &str) -> String {
    format!("{}.down.mahi", name(link))
}

/// What a scenario takes as the name of a path.
fn name(link: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    link.chars().map(plain).take(32).collect()
}

fn text(measured: &[Link], trace: bool) -> String {
    let mut out = String::from(
        "# Measured by multipilot probe. Queues are as deep as one stream filled them; they may hold more.\n\n\
         title = \"This host's links\"\nduration = \"30s\"\n",
    );
    for link in measured {
        let figures = Figures::of(link);
        let name = name(&link.link);
        let _ = write!(
            out,
            "\n[paths.{name}]\ndelay = \"{:.2}ms\"\n",
            figures.rtt_ms / 2.0
        );
        let jitter = (figures.p95_ms - figures.rtt_ms) / 2.0;
        if jitter >= NOTICEABLE_MS {
            let _ = writeln!(out, "jitter = \"0..{jitter:.1}ms\"");
        }
        let capacity = match trace {
            true => format!("trace = \"{}\"", trace_name(&link.link)),
            false => rate(&link.down),
        };
        let _ = writeln!(
            out,
            "downlink = {{ {capacity}, {} }}",
            rest(&link.down, &figures)
        );
        let _ = writeln!(
            out,
            "uplink = {{ {}, {} }}",
            rate(&link.up),
            rest(&link.up, &figures)
        );
    }
    let names: Vec<String> = measured
        .iter()
        .map(|l| format!("\"{}\"", name(&l.link)))
        .collect();
    let _ = write!(
        out,
        "\n[[connections]]\npaths = [{}]\n\n[[variants]]\ncontroller = [\"pilot\", \"cubic\", \"bbr\", \"linux-reno\"]\n",
        names.join(", ")
    );
    out
}

fn rate(direction: &Direction) -> String {
    let mbps = (direction.goodput_mbps * OVERHEAD).max(0.01);
    format!("rate = \"{mbps:.2}Mbit\"")
}

fn rest(direction: &Direction, figures: &Figures) -> String {
    let waits_ms = (loaded_ms(direction).unwrap_or(0.0) - figures.rtt_ms).max(0.0);
    let packets = direction.goodput_mbps * waits_ms * 1e3 / 8.0 / PACKET as f64;
    format!(
        "loss = {:.4}, queue = \"{:.0}p\"",
        direction.loss,
        packets.max(LEAST_QUEUE)
    )
}

/// One line a packet: the millisecond in which the link delivered it.
fn mahimahi(course: &[(f64, u64)]) -> String {
    let Some((begin, before)) = course.first() else {
        return String::new();
    };
    let mut out = String::new();
    let mut packets = 0;
    for (at, bytes) in course {
        let delivered = ((bytes - before) as f64 * OVERHEAD) as u64 / PACKET;
        let ms = ((at - begin) * 1e3).round() as u64;
        for _ in packets..delivered {
            let _ = writeln!(out, "{ms}");
        }
        packets = delivered;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> Link {
        let direction = |goodput_mbps, loss| Direction {
            loss,
            goodput_mbps,
            loaded_ms: vec![40.0; 9],
            course: vec![(0.5, 1_448), (1.0, 1_448), (1.5, 14_480)],
        };
        Link {
            link: "wlan0.7".into(),
            idle_ms: vec![10.0, 12.0, 12.0],
            packets: 1000,
            down: direction(40.0, 0.01),
            up: direction(8.0, 0.0),
        }
    }

    #[test]
    fn a_scenario_of_measurements_is_a_scenario() {
        for trace in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("network.toml");
            write(&out, &[link()], trace).unwrap();
            let read = mp_scenario::load(&out, &Default::default());
            let experiment = read.unwrap_or_else(|e| panic!("{e}"));
            let scenario = &experiment.cells[0].scenario;
            let path = &scenario.paths["wlan0-7"];
            assert_eq!(path.down.delay.as_micros(), 5000);
            assert_eq!(path.down.loss, mp_scenario::Loss::Bernoulli(0.01));
            // 8 Mbit/s of stream, and its headers.
            assert!(matches!(
                path.up.rate,
                mp_scenario::Rate::Constant(8_310_000)
            ));
            assert_eq!(trace, matches!(path.down.rate, mp_scenario::Rate::Trace(_)));
        }
    }

    #[test]
    fn a_trace_has_a_line_a_packet_at_its_time() {
        assert_eq!(mahimahi(&link().down.course), "1000\n".repeat(9));
        assert_eq!(mahimahi(&[]), "");
    }
}
