"""Calls about messages that expire."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any
from unittest.mock import patch

from store.base.errors import Unreachable
from store.mongo.client import Mongo
from tests.api.channels.calls import Made
from tests.api.client import Api, Json
from tests.clock import ManualClock

UPDATE = """mutation ($id: ID!, $days: Int) {
    updateWorkspace(workspaceId: $id, input: { retentionDays: $days }) { retentionDays } }"""
FIND = "query ($id: ID!) { workspace(id: $id) { retentionDays } }"


async def keep_for(made: Made, days: int | None, api: Api | None = None) -> int | None:
    """Set the time after which the messages of a workspace expire, as its owner."""
    updated: Json = (await (api or made.api).data(made.owner, UPDATE, id=made.id, days=days))["updateWorkspace"]
    kept: int | None = updated["retentionDays"]
    return kept


async def expire(api: Api) -> None:
    """Let messages expire wherever it is time, as housekeeping does after the lease of another server."""
    api.database["expired"].update_one({"_id": "-"}, {"$set": {"u": 0}})
    await api.services.app.store.retention.expire_due()


async def advance(processes: Sequence[Api], clock: ManualClock, days: float) -> None:
    """Let time pass for all processes."""
    await processes[0].advance_days(clock, days)
    for each in processes[1:]:
        await each.advance_days(clock, 0)


async def remove_expired(processes: Sequence[Api], clock: ManualClock) -> None:
    """Remove what is expired, as housekeeping does a minute later. It may be working on something at the same time."""
    await advance(processes, clock, 61 / 86_400)
    await processes[-1].services.app.store.expired_removal.run()
    while processes[-1].database["expired"].find_one({"_id": {"$ne": "-"}}) is not None:
        await asyncio.sleep(0.05)
        await advance(processes, clock, 61 / 86_400)
        await processes[-1].services.app.store.expired_removal.run()


_WRITES = ("update_one", "bulk_write", "delete_one", "delete_ids", "delete_each", "find_one_and_update")


@contextmanager
def dies_at_write(mongo: Mongo, step: int) -> Iterator[None]:
    """Let a process die at its write of this number to MongoDB, from 0: it fails, and so do all later ones."""
    count = 0

    def dying(write: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count > step:
                raise Unreachable("the process has died")
            return await write(*arguments, **named)

        return call

    with ExitStack() as stack:
        for name in _WRITES:
            stack.enter_context(patch.object(mongo, name, dying(getattr(mongo, name))))
        stack.enter_context(suppress(Unreachable))
        yield


async def send(api: Api, sender: str, to: str, content: str, **more: object) -> Json:
    """Send a message, and return it."""
    message: Json = (await api.send(sender, to, content, **more))["message"]
    return message
