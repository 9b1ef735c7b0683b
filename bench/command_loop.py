"""A load process controlled by commands.

It reads one JSON object per line from standard input and answers on standard output.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import orjson

_LONGEST_LINE = 1 << 27


async def run_command_loop(target: object) -> None:
    """Execute commands until standard input ends.

    Calls the target's method named by `do`, with the rest as arguments, and writes its result, or `error`, to
    standard output.
    """
    lines = asyncio.StreamReader(limit=_LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    for number in itertools.count():
        line = await lines.readline()
        if not line:
            return
        command = orjson.loads(line)
        act: Callable[..., Awaitable[dict[str, Any]]] = getattr(target, command.pop("do"))
        try:
            answer = await act(**command)
        except Exception as error:
            answer = {"error": f"command {number}: {error!r}"}
        sys.stdout.buffer.write(orjson.dumps(answer) + b"\n")
        sys.stdout.buffer.flush()


async def gather_limited(tasks: Iterable[Awaitable[Any]], at_once: int) -> list[Any]:
    """Return the results of tasks, of which only a given number run at the same time."""
    results: list[Any] = []
    waiting = iter(tasks)

    async def several() -> None:
        for task in waiting:
            results.append(await task)  # noqa: PERF401

    await asyncio.gather(*(several() for _ in range(at_once)))
    return results
