"""The on-call order: what the evidence answers of it, and the first step that it leaves open."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from isoradix.doctor.batches import compare_batches, queues_shown
from isoradix.doctor.evidence import Evidence
from isoradix.doctor.findings import Finding, Form
from isoradix.doctor.rules.errors import first_error


@dataclass(frozen=True)
class Answer:
    """One step of the order, and what is known of it; None if the evidence does not say."""

    step: str
    says: str | None


@dataclass(frozen=True)
class Next:
    """What to do now."""

    step: str
    what: str
    commands: tuple[str, ...] = ()


_DUMPS: Final = 'for pid in $(pgrep -f sglang::scheduler); do py-spy dump --pid "$pid" > "stacks-$pid.txt"; done'
_BISECT: Final = (
    "isoradix replay ... --tiers l1",
    "isoradix replay ... --tiers l2",
    "ISORADIX_TIERS=l1, then l2, in a server",
)
_STEPS: Final = {
    "extend tokens": Next(
        "extend tokens",
        "compare the extend tokens of every rank, batch by batch in order of appearance: collect all ranks' logs",
        ("grep 'Prefill batch' LOG",),
    ),
    "queue depths": Next(
        "queue depths",
        "compare how deep the queues of every rank are at that step: collect the logs of all ranks, and their boards",
        ("grep 'Prefill batch' LOG", "isoradix waits --json > waits.json"),
    ),
    "network": Next(
        "network",
        "rule out the network: find the rank that waits on its own thread or queue while the others wait for it",
        (_DUMPS, "isoradix waits --json > waits.json"),
    ),
    "tiers": Next(
        "tiers",
        "switch tiers off, one run each. Still wrong with l1: it is none of the lower tiers. Right with l1 and wrong "
        "with l2: copies between device and host. Right with l2: storage",
        _BISECT,
    ),
    "journals": Next(
        "journals",
        "let every rank write a journal, and name the input that differs",
        ("ISORADIX_JOURNAL=DIR in a server, isoradix replay ... --journal DIR", "isoradix diff DIR"),
    ),
    "inputs": Next(
        "inputs",
        "follow the input that differs to where that rank's scheduler got it",
        ("isoradix view DIR", "isoradix replay-journal FILE"),
    ),
    "rank": Next(
        "rank",
        "look at that rank alone: its own log above its last line, and the system's for a kill",
        ("dmesg -T | grep -i 'killed process'",),
    ),
    "process": Next(
        "process",
        "look at that process and its machine: T is stopped, D waits for a device or a file system",
        ("ps -o pid,stat,wchan:32,cmd -p PID",),
    ),
    "nothing": Next("nothing", "nothing to do"),
}


def order(evidence: Evidence, found: Finding) -> list[Answer]:
    """The five steps, in their order, as far as the evidence answers them; of other forms than A, B and C the first."""
    first = Answer("traceback", _traceback(evidence, found))
    if found.form not in (Form.SHAPE, Form.QUEUE, Form.HANG):
        return [first]
    return [
        first,
        Answer("extend tokens", _extend_tokens(evidence, found)),
        Answer("queue depths", _queue_depths(evidence, found)),
        Answer("network", _network(evidence, found)),
        Answer("tiers", None),
    ]


def next_step(answers: Sequence[Answer], found: Finding, evidence: Evidence) -> Next:
    """The first step of the order that matters to this form and is not answered; what follows from the answers else."""
    known = {answer.step for answer in answers if answer.says is not None}
    match found.form:
        case Form.NONE:
            step = "nothing"
        case Form.SHAPE:
            step = "tiers" if "extend tokens" in known else "extend tokens"
        case Form.QUEUE:
            step = "tiers" if "queue depths" in known else "queue depths"
        case Form.HANG:
            step = "tiers" if "network" in known else "network"
        case Form.DIVERGENCE:
            step = "inputs" if any(one.parting is not None for one in evidence.journals) else "journals"
        case Form.STOPPED:
            step = "process"
        case Form.KILLED | Form.FAILED:
            step = "rank"
    return _STEPS[step]


def _traceback(evidence: Evidence, found: Finding) -> str | None:
    if not any(file.kind in ("log", "replay", "journal") for file in evidence.files):
        return None
    if found.form in (Form.SHAPE, Form.QUEUE, Form.FAILED, Form.DIVERGENCE) and found.because:
        return found.because[0].text
    error = first_error(evidence)
    return "none" if error is None else error.condition.text


def _extend_tokens(evidence: Evidence, found: Finding) -> str | None:
    if found.form is Form.SHAPE and found.condition.operation == "batch header":
        return found.condition.text
    by_rank = evidence.batches_by_rank()
    if len(by_rank) < 2:
        return None
    unequal = compare_batches(by_rank)
    if unequal is not None:
        return str(unequal)
    shortest = min(map(len, by_rank.values()))
    alike = len({batches[0].shape for batches in by_rank.values()}) == 1
    return f"equal on {len(by_rank)} ranks, {shortest} batches compared" if alike else None


def _queue_depths(evidence: Evidence, found: Finding) -> str | None:
    if found.form is Form.QUEUE and found.condition.want is not None:
        return found.condition.text
    by_rank = evidence.batches_by_rank()
    unequal = compare_batches(by_rank)
    if unequal is not None and unequal.queued_before:
        return f"{queues_shown(unequal.queued_before)}, at batch {unequal.number - 1}, which is equal"
    last = {rank: batches[-1].queued for rank, batches in by_rank.items() if batches}
    known = {rank: queued for rank, queued in last.items() if queued is not None}
    return f"{queues_shown(known)}, at the last batch of each" if len(known) > 1 else None


def _network(evidence: Evidence, found: Finding) -> str | None:
    if found.form is not Form.HANG:
        return None
    if found.not_the_network is not None:
        return f"ruled out: {found.not_the_network}"
    unequal = compare_batches(evidence.batches_by_rank())
    if unequal is not None and unequal.queued_before:
        return f"ruled out: schedulers had parted at batch {unequal.number - 1}, where their queues differ"
    return None
