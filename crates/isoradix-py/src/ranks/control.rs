//! The leader's decisions.

use isoradix_core::Ordinal;
use isoradix_core::protocol::{self, Mode, TopTier};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{self, Class, describe};
use crate::scalars::{self, Scalar};

type Core = protocol::Control;

const KEY: Scalar = scalars::up_to("key", u32::MAX as u64, "number the switches of your program from 0");
const VALUE: Scalar = scalars::any("value", "pass the switch's new value as an unsigned 64-bit int");

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Control>()
}

/// A decision that only the leader may take, because physics or time has a say in it. All ranks apply it at one step.
#[pyclass(frozen, eq, module = "isoradix")]
#[derive(PartialEq, Eq, Clone, Copy)]
pub(crate) struct Control(Core);

#[pymethods]
impl Control {
    /// Enough of a prefetch has arrived: keep what is agreed, drop the rest. Nothing, if it is over.
    ///
    /// Args:
    ///     operation: what `prefetch_operation` gave.
    #[staticmethod]
    fn terminate(operation: &Bound<'_, PyAny>) -> PyResult<Self> {
        ordinal(operation).map(Core::Terminate).map(Self)
    }

    /// The operation's deadline has passed. Prefetches past theirs are timed out without being asked for.
    #[staticmethod]
    fn time_out(operation: &Bound<'_, PyAny>) -> PyResult<Self> {
        ordinal(operation).map(Core::TimeOut).map(Self)
    }

    /// The operation is wanted no more.
    #[staticmethod]
    fn abort(operation: &Bound<'_, PyAny>) -> PyResult<Self> {
        ordinal(operation).map(Core::Abort).map(Self)
    }

    /// One of the embedding program's own switches is set.
    ///
    /// Args:
    ///     key: which, 0 to 2**32 - 1.
    ///     value: its new value, 0 to 2**64 - 1.
    #[staticmethod]
    fn mode(key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (key, value) = (KEY.read_u32(key)?, VALUE.read(value)?);
        Ok(Self(Core::Mode(Mode { key, value })))
    }

    /// The last frame.
    #[staticmethod]
    fn stop() -> Self {
        Self(Core::Stop)
    }

    /// The tiers up to this one are on from here, and those above are off: no copy begins there, and no hit is offered. What is
    /// under way ends as it would have.
    ///
    /// Args:
    ///     top: "l1" for the device alone, "l2" for device and host, "l3" for all.
    ///
    /// Raises:
    ///     InvalidInputError: there is no such tier.
    ///     InputTypeError: `top` is no str.
    #[staticmethod]
    fn tiers(top: &Bound<'_, PyAny>) -> PyResult<Self> {
        top_tier(top).map(Core::Tiers).map(Self)
    }

    /// All ranks open external storage; it is there once all of them have, and nowhere if one cannot.
    ///
    /// On the leader, `Driver.attach` sends it.
    #[staticmethod]
    fn attach() -> Self {
        Self(Core::Attach)
    }

    /// External storage is left: what was to be stored is stored, or counted as given up, and then it is there no more.
    #[staticmethod]
    fn detach() -> Self {
        Self(Core::Detach)
    }

    /// What it decides: "terminate", "time_out", "abort", "mode", "stop", "tiers", "attach" or "detach".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            Core::Terminate(_) => "terminate",
            Core::TimeOut(_) => "time_out",
            Core::Abort(_) => "abort",
            Core::Mode(_) => "mode",
            Core::Stop => "stop",
            Core::Tiers(_) => "tiers",
            Core::Attach => "attach",
            Core::Detach => "detach",
            // The core may learn new kinds before this binding does.
            _ => "other",
        }
    }

    /// The highest tier that is on from here, of a switch of tiers; else None.
    #[getter]
    fn top(&self) -> Option<&'static str> {
        match self.0 {
            Core::Tiers(top) => Some(top.as_str()),
            _ => None,
        }
    }

    /// The operation that it is about; None for a mode, a stop or tiers.
    #[getter]
    fn operation(&self) -> Option<u64> {
        match self.0 {
            Core::Terminate(k) | Core::TimeOut(k) | Core::Abort(k) => Some(k.0),
            _ => None,
        }
    }

    /// The switch that a mode sets; else None.
    #[getter]
    fn key(&self) -> Option<u32> {
        match self.0 {
            Core::Mode(Mode { key, .. }) => Some(key),
            _ => None,
        }
    }

    /// The value that a mode sets; else None.
    #[getter]
    fn value(&self) -> Option<u64> {
        match self.0 {
            Core::Mode(Mode { value, .. }) => Some(value),
            _ => None,
        }
    }

    fn __repr__(&self) -> String {
        let operands = match self.0 {
            Core::Terminate(k) | Core::TimeOut(k) | Core::Abort(k) => k.to_string(),
            Core::Mode(Mode { key, value }) => format!("{key}, {value}"),
            Core::Tiers(top) => format!("{:?}", top.as_str()),
            _ => String::new(),
        };
        format!("Control.{}({operands})", self.kind())
    }
}

fn ordinal(given: &Bound<'_, PyAny>) -> PyResult<Ordinal> {
    scalars::OPERATION.read(given).map(Ordinal)
}

/// Reads `"l1"`, `"l2"` or `"l3"`.
fn top_tier(given: &Bound<'_, PyAny>) -> PyResult<TopTier> {
    const HINT: &str = "hint: \"l1\" for the device alone, \"l2\" for device and host, \"l3\" for all";
    let py = given.py();
    let name = given
        .cast::<PyString>()
        .map_err(|_| errors::input_type(py, format!("top is {}, expected a str\n{HINT}", describe(given))))?
        .to_string_lossy();
    TopTier::from_name(&name).ok_or_else(|| {
        let message = format!("top is {name:?}, limits \"l1\" to \"l3\"\n{HINT}");
        errors::new(py, Class::InvalidInput, message)
    })
}

impl Control {
    pub(super) fn new(core: Core) -> Self {
        Self(core)
    }

    /// Reads a `controls` argument.
    pub(super) fn read_all(given: &Bound<'_, PyAny>) -> PyResult<Vec<Core>> {
        const HINT: &str = "hint: pass a list of Control.terminate(operation), Control.stop() and so on";
        let py = given.py();
        let controls = given.try_iter().map_err(|cause| {
            if errors::is_not_of_input(py, &cause) {
                return cause;
            }
            let message = format!("controls is {}, expected a sequence of Control\n{HINT}", describe(given));
            errors::input_type(py, message)
        })?;
        let control = |given: PyResult<Bound<'_, PyAny>>| {
            let given = given?;
            let control = given.cast::<Self>().map(|control| control.get().0);
            control.map_err(|_| {
                errors::input_type(py, format!("controls has {}, expected a Control\n{HINT}", describe(&given)))
            })
        };
        controls.map(control).collect()
    }
}
