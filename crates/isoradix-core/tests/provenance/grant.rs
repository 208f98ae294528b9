//! The host pool commits what was agreed, not what this rank has got.

use isoradix_core::host::HostPool;
use isoradix_core::{Ordinal, PerRank};

fn on_this_rank_alone(pool: &mut HostPool, k: Ordinal) {
    let reserved = pool.reserve(k).unwrap();
    let _ = pool.commit(k, reserved);
    let _ = pool.commit(k, 3);
    pool.raise(pool.backable());
    pool.lower(PerRank::observe(0));
}

fn main() {
    let _ = on_this_rank_alone;
}
