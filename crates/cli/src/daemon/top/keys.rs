//! Keys, while top shows its page.

use std::io::{self, IsTerminal};
use std::time::Duration;

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::read;
use rustix::termios::{tcgetattr, tcsetattr, LocalModes, OptionalActions, Termios};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Quit,
    /// Lines down.
    Lines(isize),
    /// Pages down.
    Pages(isize),
    First,
    Last,
}

/// Keys arrive at once and unseen, until dropped.
pub struct Keys(Option<Termios>);

impl Keys {
    /// Where stdin is no terminal there are none.
    pub fn listen() -> Keys {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin).ok().filter(|_| stdin.is_terminal());
        if let Some(before) = &before {
            let mut now = before.clone();
            // Ctrl-C goes on to be a signal.
            now.local_modes
                .remove(LocalModes::ICANON | LocalModes::ECHO);
            let _ = tcsetattr(&stdin, OptionalActions::Now, &now);
        }
        Keys(before)
    }

    pub fn wait(&self, at_most: Duration) -> Option<Key> {
        if self.0.is_none() {
            std::thread::sleep(at_most);
            return None;
        }
        let stdin = io::stdin();
        let wait = Timespec::try_from(at_most).ok();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        // A signal ends the wait: the page is drawn again, in the terminal's new size.
        if poll(&mut ready, wait.as_ref()).unwrap_or(0) == 0 {
            return None;
        }
        let mut bytes = [0; 16];
        match read(&stdin, &mut bytes) {
            // The terminal is gone.
            Ok(0) | Err(_) => Some(Key::Quit),
            Ok(length) => key(&bytes[..length]),
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

/// As terminals that follow xterm send them, and as `less` has them.
fn key(bytes: &[u8]) -> Option<Key> {
    Some(match bytes {
        b"q" | b"Q" => Key::Quit,
        b"j" | b"\n" | b"\x1b[B" | b"\x1bOB" => Key::Lines(1),
        b"k" | b"\x1b[A" | b"\x1bOA" => Key::Lines(-1),
        b" " | b"f" | b"\x1b[6~" => Key::Pages(1),
        b"b" | b"\x1b[5~" => Key::Pages(-1),
        b"g" | b"\x1b[H" | b"\x1b[1~" => Key::First,
        b"G" | b"\x1b[F" | b"\x1b[4~" => Key::Last,
        _ => return None,
    })
}
