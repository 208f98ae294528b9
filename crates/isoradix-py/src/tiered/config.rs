//! What a tiered cache is made with, beside what every cache is made with.

use isoradix_core::protocol::{Backoff, BreakerRule};
use isoradix_core::{PrefetchPatience, Tiers, Writing};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::errors::{self, Class, describe};
use crate::scalars::{self, Scalar};

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

const LOAD_BACK_MIN: Scalar = scalars::any("load_back_min", "pass the fewest tokens that are worth loading back");
const PREFETCH_MIN: Scalar =
    scalars::any("prefetch_min", "pass the fewest tokens that are worth fetching from storage");
const BREAKER: Scalar =
    scalars::any("storage_breaker", "pass (failures in a row, ms open, trials, ms that are too slow)");
const RETRY: Scalar = scalars::any("storage_retry", "pass (attempts in all, ms before the second store, ms at most)");
const PATIENCE: Scalar = scalars::any("prefetch_patience", "pass milliseconds: (base, for each 1,024 tokens, at most)");

/// The keyword arguments that make up the tiers; what is absent is as usual.
pub(super) struct Arguments<'a, 'py> {
    pub(super) writing: Option<Given<'a, 'py>>,
    pub(super) load_back_min: Option<Given<'a, 'py>>,
    pub(super) prefetch_min: Option<Given<'a, 'py>>,
    pub(super) storage: Option<Given<'a, 'py>>,
    pub(super) window: Option<Given<'a, 'py>>,
    pub(super) patience: Patience,
    pub(super) breaker: Breaking,
    pub(super) retry: Retrying,
}

impl Arguments<'_, '_> {
    pub(super) fn read(self) -> PyResult<Tiers> {
        let usual = Tiers::default();
        let or =
            |given: Option<Given<'_, '_>>, scalar: Scalar, usual| given.map_or(Ok(usual), |given| scalar.read(given));
        Ok(Tiers {
            writing: self.writing.map_or(Ok(usual.writing), writing)?,
            load_back_min: or(self.load_back_min, LOAD_BACK_MIN, usual.load_back_min)?,
            prefetch_min: or(self.prefetch_min, PREFETCH_MIN, usual.prefetch_min)?,
            storage: scalars::flag(self.storage, "storage")?,
            window: self.window.map_or(Ok(usual.window), |window| scalars::WINDOW.read_u32(window))?,
            patience: self.patience.0,
            breaker: self.breaker.0,
            retry: self.retry.0,
        })
    }
}

/// Reads `"through:HITS"` or `"back:LOW_WATER"`.
fn writing(given: Given<'_, '_>) -> PyResult<Writing> {
    const HINT: &str = "hint: \"through:1\" writes everything to host, \"through:2\" what is used again; \
                        \"back:TOKENS\" begins when less than that could be freed without loss";
    let py = given.py();
    let text = given
        .cast::<PyString>()
        .map_err(|_| errors::input_type(py, format!("writing is {}, expected a str\n{HINT}", describe(given))))?
        .to_string_lossy()
        .into_owned();
    let parsed = match text.split_once(':') {
        Some(("through", hits)) => hits.parse().ok().filter(|hits| *hits > 0).map(|hits| Writing::Through { hits }),
        Some(("back", tokens)) => tokens.parse().ok().map(|low_water| Writing::Back { low_water }),
        _ => None,
    };
    parsed.ok_or_else(|| {
        let message = format!("writing {text:?} is unknown: accepted are \"through:HITS\" and \"back:TOKENS\"\n{HINT}");
        errors::new(py, Class::InvalidInput, message)
    })
}

/// The `prefetch_patience` argument: `None` is "for ever", which is not the usual one.
pub(super) struct Patience(Option<PrefetchPatience>);

impl Default for Patience {
    fn default() -> Self {
        Self(Tiers::default().patience)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Patience {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if given.is_none() {
            return Ok(Self(None));
        }
        let what = "milliseconds: (base, for each 1,024 tokens, at most), or None to wait for ever";
        let said = ["prefetch_patience", "three ints or None", what];
        let [base_ms, per_ki_token_ms, most_ms] = tuple(&given.to_owned(), &PATIENCE, said)?;
        Ok(Self(Some(PrefetchPatience { base_ms, per_ki_token_ms, most_ms })))
    }
}

/// The `storage_breaker` argument: `None` is "never opens".
pub(super) struct Breaking(Option<BreakerRule>);

impl Default for Breaking {
    fn default() -> Self {
        Self(Tiers::default().breaker)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Breaking {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if given.is_none() {
            return Ok(Self(None));
        }
        let what = "(failures in a row, ms open, trials, ms that are too slow), or None for no breaker";
        let said = ["storage_breaker", "four ints or None", what];
        let [failures, open_ms, trials, slow_ms] = tuple(&given.to_owned(), &BREAKER, said)?;
        let (failures_max, trials) = (count(given.py(), "failures", failures)?, count(given.py(), "trials", trials)?);
        Ok(Self(Some(BreakerRule { failures_max, open_ms, trials, slow_ms })))
    }
}

/// The `storage_retry` argument.
pub(super) struct Retrying(Backoff);

impl Default for Retrying {
    fn default() -> Self {
        Self(Tiers::default().retry)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Retrying {
    type Error = PyErr;

    fn extract(given: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let what = "(attempts in all, ms before the second store, ms at most)";
        let said = ["storage_retry", "three ints", what];
        let [attempts, first_ms, longest_ms] = tuple(&given.to_owned(), &RETRY, said)?;
        Ok(Self(Backoff { attempts_max: count(given.py(), "attempts", attempts)?, first_ms, longest_ms }))
    }
}

/// Ints of a tuple of so many.
fn tuple<const N: usize>(
    given: &Bound<'_, PyAny>,
    scalar: &Scalar,
    [name, ints, what]: [&str; 3],
) -> PyResult<[u64; N]> {
    let some = given.cast::<PyTuple>().ok().filter(|some| some.len() == N).ok_or_else(|| {
        let described = describe(given);
        let message = format!("{name} is {described}, expected {ints}\nhint: pass {what}");
        errors::input_type(given.py(), message)
    })?;
    let mut values = [0; N];
    for (at, value) in values.iter_mut().enumerate() {
        *value = scalar.read(&some.get_item(at)?)?;
    }
    Ok(values)
}

fn count(py: Python<'_>, what: &str, value: u64) -> PyResult<u32> {
    u32::try_from(value).ok().filter(|value| *value > 0).ok_or_else(|| {
        let message = format!("{what} of storage is {value}, limits 1 to {}\nhint: 1 is the least", u32::MAX);
        errors::new(py, Class::InvalidInput, message)
    })
}
