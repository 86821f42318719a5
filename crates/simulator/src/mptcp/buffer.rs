//! The send buffer of a connection, and how far the application has written into it (`mptcp_sendmsg`,
//! `__mptcp_sync_sndbuf`).

use super::FRAGMENT;

/// Where data wait for what one subflow still owes, they fill it, and the other subflows run dry.
#[derive(Debug)]
pub struct Buffer {
    /// Payload that it takes, bytes.
    size: u64,
    /// Of it, what does not come from subflows (net.ipv4.tcp_wmem\[0\]).
    base: u64,
    mss: u64,
    /// End of what the application has written, segments.
    pub written: u64,
}

impl Buffer {
    /// `bound` of one subflow's buffer, bytes, and whether that one grows up to it.
    pub fn new(bound: u64, autotune: bool, mss: u32) -> Self {
        let base = if autotune { bound.min(4096) } else { bound };
        let mut buffer = Buffer {
            size: base,
            base,
            mss: u64::from(mss),
            written: 0,
        };
        buffer.refill(0);
        buffer
    }

    /// A plain TCP connection: its subflow's buffer is the only one.
    pub fn unlimited(mss: u32) -> Self {
        Buffer {
            written: u64::MAX,
            ..Buffer::new(0, true, mss)
        }
    }

    /// The buffers of the subflows, bytes, make up the connection's.
    pub fn resize(&mut self, subflows: u64, una: u64) {
        self.size = self.base + subflows;
        self.refill(una);
    }

    /// Data were acknowledged up to `una`: the application is woken where a third is empty (`sk_stream_min_wspace`), and
    /// writes until there is no room for a further fragment.
    #[inline]
    pub fn refill(&mut self, una: u64) {
        let held = self.written.saturating_sub(una) * self.mss;
        if 3 * held <= 2 * self.size {
            let end = una * self.mss + self.size;
            let fragment = u64::from(FRAGMENT);
            let written = end.div_ceil(fragment) * fragment / self.mss;
            self.written = self.written.max(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_application_waits_for_a_third_of_it() {
        let mut buffer = Buffer::new(4 << 20, true, 1000);
        buffer.resize(300_000, 0);
        let full = buffer.written;
        assert!((304..304 + 33).contains(&full), "{full}");
        buffer.refill(full - 210);
        assert_eq!(buffer.written, full);
        buffer.refill(full - 200);
        assert!(buffer.written >= full - 200 + 304);
    }

    #[test]
    fn it_shrinks_without_taking_back() {
        let mut buffer = Buffer::new(4 << 20, true, 1000);
        buffer.resize(300_000, 0);
        let full = buffer.written;
        buffer.resize(100_000, 0);
        assert_eq!(buffer.written, full);
    }
}
