//! Only an applied frame mints an agreed value.

use isoradix_core::protocol::AppliedFrame;
use isoradix_core::provenance::Applied;
use isoradix_core::{Agreed, PerRank};

fn mint(proof: &Applied, frame: &AppliedFrame) {
    let _ = Agreed(3_u32);
    let _ = Agreed::mint(proof, 3_u32);
    let _ = frame.decided(3_u32);
    let _: Agreed<u32> = PerRank::observe(3_u32);
    let _: Agreed<u32> = PerRank::observe(3_u32).into();
}

fn main() {
    let _ = mint;
}
