"""Free loopback ports for the tests' servers, outside the range that the kernel uses for clients."""

import contextlib
import os
import socket

RANGE = range(23_000, 32_000, 10)  # below 32768, where Linux's client ports begin

_given: set[int] = set()


def free(n: int = 1) -> int:
    """Return the first of n (at most 10) consecutive free ports, different at each call.

    Each process begins at a different port, so that two processes that search at the same moment find
    different ports.
    """
    start = os.getpid() * 131 % len(RANGE)  # different even for processes with neighbouring IDs
    for first in (*RANGE[start:], *RANGE[:start]):
        if first in _given:
            continue
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + n):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            _given.add(first)
            return first
    raise RuntimeError(f"no {n} free ports between {RANGE.start} and {RANGE.stop}")
