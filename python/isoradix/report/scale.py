"""Axes: from a value to a pixel, where the ticks stand, and how numbers read."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Format = Callable[[float], str]


def human(value: float) -> str:
    """1,500,000 as 1.5M; three significant digits."""
    for factor, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor * 0.9995:
            return f"{value / factor:.3g}{suffix}"
    return f"{value:.3g}"


def percent(value: float) -> str:
    return f"{value * 100:.3g} %"


def microseconds(value: float) -> str:
    """A time given in µs, in the unit that reads best."""
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if abs(value) >= factor * 0.9995:
            return f"{value / factor:.3g} {unit}"
    return f"{value * 1e3:.3g} ns" if value else "0"


@dataclass(frozen=True)
class Scale:
    """A mapping of low..high to 0..1, with labelled ticks."""

    low: float
    high: float
    ticks: Sequence[tuple[float, str]]
    log: bool = False

    def at(self, value: float) -> float:
        if self.log:
            value = max(value, self.low)
            return (math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (value - self.low) / (self.high - self.low)


def linear(low: float, high: float, text: Format = human, count: int = 5) -> Scale:
    """A linear scale that ends on round ticks."""
    if high <= low:
        high = low + 1.0
    step = _round_step((high - low) / count)
    first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
    ticks = [(index * step, text(index * step)) for index in range(first, last + 1)]
    return Scale(first * step, last * step, ticks)


def fitted(low: float, high: float, text: Format = human, count: int = 6) -> Scale:
    """A linear scale that ends exactly at `high`; the ticks are round, the ends need not be."""
    whole = linear(low, high, text, count)
    ticks = [tick for tick in whole.ticks if low <= tick[0] <= high]
    return Scale(low, max(high, low + 1e-9), ticks)


def logarithmic(low: float, high: float, text: Format = human) -> Scale:
    """A logarithmic scale over whole decades, or over 1-2-5 steps when there are few of them."""
    low = max(low, 1e-9)
    high = max(high, low * 1.0001)
    bottom, top = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    decades = max(top - bottom, 1)
    stride = 1 + decades // 8
    steps = (1, 2, 5) if decades <= 2 else (1,)
    values = [step * 10.0**power for power in range(bottom, bottom + decades + 1, stride) for step in steps]
    start = max((value for value in values if value <= low * 1.0001), default=values[0])
    end = min((value for value in values if value >= high * 0.9999), default=10.0 ** (bottom + decades))
    end = max(end, start * 2)
    ticks = [(value, text(value)) for value in values if start <= value <= end]
    return Scale(start, end, ticks, log=True)


def named(values: Sequence[float], text: Format, log: bool) -> Scale:
    """A scale whose ticks are the measured points themselves."""
    low, high = min(values), max(values)
    if low == high:
        low, high = (low / 2, high * 2) if log else (low - 1, high + 1)
    return Scale(low, high, [(value, text(value)) for value in sorted(set(values))], log)


def _round_step(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    for factor in (1.0, 2.0, 2.5, 5.0):
        if factor * power >= step * 0.9999:
            return factor * power
    return 10.0 * power
