"""An operation's reads of MongoDB queue by its user, so one user's reads do not delay the operations of others."""

from __future__ import annotations

import asyncio

from store.redis.request_scope import RequestScope
from tests.api.client import HISTORY, Api, private_id


async def test_operations_do_not_wait_for_the_reads_of_another_user(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    await api.sessions(alice)
    reads, history = api.services.app.store.mongo.reads, {"id": private_id(alice, bob)}
    with RequestScope(alice):
        while not reads.waiting:
            filler = asyncio.create_task(reads.begin())
            await asyncio.sleep(0)
    waiting = asyncio.create_task(api.data(alice, HISTORY, **history))
    assert len((await api.data(bob, HISTORY, **history))["messages"]["edges"]) == 1
    # A message needs no read: not even that of its sender waits.
    await api.send(alice, bob)
    assert not waiting.done()
    filler.cancel()
    while reads.running:
        reads._queue.leave(alice)
    assert (await waiting)["messages"]["edges"]
