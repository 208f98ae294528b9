//! A per-rank value is no condition and has no pattern.

use isoradix_core::PerRank;

fn main() {
    if PerRank::observe(true) {}
    match PerRank::observe(3_u32) {
        3 => {}
        _ => {}
    }
}
