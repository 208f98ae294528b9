"""Stack dumps: what `py-spy dump` prints, also inside a server's log, and what Python's faulthandler prints."""

import re
from pathlib import Path
from typing import Final

from isoradix.doctor.evidence import Evidence, Frame, Source, Stack
from isoradix.doctor.roster import label_in
from isoradix.doctor.text import shortened

_PROCESS: Final = re.compile(r"Process (?P<pid>\d+): (?P<command>.+)")
_FOR_PROCESS: Final = re.compile(r"Pyspy dump for PID (?P<pid>\d+)", re.IGNORECASE)
_THREAD: Final = re.compile(r"Thread (?P<id>\d+|0x[0-9A-Fa-f]+) \((?P<state>[a-z+]+)\)(?:: \"(?P<name>[^\"]*)\")?")
_FAULT_THREAD: Final = re.compile(r"(?P<current>Current t|T)hread 0x[0-9a-f]+.*\(most recent call first\):")
_CALL: Final = re.compile(r"\s+(?P<function>\S.*?) \((?P<file>[^()]+?)(?::(?P<line>\d+))?\)$")
_FAULT_CALL: Final = re.compile(r"\s+File \"(?P<file>[^\"]+)\", line (?P<line>\d+) in (?P<function>.+)")
# threads of this package carry the rank in their name
_OWN_THREAD: Final = re.compile(r"isoradix-lifelines-(\d+)")
_SHORT: Final = re.compile(r".*/(?:site|dist)-packages/|.*/lib/python3\.\d+/|.*/(?=isoradix/)")
_CALLS_MAX: Final = 500


class _Thread:
    """A thread that is being read."""

    def __init__(self, name: str | None, idle: bool, source: Source) -> None:
        self.name, self.idle, self.source = name, idle, source
        self.frames: list[Frame] = []

    @property
    def is_main(self) -> bool:
        if self.name is not None:
            return self.name == "MainThread"
        return self.runs_module

    @property
    def runs_module(self) -> bool:
        """Whether a program began on it, which is so on the main thread alone."""
        return any(frame.function == "<module>" for frame in self.frames)


class StackReader:
    """Reads the dumps of one file into the evidence: of each process its main thread.

    Args:
        evidence: where stacks go.
        path: of the file.
        label: the rank whose file it is, if its name says so.
    """

    def __init__(self, evidence: Evidence, path: Path, label: str) -> None:
        self._evidence, self._path, self._of_file = evidence, path, label
        self._label = ""
        self._threads: list[_Thread] = []
        self._in_fault = False
        self.dumps = 0

    def take(self, number: int | None, line: str, speaker: str) -> bool:
        """Takes a line; whether it belongs to a dump. `speaker` is the label of the log's line."""
        if found := _FOR_PROCESS.search(line):
            self.end()
            self._label = speaker
            return True
        if line.startswith("Process ") and (found := _PROCESS.match(line)):
            if self._threads:
                self.end()
            self._label = label_in(found["command"]) or self._label or self._of_file
            return True
        if line.startswith("Python v"):
            return True
        source = Source(self._path, number, shortened(line))
        if "hread " in line:
            if found := _THREAD.match(line):
                self._threads.append(_Thread(found["name"] or "", found["state"] == "idle", source))
                self._in_fault = False
                return True
            if found := _FAULT_THREAD.match(line):
                self._threads.append(_Thread(None, True, source))
                self._in_fault = True
                return True
        if not self._threads:
            return False
        if line.startswith((" ", "\t")):
            self._call(line)
            return True
        if line:
            self.end()
            return False
        return True

    def _call(self, line: str) -> None:
        frames = self._threads[-1].frames
        found = (_FAULT_CALL if self._in_fault else _CALL).match(line)
        if found and len(frames) < _CALLS_MAX:
            number = None if found["line"] is None else int(found["line"])
            frames.append(Frame(found["function"], _SHORT.sub("", found["file"]), number))

    def end(self) -> None:
        """What was read so far is one process."""
        threads, self._threads = self._threads, []
        if not threads:
            return
        named = (_OWN_THREAD.fullmatch(thread.name or "") for thread in threads)
        label = self._of_file or self._label or next((found[1] for found in named if found), "")
        self._label = ""
        main = next((thread for thread in threads if thread.is_main), None)
        main = main or next((thread for thread in threads if thread.runs_module), None)
        if main is not None and main.frames:
            self.dumps += 1
            self._evidence.roster.see(label)
            self._evidence.stacks.append(Stack(label, tuple(main.frames), main.idle, main.source))
