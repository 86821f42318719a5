//! The relay's register: which device's key belongs to which line, and lines that no device has used yet.
//!
//! One file, changed under a lock: `multipilot relay --new-device` writes to it while the relay runs.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::num::NonZeroUsize;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use data_encoding::HEXLOWER;
use lru::LruCache;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::keys::{self, Identity, PublicKey, Secret};
use crate::wire::{DatagramKnock, Knock, Line, ID_LENGTH};
use crate::Error;

/// A new line is to be used within this time.
pub const VALID: Duration = Duration::from_secs(600);
/// So many knocks of each device are remembered, so that none is answered twice.
const NONCES: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
/// Others change the file for so long at most …
const LOCKED: Duration = Duration::from_secs(2);
/// … and are looked for as often as this.
const AGAIN: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Entry {
    name: String,
    /// Hexadecimal, as all that follow.
    id: String,
    secret: String,
    /// Unix time until which a device may enrol, s.
    expires: u64,
    /// Of the device that has enrolled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    #[serde(default, rename = "device")]
    devices: Vec<Entry>,
}

/// For people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    pub name: String,
    pub state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Enrolled,
    /// Its line may be used for so long.
    Pending(Duration),
    Expired,
}

/// What is in a relay's folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Before the first start there is none.
    pub key: Option<PublicKey>,
    pub devices: Vec<Listed>,
    /// Files with secrets that other users may read or write.
    pub exposed: Vec<PathBuf>,
}

/// The relay's folder.
#[derive(Debug, Clone)]
pub struct Store {
    folder: PathBuf,
}

