//! Who may do what: a file of names, roles and hashes. The tokens themselves are shown once, when they are made.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};

use crate::{private, wire, Error};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TokenRole {
    /// Asks and reports.
    Device,
    /// Sees the figures and has models fitted anew, too.
    Operator,
}

const ROLES: &[(&str, TokenRole)] = &[
    ("device", TokenRole::Device),
    ("operator", TokenRole::Operator),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenHolder {
    pub name: String,
    pub role: TokenRole,
}

type Hash = [u8; 32];

#[derive(Debug, Default)]
pub struct Tokens(HashMap<Hash, TokenHolder>);

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
    pub fn holder(&self, token: &str) -> Option<&TokenHolder> {
        self.0.get(&hash(token))
    }

    /// Names and roles, in the order of the names.
    pub fn list(&self) -> Vec<(&str, &'static str)> {
        let mut all: Vec<_> = self
            .0
            .values()
            .map(|h| (h.name.as_str(), word(h.role)))
            .collect();
        all.sort_unstable();
        all
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

fn word(role: TokenRole) -> &'static str {
    let found = ROLES.iter().find(|(_, r)| *r == role);
    found.expect("each has a word").0
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn entry(line: &str) -> Option<(Hash, TokenHolder)> {
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
    Some((hash, TokenHolder { name, role }))
}

/// Makes a token, keeps its hash, and returns it.
pub fn create(file: &Path, name: &str, role: TokenRole) -> Result<String, Error> {
    wire::check_name("--new-token", name).map_err(Error::Usage)?;
    let _alone = alone(file)?;
    if Tokens::load(file)?.has(name) {
        return Err(Error::Usage(format!(
            "{}: {name} has a token already: revoke that first (--revoke {name})",
            file.display()
        )));
    }
    let failed = |e: std::io::Error| Error::Failed(format!("{}: {e}", file.display()));
    let mut random = [0; 32];
    File::open("/dev/urandom")
        .and_then(|mut f| f.read_exact(&mut random))
        .map_err(|e| Error::Failed(format!("/dev/urandom: {e}")))?;
    let token = hex(&random);
    let before = std::fs::read(file).unwrap_or_default();
    let mut kept = private::file(file, OpenOptions::new().append(true))?;
    // Root makes tokens for a service that runs as the owner of the folder, and has to be able to read them.
    mp_files::belong_to_folder(&kept, file).map_err(failed)?;
    // An editor may have left the last line without its end.
    let end = match before.last() {
        None | Some(b'\n') => "",
        Some(_) => "\n",
    };
    let line = format!("{end}{name} {} {}\n", word(role), hex(&hash(&token)));
    kept.write_all(line.as_bytes()).map_err(failed)?;
    Ok(token)
}

/// Takes a name's token out of the file. Comments and other lines stay as they are.
pub fn revoke(file: &Path, name: &str) -> Result<(), Error> {
    let _alone = alone(file)?;
    if !Tokens::load(file)?.has(name) {
        return Err(Error::Usage(format!(
            "{}: {name} has no token: --tokens lists those that there are",
            file.display()
        )));
    }
    let failed = |e: std::io::Error| Error::Failed(format!("{}: {e}", file.display()));
    let text = std::fs::read_to_string(file).map_err(failed)?;
    let others = text
        .lines()
        .filter(|line| line.split_whitespace().next() != Some(name));
    let kept: String = others.map(|line| format!("{line}\n")).collect();
    mp_files::replace_private(file, |fresh| fresh.write_all(kept.as_bytes())).map_err(failed)
}

/// One change of the file at a time: held until dropped.
fn alone(file: &Path) -> Result<Flock<File>, Error> {
    let folder = file.parent().unwrap_or(Path::new("."));
    private::folder(folder)?;
    let failed = |e: &dyn std::fmt::Display| Error::Failed(format!("{}: {e}", folder.display()));
    let open = File::open(folder).map_err(|e| failed(&e))?;
    Flock::lock(open, FlockArg::LockExclusive).map_err(|(_, e)| failed(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_known_by_its_hash_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("data/tokens");
        let token = create(&file, "phone-1", TokenRole::Device).unwrap();
        let operator = create(&file, "desk", TokenRole::Operator).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(&token), "{text}");
        let tokens = Tokens::load(&file).unwrap();
        assert_eq!(tokens.holder(&token).unwrap().name, "phone-1");
        assert_eq!(tokens.holder(&operator).unwrap().role, TokenRole::Operator);
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
        create(&file, "a", TokenRole::Device).unwrap();
        let error = create(&file, "a", TokenRole::Device)
            .unwrap_err()
            .to_string();
        assert!(error.contains("has a token already"), "{error}");
        assert!(create(&file, "two words", TokenRole::Device).is_err());
    }

    #[test]
    fn a_last_line_without_its_end_stays_a_line_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        let one = create(&file, "a", TokenRole::Device).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.trim_end()).unwrap();
        let two = create(&file, "b", TokenRole::Device).unwrap();
        let tokens = Tokens::load(&file).unwrap();
        let names = [one, two].map(|token| tokens.holder(&token).unwrap().name.clone());
        assert_eq!(names, ["a", "b"]);
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
    }

    #[test]
    fn a_revoked_token_is_gone_and_the_other_lines_are_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        let [one, two] = ["a", "b"].map(|name| create(&file, name, TokenRole::Device).unwrap());
        let mut text = std::fs::read_to_string(&file).unwrap();
        text += "# a is my phone\n";
        std::fs::write(&file, &text).unwrap();
        revoke(&file, "a").unwrap();
        let tokens = Tokens::load(&file).unwrap();
        assert_eq!(tokens.holder(&one), None);
        assert_eq!(tokens.holder(&two).unwrap().name, "b");
        assert_eq!(tokens.list(), [("b", "device")]);
        let kept: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(
            std::fs::read_to_string(&file)
                .unwrap()
                .lines()
                .collect::<Vec<_>>(),
            kept
        );
        let error = revoke(&file, "a").unwrap_err().to_string();
        assert!(error.contains("a has no token"), "{error}");
        create(&file, "a", TokenRole::Operator).unwrap();
    }

    #[test]
    fn tokens_made_and_revoked_at_once_are_all_there_or_gone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tokens");
        let name = |lane: usize, i: usize| format!("t{lane}-{i}");
        std::thread::scope(|scope| {
            for lane in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for i in 0..10 {
                        create(file, &name(lane, i), TokenRole::Device).unwrap();
                        if i % 2 == 0 {
                            revoke(file, &name(lane, i)).unwrap();
                        }
                    }
                });
            }
        });
        assert_eq!(Tokens::load(&file).unwrap().len(), 20);
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
