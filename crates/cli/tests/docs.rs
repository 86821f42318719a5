//! The examples of the documentation are valid.

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
