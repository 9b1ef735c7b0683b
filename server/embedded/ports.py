"""Finds free TCP ports on this machine."""

from __future__ import annotations

import random
import socket

from server.embedded.errors import EmbeddedError

# Below the ephemeral port range: a client that retries the port of a stopped server cannot connect to itself, and no
# outgoing connection occupies a saved port.
FIRST, LAST = 20_000, 29_999
"""The ports that are picked from."""


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Return whether nothing listens on the port."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def pick_free(*taken: int) -> int:
    """Return a free port that is not in `taken`. Raises EmbeddedError if there is none."""
    candidates = random.sample(range(FIRST, LAST + 1), 200)
    for port in candidates:
        if port not in taken and is_free(port):
            return port
    raise EmbeddedError(f"No free TCP port from {FIRST} to {LAST} on 127.0.0.1: stop other programs, then try again.")
