"""Redis is lost while a message with a key is in flight, and its sender sends it again: it is stored once (I1)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from store.base.ids import UserId
from store.redis.cache import Call
from tests.api.broadcast.calls import page
from tests.api.client import SEND, Api, Json, gather_all, message_input, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.paused_step import PausedStep
from tests.api.recovery.held_commits import HeldCommits
from tests.api.recovery.sample_conversation import check_counts, check_stored
from tests.api.sample_channels import create_sample_channels
from tests.api.threads.live_calls import make_thread, until
from tests.clock import ManualClock
from tests.targeting import as_sharded

PLACES = ("new private", "private", "group", "channel", "thread", "first reply", "mention in a thread", "broadcast")


@dataclass
class Repetition:
    """A message that is sent twice with one key, and users who read it. `other` writes there too."""

    sender: str
    other: str
    conversation: str
    input: Json
    held: int = 1
    """Commits of the first attempt: of a broadcast reply also that of its copy."""
    parent: str | None = None
    """The parent conversation of the thread."""

    async def send(self, api: Api) -> Json:
        payload: Json = (await api.data(self.sender, SEND, input=self.input))["sendMessage"]
        return payload

    async def send_other(self, api: Api, content: str) -> Json:
        return await api.send(self.other, self.input.get("threadOf") or self.conversation, content)

    async def contents(self, api: Api, conversation: str | None = None) -> list[str | None]:
        shown = await page(api, self.other, conversation or self.conversation)
        return [message["content"] for message in shown if message["content"] is None or message["content"] == "once"]


async def make_repetition(api: Api, kind: str) -> Repetition:
    key = {"idempotencyKey": "k"}
    if kind in ("new private", "private"):
        alice, bob = await api.create_users("alice", "bob")
        if kind == "private":
            await api.send(bob, alice, "before")
            await api.wait_until_idle()
        return Repetition(alice, bob, private_id(alice, bob), message_input(bob, "once", **key))
    if kind == "group":
        alice, bob, carol = await api.create_users("alice", "bob", "carol")
        group = await api.create_group(alice, bob, carol)
        return Repetition(alice, bob, group, message_input(group, "once", mentions=[carol], **key))
    if kind == "channel":
        sample = await create_sample_channels(api)
        channel = str(sample.general)
        mentions = {"mentions": [sample.moderator]}
        return Repetition(sample.member, sample.other, channel, message_input(channel, "once", **mentions, **key))
    thread = await make_thread(api, "group")
    sender = thread.third if kind == "first reply" else thread.second
    more: Json = {"mentions": [thread.first]} if kind == "mention in a thread" else {}
    more |= {"broadcast": True} if kind == "broadcast" else {}
    if kind != "first reply":
        await api.send(thread.first, thread.parent["id"], "second reply")
    await api.wait_until_idle()
    input = message_input(thread.parent["id"], "once", **more, **key)
    # A reply with a change of the followers would wait for another one.
    other = thread.second if kind == "first reply" else thread.first
    return Repetition(sender, other, thread.id, input, 2 if more.get("broadcast") else 1, thread.conversation)


async def lose_redis(deployments: Deployments, *servers: Api) -> None:
    deployments.flush_redis("main")
    for server in servers:
        await server.services.housekeeper.check_redis()


@pytest.mark.parametrize("kind", PLACES)
async def test_a_message_in_flight_and_its_repetition_are_stored_once(
    api: Api, other_api: Api, commits: HeldCommits, deployments: Deployments, kind: str
) -> None:
    repetition = await make_repetition(api, kind)
    commits.hold()
    first = asyncio.create_task(repetition.send(api))
    await commits.wait_for(repetition.held)
    await lose_redis(deployments, api, other_api)
    second = await repetition.send(other_api)
    await other_api.wait_until_idle()
    commits.release()
    assert (await first)["message"] == second["message"]
    await api.wait_until_idle()
    assert await repetition.contents(api) == ["once"]
    if repetition.held == 2:
        assert await repetition.contents(api, repetition.parent) == ["once"]
    await repetition.send_other(other_api, "next")
    await other_api.wait_until_idle()
    await check_stored(api, repetition.conversation)
    again = await gather_all(*(repetition.send(server) for server in (api, other_api)))
    assert all(answer["replayed"] and answer["message"] == second["message"] for answer in again)


def _place_and_content(message: Json) -> tuple[str, int, str | None]:
    return message["conversationId"], message["seq"], message["content"]


@pytest.mark.parametrize("kind", PLACES)
async def test_later_messages_keep_their_numbers_if_the_first_attempt_is_refused(
    api: Api, other_api: Api, commits: HeldCommits, deployments: Deployments, kind: str
) -> None:
    repetition = await make_repetition(api, kind)
    commits.hold()
    first = asyncio.create_task(repetition.send(api))
    await commits.wait_for(repetition.held)
    # A message that was counted from the place of the first attempt.
    await repetition.send_other(other_api, "later")
    if repetition.parent is not None:
        await other_api.send(repetition.other, repetition.parent, "later")
    await other_api.wait_until_idle()
    await lose_redis(deployments, api, other_api)
    second = await repetition.send(other_api)
    await other_api.wait_until_idle()
    listener = await other_api.listen(repetition.other)
    commits.release()
    assert (await first)["message"] == second["message"]
    for server in (api, other_api):
        await server.wait_until_idle()
    assert await repetition.contents(api) == [None, "once"]
    if kind != "channel":
        emptied = (repetition.conversation, second["message"]["seq"] - 2, None)
        while _place_and_content((await until(listener, "MessageCreated"))[-1]["message"]) != emptied:
            pass
    await check_stored(api, repetition.conversation)
    if repetition.parent is not None:
        copied = repetition.held == 2
        assert await repetition.contents(api, repetition.parent) == ([None, "once"] if copied else [])
        await check_stored(api, repetition.parent)
    users = [repetition.other] if kind == "new private" else [repetition.sender, repetition.other]
    await check_counts(api, repetition.conversation, users)


@pytest.mark.parametrize("first_wins", [False, True])
async def test_of_two_inputs_with_one_key_only_one_is_stored(
    api: Api,
    other_api: Api,
    commits: HeldCommits,
    deployments: Deployments,
    monkeypatch: pytest.MonkeyPatch,
    first_wins: bool,
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    commits.hold()
    first = asyncio.create_task(api.run(alice, SEND, input=message_input(bob, "one", idempotencyKey="k")))
    await commits.wait_for(1)
    await lose_redis(deployments, api, other_api)
    if first_wins:
        # The retry has looked for the key in MongoDB already.
        paused = PausedStep(other_api.services.app.store.outbox, "reserve", monkeypatch, once=True)
        second = asyncio.create_task(other_api.run(alice, SEND, input=message_input(bob, "two", idempotencyKey="k")))
        await paused.reached.wait()
        commits.release()
        await first
        await api.wait_until_idle()
        paused.resume.set()
    else:
        second = asyncio.create_task(other_api.run(alice, SEND, input=message_input(bob, "two", idempotencyKey="k")))
        await second
        commits.release()
    answers = await gather_all(first, second)
    assert ["errors" in answer for answer in answers] == [not first_wins, first_wins]
    (refused,) = [answer for answer in answers if "errors" in answer]
    assert refused["errors"][0]["extensions"]["code"] == "IDEMPOTENCY_CONFLICT"
    for server in (api, other_api):
        await server.wait_until_idle()
    contents = [message["content"] for message in await api.history(bob, private_id(alice, bob))]
    assert [content for content in contents if content is not None] == ["one" if first_wins else "two"]
    await check_stored(api, private_id(alice, bob))
    await check_counts(api, private_id(alice, bob), [alice, bob])


async def test_a_message_whose_claim_was_evicted_is_stored_once(open_api: OpenApi) -> None:
    async with open_api("never lost") as api:
        alice, bob = await api.create_users("alice", "bob")
        first = await api.send(alice, bob, "once", idempotencyKey="k")
        await api.wait_until_idle()
        store = api.services.app.store
        await store.cache.one(Call("DEL", (store.keys.claim(UserId(alice), "k"),)))
        for _ in range(2):
            again = await api.send(alice, bob, "once", idempotencyKey="k")
            assert (again["replayed"], again["message"]) == (True, first["message"])
        await api.wait_until_idle()
        contents = [message["content"] for message in await api.history(bob, private_id(alice, bob))]
        assert contents == ["once", None]
        await check_stored(api, private_id(alice, bob))
        await check_counts(api, private_id(alice, bob), [alice, bob])


@pytest.mark.parametrize("changes_followers", [False, True])
async def test_a_key_may_be_used_again_after_a_day(
    open_api: OpenApi, deployments: Deployments, changes_followers: bool
) -> None:
    clock = ManualClock()
    async with open_api("days", clock) as api:
        thread = await make_thread(api, "group")
        # With a change of the followers, a reply is stored in a transaction.
        mentions = [thread.third] if changes_followers else []
        for mentioned in ([], mentions, []):
            sent = await api.send(thread.second, thread.parent["id"], "once", idempotencyKey="k", mentions=mentioned)
            assert (sent["replayed"], sent["message"]["idempotencyKey"]) == (False, "k")
            await api.wait_until_idle()
            await api.advance_days(clock, 25 / 24)
            deployments.flush_redis("days")
            await api.services.housekeeper.check_redis()
        replies = await page(api, thread.first, thread.id)
        assert [reply["content"] for reply in replies] == ["first reply", "once", "once", "once"]
        await check_stored(api, thread.id)


async def test_on_a_sharded_cluster_a_repeated_message_is_stored_once(
    open_api: OpenApi, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    with as_sharded(filled=True) as watch:
        async with open_api("shards") as api, open_api("shards") as other_api:
            commits = HeldCommits(api, monkeypatch)
            repetition = await make_repetition(api, "group")
            commits.hold()
            first = asyncio.create_task(repetition.send(api))
            await commits.wait_for(1)
            await repetition.send_other(other_api, "later")
            await other_api.wait_until_idle()
            deployments.flush_redis("shards")
            for server in (api, other_api):
                await server.services.housekeeper.check_redis()
            watch.untargeted.clear()
            second = await repetition.send(other_api)
            commits.release()
            assert (await first)["message"] == second["message"]
            await api.wait_until_idle()
            assert not watch.untargeted
            assert await repetition.contents(api) == [None, "once"]
            await check_stored(api, repetition.conversation)
