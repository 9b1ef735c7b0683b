"""Messages that come through incoming webhooks."""

from __future__ import annotations

from typing import Any

import pytest

from store.mongo.collections import MEMBERS, SESSIONS
from tests.api.channels.calls import UPDATE
from tests.api.channels.channel_subscriber import live
from tests.api.client import EDIT, RECALL, Api
from tests.api.sample_channels import SampleChannels
from tests.checking import find_differences
from tests.webhooks.incoming.hooks import Hooks, refusal_of

AUTHORS = """subscription ($id: ID!) { channelEvents(channels: [{id: $id}]) {
    __typename ... on ChannelMessage { message {
        content authorName authorAvatarUrl sender { id isBot } replyTo { authorName } } } } }"""
UNREAD = "query ($id: ID!) { channel(id: $id) { session { unreadCount } } }"
FOLLOW = "mutation ($id: ID!) { followChannel(channelId: $id) { id } }"
REPLY = """mutation ($id: ID!, $to: ID!) { sendMessage(input: {conversationId: $id, content: "why?", replyToId: $to}) {
    message { replyTo { id authorName authorAvatarUrl } } } }"""
THREAD = """query ($id: ID!) { message(id: $id) { thread {
    replyCount followerCount viewerFollows participants { id } } } }"""
PICTURE = "https://example.org/ci.png"
OTHER_PICTURE = "https://example.org/x.png"


async def test_a_message_is_stored_with_the_webhook_as_its_sender(
    api: Api, hooks: Hooks, workspace: SampleChannels
) -> None:
    before = await find_differences(api.services.app.store)
    hook = await hooks.create(workspace.admin, workspace.general, avatar=PICTURE)
    answer = await hooks.sent(hook, "the build failed", metadata={"run": 7})
    assert answer == {"id": answer["id"], "conversationId": workspace.general, "seq": 1, "replayed": False}
    (message,) = await hooks.messages(workspace.member, workspace.general)
    assert message == {
        "id": answer["id"],
        "conversationId": workspace.general,
        "seq": 1,
        "content": "the build failed",
        "metadata": {"run": 7},
        "contentType": "TEXT",
        "state": "NORMAL",
        "sender": {"id": hook.id, "displayName": "ci", "isBot": True, "avatarUrl": PICTURE},
        "authorName": "ci",
        "authorAvatarUrl": PICTURE,
        "mentions": [],
        "mentionsAll": False,
        "mentionedRoles": [],
        "embeds": [],
        "idempotencyKey": None,
    }
    assert await find_differences(api.services.app.store) == before


@pytest.mark.parametrize(
    ("given", "name", "picture"),
    [
        ({}, "ci", PICTURE),
        ({"username": "deploys"}, "deploys", PICTURE),
        ({"avatarUrl": OTHER_PICTURE}, "ci", OTHER_PICTURE),
        ({"username": "de\u202eploys\n", "avatarUrl": OTHER_PICTURE}, "deploys", OTHER_PICTURE),
        ({"username": "", "avatarUrl": ""}, "ci", PICTURE),
        ({"username": None, "avatarUrl": None}, "ci", PICTURE),
    ],
)
async def test_a_message_may_have_a_name_and_a_picture_of_its_own(
    api: Api,
    other_api: Api,
    hooks: Hooks,
    workspace: SampleChannels,
    given: dict[str, Any],
    name: str,
    picture: str,
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general, avatar=PICTURE)
    watching = [await a.subscribe(workspace.member, AUTHORS, id=workspace.general) for a in (api, other_api)]
    for subscriber in watching:
        assert (await subscriber.next())["__typename"] == "ChannelCaughtUp"
    answer = await hooks.sent(hook, **given)
    shown = {"authorName": name, "authorAvatarUrl": picture}
    for subscriber in watching:
        expected = {"content": "built", "sender": {"id": hook.id, "isBot": True}, "replyTo": None} | shown
        assert (await subscriber.next())["message"] == expected
    for each in (api, other_api):
        (message,) = await Hooks(each).messages(workspace.member, workspace.general)
        assert (message["authorName"], message["authorAvatarUrl"]) == (name, picture)
    reply = await api.data(workspace.member, REPLY, id=workspace.general, to=answer["id"])
    assert reply["sendMessage"]["message"]["replyTo"] == {"id": answer["id"]} | shown


