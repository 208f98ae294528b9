//! A per-rank value is voted once.

use isoradix_core::PerRank;

fn vote(_: PerRank<u32>) {}

fn main() {
    let value = PerRank::observe(3_u32);
    vote(value);
    vote(value);
}
