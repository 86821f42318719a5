//! The policer of a path or link.

use crate::defaults;
use crate::error::Error;
use crate::field::{Field, Section};
use crate::model::Policer;
use crate::units;

pub const KEYS: &[&str] = &["rate", "burst"];

const POLICER: &str = "{ rate = \"20Mbit\", burst = \"50kB\" }, or \"none\"";

/// A bucket that holds less than a `packet` of a full segment would never let one through.
pub(crate) fn policer(field: &Field<'_>, packet: u64) -> Result<Option<Policer>, Error> {
    if matches!(field.string(), Ok("none")) {
        return Ok(None);
    }
    if field.table().is_err() {
        return Err(field.error("is no policer", POLICER));
    }
    let section = Section::open(field, KEYS)?;
    let rate = section.require("rate", units::RATE)?.rate()?;
    let burst = section.require("burst", units::SIZE)?;
    match burst.size()? {
        bytes if bytes < packet => Err(burst.error(
            format!("lets no packet of {packet} bytes through"),
            format!(
                "at least \"{packet}B\": mss and {} bytes of headers",
                defaults::HEADERS
            ),
        )),
        burst => Ok(Some(Policer { rate, burst })),
    }
}
