//! Any bytes that a peer sends to the relay are refused or read, and read again alike when they are written; any frames
//! leave a receiver within its window.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mp_relay::stream::Receiver;
use mp_relay::wire::{Frame, Knock, Line, Opener, KNOCK_LENGTH};

const WINDOW: u64 = 1 << 12;

fuzz_target!(|bytes: &[u8]| {
    if let Some(knock) = bytes.first_chunk::<KNOCK_LENGTH>().and_then(Knock::decode) {
        assert_eq!(&knock.encode()[..], &bytes[..KNOCK_LENGTH]);
    }
    if let Ok(Some((opener, used))) = Opener::decode(bytes) {
        assert!(used <= bytes.len());
        let again = opener.encode();
        assert_eq!(Opener::decode(&again), Ok(Some((opener, again.len()))));
    }
    if let Some(line) = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<Line>().ok()) {
        assert_eq!(line.to_string().parse(), Ok(line));
    }
    let mut rest = bytes;
    let mut receiver = Receiver::new(WINDOW);
    while let Ok(Some((frame, used))) = Frame::decode(rest) {
        rest = &rest[used..];
        let again = frame.encode();
        assert_eq!(Frame::decode(&again), Ok(Some((frame, again.len()))));
        if let Frame::Data { offset, end, payload } = frame {
            if receiver.on_data(offset, end, payload).is_err() {
                break;
            }
            assert!(receiver.held() as u64 <= WINDOW);
            let (next, limit) = receiver.acknowledgement();
            assert!(limit >= WINDOW && next <= limit + 1);
            receiver.consume(receiver.ready().len() / 2);
        }
    }
});