async def test_the_message_is_unread_for_followers_and_the_webhook_has_no_session(
    api: Api, hooks: Hooks, workspace: SampleChannels
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    before = await find_differences(api.services.app.store)
    await api.data(workspace.member, FOLLOW, id=workspace.general)
    await hooks.sent(hook)
    await hooks.sent(hook)
    session = (await api.data(workspace.member, UNREAD, id=workspace.general))["channel"]["session"]
    assert session == {"unreadCount": 2}
    await api.wait_until_idle()
    mongo = api.services.app.store.mongo
    assert await mongo.find(SESSIONS, {"_id": {"$regex": hook.id}}) == []
    assert await find_differences(api.services.app.store) == before


async def test_a_reply_opens_a_thread_and_its_webhook_does_not_follow_it(
    api: Api, hooks: Hooks, workspace: SampleChannels
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    before = await find_differences(api.services.app.store)
    first = await hooks.sent(hook, "failed")
    reply = await hooks.sent(hook, "fixed", threadOf=first["id"], username="repair")
    assert reply["conversationId"] == f"t_1_{workspace.general}" and reply["seq"] == 1
    again = await hooks.sent(hook, "closed", threadOf=reply["id"])
    assert (again["conversationId"], again["seq"]) == (reply["conversationId"], 2)
    await api.send(workspace.member, reply["conversationId"], "thanks")
    replies = await hooks.messages(workspace.member, reply["conversationId"])
    shown = [(message["content"], message["authorName"]) for message in replies]
    assert shown == [("fixed", "repair"), ("closed", "ci"), ("thanks", workspace.member)]
    thread = (await api.data(workspace.member, THREAD, id=first["id"]))["message"]["thread"]
    people = [{"id": workspace.member}, {"id": hook.id}]
    assert thread == {"replyCount": 3, "followerCount": 1, "viewerFollows": True, "participants": people}
    await api.wait_until_idle()
    mongo = api.services.app.store.mongo
    assert await mongo.find(SESSIONS, {"_id": {"$regex": hook.id}}) == []
    assert len(await mongo.find(MEMBERS, {"_id": f"{reply['conversationId']} {hook.id}"})) == 1
    assert await find_differences(api.services.app.store) == before


@pytest.mark.parametrize("where", ["elsewhere", "unknown", "malformed", "hidden"])
async def test_a_thread_under_a_message_of_another_channel_is_refused(
    api: Api, hooks: Hooks, workspace: SampleChannels, where: str
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    hidden = (await api.send(workspace.member, workspace.staff))["message"]["id"]
    peer = (await api.send(workspace.member, workspace.other))["message"]["id"]
    named = {"elsewhere": peer, "unknown": "m_12", "malformed": "x", "hidden": hidden}[where]
    assert refusal_of(await hooks.send(hook, threadOf=named)) == (404, "NOT_FOUND", "threadOf")
    assert await hooks.messages(workspace.member, workspace.general) == []


async def test_a_locked_thread_takes_no_replies(api: Api, hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    parent = (await api.send(workspace.member, workspace.general))["message"]["id"]
    thread = (await hooks.sent(hook, threadOf=parent))["conversationId"]
    await api.data(workspace.owner, "mutation ($id: ID!) { lockThread(threadId: $id, locked: true) { id } }", id=thread)
    assert refusal_of(await hooks.send(hook, threadOf=parent)) == (403, "FORBIDDEN", "threadOf")
    assert [m["content"] for m in await hooks.messages(workspace.member, thread) if m["contentType"] == "TEXT"] == [
        "built"
    ]


async def test_embeds_may_stand_alone(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    embed = {"title": "Build 7", "color": "#FF0000", "fields": [{"name": "branch", "value": "main", "inline": True}]}
    await hooks.sent(hook, "", embeds=[embed])
    await hooks.sent(hook, "with text", embeds=[embed | {"unknown": 1}])
    shown = [{"type": "RICH", "title": "Build 7", "url": None, "fields": [{"name": "branch"}]}]
    messages = await hooks.messages(workspace.member, workspace.general)
    assert [(m["content"], m["embeds"]) for m in messages] == [("", shown), ("with text", shown)]


async def test_texts_that_look_like_mentions_notify_nobody(api: Api, hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    notified = await api.listen(workspace.member)
    await hooks.sent(hook, f"@everyone @here <@{workspace.member}>", mentions=[workspace.member], mentionAll=True)
    (message,) = await hooks.messages(workspace.member, workspace.general)
    assert message["mentions"] == [] and message["mentionsAll"] is False
    await notified.expect_no_event()


async def test_the_same_key_answers_the_first_message(
    hooks: Hooks, other_hooks: Hooks, workspace: SampleChannels
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    other = await hooks.create(workspace.admin, workspace.general, "other")
    first = await hooks.sent(hook, idempotencyKey="run-7")
    for each in (hooks, other_hooks):
        assert await each.sent(hook, idempotencyKey="run-7") == first | {"replayed": True}
    conflict = (409, "IDEMPOTENCY_CONFLICT", "idempotencyKey")
    assert refusal_of(await hooks.send(hook, "else", idempotencyKey="run-7")) == conflict
    assert refusal_of(await hooks.send(hook, idempotencyKey="run-7", username="x")) == conflict
    assert (await hooks.sent(other, idempotencyKey="run-7"))["replayed"] is False
    assert len(await hooks.messages(workspace.member, workspace.general)) == 2


async def test_only_moderators_recall_and_nobody_edits(api: Api, hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    id = (await hooks.sent(hook))["id"]
    for user, code in ((workspace.member, "FORBIDDEN"), (workspace.outsider, "NOT_FOUND")):
        assert (await api.expect_refusal(user, RECALL, id=id)).code == code
    for user in (workspace.admin, workspace.member):
        assert (await api.expect_refusal(user, EDIT, id=id, content="x")).code == "FORBIDDEN"
    (message,) = await hooks.messages(workspace.member, workspace.general)
    assert (message["content"], message["state"]) == ("built", "NORMAL")
    await api.data(workspace.moderator, RECALL, id=id)
    (message,) = await hooks.messages(workspace.member, workspace.general)
    assert (message["content"], message["state"], message["authorName"]) == (None, "RECALLED", "ci")


async def test_slow_mode_does_not_concern_webhooks(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    await hooks.api.data(workspace.admin, UPDATE, id=workspace.general, input={"slowModeSeconds": 600})
    await hooks.api.send(workspace.member, workspace.general)
    assert (await hooks.api.expect_send_refusal(workspace.member, workspace.general)).code == "SLOW_MODE"
    for seq in (2, 3, 4):
        assert (await hooks.sent(hook))["seq"] == seq


async def test_a_message_from_another_process_arrives_live(
    api: Api, hooks: Hooks, other_hooks: Hooks, workspace: SampleChannels
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    subscriber, _ = await live(api, workspace.member, workspace.general)
    await other_hooks.sent(hook, "from afar")
    assert (await subscriber.next())["message"]["content"] == "from afar"
