"""Limits on open files (file descriptors). Each connection is one."""

from __future__ import annotations

import structlog

try:
    import resource
except ImportError:  # Windows has no such limit.
    resource = None  # type: ignore[assignment]

log = structlog.get_logger(__name__)

RESERVED_FILES = 500
"""Files kept free for databases, HTTP requests and logs, which would fail without any."""


def max_sockets(*wanted: int) -> list[int]:
    """Return how many sockets of each kind may be open at once. Raises the process's limit on open files if necessary.

    If the limit is too low for all wanted sockets, each kind gets a proportional share.
    """
    if resource is None:
        return list(wanted)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = sum(wanted) + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        # Some systems allow less than their hard limit.
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
            soft = raised
        except (OSError, ValueError):
            pass
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return list(wanted)
    available = max(1, soft - RESERVED_FILES)
    shares = [max(1, available * count // sum(wanted)) for count in wanted]
    log.info("socket_limits_reduced", wanted=wanted, allowed=shares, open_files=soft)
    return shares
