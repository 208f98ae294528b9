"""Ports for servers of tests."""

import itertools
import os
import socket

_FIRST, _LAST = 20_000, 32_000
"""Below the ports that systems give to connections (32,768 and up): none of those takes one before a server does."""
_APART = 97
"""Between the first ports of two processes whose numbers follow each other."""

_steps = itertools.count()


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at, another at each call and, as a rule, in each process."""
    while True:
        port = _FIRST + (os.getpid() * _APART + next(_steps)) % (_LAST - _FIRST)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
