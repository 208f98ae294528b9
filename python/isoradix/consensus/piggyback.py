"""Frames as bytes on a message that the scheduler relays anyhow: no message of their own."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from isoradix import Control, FrameInfo, ProtocolError
from isoradix.consensus.gloo import VotingPlane
from isoradix.consensus.plane import refuse_controls


class PiggybackPlane(VotingPlane):
    """Votes on a thread with its own group; frames ride with the scheduler's own messages.

    Once a step, the leader enters and takes the frame for its message (`take`); every other rank hands over the frame
    of the message that it has received (`deliver`), then enters. How many messages are in flight is the scheduler's
    matter.
    """

    edges = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        self._outgoing: deque[bytes] = deque()
        self._incoming: deque[bytes] = deque()
        super().__init__(*args, **options)

    def take(self) -> bytes:
        """The leader's oldest frame that was not taken.

        Raises:
            ProtocolError: there is none.
        """
        if not self._outgoing:
            raise ProtocolError(
                "take out of order: no frame is there\nhint: the leader enters a step, then takes its frame"
            )
        return self._outgoing.popleft()

    def deliver(self, frame: bytes) -> None:
        """A follower's next frame, as it came with the scheduler's message."""
        self._incoming.append(frame)

    def enter(self, controls: Sequence[Control] = ()) -> FrameInfo:
        """Enters the next step."""
        refuse_controls(self.place, controls)
        with self._guarded("enter"):
            rank, _ = self._started()
            if self.place.leads:
                frame, info = self._lead(controls)
                self._outgoing.append(frame)
            elif self._incoming:
                info = rank.follow(self._incoming.popleft())
                self.counts.frames += 1
            else:
                what = f"enter out of order: no frame of step {self.step + 1} was delivered"
                raise ProtocolError(f"{what}\nhint: deliver the frame of the leader's message, then enter")
            self._entered(info.step)
            return info
