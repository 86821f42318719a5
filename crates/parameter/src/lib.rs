//! Parameters of congestion controllers and path managers: unit, default and range, and the check of names and values that
//! both registries share.
//!
//! Depends on nothing, because the build scripts of `mp-controllers` and `mp-kernel` use it too.

#![forbid(unsafe_code)]

use std::fmt;

/// Unit of a [`Parameter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Microseconds,
    BitsPerSecond,
    BytesPerSecond,
    Packets,
    PacketsPerMillion,
    PacketsPerSecond,
    RoundTrips,
    Thousandths,
    /// A set of flags.
    Bits,
    /// 0: off, 1: on.
    Switch,
}

impl Unit {
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Microseconds => "us",
            Unit::BitsPerSecond => "bit/s",
            Unit::BytesPerSecond => "bytes/s",
            Unit::Packets => "packets",
            Unit::PacketsPerMillion => "packets per million",
            Unit::PacketsPerSecond => "packets/s",
            Unit::RoundTrips => "round trips",
            Unit::Thousandths => "thousandths",
            Unit::Bits => "bits",
            Unit::Switch => "0 or 1",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A parameter of an entry of a registry: a whole number in `unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    pub unit: Unit,
    pub default: u64,
    pub least: u64,
    pub most: u64,
    pub about: &'static str,
}

impl Parameter {
    /// Whether a value is within the range.
    pub fn allows(&self, value: u64) -> bool {
        (self.least..=self.most).contains(&value)
    }
}

/// Why a parameter was refused. `owner` is the entry that was to have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused<'a> {
    Unknown {
        owner: &'a str,
        name: &'a str,
        known: &'static [Parameter],
    },
    OutOfRange {
        owner: &'a str,
        parameter: &'static Parameter,
        value: u64,
    },
}

impl Refused<'_> {
    pub fn problem(&self) -> String {
        match self {
            Refused::Unknown { owner, name, .. } => format!("{owner} has no parameter \"{name}\""),
            Refused::OutOfRange {
                owner,
                parameter,
                value,
            } => format!("{owner}: {} = {value} is out of range", parameter.name),
        }
    }

    pub fn expected(&self) -> String {
        match self {
            Refused::Unknown { known, .. } => {
                let names: Vec<&str> = known.iter().map(|p| p.name).collect();
                match names.as_slice() {
                    [] => "no parameters".into(),
                    [name] => (*name).into(),
                    names => format!("one of {}", names.join(", ")),
                }
            }
            Refused::OutOfRange { parameter: p, .. } => {
                format!("{} to {} ({})", p.least, p.most, p.unit)
            }
        }
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected {}", self.problem(), self.expected())
    }
}

/// Index of the parameter of this name among those of `owner`.
pub fn find<'a>(
    owner: &'a str,
    known: &'static [Parameter],
    name: &'a str,
) -> Result<usize, Refused<'a>> {
    let found = known.iter().position(|p| p.name == name);
    found.ok_or(Refused::Unknown { owner, name, known })
}

/// As [`find`], for a value that has to be within the range.
pub fn check<'a>(
    owner: &'a str,
    known: &'static [Parameter],
    name: &'a str,
    value: u64,
) -> Result<usize, Refused<'a>> {
    let index = find(owner, known, name)?;
    let parameter = &known[index];
    match parameter.allows(value) {
        true => Ok(index),
        false => Err(Refused::OutOfRange {
            owner,
            parameter,
            value,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn parameter(name: &'static str) -> Parameter {
        Parameter {
            name,
            unit: Unit::Packets,
            default: 10,
            least: 5,
            most: 20,
            about: "",
        }
    }

    static TWO: &[Parameter] = &[parameter("first"), parameter("second")];

    #[test]
    fn a_value_within_the_range_has_the_index_of_its_parameter() {
        assert_eq!(check("x", TWO, "second", 5), Ok(1));
        assert_eq!(check("x", TWO, "first", 20), Ok(0));
    }

    #[test]
    fn a_refusal_says_what_was_expected() {
        let refusal = |known, name, value| check("x", known, name, value).unwrap_err().to_string();
        assert_eq!(
            refusal(TWO, "second", 21),
            "x: second = 21 is out of range; expected 5 to 20 (packets)"
        );
        assert_eq!(
            refusal(TWO, "third", 5),
            "x has no parameter \"third\"; expected one of first, second"
        );
        assert_eq!(
            refusal(&TWO[..1], "third", 5),
            "x has no parameter \"third\"; expected first"
        );
        assert_eq!(
            refusal(&[], "third", 5),
            "x has no parameter \"third\"; expected no parameters"
        );
    }
}
