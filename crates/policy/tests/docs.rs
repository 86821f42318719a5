//! The reference names every entry of the registries, and no other.

use mp_policy::{initial_path, path_manager, scheduler};

fn page(path: &str) -> String {
    let file = format!("{}/../../docs/reference/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&file).expect(&file)
}

/// Names in the first column of the table below this line.
fn first_column(text: &str, head: &str) -> Vec<String> {
    let (_, table) = text.split_once(head).unwrap_or_else(|| panic!("no {head}"));
    table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| line.split('|').nth(1).unwrap_or("").split(','))
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
