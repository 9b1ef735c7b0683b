"""How many connections the system lets a process have: each is an open file."""

from __future__ import annotations

import structlog

try:
    import resource
except ImportError:  # Not on Windows, which has no such limit.
    resource = None  # type: ignore[assignment]

log = structlog.get_logger(__name__)

RESERVED = 500
"""Files that are no WebSocket and no event stream: both databases, HTTP requests, logs. Without any left, not even those would work."""


def max_sockets(*wanted: int) -> list[int]:
    """How many of the `wanted` sockets of each kind may be open at once, having raised what this process may open if need be. Where
    that is not enough for all, each kind has its share."""
    if resource is None:
        return list(wanted)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = sum(wanted) + RESERVED
    if soft != resource.RLIM_INFINITY and soft < needed:
        # Some systems allow less than the hard limit they tell.
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError):
            pass
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return list(wanted)
    room = max(1, soft - RESERVED)
    shares = [max(1, room * each // sum(wanted)) for each in wanted]
    log.info("fewer_sockets_than_set", wanted=wanted, room=shares, open_files=soft)
    return shares
