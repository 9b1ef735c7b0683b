"""Edits and recalls in channels by members who may not read their history."""

from __future__ import annotations

import pytest

from store.workspaces.permissions import Permission
from tests.api.client import EDIT, RECALL, Api, Refusal
from tests.api.sample_channels import SampleChannels

NO_MESSAGE = Refusal("NOT_FOUND", "messageId")


async def expect_refusals(api: Api, user: str, message: str, refusal: Refusal) -> None:
    """Fail unless the user can neither edit nor recall a message. Nothing stored may change."""
    stored = await api.stored_hashes()
    assert await api.expect_refusal(user, EDIT, id=message, content="other") == refusal
    assert await api.expect_refusal(user, RECALL, id=message) == refusal
    assert await api.stored_hashes() == stored


async def test_senders_without_read_history_edit_and_recall(api: Api, workspace: SampleChannels) -> None:
    replied = (await api.send(workspace.other, workspace.general, "secret"))["message"]["id"]
    reply = (await api.send(workspace.member, workspace.general, "helo", replyToId=replied))["message"]["id"]
    await workspace.overwrite(workspace.general, workspace.member, Permission.READ_HISTORY)
    answer = """mutation ($id: ID!) { editMessage(messageId: $id, content: "hello") {
        content replyTo { content } } }"""
    assert await api.data(workspace.member, answer, id=reply) == {"editMessage": {"content": "hello", "replyTo": None}}
    assert [m["content"] for m in await api.history(workspace.other, workspace.general)] == ["secret", "hello"]
    assert (await api.recall(workspace.member, reply))["state"] == "RECALLED"
    assert await api.history(workspace.member, workspace.general) == []
    await expect_refusals(api, workspace.member, replied, NO_MESSAGE)


@pytest.mark.parametrize("permission", [Permission.READ_HISTORY, Permission.READ_HISTORY | Permission.MANAGE_MESSAGES])
async def test_moderators_without_read_history_find_only_their_own_messages(
    api: Api, workspace: SampleChannels, permission: Permission
) -> None:
    sent = (await api.send(workspace.other, workspace.general, "secret"))["message"]["id"]
    own = (await api.send(workspace.moderator, workspace.general))["message"]["id"]
    await workspace.overwrite(workspace.general, workspace.moderator, permission)
    await expect_refusals(api, workspace.moderator, sent, NO_MESSAGE)
    assert (await api.recall(workspace.moderator, own))["state"] == "RECALLED"


async def test_messages_before_the_membership_stay_hidden_from_their_sender(
    api: Api, workspace: SampleChannels
) -> None:
    sent = (await api.send(workspace.member, workspace.general))["message"]["id"]
    await workspace.change_channel(workspace.general, full_history=False)
    joined = api.services.app.store.clock.now_ms() + 1
    await workspace.set_facts(workspace.member, joined_at_ms=joined)
    await expect_refusals(api, workspace.member, sent, NO_MESSAGE)
    await workspace.overwrite(workspace.general, workspace.member, Permission.READ_HISTORY)
    await expect_refusals(api, workspace.member, sent, NO_MESSAGE)


async def test_senders_who_do_not_see_the_channel_find_no_message(api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.member, workspace.general))["message"]["id"]
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    await expect_refusals(api, workspace.member, sent, NO_MESSAGE)
