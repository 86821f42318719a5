//! The reference speaks of every controller, with its source and the defaults and ranges of its settings.

use mp_controllers::{all, find, Controller};

/// The text under a controller's own heading.
fn section<'a>(text: &'a str, name: &str) -> &'a str {
    let heading = format!("\n## {name}\n");
    let start = text
        .find(&heading)
        .unwrap_or_else(|| panic!("no heading for {name}"));
    let rest = &text[start + heading.len()..];
    rest.split("\n## ").next().unwrap_or(rest)
}

/// Settings in full, or those that differ from `mpcc`, which serves several names.
fn settings(controller: &Controller) -> Vec<String> {
    let base = find("mpcc").expect("in the registry");
    let names = |c: &Controller| c.parameters.iter().map(|p| p.name).collect::<Vec<_>>();
    let variant_of = controller.name != base.name && names(controller) == names(base);
    let mut lines = Vec::new();
    for (i, p) in controller.parameters.iter().enumerate() {
        if !variant_of {
            lines.push(format!(
                "| `{}` | {} | {} | {} to {} |",
                p.name, p.unit, p.default, p.least, p.most
            ));
        } else if p.default != base.parameters[i].default {
            lines.push(format!("`{}` = {}", p.name, p.default));
        }
    }
    lines
}

#[test]
fn every_controller_is_in_the_reference() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/controllers.md"
    );
    let text = std::fs::read_to_string(path).expect("docs/reference/controllers.md");
    for controller in all() {
        let section = section(&text, controller.name).replace('\n', " ");
        if controller.name != "dalia" {
            // The reconstruction has no source but ours.
            let source = controller.source.to_lowercase();
            assert!(
                section.to_lowercase().contains(&source),
                "{}: no {source}",
                controller.name
            );
        }
        for line in settings(controller) {
            assert!(section.contains(&line), "{}: no {line}", controller.name);
        }
    }
    let headings = text.lines().filter_map(|l| l.strip_prefix("## "));
    for name in headings {
        assert!(find(name).is_some(), "{name} is no controller");
    }
}
