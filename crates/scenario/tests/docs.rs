//! The reference speaks of every key.

use std::path::Path;

#[test]
fn every_key_is_in_the_reference() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/scenario.md");
    let text = std::fs::read_to_string(&path).expect("docs/reference/scenario.md");
    for (section, keys) in mp_scenario::known_keys() {
        for key in keys {
            assert!(
                text.contains(&format!("`{key}`")),
                "docs/reference/scenario.md does not mention `{key}` of {section}"
            );
        }
    }
}

#[test]
fn every_bundled_scenario_loads_and_prints_back_to_itself() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut seen = 0;
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("scenarios/") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                let first =
                    mp_scenario::load(&path, &Default::default()).unwrap_or_else(|e| panic!("{e}"));
                let read = |file: &Path| std::fs::read(file);
                let again = mp_scenario::parse(
                    "scenario.toml",
                    &first.to_toml(),
                    Path::new(""),
                    &read,
                    &Default::default(),
                );
                assert_eq!(
                    again.unwrap_or_else(|e| panic!("{e}")).cells,
                    first.cells,
                    "{}",
                    path.display()
                );
                seen += 1;
            }
        }
    }
    assert!(seen >= 4, "only {seen} scenarios are there");
}
