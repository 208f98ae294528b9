//! A per-rank value has no equality and no order.

use isoradix_core::PerRank;

fn main() {
    let (mine, other) = (PerRank::observe(3_u32), PerRank::observe(4_u32));
    let _ = mine == other;
    let _ = mine < other;
    let _ = mine == 3;
}