impl Store {
    /// Makes the folder where there is none.
    pub fn open(folder: &Path) -> Result<Store, Error> {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder);
        made.map_err(|e| match e.kind() {
            ErrorKind::PermissionDenied => Error::Usage(format!(
                "{}: this user may not write there: run it as root, or give the relay a folder of its own (--state)",
                folder.display()
            )),
            _ => Error::failed(folder.display(), e),
        })?;
        Ok(Store {
            folder: folder.to_owned(),
        })
    }

    /// Reads what is in a folder, and changes nothing.
    pub fn check(folder: &Path) -> Result<Found, Error> {
        let store = Store {
            folder: folder.to_owned(),
        };
        let key = Identity::read(&store.key())?;
        for entry in store.load()?.devices {
            if known(&entry).is_none() {
                return Err(Error::Usage(format!(
                    "{}: device {}: id, secret or key is damaged; multipilot relay --forget {} removes it",
                    store.file().display(),
                    entry.name,
                    entry.name
                )));
            }
        }
        let others = |file: &PathBuf| fs::metadata(file).is_ok_and(|m| m.mode() & 0o077 != 0);
        let mut exposed = vec![store.key(), store.file()];
        exposed.retain(others);
        Ok(Found {
            key: key.map(|identity| identity.public()),
            devices: store.list()?,
            exposed,
        })
    }

    fn key(&self) -> PathBuf {
        self.folder.join("relay.key")
    }

    pub fn identity(&self) -> Result<Identity, Error> {
        Identity::open(&self.key())
    }

    /// Host and port that devices connect to, as the relay was last started.
    pub fn place(&self) -> Option<(String, u16)> {
        let text = fs::read_to_string(self.folder.join("address")).ok()?;
        let (host, port) = text.trim().rsplit_once(' ')?;
        Some((host.to_owned(), port.parse().ok()?))
    }

    pub fn set_place(&self, (host, port): &(String, u16)) -> Result<(), Error> {
        let file = self.folder.join("address");
        mp_files::replace(&file, format!("{host} {port}\n").as_bytes())
            .map_err(|e| Error::failed(file.display(), e))
    }

    fn file(&self) -> PathBuf {
        self.folder.join("devices.toml")
    }

    fn load(&self) -> Result<Listing, Error> {
        let file = self.file();
        match fs::read_to_string(&file) {
            Ok(text) => toml::from_str(&text)
                .map_err(|e| Error::Usage(format!("{}: {}", file.display(), e.message()))),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Listing::default()),
            Err(e) => Err(Error::failed(file.display(), e)),
        }
    }

    /// Nobody else changes the file meanwhile. What `change` returns, unless it fails; then nothing is written.
    fn change<T>(&self, change: impl FnOnce(&mut Listing) -> Result<T, Error>) -> Result<T, Error> {
        let lock = self.folder.join("lock");
        // The folder may be another user's, whose link would lead root elsewhere.
        let open = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(nix::libc::O_NOFOLLOW)
            .open(&lock)
            .and_then(|file| mp_files::belong_to_folder(&file, &lock).map(|()| file))
            .map_err(|e| Error::failed(lock.display(), e))?;
        let _held = hold(open, LOCKED).map_err(|e| Error::failed(lock.display(), e))?;
        let mut listing = self.load()?;
        let result = change(&mut listing)?;
        let file = self.file();
        let text = toml::to_string(&listing).map_err(|e| Error::failed(file.display(), e))?;
        mp_files::replace_private(&file, |fresh| fresh.write_all(text.as_bytes()))
            .map_err(|e| Error::failed(file.display(), e))?;
        Ok(result)
    }

    /// A line for one more device, under a name of its own.
    pub fn add(&self, name: &str, host: &str, port: u16) -> Result<Line, Error> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
            return Err(Error::Usage(format!(
                "device name {name:?}: letters, digits and -_. are allowed"
            )));
        }
        let line = Line {
            host: host.to_owned(),
            port,
            key: self.identity()?.public(),
            secret: keys::random(),
        };
        let secret = Secret::derive(&line.secret);
        let now = unix_time();
        self.change(|listing| {
            listing
                .devices
                .retain(|d| d.key.is_some() || d.expires > now);
            if listing.devices.iter().any(|d| d.name == name) {
                return Err(Error::Usage(format!(
                    "there is a device {name} already: multipilot relay --forget {name} removes it"
                )));
            }
            listing.devices.push(Entry {
                name: name.to_owned(),
                id: HEXLOWER.encode(&secret.id),
                secret: HEXLOWER.encode(&secret.key),
                expires: now + VALID.as_secs(),
                key: None,
            });
            Ok(())
        })?;
        Ok(line)
    }

    pub fn forget(&self, name: &str) -> Result<(), Error> {
        self.change(|listing| {
            let before = listing.devices.len();
            listing.devices.retain(|d| d.name != name);
            match listing.devices.len() == before {
                true => Err(Error::Usage(format!(
                    "there is no device {name}; see multipilot relay --devices"
                ))),
                false => Ok(()),
            }
        })
    }

    pub fn list(&self) -> Result<Vec<Listed>, Error> {
        let now = unix_time();
        let state = |d: &Entry| match (&d.key, d.expires.checked_sub(now)) {
            (Some(_), _) => State::Enrolled,
            (None, Some(left)) if left > 0 => State::Pending(Duration::from_secs(left)),
            _ => State::Expired,
        };
        let listing = self.load()?;
        Ok(listing
            .devices
            .iter()
            .map(|d| Listed {
                name: d.name.clone(),
                state: state(d),
            })
            .collect())
    }

    /// The first device that comes with this line's secret owns it. Whether `key` is that device's.
    fn enrol(&self, id: &[u8; ID_LENGTH], key: &PublicKey) -> Result<bool, Error> {
        let (id, key) = (HEXLOWER.encode(id), HEXLOWER.encode(key));
        let now = unix_time();
        self.change(|listing| {
            let Some(device) = listing.devices.iter_mut().find(|d| d.id == id) else {
                return Ok(false);
            };
            if device.key.is_none() && device.expires > now {
                device.key = Some(key.clone());
            }
            Ok(device.key.as_ref() == Some(&key))
        })
    }
}

/// Tries for so long: a process that was stopped under the lock is not to stop the relay too.
fn hold(mut file: File, patience: Duration) -> Result<Flock<File>, Errno> {
    let start = Instant::now();
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(held) => return Ok(held),
            Err((back, Errno::EWOULDBLOCK)) if start.elapsed() < patience => file = back,
            Err((_, e)) => return Err(e),
        }
        sleep(AGAIN);
    }
}

fn unix_time() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |t| t.as_secs())
}

