//! Which ranks there are, and which way frames go.

use std::fmt;
use std::str::FromStr;

/// Tensor-parallel lanes times pipeline stages. Rank `stage * tp + lane`; rank 0 leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topology {
    /// Ranks of a stage.
    pub tp: u32,
    /// Stages.
    pub pp: u32,
}

/// Most ranks that are simulated.
const RANKS_MAX: u32 = 64;

impl Topology {
    /// How many ranks.
    #[must_use]
    pub fn ranks(self) -> usize {
        (self.tp * self.pp) as usize
    }

    /// The stage of a rank.
    pub(crate) fn stage(self, rank: usize) -> usize {
        rank / self.tp as usize
    }

    /// All ranks of a stage.
    pub(crate) fn peers(self, stage: usize) -> std::ops::Range<usize> {
        stage * self.tp as usize..(stage + 1) * self.tp as usize
    }

    /// Who gets a frame from this rank: from the leader its peers; and from every rank the next stage of its lane.
    pub(crate) fn receivers(self, rank: usize) -> Vec<usize> {
        let peers = if rank == 0 { 1..self.tp as usize } else { 0..0 };
        let below = rank + self.tp as usize;
        peers.chain((below < self.ranks()).then_some(below)).collect()
    }
}

impl FromStr for Topology {
    type Err = String;

    /// `tp2`, `pp8`, `tp2xpp2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("topology {text:?}: {what}\nhint: write tp2, pp8 or tp2xpp2");
        let mut topology = Self { tp: 1, pp: 1 };
        for part in text.split('x') {
            let (name, number) = part.split_at(part.len().min(2));
            let number = number.parse().map_err(|_| wrong("expected tp or pp and a number"))?;
            match name {
                "tp" => topology.tp = number,
                "pp" => topology.pp = number,
                _ => return Err(wrong("expected tp or pp and a number")),
            }
        }
        let ranks = topology.tp.saturating_mul(topology.pp);
        if !(2..=RANKS_MAX).contains(&ranks) {
            return Err(wrong(&format!("{ranks} ranks are out of range, 2 to {RANKS_MAX}")));
        }
        Ok(topology)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.tp, self.pp) {
            (tp, 1) => write!(f, "tp{tp}"),
            (1, pp) => write!(f, "pp{pp}"),
            (tp, pp) => write!(f, "tp{tp}xpp{pp}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["tp2", "pp2", "tp2xpp2", "pp8", "tp4xpp3"] {
            assert_eq!(name.parse::<Topology>().map(|topology| topology.to_string()), Ok(name.to_owned()));
        }
        for wrong in ["", "tp", "tp1", "xp2", "tp2pp2", "tp99", "tp0", "t", "tp65536xpp65536"] {
            assert!(wrong.parse::<Topology>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn frames_reach_every_rank_once() {
        for name in ["tp2", "pp8", "tp2xpp2", "tp4xpp3"] {
            let topology: Topology = name.parse().unwrap();
            let mut reached = vec![1];
            reached.resize(topology.ranks(), 0);
            for rank in 0..topology.ranks() {
                topology.receivers(rank).into_iter().for_each(|to| reached[to] += 1);
            }
            assert!(reached.iter().all(|times| *times == 1), "{name}: {reached:?}");
        }
    }
}
