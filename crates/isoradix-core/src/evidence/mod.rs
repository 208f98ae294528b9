//! Evidence: what was decided, in a form that two ranks can compare.

mod beginnings;
mod journal;
mod keys;
mod packing;
mod record;

pub(crate) use journal::Journal;
pub use keys::KeyLog;
pub use packing::unpack;
pub use record::{Record, RecordKind};
