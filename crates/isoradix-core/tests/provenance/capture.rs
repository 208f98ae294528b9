//! The function that changes a per-rank value cannot carry it out.

use isoradix_core::PerRank;

fn main() {
    let mut seen = 0;
    let _ = PerRank::observe(3_u32).map(|value| seen = value);
    let _ = seen;
}
