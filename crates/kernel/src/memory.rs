//! The allocator of programs that run for weeks.

/// glibc gives each thread a heap of its own and, once a large block was freed, takes blocks of up to 32 MiB from the heaps: under
/// connections that come and go these grew by 20 MB an hour although what was in use did not. One heap, and a mapping of its own
/// for each large block, returned when it is freed. Before the first thread starts; other C libraries stay as they are.
pub fn keep_small() {
    /// Bytes: glibc's own first values, which it no longer changes once they were set.
    #[cfg(target_env = "gnu")]
    const THRESHOLD: libc::c_int = 128 << 10;
    // SAFETY: sets numbers of the allocator; a refused one is left as it was.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, THRESHOLD);
        libc::mallopt(libc::M_TRIM_THRESHOLD, THRESHOLD);
    }
}
