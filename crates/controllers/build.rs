//! Compiles the header of every controller for this machine, each on its own, and writes the table of their hooks; and what
//! the tests look at.

#[path = "src/entries.rs"]
#[allow(dead_code)]
mod entries;

use std::env;
use std::fs;
use std::path::Path;

use entries::{Kind, ENTRIES};

fn main() {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").unwrap()).join("../../controllers");
    println!("cargo:rerun-if-changed=src/entries.rs");
    println!("cargo:rerun-if-changed=src/hooks.c");
    println!("cargo:rerun-if-changed=src/native.c");
    println!("cargo:rerun-if-changed={}", folder.display());
    let mut build = self::build(&folder);
    build.file("src/native.c").compile("mp_controllers");
    let (mut symbols, mut table) = (String::new(), String::new());
    for (index, entry) in ENTRIES.iter().enumerate() {
        let header = entry.header();
        let mut build = self::build(&folder);
        build
            .file("src/hooks.c")
            .define("MP_HEADER", format!("\"{header}.h\"").as_str())
            .define("MP_NAME", header.as_str());
        if entry.kind == Kind::Rate {
            build.define("MP_RATE_BASED", None);
        }
        build.compile(&format!("mp_controller_{header}"));
        symbols += &format!("    static mp_controller_{header}: Hooks;\n");
        table += &format!(
            "    // SAFETY: a constant of hooks.c, whose layout is that of `struct mp_controller`.\n    \
             Controller {{ entry: &ENTRIES[{index}], hooks: unsafe {{ &mp_controller_{header} }} }},\n"
        );
    }
    let text = format!(
        "extern \"C\" {{\n{symbols}}}\n\npub(crate) static CONTROLLERS: &[Controller] = &[\n{table}];\n"
    );
    fs::write(
        Path::new(&env::var("OUT_DIR").unwrap()).join("table.rs"),
        text,
    )
    .unwrap();
}

fn build(headers: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build
        .include(headers)
        .opt_level(2) // the simulator calls these per ACK, in debug builds too
        .flag("-fno-strict-aliasing")
        .flag("-fwrapv") // as BPF wraps: both builds must agree on any words whatever
        .flag("-Wall")
        .flag("-Wextra");
    // What a newer compiler warns of is for those who run the tests, and no reason not to build.
    if env::var("PROFILE").as_deref() == Ok("debug") {
        build.flag("-Werror");
    }
    build
}
