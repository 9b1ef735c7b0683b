"""Reading channels: history by rights and memberships, and everything that shows a message."""

from __future__ import annotations

import pytest

from store.base.ids import UserId
from store.conversations.conversation import Member
from store.messages.message import Message
from store.mongo.collections import MEMBERS, member_row_id
from store.workspaces.permissions import Permission
from tests.api.client import HISTORY, Api
from tests.api.sample_channels import SampleChannels

EVERYWHERE = """query ($c: ID!, $m: ID!) {
    message(id: $m) { id } byNode: node(id: $m) { id } channel(id: $c) { name lastMessage { id } }
    node(id: $c) { id } conversation(id: $c) { title lastMessage { id } }
    messages(conversationId: $c) { edges { node { id replyTo { id } } } }
    around: messages(conversationId: $c, aroundSeq: 1) { edges { node { id } } } }"""


async def test_a_removed_member_sees_nothing_of_a_private_channel(
    api: Api, other_api: Api, workspace: SampleChannels
) -> None:
    sent = (await api.send(workspace.member, workspace.staff, "secret"))["message"]["id"]
    variables = {"c": workspace.staff, "m": sent}
    for process in (api, other_api):
        found = await process.data(workspace.member, EVERYWHERE, **variables)
        assert None not in found.values()
    await workspace.remove_from_staff(workspace.member)
    for process in (api, other_api):
        assert set((await process.data(workspace.member, EVERYWHERE, **variables)).values()) == {None}
        for user in (workspace.owner, workspace.admin, workspace.other, workspace.outsider):
            assert set((await process.data(user, EVERYWHERE, **variables)).values()) == {None}
        assert None not in (await process.data(workspace.moderator, EVERYWHERE, **variables)).values()


async def test_without_read_history_a_member_sees_no_message(api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.other, workspace.general))["message"]["id"]
    await workspace.overwrite(workspace.general, workspace.member, Permission.READ_HISTORY)
    found = await api.data(workspace.member, EVERYWHERE, c=workspace.general, m=sent)
    assert (found["message"], found["byNode"]) == (None, None)
    assert found["channel"] == {"name": "general", "lastMessage": None}
    assert found["messages"]["edges"] == found["around"]["edges"] == []
    own = await api.send(workspace.member, workspace.general)
    assert own["message"]["content"] == "hello"
    refusal = await api.expect_send_refusal(workspace.member, workspace.general, replyToId=sent)
    assert (refusal.code, refusal.field) == ("INVALID_INPUT", "replyToId")


async def test_without_view_channel_there_is_no_channel(api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.member, workspace.general))["message"]["id"]
    await workspace.overwrite(workspace.general, workspace.member, Permission.VIEW_CHANNEL)
    assert set((await api.data(workspace.member, EVERYWHERE, c=workspace.general, m=sent)).values()) == {None}
    recall = "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }"
    assert (await api.expect_refusal(workspace.member, recall, id=sent)).code == "NOT_FOUND"


async def test_a_private_channel_since_joining_shows_the_memberships(api: Api, workspace: SampleChannels) -> None:
    await workspace.change_channel(workspace.staff, full_history=False)
    for number in range(6):
        await api.send(workspace.moderator, workspace.staff, f"{number + 1}")
    member = Member(UserId(workspace.member), "", ((2, 3), (5, None)), 1)
    row = {"_id": member_row_id(workspace.staff, member.user)}
    await workspace.store.mongo.update_one(MEMBERS, row, {"$set": member.to_fields()})
    await workspace.change(workspace.policy, workspace.member)
    shown = [message["content"] for message in await api.history(workspace.member, workspace.staff)]
    assert shown == ["2", "3", "5", "6"]
    await workspace.change_channel(workspace.staff, full_history=True)
    assert len(await api.history(workspace.member, workspace.staff)) == 6


