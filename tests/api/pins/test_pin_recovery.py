"""Pins of servers that died, without Redis, and while a message is being delivered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.api.client import Api, private_id
from tests.api.conftest import Deployments, HeldLargeGroupQueue
from tests.api.pins.calls import LIVE, PIN, PINNED, UNPIN, announcements, check_pins, pin, pinned
from tests.api.sample_channels import SampleChannels

STEPS = ["stored", "shown", "applied", "sent", "announced"]
SHORT = {("private", "applied"), ("private", "sent"), ("channel", "stored"), ("channel", "announced")}
CASES = [
    pytest.param(kind, step, marks=() if (kind, step) in SHORT else pytest.mark.long)
    for kind in ("private", "channel")
    for step in STEPS
]


async def stop_server_at(api: Api, monkeypatch: pytest.MonkeyPatch, step: str, call: Callable[[], Any]) -> None:
    """Make a call whose server stops after a step, as if it died there."""
    app: Any = api.services.app
    stopped = asyncio.Event()

    async def stop_here(*_: Any, **__: Any) -> Any:
        stopped.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patch:
        match step:
            case "stored":
                patch.setattr(app.pins, "_show", stop_here)
            case "shown":
                patch.setattr(app.pins, "_publish_to_users", stop_here)
                patch.setattr(app.pins, "_publish_in_channel", stop_here)
            case "applied":
                find = app.pins._find
                finds = 0

                async def stop_at_second(place: Any) -> Any:
                    nonlocal finds
                    finds += 1
                    return await (find(place) if finds == 1 else stop_here())

                patch.setattr(app.pins, "_find", stop_at_second)
            case "sent":
                patch.setattr("subscriptions.delivery.announcements.pins.send_announcement", stop_here)
            case _:
                # A method of a class with slots or a plain class: both can be replaced on the instance.
                patch.setattr(app.store.pins, "remove_note", stop_here)
        task = asyncio.create_task(call())
        await stopped.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("kind", "step"), CASES)
async def test_another_server_announces_a_pin_once(
    api: Api,
    other_api: Api,
    workspace: SampleChannels,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    step: str,
) -> None:
    alice, bob = workspace.owner, workspace.member
    conversation = private_id(alice, bob) if kind == "private" else workspace.general
    message = (await api.send(bob, alice if kind == "private" else conversation, "1"))["message"]["id"]
    await api.wait_until_idle()
    listeners = [await process.listen(user, LIVE) for process in (api, other_api) for user in (alice, bob)]
    await stop_server_at(api, monkeypatch, step, lambda: api.run(alice, PIN, id=message))
    assert await other_api.services.app.pins.announce_abandoned(60_000) == 0
    assert await other_api.services.app.pins.announce_abandoned(0) == 1
    assert await other_api.services.app.pins.announce_abandoned(0) == 0
    await other_api.wait_until_idle()
    assert await pinned(api, bob, conversation) == ["1"]
    assert len(await announcements(api, bob, conversation)) == 1
    await check_pins(api, conversation)
    for listener in listeners if kind == "private" else ():
        events = await listener.take(2)
        assert [event["__typename"] for event in events] == ["PinsChanged", "MessageCreated"]
        await listener.expect_no_event(0.02)


@pytest.mark.parametrize("kind", ["private", "channel"])
async def test_servers_that_announce_a_pin_at_the_same_time_use_one_place(
    api: Api, other_api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """The seqs have no gap afterwards: each reserved place has a message."""
    alice, bob = workspace.owner, workspace.member
    conversation = private_id(alice, bob) if kind == "private" else workspace.general
    message = (await api.send(bob, alice if kind == "private" else conversation, "1"))["message"]["id"]
    await api.wait_until_idle()
    await stop_server_at(api, monkeypatch, "sent", lambda: api.run(alice, PIN, id=message))
    pins = [server.services.app.pins for server in (api, other_api) * 3]
    await asyncio.gather(*(each.announce_abandoned(0) for each in pins))
    await api.send(bob, alice if kind == "private" else conversation, "2")
    seqs = sorted(each["seq"] for each in await api.history(bob, conversation))
    assert seqs == list(range(seqs[-1] - 2, seqs[-1] + 1))


async def test_a_pin_is_announced_after_the_loss_of_redis(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, deployments: Deployments
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob, "1"))["message"]["id"]
    await stop_server_at(api, monkeypatch, "stored", lambda: api.run(alice, PIN, id=message))
    deployments.flush_redis("main")
    await other_api.services.housekeeper.check_redis()
    assert await other_api.services.app.pins.announce_abandoned(0) == 1
    assert len(await announcements(api, bob, private_id(alice, bob))) == 1
    await api.services.housekeeper.check_redis()


async def test_a_pin_that_could_not_be_announced_is_not_lost(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob, "1"))["message"]["id"]
    await api.wait_until_idle()
    pins: Any = api.services.app.pins

    async def fail(*_: Any) -> None:
        from store.base.errors import Unreachable

        raise Unreachable("Redis does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(pins, "_show", fail)
        refusal = await api.expect_refusal(alice, PIN, id=message)
        assert (refusal.code, refusal.retryable) == ("UNAVAILABLE", True)
    # It is stored; repeating it changes nothing, and the announcement follows.
    assert (await pin(api, alice, message))["isPinned"] is True
    assert await announcements(api, bob, private_id(alice, bob)) == []
    assert await other_api.services.app.pins.announce_abandoned(0) == 1
    assert len(await announcements(api, bob, private_id(alice, bob))) == 1
    await check_pins(api, private_id(alice, bob))


async def test_a_pin_waits_until_its_message_is_delivered(api: Api, held_queue: HeldLargeGroupQueue) -> None:
    (prefix,) = await api.create_users("crowd")
    users = await api.create_many_users(prefix, 230)
    group = await api.create_group(*users)
    early, late = await api.listen(users[1], LIVE), await api.listen(users[-1], LIVE)
    sent = (await api.send(users[0], group, "hello"))["message"]["id"]
    task = asyncio.create_task(pin(api, users[0], sent))
    assert (await early.next())["__typename"] == "MessageCreated"
    await early.expect_no_event(0.05)
    assert not task.done()
    held_queue.release()
    await asyncio.sleep(0)
    while not task.done():
        # The announcement is held back for the last members as well.
        held_queue.release()
        await asyncio.sleep(0.01)
    held_queue.release()
    kinds = [(await late.next())["__typename"] for _ in range(3)]
    assert kinds == ["MessageCreated", "PinsChanged", "MessageCreated"]


@pytest.mark.parametrize("document", [PIN, UNPIN, PINNED])
async def test_callers_without_a_token_are_refused(api: Api, document: str) -> None:
    assert (await api.expect_refusal(None, document, id="m_1")).code == "UNAUTHENTICATED"
