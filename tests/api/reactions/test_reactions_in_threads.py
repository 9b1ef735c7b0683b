"""Reactions to replies: their thread's parent conversation decides who may react."""

from __future__ import annotations

import pytest

from store.workspaces.permissions import Permission
from tests.api.client import SEND, Api, Refusal
from tests.api.reactions.calls import ADD, CLEAR, check_summaries, clear, expect_refusal, react, reactors_of, take_back
from tests.api.reactions.test_reaction_races import change_meanwhile
from tests.api.sample_channels import SampleChannels


async def reply(api: Api, user: str, parent: str) -> str:
    """Reply in the thread of a message, and return the reply's id."""
    sent = await api.data(user, SEND, input={"threadOf": parent, "content": "reply"})
    await api.wait_until_idle()
    return str(sent["sendMessage"]["message"]["id"])


async def test_both_people_react_in_threads_of_a_private_conversation(api: Api) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    answer = await reply(api, bob, (await api.send(alice, bob))["message"]["id"])
    for user in (alice, bob):
        await react(api, user, answer)
    assert await take_back(api, bob, answer) == [("👍", 1, False)]
    assert await reactors_of(api, bob, answer) == [alice]
    await expect_refusal(api, alice, CLEAR, Refusal("FORBIDDEN", "messageId"), id=answer)
    await expect_refusal(api, carol, ADD, Refusal("NOT_FOUND", "messageId"), id=answer, emoji="👍")
    check_summaries(api)


async def test_present_members_react_in_threads_of_a_group(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, bob, carol = await api.create_users("owner", "bob", "carol")
    group = await api.create_group(owner, bob, carol)
    answer = await reply(api, bob, (await api.send(owner, group))["message"]["id"])
    for user in (bob, carol):
        await react(api, user, answer)
    await expect_refusal(api, carol, CLEAR, Refusal("FORBIDDEN", "messageId"), id=answer)
    adding = api.run(bob, ADD, id=answer, emoji="🎉")
    refusal = await change_meanwhile(api, monkeypatch, adding, "announce", lambda: api.remove(owner, group, bob))
    assert refusal == Refusal("NOT_A_MEMBER", "messageId")
    assert await clear(api, owner, answer) == []
    check_summaries(api)


async def test_rights_in_the_channel_hold_in_its_threads(
    api: Api, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    member, other = workspace.member, workspace.other
    answer = await reply(api, member, (await api.send(other, workspace.general))["message"]["id"])
    assert await react(api, other, answer) == [("👍", 1, True)]
    forbidden = Refusal("FORBIDDEN", "messageId")
    adding = api.run(member, ADD, id=answer, emoji="🎉")
    refusal = await change_meanwhile(
        api,
        monkeypatch,
        adding,
        "announce",
        lambda: workspace.overwrite(workspace.general, member, Permission.ADD_REACTIONS),
    )
    assert refusal == forbidden
    assert await react(api, member, answer) == [("👍", 2, True)]
    await expect_refusal(api, member, CLEAR, forbidden, id=answer)
    await workspace.change_channel(workspace.general, is_archived=True)
    await expect_refusal(api, other, ADD, Refusal("ARCHIVED", "messageId"), id=answer, emoji="🎉")
    check_summaries(api)


async def test_events_show_each_viewer_whether_they_reacted(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    users = await api.create_users(*(f"u{number}" for number in range(9)))
    group = await api.create_group(*users)
    sent = (await api.send(users[0], group))["message"]["id"]
    for user in users[:6]:
        await react(api, user, sent)
    live = """subscription ($since: Cursor) { messageEvents(since: $since) {
        __typename ... on ReactionsChanged { reactions { count viewerReacted } } ... on CaughtUp { cursor reset } } }"""
    # The summary does not know all users.
    monkeypatch.setattr("store.reactions.reaction_draft.MOST_KEYS", 0)
    devices = {user: await api.listen(user, live) for user in users}
    await react(api, users[6], sent)
    for user, device in devices.items():
        while (event := await device.next())["reactions"][0]["count"] < 7:
            pass
        assert event["reactions"] == [{"count": 7, "viewerReacted": user in users[:7]}]
