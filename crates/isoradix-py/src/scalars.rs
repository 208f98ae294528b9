//! Single integers: counts, steps, priorities.
//!
//! Read by hand, so that a wrong one gives an error of ours that names the argument, its value and its range.

use isoradix_core::protocol::WINDOW_MAX;
use isoradix_core::{PAGE_SIZE_MAX, SLOT_LIMIT};
use pyo3::ffi;
use pyo3::prelude::*;

use crate::errors::{self, Class, describe};

/// An integer argument: its name and range.
pub(crate) struct Scalar {
    name: &'static str,
    min: u64,
    max: u64,
    hint: &'static str,
}

/// Any unsigned 64-bit integer.
pub(crate) const fn any(name: &'static str, hint: &'static str) -> Scalar {
    Scalar { name, min: 0, max: u64::MAX, hint }
}

/// An unsigned integer up to `max`.
pub(crate) const fn up_to(name: &'static str, max: u64, hint: &'static str) -> Scalar {
    within(name, 0, max, hint)
}

/// An unsigned integer from `min` to `max`.
pub(crate) const fn within(name: &'static str, min: u64, max: u64, hint: &'static str) -> Scalar {
    Scalar { name, min, max, hint }
}

/// Tokens to allocate or to evict.
pub(crate) const NUM_TOKENS: Scalar = any("num_tokens", "pass a number of tokens, 0 or more");
/// Slots that running requests own.
pub(crate) const UNCACHED: Scalar = any("uncached", "pass the number of slots that are allocated but not cached");
/// A step of the clock.
pub(crate) const STEP: Scalar = any("step", "pass a step later than cache.clock[0], or None for the next one");
/// Length of a resume point.
pub(crate) const RESUME_LENGTH: Scalar = any("resume length", "pass the depth of the resume node");
/// Slots of a pool.
pub(crate) const NUM_SLOTS: Scalar =
    Scalar { name: "num_slots", min: 1, max: SLOT_LIMIT, hint: "pass the number of slots that the KV cache has" };
/// First slot of a pool.
pub(crate) const FIRST_SLOT: Scalar =
    Scalar { name: "first_slot", min: 0, max: SLOT_LIMIT - 1, hint: "pass the number of the pool's first slot" };
/// Units in a page.
pub(crate) const PAGE_SIZE: Scalar =
    Scalar { name: "page_size", min: 1, max: PAGE_SIZE_MAX as u64, hint: "use the page size of the KV cache" };
/// Records that the journal keeps.
pub(crate) const JOURNAL_RECORDS: Scalar = Scalar {
    name: "journal_records",
    min: 0,
    max: u32::MAX as u64,
    hint: "pass a number of records, 0 to keep none; each takes about 72 bytes of memory",
};

/// Host pages that a pool may have: their numbers fit an int32.
pub(crate) const HOST_PAGES_MAX: u64 = i32::MAX as u64;
/// Host pages of a rank.
pub(crate) const HOST_PAGES: Scalar = up_to(
    "host_pages",
    HOST_PAGES_MAX,
    "pass the number of host pages that this rank has memory for; 0 if its pinning failed",
);
/// Host pages to evict, to withdraw, to restore, or that were reserved.
pub(crate) const PAGES: Scalar = up_to("pages", u32::MAX as u64, "pass a number of host pages, 0 or more");
/// A rank of a domain.
pub(crate) const RANK: Scalar = up_to("rank", u32::MAX as u64, "ranks of a domain are counted from 0");
/// Operations in a window.
pub(crate) const WINDOW: Scalar = Scalar {
    name: "window",
    min: 1,
    max: WINDOW_MAX as u64,
    hint: "64 operations are enough for a few steps of latency; all ranks use the same number",
};
/// The name of an operation.
pub(crate) const OPERATION: Scalar = any("operation", "pass the operation of a Query, Start or Cancel");
/// Tokens found or arrived.
pub(crate) const TOKENS: Scalar = any("tokens", "pass a number of tokens, 0 or more");
/// Pairs of buffers that a copy has got through.
pub(crate) const PAIRS: Scalar = any("pairs", "pass how many pairs of buffers to wait for");
/// A moment on a rank's own clock.
pub(crate) const NOW_MS: Scalar = any("now_ms", "pass time.monotonic_ns() // 1_000_000");
/// The incarnation of a group.
pub(crate) const EPOCH: Scalar = any("epoch", "pass the number of the group's incarnation, equal on all ranks");

