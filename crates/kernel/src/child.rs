//! Runs a program as if it had been called in our place: its signals and its exit code are its own.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

const FORWARDED: [i32; 6] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

static CHILD: AtomicI32 = AtomicI32::new(0);
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Starts the program and waits for it. Signals that are sent to us go on to it; those that a terminal sends (Ctrl-C)
/// reach its whole process group and are not doubled. One child at a time.
pub fn run(command: &mut Command) -> io::Result<ExitStatus> {
    for signal in FORWARDED {
        // SAFETY: an all-zero sigaction is valid; the handler calls nothing but kill(2).
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = forward as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
    let mut child: Child = command.spawn()?;
    CHILD.store(child.id() as i32, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 {
        // SAFETY: not waited for yet, so the number is still the child's.
        unsafe { libc::kill(child.id() as i32, early) };
    }
    let status = child.wait();
    CHILD.store(0, Ordering::SeqCst);
    status
}

extern "C" fn forward(signal: i32, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes the signal's description.
    let from_a_process = unsafe { (*info).si_code } <= 0; // SI_USER, SI_QUEUE, SI_TKILL
    match CHILD.load(Ordering::SeqCst) {
        0 => EARLY.store(signal, Ordering::SeqCst),
        // SAFETY: kill(2) may be called from a handler.
        child if from_a_process => drop(unsafe { libc::kill(child, signal) }),
        _ => {}
    }
}
