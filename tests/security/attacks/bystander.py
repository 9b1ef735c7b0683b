"""The bystander: another user's `sendMessage` and `me` at a steady rate, from a process of their own.

Sends go over kept-alive connections. Each `me` opens a new connection, which fails if the server accepts none.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import Any

import uvloop

from bench.command_loop import run_command_loop
from tests.security.attacks.http_client import HttpConnection, graphql_body

USER, FRIEND = "bystander", "friend"
_SEND = 'mutation { sendMessage(input: {toUserId: "friend", content: "hello"}) { message { id seq } } }'
_ME = "{ me { id displayName } }"


class Bystander:
    """Commands of the process."""

    async def begin(self, *, port: int, token: str, rate: float, at_once: int, patience: float) -> dict[str, Any]:
        """Start to send `rate` operations a second, half of each kind.

        An operation fails after `patience` seconds. While `at_once` operations run, further ones are left out and
        count as failed. If `at_once` is 1 they do not count, so nothing depends on the speed of the machine.
        """
        self._at_once, self._patience = at_once, patience
        self._port, self._token = port, token
        self._samples: dict[str, list[float]] = {"send": [], "me": []}
        self._failures: Counter[str] = Counter()
        self._running: set[asyncio.Task[None]] = set()
        self._free: list[HttpConnection] = []
        self._driver = asyncio.create_task(self._drive(rate))
        return {}

    async def end(self) -> dict[str, Any]:
        """Stop, wait for the answers, and return the seconds of each operation, and the failures by code."""
        self._driver.cancel()
        if self._running:
            await asyncio.wait(self._running)
        for connection in self._free:
            connection.close()
        return {"samples": self._samples, "failures": self._failures}

    async def _drive(self, rate: float) -> None:
        due, number = time.perf_counter(), 0
        while True:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            kind = ("send", "me")[number % 2]
            if len(self._running) < self._at_once:
                task = asyncio.create_task(self._operation(kind, due))
                self._running.add(task)
                task.add_done_callback(self._running.discard)
            elif self._at_once > 1:
                self._record(kind, self._patience, ["left out"])
            due = due + 1 / rate if self._at_once > 1 else time.perf_counter() + 1 / rate
            number += 1

    async def _operation(self, kind: str, due: float) -> None:
        is_send = kind == "send"
        connection = self._free.pop() if is_send and self._free else HttpConnection(self._port, self._token)
        try:
            async with asyncio.timeout(self._patience):
                codes = (await connection.ask(graphql_body(_SEND if is_send else _ME))).codes
        except TimeoutError:
            codes = ["unanswered"]
        except OSError:
            codes = ["lost"]
        self._record(kind, time.perf_counter() - due, codes)
        if is_send:
            self._free.append(connection)
        else:
            connection.close()

    def _record(self, kind: str, seconds: float, codes: list[str]) -> None:
        self._samples[kind].append(seconds)
        self._failures.update(code for code in codes if code != "OK")


if __name__ == "__main__":
    uvloop.run(run_command_loop(Bystander()))
