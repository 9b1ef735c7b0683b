"""The decoder process: reads jobs from standard input, and writes an answer to standard output for each.

Both are lines of JSON. Each job runs in a fork, so it has its own limits, its memory is freed at its end, and a crash
ends only the fork. The process ends when its input ends.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import warnings
from typing import BinaryIO, Never

from resolvers.files.inspection.decoding import inspecting, limits, system_calls
from resolvers.files.inspection.decoding.jobs import Answer, CannotDecode, DecodingJob, DecodingLimits

_MAX_ANSWER_BYTES = 65_536

_DISK_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO})
"""Errors of the disk, which say nothing about the file."""


def main() -> None:
    """Answer jobs until standard input ends."""
    warnings.simplefilter("ignore")
    os.nice(5)
    inspecting.load_libraries()
    for line in sys.stdin.buffer:
        *fields, values = json.loads(line)
        answer = _run_in_fork(DecodingJob._make([*fields, DecodingLimits(*values)]))
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.buffer.flush()


def _run_in_fork(job: DecodingJob) -> bytes:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _run_and_exit(job, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read(_MAX_ANSWER_BYTES)
    _, status = os.waitpid(child, 0)
    if status == 0 and answer:
        return answer
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    if ended_by in {0, signal.SIGKILL}:
        # A full disk, or killed from outside for lack of memory: that says nothing about the file.
        sys.exit(1)
    if ended_by == signal.SIGXCPU:
        return _encode({"rejected": f"decoding takes longer than {job.limits.cpu_seconds} s of CPU time"})
    return _encode({"rejected": f"the decoder crashed (signal {ended_by})"})


def _run_and_exit(job: DecodingJob, writer: int) -> Never:
    status = 1
    try:
        # Untrusted bytes must not be able to write answers to other jobs.
        os.close(0)
        os.close(1)
        os.write(writer, _encode(_run(job)))
        status = 0
    finally:
        os._exit(status)


def _run(job: DecodingJob) -> Answer:
    with open(job.source, "rb") as source, open(job.target, "wb", buffering=0) as target:  # noqa: PTH123
        limits.apply(job.limits)
        # From here on, no file can be opened.
        system_calls.restrict()
        return _decode(job, source, target)


def _decode(job: DecodingJob, source: BinaryIO, target: BinaryIO) -> Answer:
    try:
        return inspecting.run(job, source, target)
    except CannotDecode as error:
        return {"rejected": str(error)}
    except MemoryError:
        return {"rejected": "the image needs too much memory"}
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            raise
        return _reject(error)
    except Exception as error:
        return _reject(error)


def _reject(error: Exception) -> Answer:
    return {"rejected": f"{type(error).__name__}: {str(error)[:300]}"}


def _encode(answer: Answer) -> bytes:
    return json.dumps(answer).encode()
