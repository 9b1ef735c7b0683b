"""Redis (or Valkey, or a Redis Cluster): scripts and pipelines, one round trip a call of `run`.

Nothing is retried here: a script that may have run is not run again unless its caller knows that to be safe.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError

from store.errors import Unreachable, translated

_SCRIPTS = Path(__file__).parent / "scripts"
_USER = ("_user.lua", "_sessions.lua")
_SHARED: dict[tuple[str, ...], tuple[str, ...]] = {
    _USER: ("load_begin", "load_part", "lock", "unlock", "list_page", "list_names", "folders", "changed", "sessions_get", "attach",
            "log_read", "undelivered"),
    (*_USER, "_changes.lua"): ("apply", "load_finish"),
    ("_conversation.lua",): ("reserve", "change_group", "committed", "head_load_begin", "head_load_finish", "head_drop", "revised"),
    (): ("claim", "claim_release", "typing", "membership"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script with what it shares, and its digest."""

    name: str
    source: str
    digest: str


@dataclass(frozen=True, slots=True)
class Call:
    """One command: a script by name with keys and arguments, or (keys None) a plain command whose arguments are all."""

    name: str
    keys: tuple[str, ...] | None
    args: tuple[Any, ...] = ()


def read_scripts() -> dict[str, Script]:
    """All scripts by name, each behind the text it shares with others."""
    scripts: dict[str, Script] = {}
    for shared, names in _SHARED.items():
        head = "".join((_SCRIPTS / part).read_text() for part in shared)
        for name in names:
            source = head + (_SCRIPTS / f"{name}.lua").read_text()
            scripts[name] = Script(name, source, hashlib.sha1(source.encode()).hexdigest())
    return scripts


class Cache:
    """A Redis. `trips` counts the round trips that callers wait for, `aside` those made after they were answered."""

    def __init__(self, url: str, *, prefix: str = "", connections: int = 64) -> None:
        self._pool = BlockingConnectionPool.from_url(
            url,
            max_connections=connections,
            timeout=5,
            socket_timeout=5,
            socket_connect_timeout=5,
            retry=Retry(NoBackoff(), 0),
        )
        self._redis: Any = Redis(connection_pool=self._pool)
        self._scripts = read_scripts()
        self.url = url
        self.prefix = prefix
        self.trips = 0
        self.aside = 0

    async def close(self) -> None:
        """Ends all connections."""
        await self._redis.aclose()
        await self._pool.aclose()

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """All calls in one round trip, in order, not as a transaction. A call that failed raises Unreachable."""
        results = await self.attempt(calls)
        for result in results:
            if isinstance(result, Exception):
                raise Unreachable(str(result)) from result
        return results

    async def run_aside(self, calls: Sequence[Call]) -> list[Any]:
        """Like run, for work that nobody waits for."""
        self.trips -= 1
        self.aside += 1
        return await self.run(calls)

    async def one(self, call: Call) -> Any:
        """One call, one round trip."""
        return (await self.run((call,)))[0]

    async def attempt(self, calls: Sequence[Call]) -> list[Any]:
        """Like run, but a call that Redis refused answers its error in place. Raises Unreachable if nothing came back."""
        self.trips += 1
        results = await self._send(calls)
        missing = [i for i, result in enumerate(results) if isinstance(result, NoScriptError)]
        if missing:
            # A restarted Redis knows no scripts, and a command it refused for that has done nothing.
            names = {calls[i].name for i in missing}
            again = await self._send([Call("SCRIPT", None, ("LOAD", self._scripts[name].source)) for name in names])
            for result in again:
                if isinstance(result, Exception):
                    raise Unreachable(str(result)) from result
            for i, result in zip(missing, await self._send([calls[i] for i in missing]), strict=True):
                results[i] = result
        return results

    async def _send(self, calls: Sequence[Call]) -> list[Any]:
        with translated():
            if len(calls) == 1:
                try:
                    return [await self._redis.execute_command(*self._words(calls[0]))]
                except NoScriptError as error:
                    return [error]
            pipeline = self._redis.pipeline(transaction=False)
            for call in calls:
                pipeline.execute_command(*self._words(call))
            results: list[Any] = await pipeline.execute(raise_on_error=False)
            return results

    def _words(self, call: Call) -> tuple[Any, ...]:
        if call.keys is None:
            return (call.name, *call.args)
        return ("EVALSHA", self._scripts[call.name].digest, len(call.keys), *call.keys, *call.args)
