"""Built-in workloads: endless, seeded streams of prompts in the shapes that serving sees.

Every number below is a design choice, meant to be plain rather than fitted to one site. Lengths are tokens;
"log-normal m s [a, b]" has median m, log-scale s and is cut to a..=b. Token contents never repeat by accident.

chat    8 system prompts, uniform [256, 2048], popularity Zipf 1.0. With probability 1/6 a session opens; otherwise an
        open one goes on, the j-th most recently active with geometric probability 0.02 (mean 49 back). A turn adds a
        user message, log-normal 60 1.0 [4, 2048], and, after the request, an answer, log-normal 250 0.7 [16, 2048].
        A session ends with probability 1/6 after a turn, or past 32,768 tokens. At most 512 are open; the one
        longest idle is abandoned.
agent   4 agents with tool descriptions, uniform [4096, 12288]. 24 tasks run at a time, and one picked uniformly takes
        a step: it adds a tool result, log-normal 300 1.2 [16, 16384], and, after the request, an action, log-normal
        120 0.6 [8, 2048]. With probability 0.04 the step forks a second task off the same context, up to 64 tasks. A
        task ends with probability 1/25. Past 65,536 tokens a context is compacted to tool description and summary,
        log-normal 1500 0.5 [256, 8192].
rag     One instruction of 400 tokens, a corpus of 4,000 documents, log-normal 700 0.8 [64, 6144], popularity Zipf 0.9.
        A request is the instruction, 1 to 6 distinct documents (with probability 0.6 sorted by rank, as a stable
        re-ranker gives them; otherwise as drawn), and a new question, uniform [16, 256].
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np

from isoradix.replay.blocks import Tokens, stream_tokens
from isoradix.replay.draws import Draws, Zipf


class Writer:
    """Hands out token runs that nobody had before, numbered within one seed."""

    def __init__(self, seed: int) -> None:
        self._next = (seed & 0xF_FFFF) << 20

    def fresh(self, length: int) -> Tokens:
        self._next += 1
        return stream_tokens(self._next, length)


def chat(draws: Draws, writer: Writer) -> Iterator[Tokens]:
    """Many users in conversations over a few system prompts."""
    prompts = [writer.fresh(draws.integer(256, 2048)) for _ in range(8)]
    popularity = Zipf(8, 1.0)
    sessions: list[Tokens] = []  # the most recently active comes last
    while True:
        if not sessions or draws.chance(1 / 6):
            history = prompts[draws.pick(popularity)]
        else:
            back = min(draws.geometric(0.02), len(sessions) - 1)
            history = sessions.pop(-1 - back)
        prompt = np.concatenate((history, writer.fresh(draws.lognormal(60, 1.0, 4, 2048))))
        yield prompt
        answer = writer.fresh(draws.lognormal(250, 0.7, 16, 2048))
        if not draws.chance(1 / 6) and len(prompt) + len(answer) <= 32_768:
            sessions.append(np.concatenate((prompt, answer)))
            del sessions[:-512]


def agent(draws: Draws, writer: Writer) -> Iterator[Tokens]:
    """Long tool-using tasks that grow step by step, fork, and get compacted."""
    tools = [writer.fresh(draws.integer(4096, 12_288)) for _ in range(4)]
    tasks: list[tuple[int, Tokens]] = []
    while True:
        while len(tasks) < 24:
            kind = draws.integer(0, 3)
            tasks.append((kind, tools[kind]))
        slot = draws.integer(0, len(tasks) - 1)
        kind, context = tasks[slot]
        prompt = np.concatenate((context, writer.fresh(draws.lognormal(300, 1.2, 16, 16_384))))
        yield prompt
        if draws.chance(1 / 25):
            del tasks[slot]
            continue
        if len(tasks) < 64 and draws.chance(0.04):
            tasks.append((kind, _act(draws, writer, prompt)))
        tasks[slot] = (kind, _compact(draws, writer, tools[kind], _act(draws, writer, prompt)))


def _act(draws: Draws, writer: Writer, prompt: Tokens) -> Tokens:
    return np.concatenate((prompt, writer.fresh(draws.lognormal(120, 0.6, 8, 2048))))


def _compact(draws: Draws, writer: Writer, tools: Tokens, context: Tokens) -> Tokens:
    if len(context) <= 65_536:
        return context
    return np.concatenate((tools, writer.fresh(draws.lognormal(1500, 0.5, 256, 8192))))


def rag(draws: Draws, writer: Writer) -> Iterator[Tokens]:
    """Questions over retrieved documents of uneven popularity."""
    instruction = writer.fresh(400)
    corpus = [writer.fresh(draws.lognormal(700, 0.8, 64, 6144)) for _ in range(4000)]
    popularity = Zipf(len(corpus), 0.9)
    while True:
        wanted = draws.integer(1, 6)
        ranks: dict[int, None] = {}  # a set that keeps its order
        while len(ranks) < wanted:
            ranks[draws.pick(popularity)] = None
        order = sorted(ranks) if draws.chance(0.6) else list(ranks)
        question = writer.fresh(draws.integer(16, 256))
        yield np.concatenate((instruction, *(corpus[rank] for rank in order), question))


WORKLOADS: Final[dict[str, Callable[[Draws, Writer], Iterator[Tokens]]]] = {
    "chat": chat,
    "agent": agent,
    "rag": rag,
}


def generate(kind: str, seed: int) -> Iterator[Tokens]:
    """The prompts of one workload, without end."""
    number = list(WORKLOADS).index(kind)
    return WORKLOADS[kind](Draws(seed, number), Writer(seed))