@pytest.mark.parametrize("before", [0, 1, 5])
async def test_a_public_channel_since_joining_begins_with_the_workspace_membership(
    api: Api, workspace: SampleChannels, before: int
) -> None:
    await workspace.change_channel(workspace.general, full_history=False)
    for number in range(before):
        await api.send(workspace.member, workspace.general, f"old {number}")
    now = workspace.store.clock.now_ms()
    while workspace.store.clock.now_ms() <= now:
        pass
    await workspace.set_facts(workspace.other, joined_at_ms=workspace.store.clock.now_ms())
    for number in range(3):
        await api.send(workspace.member, workspace.general, f"new {number}")
    shown = [message["content"] for message in await api.history(workspace.other, workspace.general)]
    assert shown == ["new 0", "new 1", "new 2"]
    assert len(await api.history(workspace.member, workspace.general)) == before + 3


async def test_positions_in_the_history(api: Api, workspace: SampleChannels) -> None:
    for number in range(9):
        await api.send(workspace.member, workspace.general, f"{number + 1}")

    async def page(**position: int) -> list[int]:
        found = await api.data(workspace.other, HISTORY, id=workspace.general, **position)
        return [edge["node"]["seq"] for edge in found["messages"]["edges"]]

    assert await page(aroundSeq=5, first=3) == [4, 5, 6]
    assert await page(fromSeq=7, first=5) == [7, 8, 9]
    assert await page(last=2) == [8, 9]


async def test_replies_show_what_the_reader_may_read(api: Api, workspace: SampleChannels) -> None:
    first = (await api.send(workspace.member, workspace.general, "first"))["message"]["id"]
    reply = await api.send(workspace.other, workspace.general, "reply", replyToId=first)
    assert reply["message"]["replyTo"]["id"] == first
    in_staff = (await api.send(workspace.member, workspace.staff))["message"]["id"]
    refusal = await api.expect_send_refusal(workspace.member, workspace.general, replyToId=in_staff)
    assert (refusal.code, refusal.field) == ("INVALID_INPUT", "replyToId")
    assert (await api.expect_send_refusal(workspace.outsider, workspace.general, replyToId=first)).code == "NOT_FOUND"


async def test_moderators_recall_and_senders_edit(api: Api, workspace: SampleChannels) -> None:
    sent = (await api.send(workspace.member, workspace.general))["message"]["id"]
    edit = 'mutation ($id: ID!) { editMessage(messageId: $id, content: "new") { id } }'
    recall = "mutation ($id: ID!) { recallMessage(messageId: $id) { state } }"
    assert (await api.edit(workspace.member, sent, "edited"))["content"] == "edited"
    for user in (workspace.other, workspace.moderator, workspace.owner):
        assert (await api.expect_refusal(user, edit, id=sent)).code == "FORBIDDEN"
    assert (await api.expect_refusal(workspace.other, recall, id=sent)).code == "FORBIDDEN"
    assert (await api.expect_refusal(workspace.outsider, recall, id=sent)).code == "NOT_FOUND"
    assert (await api.recall(workspace.moderator, sent))["state"] == "RECALLED"


@pytest.mark.parametrize("kind", ["edit", "recall"])
async def test_a_revision_needs_rights_of_the_moment_it_is_announced(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    author, actor = (workspace.member,) * 2 if kind == "edit" else (workspace.member, workspace.moderator)
    sent = (await api.send(author, workspace.general))["message"]["id"]
    delivery = api.services.app.delivery
    is_delivered = delivery._is_delivered

    async def after_a_change(message: Message) -> bool:
        await workspace.overwrite(workspace.general, actor, Permission.SEND_MESSAGES | Permission.MANAGE_MESSAGES)
        return await is_delivered(message)

    monkeypatch.setattr(delivery, "_is_delivered", after_a_change)
    revise = {
        "edit": 'mutation ($id: ID!) { editMessage(messageId: $id, content: "new") { id } }',
        "recall": "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }",
    }
    assert (await api.expect_refusal(actor, revise[kind], id=sent)).code == "FORBIDDEN"
    (message,) = await api.history(workspace.other, workspace.general)
    assert (message["content"], message["state"], message["editCount"]) == ("hello", "NORMAL", 0)
