"""Message.delivery: what a message's sender sees of its delivery."""

from __future__ import annotations

import pytest

from tests.api.client import LIVE_MESSAGES, Api, gather_all, private_id
from tests.api.conftest import Deployments
from tests.api.receipt_calls import Receipts

DELIVERIES = """query ($id: ID!) { messages(conversationId: $id, first: 100) { edges { node {
    seq delivery { status recipientCount deliveredCount readCount } } } } }"""


@pytest.fixture
def receipts(api: Api) -> Receipts:
    return Receipts(api)


async def test_a_private_message_is_sent_then_delivered_then_read(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    message = (await api.send(alice, bob))["message"]
    assert await receipts.delivery(alice, message) == ("SENT", 1, 0, 0)
    await api.ack(bob, private_id(alice, bob), 1)
    assert await receipts.delivery(alice, message) == ("DELIVERED", 1, 1, 0)
    await api.mark_read(bob, private_id(alice, bob))
    assert await receipts.delivery(alice, message) == ("READ", 1, 1, 1)


async def test_a_group_message_has_the_lowest_status_of_its_recipients(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    message = (await api.send(alice, group))["message"]
    expected = [
        (api.ack(bob, group, 1), ("SENT", 3, 1, 0)),
        (api.mark_read(bob, group), ("SENT", 3, 1, 1)),
        (api.mark_read(carol, group), ("SENT", 3, 2, 2)),
        (api.ack(dave, group, 1), ("DELIVERED", 3, 3, 2)),
        (api.mark_read(dave, group), ("READ", 3, 3, 3)),
    ]
    assert await receipts.delivery(alice, message) == ("SENT", 3, 0, 0)
    for call, delivery in expected:
        await call
        assert await receipts.delivery(alice, message) == delivery


async def test_each_message_of_a_page_has_its_own_delivery(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.send(alice, group)
    await api.send(bob, group)
    await api.send(alice, group)
    await api.invite(alice, group, dave)
    await api.send(alice, group)
    await api.ack(dave, group, 5)
    await api.mark_read(carol, group, 3)
    page = (await api.data(alice, DELIVERIES, id=group))["messages"]["edges"]
    deliveries = [edge["node"]["delivery"] and tuple(edge["node"]["delivery"].values()) for edge in page]
    # bob read the first message by sending the second. dave joined before the fifth; the fourth is a SYSTEM message.
    assert deliveries == [("READ", 2, 2, 2), None, ("SENT", 2, 1, 1), None, ("SENT", 3, 1, 0)]


async def test_only_the_sender_sees_the_delivery(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(alice, group))["message"]
    direct = (await api.send(alice, bob))["message"]
    await api.invite(alice, group, dave)
    system = (await api.history(alice, group))[-1]
    assert system["contentType"] == "SYSTEM"
    for viewer, message_seen in ((bob, message), (bob, direct), (alice, system)):
        assert await receipts.delivery(viewer, message_seen) is None
    assert await receipts.delivery(alice, message) is not None


async def test_the_message_event_shows_the_delivery_to_the_sender_only(receipts: Receipts) -> None:
    api = receipts.api
    alice, bob = await api.create_users("alice", "bob")
    query = LIVE_MESSAGES.replace("message {", "message { delivery { status recipientCount }", 1)
    sender_device, recipients = [await api.listen(user, query) for user in (alice, bob)]
    await api.send(alice, bob)
    assert (await sender_device.next())["message"]["delivery"] == {"status": "SENT", "recipientCount": 1}
    assert (await recipients.next())["message"]["delivery"] is None


@pytest.mark.parametrize("kind", ["private", "group"])
async def test_counts_equal_those_of_the_receipts(receipts: Receipts, kind: str) -> None:
    api = receipts.api
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    conversation = private_id(alice, bob) if kind == "private" else await api.create_group(alice, bob, carol, dave)
    messages = [(await api.send(alice, conversation if kind == "group" else bob))["message"] for _ in range(4)]
    recipients = [bob] if kind == "private" else [bob, carol, dave]
    await gather_all(
        *(call(user, conversation, seq) for user in recipients for call, seq in ((api.ack, 3), (api.mark_read, 2))),
        api.send(bob, conversation if kind == "group" else alice),
    )
    for message in messages:
        statuses = list((await receipts.statuses(alice, message)).values())
        read, delivered = statuses.count("READ"), statuses.count("READ") + statuses.count("DELIVERED")
        delivery = await receipts.delivery(alice, message)
        assert delivery is not None
        assert delivery[1:] == (len(statuses), delivered, read)


async def test_the_delivery_survives_the_loss_of_redis(receipts: Receipts, deployments: Deployments) -> None:
    api = receipts.api
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    message = (await api.send(alice, group))["message"]
    await api.ack(bob, group, 1)
    await api.mark_read(carol, group)
    await api.wait_until_idle()
    deployments.flush_redis("main")
    assert await receipts.delivery(alice, message) == ("DELIVERED", 2, 2, 1)
    assert await receipts.statuses(alice, message) == {bob: "DELIVERED", carol: "READ"}
