"""A blocked user gets BLOCKED for whatever they write privately, and nothing of it is stored."""

from __future__ import annotations

import asyncio

import pytest

from resolvers.users.callers import CallerRole
from tests.api.blocks.calls import block, expect_blocked, unblock
from tests.api.client import EDIT, SEND, Api, Refusal, gather_all, make_caller, message_input, private_id
from tests.api.conftest import Deployments
from tests.api.paused_step import PausedStep
from tests.api.requests.test_budgets import Meter, Trips

ADD = 'mutation ($id: ID!) { addReaction(messageId: $id, emoji: "👍") { id } }'
REMOVE = 'mutation ($id: ID!) { removeReaction(messageId: $id, emoji: "👍") { id } }'
PIN = "mutation ($id: ID!) { pinMessage(messageId: $id) { id } }"
REPLY = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id conversationId } } }"
RECALL = "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }"

BLOCKED = Refusal("BLOCKED")


async def test_all_private_conversations_of_two_people_are_closed(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    await api.send(bob, alice, subBiz="shop")
    await block(api, alice, bob)
    before = await api.stored_documents()
    for process in (api, other_api):
        await expect_blocked(process, bob, alice)
        await expect_blocked(process, bob, alice, subBiz="shop")
        # This conversation does not exist yet.
        await expect_blocked(process, bob, alice, subBiz="desk")
        await expect_blocked(process, bob, private_id(alice, bob))
        await expect_blocked(process, bob, private_id(alice, bob, "shop"))
        await expect_blocked(process, bob, alice, idempotencyKey="k")
    assert await api.stored_documents() == before
    # The contract forbids nothing to the user who blocks.
    await other_api.send(alice, bob)
    await unblock(other_api, alice, bob)
    for process in (api, other_api):
        await process.send(bob, alice)
        await process.send(bob, alice, subBiz="shop")


async def test_a_user_who_never_wrote_is_blocked_too(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await block(api, alice, bob)
    before = await api.stored_documents()
    await expect_blocked(api, bob, alice)
    assert await api.stored_documents() == before
    # Nothing shows that they have anything in common.
    assert (await api.data(bob, "query ($id: ID!) { user(id: $id) { presence { status } } }", id=alice)) == {
        "user": {"presence": None}
    }
    await api.send(alice, bob)
    await expect_blocked(api, bob, private_id(alice, bob))
    assert (await api.session(bob, private_id(alice, bob))) is not None


@pytest.mark.parametrize("caller_role", [CallerRole.USER, CallerRole.SERVICE])
async def test_edits_reactions_pins_and_replies_are_blocked_and_taking_back_is_not(
    api: Api, caller_role: CallerRole
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    own = (await api.send(bob, alice))["message"]["id"]
    other = (await api.send(alice, bob))["message"]["id"]
    await api.data(bob, ADD, id=own)
    reply = await api.data(bob, REPLY, input={"threadOf": other, "content": "first"})
    thread = reply["sendMessage"]["message"]["conversationId"]
    await block(api, alice, bob)
    before = await api.stored_documents()
    caller = make_caller(bob, caller_role)
    assert await api.expect_refusal(caller, EDIT, id=own, content="worse") == BLOCKED
    assert await api.expect_refusal(caller, ADD, id=other) == BLOCKED
    assert await api.expect_refusal(caller, PIN, id=other) == BLOCKED
    for place in ({"threadOf": other}, {"threadOf": own}, {"conversationId": thread}):
        assert await api.expect_refusal(caller, REPLY, input={**place, "content": "second"}) == BLOCKED
    broadcast = {"threadOf": other, "content": "second", "broadcast": True}
    assert await api.expect_refusal(caller, REPLY, input=broadcast) == BLOCKED
    assert await api.stored_documents() == before
    await api.data(bob, REMOVE, id=own)
    await api.data(bob, RECALL, id=own)
    await api.data(alice, ADD, id=other)
    await api.data(alice, REPLY, input={"threadOf": other, "content": "answer"})


async def test_a_replay_stays_a_replay(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    first = await api.send(bob, alice, idempotencyKey="k")
    await block(api, alice, bob)
    again = await other_api.send(bob, alice, idempotencyKey="k")
    assert again["replayed"] and again["message"]["id"] == first["message"]["id"]
    refusal = await api.expect_send_refusal(bob, alice, "other", idempotencyKey="k")
    assert refusal.code == "IDEMPOTENCY_CONFLICT"
    await expect_blocked(api, bob, alice, idempotencyKey="new")
    await unblock(api, alice, bob)
    # A key that was refused was not used.
    assert not (await api.send(bob, alice, "other", idempotencyKey="new"))["replayed"]


async def test_system_messages_of_third_services_still_arrive(api: Api) -> None:
    alice, bob, robot = await api.create_users("alice", "bob", "robot")
    await api.send(bob, alice)
    await block(api, alice, bob)
    system = message_input(private_id(alice, bob), "note", contentType="SYSTEM")
    await api.data(make_caller(robot, CallerRole.SERVICE), SEND, input=system)
    assert await api.expect_refusal(make_caller(bob, CallerRole.SERVICE), SEND, input=system) == BLOCKED


async def test_blocks_survive_a_flush_of_redis(losing_api: Api, deployments: Deployments) -> None:
    api = losing_api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    await block(api, alice, bob)
    await block(api, alice, carol)
    deployments.flush_redis("lost")
    await api.services.housekeeper.check_redis()
    await expect_blocked(api, bob, alice)
    await expect_blocked(api, carol, alice)
    await api.send(alice, bob)
    await expect_blocked(api, bob, alice)


async def test_no_message_gets_a_place_once_the_block_is_answered(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A send that was checked before, and has no place yet."""
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    step = PausedStep(other_api.services.app.store.outbox, "reserve", monkeypatch)
    sending = asyncio.create_task(other_api.expect_send_refusal(bob, alice, "late"))
    await step.reached.wait()
    await block(api, alice, bob)
    step.resume.set()
    assert await sending == BLOCKED
    assert [m["content"] for m in await api.history(alice, private_id(alice, bob))] == ["hello"]


async def test_a_head_that_is_being_loaded_is_read_again(
    api: Api, other_api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load has read MongoDB before the block, and stores the head after it."""
    alice, bob = await api.create_users("alice", "bob")
    await api.send(bob, alice)
    await api.services.app.store.conversations.drop(private_id(alice, bob))  # type: ignore[arg-type]
    loader = other_api.services.app.store.conversations._loader
    step, original = asyncio.Event(), loader.read
    reached = asyncio.Event()

    async def read(*args: object) -> object:
        found = await original(*args)  # type: ignore[arg-type]
        reached.set()
        await step.wait()
        return found

    monkeypatch.setattr(loader, "read", read)
    sending = asyncio.create_task(other_api.expect_send_refusal(bob, alice, "late"))
    await reached.wait()
    await block(api, alice, bob)
    step.set()
    assert await sending == BLOCKED


async def test_a_conversation_that_is_being_opened_is_closed(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first message was checked before the block, and its conversation is made after it."""
    alice, bob = await api.create_users("alice", "bob")
    step = PausedStep(other_api.services.app.store.conversations, "open_private", monkeypatch)
    sending = asyncio.create_task(other_api.expect_send_refusal(bob, alice, "late"))
    await step.reached.wait()
    await block(api, alice, bob)
    step.resume.set()
    assert await sending == BLOCKED


async def test_no_message_of_a_burst_is_stored_after_the_block(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    talk = private_id(alice, bob)
    await api.send(bob, alice)
    for process in (api, other_api, api):
        sends = [
            asyncio.create_task(
                (api, other_api)[number % 2].run(bob, REPLY, input={"conversationId": talk, "content": f"{number}"})
            )
            for number in range(40)
        ]
        await asyncio.sleep(0)
        await block(process, alice, bob)
        count = len(await process.history(alice, talk))
        outcomes = await asyncio.gather(*sends)
        refused = [outcome["errors"][0]["extensions"]["code"] for outcome in outcomes if "errors" in outcome]
        assert set(refused) <= {"BLOCKED"}
        accepted = len(outcomes) - len(refused)
        # Messages with a place may become durable just after the answer, but no other message follows.
        await expect_blocked(process, bob, alice)
        assert len(await process.history(alice, talk)) <= count + accepted
        await unblock(process, alice, bob)
        await (api if process is other_api else other_api).send(bob, alice)


async def test_blocks_of_a_server_that_died_are_completed_by_another(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has stored the block, and nothing else."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    await api.send(bob, alice)
    await api.send(bob, alice, subBiz="shop")
    dying = other_api.services.app.store.blocks

    async def die(*_args: object) -> None:
        raise asyncio.CancelledError

    with monkeypatch.context() as patch:
        patch.setattr(dying, "_complete", die)
        with pytest.raises(asyncio.CancelledError):
            await block(other_api, alice, bob)
    await block(api, alice, carol)
    monkeypatch.setattr("store.blocks.block_store._TAKEOVER_MS", -1)
    assert await api.services.app.store.blocks.complete_abandoned() == 1
    for process in (api, other_api):
        await expect_blocked(process, bob, alice)
        await expect_blocked(process, bob, alice, subBiz="shop")
    assert await api.services.app.store.blocks.complete_abandoned() == 0


async def test_writing_and_being_blocked_stay_within_the_budget(api: Api) -> None:
    meter = Meter(api)
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    await block(api, alice, bob)
    await meter.expect("alice sends to bob", lambda: meter.send(alice, bob), mongo=1, redis=2)

    async def refuse() -> None:
        await expect_blocked(api, bob, alice)

    assert await meter.measure(refuse, None) == Trips(0, 1)


async def test_a_block_closes_many_conversations_in_few_round_trips(api: Api, other_api: Api) -> None:
    """Each of the two people can make as many subBizs as they like."""
    meter = Meter(api)
    alice, bob = await api.create_users("alice", "bob")
    subs = [f"desk{number}" for number in range(150)]
    for start in range(0, len(subs), 50):
        await gather_all(*(api.send(bob, alice, subBiz=sub) for sub in subs[start : start + 50]))
    trips = await meter.measure(lambda: block(api, alice, bob), None)
    assert trips.redis <= 12, trips
    for sub in subs[::10]:
        await expect_blocked(other_api, bob, alice, subBiz=sub)


async def test_marks_of_a_page_cost_one_read_of_redis(api: Api) -> None:
    meter = Meter(api)
    alice, bob = await api.create_users("alice", "bob")
    talk = (await api.send(alice, bob))["message"]["conversationId"]
    page = "query ($id: ID!) { messages(conversationId: $id) { edges { node { content isFromBlocked } } } }"
    await meter.expect("a page with marks", lambda: api.data(alice, page, id=talk), mongo=1, redis=2)