#[derive(Debug)]
struct Known {
    secret: Secret,
    key: Option<PublicKey>,
    expires: u64,
}

impl Known {
    /// For a device that has enrolled, or one that still may.
    fn is_usable(&self) -> bool {
        self.key.is_some() || self.expires > unix_time()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The register as the running relay has it.
#[derive(Debug)]
pub struct Register {
    store: Store,
    /// The file that was read, and its time then. It is kept open: a clock tick is long, and the number of an inode that
    /// nobody holds serves the next file.
    read: Option<(File, SystemTime)>,
    /// Why it could not be read last, as it was told.
    failed: Option<String>,
    /// The same of a device that could not enrol.
    unwritten: Option<String>,
    known: HashMap<[u8; ID_LENGTH], Known>,
    nonces: HashMap<[u8; ID_LENGTH], LruCache<[u8; 16], ()>>,
}

impl Register {
    pub fn new(store: Store) -> Result<Register, Error> {
        let mut register = Register {
            store,
            read: None,
            failed: None,
            unwritten: None,
            known: HashMap::new(),
            nonces: HashMap::new(),
        };
        register.refresh()?;
        Ok(register)
    }

    /// Reads the file again where it has changed.
    fn refresh(&mut self) -> Result<(), Error> {
        let same = |(file, then): &(File, SystemTime)| {
            let (held, now) = (file.metadata().ok()?, fs::metadata(self.store.file()).ok()?);
            Some(held.ino() == now.ino() && now.modified().ok()? == *then)
        };
        if self.read.as_ref().and_then(same) == Some(true) {
            return Ok(());
        }
        let read = File::open(self.store.file())
            .and_then(|file| file.metadata()?.modified().map(|time| (file, time)));
        let listing = self.store.load()?;
        self.known = listing.devices.iter().filter_map(known).collect();
        self.nonces.retain(|id, _| self.known.contains_key(id));
        self.read = read.ok();
        Ok(())
    }

    /// A file that cannot be read changes nothing for the devices that are known.
    fn follow(&mut self) {
        let failed = self.refresh().err().map(|e| e.to_string());
        if let Some(why) = failed.as_ref().filter(|_| failed != self.failed) {
            eprintln!("multipilot: the devices stay as they were: {why}");
        }
        self.failed = failed;
    }

    /// The secret that a knock was made with, unless it was not, or was there before.
    pub fn admit(&mut self, knock: &Knock) -> Option<Secret> {
        self.follow();
        let known = self.known.get(&knock.id)?;
        let valid = known.is_usable() && known.secret.verifies(knock);
        let secret = valid.then(|| known.secret.clone())?;
        self.is_new(&secret, knock.nonce).then_some(secret)
    }

    /// The same on the datagram lane.
    pub fn admit_datagram(&mut self, knock: &DatagramKnock) -> Option<Secret> {
        self.follow();
        let valid = |known: &&Known| {
            known.secret.id.starts_with(&knock.id)
                && known.is_usable()
                && known.secret.verifies_datagram(knock)
        };
        let secret = self.known.values().find(valid)?.secret.clone();
        let mut nonce = [0; 16];
        nonce[..knock.nonce.len()].copy_from_slice(&knock.nonce);
        self.is_new(&secret, nonce).then_some(secret)
    }

    fn is_new(&mut self, secret: &Secret, nonce: [u8; 16]) -> bool {
        let seen = self.nonces.entry(secret.id);
        let seen = seen.or_insert_with(|| LruCache::sparse(NONCES));
        seen.put(nonce, ()).is_none()
    }

    /// Whether the device has not been removed.
    pub fn knows(&mut self, id: &[u8; ID_LENGTH]) -> bool {
        self.follow();
        self.known.contains_key(id)
    }

    /// Whether the device of this key may come with this line: it has enrolled with it, or it does so now.
    pub fn accepts(&mut self, secret: &Secret, key: &PublicKey) -> Result<bool, Error> {
        match self.known.get(&secret.id).map(|known| known.key) {
            Some(Some(enrolled)) => Ok(enrolled == *key),
            Some(None) => {
                let enrolled = self.store.enrol(&secret.id, key);
                let why = enrolled.as_ref().err().map(|e| e.to_string());
                if let Some(why) = why.as_ref().filter(|_| why != self.unwritten) {
                    eprintln!("multipilot: a device could not enrol: {why}");
                }
                self.unwritten = why;
                let mine = enrolled?;
                self.read = None;
                self.refresh()?;
                Ok(mine)
            }
            None => Ok(false),
        }
    }
}

fn known(entry: &Entry) -> Option<([u8; ID_LENGTH], Known)> {
    let bytes = |hex: &str| HEXLOWER.decode(hex.as_bytes()).ok();
    let id = bytes(&entry.id)?.try_into().ok()?;
    let key = match &entry.key {
        Some(key) => Some(bytes(key)?.try_into().ok()?),
        None => None,
    };
    let secret = Secret {
        id,
        key: bytes(&entry.secret)?.try_into().ok()?,
    };
    Some((
        id,
        Known {
            secret,
            key,
            expires: entry.expires,
        },
    ))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("relay")).unwrap();
        (folder, store)
    }

