//! Pages of KV in files, and the seal by which any engine's pages are checked.
//!
//! A folder may be used by many processes at once, none of which waits for another: pages are published by renaming, and the
//! order in which they are given up follows from one log that is only ever appended to. Nothing that is read is believed before
//! its seal fits. Layers, each importing only from those before it:
//!
//! 1. `checksum`, `share`, `status`, `call`, `page`, `seal`: values, and threads that share a batch
//! 2. `names`: where a page's file is
//! 3. `record`, `ledger`: which pages there are, and which goes first
//! 4. `transfer`: one page to and from its file
//! 5. `store`: batches

mod aligned;
mod call;
mod checksum;
mod error;
mod ledger;
mod names;
mod page;
mod record;
mod seal;
mod share;
mod status;
mod store;
mod transfer;

pub use call::Call;
pub use checksum::checksum;
pub use error::StoreError;
pub use names::{KEY_BYTES_MAX, Layout};
pub use page::{PageMut, PageRef};
pub use seal::{SEAL_BYTES, Seal, seals};
pub use status::Status;
pub use store::{FileStore, Options, Usage};
