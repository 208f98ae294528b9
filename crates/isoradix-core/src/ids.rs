//! The ids of stored granules in one tier: their slots, or their host pages.
//!
//! Pools hand out consecutive ids where they can. So ids are kept in *cells* of consecutive places, of a page or of
//! sixteen if that is more: a cell whose ids count up with their places is one word, what the first place has or would
//! have. Any other spills to a word for each place, and is marked by the top bit.
//!
//! A granule has ids from `write` to `release`. Where a cell has several granules, its ends may be those of different
//! runs; it counts its granules that have ids, so that a spill is given back with the last of them.

use crate::error::Error;
use crate::ints::{Ints, Lane, consecutive_from, with_lanes, write_low};

/// Places of a cell, at least.
const PLACES_MIN: usize = 16;

/// Marks a cell that has spilled.
const SPILLED: u32 = 1 << 31;

/// Ids by granule; see the module's notes.
pub(crate) struct Ids {
    /// Ids of a granule.
    each: usize,
    /// Places of a cell.
    places: usize,
    /// What the first place has, or `SPILLED | n`, where the `n`-th `places` words of `spill` are.
    cells: Vec<u32>,
    /// Granules of the cell that have ids.
    live: Vec<u8>,
    spill: Vec<u32>,
    /// Spills that are in no use.
    spare: Vec<u32>,
}

impl Ids {
    /// Of granules that have `each` ids.
    pub(crate) fn new(each: usize) -> Self {
        let places = each * (PLACES_MIN / each).max(1);
        Self { each, places, cells: Vec::new(), live: Vec::new(), spill: Vec::new(), spare: Vec::new() }
    }

    /// Gives ids to consecutive granules that have none; the OR of all, sign-extended. Only the low halves are kept.
    pub(crate) fn write(&mut self, start: u32, ids: Ints<'_>) -> u64 {
        with_lanes!(ids, ids => self.write_lanes(start, ids))
    }

    fn write_lanes<L: Lane>(&mut self, start: u32, ids: &[L]) -> u64 {
        let places = Places::new(self, start, ids.len());
        let cells = places.end();
        if self.cells.len() < cells {
            self.cells.resize(cells, 0);
            self.live.resize(cells, 0);
        }
        let (mut rest, mut seen) = (ids, 0);
        for (cell, offset, count) in places {
            let (here, later) = rest.split_at(count);
            seen |= self.write_cell(cell, offset, here);
            rest = later;
        }
        seen
    }

    #[inline]
    fn write_cell<L: Lane>(&mut self, cell: usize, offset: usize, ids: &[L]) -> u64 {
        let (first, seen) = consecutive_from(ids);
        let base = first.and_then(|first| first.checked_sub(narrow(offset))).filter(|base| base & SPILLED == 0);
        let alone = self.live[cell] == 0;
        self.live[cell] += self.granules(ids.len());
        match base {
            Some(base) if alone || base == self.cells[cell] => self.cells[cell] = base,
            _ => {
                let at = self.spill_of(cell, alone) + offset;
                write_low(ids, &mut self.spill[at..at + ids.len()]);
            }
        }
        seen
    }

    /// Where the cell's spill begins; there is one from now on.
    fn spill_of(&mut self, cell: usize, alone: bool) -> usize {
        let word = self.cells[cell];
        if !alone && word & SPILLED != 0 {
            return (word & !SPILLED) as usize * self.places;
        }
        let spill = self.spare.pop().unwrap_or_else(|| {
            let spill = narrow(self.spill.len() / self.places);
            self.spill.resize(self.spill.len() + self.places, 0);
            spill
        });
        let at = spill as usize * self.places;
        if !alone {
            self.spill[at..at + self.places].iter_mut().zip(word..).for_each(|(to, id)| *to = id);
        }
        self.cells[cell] = SPILLED | spill;
        at
    }

    /// Takes the ids of consecutive granules away.
    pub(crate) fn release(&mut self, start: u32, granules: u32) {
        for (cell, _, count) in Places::new(self, start, granules as usize * self.each) {
            self.live[cell] -= self.granules(count);
            if self.live[cell] == 0 && self.cells[cell] & SPILLED != 0 {
                self.spare.push(self.cells[cell] & !SPILLED);
            }
        }
    }

