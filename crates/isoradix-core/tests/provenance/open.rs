//! Outside of the core, a per-rank value does not come out.

use isoradix_core::PerRank;

fn main() {
    let value = PerRank::observe(3_u32);
    let _ = value.0;
    let _: u32 = *value;
    let _ = value.into_ballot();
    let PerRank(_inner) = PerRank::observe(3_u32);
}
