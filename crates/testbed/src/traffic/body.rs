//! The bytes that are transferred: pseudo-random from the run's seed, so that both ends know them, and no two runs the same.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use sha2::{Digest, Sha256};

const CHUNK: usize = 64 << 10;

pub type Hash = [u8; 32];

/// The first `left` bytes of the seed's sequence, or all of it, which has no end.
pub struct Body {
    rng: SmallRng,
    left: Option<u64>,
}

impl Body {
    pub fn new(seed: u64, bytes: Option<u64>) -> Body {
        Body {
            rng: SmallRng::seed_from_u64(seed),
            left: bytes,
        }
    }

    /// `None`: its end.
    pub fn chunk(&mut self) -> Option<Bytes> {
        let mut bytes = vec![0; CHUNK];
        self.rng.fill_bytes(&mut bytes);
        if let Some(left) = &mut self.left {
            bytes.truncate(CHUNK.min(usize::try_from(*left).unwrap_or(CHUNK)));
            *left -= bytes.len() as u64;
        }
        (!bytes.is_empty()).then(|| bytes.into())
    }

    /// Hashes of the bodies of these lengths. Long ones take minutes: `None` once `stop` is set.
    pub fn hashes(
        seed: u64,
        lengths: impl IntoIterator<Item = u64>,
        stop: &AtomicBool,
    ) -> Option<HashMap<u64, Hash>> {
        let lengths: BTreeSet<u64> = lengths.into_iter().collect();
        let hash = |length| {
            let mut body = Body::new(seed, Some(length));
            let mut hash = Sha256::new();
            while let Some(chunk) = body.chunk() {
                if stop.load(Ordering::Relaxed) {
                    return None;
                }
                hash.update(&chunk);
            }
            Some((length, hash.finalize().into()))
        };
        lengths.into_iter().map(hash).collect()
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.chunk().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left
            .map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
