"""How much of the prompts was cached: only the scheduler knows which of its matches led to an admission."""

from typing import NamedTuple

from isoradix import InputTypeError, InvalidInputError


class Hits(NamedTuple):
    """Tokens of all admitted requests so far."""

    prompt: int = 0
    device: int = 0
    host: int = 0
    storage: int = 0


class HitCounter:
    """Counts what admitted requests found. One thread calls `admit`, any thread reads.

    Policies match a prompt many times before a request runs, or never; so hits are reported once, when it is admitted.
    """

    def __init__(self) -> None:
        self._hits = Hits()

    def admit(self, prompt_tokens: int, *, device: int = 0, host: int = 0, storage: int = 0) -> None:
        """A request is admitted.

        Args:
            prompt_tokens: tokens of its prompt.
            device: of these, what was on the device: `hit_tokens` of the match.
            host: what came from host for it: the tokens that `load_back` gave, less those below.
            storage: what came from external storage for it, through a prefetch of its own.

        Raises:
            InputTypeError: a number is no int.
            InvalidInputError: a number is negative, or the hits are more than the prompt. Nothing is counted.
        """
        found = Hits(prompt_tokens, device, host, storage)
        for name, tokens in found._asdict().items():
            if not isinstance(tokens, int):
                raise InputTypeError(f"{name} is {tokens!r}, expected an int\nhint: count whole tokens")
        if min(found) < 0 or device + host + storage > prompt_tokens:
            what = f"{device} + {host} + {storage} hit tokens of a prompt of {prompt_tokens}, limit {prompt_tokens}"
            raise InvalidInputError(f"{what}\nhint: count each token once, in the tier where it was found")
        # Replaced as a whole, so that a reader sees one moment.
        self._hits = Hits(*(before + now for before, now in zip(self._hits, found, strict=True)))

    @property
    def hits(self) -> Hits:
        """What was counted so far."""
        return self._hits
