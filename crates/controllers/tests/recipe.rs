//! The recipe of CONTRIBUTING.md, "Adding a congestion controller", followed in a copy of the tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Reno with a part of its growth.
const HEADER: &str = "\
/* SPDX-License-Identifier: (MIT OR Apache-2.0) OR GPL-2.0-only */
/*
 * Reno with a part of its growth, on each subflow.
 *
 *   per acknowledged packet  w += g/w
 *   on a loss event          w -= w/2
 *
 * Parameters: 0 part, thousandths, default 500: g.
 */
#ifndef MP_SLOW_RENO_H
#define MP_SLOW_RENO_H

#include \"mp_window.h\"

enum { SLOW_RENO_PART };

MP_INLINE void slow_reno_on_ack(struct mp_connection *c, mp_u32 i, const struct mp_ack *ack)
{
	struct mp_subflow *self = mp_self(c, i);
	mp_u64 acked = mp_slow_start(self, ack), part = c->parameters[SLOW_RENO_PART];

	if (acked)
		mp_grow(self, mp_scaled_growth(self, acked, part, 0, 1000));
}

MP_STATELESS_HALVING(slow_reno)

MP_INLINE void slow_reno_on_close(struct mp_connection *c, mp_u32 i)
{
	(void)c, (void)i;
}

#endif
";

const ENTRY: &str = "
    Entry {
        name: \"slow-reno\",
        summary: \"Reno with a part of its growth\",
        source: \"an example\",
        kind: Kind::Window,
        coupled: false,
        scheduled_parameter: None,
        parameters: &[Parameter {
            name: \"part\",
            unit: Unit::Thousandths,
            default: 500,
            least: 1,
            most: 1_000,
            about: \"part of Reno's growth\",
        }],
    },";

const TEST: &str = "
mod common;

use common::{ack, assert_close, connection, controller, growth, subflow};

#[test]
fn the_window_grows_by_a_part_of_renos() {
    let slow = controller(\"slow-reno\");
    for w in [2, 10, 1000, 100_000] {
        let mut c = connection(slow, &[subflow(w, 20_000)]);
        assert_close(growth(slow, &c, 0, &ack(1)), 0.5 / w as f64);
        c.parameters[slow.check(\"part\", 100).unwrap()] = 100;
        assert_close(growth(slow, &c, 0, &ack(1)), 0.1 / w as f64);
    }
}
";

const PAGE: &str = "
## slow-reno
w += g/w on each subflow. An example.

| setting | unit | default | range | |
| --- | --- | --- | --- | --- |
| `part` | thousandths | 500 | 1 to 1000 | g |
";

#[test]
fn a_controller_is_a_header_an_entry_a_test_and_a_section() {
    let tree = copy();
    let file = |path: &str| tree.join(path);
    // 1. The header.
    fs::write(file("controllers/slow_reno.h"), HEADER).unwrap();
    // 2. The entry.
    edit(&file("crates/controllers/src/entries.rs"), |text| {
        let list = "pub const ENTRIES: &[Entry] = &[";
        assert!(text.contains(list), "the list has another beginning");
        text.replacen(list, &format!("{list}{ENTRY}"), 1)
    });
    // 3. The test.
    fs::write(file("crates/controllers/tests/slow_reno.rs"), TEST).unwrap();
    // 4. The section of the reference.
    edit(&file("docs/reference/controllers.md"), |text| text + PAGE);

    // The tests that find it by the registry, and its own.
    let output = Command::new(env!("CARGO"))
        .args([
            "test",
            "--offline",
            "--locked",
            "--package",
            "mp-controllers",
        ])
        .args(["slow_reno", "window", "headers", "docs"].map(|test| format!("--test={test}")))
        .current_dir(&tree)
        // Not that of this build: cargo would take the copy's crates for those here, whose paths are the same.
        .env("CARGO_TARGET_DIR", copies("target"))
        .output()
        .expect("cargo runs this test");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(
        out.contains("test the_window_grows_by_a_part_of_renos ... ok"),
        "{out}"
    );
}

fn edit(file: &Path, change: impl FnOnce(String) -> String) {
    let text = fs::read_to_string(file).unwrap();
    fs::write(file, change(text)).unwrap();
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A folder of this test's that stays, so that a second run finds what others have written compiled already.
fn copies(name: &str) -> PathBuf {
    let own = Path::new(env!("CARGO_TARGET_TMPDIR"));
    own.join("recipe").join(name)
}

/// What cargo needs of the tree to build one crate.
fn copy() -> PathBuf {
    let tree = copies("tree");
    let _ = fs::remove_dir_all(&tree);
    for part in [
        "Cargo.toml",
        "Cargo.lock",
        "controllers",
        "crates",
        "python/Cargo.toml",
        "python/src",
        "docs/reference",
    ] {
        copy_to(&root().join(part), &tree.join(part));
    }
    tree
}

/// With its times: cargo builds only what changed.
fn copy_to(from: &Path, to: &Path) {
    if from.is_dir() {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            copy_to(&entry.path(), &to.join(entry.file_name()));
        }
        return;
    }
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    fs::copy(from, to).unwrap();
    let time = fs::metadata(from).and_then(|meta| meta.modified()).unwrap();
    let copied = fs::File::options().write(true).open(to).unwrap();
    copied.set_modified(time).unwrap();
}
