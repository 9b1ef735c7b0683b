"""Limits of the operating system on the process of one job."""

from __future__ import annotations

import contextlib
import resource

from resolvers.files.inspection.decoding.jobs import DecodingLimits

_MAX_OPEN_FILES = 32

_KILLED_AFTER_SECONDS = 1
"""The process gets SIGXCPU at its limit, and SIGKILL this time later."""


def apply(limits: DecodingLimits) -> None:
    """Limit the CPU time, memory and files of this process. Exceeding the CPU time ends it by SIGXCPU."""
    _limit(resource.RLIMIT_CPU, limits.cpu_seconds, _KILLED_AFTER_SECONDS)
    _limit(resource.RLIMIT_AS, limits.memory_bytes)
    _limit(resource.RLIMIT_FSIZE, limits.output_bytes)
    _limit(resource.RLIMIT_NOFILE, _MAX_OPEN_FILES)
    _limit(resource.RLIMIT_CORE, 0)


def _limit(kind: int, value: int, grace: int = 0) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard - grace)
    # macOS refuses some limits.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(kind, (value, value + grace))
