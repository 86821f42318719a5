//! Quantities with units, read exactly (no floats on the way) and printed so that they read back to the same value.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::model::QueueLimit;

/// What is wrong, and what was expected.
pub(crate) type Problem = (String, &'static str);

pub(crate) const DURATION: &str = "a duration such as \"250us\", \"5ms\" or \"1.5s\"";
pub(crate) const RATE: &str = "a rate such as \"300kbit\", \"50Mbit\" or \"1Gbit\" (per second)";
pub(crate) const SIZE: &str = "a size such as \"64kB\", \"4MB\" or \"1GiB\"";
pub(crate) const QUEUE: &str =
    "a queue such as \"100p\" (packets), \"150kB\" or \"1bdp\" (one bandwidth-delay product)";
pub(crate) const FREQUENCY: &str = "arrivals such as \"8/s\" or \"30/min\"";

const DURATIONS: [(&str, u128); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
];
const RATES: [(&str, u128); 4] = [
    ("bit", 1),
    ("kbit", 1_000),
    ("Mbit", 1_000_000),
    ("Gbit", 1_000_000_000),
];
const SIZES: [(&str, u128); 7] = [
    ("B", 1),
    ("kB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
];

/// Number and unit of `text`, the number in units of its last decimal: `1.5ms` is (15, 1, "ms").
fn split<'a>(text: &'a str, expected: &'static str) -> Result<(u128, u32, &'a str), Problem> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err((format!("\"{text}\" is negative"), expected));
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || decimals.contains('.') {
        return Err((format!("\"{text}\" does not begin with a number"), expected));
    }
    let too_large = || (format!("\"{text}\" is out of range"), expected);
    if decimals.len() > 12 {
        return Err((format!("\"{text}\" has too many decimals"), expected));
    }
    let digits: u128 = format!("{whole}{decimals}")
        .parse()
        .map_err(|_| too_large())?;
    if digits > u128::from(u64::MAX) * 1_000_000_000_000 {
        return Err(too_large());
    }
    Ok((digits, decimals.len() as u32, unit.trim()))
}

fn quantity(text: &str, units: &[(&str, u128)], expected: &'static str) -> Result<u64, Problem> {
    let (digits, decimals, unit) = split(text, expected)?;
    if unit.is_empty() {
        return Err((format!("\"{text}\" has no unit"), expected));
    }
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        return Err((
            format!("\"{text}\" has the unknown unit \"{unit}\""),
            expected,
        ));
    };
    let value = digits
        .checked_mul(*factor)
        .map(|v| v / 10u128.pow(decimals));
    value
        .and_then(|v| u64::try_from(v).ok())
        .ok_or_else(|| (format!("\"{text}\" is out of range"), expected))
}

pub(crate) fn duration(text: &str) -> Result<Duration, Problem> {
    quantity(text, &DURATIONS, DURATION).map(Duration::from_nanos)
}

/// bit/s
pub(crate) fn rate(text: &str) -> Result<u64, Problem> {
    quantity(text.strip_suffix("/s").unwrap_or(text), &RATES, RATE)
}

/// Bytes.
pub(crate) fn size(text: &str) -> Result<u64, Problem> {
    quantity(text, &SIZES, SIZE)
}

/// `low..high`; a low end without unit takes the unit of the high one.
pub(crate) fn range(text: &str, expected: &'static str) -> Result<(Duration, Duration), Problem> {
    let (low, high) = text
        .split_once("..")
        .ok_or_else(|| (format!("\"{text}\" is not a range"), expected))?;
    let top = duration(high).map_err(|(problem, _)| (problem, expected))?;
    let unit = high
        .trim()
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let low = low.trim();
    let bare = low.ends_with(|c: char| c.is_ascii_digit() || c == '.');
    let bottom = if bare {
        duration(&format!("{low}{unit}"))
    } else {
        duration(low)
    };
    let bottom = bottom.map_err(|(problem, _)| (problem, expected))?;
    if bottom > top {
        return Err((format!("\"{text}\" runs backwards"), expected));
    }
    Ok((bottom, top))
}

/// Transfers per second that differ from none and from all at once.
const FREQUENCIES: RangeInclusive<f64> = 1e-6..=1e5;

/// Transfers per second.
pub(crate) fn frequency(text: &str) -> Result<f64, Problem> {
    let bad = || (format!("\"{text}\" is not a frequency"), FREQUENCY);
    let (number, unit) = text.split_once('/').ok_or_else(bad)?;
    let number: f64 = number.trim().parse().map_err(|_| bad())?;
    let per = match unit.trim() {
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(bad()),
    };
    if !number.is_finite() || number <= 0.0 {
        return Err((format!("\"{text}\" is not above zero"), FREQUENCY));
    }
    let a_second = number / per;
    if !FREQUENCIES.contains(&a_second) {
        return Err((format!("\"{text}\" is out of range"), FREQUENCY));
    }
    Ok(a_second)
}

