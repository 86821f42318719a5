//! The unmodified program, and the server that it talks to. Every byte of a body follows from its offset.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::Duration;

/// Names what the program does: `get ADDRESS BYTES`, `put ADDRESS BYTES`, `leave ADDRESS BYTES` or `connect ADDRESS`.
const WORK: &str = "MULTIPILOT_TEST_WORK";

/// Not a test by itself: what `multipilot run` runs. It asks libc for its socket as any program does.
#[test]
fn unmodified_program() {
    let Ok(work) = std::env::var(WORK) else {
        return;
    };
    let words: Vec<&str> = work.split(' ').collect();
    let address: SocketAddr = words[1].parse().unwrap();
    match (words[0], words.get(2).map(|n| n.parse().unwrap())) {
        ("get", Some(bytes)) => println!(
            "\nworked: {}",
            get(TcpStream::connect(address).unwrap(), bytes, &mut |_| ())
        ),
        ("put", Some(bytes)) => println!(
            "\nworked: {}",
            put(TcpStream::connect(address).unwrap(), bytes)
        ),
        ("leave", Some(bytes)) => println!(
            "\nworked: {}",
            leave(TcpStream::connect(address).unwrap(), bytes)
        ),
        _ => println!(
            "\nworked: {:?}",
            TcpStream::connect(address).map(drop).map_err(|e| e.kind())
        ),
    }
}

/// The words with which this test binary is the program.
pub fn words() -> [&'static str; 3] {
    ["--exact", "program::unmodified_program", "--nocapture"]
}

pub fn work(command: &mut std::process::Command, work: &str) {
    command.env(WORK, work);
}

/// What the program printed.
pub fn result(stdout: &str) -> Option<&str> {
    stdout
        .lines()
        .find_map(|line| line.strip_prefix("worked: "))
}

fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8
}

fn fill(from: u64, buffer: &mut [u8]) {
    for (i, place) in buffer.iter_mut().enumerate() {
        *place = byte(from + i as u64);
    }
}

/// Reads to the end; whether it was this many bytes and the right ones. `seen` hears of each piece.
pub fn check(stream: &mut impl Read, bytes: u64, seen: &mut dyn FnMut(u64)) -> String {
    let mut buffer = vec![0; 1 << 16];
    let mut expected = buffer.clone();
    let mut at = 0;
    loop {
        let count = match stream.read(&mut buffer) {
            Ok(0) if at == bytes => return "whole".into(),
            Ok(0) => return format!("ended after {at} of {bytes}"),
            Ok(count) => count,
            Err(e) if e.kind() == ErrorKind::Interrupted => continue,
            Err(e) => return format!("{e} after {at} of {bytes}"),
        };
        fill(at, &mut expected[..count]);
        if buffer[..count] != expected[..count] {
            return format!("wrong bytes behind {at}");
        }
        at += count as u64;
        seen(at);
    }
}

fn send(stream: &mut TcpStream, bytes: u64) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 16];
    let mut at = 0;
    while at < bytes {
        let count = (bytes - at).min(1 << 16) as usize;
        fill(at, &mut buffer[..count]);
        stream.write_all(&buffer[..count])?;
        at += count as u64;
    }
    Ok(())
}

/// A flow that stands still is an error, not a test that hangs.
pub fn lose_patience(stream: &TcpStream) {
    const LONGEST: Duration = Duration::from_secs(180);
    if stream.read_timeout().unwrap().is_none() {
        stream.set_read_timeout(Some(LONGEST)).unwrap();
    }
    stream.set_write_timeout(Some(LONGEST)).unwrap();
}

/// A download; "whole" where all is well.
pub fn get(mut stream: TcpStream, bytes: u64, seen: &mut dyn FnMut(u64)) -> String {
    lose_patience(&stream);
    writeln!(stream, "get {bytes}").unwrap();
    check(&mut stream, bytes, seen)
}

/// An upload, which ends with a half-close, after which the server says what it thinks of it.
pub fn put(mut stream: TcpStream, bytes: u64) -> String {
    lose_patience(&stream);
    writeln!(stream, "put {bytes}").unwrap();
    if let Err(e) = send(&mut stream, bytes) {
        return e.to_string();
    }
    stream.shutdown(Shutdown::Write).unwrap();
    let mut said = String::new();
    match stream.read_to_string(&mut said) {
        Ok(_) => said,
        Err(e) => e.to_string(),
    }
}

/// An upload by a program that ends as soon as the system has its bytes. What the server has got, [`LEFT`] says.
fn leave(mut stream: TcpStream, bytes: u64) -> &'static str {
    lose_patience(&stream);
    writeln!(stream, "leave {bytes}").unwrap();
    match send(&mut stream, bytes) {
        Ok(()) => "left",
        Err(_) => "cut off",
    }
}

/// What the server thinks of the last upload that nobody waited for.
pub static LEFT: Mutex<Option<String>> = Mutex::new(None);

/// Serves until the process ends.
pub fn serve(listener: TcpListener) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || drop(answer(stream)));
        }
    });
}

fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(90)))?;
    lose_patience(&stream);
    let mut input = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    input.read_line(&mut line)?;
    let Some((verb, bytes)) = line.trim().split_once(' ') else {
        return Ok(());
    };
    let bytes = bytes.parse().unwrap_or(0);
    match verb {
        "get" => send(&mut stream, bytes),
        "leave" => {
            let got = check(&mut input, bytes, &mut |_| ());
            *LEFT.lock().unwrap() = Some(got);
            Ok(())
        }
        _ => stream.write_all(check(&mut input, bytes, &mut |_| ()).as_bytes()),
    }
}
