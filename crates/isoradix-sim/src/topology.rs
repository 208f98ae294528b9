//! Which ranks there are, and which way frames go.

use std::fmt;
use std::str::FromStr;

/// Tensor-parallel lanes times context-parallel ones times pipeline stages make a domain; data-parallel replicas of the attention
/// are domains of their own. In a domain, rank `stage * lanes + lane`; rank 0 leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topology {
    /// Tensor-parallel ranks of a stage.
    pub tp: u32,
    /// Stages.
    pub pp: u32,
    /// Context-parallel ranks of a stage, each of `tp`.
    pub cp: u32,
    /// Replicas.
    pub dp: u32,
}

/// Most ranks that are simulated.
const RANKS_MAX: u32 = 512;

impl Topology {
    /// How many ranks, in all domains.
    #[must_use]
    pub fn ranks(self) -> usize {
        self.members() * self.dp as usize
    }

    /// Ranks of one domain.
    #[must_use]
    pub fn members(self) -> usize {
        self.lanes() * self.pp as usize
    }

    /// Ranks of one stage of a domain.
    pub(crate) fn lanes(self) -> usize {
        (self.tp * self.cp) as usize
    }

    /// The stage of a rank.
    pub(crate) fn stage(self, rank: usize) -> usize {
        rank / self.lanes()
    }

    /// All ranks of a stage.
    pub(crate) fn peers(self, stage: usize) -> std::ops::Range<usize> {
        stage * self.lanes()..(stage + 1) * self.lanes()
    }

    /// Who gets a frame from this rank: a binary tree below rank 1, in the order of the ranks. The leader, for whom all others
    /// wait, sends once.
    pub(crate) fn receivers(self, rank: usize) -> std::ops::Range<usize> {
        let (from, to) = if rank == 0 { (1, 2) } else { (2 * rank, 2 * rank + 2) };
        from.min(self.members())..to.min(self.members())
    }

    /// From whom a rank gets its frames, and over which of that rank's edges.
    pub(crate) fn source(rank: usize) -> Option<(usize, usize)> {
        match rank {
            0 => None,
            1 => Some((0, 0)),
            _ => Some((rank / 2, rank % 2)),
        }
    }
}

impl FromStr for Topology {
    type Err = String;

    /// `tp2`, `pp8`, `tp2xpp2`, `tp2xpp2xcp2xdp2`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("topology {text:?}: {what}\nhint: write tp2, pp8, tp2xpp2 or tp2xpp2xcp2xdp2");
        let mut topology = Self { tp: 1, pp: 1, cp: 1, dp: 1 };
        let mut named = Vec::new();
        for part in text.split('x') {
            let (name, number) =
                part.split_at_checked(2).ok_or_else(|| wrong("expected tp, pp, cp or dp and a number"))?;
            let number = number.parse().map_err(|_| wrong("expected tp, pp, cp or dp and a number"))?;
            if named.contains(&name) {
                return Err(wrong(&format!("{name} is given twice")));
            }
            named.push(name);
            *match name {
                "tp" => &mut topology.tp,
                "pp" => &mut topology.pp,
                "cp" => &mut topology.cp,
                "dp" => &mut topology.dp,
                _ => return Err(wrong("expected tp, pp, cp or dp and a number")),
            } = number;
        }
        let Self { tp, pp, cp, dp } = topology;
        let members = tp.saturating_mul(pp).saturating_mul(cp);
        if members < 2 {
            return Err(wrong(&format!("a domain of {members} ranks is out of range: at least 2")));
        }
        let ranks = members.saturating_mul(dp);
        if !(2..=RANKS_MAX).contains(&ranks) {
            return Err(wrong(&format!("{ranks} ranks are out of range, 2 to {RANKS_MAX}")));
        }
        Ok(topology)
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [("tp", self.tp), ("pp", self.pp), ("cp", self.cp), ("dp", self.dp)];
        let parts: Vec<String> =
            parts.iter().filter(|(_, number)| *number > 1).map(|(name, number)| format!("{name}{number}")).collect();
        f.write_str(&parts.join("x"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["tp2", "pp2", "tp2xpp2", "pp8", "tp4xpp3", "cp2", "tp2xpp2xcp2xdp2", "tp8xpp8xcp8"] {
            assert_eq!(name.parse::<Topology>().map(|topology| topology.to_string()), Ok(name.to_owned()));
        }
        let wrong = [
            "",
            "tp",
            "tp1",
            "xp2",
            "tp2pp2",
            "tp999",
            "tp0",
            "t",
            "tp65536xpp65536",
            "dp2",
            "tp2xtp2",
            "é2",
            "tp2xdp0",
        ];
        for wrong in wrong {
            assert!(wrong.parse::<Topology>().is_err(), "{wrong}");
        }
        let all: Topology = "tp2xpp3xcp4xdp5".parse().unwrap();
        assert_eq!((all.ranks(), all.members(), all.lanes()), (120, 24, 8));
    }

    #[test]
    fn frames_reach_every_rank_once_from_its_source_and_never_go_up() {
        for name in ["tp2", "pp8", "tp2xpp2", "tp4xpp3", "tp2xpp2xcp3xdp2"] {
            let topology: Topology = name.parse().unwrap();
            let mut reached = vec![0; topology.members()];
            for rank in 0..topology.members() {
                for (edge, to) in topology.receivers(rank).enumerate() {
                    reached[to] += 1;
                    assert_eq!(Topology::source(to), Some((rank, edge)), "{name}");
                    assert!(topology.stage(to) >= topology.stage(rank));
                }
            }
            assert_eq!((reached[0], Topology::source(0)), (0, None));
            assert!(reached[1..].iter().all(|times| *times == 1), "{name}: {reached:?}");
        }
    }
}
