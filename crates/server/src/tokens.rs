//! Who may do what: a file of names, roles and hashes. The tokens themselves are shown once, when they are made.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{fchown, MetadataExt, OpenOptionsExt};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::{wire, Error};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Asks and reports.
    Device,
    /// Sees the figures and has models fitted anew, too.
    Operator,
}

const ROLES: &[(&str, Role)] = &[("device", Role::Device), ("operator", Role::Operator)];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    pub name: String,
    pub role: Role,
}

type Hash = [u8; 32];

#[derive(Debug, Default)]
pub struct Tokens(HashMap<Hash, Holder>);

impl Tokens {
    /// A file that is not there holds none.
    pub fn load(file: &Path) -> Result<Tokens, Error> {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(Error::Usage(format!("{}: {e}", file.display()))),
        };
        let mut tokens = Tokens::default();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (hash, holder) = entry(line).ok_or_else(|| {
                Error::Usage(format!(
                    "{}:{}: expected NAME, device or operator, and the SHA-256 of the token (multipilot serve \
                     --new-token NAME writes such a line)",
                    file.display(),
                    number + 1
                ))
            })?;
            tokens.0.insert(hash, holder);
        }
        Ok(tokens)
    }

    /// Found by its hash, so that the time that this takes says nothing about the token.
    pub fn holder(&self, token: &str) -> Option<&Holder> {
        self.0.get(&hash(token))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.values().any(|h| h.name == name)
    }
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn entry(line: &str) -> Option<(Hash, Holder)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, role, hex] = words[..] else {
        return None;
    };
    let (_, role) = *ROLES.iter().find(|(word, _)| *word == role)?;
    if hex.len() != 64 || !hex.is_ascii() {
        return None;
    }
    let mut hash = [0; 32];
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).ok()?;
    }
    let name = name.to_owned();
    Some((hash, Holder { name, role }))
}

/// Makes a token, keeps its hash, and returns it.
pub fn create(file: &Path, name: &str, role: Role) -> Result<String, Error> {
    wire::check_name("--new-token", name).map_err(Error::Usage)?;
    if Tokens::load(file)?.has(name) {
        return Err(Error::Usage(format!(
            "{}: {name} has a token already: take its line out first",
            file.display()
        )));
    }
    let failed = |e: std::io::Error| Error::Failed(format!("{}: {e}", file.display()));
    let mut random = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut random))
        .map_err(|e| Error::Failed(format!("/dev/urandom: {e}")))?;
    let token = hex(&random);
    let (word, _) = ROLES.iter().find(|(_, r)| *r == role).expect("a role");
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(file)
        .and_then(|mut f| {
            belong_to_folder(&f, file)?;
            writeln!(f, "{name} {word} {}", hex(&hash(&token)))
        })
        .map_err(failed)?;
    Ok(token)
}

/// Root makes tokens for a service that runs as the owner of the folder, and has to be able to read them.
fn belong_to_folder(tokens: &File, path: &Path) -> std::io::Result<()> {
    let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) else {
        return Ok(());
    };
    let (own, folder) = (tokens.metadata()?, std::fs::metadata(folder)?);
    if own.uid() == 0 && folder.uid() != 0 {
        fchown(tokens, Some(folder.uid()), Some(folder.gid()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/tokens");
        let token = create(&file, "phone-1", Role::Device).unwrap();
        let operator = create(&file, "desk", Role::Operator).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&token), "{text}");
        let tokens = Tokens::load(&file).unwrap();
        assert_eq!(tokens.holder(&token).unwrap().name, "phone-1");
        assert_eq!(tokens.holder(&operator).unwrap().role, Role::Operator);
        assert_eq!(tokens.holder("wrong"), None);
        assert_eq!(tokens.holder(""), None);
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "nobody else reads it");
    }

    #[test]
    fn a_name_has_one_token() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        create(&file, "a", Role::Device).unwrap();
        let error = create(&file, "a", Role::Device).unwrap_err().to_string();
        assert!(error.contains("has a token already"), "{error}");
        assert!(create(&file, "two words", Role::Device).is_err());
    }

    #[test]
    fn a_wrong_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        for wrong in [
            "a device 12",
            "a chief 00",
            "a device",
            "ä device ääääääääääääääääääääääääääääääää",
        ] {
            std::fs::write(&file, format!("# tokens\n\n{wrong}\n")).unwrap();
            let error = Tokens::load(&file).unwrap_err().to_string();
            assert!(error.contains("tokens:3: expected NAME"), "{error}");
        }
    }
}