    #[test]
    fn a_line_belongs_to_the_first_device_that_uses_it() {
        let (_folder, store) = store();
        let mut register = Register::new(store.clone()).unwrap();
        let line = store.add("phone", "relay.example", 443).unwrap();
        let secret = Secret::derive(&line.secret);
        assert_eq!(
            register.admit(&secret.knock()),
            Some(secret.clone()),
            "a relay that runs sees new lines"
        );
        assert!(register.accepts(&secret, &[1; 32]).unwrap());
        assert!(!register.accepts(&secret, &[2; 32]).unwrap());
        assert!(register.accepts(&secret, &[1; 32]).unwrap());
        assert!(
            Register::new(store.clone())
                .unwrap()
                .accepts(&secret, &[1; 32])
                .unwrap(),
            "a restart forgets nothing"
        );
        assert_eq!(
            store.list().unwrap(),
            [Listed {
                name: "phone".into(),
                state: State::Enrolled
            }]
        );
        assert!(register.knows(&secret.id));
        store.forget("phone").unwrap();
        assert!(!register.knows(&secret.id), "a relay that runs sees it");
        assert_eq!(register.admit(&secret.knock()), None);
        assert!(store.forget("phone").is_err());
    }

    #[test]
    fn a_lock_that_another_keeps_is_not_waited_for_without_end() {
        let (_folder, store) = store();
        let lock = || File::create(store.folder.join("lock")).unwrap();
        let held = hold(lock(), Duration::ZERO).unwrap();
        let refused = hold(lock(), Duration::ZERO).map(drop);
        assert_eq!(refused, Err(Errno::EWOULDBLOCK));
        drop(held);
        assert!(hold(lock(), Duration::ZERO).is_ok());
    }

    #[test]
    fn an_enrolment_that_fails_is_told_once() {
        let (_folder, store) = store();
        let secret = Secret::derive(&store.add("a", "h", 1).unwrap().secret);
        let mut register = Register::new(store.clone()).unwrap();
        // Root cannot open that either.
        let lock = store.folder.join("lock");
        fs::remove_file(&lock).unwrap();
        fs::create_dir(&lock).unwrap();
        assert!(register.accepts(&secret, &[1; 32]).is_err());
        assert!(register.unwritten.as_ref().unwrap().contains("lock"));
        fs::remove_dir(&lock).unwrap();
        assert!(register.accepts(&secret, &[1; 32]).unwrap());
        assert_eq!(register.unwritten, None);
    }

    #[test]
    fn changes_within_one_tick_of_the_clock_are_seen() {
        let (_folder, store) = store();
        let mut register = Register::new(store.clone()).unwrap();
        for turn in 0..50 {
            let line = store.add("phone", "relay.example", 443).unwrap();
            let secret = Secret::derive(&line.secret);
            assert!(register.admit(&secret.knock()).is_some(), "{turn}");
            store.forget("phone").unwrap();
            assert_eq!(register.admit(&secret.knock()), None, "{turn}");
        }
    }

