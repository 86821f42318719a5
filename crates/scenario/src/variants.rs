//! Which variants are compared: lists multiplied out, settings resolved, names from what differs.

use indexmap::IndexMap;
use mp_controllers::learned;

use crate::choices;
use crate::defaults;
use crate::error::Error;
use crate::field::{Field, Section};
use crate::model::Variant;

pub const VARIANT_KEYS: &[&str] = &[
    "name",
    "controller",
    "path_manager",
    "initial_path",
    "scheduler",
    "carrier",
    "parameters",
    "path_manager_parameters",
    "agent",
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
            path_manager_parameters: IndexMap::new(),
            initial_path: defaults::INITIAL_PATH.into(),
            scheduler: defaults::SCHEDULER.into(),
            carrier: defaults::CARRIER.into(),
            agent: true,
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
    let words = |key: &str, default: &str, read: fn(&Field<'_>) -> Result<String, Error>| {
        let Some(field) = section.get(key) else {
            return Ok(vec![default.to_owned()]);
        };
        field.one_or_many()?.iter().map(read).collect()
    };
    let stated_name = section
        .get("name")
        .map(|f| f.name().map(str::to_owned))
        .transpose()?;
    let controllers = words("controller", defaults::CONTROLLER, choices::controller)?;
    let managers = words(
        "path_manager",
        defaults::PATH_MANAGER,
        choices::path_manager,
    )?;
    let initial = words(
        "initial_path",
        defaults::INITIAL_PATH,
        choices::initial_path,
    )?;
    let schedulers = words("scheduler", defaults::SCHEDULER, choices::scheduler)?;
    let carriers = words("carrier", defaults::CARRIER, choices::carrier)?;
    let theirs = section.get("path_manager_parameters");
    let managed = |manager: &String| match has_settings(manager) {
        true => parameters(choices::path_manager_parameter, manager, theirs.as_ref()),
        // One that has none, beside one that has.
        false => Ok(vec![Setting::new()]),
    };
    if let Some(field) = theirs
        .as_ref()
        .filter(|_| !managers.iter().any(|name| has_settings(name)))
    {
        let problem = format!("belong to none of {}", managers.join(", "));
        return Err(field.error(problem, "a path manager that has settings beside them"));
    }
    let own = section.get("parameters");
    let agent = section.boolean_or("agent", true)?;
    if let (false, Some(other)) = (agent, controllers.iter().find(|c| *c != learned::NAME)) {
        let problem = format!("agent = false: {other} asks none");
        return Err(section.error(problem, format!("controller = \"{}\"", learned::NAME)));
    }
    let mut drafts = Vec::new();
    for controller in &controllers {
        let settings = parameters(choices::parameter, controller, own.as_ref())?;
        for path_manager in &managers {
            let managed = managed(path_manager)?;
            let both = (settings.iter()).flat_map(|s| managed.iter().map(move |m| (s, m)));
            for initial_path in &initial {
                let pairs = (schedulers.iter()).flat_map(|s| carriers.iter().map(move |c| (s, c)));
                for (scheduler, carrier) in pairs {
                    drafts.extend(both.clone().map(|(setting, manager)| {
                        Draft {
                            stated_name: stated_name.clone(),
                            variant: Variant {
                                name: String::new(),
                                controller: controller.clone(),
                                parameters: values(setting),
                                path_manager: path_manager.clone(),
                                path_manager_parameters: values(manager),
                                initial_path: initial_path.clone(),
                                scheduler: scheduler.clone(),
                                carrier: carrier.clone(),
                                agent,
                            },
                            spelled: (setting.iter().chain(manager))
                                .map(|(key, _, spelled)| (key.clone(), spelled.clone()))
                                .collect(),
                        }
                    }));
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

fn values(setting: &Setting) -> IndexMap<String, u64> {
    setting.iter().map(|(k, v, _)| (k.clone(), *v)).collect()
}

fn has_settings(path_manager: &str) -> bool {
    mp_policy::path_manager::find(path_manager).is_some_and(|e| !e.parameters.is_empty())
}

/// Every combination of the values that the parameters of a choice have here.
fn parameters(
    read: fn(&str, &str, &Field<'_>) -> Result<u64, Error>,
    choice: &str,
    field: Option<&Field<'_>>,
) -> Result<Vec<Setting>, Error> {
    let mut all: Vec<Setting> = vec![Vec::new()];
    let Some(field) = field else { return Ok(all) };
    for (key, values) in field.entries()? {
        let mut longer = Vec::new();
        for value in values.one_or_many()? {
            let number = read(choice, key, &value)?;
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

/// Names from what differs: `lia`, `lia/blest`, `rsf-db target_us=50ms`.
fn name_all(drafts: Vec<Draft>) -> Vec<Variant> {
    let differs = |get: fn(&Variant) -> &String| {
        drafts
            .iter()
            .any(|d| get(&d.variant) != get(&drafts[0].variant))
    };
    let axes: [fn(&Variant) -> &String; 4] = [
        |v| &v.path_manager,
        |v| &v.initial_path,
        |v| &v.scheduler,
        |v| &v.carrier,
    ];
    let differing: Vec<_> = axes.into_iter().filter(|axis| differs(*axis)).collect();
    let name = |draft: &Draft| {
        if let Some(stated) = &draft.stated_name {
            return stated.clone();
        }
        let variant = &draft.variant;
        let mut name = variant.controller.clone();
        for axis in &differing {
            name += &format!("/{}", axis(variant));
        }
        let settings_differ = drafts.iter().map(|d| &d.variant).any(|d| {
            d.controller == variant.controller && d.parameters != variant.parameters
                || d.path_manager == variant.path_manager
                    && d.path_manager_parameters != variant.path_manager_parameters
        });
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
