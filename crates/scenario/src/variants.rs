//! Which variants are compared: lists multiplied out, settings resolved, names from what differs.

use indexmap::IndexMap;

use crate::defaults;
use crate::error::Error;
use crate::field::{Field, Section};
use crate::model::Variant;
use crate::tree::Value;
use crate::units;

pub const VARIANT_KEYS: &[&str] = &[
    "name",
    "controller",
    "path_manager",
    "scheduler",
    "parameters",
];

/// A variant before it has its name: its settings as the file spells them.
struct Draft {
    stated_name: Option<String>,
    variant: Variant,
    spelled: Vec<(String, String)>,
}

/// The variants, each list multiplied out; without any, the defaults.
pub(crate) fn variants(field: Option<&Field<'_>>) -> Result<Vec<Variant>, Error> {
    let Some(field) = field else {
        let variant = Variant {
            name: defaults::CONTROLLER.into(),
            controller: defaults::CONTROLLER.into(),
            parameters: IndexMap::new(),
            path_manager: defaults::PATH_MANAGER.into(),
            scheduler: defaults::SCHEDULER.into(),
        };
        return Ok(vec![variant]);
    };
    let items = field.items()?;
    if items.is_empty() {
        return Err(field.error("there are no variants", "at least one [[variants]]"));
    }
    let mut drafts = Vec::new();
    let mut from = Vec::new();
    for item in items {
        drafts.extend(multiply(&item)?);
        from.resize(drafts.len(), item);
    }
    let named = name_all(drafts);
    for (i, variant) in named.iter().enumerate() {
        if named[..i].iter().any(|v| v.name == variant.name) {
            let problem = format!("there is another variant \"{}\"", variant.name);
            return Err(from[i].error(problem, "each combination once, or a name of its own"));
        }
    }
    Ok(named)
}

fn multiply(field: &Field<'_>) -> Result<Vec<Draft>, Error> {
    let section = Section::open(field, VARIANT_KEYS)?;
    let words = |key: &str, default: &str| -> Result<Vec<String>, Error> {
        let Some(field) = section.get(key) else {
            return Ok(vec![default.to_owned()]);
        };
        field
            .one_or_many()?
            .iter()
            .map(|f| f.name().map(str::to_owned))
            .collect()
    };
    let stated_name = section
        .get("name")
        .map(|f| f.name().map(str::to_owned))
        .transpose()?;
    let settings = parameters(section.get("parameters"))?;
    let mut drafts = Vec::new();
    for controller in words("controller", defaults::CONTROLLER)? {
        for path_manager in words("path_manager", defaults::PATH_MANAGER)? {
            for scheduler in words("scheduler", defaults::SCHEDULER)? {
                for setting in &settings {
                    let variant = Variant {
                        name: String::new(),
                        controller: controller.clone(),
                        parameters: setting
                            .iter()
                            .map(|(key, value, _)| (key.clone(), *value))
                            .collect(),
                        path_manager: path_manager.clone(),
                        scheduler: scheduler.clone(),
                    };
                    let spelled = setting
                        .iter()
                        .map(|(key, _, spelled)| (key.clone(), spelled.clone()))
                        .collect();
                    drafts.push(Draft {
                        stated_name: stated_name.clone(),
                        variant,
                        spelled,
                    });
                }
            }
        }
    }
    if drafts.len() > 10_000 {
        return Err(section.error(format!("makes {} variants", drafts.len()), "at most 10000"));
    }
    // A stated name fits one variant; several get theirs from what differs.
    match (&drafts[..], &stated_name) {
        ([_], _) | (_, None) => Ok(drafts),
        _ => Ok(drafts
            .into_iter()
            .map(|d| Draft {
                stated_name: None,
                ..d
            })
            .collect()),
    }
}

type Setting = Vec<(String, u64, String)>;

/// Every combination of the settings' values, in the units that controllers/mp.h uses: µs, bytes, bytes/s, or a bare number.
fn parameters(field: Option<Field<'_>>) -> Result<Vec<Setting>, Error> {
    let mut all: Vec<Setting> = vec![Vec::new()];
    let Some(field) = field else { return Ok(all) };
    for (key, values) in field.entries()? {
        let mut longer = Vec::new();
        for value in values.one_or_many()? {
            let number = parameter(&value)?;
            let spelled = value.node.value.label();
            longer
                .extend(all.iter().map(|s| {
                    [s.as_slice(), &[(key.to_owned(), number, spelled.clone())]].concat()
                }));
        }
        all = longer;
        if all.len() > 10_000 {
            return Err(field.error("has too many combinations", "at most 10000"));
        }
    }
    Ok(all)
}

/// A controller's setting: a bare number, or with a unit, in those that controllers/mp.h uses.
pub fn parameter(field: &Field<'_>) -> Result<u64, Error> {
    const EXPECTED: &str = "a whole number, a duration, a size or a rate";
    let Value::String(text) = &field.node.value else {
        let known = matches!(field.node.value, Value::Integer(_));
        return if known {
            field.integer(0, u64::MAX)
        } else {
            Err(field.error("is no setting", EXPECTED))
        };
    };
    let micros = units::duration(text)
        .ok()
        .and_then(|d| u64::try_from(d.as_micros()).ok());
    let bytes = || units::size(text).ok();
    let bytes_per_second = || units::rate(text).ok().map(|bits| bits / 8);
    let found = micros
        .or_else(bytes)
        .or_else(bytes_per_second)
        .filter(|v| *v <= i64::MAX as u64);
    found.ok_or_else(|| field.error(format!("\"{text}\" is no setting"), EXPECTED))
}

/// Names from what differs: `lia`, `lia/blest`, `rsf-db d=50ms`.
fn name_all(drafts: Vec<Draft>) -> Vec<Variant> {
    let differs = |get: fn(&Variant) -> &String| {
        drafts
            .iter()
            .any(|d| get(&d.variant) != get(&drafts[0].variant))
    };
    let (by_manager, by_scheduler) = (differs(|v| &v.path_manager), differs(|v| &v.scheduler));
    let name = |draft: &Draft| {
        if let Some(stated) = &draft.stated_name {
            return stated.clone();
        }
        let variant = &draft.variant;
        let mut name = variant.controller.clone();
        if by_manager {
            name += &format!("/{}", variant.path_manager);
        }
        if by_scheduler {
            name += &format!("/{}", variant.scheduler);
        }
        let same_controller = drafts
            .iter()
            .filter(|d| d.variant.controller == variant.controller);
        let settings_differ = same_controller
            .clone()
            .any(|d| d.variant.parameters != variant.parameters);
        if settings_differ {
            for (key, spelled) in &draft.spelled {
                name += &format!(" {key}={spelled}");
            }
        }
        name
    };
    let names: Vec<String> = drafts.iter().map(name).collect();
    drafts
        .into_iter()
        .zip(names)
        .map(|(draft, name)| Variant {
            name,
            ..draft.variant
        })
        .collect()
}
