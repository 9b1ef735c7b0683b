"""Claims of files: one message gets a file, whatever happens at the same time, and whichever server dies when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from resolvers.files.reading import find_readable
from resolvers.messages import idempotency
from store.base.errors import Unreachable
from store.base.ids import UserId
from store.files.file_claims import TAKEOVER_MS
from store.files.message_files import ClaimedFiles
from store.messages.message import ReservedMessage
from subscriptions.delivery import commit_stage
from tests.api.attaching.files import (
    SEND,
    UNUSABLE,
    add_file,
    add_files,
    check_files,
    expect_refusal,
    find,
    find_file,
    ids,
    is_bound,
    is_free,
    is_removed,
    make_input,
    messages_with,
    new_message,
    number_of,
    page,
    send,
    sweep,
)
from tests.api.client import Api, Refusal, cancel_tasks, gather_all, private_id, wait_until
from tests.api.conftest import Deployments, OpenApi
from tests.api.paused_step import PausedStep
from tests.api.recovery.failing_steps import Fault, failing
from tests.clock import DAY_MS, ManualClock

UNDECIDED = Refusal("UNAVAILABLE", "attachmentIds", retryable=True)


async def test_of_two_messages_at_once_one_gets_the_file(api: Api, other_api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    files = await add_files(api, alice, group, 16)
    for first, second in zip(files[::2], files[1::2], strict=True):
        # In different orders, so that both may get one of the two.
        inputs = (make_input(group, [first, second]), make_input(group, [second, first]))
        servers = (api, other_api, api)
        answers = await gather_all(
            *(s.run(alice, SEND, input=i) for s, i in zip(servers, (*inputs, inputs[0]), strict=True))
        )
        codes = [answer["errors"][0]["extensions"]["code"] for answer in answers if "errors" in answer]
        assert len(codes) >= 2 and set(codes) <= {"INVALID_INPUT", "UNAVAILABLE"}
        if len(codes) == 3:
            # Each has seen a claim of the other, and has given its own back.
            await send(api, alice, group, [first, second])
    for server in (api, other_api):
        await server.wait_until_idle()
    await check_files(api, *files)
    assert sorted(file for message in await page(api, bob, group) for file in ids(message)) == sorted(files)


async def test_a_message_and_a_cancelled_upload_do_not_share_a_file(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    files = await add_files(api, alice, private_id(alice, bob), 10)
    store = other_api.services.app.store
    for file in files:
        answer, cancelled = await gather_all(
            api.run(alice, SEND, input=make_input(bob, [file])),
            store.files.cancel(number_of(file), UserId(alice), store.clock.now_ms()),
        )
        assert ("errors" in answer) is cancelled
    await api.wait_until_idle()
    await check_files(api, *files)


@pytest.mark.parametrize("lost", [False, True])
async def test_a_recall_that_overtakes_the_binding_removes_the_file(
    api: Api, other_api: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    file = await add_file(api, alice, private_id(alice, bob))
    paused = PausedStep(api.services.app.store.message_files, "bind", monkeypatch)
    sent = (await send(api, alice, bob, [file]))["message"]
    await paused.reached.wait()
    assert not (await find_file(api, file)).is_bound
    if lost:
        # The outbox does not show any more that the message is being delivered.
        deployments.flush_redis("main")
        for server in (api, other_api):
            await server.services.housekeeper.check_redis()
        await other_api.recall(alice, sent["id"])
        paused.resume.set()
    else:
        recall = asyncio.create_task(other_api.recall(alice, sent["id"]))
        paused.resume.set()
        await recall
    await api.wait_until_idle()
    await check_files(api, file)
    assert await is_removed(api, file)
    shown = await find(api, bob, sent["id"])
    assert (shown["state"], shown["attachments"]) == ("RECALLED", [])


async def test_a_cancelled_request_gives_its_files_back(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    alice, bob = await api.create_users("alice", "bob")
    file = await add_file(api, alice, private_id(alice, bob))
    with monkeypatch.context() as patch:
        paused = PausedStep(api.services.app.store.file_claims, "claim", patch)
        request = asyncio.create_task(send(api, alice, bob, [file]))
        await paused.reached.wait()
        await cancel_tasks(request)
        paused.resume.set()
        tasks = api.services.app.store.message_files._tasks
        await asyncio.wait(tasks)
    assert await is_free(api, file)
    assert ids((await send(api, alice, bob, [file]))["message"]) == [file]


async def interrupt(
    api: Api,
    other_api: Api,
    monkeypatch: pytest.MonkeyPatch,
    deployments: Deployments,
    fault: Fault,
    at: int,
    **more: Any,
) -> bool:
    """Let a fault happen before a step of a send, then send again. False: the send has fewer steps."""
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    parent = (await api.send(bob, group, "parent"))["message"]["id"]
    # Nobody waits for a load that the dead server has begun.
    await gather_all(*(api.sessions(user) for user in (alice, bob, carol)))
    await api.wait_until_idle()
    files = await add_files(api, alice, group, 2)
    input = make_input(parent if more else group, files, idempotencyKey=f"key {group}") | more
    with failing(api, monkeypatch, fault, at, lambda: deployments.flush_redis("main")) as steps:
        with monkeypatch.context() as patch:
            # Only the failing server has short limits: the other one may be slow.
            patch.setattr(idempotency, "_MAX_UNRESERVED_WAIT_SECONDS", 0.05)
            patch.setattr(idempotency, "_MAX_WAIT_SECONDS", 1.0)
            patch.setattr(commit_stage, "_COMMIT_SECONDS", 0.2)
            await api.run(alice, SEND, input=input)
        await asyncio.sleep(0.03)
    has_failed = steps.has_failed
    await api.wait_until_idle()
    for server in (api, other_api):
        await server.services.housekeeper.check_redis()
    await sweep(other_api)
    answer = await other_api.run(alice, SEND, input=input)
    if fault is Fault.FLUSH and "errors" in answer:
        # The first message may still be stored, and nothing in Redis says so any more.
        assert answer["errors"][0]["extensions"]["code"] in ("UNAVAILABLE", "INVALID_INPUT")
    else:
        assert "errors" not in answer
        assert ids(answer["data"]["sendMessage"]["message"]) == files
    for server in (api, other_api):
        await sweep(server)
    await check_files(api, *files)
    return has_failed


@pytest.mark.parametrize("at", [3, 7, 12, 18])
async def test_a_message_with_files_of_a_dead_server_is_sent_once(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch, deployments: Deployments, at: int
) -> None:
    await interrupt(api, other_api, monkeypatch, deployments, Fault.DEATH, at)


@pytest.mark.long
@pytest.mark.parametrize("more", [{}, {"broadcast": True}])
@pytest.mark.parametrize("fault", Fault)
async def test_a_fault_may_happen_before_any_step_of_a_message_with_files(
    api: Api,
    other_api: Api,
    monkeypatch: pytest.MonkeyPatch,
    deployments: Deployments,
    fault: Fault,
    more: dict[str, Any],
) -> None:
    for at in range(1, 30):
        if not await interrupt(api, other_api, monkeypatch, deployments, fault, at, **more):
            assert at > 4
            return


async def advance(api: Api, clock: ManualClock, milliseconds: int) -> None:
    await api.advance_days(clock, milliseconds / DAY_MS)


async def test_a_claim_of_a_message_that_was_never_stored_ends_after_five_minutes(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("abandoned", clock=clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        here = private_id(alice, bob)
        await api.send(alice, bob)
        file = await add_file(api, alice, here)
        # As a server that dies before the reservation.
        claimed = await api.services.app.store.message_files.claim(new_message(api, alice, here), [number_of(file)])
        assert isinstance(claimed, ClaimedFiles)
        assert await expect_refusal(api, alice, bob, [file]) == UNDECIDED
        await advance(api, clock, TAKEOVER_MS - 1)
        assert await expect_refusal(api, alice, bob, [file]) == UNDECIDED
        await advance(api, clock, 1)
        answers = await gather_all(*(api.run(alice, SEND, input=make_input(bob, [file])) for _ in range(3)))
        assert sum("errors" not in answer for answer in answers) == 1
        await api.wait_until_idle()
        await check_files(api, file)
        assert len(messages_with(api, file)) == 1


async def test_a_claim_of_a_message_in_the_outbox_is_not_taken_over(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("in the outbox", clock=clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        here = private_id(alice, bob)
        await api.send(alice, bob)
        file = await add_file(api, alice, here)
        store, message = api.services.app.store, new_message(api, alice, here)
        claimed = await store.message_files.claim(message, [number_of(file)])
        assert isinstance(claimed, ClaimedFiles)
        reserved = await store.outbox.reserve(message._replace(attachments=claimed.attachments))
        assert isinstance(reserved, ReservedMessage)
        await advance(api, clock, 2 * TAKEOVER_MS)
        assert await expect_refusal(api, alice, bob, [file]) == UNDECIDED
        await store.commits.commit([reserved], [clock.ms], messages_first=False)
        assert await expect_refusal(api, alice, bob, [file]) == UNUSABLE
        await sweep(api)
        assert await is_bound(api, file, message.public_id)


async def test_a_file_that_the_previous_version_left_out_of_its_message_is_removed(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("left out", clock=clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        here = private_id(alice, bob)
        await api.send(alice, bob)
        file = await add_file(api, alice, here)
        store, message = api.services.app.store, new_message(api, alice, here)
        assert isinstance(await store.message_files.claim(message, [number_of(file)]), ClaimedFiles)
        # As a server that finishes the delivery and does not know the field.
        reserved = await store.outbox.reserve(message)
        assert isinstance(reserved, ReservedMessage)
        await api.services.app.delivery.send(reserved, recovered=True)
        await api.wait_until_idle()
        clock.ms += 2 * DAY_MS
        await api.services.housekeeper.files.sweep()
        assert await store.files.find(number_of(file)) is None


async def test_a_file_whose_binding_is_late_is_readable(open_api: OpenApi, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    async with open_api("late", clock=clock) as api:
        alice, bob = await api.create_users("alice", "bob")
        file, unused = await add_files(api, alice, private_id(alice, bob), 2)
        store = api.services.app.store
        with monkeypatch.context() as patch:

            async def fail(*args: Any) -> None:
                raise Unreachable("MongoDB is away")

            patch.setattr(store.message_files, "bind", fail)
            await send(api, alice, bob, [file])
            clock.ms += 2 * DAY_MS
            assert not (await find_file(api, file)).is_bound
            found = await find_readable(api.services.app, number_of(file), None)
            assert found is not None and found.file.id == number_of(file)
            assert await find_readable(api.services.app, number_of(unused), None) is None


async def test_a_message_claims_its_files_again(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    here = private_id(alice, bob)
    file = await add_file(api, alice, here)
    files, message = api.services.app.store.message_files, new_message(api, alice, here)
    first, second = [await files.claim(message, [number_of(file)]) for _ in range(2)]
    assert isinstance(first, ClaimedFiles) and isinstance(second, ClaimedFiles)
    # Neither of two requests that send the same message gives back what the other one needs.
    await files.release(first)
    await files.release(second)
    assert (await find_file(api, file)).message == message.id
    await files.bind([message._replace(attachments=first.attachments)])
    third = await files.claim(message, [number_of(file)])
    assert isinstance(third, ClaimedFiles) and third.attachments == first.attachments
    await files.release(third)
    assert await is_bound(api, file, message.public_id)


async def test_files_are_bound_while_redis_is_away(
    api: Api, monkeypatch: pytest.MonkeyPatch, deployments: Deployments
) -> None:
    alice, bob = await api.create_users("alice", "bob")
    file = await add_file(api, alice, private_id(alice, bob))

    async def fail(*args: Any) -> None:
        raise Unreachable("Redis is away")

    with monkeypatch.context() as patch:
        patch.setattr(api.services.app.delivery.fanout_stage, "_fan_out", fail)
        sent = (await send(api, alice, bob, [file]))["message"]

    async def bound() -> bool:
        return await is_bound(api, file, sent["id"])

    await wait_until(bound)
