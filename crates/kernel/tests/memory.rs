//! A process of its own: the allocator is set for all of it.
#![cfg(target_env = "gnu")]

use std::sync::Barrier;
use std::{ffi::CString, fs, os::unix::ffi::OsStrExt, thread};

/// As malloc_info(3) tells.
fn heaps() -> usize {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = CString::new(file.path().as_os_str().as_bytes()).unwrap();
    // SAFETY: two C strings; the stream is closed once.
    unsafe {
        let stream = libc::fopen(path.as_ptr(), c"w".as_ptr());
        assert!(!stream.is_null());
        assert_eq!(libc::malloc_info(0, stream), 0);
        assert_eq!(libc::fclose(stream), 0);
    }
    let told = fs::read_to_string(file.path()).unwrap();
    told.matches("<heap nr=").count()
}

#[test]
fn threads_share_one_heap() {
    mp_kernel::memory::keep_small();
    let all = Barrier::new(5);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let held: Vec<Vec<u8>> = (0..100).map(|_| vec![1; 1000]).collect();
                all.wait();
                all.wait();
                assert_eq!(held.len(), 100);
            });
        }
        all.wait();
        let heaps = heaps();
        all.wait();
        // The harness has a thread that may have taken a heap before.
        assert!(heaps <= 2, "{heaps} heaps");
    });
}
