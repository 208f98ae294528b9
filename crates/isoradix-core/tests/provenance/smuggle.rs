//! No way out travels beside a per-rank value: what is wrapped is `Copy`, so it is no `&mut` and no `Rc`.

use isoradix_core::PerRank;
use std::rc::Rc;

fn main() {
    let mut seen = 0;
    let _ = PerRank::observe(&mut seen);
    let _ = PerRank::observe(Rc::new(0));
}