    /// Appends the ids of consecutive granules, which have some.
    pub(crate) fn append<T: From<u32>>(&self, start: u32, granules: u32, out: &mut Vec<T>) {
        let places = Places::new(self, start, granules as usize * self.each);
        out.reserve(places.left);
        // Ids that count up, over as many cells as they do.
        let (mut first, mut next) = (0, 0);
        for (cell, offset, count) in places {
            let word = self.cells[cell];
            if word & SPILLED == 0 {
                let here = word + narrow(offset);
                if here != next {
                    out.extend((first..next).map(T::from));
                    first = here;
                }
                next = here + narrow(count);
            } else {
                out.extend((first..next).map(T::from));
                (first, next) = (0, 0);
                let at = (word & !SPILLED) as usize * self.places + offset;
                out.extend(self.spill[at..at + count].iter().map(|id| T::from(*id)));
            }
        }
        out.extend((first..next).map(T::from));
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let words = self.cells.capacity() + self.spill.capacity() + self.spare.capacity();
        words * size_of::<u32>() + self.live.capacity()
    }

    /// Checks the books against all granules that have ids, by runs in order of address: first granule, granules, and
    /// the node's sequence number.
    pub(crate) fn check(&self, runs: impl Iterator<Item = (u32, u32, u64)>) -> Result<(), Error> {
        let (mut live, mut nodes) = (vec![0; self.live.len()], vec![0; self.live.len()]);
        for (start, granules, node) in runs {
            for granule in start..start + granules {
                let cell = granule as usize * self.each / self.places;
                let Some(count) = live.get_mut(cell) else {
                    return Err(Error::invariant(format!("granule {granule} has no ids"), vec![node]));
                };
                (*count, nodes[cell]) = (*count + 1, node);
            }
        }
        if let Some(cell) = (0..live.len()).find(|cell| live[*cell] != u32::from(self.live[*cell])) {
            let what = format!("id cell {cell} counts {} granules, found {}", self.live[cell], live[cell]);
            return Err(Error::invariant(what, vec![nodes[cell]]));
        }
        self.check_spills(&nodes)
    }

    /// Every spill belongs to one cell, or is spare. `nodes` has a node of each cell.
    fn check_spills(&self, nodes: &[u64]) -> Result<(), Error> {
        // Sequence number of a node that owns a spill, 0 for a spare one.
        let mut owners = vec![None; self.spill.len() / self.places];
        let spilled = (0..self.cells.len()).filter(|cell| self.live[*cell] > 0 && self.cells[*cell] & SPILLED != 0);
        let of_cells = spilled.map(|cell| (self.cells[cell] & !SPILLED, nodes[cell]));
        for (spill, node) in self.spare.iter().map(|spill| (*spill, 0)).chain(of_cells) {
            let concerned = |nodes: [u64; 2]| nodes.into_iter().filter(|node| *node != 0).collect();
            let Some(owner) = owners.get_mut(spill as usize) else {
                return Err(Error::invariant(format!("id spill {spill} does not exist"), concerned([node, 0])));
            };
            if let Some(other) = owner.replace(node) {
                return Err(Error::invariant(format!("id spill {spill} has two owners"), concerned([other, node])));
            }
        }
        match owners.iter().position(Option::is_none) {
            Some(spill) => Err(Error::invariant(format!("id spill {spill} has no owner"), vec![])),
            None => Ok(()),
        }
    }

    /// Granules that have so many ids, at most a cell's.
    #[expect(clippy::cast_possible_truncation, reason = "a cell has at most sixteen")]
    fn granules(&self, ids: usize) -> u8 {
        (ids / self.each) as u8
    }
}

/// Consecutive places, cell by cell: the cell, the first of them in it, and how many.
struct Places {
    of_cell: usize,
    cell: usize,
    offset: usize,
    left: usize,
}

impl Places {
    fn new(ids: &Ids, start: u32, count: usize) -> Self {
        let at = start as usize * ids.each;
        Self { of_cell: ids.places, cell: at / ids.places, offset: at % ids.places, left: count }
    }

    /// Past the last cell.
    fn end(&self) -> usize {
        self.cell + (self.offset + self.left).div_ceil(self.of_cell)
    }
}

