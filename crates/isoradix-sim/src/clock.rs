//! One rank's monotonic clock: it began somewhere, and runs a little too fast or too slow.

use crate::queue::Micros;
use crate::rng::Rng;

/// The rate of a clock that runs true, in parts of a million.
const TRUE_PPM: u64 = 1_000_000;

/// How far a clock's own rate is off at most.
const DRIFT_PPM_MAX: u64 = 500;

/// When a clock may have begun, before the run.
const OFFSET_MAX: Micros = 1_000_000_000_000;

/// A clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// What it showed when its rate changed last, and when that was.
    shown: Micros,
    since: Micros,
    /// Its own rate, and by how many times of a thousand it is off for now.
    own_ppm: u64,
    rate_permille: u64,
}

impl Clock {
    pub(crate) fn new(rng: &mut Rng) -> Self {
        let own_ppm = rng.within(TRUE_PPM - DRIFT_PPM_MAX, TRUE_PPM + DRIFT_PPM_MAX);
        Self { shown: rng.within(0, OFFSET_MAX), since: 0, own_ppm, rate_permille: 1000 }
    }

    /// What it shows at a moment of virtual time.
    pub(crate) fn at(&self, now: Micros) -> Micros {
        self.shown + (now - self.since) * self.own_ppm / TRUE_PPM * self.rate_permille / 1000
    }

    /// From now on it runs at so many thousandths of its own rate.
    pub(crate) fn run(&mut self, now: Micros, rate_permille: u64) {
        *self = Self { shown: self.at(now), since: now, rate_permille, ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_never_goes_back_whatever_its_rate() {
        let mut clock = Clock::new(&mut Rng::new(1, 1));
        let mut last = clock.at(0);
        for (now, rate) in [(10_000, 1500), (20_000, 500), (90_000, 1000)] {
            clock.run(now, rate);
            assert!(clock.at(now) > last);
            last = clock.at(now);
        }
        let passed = clock.at(1_090_000) - last;
        assert!(passed.abs_diff(1_000_000) <= DRIFT_PPM_MAX + 1, "{passed}");
    }
}
