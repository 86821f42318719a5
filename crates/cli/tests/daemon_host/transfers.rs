//! MPTCP connections between the hosts, and what goes over them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::hosts::{until, PATIENCE, SERVER};

/// Accepts until dropped.
pub struct Service {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    pub fn start(
        listener: TcpListener,
        mut serve: impl FnMut(TcpStream) + Send + 'static,
    ) -> Service {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        listener.set_nonblocking(true).unwrap();
        let accept = move || {
            while !stopped.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).unwrap();
                        serve(stream);
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        };
        Service {
            thread: Some(std::thread::spawn(accept)),
            stop,
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Sends a known sequence until nobody reads it.
pub fn flood(mut stream: TcpStream) {
    std::thread::spawn(move || {
        let blocks = (0..).step_by(16_384);
        let mut blocks = blocks.map(|at| (at..at + 16_384).map(byte).collect::<Vec<u8>>());
        blocks.all(|block| stream.write_all(&block).is_ok())
    });
}

/// No period that a lost or doubled block could hide in.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

pub struct Download {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<(), String>>>,
}

impl Download {
    pub fn start(mut stream: TcpStream) -> Download {
        let (received, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (count, stopped) = (received.clone(), stop.clone());
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let thread = std::thread::spawn(move || {
            let mut block = vec![0; 65_536];
            while !stopped.load(Ordering::Relaxed) {
                let at = count.load(Ordering::Relaxed);
                let length = stream
                    .read(&mut block)
                    .map_err(|e| format!("at {at}: {e}"))?;
                let wrong = (at..)
                    .zip(&block[..length])
                    .find(|(at, b)| byte(*at) != **b);
                if wrong.is_some() || length == 0 {
                    return Err(format!("at {at}: {length} bytes, wrong: {wrong:?}"));
                }
                count.fetch_add(length as u64, Ordering::Relaxed);
            }
            // Closed with unread data it ends at once; else the kernel waits a minute for what the peer may still say
            // (net.mptcp.close_timeout).
            let rest = stream.peek(&mut [0]);
            rest.map(drop).map_err(|e| e.to_string())
        });
        Download {
            received,
            stop,
            thread: Some(thread),
        }
    }

    /// Waits until more has come.
    #[track_caller]
    pub fn goes_on(&self) {
        let before = self.received.load(Ordering::Relaxed);
        until("the download goes on", || {
            self.received.load(Ordering::Relaxed) > before + 500_000
        });
    }

    /// Every byte was right.
    #[track_caller]
    pub fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("ended once");
        thread.join().unwrap().expect("the download is whole");
    }
}

fn mptcp_socket() -> OwnedFd {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: a fresh descriptor that nothing else owns.
    unsafe {
        let fd = libc::socket(libc::AF_INET, kind, libc::IPPROTO_MPTCP);
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(fd)
    }
}

fn address(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(SERVER).to_be(),
        },
        sin_zero: [0; 8],
    }
}

const LENGTH: u32 = size_of::<libc::sockaddr_in>() as u32;

pub fn mptcp_listener(port: u16, queue: usize) -> TcpListener {
    let (socket, at) = (mptcp_socket(), address(port));
    // SAFETY: a valid descriptor and address.
    let failed = unsafe {
        libc::bind(socket.as_raw_fd(), (&raw const at).cast(), LENGTH)
            | libc::listen(socket.as_raw_fd(), queue as i32)
    };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    TcpListener::from(socket)
}

pub fn mptcp_connect(port: u16) -> TcpStream {
    let (socket, to) = (mptcp_socket(), address(port));
    // SAFETY: a valid descriptor and address.
    let failed = unsafe { libc::connect(socket.as_raw_fd(), (&raw const to).cast(), LENGTH) };
    assert_eq!(failed, 0, "{}", std::io::Error::last_os_error());
    let mut stream = TcpStream::from(socket);
    stream.write_all(b"x").unwrap();
    stream
}