impl Scalar {
    /// Reads an unsigned integer.
    #[inline]
    pub(crate) fn read(&self, given: &Bound<'_, PyAny>) -> PyResult<u64> {
        match small(given) {
            Some(value) if value >= 0 && self.holds(value.cast_unsigned()) => Ok(value.cast_unsigned()),
            _ => self.read_any(given),
        }
    }

    #[inline]
    fn holds(&self, value: u64) -> bool {
        self.min <= value && value <= self.max
    }

    /// Reads an unsigned integer whose limit fits 32 bits.
    pub(crate) fn read_u32(&self, given: &Bound<'_, PyAny>) -> PyResult<u32> {
        u32::try_from(self.read(given)?).map_err(|_| self.refuse_range(given))
    }

    #[cold]
    fn read_any(&self, given: &Bound<'_, PyAny>) -> PyResult<u64> {
        let index = self.index(given)?;
        match index.extract::<u64>() {
            Ok(value) if self.holds(value) => Ok(value),
            _ => Err(self.refuse_range(&index)),
        }
    }

    /// The int that `given` stands for: itself, or what its `__index__` gives (numpy's integers have one).
    fn index<'py>(&self, given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: a valid object, and the result is a new reference or null with an exception set.
        unsafe { Bound::from_owned_ptr_or_err(given.py(), ffi::PyNumber_Index(given.as_ptr())) }.map_err(|cause| {
            if errors::is_not_of_input(given.py(), &cause) {
                return cause;
            }
            let Self { name, hint, .. } = self;
            let error =
                errors::input_type(given.py(), format!("{name} is {}, expected an int\nhint: {hint}", describe(given)));
            error.set_cause(given.py(), Some(cause));
            error
        })
    }

    fn refuse_range(&self, given: &Bound<'_, PyAny>) -> PyErr {
        let Self { name, min, max, hint } = self;
        let message = format!("{name} {} is out of range: {min} to {max}\nhint: {hint}", number(given));
        errors::new(given.py(), Class::InvalidInput, message)
    }
}

/// The value of an exact int of 64 bits; anything else is `None`. Runs no Python code and raises nothing.
#[inline]
pub(crate) fn small(given: &Bound<'_, PyAny>) -> Option<i64> {
    let mut overflow = 0;
    // SAFETY: a valid object, checked to be an int, for which the conversion cannot fail but by overflow.
    unsafe {
        if ffi::PyLong_CheckExact(given.as_ptr()) == 0 {
            return None;
        }
        let value = ffi::PyLong_AsLongLongAndOverflow(given.as_ptr(), &raw mut overflow);
        (overflow == 0).then_some(value)
    }
}

/// An int for a message. Python refuses to print very long ones, and nobody wants to read them.
#[cold]
pub(crate) fn number(given: &Bound<'_, PyAny>) -> String {
    given.extract::<i128>().map_or_else(|_| "of more than 127 bits".to_owned(), |value| value.to_string())
}

/// Reads a flag, which is off if absent.
pub(crate) fn flag(given: Option<&Bound<'_, PyAny>>, name: &str) -> PyResult<bool> {
    given.map_or(Ok(false), |given| boolean(given, name))
}

/// Reads a flag.
pub(crate) fn boolean(given: &Bound<'_, PyAny>, name: &str) -> PyResult<bool> {
    given.extract::<bool>().map_err(|_| {
        let message = format!("{name} is {}, expected a bool\nhint: pass True or False", describe(given));
        errors::input_type(given.py(), message)
    })
}

/// Reads a signed 64-bit `priority`; absent is 0.
#[inline]
pub(crate) fn priority(given: Option<&Bound<'_, PyAny>>) -> PyResult<i64> {
    const PRIORITY: Scalar = any("priority", "pass a signed 64-bit int, greater is kept longer");
    let Some(given) = given else { return Ok(0) };
    if let Some(value) = small(given) {
        return Ok(value);
    }
    let index = PRIORITY.index(given)?;
    index.extract::<i64>().map_err(|_| {
        let message = format!(
            "priority {} is out of range: {} to {}\nhint: {}",
            number(&index),
            i64::MIN,
            i64::MAX,
            PRIORITY.hint
        );
        errors::new(given.py(), Class::InvalidInput, message)
    })
}
