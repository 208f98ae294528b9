//! Copies that go around the cache.
//!
//! A plain copy reads the lines that it is about to overwrite, so three bytes pass for each that is copied. The C library leaves that out
//! only in copies far larger than a run of pages. Four strips of memory are copied side by side, since memory serves several open
//! rows faster than one.

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::{copy, end};

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const LINE: usize = 64;
    /// Bytes of a strip: a page of memory.
    const STRIP: usize = 4096;
    const STRIPS: usize = 4;
    /// Bytes copied in one strip before it is the next one's turn.
    const TURN: usize = 4 * LINE;

    /// Copies bytes. Before another thread is told, [`end`].
    ///
    /// # Safety
    /// As `copy_nonoverlapping`.
    pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
        let head = to.align_offset(LINE).min(bytes);
        let blocks = head + (bytes - head) / (STRIPS * STRIP) * (STRIPS * STRIP);
        let lines = blocks + (bytes - blocks) / LINE * LINE;
        // SAFETY: head, blocks, lines and the rest are the bytes that the caller vouches for; what is streamed begins at whole lines of
        // the destination.
        unsafe {
            std::ptr::copy_nonoverlapping(from, to, head);
            for block in (head..blocks).step_by(STRIPS * STRIP) {
                for turn in (block..block + STRIP).step_by(TURN) {
                    for strip in 0..STRIPS {
                        copy_lines(to, from, turn + strip * STRIP, TURN);
                    }
                }
            }
            copy_lines(to, from, blocks, lines - blocks);
            std::ptr::copy_nonoverlapping(from.add(lines), to.add(lines), bytes - lines);
        }
    }

    /// Copies whole lines.
    ///
    /// # Safety
    /// `bytes` from `at` on are in both, do not overlap, and begin at a line of the destination.
    #[inline]
    unsafe fn copy_lines(to: *mut u8, from: *const u8, at: usize, bytes: usize) {
        for at in (at..at + bytes).step_by(size_of::<__m128i>()) {
            // SAFETY: as the caller vouches; the instructions are part of the architecture.
            unsafe { _mm_stream_si128(to.add(at).cast(), _mm_loadu_si128(from.add(at).cast())) }
        }
    }

    /// Makes copied bytes visible before what follows.
    pub(crate) fn end() {
        // SAFETY: the instruction is part of the architecture.
        unsafe { _mm_sfence() }
    }
}

/// Other processors decide by themselves.
///
/// # Safety
/// As `copy_nonoverlapping`.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, bytes: usize) {
    // SAFETY: as the caller vouches.
    unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) }
}

/// There is nothing to make visible.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn end() {}
