//! The reference names every entry of the registries, and no other.

use mp_policy::awareness::{self, Config, Reason};
use mp_policy::{initial_path, path_manager, scheduler};

fn page(path: &str) -> String {
    let file = format!("{}/../../docs/reference/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&file).expect(&file)
}

/// Cells of the rows of the table below this line.
fn rows<'a>(text: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let (_, table) = text.split_once(head).unwrap_or_else(|| panic!("no {head}"));
    let rows = table.lines().skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect()
}

/// Names in the first column of the table below this line.
fn first_column(text: &str, head: &str) -> Vec<String> {
    let rows = rows(text, head);
    let names = rows.iter().flat_map(|row| row[0].split(','));
    names
        .map(|name| name.trim().trim_matches('`').to_owned())
        .collect()
}

#[test]
fn schedulers() {
    let names: Vec<_> = scheduler::all().iter().map(|e| e.name).collect();
    assert_eq!(
        first_column(&page("schedulers.md"), "| name | rule |"),
        names
    );
}

#[test]
fn initial_paths() {
    let names: Vec<_> = initial_path::all().iter().map(|e| e.name).collect();
    assert_eq!(
        first_column(&page("scenario.md"), "| value | initial path |"),
        names
    );
}

#[test]
fn path_managers() {
    let names: Vec<_> = path_manager::all().iter().map(|e| e.name).collect();
    let head = "| path manager | subflows | runs in |";
    assert_eq!(first_column(&page("scenario.md"), head), names);
}

/// Every path manager with parameters has a page of its own.
#[test]
fn parameters_of_path_managers() {
    for entry in path_manager::all()
        .iter()
        .filter(|e| !e.parameters.is_empty())
    {
        let parameters = entry.parameters.iter().map(|p| {
            let range = format!("{} to {}", p.least, p.most);
            let name = format!("`{}`", p.name);
            let (unit, default) = (p.unit.to_string(), p.default.to_string());
            [name, unit, default, range, p.about.to_owned()]
        });
        let page = page(&format!("{}.md", entry.name));
        let head = "| parameter | unit | default | range | meaning |";
        assert_eq!(rows(&page, head), parameters.collect::<Vec<_>>());
    }
}

/// Their order, their names, and which path manager has which.
#[test]
fn rules_of_path_awareness() {
    let has = |config: Config, reason: Reason| match reason {
        Reason::Signal => config.signal.is_some(),
        Reason::Loss | Reason::SmallShare => config.harm.is_some(),
        _ => true,
    };
    let yes = |has: bool| if has { "yes" } else { "no" }.to_owned();
    let rule = |(i, reason): (usize, Reason)| {
        let columns = [Config::loss_aware(), Config::signal_aware()].map(|c| yes(has(c, reason)));
        let [loss, signal] = columns;
        [(i + 1).to_string(), reason.name().to_owned(), loss, signal]
    };
    let rules: Vec<_> = awareness::rules().enumerate().map(rule).collect();
    let page = page("path-awareness.md");
    let head = "| | rule | condition | worst path | `loss-aware` | `signal-aware` |";
    let rows = rows(&page, head);
    let written = |row: &Vec<&str>| [0, 1, 4, 5].map(|i| row[i].to_owned());
    assert_eq!(rows.iter().map(written).collect::<Vec<_>>(), rules);
}
