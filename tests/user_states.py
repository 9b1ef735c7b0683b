"""Users' cached states with chosen records, without MongoDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from store.base.ids import UserId
from store.redis.cache import Cache, Call

_GATEWAY = dict.fromkeys(("s", "n", "r", "rn", "d", "p", "a", "w", "ow"), 0)


async def load_user(
    cache: Cache, user: UserId, records: Mapping[str, Mapping[str, Any]], now: int, *, server: str | None = None
) -> None:
    """Load a user's state, with the gateways of its subBizs. Its clock is at `now` + 10.

    server: holds connections of the user.
    """
    keys = cache.keys.user(user)
    sub_bizs = {record["sb"] for record in records.values() if "sb" in record}
    stored = {**records, **{f"b_{name}": _GATEWAY for name in sub_bizs}}
    parts = [part for conversation, record in stored.items() for part in (conversation, orjson.dumps(record))]
    calls = [
        Call("load_begin", keys, (now, "mine", 60_000)),
        Call("load_part", keys, (now, "mine", 60_000, *parts)),
        Call("load_finish", keys, (now, "mine", "epoch", now + 10, len(stored), *sub_bizs)),
    ]
    if server is not None:
        calls.append(Call("attach", keys, (now, server, now + 900_000)))
    await cache.run(calls)
