"""A process that makes load as it is told: commands come over standard input, a JSON object a line, and are answered alike."""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import orjson

_LONGEST_LINE = 1 << 27


async def obey(target: object) -> None:
    """Until standard input ends: calls the target's method that `do` names, with the rest as its arguments. What it answers, or
    `error`, goes to standard output."""
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


async def some_at_a_time(tasks: Iterable[Awaitable[Any]], at_once: int) -> list[Any]:
    """What the tasks come to, of which so many are under way together."""
    results: list[Any] = []
    waiting = iter(tasks)

    async def several() -> None:
        for task in waiting:
            results.append(await task)  # noqa: PERF401

    await asyncio.gather(*(several() for _ in range(at_once)))
    return results