    #[test]
    fn a_knock_counts_once() {
        let (_folder, store) = store();
        let secret = Secret::derive(&store.add("a", "h", 1).unwrap().secret);
        let mut register = Register::new(store).unwrap();
        let knock = secret.knock();
        assert!(register.admit(&knock).is_some());
        assert!(register.admit(&knock).is_none());
        let mut datagram = secret.datagram_knock();
        assert!(register.admit_datagram(&datagram).is_some());
        assert!(register.admit_datagram(&datagram).is_none());
        datagram.nonce[0] ^= 1;
        assert!(register.admit_datagram(&datagram).is_none());
        assert!(register.admit(&Secret::derive(&[9; 16]).knock()).is_none());
        for _ in 0..2 * NONCES.get() {
            assert!(register.is_new(&secret, keys::random()));
        }
        assert_eq!(register.nonces[&secret.id].len(), NONCES.get());
    }

    #[test]
    fn an_old_line_enrols_nobody() {
        let (_folder, store) = store();
        let secret = Secret::derive(&store.add("a", "h", 1).unwrap().secret);
        store
            .change(|listing| {
                listing.devices[0].expires = 1;
                Ok(())
            })
            .unwrap();
        let mut register = Register::new(store.clone()).unwrap();
        assert_eq!(register.admit(&secret.knock()), None);
        assert!(!register.accepts(&secret, &[1; 32]).unwrap());
        assert_eq!(store.list().unwrap()[0].state, State::Expired);
        assert!(store.add("a", "h", 1).is_ok(), "its name is free again");
    }

    #[test]
    fn a_check_reads_everything_and_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let none = folder.path().join("none");
        let found = Store::check(&none).unwrap();
        assert_eq!((found.key, found.devices.len()), (None, 0));
        assert!(!none.exists());

        let store = Store::open(&folder.path().join("relay")).unwrap();
        let line = store.add("phone", "h", 1).unwrap();
        let found = Store::check(&store.folder).unwrap();
        assert_eq!(found.key, Some(line.key));
        assert_eq!(found.devices, store.list().unwrap());
        assert_eq!(found.exposed, Vec::<PathBuf>::new());
        let open = fs::Permissions::from_mode(0o644);
        fs::set_permissions(store.key(), open).unwrap();
        assert_eq!(Store::check(&store.folder).unwrap().exposed, [store.key()]);

        let text = fs::read_to_string(store.file()).unwrap();
        let damaged = text.replace("secret = \"", "secret = \"0");
        fs::write(store.file(), damaged).unwrap();
        let refused = Store::check(&store.folder).unwrap_err().to_string();
        assert!(refused.contains("device phone"), "{refused}");
        fs::write(store.file(), text.replace("name =", "name")).unwrap();
        assert!(Store::check(&store.folder).is_err());
    }

    #[test]
    fn what_root_adds_to_the_folder_of_a_user_is_the_users() {
        if !crate::is_root() {
            eprintln!("left out: giving files away needs root");
            return;
        }
        let (folder, store) = store();
        std::os::unix::fs::chown(&store.folder, Some(12345), Some(12345)).unwrap();
        store.add("a", "h", 1).unwrap();
        for entry in fs::read_dir(&store.folder).unwrap() {
            let path = entry.unwrap().path();
            assert_eq!(fs::metadata(&path).unwrap().uid(), 12345, "{path:?}");
        }
        drop(folder);
    }

    #[test]
    fn a_file_that_cannot_be_read_changes_nothing_for_known_devices() {
        let (_folder, store) = store();
        let line = store.add("a", "h", 1).unwrap();
        let secret = Secret::derive(&line.secret);
        let mut register = Register::new(store.clone()).unwrap();
        fs::write(store.file(), "devices = 3").unwrap();
        assert!(register.admit(&secret.knock()).is_some());
        assert!(register.failed.as_ref().unwrap().contains("devices.toml"));
    }

    #[test]
    fn names_are_plain_and_unique() {
        let (_folder, store) = store();
        store.add("a", "h", 1).unwrap();
        assert!(store
            .add("a", "h", 1)
            .unwrap_err()
            .to_string()
            .contains("--forget a"));
        assert!(store.add("two words", "h", 1).is_err());
        let mode = fs::metadata(store.file()).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
}