impl Iterator for Places {
    type Item = (usize, usize, usize);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let count = self.left.min(self.of_cell - self.offset);
        let here = (self.cell, self.offset, count);
        (self.cell, self.offset, self.left) = (self.cell + 1, 0, self.left - count);
        Some(here)
    }
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "places of a cell or a run, or a spill: fewer than granules and ids"
)]
fn narrow(count: usize) -> u32 {
    count as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::SplitMix64;
    use std::collections::BTreeMap;

    fn all(ids: &Ids, start: u32, granules: u32) -> Vec<i64> {
        let mut out = Vec::new();
        ids.append(start, granules, &mut out);
        out
    }

    #[test]
    fn ids_that_count_up_take_a_word_a_cell_and_others_spill() {
        let mut ids = Ids::new(1);
        let straight: Vec<i64> = (100..148).collect();
        ids.write(5, Ints::I64(&straight));
        assert_eq!((all(&ids, 5, 48), ids.cells.len(), ids.spill.len()), (straight, 4, 0));
        ids.write(0, Ints::I32(&[95, 96, 97, 98, 99]));
        assert_eq!((all(&ids, 0, 8), ids.spill.len()), ((95..103).collect(), 0), "it goes on where the next begins");
        ids.write(53, Ints::I64(&[7, 9]));
        assert_eq!((all(&ids, 50, 5), ids.spill.len()), (vec![145, 146, 147, 7, 9], 16));
        ids.release(53, 2);
        ids.write(53, Ints::I64(&[148, 149]));
        assert_eq!((all(&ids, 50, 5), ids.spill.len()), (vec![145, 146, 147, 148, 149], 16), "and stays spilled");
        ids.release(48, 7);
        assert_eq!(ids.spare, [0]);
        ids.write(49, Ints::I64(&[0, 1]));
        assert_eq!(all(&ids, 49, 2), [0, 1], "before the first place there would be less than nothing");
    }

    #[test]
    fn behaves_as_a_map_of_granules() {
        for (seed, each) in [(1, 1), (2, 3), (3, 5), (4, 16), (5, 20)] {
            let (mut ids, mut random) = (Ids::new(each), SplitMix64(seed));
            let mut model = BTreeMap::<u32, Vec<i64>>::new();
            for round in 0..3_000 {
                let start = random.below(300);
                let granules = 1 + random.below(40);
                if (start..start + granules).all(|granule| model.contains_key(&granule)) {
                    ids.release(start, granules);
                    model.retain(|granule, _| !(start..start + granules).contains(granule));
                } else if !(start..start + granules).any(|granule| model.contains_key(&granule)) {
                    let (kind, first) = (random.below(4), i64::from(random.below(1_000)));
                    let count = i64::from(granules) * i64::try_from(each).unwrap();
                    let given: Vec<i64> = match kind {
                        0 => (0..count).map(|_| i64::from(random.below(1_000))).collect(),
                        1 => (first..first + count).collect(),
                        _ => {
                            (0..count).map(|at| 5_000 + at + i64::from(start) * i64::try_from(each).unwrap()).collect()
                        }
                    };
                    ids.write(start, Ints::I64(&given));
                    model.extend((start..).zip(given.chunks(each).map(<[i64]>::to_vec)));
                } else {
                    let held =
                        (start..start + granules).filter(|granule| model.contains_key(granule)).collect::<Vec<_>>();
                    for granule in held {
                        ids.release(granule, 1);
                        model.remove(&granule);
                    }
                }
                ids.check(model.keys().map(|granule| (*granule, 1, 1))).unwrap();
                if round % 8 == 0 {
                    let granules: Vec<u32> = model.keys().copied().collect();
                    for span in granules.chunk_by(|before, after| before + 1 == *after) {
                        let given: Vec<i64> = span.iter().flat_map(|granule| model[granule].clone()).collect();
                        assert_eq!(all(&ids, span[0], u32::try_from(span.len()).unwrap()), given);
                    }
                }
            }
        }
    }

    #[test]
    fn check_names_the_owners_of_a_spill() {
        let mut ids = Ids::new(16);
        let scattered: Vec<i64> = (0..32).map(|at| at * 2).collect();
        ids.write(0, Ints::I64(&scattered));
        let broken = |ids: &Ids| ids.check([(0, 1, 6), (1, 1, 8)].into_iter()).unwrap_err();
        ids.check([(0, 1, 6), (1, 1, 8)].into_iter()).unwrap();
        ids.spare.push(1);
        assert_eq!(broken(&ids), Error::invariant("id spill 1 has two owners", vec![8]));
        ids.spare.clear();
        ids.cells[0] = ids.cells[1];
        assert_eq!(broken(&ids), Error::invariant("id spill 1 has two owners", vec![6, 8]));
        ids.cells[0] = 5;
        assert_eq!(broken(&ids), Error::invariant("id spill 0 has no owner", vec![]));
        ids.cells[0] = SPILLED | 2;
        assert_eq!(broken(&ids), Error::invariant("id spill 2 does not exist", vec![6]));
        ids.live[1] = 0;
        assert_eq!(broken(&ids), Error::invariant("id cell 1 counts 0 granules, found 1", vec![8]));
    }
}
