//! Which transitions of operations happened under which faults.
//!
//! The core does not say which transitions it takes. `mirror` works them out from the words of the vote that a frame carries, and
//! holds the outcome against the core's, so it is a second implementation of the table's walk as well.

mod mirror;
mod rows;
mod table;

pub(crate) use mirror::{Framed, Mirror, Taken};
pub use table::Coverage;
