//! Embeds `scenarios/`, so that a program works alone, on a machine that has nothing else of multipilot.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Asked as it runs: a build folder may have been moved with its checkout.
    let root = folder("CARGO_MANIFEST_DIR")?
        .join("../../scenarios")
        .canonicalize()?;
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let mut code = String::from("pub static FILES: &[(&str, &[u8])] = &[\n");
    for file in files {
        let name = file.strip_prefix(&root).map_err(io::Error::other)?;
        let _ = writeln!(
            code,
            "    ({:?}, include_bytes!({:?})),",
            name.display().to_string(),
            file.display().to_string()
        );
    }
    code += "];\n";
    fs::write(folder("OUT_DIR")?.join("scenarios.rs"), code)
}

/// A folder that cargo names in the environment.
fn folder(variable: &str) -> io::Result<PathBuf> {
    let missing = || io::Error::other(format!("{variable} is not set"));
    env::var_os(variable).map(PathBuf::from).ok_or_else(missing)
}

/// Scenarios and the traces that they may name.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let wanted = path
            .extension()
            .is_some_and(|e| ["toml", "csv", "mahi", "gz"].iter().any(|w| e == *w));
        if path.is_dir() {
            println!("cargo::rerun-if-changed={}", path.display());
            collect(&path, files)?;
        } else if wanted {
            files.push(path);
        }
    }
    Ok(())
}
