//! `multipilot list`: everything that has a name.

use clap::{Args, ValueEnum};
use mp_builtin::list;
use mp_policy::registry::EVERYWHERE;
use serde_json::{json, Map, Value};

use crate::outcome::{print, usage, Outcome};
use crate::sheet::{self, Column};

#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only this kind
    #[arg(value_enum)]
    kind: Option<Kind>,
    /// Print one JSON document and nothing else
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, ValueEnum)]
enum Kind {
    Controllers,
    Schedulers,
    PathManagers,
    InitialPaths,
    Allocations,
    Agents,
    Scenarios,
    Loaded,
}

impl Kind {
    /// Those of a list without a kind: what is loaded is not what there is to choose.
    fn all() -> Vec<Kind> {
        let kinds = Kind::value_variants().iter().copied();
        kinds.filter(|kind| *kind != Kind::Loaded).collect()
    }

    /// As on the command line, with `gap` between words.
    fn title(self, gap: &str) -> String {
        let value = self.to_possible_value().expect("none is hidden");
        value.get_name().replace('-', gap)
    }

    fn entries(self) -> Outcome<Vec<Value>> {
        let plain = |name: &str, summary: &str, source: &str| json!({ "name": name, "summary": summary, "source": source });
        Ok(match self {
            Kind::Controllers => list::controllers(),
            Kind::Schedulers => list::schedulers(),
            Kind::PathManagers => list::path_managers(),
            Kind::InitialPaths => list::initial_paths(),
            // Of beams and RF chains in a scenario's [radio].
            Kind::Allocations => mp_wireless::allocation::SCHEMES
                .iter()
                .map(|(name, _, summary)| plain(name, summary, "paper drones, section 3.1"))
                .collect(),
            Kind::Agents => vec![plain(
                "ddpg",
                "default actor of ddpg-mpcc",
                "crates/policy/actors/ddpg.json",
            )],
            Kind::Scenarios => list::scenarios().map_err(usage)?,
            Kind::Loaded => loaded()?,
        })
    }
}

fn loaded() -> Outcome<Vec<Value>> {
    let entry = |one: mp_kernel::controller::Registered| {
        let sockets = one.counters.sockets;
        json!({
            "name": one.kernel_name,
            "summary": format!("{}, {sockets} sockets, {} holders{}", one.about, one.holders, if one.kept { ", kept" } else { "" }),
            "source": "",
            "controller": one.about,
            "sockets": sockets,
            "holders": one.holders,
            "kept": one.kept,
        })
    };
    Ok(mp_kernel::controller::list()?
        .into_iter()
        .map(entry)
        .collect())
}

pub fn main(args: &ListArgs) -> Outcome {
    let kinds: Vec<Kind> = args.kind.map_or_else(Kind::all, |k| vec![k]);
    if args.json {
        let mut document = Map::new();
        document.insert("schema".into(), json!(mp_record::SCHEMA));
        // What each world's results depend on, for those who keep results.
        let sources = json!({ "simulator": mp_simulator::SOURCE, "kernel": mp_testbed::SOURCE });
        document.insert("sources".into(), sources);
        for kind in kinds {
            document.insert(kind.title("_"), Value::Array(kind.entries()?));
        }
        print(&format!("{:#}\n", Value::Object(document)));
        return Ok(());
    }
    let mut out = String::new();
    for (i, kind) in kinds.iter().enumerate() {
        if kinds.len() > 1 {
            out += &format!("{}{}\n", if i > 0 { "\n" } else { "" }, kind.title(" "));
        }
        out += &lines(&kind.entries()?, kinds.len() == 1);
    }
    if kinds.len() > 1 {
        out += "\nmultipilot list KIND, such as controllers, shows their parameters too.\n";
    }
    print(&out);
    Ok(())
}

/// A row for each entry, and one below it for each of its parameters if those are asked for.
fn lines(entries: &[Value], parameters: bool) -> String {
    if entries.is_empty() {
        return "  none\n".into();
    }
    let text = |e: &Value, key: &str| e[key].as_str().unwrap_or("").to_owned();
    let mut rows = Vec::new();
    for e in entries {
        let worlds = match e["worlds"].as_array() {
            Some(some) if some.len() < EVERYWHERE.len() => {
                let names: Vec<&str> = some.iter().filter_map(Value::as_str).collect();
                format!(" ({})", names.join(", "))
            }
            _ => String::new(),
        };
        rows.push(vec![
            format!("  {}", text(e, "name")),
            text(e, "summary") + &worlds,
        ]);
        let all = e["parameters"].as_array().filter(|_| parameters);
        for p in all.into_iter().flatten() {
            let (name, unit) = (text(p, "name"), text(p, "unit"));
            let unit = if unit.is_empty() {
                unit
            } else {
                format!(" {unit}")
            };
            let range = format!("{}{unit}, {} to {}", p["default"], p["least"], p["most"]);
            rows.push(vec![
                String::new(),
                format!("  {name} = {range}: {}", text(p, "about")),
            ]);
        }
    }
    let columns = [Column("", 0, false), Column("", 0, false)];
    sheet::table_within(&columns, rows, sheet::terminal().unwrap_or(u16::MAX))
}
