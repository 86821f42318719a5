//! Names that a scenario chooses from the registries, and values of their parameters.

use mp_parameter::{Parameter, Unit};
use mp_policy::{initial_path as initial, path_manager as managers, scheduler as schedulers};

use crate::error::{did_you_mean, one_of, Error};
use crate::field::Field;
use crate::tree::Value;
use crate::units;

/// What carries the streams between the relay and its device.
pub const CARRIERS: [&str; 2] = ["tcp", "mptcp"];

pub fn controller(field: &Field<'_>) -> Result<String, Error> {
    controller_or(field, None)
}

/// A controller, or that word.
pub fn controller_or(field: &Field<'_>, also: Option<&str>) -> Result<String, Error> {
    let names = mp_controllers::entries().map(|e| e.name);
    known(field, also.into_iter().chain(names).collect())
}

pub(crate) fn path_manager(field: &Field<'_>) -> Result<String, Error> {
    if let Some(entry) = initial::former(field.string()?) {
        return Err(field.error(
            format!(
                "\"{}\" is no path manager: it chooses the initial path",
                field.string()?
            ),
            format!("initial_path = \"{}\" (--initial-paths)", entry.name),
        ));
    }
    known(field, managers::all().iter().map(|e| e.name).collect())
}

pub(crate) fn initial_path(field: &Field<'_>) -> Result<String, Error> {
    known(field, initial::all().iter().map(|e| e.name).collect())
}

pub fn scheduler(field: &Field<'_>) -> Result<String, Error> {
    known(field, schedulers::all().iter().map(|e| e.name).collect())
}

pub(crate) fn carrier(field: &Field<'_>) -> Result<String, Error> {
    known(field, CARRIERS.to_vec())
}

fn known(field: &Field<'_>, names: Vec<&str>) -> Result<String, Error> {
    let name = field.string()?;
    match names.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(field.error(
            format!(
                "\"{name}\" is unknown{}",
                did_you_mean(name, names.iter().copied())
            ),
            one_of(&names),
        )),
    }
}

/// The value of a controller's parameter, in its unit: a whole number, or a text with a unit of the same dimension.
pub fn parameter(controller: &str, name: &str, field: &Field<'_>) -> Result<u64, Error> {
    let entry = mp_controllers::entry(controller);
    value(controller, entry.map_or(&[], |e| e.parameters), name, field)
}

/// The same of a path manager.
pub(crate) fn path_manager_parameter(
    manager: &str,
    name: &str,
    field: &Field<'_>,
) -> Result<u64, Error> {
    let entry = managers::find(manager);
    value(manager, entry.map_or(&[], |e| e.parameters), name, field)
}

fn value(
    owner: &str,
    known: &'static [Parameter],
    name: &str,
    field: &Field<'_>,
) -> Result<u64, Error> {
    let index = mp_parameter::find(owner, known, name).map_err(|refused| {
        let hint = did_you_mean(name, known.iter().map(|p| p.name));
        field.error(refused.problem() + &hint, refused.expected())
    })?;
    let parameter = &known[index];
    let value = match &field.node.value {
        Value::Integer(number) => u64::try_from(*number).ok(),
        Value::String(text) => quantity(text, parameter.unit),
        _ => None,
    };
    value
        .filter(|value| parameter.allows(*value))
        .ok_or_else(|| {
            let problem = match (value, parameter.unit) {
                (Some(_), _) => "is out of range",
                (None, Unit::Microseconds) => "is no duration",
                (None, Unit::BitsPerSecond | Unit::BytesPerSecond) => "is no rate",
                (None, _) => "is no whole number",
            };
            field.error(
                format!("{} {problem}", field.node.value.show()),
                expected(parameter),
            )
        })
}

/// A quantity in the parameter's unit, if that has a dimension.
fn quantity(text: &str, unit: Unit) -> Option<u64> {
    match unit {
        Unit::Microseconds => u64::try_from(units::duration(text).ok()?.as_micros()).ok(),
        Unit::BitsPerSecond => units::rate(text).ok(),
        Unit::BytesPerSecond => units::rate(text).ok().map(|bits| bits / 8),
        _ => None,
    }
}

fn expected(parameter: &Parameter) -> String {
    let Parameter {
        unit, least, most, ..
    } = parameter;
    let bits = |bytes: &u64| units::show_rate(bytes * 8);
    let micros = |us: &u64| units::show_duration(std::time::Duration::from_micros(*us));
    match unit {
        Unit::Microseconds => format!(
            "a duration from \"{}\" to \"{}\"",
            micros(least),
            micros(most)
        ),
        Unit::BitsPerSecond => format!(
            "a rate from \"{}\" to \"{}\"",
            units::show_rate(*least),
            units::show_rate(*most)
        ),
        Unit::BytesPerSecond => format!("a rate from \"{}\" to \"{}\"", bits(least), bits(most)),
        Unit::Switch => "0 or 1".into(),
        _ => format!("a whole number from {least} to {most} ({unit})"),
    }
}
