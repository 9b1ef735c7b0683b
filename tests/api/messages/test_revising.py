"""Rules that editMessage and recallMessage share."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.api.client import EDIT, RECALL, Api, Json, Refusal, private_id
from tests.api.conftest import Deployments
from tests.api.events import current_cursor, read_missed_events
from tests.api.revisions import set_member

NO_MESSAGE = Refusal("NOT_FOUND", "messageId")


@dataclass(frozen=True)
class Revision:
    """One of the two mutations that revise a message."""

    mutation: str
    event: str
    arguments: Json = field(default_factory=dict)

    async def make(self, api: Api, user: str, message: str) -> Json:
        """Revise the message, and return it."""
        data = await api.data(user, self.mutation, id=message, **self.arguments)
        (revised,) = data.values()
        assert isinstance(revised, dict)
        return revised

    async def expect_refusal(self, api: Api, user: str | None, message: str) -> Refusal:
        """Return the refusal. Nothing stored may change."""
        stored = await api.stored_hashes()
        refusal = await api.expect_refusal(user, self.mutation, id=message, **self.arguments)
        assert await api.stored_hashes() == stored
        return refusal


EDITING = Revision(EDIT, "MessageUpdated", {"content": "edited"})
RECALLING = Revision(RECALL, "MessageRecalled")

both_revisions = pytest.mark.parametrize("revision", [EDITING, RECALLING], ids=["edit", "recall"])


def as_seen_by(user: str, message: Json) -> Json:
    """Return the message without its idempotency key if another user wrote it."""
    return message if message["sender"]["id"] == user else message | {"idempotencyKey": None}


@both_revisions
async def test_all_devices_of_all_members_receive_a_revision_live_and_replayed(api: Api, revision: Revision) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    sent = (await api.send(alice, group, "befor", idempotencyKey="k"))["message"]
    await api.wait_until_idle()
    since = {user: await current_cursor(api, user) for user in (alice, bob, carol)}
    devices = [(user, await api.listen(user)) for user in (alice, alice, bob, carol)]
    revised = await revision.make(api, alice, sent["id"])
    for user, device in devices:
        event = await device.next()
        assert (event["__typename"], event["message"]) == (revision.event, as_seen_by(user, revised))
        assert await read_missed_events(api, user, since[user]) == [event]
        assert await read_missed_events(api, user, event["cursor"]) == []
        await device.expect_no_event(0.03)


@both_revisions
async def test_an_id_of_no_message_is_not_found(api: Api, revision: Revision) -> None:
    (alice,) = await api.create_users("alice")
    for message in ("", "m_", "m_1", "m_-1", "g_1", f"m_{2**63}", "s_a_g_1", "\x00", "M_1"):
        assert await revision.expect_refusal(api, alice, message) == NO_MESSAGE, ascii(message)


@both_revisions
@pytest.mark.parametrize("role", ["peer", "stranger"])
async def test_in_a_private_conversation_only_the_sender_may_revise(api: Api, revision: Revision, role: str) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    sent = (await api.send(alice, bob))["message"]["id"]
    expected = {"peer": (bob, Refusal("FORBIDDEN", "messageId")), "stranger": (carol, NO_MESSAGE)}
    user, refusal = expected[role]
    assert await revision.expect_refusal(api, user, sent) == refusal


@both_revisions
async def test_a_former_member_neither_revises_nor_receives_revisions(api: Api, revision: Revision) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol, dave)
    own = (await api.send(bob, group, "before", idempotencyKey="b"))["message"]
    others = (await api.send(carol, group, "before", idempotencyKey="c"))["message"]
    await set_member(api, group, bob, until=2)
    assert await revision.expect_refusal(api, bob, own["id"]) == Refusal("NOT_A_MEMBER", "messageId")
    # For a message that bob cannot see, the refusal does not tell that it exists.
    hidden = (await api.send(carol, group, "after"))["message"]
    assert await revision.expect_refusal(api, bob, hidden["id"]) == NO_MESSAGE
    former_device, member_device = await api.listen(bob), await api.listen(dave)
    revised = await revision.make(api, carol, others["id"])
    assert (await member_device.next())["message"] == as_seen_by(dave, revised)
    await former_device.expect_no_event()
    assert await api.history(bob, group) == [as_seen_by(bob, own), as_seen_by(bob, revised)]


@both_revisions
async def test_system_messages_cannot_be_revised(api: Api, revision: Revision) -> None:
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    group = await api.create_group(alice, bob, carol)
    await api.invite(bob, group, dave)
    (message,) = await api.history(alice, group)
    for user in (alice, bob, carol, dave):
        refusal = await revision.expect_refusal(api, user, message["id"])
        assert refusal == Refusal("INVALID_INPUT", "messageId")


@both_revisions
async def test_a_revision_needs_a_token(api: Api, revision: Revision) -> None:
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob))["message"]["id"]
    assert (await revision.expect_refusal(api, None, sent)).code == "UNAUTHENTICATED"


@both_revisions
@pytest.mark.parametrize("lost", [False, True], ids=["key in Redis", "key lost by Redis"])
async def test_the_idempotency_key_returns_the_revised_message(
    api: Api, losing_api: Api, deployments: Deployments, revision: Revision, lost: bool
) -> None:
    api = losing_api if lost else api
    alice, bob = await api.create_users("alice", "bob")
    sent = (await api.send(alice, bob, "before", idempotencyKey="k"))["message"]
    revised = await revision.make(api, alice, sent["id"])
    await api.wait_until_idle()
    if lost:
        deployments.flush_redis("lost")
    repeated = await api.send(alice, bob, "before", idempotencyKey="k")
    assert (repeated["replayed"], repeated["message"]) == (True, revised)
    assert await api.expect_send_refusal(alice, bob, "edited", idempotencyKey="k") == Refusal(
        "IDEMPOTENCY_CONFLICT", "idempotencyKey"
    )
    assert len(await api.history(alice, private_id(alice, bob))) == 1
