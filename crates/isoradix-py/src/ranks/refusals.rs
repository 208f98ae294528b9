//! The exceptions for what ranks refuse of each other.
//!
//! The message is the core's own text. What a program has to tell apart stands in attributes as well.

use isoradix_core::StepError;
use isoradix_core::host::HostError;
use isoradix_core::operation::OperationError;
use isoradix_core::protocol::{Backpressure, Divergence, FrameError, ProtocolError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::errors::{self, Class};
use crate::shared::Shared;
use crate::tiered::Machine;

/// What a divergence says beside its message.
struct Facts {
    kind: &'static str,
    /// The ranks that the message names as the ones that differ, or that noticed.
    ranks: Vec<u32>,
    step: Option<u64>,
    vote: Option<u64>,
}

impl Facts {
    fn new(kind: &'static str, rank: u32, step: Option<u64>, vote: Option<u64>) -> Self {
        Self { kind, ranks: vec![rank], step, vote }
    }

    fn of(divergence: &Divergence) -> Self {
        use Divergence as D;
        match divergence {
            D::Unequal { rank, vote, .. } => Self::new("unequal", *rank, None, Some(*vote)),
            D::Digest { rank, vote, step, .. } => Self::new("digest", *rank, Some(*step), Some(*vote)),
            D::Ranks { step, groups, .. } => {
                let mut ranks: Vec<u32> = groups.iter().skip(1).flat_map(|(_, ranks)| ranks.iter().copied()).collect();
                ranks.sort_unstable();
                Self { kind: "ranks", ranks, step: Some(*step), vote: None }
            }
            D::Leader { rank, step, .. } => Self::new("leader", *rank, Some(*step), None),
            D::AboveBallot { rank, step, vote, .. } => Self::new("above_ballot", *rank, *step, Some(*vote)),
            D::Reduction { rank, step, vote, .. } => Self::new("reduction", *rank, Some(*step), Some(*vote)),
            D::Backwards { rank, vote, .. } => Self::new("backwards", *rank, None, Some(*vote)),
            D::Frame { rank, step, .. } => Self::new("frame", *rank, Some(*step), None),
            D::NeverVoted { rank, step, vote, .. } => Self::new("never_voted", *rank, Some(*step), Some(*vote)),
            D::AfterStop { rank, step, .. } => Self::new("after_stop", *rank, Some(*step), None),
            D::Batch { rank, step, from, .. } => {
                Self { kind: "batch", ranks: vec![*rank, *from], step: Some(*step), vote: None }
            }
            D::Shape { rank, .. } => Self::new("shape", *rank, None, None),
            // The core may learn new kinds before this binding does.
            _ => Self { kind: "other", ranks: Vec::new(), step: None, vote: None },
        }
    }

    fn of_operation(error: &OperationError) -> Self {
        use OperationError as E;
        let (kind, rank) = match error {
            E::NotIssued { rank, .. } => ("not_issued", *rank),
            E::Ahead { rank, .. } => ("ahead", *rank),
            E::TooMuch { rank, .. } => ("too_much", *rank),
            E::Backwards { rank, .. } => ("backwards", *rank),
            E::Refused { rank, .. } => ("refused", *rank),
            _ => return Self { kind: "other", ranks: Vec::new(), step: None, vote: None },
        };
        Self::new(kind, rank, None, None)
    }
}

/// Ranks have parted.
#[cold]
fn parted(py: Python<'_>, message: String, facts: Facts) -> PyErr {
    let error = errors::new(py, Class::Divergence, message);
    match note(py, &error, facts) {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

fn note(py: Python<'_>, error: &PyErr, facts: Facts) -> PyResult<()> {
    let Facts { kind, ranks, step, vote } = facts;
    let value = error.value(py);
    value.setattr("kind", kind)?;
    value.setattr("ranks", PyTuple::new(py, ranks)?)?;
    value.setattr("step", step)?;
    value.setattr("vote", vote)
}

#[cold]
pub(crate) fn from_divergence(py: Python<'_>, divergence: &Divergence) -> PyErr {
    parted(py, divergence.to_string(), Facts::of(divergence))
}

/// A queue of decisions was given what another one has made.
#[cold]
pub(crate) fn parted_decisions(py: Python<'_>, message: String) -> PyErr {
    parted(py, message, Facts { kind: "decisions", ranks: Vec::new(), step: None, vote: None })
}

#[cold]
pub(crate) fn from_backpressure(py: Python<'_>, pressure: Backpressure) -> PyErr {
    let error = errors::new(py, Class::Backpressure, pressure.to_string());
    match error.value(py).setattr("edge", pressure.edge) {
        Ok(()) => error,
        Err(failed) => failed,
    }
}

#[cold]
pub(crate) fn from_protocol(py: Python<'_>, error: &ProtocolError) -> PyErr {
    match error {
        ProtocolError::Divergence(divergence) => from_divergence(py, divergence),
        ProtocolError::Backpressure(pressure) => from_backpressure(py, *pressure),
        ProtocolError::OutOfRange { .. } | ProtocolError::Length { .. } => {
            errors::new(py, Class::InvalidInput, error.to_string())
        }
        _ => errors::new(py, Class::Protocol, error.to_string()),
    }
}

#[cold]
pub(crate) fn from_frame(py: Python<'_>, error: &FrameError) -> PyErr {
    errors::new(py, Class::Protocol, error.to_string())
}

#[cold]
pub(crate) fn from_host(py: Python<'_>, error: &HostError) -> PyErr {
    match error {
        HostError::AboveReservation { .. } => {
            let facts = Facts { kind: "above_reservation", ranks: Vec::new(), step: None, vote: None };
            parted(py, error.to_string(), facts)
        }
        HostError::OutOfMemory { .. } => errors::new(py, Class::OutOfSlots, error.to_string()),
        _ => errors::new(py, Class::HostPool, error.to_string()),
    }
}

#[cold]
fn from_operation(py: Python<'_>, error: &OperationError) -> PyErr {
    if error.is_divergence() {
        return parted(py, error.to_string(), Facts::of_operation(error));
    }
    errors::new(py, Class::Operation, error.to_string())
}

/// The exception for a step that failed, of a rank with this cache.
#[cold]
pub(crate) fn from_step(py: Python<'_>, cache: &Shared<Machine>, error: &StepError) -> PyErr {
    match error {
        StepError::Protocol(error) => from_protocol(py, error),
        StepError::Operation(error) => from_operation(py, error),
        StepError::Host(error) => from_host(py, error),
        StepError::Cache(error) => cache.raise(py, error),
        // The core may learn new kinds before this binding does.
        other => errors::new(py, Class::Isoradix, other.to_string()),
    }
}
