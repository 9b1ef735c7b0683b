"""Messages of webhooks survive dead servers and the loss of Redis, and cost a fixed number of round trips."""

from __future__ import annotations

from itertools import count

import pytest

from store.base.ids import PARTITIONS, MessageId, UserId
from store.channels.sending.sending_rights import SendingRefusal
from store.messages.message import Message, MessageKind, ReservedMessage
from store.messages.outbox.places import ReservationReason
from store.mongo.collections import SESSIONS
from tests.api.channels.channel_subscriber import live
from tests.api.client import Api
from tests.api.conftest import Deployments
from tests.api.requests.test_budgets import Meter
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.checking import find_differences
from tests.webhooks.incoming.hooks import Hook, Hooks
from tests.webhooks.incoming.test_managing import delete


def make_message(workspace: SampleChannels, hook: Hook) -> Message:
    return Message(
        MessageId(workspace.store.ids.next()),
        workspace.general,
        UserId(hook.id),
        MessageKind.TEXT,
        "left behind",
        author=("deploys", None),
    )


async def test_a_message_of_a_dead_server_is_delivered_by_another_one(
    api: Api, other_api: Api, hooks: Hooks, workspace: SampleChannels
) -> None:
    before = await find_differences(api.services.app.store)
    hook = await hooks.create(workspace.admin, workspace.general)
    subscriber, _ = await live(api, workspace.member, workspace.general)
    place = await workspace.store.channel_places.reserve(make_message(workspace, hook))
    assert isinstance(place, ReservedMessage)
    await other_api.services.housekeeper.sweep(range(PARTITIONS), 0)
    assert (await subscriber.next())["message"]["content"] == "left behind"
    (message,) = await hooks.messages(workspace.member, workspace.general)
    assert (message["content"], message["authorName"]) == ("left behind", "deploys")
    await other_api.wait_until_idle()
    assert await api.services.app.store.mongo.find(SESSIONS, {"_id": {"$regex": hook.id}}) == []
    assert await find_differences(api.services.app.store) == before


async def test_no_second_place_is_given_after_the_webhook_was_deleted(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    places, message = workspace.store.channel_places, make_message(workspace, hook)
    assert isinstance(await places.reserve(message, ReservationReason.DISPLACED_MESSAGE), ReservedMessage)
    await delete(hooks, workspace.admin, hook)
    assert await places.reserve(message, ReservationReason.DISPLACED_MESSAGE) is SendingRefusal.NO_WEBHOOK
    await hooks.api.services.housekeeper.sweep(range(PARTITIONS), 0)


@pytest.mark.parametrize("in_thread", [False, True])
async def test_sent_messages_are_complete_after_the_loss_of_redis(
    losing_api: Api, deployments: Deployments, in_thread: bool
) -> None:
    workspace = await create_sample_channels(losing_api)
    hooks = Hooks(losing_api)
    hook = await hooks.create(workspace.admin, workspace.general)
    parent = (await hooks.sent(hook, "parent"))["id"]
    more = {"threadOf": parent} if in_thread else {}
    first = await hooks.sent(hook, "first", idempotencyKey="k", username="deploys", **more)
    await losing_api.wait_until_idle()
    deployments.flush_redis("lost")
    await losing_api.services.housekeeper.check_redis()
    again = await hooks.sent(hook, "first", idempotencyKey="k", username="deploys", **more)
    assert again == first | {"replayed": True}
    assert (await hooks.sent(hook, "second", **more))["seq"] == first["seq"] + 1
    messages = await hooks.messages(workspace.member, first["conversationId"])
    assert [(m["content"], m["authorName"]) for m in messages][-2:] == [("first", "deploys"), ("second", "ci")]
    store = losing_api.services.app.store
    ids = [MessageId(int(message["id"][2:])) for message in messages]
    sent = list((await store.messages.find_by_ids(ids)).values())
    assert len(sent) == len(ids) and await store.incomplete_deliveries.select_incomplete(sent) == []


async def test_budget_of_a_message(api: Api, hooks: Hooks, workspace: SampleChannels) -> None:
    meter, keys = Meter(api), count()
    hook = await hooks.create(workspace.admin, workspace.general)
    parent = (await hooks.sent(hook))["id"]

    async def send(**more: str) -> None:
        await hooks.sent(hook, **more)

    # The token, the webhook once more, and the commit.
    await meter.expect("webhook", send, 3, 2)
    await meter.expect("webhook, key", lambda: send(idempotencyKey=f"k{next(keys)}"), 3, 3)
    # And the message, with the parent message if it is a reply.
    await meter.expect("webhook, thread", lambda: send(threadOf=parent), 4, 2)
