//! The relay's side.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{interval, timeout};

use super::{pair, Stream};

/// A probe is over long before.
const MOST: Duration = Duration::from_secs(600);
/// An echo without a packet for so long is forgotten.
const QUIET: Duration = Duration::from_secs(30);
const SAYS_EVERY: Duration = Duration::from_millis(100);
const CHUNK: usize = 1 << 16;

/// The relay's end of a stream, as if it were a connection to a target.
pub async fn answer_streams(stream: Stream) -> io::Result<TcpStream> {
    let (near, far) = pair().await?;
    tokio::spawn(async move {
        // An error is a device that has gone.
        let _ = match stream {
            Stream::Download => timeout(MOST, pour(far)).await,
            Stream::Upload => timeout(MOST, swallow(far)).await,
        };
    });
    Ok(near)
}

async fn pour(mut to: TcpStream) -> io::Result<()> {
    let chunk = vec![0; CHUNK];
    loop {
        to.write_all(&chunk).await?;
    }
}

async fn swallow(from: TcpStream) -> io::Result<()> {
    let (mut from, mut to) = from.into_split();
    let mut chunk = vec![0; CHUNK];
    let mut every = interval(SAYS_EVERY);
    let mut total = 0u64;
    loop {
        tokio::select! {
            read = from.read(&mut chunk) => match read? {
                0 => return to.write_all(&total.to_be_bytes()).await,
                count => total += count as u64,
            },
            _ = every.tick() => to.write_all(&total.to_be_bytes()).await?,
        }
    }
}

/// A socket whose peer sends every packet back.
pub fn answer_echoes() -> io::Result<std::net::UdpSocket> {
    let bind = || std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
    let (near, far) = (bind()?, bind()?);
    near.connect(far.local_addr()?)?;
    far.connect(near.local_addr()?)?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    let far = UdpSocket::from_std(far)?;
    tokio::spawn(async move {
        let mut packet = [0; 2048];
        let mut count = 0u64;
        // Until the flow's end of the pair is gone.
        while let Ok(Ok(length)) = timeout(QUIET, far.recv(&mut packet)).await {
            count += 1;
            if let Some(place) = packet[..length].get_mut(8..16) {
                place.copy_from_slice(&count.to_be_bytes());
            }
            if far.send(&packet[..length]).await.is_err() {
                return;
            }
        }
    });
    Ok(near)
}
