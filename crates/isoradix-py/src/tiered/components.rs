//! The `components` argument: what a model keeps beside keys and values.

use isoradix_core::{Component, ComponentKind, Components};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{self, Class, describe};

type Given<'a, 'py> = &'a Bound<'py, PyAny>;

const HINT: &str = "hint: \"swa=window:4096\", \"mamba=state\" and \"index=side_car\" are three";

/// Reads the components of a cache, and those that this rank's stage has no layers of.
pub(super) fn read(
    py: Python<'_>,
    page_size: u32,
    given: Option<Given<'_, '_>>,
    elsewhere: Option<Given<'_, '_>>,
) -> PyResult<Components> {
    let elsewhere = texts(elsewhere, "components_elsewhere")?;
    let all = texts(given, "components")?.iter().map(|text| parse(py, text)).collect::<PyResult<Vec<_>>>()?;
    if let Some(name) = elsewhere.iter().find(|name| all.iter().all(|component| component.name != **name)) {
        let message =
            format!("components_elsewhere has {name:?}, which is none of the components\nhint: pass their names");
        return Err(errors::new(py, Class::InvalidInput, message));
    }
    let here = |component: Component| Component { is_here: !elsewhere.contains(&component.name), ..component };
    Components::new(page_size, all.into_iter().map(here).collect()).map_err(|error| errors::from_core(py, &error))
}

/// The components, as they are given.
pub(super) fn show(components: &Components) -> Vec<String> {
    let kind = |kind| match kind {
        ComponentKind::Window { tokens } => format!("window:{tokens}"),
        ComponentKind::State => "state".to_owned(),
        ComponentKind::SideCar => "side_car".to_owned(),
    };
    components.all().iter().map(|component| format!("{}={}", component.name, kind(component.kind))).collect()
}

fn parse(py: Python<'_>, text: &str) -> PyResult<Component> {
    let parsed = text.split_once('=').and_then(|(name, kind)| {
        let kind = match kind.split_once(':') {
            Some(("window", tokens)) => ComponentKind::Window { tokens: tokens.parse().ok()? },
            None if kind == "state" => ComponentKind::State,
            None if kind == "side_car" => ComponentKind::SideCar,
            _ => return None,
        };
        Some(Component { name: name.to_owned(), kind, is_here: true })
    });
    parsed.ok_or_else(|| {
        let accepted = "accepted are \"NAME=window:TOKENS\", \"NAME=state\" and \"NAME=side_car\"";
        errors::new(py, Class::InvalidInput, format!("component {text:?} is unknown: {accepted}\n{HINT}"))
    })
}

/// The texts of any iterable but a text itself.
fn texts(given: Option<Given<'_, '_>>, name: &str) -> PyResult<Vec<String>> {
    let Some(given) = given else { return Ok(Vec::new()) };
    let refuse = |what: &Bound<'_, PyAny>| {
        errors::input_type(given.py(), format!("{name} has {}, expected a sequence of str\n{HINT}", describe(what)))
    };
    if given.is_instance_of::<PyString>() {
        return Err(refuse(given));
    }
    let items = given.try_iter().map_err(|_| refuse(given))?;
    let text = |item: PyResult<Bound<'_, PyAny>>| {
        let item = item?;
        let text = item.cast::<PyString>().map_err(|_| refuse(&item))?;
        Ok(text.to_string_lossy().into_owned())
    };
    items.map(text).collect()
}
