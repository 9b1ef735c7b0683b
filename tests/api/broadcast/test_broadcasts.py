"""A reply with broadcast is one message in two places: one text, one edit, one recall, one set of reactions."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.broadcast.calls import broadcast, copies_of, expect_same, find
from tests.api.client import EDIT, RECALL, Api, gather_all
from tests.api.events import current_cursor
from tests.api.pins.calls import pin, pinned
from tests.api.reactions.calls import clear, react, reactors_of, take_back
from tests.api.threads.calls import find_thread
from tests.api.threads.live_calls import PLACES, make_thread
from tests.api.threads.test_threads_inbox import attention

LIVE = """subscription ($since: Cursor) { messageEvents(since: $since) {
    __typename
    ... on MessageCreated { message { conversationId content } }
    ... on MessageUpdated { message { conversationId content } }
    ... on MessageRecalled { message { conversationId content } }
    ... on ReactionsChanged { conversationId reactions { emoji count viewerReacted } }
    ... on CaughtUp { cursor reset } } }"""
LOOK = """subscription ($channels: [Position!]!) { channelEvents(channels: $channels) {
    __typename
    ... on ChannelMessage { change message { conversationId content } }
    ... on ChannelReactions { conversationId reactions { emoji count viewerReacted } }
    ... on ChannelCaughtUp { conversationId reset } } }"""


@pytest.mark.parametrize("kind", PLACES)
async def test_a_reply_is_shown_in_both_places(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    before = (await api.own_session(place.first, place.conversation))["unreadCount"]
    made = await broadcast(api, place.second, place, mentions=[place.first])
    for server in (api, other_api):
        for user in (place.first, place.second, place.third):
            thread = {"id": place.id, "replyCount": 2}
            await expect_same(server, user, made, content="both", mentions=[{"id": place.first}], thread=thread)
    assert (made.copy["seq"], made.reply["seq"]) == (2, 2)
    row = api.database["messages"].find_one({"c": place.id, "s": 2})
    assert row is not None and row["ps"] == 2, "who may read the copy may read the reply"
    assert (await find_thread(api, place.first, place.id) or {})["replyCount"] == 2
    own = await api.own_session(place.second, place.conversation)
    assert (own["readSeq"], own["unreadCount"], own["writeSeq"]) == (2, 0, 2)
    session = await api.own_session(place.first, place.conversation)
    assert (session["unreadCount"], session["unreadMentionCount"]) == (before + 1, 0)
    mentions = (await attention(api, place.first))[1]
    assert mentions == 1, "the mention counts once"


@pytest.mark.parametrize("named", ["reply", "copy"])
@pytest.mark.parametrize("kind", PLACES)
async def test_an_edit_and_a_recall_of_either_change_both(api: Api, other_api: Api, kind: str, named: str) -> None:
    place = await make_thread(api, kind)
    made = await broadcast(api, place.second, place)
    message = {"reply": made.reply, "copy": made.copy}[named]
    edited = (await other_api.data(place.second, EDIT, id=message["id"], content="edited"))["editMessage"]
    assert (edited["id"], edited["seq"], edited["content"]) == (message["id"], message["seq"], "edited")
    for server in (api, other_api):
        await expect_same(server, place.first, made, content="edited", editCount=1)
    same = (await api.data(place.second, EDIT, id=message["id"], content="edited"))["editMessage"]
    assert (same["id"], same["editCount"]) == (message["id"], 1)
    recalled = (await api.data(place.second, RECALL, id=message["id"]))["recallMessage"]
    assert (recalled["id"], recalled["state"]) == (message["id"], "RECALLED")
    for server in (api, other_api):
        await expect_same(server, place.first, made, content=None, state="RECALLED", recalledBy={"id": place.second})
    again = (await api.data(place.second, RECALL, id=message["id"]))["recallMessage"]
    assert again == recalled
    found = await find_thread(api, place.first, place.id)
    assert found is not None and found["replyCount"] == 1


@pytest.mark.parametrize("kind", PLACES)
async def test_reactions_of_either_show_in_both(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    made = await broadcast(api, place.second, place)
    assert await react(api, place.first, made.copy["id"]) == [("👍", 1, True)]
    assert await react(other_api, place.second, made.reply["id"]) == [("👍", 2, True)]
    assert await react(api, place.second, made.copy["id"], "🎉") == [("👍", 2, True), ("🎉", 1, True)]
    for server in (api, other_api):
        await expect_same(server, place.first, made)
        for message in (made.reply, made.copy):
            assert await reactors_of(server, place.first, message["id"]) == [place.first, place.second]
    assert await take_back(api, place.second, made.copy["id"]) == [("👍", 1, False), ("🎉", 1, True)]
    assert await take_back(other_api, place.first, made.reply["id"]) == [("🎉", 1, False)]
    await expect_same(api, place.first, made)
    if kind == "channel":
        assert await clear(api, place.third, made.copy["id"]) == []
        await expect_same(api, place.second, made, reactions=[])
    assert api.database["reactions"].count_documents({"_id": {"$regex": f"^{place.conversation} "}}) == 0


async def test_who_reacted_is_known_beyond_the_summary(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.reactions.reaction_draft.MOST_KEYS", 0)
    users = await api.create_users(*(f"u{number}" for number in range(7)))
    group = await api.create_group(*users)
    parent = (await api.send(users[0], group, "parent"))["message"]
    sent = (await api.send(users[1], parent["id"], "both", broadcast=True))["message"]
    copy = (await api.history(users[1], group))[-1]
    for user in users:
        await react(api, user, sent["id"])
    found = await find(api, users[6], copy["id"])
    assert [(each["count"], each["viewerReacted"]) for each in found["reactions"]] == [(7, True)]


@pytest.mark.parametrize("kind", PLACES)
async def test_changes_are_told_in_both_places(api: Api, other_api: Api, kind: str) -> None:
    place = await make_thread(api, kind)
    since = await current_cursor(api, place.second)
    device = await other_api.listen(place.second, LIVE)
    looking = await other_api.subscribe(place.third, LOOK, channels=[{"id": place.conversation}, {"id": place.id}])
    made = await broadcast(api, place.second, place)
    await react(api, place.first, made.copy["id"])
    await api.edit(place.second, made.copy["id"], "edited")
    await api.recall(place.second, made.copy["id"])
    await api.wait_until_idle()
    expected = {
        (change, conversation)
        for change in ("CREATED", "UPDATED", "RECALLED", "REACTIONS")
        for conversation in (place.conversation, place.id)
    }
    seen: set[tuple[str, str]] = set()
    # In channels, those who look get the events; in other conversations, members and followers do.
    stream = looking if kind == "channel" else device
    while not expected <= seen:
        event = await stream.next()
        if "reactions" in event:
            assert [each["count"] for each in event["reactions"]] == [1]
            seen.add(("REACTIONS", event["conversationId"]))
        elif "message" in event:
            change = event.get("change") or event["__typename"].removeprefix("Message").upper()
            assert event["message"]["content"] in ({"CREATED": "both", "UPDATED": "edited", "RECALLED": None}[change],)
            seen.add((change, event["message"]["conversationId"]))
    if kind != "channel":
        missed = await api.subscribe(place.second, LIVE, since=since)
        recalled = set()
        while (event := await missed.next())["__typename"] != "CaughtUp":
            if event["__typename"] == "MessageRecalled":
                recalled.add(event["message"]["conversationId"])
        assert recalled == {place.conversation, place.id}


async def test_pins_are_separate_and_a_recall_ends_both(api: Api) -> None:
    place = await make_thread(api, "group")
    made = await broadcast(api, place.second, place)
    await pin(api, place.first, made.copy["id"])
    assert await pinned(api, place.first, place.conversation) == ["both"]
    assert await pinned(api, place.first, place.id) == []
    await pin(api, place.first, made.reply["id"])
    await api.recall(place.second, made.reply["id"])
    for conversation in (place.conversation, place.id):
        assert await pinned(api, place.first, conversation) == []
        row = api.database["conversations"].find_one({"_id": conversation})
        assert row is not None and row.get("pi") == [] and "pa" not in row


async def test_a_reply_to_the_copy_is_in_the_same_thread(api: Api) -> None:
    place = await make_thread(api, "group")
    made = await broadcast(api, place.second, place)
    sent = (await api.send(place.first, made.copy["id"], "me too"))["message"]
    assert (sent["conversationId"], sent["seq"]) == (place.id, 3)
    again = (await api.send(place.first, made.copy["id"], "and broadcast", broadcast=True))["message"]
    assert (again["conversationId"], again["seq"]) == (place.id, 4)
    assert len(await copies_of(api, place.first, place, again["id"])) == 1


async def test_a_first_reply_may_be_a_broadcast(api: Api) -> None:
    for kind in ("private", "group"):
        first, second, third = await api.create_users("anna", "ben", "carol")
        to = second if kind == "private" else await api.create_group(first, second, third)
        parent = (await api.send(first, to, "parent"))["message"]
        sent = await api.send(second, parent["id"], "both", broadcast=True)
        assert sent["session"]["conversation"]["id"] == sent["message"]["conversationId"]
        assert [each["content"] for each in await api.history(first, parent["conversationId"])] == ["parent", "both"]


async def test_broadcasts_at_once_have_one_copy_each(api: Api, other_api: Api) -> None:
    place = await make_thread(api, "group")
    servers = (api, other_api)
    users = (place.first, place.second, place.third)
    sent = await gather_all(
        *(
            servers[number % 2].send(user, place.parent["id"], f"{user} {number}", broadcast=True)
            for number in range(4)
            for user in users
        )
    )
    history = await api.history(place.first, place.conversation)
    assert sorted(each["content"] for each in history[1:]) == sorted(each["message"]["content"] for each in sent)
    assert [each["seq"] for each in history] == list(range(1, 14))


async def test_twins_of_an_edit_end_with_one_state(api: Api, other_api: Api) -> None:
    place = await make_thread(api, "group")
    made = await broadcast(api, place.second, place)
    await gather_all(
        *(
            server.edit(place.second, message["id"], f"text {number}")
            for number, server in enumerate((api, other_api) * 3)
            for message in (made.reply, made.copy)
        ),
        *(react(api, user, made.copy["id"]) for user in (place.first, place.second, place.third)),
    )
    await asyncio.gather(api.wait_until_idle(), other_api.wait_until_idle())
    for server in (api, other_api):
        await expect_same(server, place.first, made)
    await gather_all(*(server.recall(place.second, made.copy["id"]) for server in (api, other_api)))
    await expect_same(api, place.first, made, content=None)
