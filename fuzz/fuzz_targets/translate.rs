//! Any packets that come out of the TUN are dropped, answered or readdressed: connections stay consistent, and what was no
//! whole packet is left as it was.
#![no_main]

use std::net::SocketAddr;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use mp_relay::capture::translate::{Action, Ends, Translator};
use mp_relay::wire::Refusal;

fuzz_target!(|bytes: &[u8]| {
    let transparent = bytes.first().is_some_and(|b| b & 1 == 1);
    let ends = |listener: &str, peer: &str| {
        let listener: SocketAddr = listener.parse().unwrap();
        Ends {
            listener,
            peer: peer.parse().unwrap(),
            transparent: transparent.then_some(listener.ip()),
        }
    };
    let mut translator = Translator::new(vec![
        ends("198.18.77.1:1111", "198.18.77.2"),
        ends("[fd00::1]:2222", "fd00::2"),
    ]);
    // Packets with a byte in front of each: its length, and what is done with a SYN.
    let mut rest = bytes;
    let mut now = Duration::ZERO;
    while let Some((&control, tail)) = rest.split_first() {
        let length = usize::from(control & 0x7f).min(tail.len());
        let (packet, tail) = tail.split_at(length);
        rest = tail;
        now += Duration::from_secs(1);
        let partial = control & 0x80 != 0;
        let mut bytes = packet.to_vec();
        match translator.packet(&mut bytes, partial, now) {
            Action::Open(id, _) => {
                if packet.last().is_some_and(|b| b & 1 == 0) {
                    assert!(translator.admit(id, &mut bytes, partial, now));
                } else if packet.last().is_some_and(|b| b & 2 == 0) {
                    assert!(translator
                        .refuse(id, &mut bytes, Refusal::HostUnreachable)
                        .is_some());
                }
            }
            Action::Write => assert_eq!(bytes.len(), packet.len()),
            Action::Drop | Action::Answer(_) => assert_eq!(bytes, packet),
        }
        translator.expire(now);
        assert!(translator.is_consistent());
    }
});
