// For build scripts: one hash over the sources that decide what a world measures. Records carry it, so that a number that
// is older than the code can be told from one that is not.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// Sets `MP_SOURCE` for the crate that is built: 16 hexadecimal digits over names and contents of all files below `folders`,
/// which are relative to the checkout.
pub fn export(folders: &[&str]) -> io::Result<()> {
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .ok_or_else(|| io::Error::other("CARGO_MANIFEST_DIR is not set"))?;
    let root = Path::new(&manifest).join("../..");
    let mut hash = Sha256::new();
    for folder in folders {
        println!("cargo::rerun-if-changed={}", root.join(folder).display());
        let mut files = Vec::new();
        collect(&root.join(folder), &mut files)?;
        files.sort();
        for file in files {
            let name = file.strip_prefix(&root).map_err(io::Error::other)?;
            let content = fs::read(&file)?;
            hash.update(format!("{}\0{}\0", name.display(), content.len()));
            hash.update(content);
        }
    }
    let digits: String = hash.finalize()[..8]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("cargo::rustc-env=MP_SOURCE={digits}");
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let source = ["rs", "c", "h", "json"];
        if path.is_dir() {
            collect(&path, files)?;
        } else if path
            .extension()
            .is_some_and(|e| source.iter().any(|s| e == *s))
        {
            files.push(path);
        }
    }
    Ok(())
}
