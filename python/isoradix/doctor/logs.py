"""A log, line by line: which rank speaks, what it says, and its tracebacks as one sign each."""

import re
from pathlib import Path
from typing import Final

from isoradix.doctor.evidence import Batch, Evidence, Sign, Source
from isoradix.doctor.marks import BATCH, PREFIX, TORCH_PREFIX, meaning
from isoradix.doctor.text import shortened

_BEGIN: Final = "Traceback (most recent call last):"
_CALL: Final = re.compile(r'\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)')
_RAISED: Final = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?:: (?P<text>.*))?$")
_CALLS_MAX: Final = 2_000
_SURVIVED_LINES: Final = 200
"""A log that goes on for so long after a traceback is of a process that survived it."""
_FATAL: Final = "hit an exception"
_SIGNS_MAX: Final = 20_000
"""Of one file; beyond that nothing is learned."""


class Traceback:
    """One that is being read: its innermost call so far."""

    def __init__(self, label: str, fatal: bool) -> None:
        self.label, self.fatal = label, fatal
        self.calls = 0
        self.function = self.file = self.code = ""

    def take(self, line: str) -> bool:
        """Whether the line belongs to it."""
        if found := _CALL.match(line):
            self.calls += 1
            self.function, self.file, self.code = found["function"], found["file"], ""
            return self.calls < _CALLS_MAX
        if line.startswith((" ", "\t")) or not line:
            if line.strip(" ~^\t") and not self.code:
                self.code = line.strip()
            return True
        return False


class LogReader:
    """Reads the lines of one file into the evidence.

    Args:
        evidence: where signs and batches go.
        path: of the file.
        label: the rank whose file it is, if its name says so.
    """

    def __init__(self, evidence: Evidence, path: Path, label: str) -> None:
        self._evidence, self._path, self._of_file = evidence, path, label
        self._traceback: Traceback | None = None
        self._signs = self._lines = 0
        self._raised: list[tuple[int, list[Sign]]] = []
        """Tracebacks that may have been survived: the lines until then, and what they were taken for."""

    def take(self, number: int | None, text: str, label: str) -> None:
        """Takes a line, and who wrote it: what `speaker` gave."""
        self._lines += 1
        if _BEGIN in text:
            self._traceback = Traceback(label, _FATAL in text)
            return
        # what another rank writes in the middle of a traceback is no part of it
        if self._traceback is not None and label in ("", self._traceback.label):
            if self._traceback.take(text):
                return
            raised, self._traceback = self._traceback, None
            if found := _RAISED.match(text):
                self._raise(raised, found["type"], found["text"] or "", number, text)
                return
        if found := BATCH.search(text):
            self._batch(label, found, self._source(number, text))
        elif (meant := meaning(text)) is not None:
            self._sign(meant[0], label, meant[1], self._source(number, text))

    def speaker(self, line: str) -> tuple[str, str]:
        """The label of whoever wrote a line, and what is behind it."""
        if line.startswith("["):
            if found := PREFIX.match(line):
                return found[1].strip() or self._of_file, line[found.end() :]
            if found := TORCH_PREFIX.match(line):
                return self._of_file or found[1], line[found.end() :]
        return self._of_file, line

    def _raise(self, raised: Traceback, kind: str, text: str, number: int | None, line: str) -> None:
        """A traceback has ended with its error."""
        values = {"type": kind.rpartition(".")[2], "text": text, "function": raised.function, "code": raised.code}
        source, before = self._source(number, line), len(self._evidence.signs)
        if (meant := meaning(line)) is not None:
            self._sign(meant[0], raised.label, {**values, **meant[1]}, source)
            values["means"] = meant[0]
        self._sign("error", raised.label, values, source)
        if not raised.fatal:
            self._raised.append((self._lines, self._evidence.signs[before:]))

    def end(self) -> None:
        """The file is read: tracebacks that were survived are no signs."""
        for lines, signs in self._raised:
            if self._lines - lines > _SURVIVED_LINES:
                survived = set(map(id, signs))
                self._evidence.signs[:] = [sign for sign in self._evidence.signs if id(sign) not in survived]

    def _sign(self, kind: str, label: str, values: dict[str, str], source: Source) -> None:
        self._evidence.roster.see(label)
        self._signs += 1
        if self._signs <= _SIGNS_MAX:
            self._evidence.signs.append(Sign(kind, label, values, source))

    def _batch(self, label: str, found: re.Match[str], source: Source) -> None:
        self._evidence.roster.see(label)
        queued = None if found["queued"] is None else int(found["queued"])
        counts = int(found["sequences"]), int(found["extend"]), int(found["cached"])
        self._evidence.batches.setdefault(label, []).append(Batch(*counts, queued, source))

    def _source(self, number: int | None, text: str) -> Source:
        return Source(self._path, number, shortened(text))
