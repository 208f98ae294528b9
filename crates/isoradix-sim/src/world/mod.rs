//! What is physical on one rank: memory with something written in it or not, copies that take time, and storage that forgets.
//!
//! Nothing in here decides. Each token of memory holds the tag of what was written there last, so that a read shows whether it
//! was written at all, and for whom.

mod copies;
mod device;
mod host;
mod storage;

pub(crate) use copies::{Ended, Engine, Job};
pub(crate) use device::Device;
pub(crate) use host::HostMemory;
pub(crate) use storage::{Orphans, Storage};

/// A page, slot or ordinal as an index.
pub(crate) fn at(number: impl TryInto<usize>) -> usize {
    number.try_into().unwrap_or(usize::MAX)
}

/// All of it, for one rank.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) device: Device,
    pub(crate) host: HostMemory,
    pub(crate) storage: Storage,
    pub(crate) engine: Engine,
}
