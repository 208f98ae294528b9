//! Why a step of a rank failed. All of these are fatal: the ranks have parted, or a load-back failed.

use crate::error::Error;
use crate::host::HostError;
use crate::operation::OperationError;
use crate::protocol::{Divergence, ProtocolError};
use std::fmt;

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepError {
    /// A frame, a ballot or a call out of order.
    Protocol(ProtocolError),
    /// An agreed number that does not fit an operation.
    Operation(OperationError),
    /// An agreed number that does not fit the host pool.
    Host(HostError),
    /// The cache refused what the step asks of it.
    Cache(Error),
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(error) => error.fmt(f),
            Self::Operation(error) => error.fmt(f),
            Self::Host(error) => error.fmt(f),
            Self::Cache(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StepError {}

impl From<ProtocolError> for StepError {
    fn from(error: ProtocolError) -> Self {
        Self::Protocol(error)
    }
}

impl From<Divergence> for StepError {
    fn from(divergence: Divergence) -> Self {
        Self::Protocol(divergence.into())
    }
}

impl From<OperationError> for StepError {
    fn from(error: OperationError) -> Self {
        Self::Operation(error)
    }
}

impl From<HostError> for StepError {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<Error> for StepError {
    fn from(error: Error) -> Self {
        Self::Cache(error)
    }
}
