//! What becomes of a rank whose decisions are found to differ: whether its digests are compared, and what a difference does.

use super::error::Divergence;

/// Equal on all ranks. Only digests are meant: a number that no rank could carry out is refused in every mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DivergenceMode {
    /// Digests are not compared.
    Off,
    /// The first difference is kept, and the rank goes on. Its decisions and the leader's need not be equal from there on.
    Observe,
    /// A difference ends the rank.
    #[default]
    Enforce,
}

impl DivergenceMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Off, Self::Observe, Self::Enforce];

    /// Its name in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Observe => "observe",
            Self::Enforce => "enforce",
        }
    }

    /// The mode of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.as_str() == name)
    }
}

/// A mode, and the first difference that was observed in it.
#[derive(Debug, Clone, Hash, Default)]
pub(super) struct Observed {
    pub(super) mode: DivergenceMode,
    pub(super) first: Option<Divergence>,
}

impl Observed {
    /// What a comparison of digests has come to, as this mode takes it.
    pub(super) fn take(&mut self, compare: impl FnOnce() -> Result<(), Divergence>) -> Result<(), Divergence> {
        if self.mode == DivergenceMode::Off {
            return Ok(());
        }
        match compare() {
            Err(found) if self.mode == DivergenceMode::Observe => {
                self.first.get_or_insert(found);
                Ok(())
            }
            compared => compared,
        }
    }
}
