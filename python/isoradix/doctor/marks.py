"""What lines of logs mean: one table of patterns. SGLang's, torch's, gloo's and this package's own."""

import re
from typing import Final

_N: Final = r"-?\d+"
_S: Final = r"\d{1,9}(?:\.\d{1,9})?"
"""Seconds."""
_ABOVE_BALLOT: Final = (
    rf"divergence (?:at step (?P<step>\d+) )?\(form B\): vote (?P<vote>\d+) says (?P<what>.+?) is "
    rf"(?P<want>{_N}|no stake)[^,]*, but rank (?P<member>\d+) voted (?P<have>{_N}|no stake)"
)
_ABOVE_COUNT: Final = (
    rf"divergence \(form B\): (?P<what>.+?) (?P<want>{_N}) (?:of .+? )?is agreed, "
    rf"rank (?P<member>\d+) has (?P<have>{_N})"
)
_ABOVE_ISSUED: Final = (
    r"divergence \(form B\): (?P<what>.+?) is agreed, rank (?P<member>\d+) has issued (?P<have>\d+) operations"
)
_ABOVE_PAGES: Final = (
    r"(?P<what>operation \d+ is granted (?P<want>\d+) pages).* reservation of (?P<have>\d+) \(form B\)"
)
_DECIDED: Final = r"divergence at step (?P<step>\d+) seq (?P<seq>\d+): (?P<what>rank.+ decided .+); last common step"
_DIGEST: Final = (
    r"divergence before step (?P<step>\d+): rank (?P<member>\d+) has digest (?P<have>0x[0-9a-f]+), "
    r"the leader (?P<want>0x[0-9a-f]+)"
)
_VOTES: Final = (
    rf"divergence at vote (?P<vote>\d+): ranks voted (?P<what>\w+) (?P<low>{_N}) to (?P<high>{_N}), "
    rf"rank (?P<member>\d+) voted (?P<have>{_N})"
)
_STILL: Final = rf"rank (?P<rank>\d+) has been at step (?P<step>-?\d+) for (?P<age>{_S}) s and waits for nobody"
_WAITED: Final = (
    rf"^(?:\w+:\w+:)?rank (?P<rank>\d+) waited (?P<age>{_S}) s for (?P<operation>\w+) (?P<want>{_N}) of "
    rf"(?P<peer>all ranks|its own|rank \d+) \(has (?P<have>{_N})\)"
)
_OWN: Final = (
    rf"rank (?P<rank>\d+) waits for its own (?P<operation>\w+) (?P<want>{_N}) \(has (?P<have>{_N})\) "
    rf"for (?P<age>{_S}) s"
)
_MISSING: Final = (
    rf"ranks? [\d,]+ (?:is|are) in (?P<operation>\w+) (?P<want>\d+) for (?P<age>{_S}) s, "
    r"(?P<ranks>ranks? [\d,]+) (?:is|are) not: (?P<what>.+)"
)
_ORDINALS: Final = (
    rf"all ranks are in collectives, for (?P<age>{_S}) s, but not in the same one: (?P<what>.+); "
    r"(?:(?P<ranks>ranks? [\d,]+) (?:has|have)|one of them has) skipped or repeated one"
)
_TIMEOUT: Final = (
    r"Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(?P<number>\d+), OpType=(?P<operation>\w+)"
    r".*?(?:ran for (?P<ms>\d+) milliseconds|$)"
)
_ENQUEUED: Final = r"last enqueued (?:NCCL )?work: (?P<enqueued>\d+), last completed (?:NCCL )?work: (?P<done>\d+)"

