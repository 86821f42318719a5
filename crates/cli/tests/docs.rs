//! The documentation keeps up with the code: its examples are valid, its lists complete.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Stands before the part of a scenario that an example shows.
const PATHS: &str = "[paths.wifi]\nrate = '50Mbit'\n[paths.lte]\nrate = '20Mbit'\n";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("docs/") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            pages(&path, found);
        } else if path.extension().is_some_and(|e| e == "md") {
            found.push(path);
        }
    }
}

/// Line and text of each fenced TOML, without the indentation that it has in a list.
fn examples(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open = None;
    for (number, line) in page.lines().enumerate() {
        let plain = line.trim_start();
        open = match open {
            None if plain == "```toml" => {
                Some((number + 1, line.len() - plain.len(), String::new()))
            }
            None => None,
            Some((first, _, text)) if plain == "```" => {
                found.push((first, text));
                None
            }
            Some((first, indent, text)) => Some((
                first,
                indent,
                text + line.get(indent..).unwrap_or("") + "\n",
            )),
        };
    }
    found
}

/// What each reader of the command says of a text; none takes a key that it does not know.
fn errors(text: &str) -> Option<String> {
    let scenario = |text: &str| {
        let read = mp_builtin::parse("scenario", text, &Default::default());
        read.map(drop).map_err(|e| e.to_string())
    };
    let read = [
        scenario(text),
        scenario(&format!("{PATHS}{text}")),
        mp_daemon::Config::parse("daemon", text)
            .map(drop)
            .map_err(|e| e.to_string()),
        mp_server::Config::parse("server", text)
            .map(drop)
            .map_err(|e| e.to_string()),
    ];
    let refused: Vec<String> = read.iter().filter_map(|r| r.clone().err()).collect();
    (refused.len() == read.len()).then(|| refused.join("\n  "))
}

#[test]
fn every_example_is_valid() {
    let mut all = vec![root().join("README.md"), root().join("python/README.md")];
    pages(&root().join("docs"), &mut all);
    let mut seen = 0;
    for page in all {
        let text = fs::read_to_string(&page).expect("a page");
        for (line, example) in examples(&text) {
            // A paper's claims are read in Python, where a test reads them.
            if page.ends_with("docs/reference/claims.md") {
                continue;
            }
            seen += 1;
            if let Some(errors) = errors(&example) {
                panic!("{}:{line}:\n  {errors}", page.display());
            }
        }
    }
    assert!(seen >= 12, "only {seen} examples");
}

#[test]
fn a_wrong_example_is_found() {
    let page = "- a list:\n    ```toml\n    [interfaces]\n    wlan0.rule = 'preferred'\n    ```\n\n```toml\n[metrics]\nlisten = 5\n```\n";
    let found = examples(page);
    assert_eq!(
        found[0],
        (2, "[interfaces]\nwlan0.rule = 'preferred'\n".into())
    );
    assert_eq!(errors(&found[0].1), None);
    assert_eq!(found[1].0, 7);
    assert!(errors(&found[1].1).is_some());
    assert!(errors("[[variants]]\ncontroler = 'lia'\n").is_some());
}

/// The second cell of the README's row that begins so.
fn readme_row(title: &str) -> String {
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    let start = format!("| {title}");
    let line = readme.lines().find(|line| line.starts_with(&start));
    let (_, cell) = line
        .and_then(|line| line.split_once(" | "))
        .expect("the row");
    cell.to_owned()
}

/// Names in that cell: the last word of each piece, without remarks in parentheses.
fn named_in_readme(title: &str) -> BTreeSet<String> {
    let mut depth = 0;
    let mut outside = |c: &char| {
        depth += i32::from(*c == '(') - i32::from(*c == ')');
        depth == 0 && !")[]*|".contains(*c)
    };
    let plain: String = readme_row(title).chars().filter(|c| outside(c)).collect();
    let pieces = plain.split([',', ';']);
    let names = pieces.filter_map(|piece| piece.split_whitespace().last());
    names.map(str::to_owned).collect()
}

#[test]
fn the_readme_names_everything_that_there_is_to_choose() {
    fn all(names: impl Iterator<Item = &'static str>) -> BTreeSet<String> {
        names.map(str::to_owned).collect()
    }
    let controllers = all(mp_controllers::entries().map(|e| e.name));
    assert_eq!(named_in_readme("congestion controllers"), controllers);
    let managers = all(mp_policy::path_manager::all().iter().map(|e| e.name));
    assert_eq!(named_in_readme("path managers"), managers);
    let schedulers = all(mp_policy::scheduler::all().iter().map(|e| e.name));
    assert_eq!(named_in_readme("schedulers"), schedulers);
}

#[test]
fn the_readme_names_every_paper() {
    let package = |folder: &fs::DirEntry| folder.path().join("__init__.py").exists();
    let folders = fs::read_dir(root().join("reproductions")).expect("reproductions/");
    let folders = folders.map(|f| f.expect("an entry")).filter(package);
    let names: BTreeSet<String> = folders
        .map(|f| f.file_name().to_string_lossy().replace('_', "-"))
        .collect();
    let row = readme_row("papers");
    // They are in italics.
    let named = row.split('*').skip(1).step_by(2).map(str::to_owned);
    assert_eq!(named.collect::<BTreeSet<_>>(), names);
}

#[test]
fn the_architecture_names_every_crate() {
    let page = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    for entry in fs::read_dir(root().join("crates")).expect("crates/") {
        let name = entry.expect("an entry").file_name();
        let row = format!("| `crates/{}` |", name.to_string_lossy());
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn the_index_of_the_documentation_has_every_page() {
    let docs = root().join("docs");
    let index = fs::read_to_string(docs.join("README.md")).expect("docs/README.md");
    let mut all = Vec::new();
    pages(&docs, &mut all);
    for page in all.iter().filter(|p| **p != docs.join("README.md")) {
        let page = page.strip_prefix(&docs).expect("below docs/").display();
        assert!(index.contains(&format!("]({page})")), "{page}");
    }
}
