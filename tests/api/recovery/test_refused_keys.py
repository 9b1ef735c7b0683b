"""A message that MongoDB refuses because of its key, in batches, and while MongoDB does not answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.messages.idempotency_claims import Claim
from store.messages.message import Message
from store.mongo.collections import MESSAGES
from tests.api.client import SEND, Api, Json, gather_all, message_input, private_id
from tests.api.conftest import Deployments
from tests.api.recovery.held_commits import HeldCommits
from tests.api.recovery.sample_conversation import check_counts, check_stored
from tests.api.recovery.test_repeated_keys import Repetition, lose_redis, make_repetition


async def _hold_refused(
    api: Api, other_api: Api, commits: HeldCommits, deployments: Deployments, kind: str
) -> tuple[Repetition, asyncio.Task[Json], Json]:
    """Return a held first attempt, which MongoDB will refuse in one batch with its copy, and the second attempt."""
    repetition = await make_repetition(api, kind)
    commits.hold()
    first = asyncio.create_task(repetition.send(api))
    await commits.wait_for(repetition.held)
    # A message that was counted from the place of the first attempt.
    await repetition.send_other(other_api, "later")
    await other_api.wait_until_idle()
    await lose_redis(deployments, api, other_api)
    second = await repetition.send(other_api)
    await other_api.wait_until_idle()
    commits.held = [[message for messages in commits.held for message in messages]]
    return repetition, first, second


@pytest.mark.parametrize("step", ["key_owners.find", "commits.store_emptied"])
async def test_emptying_a_refused_reply_and_its_copy_is_repeated(
    api: Api,
    other_api: Api,
    commits: HeldCommits,
    deployments: Deployments,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
) -> None:
    repetition, first, second = await _hold_refused(api, other_api, commits, deployments, "broadcast")
    part, name = step.split(".")
    owner = getattr(api.services.app.store, part)
    call, failures = getattr(owner, name), [0]

    async def fail_first(message: Message) -> Any:
        failures[0] += 1
        if failures[0] == 1:
            raise Unreachable("MongoDB does not answer")
        return await call(message)

    monkeypatch.setattr(owner, name, fail_first)
    commits.release()
    assert (await first)["message"] == second["message"]
    for server in (api, other_api):
        await server.wait_until_idle()
    assert failures[0] > 1
    assert await repetition.contents(api) == [None, "once"]
    contents = await repetition.contents(api, repetition.parent)
    assert [content for content in contents if content is not None] == ["once"]
    await check_stored(api, repetition.conversation)


async def test_a_refused_reply_is_sent_with_its_copy_if_the_owner_of_its_key_is_removed(
    api: Api, other_api: Api, commits: HeldCommits, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    repetition, first, second = await _hold_refused(api, other_api, commits, deployments, "broadcast")
    store = api.services.app.store
    find = store.key_owners.find

    async def remove_owner(message: Message) -> Message | None:
        await store.mongo.delete_one(MESSAGES, {"_id": int(second["message"]["id"].removeprefix("m_"))})
        return await find(message)

    monkeypatch.setattr(store.key_owners, "find", remove_owner)
    commits.release()
    answer = await first
    assert (answer["replayed"], answer["message"]["content"]) == (False, "once")
    assert answer["message"]["id"] != second["message"]["id"]
    await api.wait_until_idle()
    assert "once" in await repetition.contents(api)


async def test_a_claim_of_a_refused_message_leads_to_the_owner_of_the_key(
    api: Api, other_api: Api, commits: HeldCommits, deployments: Deployments
) -> None:
    repetition, first, second = await _hold_refused(api, other_api, commits, deployments, "private")
    refused = commits.held[0][0].reserved.message
    commits.release()
    await first
    await api.wait_until_idle()
    # Redis was restored from a snapshot of before.
    claim = Claim(refused.id, refused.conversation, refused.digest)
    await api.services.app.store.claims.replace(refused.sender, refused.key, claim)
    again = await repetition.send(api)
    assert (again["replayed"], again["message"]) == (True, second["message"])


async def test_the_other_messages_of_a_batch_are_stored_once_and_answered(
    api: Api, other_api: Api, commits: HeldCommits, deployments: Deployments
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.wait_until_idle()
    commits.hold()
    inputs = [(alice, message_input(bob, "once", idempotencyKey="k"))]
    inputs += [(carol, message_input(bob, str(number), idempotencyKey=f"k{number}")) for number in range(5)]
    inputs += [(bob, message_input(group, str(number))) for number in range(5)]
    sends = [asyncio.create_task(api.data(user, SEND, input=input)) for user, input in inputs]
    await commits.wait_for(len(sends))
    await lose_redis(deployments, api, other_api)
    second = await other_api.send(alice, bob, "once", idempotencyKey="k")
    await other_api.wait_until_idle()
    commits.held = [[message for messages in commits.held for message in messages]]
    commits.release()
    refused, *others = [answer["sendMessage"] for answer in await gather_all(*sends)]
    assert (refused["replayed"], refused["message"]) == (True, second["message"])
    assert not any(answer["replayed"] for answer in others)
    await api.wait_until_idle()
    for conversation, count in ((group, 5), (private_id(bob, carol), 5), (private_id(alice, bob), 1)):
        history = await api.history(bob, conversation)
        assert len([message for message in history if message["contentType"] != "SYSTEM"]) == count
        await check_stored(api, conversation)
        await check_counts(api, conversation, [bob])


@pytest.mark.parametrize("kind", ["private", "thread", "first reply"])
async def test_two_servers_that_store_a_refused_message_give_the_same_answer(
    api: Api, other_api: Api, commits: HeldCommits, deployments: Deployments, kind: str
) -> None:
    repetition, first, second = await _hold_refused(api, other_api, commits, deployments, kind)
    # The other server has taken the message over, as from the outbox.
    await other_api.services.app.delivery.send(commits.held[0][0].reserved, recovered=True)
    await other_api.wait_until_idle()
    assert await repetition.contents(api) == [None, "once"]
    commits.release()
    answer = await first
    assert (answer["replayed"], answer["message"]) == (True, second["message"])
    await api.wait_until_idle()
    assert await repetition.contents(api) == [None, "once"]
    await check_stored(api, repetition.conversation)
