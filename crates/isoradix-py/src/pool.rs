//! The slot pool.

use isoradix_core::Error;
use numpy::PyArray1;
use pyo3::prelude::*;

use crate::arrays;
use crate::errors;
use crate::guard::{Guarded, LONG};
use crate::ints::{self, Borrow};
use crate::scalars;

type Core = isoradix_core::SlotPool;

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SlotPool>()
}

/// A deterministic, page-granular allocator of device slots.
///
/// Slots `first_slot .. first_slot + num_slots` are handed out in whole pages of `page_size` consecutive slots. Which
/// pages an `alloc` gets follows from the calls before it alone.
///
/// Args:
///     num_slots: slots in the pool, a positive multiple of `page_size`.
///     page_size: tokens in a page, 1 to 1024.
///     first_slot: number of the first slot; `first_slot + num_slots` is at most 2**31.
///
/// Raises:
///     InvalidInputError: a value is out of its range.
///     InputTypeError: a value is not an int.
#[pyclass(frozen, module = "isoradix")]
pub(crate) struct SlotPool {
    inner: Guarded<Core>,
    page_size: u32,
    total: u64,
}

impl SlotPool {
    /// Makes a change, or is refused; gives up the GIL if it is long by its `size`.
    fn run<R: Send>(
        &self,
        py: Python<'_>,
        size: u64,
        work: impl FnOnce(&mut Core) -> Result<R, Error> + Send,
    ) -> PyResult<R> {
        self.enter_sized(py, |_| size, work)?.map_err(|error| errors::from_core(py, &error))
    }

    /// Enters the pool, for work that says itself what its errors are.
    pub(crate) fn enter_sized<R: Send>(
        &self,
        py: Python<'_>,
        size: impl FnOnce(&Core) -> u64,
        work: impl FnOnce(&mut Core) -> R + Send,
    ) -> PyResult<R> {
        self.inner.enter_sized(py, || false, size, work)
    }

    /// Looks at the pool.
    fn view<R>(&self, py: Python<'_>, look: impl FnOnce(&Core) -> R) -> PyResult<R> {
        self.inner.enter(py, || false, |core| look(core))
    }
}

#[pymethods]
impl SlotPool {
    #[new]
    #[pyo3(signature = (num_slots, *, page_size = None, first_slot = None), text_signature = "(num_slots, *, page_size=1, first_slot=0)")]
    fn new(
        py: Python<'_>,
        num_slots: &Bound<'_, PyAny>,
        page_size: Option<&Bound<'_, PyAny>>,
        first_slot: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let num_slots = scalars::NUM_SLOTS.read(num_slots)?;
        let page_size = page_size.map_or(Ok(1), |size| scalars::PAGE_SIZE.read_u32(size))?;
        let first_slot = first_slot.map_or(Ok(0), |slot| scalars::FIRST_SLOT.read(slot))?;
        let make = || Core::new(num_slots, page_size, first_slot);
        let core = if num_slots < LONG { make() } else { py.detach(make) };
        let core = core.map_err(|error| errors::from_core(py, &error))?;
        Ok(Self { page_size: core.page_size(), total: core.total(), inner: Guarded::new("SlotPool", core) })
    }

    /// Takes slots for `num_tokens` tokens, a multiple of the page size.
    ///
    /// Returns:
    ///     An int64 array of `num_tokens` slots, page after page.
    ///
    /// Raises:
    ///     OutOfSlotsError: fewer slots are free. Nothing is taken.
    ///     InvalidInputError: `num_tokens` is negative or no multiple of the page size.
    fn alloc<'py>(&self, py: Python<'py>, num_tokens: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let num_tokens = scalars::NUM_TOKENS.read(num_tokens)?;
        let mut slots = Vec::new();
        self.run(py, num_tokens, |core| core.alloc(num_tokens, &mut slots))?;
        Ok(arrays::owned(py, slots))
    }

    /// Gives slots back, as whole pages in page order.
    ///
    /// Raises:
    ///     DoubleFreeError: a slot is free already, or given twice. Nothing is freed.
    ///     InvalidInputError: a slot is not of this pool, or a page is not whole.
    ///     InputTypeError: `slots` has a type or dtype that is not accepted.
    fn free(&self, py: Python<'_>, slots: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut borrow = Borrow::default();
        let slots = borrow.read(slots, &ints::SLOTS)?;
        self.run(py, slots.len() as u64, |core| core.free(slots))
    }

    /// Makes every slot free again, in the order of a new pool.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, self.total, |core| {
            core.reset();
            Ok(())
        })
    }

    /// Slots that are free.
    #[getter]
    fn available(&self, py: Python<'_>) -> PyResult<u64> {
        self.view(py, Core::available)
    }

    /// Slots in the pool, free or not.
    #[getter]
    fn total(&self) -> u64 {
        self.total
    }

    /// Tokens in a page.
    #[getter]
    fn page_size(&self) -> u32 {
        self.page_size
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Self { total, page_size, .. } = self;
        // A representation never raises, not even in a forked child.
        let available = self.available(py).map_or_else(|_| "?".to_owned(), |slots| slots.to_string());
        format!("SlotPool({total}, page_size={page_size}, available={available})")
    }

    fn __copy__(&self, py: Python<'_>) -> PyResult<()> {
        self.refuse_copy(py)
    }

    fn __deepcopy__(&self, py: Python<'_>, memo: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = memo;
        self.refuse_copy(py)
    }

    fn __reduce__(&self, py: Python<'_>) -> PyResult<()> {
        self.refuse_copy(py)
    }

    fn __reduce_ex__(&self, py: Python<'_>, protocol: &Bound<'_, PyAny>) -> PyResult<()> {
        let _ = protocol;
        self.refuse_copy(py)
    }
}

impl SlotPool {
    #[allow(clippy::unused_self)]
    fn refuse_copy(&self, py: Python<'_>) -> PyResult<()> {
        Err(errors::not_copyable(py, "SlotPool"))
    }
}
