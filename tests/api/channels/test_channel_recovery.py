"""Channels survive taken places, dead servers, and the loss of Redis."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.ids import PARTITIONS, MessageId, UserId
from store.channels.sending.sending_rights import SendingRefusal
from store.conversations.conversation_fields import ConversationField, HeadField
from store.messages.message import Message, MessageKind, ReservedMessage
from store.messages.outbox.places import ChannelTerms, OutdatedRights, ReservationReason
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.client import Api, gather_all
from tests.api.conftest import Deployments
from tests.api.sample_channels import SampleChannels


def make_message(workspace: SampleChannels, text: str = "hello") -> Message:
    return Message(
        MessageId(workspace.store.ids.next()), workspace.general, UserId(workspace.member), MessageKind.TEXT, text
    )


async def forget_places(workspace: SampleChannels) -> None:
    """Set the head in Redis back, as a Redis does that was restored from a snapshot."""
    fields = (ConversationField.SEQ, 0, ConversationField.N, 0, HeadField.NEWEST_SEQ, 0)
    await workspace.store.cache.one(Call("HSET", (workspace.store.keys.head(workspace.general),), fields))


async def test_a_message_whose_place_is_taken_gets_another_one(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.general, "1")
    await forget_places(workspace)
    assert (await api.send(workspace.other, workspace.general, "2"))["message"]["seq"] == 2
    await forget_places(workspace)
    await gather_all(*(api.send(workspace.member, workspace.general, "more") for _ in range(5)))
    history = await api.history(workspace.other, workspace.general)
    assert [message["seq"] for message in history] == sorted({message["seq"] for message in history})
    assert [message["content"] for message in history] == ["1", "2", *["more"] * 5]


async def test_no_second_place_is_given_under_rights_that_have_ended(api: Api, workspace: SampleChannels) -> None:
    places = workspace.store.channel_places

    async def reserve_again(**fields: Any) -> object:
        place = await places.reserve(make_message(workspace)._replace(**fields), ReservationReason.DISPLACED_MESSAGE)
        return None if isinstance(place, ReservedMessage) else place

    moderator, mentioned = UserId(workspace.moderator), {"mentions": (UserId(workspace.other),)}
    everybody = {"mentions_all": True, "sender": moderator}
    for fields in ({}, mentioned, everybody):
        assert await reserve_again(**fields) is None
    await workspace.overwrite(workspace.general, workspace.member, Permission.SEND_MESSAGES)
    assert await reserve_again() is SendingRefusal.NEEDS_SEND_MESSAGES
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    assert await reserve_again() is None
    assert await reserve_again(**mentioned) is SendingRefusal.MENTIONS_OUTSIDER
    await workspace.overwrite(workspace.general, workspace.moderator, Permission.MENTION_EVERYONE)
    assert await reserve_again(**everybody) is SendingRefusal.MENTIONS_EVERYONE
    await workspace.change_channel(workspace.general, is_archived=True)
    assert await reserve_again() is SendingRefusal.ARCHIVED
    assert await reserve_again(kind=MessageKind.SYSTEM) is None
    await api.services.housekeeper.sweep(range(PARTITIONS), 0)


async def test_a_place_needs_rights_of_the_present_version(workspace: SampleChannels) -> None:
    store = workspace.store
    assert await store.conversations.find(workspace.general)
    await workspace.change_channel(workspace.general, slow_mode_seconds=0)
    outdated = await store.outbox.reserve_in_channel(make_message(workspace), ChannelTerms(1))
    assert outdated == OutdatedRights(workspace.policy.version)


@pytest.mark.parametrize("finisher", ["same", "other"])
async def test_a_message_of_a_dead_server_is_delivered(
    api: Api, other_api: Api, workspace: SampleChannels, finisher: str
) -> None:
    await api.send(workspace.other, workspace.general)
    message = make_message(workspace, "left behind")
    place = await workspace.store.outbox.reserve_in_channel(message, ChannelTerms(workspace.policy.version))
    assert isinstance(place, ReservedMessage)
    server = api if finisher == "same" else other_api
    await server.services.housekeeper.sweep(range(PARTITIONS), 0)
    assert [m["content"] for m in await api.history(workspace.other, workspace.general)] == ["hello", "left behind"]
    rows = (await api.stored_documents())["sessions"]
    assert rows[f"{workspace.member} {workspace.general}"]["r"] == 2
    assert (await api.stored_documents()).get("receipts", {}) == {}


async def test_channels_work_after_the_loss_of_redis(
    api: Api, workspace: SampleChannels, deployments: Deployments
) -> None:
    await api.send(workspace.member, workspace.general, "1")
    await workspace.overwrite(workspace.general, workspace.other, Permission.SEND_MESSAGES)
    deployments.flush_redis("main")
    assert (await api.expect_send_refusal(workspace.other, workspace.general)).code == "FORBIDDEN"
    assert (await api.send(workspace.member, workspace.general, "2"))["message"]["seq"] == 2
    assert len(await api.history(workspace.other, workspace.general)) == 2
    head = await workspace.store.conversations.find(workspace.general)
    assert head is not None and head.policy_version == workspace.policy.version


async def test_a_head_without_a_policy_version_is_loaded_again(api: Api, workspace: SampleChannels) -> None:
    await api.send(workspace.member, workspace.general)
    head = workspace.store.keys.head(workspace.general)
    await workspace.store.cache.one(Call("HDEL", (head,), (HeadField.POLICY_VERSION,)))
    assert (await api.send(workspace.member, workspace.general))["message"]["seq"] == 2
    await workspace.store.cache.one(Call("HDEL", (head,), (HeadField.POLICY_VERSION,)))
    assert len(await api.history(workspace.other, workspace.general)) == 2


async def test_a_channel_of_a_deleted_workspace_has_no_head(api: Api, workspace: SampleChannels) -> None:
    await workspace.store.mongo.update_one("workspaces", {"_id": workspace.id}, {"$set": {"del": 1}})
    await workspace.store.conversations.drop(workspace.general)
    workspace.store.policies.forget(workspace.id)
    assert await workspace.store.conversations.find(workspace.general) is None
    assert (await api.expect_send_refusal(workspace.member, workspace.general)).code == "NOT_FOUND"


async def test_the_loader_reads_the_version_again_after_a_change(
    workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    loader = workspace.store.conversations._loader
    read = loader._read_policy_versions
    reads = 0

    async def read_before_a_change(conversations: object) -> dict[str, int]:
        nonlocal reads
        reads += 1
        found = await read(conversations)  # type: ignore[arg-type]
        if reads == 1:
            await workspace.store.policy_changes.completions._fence.raise_versions(workspace.id, 2, [workspace.general])
            await workspace.store.mongo.update_one("workspaces", {"_id": workspace.id}, {"$set": {"pv": 2}})
        return found

    monkeypatch.setattr(loader, "_read_policy_versions", read_before_a_change)
    head = await workspace.store.conversations.find(workspace.general)
    assert head is not None and (head.policy_version, reads) == (2, 2)
