//! Why a call of a rank failed. Backpressure, a call out of order and a fixed pool change nothing; anything else is fatal: the
//! ranks have parted, or a load-back failed.

use crate::error::Error;
use crate::host::HostError;
use crate::operation::OperationError;
use crate::protocol::{Divergence, ProtocolError};
use std::fmt;

/// Why a call of a rank failed; see [`StepError::is_fatal`].
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

impl StepError {
    /// Whether the rank must not go on. Otherwise nothing has changed, and the call may come again.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Protocol(error) => matches!(error, ProtocolError::Divergence(_)),
            Self::Host(error) => !matches!(error, HostError::Fixed { .. }),
            Self::Operation(_) | Self::Cache(_) => true,
        }
    }
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
