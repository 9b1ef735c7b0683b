"""Reactions at the same moment as recalls, deliveries, changes of rights, and the death of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from store.base.errors import Unreachable
from store.base.ids import PARTITIONS
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.client import TIMEOUT_SECONDS, Api, Refusal, gather_all, parse_refusal, private_id
from tests.api.conftest import Deployments, HeldLargeGroupQueue
from tests.api.paused_step import PausedStep
from tests.api.reactions.calls import (
    ADD,
    CLEAR,
    REACTIONS,
    check_summaries,
    react,
    reactions_of,
    shown,
    take_back,
)
from tests.api.recovery.failing_steps import Fault, failing
from tests.api.sample_channels import SampleChannels

ALL_PARTITIONS = range(PARTITIONS)
LAST = f"query ($id: ID!) {{ conversation(id: $id) {{ lastMessage {{ {REACTIONS} }} }} }}"


async def count_outbox_entries(api: Api) -> int:
    store = api.services.app.store
    calls = [Call("XLEN", (store.keys.outbox(partition),)) for partition in ALL_PARTITIONS]
    return sum(await store.cache.run(calls))


async def wait_until_announced(api: Api) -> None:
    """Wait until all events are published: then the outbox is empty."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while await count_outbox_entries(api):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def count_rows(api: Api, message: str) -> int:
    return api.database["reactions"].count_documents({"m": int(message[2:])})


async def change_meanwhile(
    api: Api,
    monkeypatch: pytest.MonkeyPatch,
    call: Awaitable[object],
    step: str,
    change: Callable[[], Awaitable[object]],
) -> Refusal:
    """Do something else while a call is at a step. Return the refusal of the call."""
    paused = PausedStep(api.services.app.store.reactions, step, monkeypatch, once=True)
    running = asyncio.ensure_future(call)
    await paused.reached.wait()
    await change()
    paused.resume.set()
    answer = await running
    assert isinstance(answer, dict)
    return parse_refusal(answer["errors"][0])