# kind and pattern, in the order in which they are tried
_PATTERNS: Final = (
    ("waited", _WAITED),  # a report of a long wait, whatever it says of other ranks, is no verdict
    # form A: ranks differ in how many tokens a batch computes
    ("shape", r"shape '\[(?P<own>\d+), -1, (?P<width>\d+)\]' is invalid for input of size (?P<came>\d+)"),
    ("preamble", r"op\.preamble\.length <= op\.nbytes\. (?P<came>\d+) vs (?P<own>\d+)"),
    ("header", r"divergence at step (?P<step>\d+) \(form A\): in batch (?P<batch>\d+), (?P<what>.+)"),
    # form B: a rank takes more than it has
    ("pop", r"IndexError: pop from (?:an )?empty (?:list|deque)"),
    ("above", _ABOVE_BALLOT),
    ("above", _ABOVE_ISSUED),
    ("above", _ABOVE_COUNT),
    ("above", _ABOVE_PAGES),
    # this package: ranks have parted
    ("decided", _DECIDED),
    ("rings", r"divergence at step (?P<step>\d+): (?P<what>ranks? [\d,]+ (?:has|have) digest .+)"),
    ("digest", _DIGEST),
    ("votes", _VOTES),
    ("parted", r"(?:divergence (?:at|before) (?:step|vote) \d+|DivergenceError: divergence): (?P<what>.+)"),
    ("parted", r"(?P<what>found rank divergence.*)"),
    # this package: a rank is lost
    ("killed", r"rank (?P<rank>\d+) has ended without a goodbye"),
    ("killed", r"rank (?P<rank>\d+) has ended and left a wait board"),
    ("silent", rf"(?P<ranks>ranks? [\d, ]+) gives no sign of life for (?P<age>{_S}) s"),
    ("silent", r"(?P<ranks>ranks? [\d,]+) (?:is|are) stopped, or gives? no sign of life"),
    ("still", _STILL),
    ("own", _OWN),
    ("missing", _MISSING),
    ("ordinals", _ORDINALS),
    ("nobody", r"nobody in particular: no rank is silent, and none stands still alone; (?P<what>.+)"),
    ("absent", r"rank (?P<rank>\d+) did not come to the start"),
    ("failed", r"rank (?P<rank>\d+) failed: (?P<type>\w+): (?P<what>.+)"),
    # a wait without an end
    ("timeout", _TIMEOUT),
    ("enqueued", _ENQUEUED),
    ("gloo timeout", r"Timed out waiting (?P<ms>\d+)ms for (?P<operation>send|recv) operation"),
    ("watchdog", rf"(?:Scheduler w|W)atchdog timeout \(self\.watchdog_timeout=(?P<seconds>{_S})"),
    # what a rank's end does to others
    ("closed", r"Connection (?:closed|reset) by peer|Broken pipe"),
    ("signal", r"killed by (?P<name>SIG\w+)|(?:exit ?code|exited with) -(?P<number>\d+)|Out of memory: Killed"),
)
MARKS: Final = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
LIKELY: Final = re.compile(
    r"invalid for input|preamble|divergence|pop from|reservation of|rank|imed out|atchdog|enqueued|by peer|Broken pipe"
    r"|SIG|exit|Killed"
)
"""What every line that means something has: nearly all lines are done with after this."""

BATCH: Final = re.compile(
    r"Prefill batch.*?#new-seq: (?P<sequences>\d+), #new-token: (?P<extend>\d+), #cached-token: (?P<cached>\d+)"
    r"(?:.*?#queue-req: (?P<queued>\d+))?"
)
PREFIX: Final = re.compile(r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?((?: [A-Z_]+\d+)*)\] ?")
"""`[2026-11-30 00:19:12 PP1 TP0]`, as SGLang writes it."""
TORCH_PREFIX: Final = re.compile(r"\[rank(\d+)\]:(?:\[[^\]]*\])? ?")

CONNECTION: Final = frozenset({"closed", "signal"})
"""Kinds that say that something else came first."""


def meaning(line: str) -> tuple[str, dict[str, str]] | None:
    """What a line means: kind and values; None for nearly all lines."""
    if not LIKELY.search(line):
        return None
    for kind, pattern in MARKS:
        if found := pattern.search(line):
            return kind, {name: value for name, value in found.groupdict().items() if value is not None}
    return None
