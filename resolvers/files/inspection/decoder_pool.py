"""Processes that decode untrusted bytes: started when needed, replaced when they fail, ended when idle."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import cast

import structlog

from resolvers.base.errors import Unavailable
from resolvers.files.inspection.decoding.jobs import Answer, DecodingJob

_log = structlog.get_logger()

_JOB_SECONDS = 18.0
"""Time limit of a job. Files are judged by CPU time, which is limited by the process: this one depends on the load."""

_QUEUE_SECONDS = 12.0
"""Longest wait for a process. It outlasts a job at its CPU time: two hostile images keep nobody from theirs."""

_IDLE_SECONDS = 60.0

_ATTEMPTS = 2

_ROOT = Path(__file__).parents[3]
_START = "import sys; sys.path.append(sys.argv[1]); from resolvers.files.inspection.decoding.worker import main; main()"
_ENVIRONMENT = {"LC_ALL": "C.UTF-8", "MALLOC_ARENA_MAX": "1"}
"""All that the processes see of the environment: it has no secrets."""


@dataclass(frozen=True, eq=False, slots=True)
class _Decoder:
    """A process and its answers."""

    process: Popen[bytes]
    answers: asyncio.StreamReader
    pipe: asyncio.BaseTransport


class DecoderPool:
    """Runs jobs in at most `size` processes. Nothing runs until there is a job."""

    def __init__(
        self,
        size: int,
        *,
        job_seconds: float = _JOB_SECONDS,
        queue_seconds: float = _QUEUE_SECONDS,
        idle_seconds: float = _IDLE_SECONDS,
    ) -> None:
        self._job_seconds = job_seconds
        self._queue_seconds = queue_seconds
        self._idle_seconds = idle_seconds
        self._places = asyncio.Semaphore(size)
        self._idle: list[_Decoder] = []
        self._ending: dict[_Decoder, asyncio.TimerHandle] = {}
        self._reaping: set[asyncio.Task[int]] = set()

    async def run(self, job: DecodingJob) -> Answer:
        """Return the answer to a job: `rejected` if its process crashes, or needs too much CPU time or memory.

        Raises Unavailable if no process is free within a few seconds, or the machine is too busy.
        """
        try:
            async with asyncio.timeout(self._queue_seconds):
                await self._places.acquire()
        except TimeoutError:
            raise Unavailable("too many files are being inspected; please try again") from None
        try:
            return await self._run(job)
        finally:
            self._places.release()

    async def close(self) -> None:
        """End all processes."""
        while self._idle:
            self._end(self._take())
        await asyncio.gather(*self._reaping)

    async def _run(self, job: DecodingJob) -> Answer:
        # A process may have been killed from outside, while it was idle or during the job.
        for attempt in range(_ATTEMPTS):
            answer = await self._try(job)
            if answer is not None:
                return answer
            _log.warning("decoder_ended", attempt=attempt)
        raise Unavailable("the file could not be inspected; please try again")

    async def _try(self, job: DecodingJob) -> Answer | None:
        """Return the answer, None if the process ended."""
        decoder = self._take() if self._idle else await _start()
        answer: Answer | None = None
        try:
            async with asyncio.timeout(self._job_seconds):
                answer = await _ask(decoder, job)
        except TimeoutError:
            raise Unavailable("the file could not be inspected in time; please try again") from None
        finally:
            # Without an answer, the process may still run the job, also after a cancellation.
            if answer is None:
                self._end(decoder)
            else:
                self._keep(decoder)
        return answer

    def _keep(self, decoder: _Decoder) -> None:
        self._idle.append(decoder)
        self._ending[decoder] = asyncio.get_running_loop().call_later(self._idle_seconds, self._end_idle, decoder)

    def _take(self) -> _Decoder:
        decoder = self._idle.pop()
        self._ending.pop(decoder).cancel()
        return decoder

    def _end_idle(self, decoder: _Decoder) -> None:
        self._idle.remove(decoder)
        del self._ending[decoder]
        self._end(decoder)

    def _end(self, decoder: _Decoder) -> None:
        """Kill a process and its forks."""
        assert decoder.process.stdin is not None
        decoder.process.stdin.close()
        decoder.pipe.close()
        # Its id stays its own until `wait` returns.
        with suppress(ProcessLookupError):
            os.killpg(decoder.process.pid, signal.SIGKILL)
        task = asyncio.create_task(asyncio.to_thread(decoder.process.wait))
        self._reaping.add(task)
        task.add_done_callback(self._reaping.discard)


async def _start() -> _Decoder:
    process, answers = _popen(), asyncio.StreamReader()
    pipe, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(answers), process.stdout
    )
    return _Decoder(process, answers, pipe)


def _popen() -> Popen[bytes]:
    """Start a process. Event loops do it by a fork in which handlers of libraries run; `Popen` runs no code there."""
    return Popen(
        (sys.executable, "-I", "-c", _START, str(_ROOT)),
        bufsize=0,
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env=_ENVIRONMENT,
        cwd="/",
        start_new_session=True,
    )


async def _ask(decoder: _Decoder, job: DecodingJob) -> Answer | None:
    """Return the answer, None if the process ended."""
    assert decoder.process.stdin is not None
    with suppress(BrokenPipeError):
        # Does not wait: a job is short, and the process has read all jobs before it.
        decoder.process.stdin.write(json.dumps(job).encode() + b"\n")
    line = await decoder.answers.readline()
    return cast(Answer, json.loads(line)) if line.endswith(b"\n") else None