/// How long a queue may grow: as told, or in bandwidth-delay products of its path.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueueSize {
    Limit(QueueLimit),
    Bdp(f64),
}

pub(crate) fn queue(text: &str) -> Result<QueueSize, Problem> {
    let (digits, decimals, unit) = split(text, QUEUE)?;
    match unit {
        "p" if decimals == 0 => match u64::try_from(digits) {
            Ok(packets) => Ok(QueueSize::Limit(QueueLimit::Packets(packets))),
            Err(_) => Err((format!("\"{text}\" is out of range"), QUEUE)),
        },
        "p" => Err((format!("\"{text}\" is no whole number of packets"), QUEUE)),
        "bdp" => Ok(QueueSize::Bdp(digits as f64 / 10f64.powi(decimals as i32))),
        _ => match quantity(text, &SIZES, QUEUE) {
            Ok(bytes) => Ok(QueueSize::Limit(QueueLimit::Bytes(bytes))),
            Err(problem) => Err(problem),
        },
    }
}

/// The largest unit that gives a whole number.
fn show(value: u64, units: &[(&str, u128)]) -> String {
    let fits = |&&(_, factor): &&(&str, u128)| u128::from(value) % factor == 0;
    let (name, factor) = units
        .iter()
        .filter(fits)
        .max_by_key(|(_, factor)| *factor)
        .unwrap_or(&units[0]);
    format!("{}{name}", u128::from(value) / factor)
}

pub(crate) fn show_duration(value: Duration) -> String {
    match value.is_zero() {
        true => "0s".into(),
        false => show(
            u64::try_from(value.as_nanos()).unwrap_or(u64::MAX),
            &DURATIONS[..4],
        ),
    }
}

pub(crate) fn show_rate(value: u64) -> String {
    show(value, &RATES)
}

pub(crate) fn show_size(value: u64) -> String {
    if value == 0 {
        return "0B".into();
    }
    let decimal = show(
        value,
        &SIZES.map(|u| if u.0.contains('i') { SIZES[0] } else { u }),
    );
    let binary = show(value, &SIZES);
    if binary.len() < decimal.len() {
        binary
    } else {
        decimal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_quantities_exactly() {
        assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(duration(" 250us"), Ok(Duration::from_micros(250)));
        assert_eq!(duration("2min"), Ok(Duration::from_secs(120)));
        assert_eq!(rate("0.3Mbit"), Ok(300_000));
        assert_eq!(rate("50Mbit/s"), Ok(50_000_000));
        assert_eq!(size("4MB"), Ok(4_000_000));
        assert_eq!(size("1GiB"), Ok(1 << 30));
        assert_eq!(
            range("0..5ms", ""),
            Ok((Duration::ZERO, Duration::from_millis(5)))
        );
        assert_eq!(
            range("1s..2min", ""),
            Ok((Duration::from_secs(1), Duration::from_secs(120)))
        );
        assert_eq!(frequency("30/min"), Ok(0.5));
        assert_eq!(
            queue("100p"),
            Ok(QueueSize::Limit(QueueLimit::Packets(100)))
        );
        assert_eq!(queue("0.5bdp"), Ok(QueueSize::Bdp(0.5)));
    }

    #[test]
    fn refuses_what_is_not_one() {
        for text in [
            "5",
            "ms",
            "-5ms",
            "5 parsecs",
            "1e3s",
            "1.2.3s",
            "",
            "99999999999999999999h",
            "5MS",
        ] {
            assert!(duration(text).is_err(), "{text}");
        }
        for text in ["50", "50MB", "50mbit", "∞Mbit"] {
            assert!(rate(text).is_err(), "{text}");
        }
        for text in ["5ms..1ms", "5ms", "..5ms", "1..", "a..b"] {
            assert!(range(text, "").is_err(), "{text}");
        }
        for text in [
            "8",
            "0/s",
            "-1/s",
            "nan/s",
            "8/fortnight",
            "1e12/s",
            "1e-30/s",
        ] {
            assert!(frequency(text).is_err(), "{text}");
        }
        for text in ["100", "1.5p", "100q"] {
            assert!(queue(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prints_the_largest_whole_unit() {
        assert_eq!(show_duration(Duration::from_micros(1500)), "1500us");
        assert_eq!(show_duration(Duration::ZERO), "0s");
        assert_eq!(show_rate(50_000_000), "50Mbit");
        assert_eq!(show_size(4_000_000), "4MB");
        assert_eq!(show_size(1 << 20), "1MiB");
        assert_eq!(show_size(6_291_456), "6MiB");
        assert_eq!(show_size(150_000), "150kB");
    }
}
