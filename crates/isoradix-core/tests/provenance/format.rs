//! In a release build a per-rank value does not print, so it cannot be parsed back.

use isoradix_core::PerRank;

fn main() {
    let _ = format!("{}", PerRank::observe(3_u32));
    let _ = format!("{:?}", PerRank::observe(3_u32));
}
