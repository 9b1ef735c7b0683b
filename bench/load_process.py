"""A process that makes load, separate so that its own cost is not measured."""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import Any

import orjson

from tests.processes import ROOT

_ANSWER_SECONDS = 170.0


class LoadProcess:
    """The process, for the time of the block.

    Its commands are the methods of the module's target: by default `bench.subscriber_worker.SubscriberGroups`.
    """

    _process: asyncio.subprocess.Process

    def __init__(self, module: str = "bench.subscriber_worker") -> None:
        """Prepare the process. module: another process with the same kind of commands."""
        self._module = module

    async def __aenter__(self) -> LoadProcess:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            self._module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            limit=1 << 26,
        )
        return self

    async def __aexit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def ask(self, command: str, **arguments: Any) -> dict[str, Any]:
        """Execute a command in the process and return its result.

        Raises RuntimeError with the error of the process.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(orjson.dumps({"do": command, **arguments}) + b"\n")
        await self._process.stdin.drain()
        async with asyncio.timeout(_ANSWER_SECONDS):
            line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of subscribers ended at {command}")
        answer: dict[str, Any] = orjson.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{command}: {answer['error']}")
        return answer
