"""Which TCP ports of this machine are free."""

from __future__ import annotations

import random
import socket

from server.embedded.errors import EmbeddedError

# Below the range that outgoing connections get their ports from: a client that keeps trying the port of a
# stopped server can then not connect to itself, and no passing connection sits on a port that we remember.
_FIRST, _LAST = 20_000, 29_999


def is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether nothing listens on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def pick_free(*taken: int) -> int:
    """A port on which nothing listens, none of `taken`. Raises EmbeddedError when there is none."""
    candidates = random.sample(range(_FIRST, _LAST + 1), 200)
    for port in candidates:
        if port not in taken and is_free(port):
            return port
    raise EmbeddedError(
        f"No free TCP port from {_FIRST} to {_LAST} on 127.0.0.1: stop what listens there, then try again."
    )
