"""Sends whose fan-out failed: the answer's session includes the message, whatever the cached state has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.redis.cache import Call
from tests.api.channels.calls import make_workspace
from tests.api.client import Api


def fail_fan_outs(api: Api, patch: pytest.MonkeyPatch, count: int) -> None:
    """Have Redis not answer the next fan-outs, and answer everything else."""
    cache, failures = api.services.app.store.cache, iter(range(count))
    run = cache.run

    async def run_or_fail(calls: Sequence[Call]) -> Any:
        if any(call.name == "fan_out" for call in calls) and next(failures, None) is not None:
            raise Unreachable("Redis does not answer")
        return await run(calls)

    patch.setattr(cache, "run", run_or_fail)


@pytest.mark.parametrize("kind", ["private", "new private", "group", "channel"])
async def test_the_session_includes_a_message_that_was_not_fanned_out(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    made = await make_workspace(api)
    alice, bob, carol = made.owner, made.member, made.outsider
    if kind == "group":
        to = await api.create_group(bob, alice, carol)
    else:
        to = (await made.create())["id"] if kind == "channel" else bob
    if kind != "new private":
        await api.send(bob, alice if kind == "private" else to, "first")
    # Another server has cached the sender's state.
    await other_api.all_sessions(alice)
    if kind == "channel":
        await other_api.session(alice, to)
    await api.wait_until_idle()

    async def invalidate_nothing() -> None:
        """Do nothing: the housekeeper has not come to it."""

    with monkeypatch.context() as patch:
        patch.setattr(api.services.app.store.stale_caches, "invalidate", invalidate_nothing)
        fail_fan_outs(api, patch, 1)
        sent = await api.send(alice, to, "second")

    session, seq = sent["session"], sent["message"]["seq"]
    assert (session["writeSeq"], session["readSeq"], session["unreadCount"]) == (seq, seq, 0)
    assert session == await other_api.session(alice, sent["message"]["conversationId"])