async def test_a_message_that_is_recalled_before_the_write_takes_no_reaction(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    await api.wait_until_idle()
    adding = api.run(bob, ADD, id=sent, emoji="👍")
    refusal = await change_meanwhile(api, monkeypatch, adding, "change", lambda: api.recall(alice, sent))
    assert refusal == Refusal("INVALID_INPUT", "messageId")
    assert await count_rows(api, sent) == 0
    await wait_until_announced(api)


async def test_recalls_and_reactions_at_once_leave_equal_counts(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = [(await api.send(alice, bob))["message"]["id"] for _ in range(8)]
    for message in sent:
        answers = await gather_all(
            api.run(bob, ADD, id=message, emoji="👍"),
            other_api.recall(alice, message),
            other_api.run(alice, ADD, id=message, emoji="👍"),
        )
        refusals = [parse_refusal(a["errors"][0]) for a in (answers[0], answers[2]) if "errors" in a]
        assert set(refusals) <= {Refusal("INVALID_INPUT", "messageId")}
        assert await count_rows(api, message) == 2 - len(refusals)
        assert await reactions_of(api, bob, message) == []
    check_summaries(api)


@pytest.mark.parametrize("right", ["a permission", "the channel", "a time-out"])
async def test_a_right_in_a_channel_that_ended_is_not_used(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, right: str
) -> None:
    sent = (await api.send(workspace.other, workspace.general))["message"]["id"]
    await api.wait_until_idle()
    member = workspace.member
    end, refusal = {
        "a permission": (
            lambda: workspace.overwrite(workspace.general, member, Permission.ADD_REACTIONS),
            Refusal("FORBIDDEN", "messageId"),
        ),
        "the channel": (
            lambda: workspace.overwrite(workspace.general, member, Permission.VIEW_CHANNEL),
            Refusal("NOT_FOUND", "messageId"),
        ),
        "a time-out": (
            lambda: workspace.set_facts(member, timed_out_until_ms=4_000_000_000_000),
            Refusal("FORBIDDEN", "messageId"),
        ),
    }[right]
    adding = api.run(member, ADD, id=sent, emoji="👍")
    assert await change_meanwhile(api, monkeypatch, adding, "announce", end) == refusal
    assert await count_rows(api, sent) == 0


@pytest.mark.parametrize("evicted", [False, True])
async def test_a_member_who_was_removed_does_not_react(
    api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, evicted: bool
) -> None:
    owner, bob, carol = await api.create_users("owner", "bob", "carol")
    group = await api.create_group(owner, bob, carol)
    sent = (await api.send(owner, group))["message"]["id"]
    await api.wait_until_idle()

    async def remove() -> None:
        await api.remove(owner, group, bob)
        if evicted:
            deployments.flush_redis("main")
            await api.services.app.store.deployment.check_redis()

    adding = api.run(bob, ADD, id=sent, emoji="👍")
    refusal = await change_meanwhile(api, monkeypatch, adding, "announce", remove)
    assert refusal == Refusal("NOT_A_MEMBER", "messageId")
    assert await count_rows(api, sent) == 0
    # Others who react at the same time are not refused with him.
    paused = PausedStep(api.services.app.store.reactions, "announce", monkeypatch, once=True)
    first = asyncio.ensure_future(react(api, owner, sent, "🎉"))
    await paused.reached.wait()
    others = [asyncio.ensure_future(api.run(user, ADD, id=sent, emoji="👍")) for user in (carol, owner)]
    await asyncio.sleep(0)
    await api.leave(carol, group)
    paused.resume.set()
    await first
    left, stayed = await gather_all(*others)
    assert "errors" not in stayed
    if "errors" in left:
        assert parse_refusal(left["errors"][0]) == Refusal("NOT_A_MEMBER", "messageId")
    check_summaries(api)


async def test_an_admin_who_was_demoted_does_not_clear(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, bob, carol = await api.create_users("owner", "bob", "carol")
    group = await api.create_group(owner, bob, carol)
    await api.set_role(owner, group, bob, "ADMIN")
    sent = (await api.send(owner, group))["message"]["id"]
    await react(api, carol, sent)
    await api.wait_until_idle()
    clearing = api.run(bob, CLEAR, id=sent)
    refusal = await change_meanwhile(
        api, monkeypatch, clearing, "announce", lambda: api.set_role(owner, group, bob, "MEMBER")
    )
    assert refusal == Refusal("FORBIDDEN", "messageId")
    assert await count_rows(api, sent) == 1


async def test_a_reaction_waits_until_the_message_is_delivered(api: Api, held_queue: HeldLargeGroupQueue) -> None:
    users = await api.create_users(*(f"u{number}" for number in range(203)))
    group = await api.create_group(*users)
    sent = (await api.send(users[0], group))["message"]["id"]
    reacting = asyncio.ensure_future(react(api, users[1], sent))
    await asyncio.sleep(0.05)
    assert await count_rows(api, sent) == 0
    held_queue.release()
    assert await reacting == [("👍", 1, True)]


async def test_a_new_message_is_shown_with_the_reactions_to_it(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation = private_id(alice, bob)
    for server, reader in ((api, other_api), (other_api, api)):
        sent = (await server.send(alice, bob))["message"]["id"]
        await react(server, bob, sent)
        await api.edit(alice, sent, "edited")
        await react(reader, alice, sent)
        for at in (api, other_api):
            last = (await at.data(bob, LAST, id=conversation))["conversation"]["lastMessage"]
            assert shown(last) == [("👍", 2, True)]
        await take_back(server, bob, sent)
        last = (await reader.data(bob, LAST, id=conversation))["conversation"]["lastMessage"]
        assert shown(last) == [("👍", 1, False)]


@pytest.mark.parametrize("is_written", [True, False])
async def test_another_server_announces_what_a_dead_server_left(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    conversation, sent = private_id(alice, bob), (await api.send(alice, bob))["message"]["id"]
    await wait_until_announced(api)
    app, notified = other_api.services.app, list[str]()
    notify = app.reactions.notify
    monkeypatch.setattr(
        app.reactions,
        "notify",
        lambda message, revision: (notified.append(message.public_id), notify(message, revision)),
    )

    async def die(*_: object) -> None:
        raise Unreachable("the server died")

    with monkeypatch.context() as patch:
        if is_written:
            patch.setattr(api.services.app.reactions, "_publish", die)
        else:
            patch.setattr(api.services.app.store.reactions, "change", die)
        assert (await api.expect_refusal(bob, ADD, id=sent, emoji="👍")).code == "UNAVAILABLE"
    assert await other_api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == int(is_written)
    await other_api.wait_until_idle()
    assert notified == [sent] * is_written
    last = (await api.data(bob, LAST, id=conversation))["conversation"]["lastMessage"]
    assert shown(last) == [("👍", 1, True)] * is_written
    if not is_written:
        # A slow server may still write it.
        assert await count_outbox_entries(api) == 1
        monkeypatch.setattr("subscriptions.delivery.reactions.reaction_changes._ABANDONED_MS", -1)
        assert await other_api.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 0
    await wait_until_announced(api)


@pytest.mark.parametrize("distance", [4, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize("fault", Fault)
async def test_a_fault_before_any_step_leaves_equal_counts(
    api: Api, other_api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, fault: Fault, distance: int
) -> None:
    users = await api.create_users(*(f"u{number}" for number in range(7)))
    group = await api.create_group(*users)
    sent = (await api.send(users[0], group))["message"]["id"]
    for user in users[:6]:
        await react(api, user, sent)
    await api.wait_until_idle()
    for query, emoji in ((ADD, "🎉"), (ADD, "👍"), (CLEAR, "🎉")):
        for at in range(distance, 80, distance):
            with failing(api, monkeypatch, fault, at, lambda: deployments.flush_redis("main")) as steps:
                answer = await api.run(users[0 if query == CLEAR else 6], query, id=sent, emoji=emoji)
            if "errors" in answer:
                assert parse_refusal(answer["errors"][0]).code == "UNAVAILABLE"
            check_summaries(api)
            repeated = await other_api.run(users[0 if query == CLEAR else 6], query, id=sent, emoji=emoji)
            assert "errors" not in repeated
            if not steps.has_failed:
                break
            undo = CLEAR if query == ADD and emoji == "🎉" else ADD if query == CLEAR else ""
            if undo:
                await other_api.data(users[0], undo, id=sent, emoji=emoji)
            else:
                await take_back(other_api, users[6], sent, emoji)
            check_summaries(api)
