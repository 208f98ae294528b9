//! What is checked: that all ranks have one history, that it is the reference model's, and that memory holds what it should.

mod dump;
mod history;
mod memory;
mod reference;

pub(crate) use dump::Dump;
pub(crate) use history::{History, Parted, first_record, show as show_record};
pub(crate) use memory::check as check_memory;
pub(crate) use reference::Reference;
