"""User ids with any printable characters: in private conversations, groups, cursors, keys and events."""

from __future__ import annotations

import pytest

from resolvers.users.callers import CallerRole
from store.base.ids import UserId
from store.redis.cache import Call
from tests.api.client import (
    LIVE_MESSAGES,
    LIVE_SESSIONS,
    SEND,
    SYNC,
    UPSERT_USERS,
    Api,
    Json,
    Refusal,
    make_caller,
    private_id,
)
from tests.api.conftest import Deployments
from tests.api.group_calls import roles_of
from tests.api.receipt_calls import Receipts
from tests.api.session_calls import MARK_READ, MUTE
from tests.user_ids import NAMES, NOT_USER_IDS, encoded

LONG = "\N{GRINNING FACE}" * 118
PAIRS = (
    ("auth0|7", "user_2N"),
    ("a/b", "}:meta"),
    ("$a.b", "back\\slash"),
    ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"),
    pytest.param(("{u}", '"quote'), marks=pytest.mark.long),
    pytest.param(("%41", "~x"), marks=pytest.mark.long),
    (f"{LONG}\N{GRINNING FACE}", f"{LONG}\N{FULLWIDTH LATIN SMALL LETTER A}"),
)
OBJECTS = """query ($conversation: ID!, $session: ID!, $message: ID!, $user: ID!) {
    conversation: node(id: $conversation) { id ... on PrivateConversation { peer { id } session { id } } }
    session: node(id: $session) { id ... on Session { conversation { id } } }
    message: node(id: $message) { id ... on Message { conversationId sender { id } } }
    user: node(id: $user) { id }
}"""
READ_ANYTHING = """query ($id: ID!, $session: ID!) {
    messages(conversationId: $id) { edges { cursor } } conversation(id: $id) { id } session(conversationId: $id) { id }
    node(id: $id) { id } own: node(id: $session) { id }
}"""
TYPE = "mutation ($id: ID!) { startTyping(conversationId: $id) }"
USER = "query ($id: ID!) { user(id: $id) { id } node(id: $id) { __typename id } }"
MEMBERS = """query ($id: ID!, $after: String) { group(id: $id) {
    members(first: 4, after: $after) { pageInfo { hasNextPage endCursor } edges { node { user { id } } } } } }"""


def short(value: object) -> str:
    """Return a name of a test."""
    return ascii(value)[:30]


def send_to(user: str, content: str = "hello", **more: object) -> Json:
    return {"toUserId": user, "content": content} | more


@pytest.mark.parametrize("names", PAIRS, ids=short)
async def test_a_private_conversation_works_with_unusual_user_ids(
    api: Api, other_api: Api, deployments: Deployments, names: tuple[str, str]
) -> None:
    ann, ben = await api.create_users(*names)
    conversation, inside = private_id(ann, ben), private_id(ann, ben, "shop")
    since = (await api.data(ann, SYNC))["syncSessions"]["cursor"]
    of_ann, of_ben = await api.listen(ann), await other_api.listen(ben)
    sessions_of_ben = await other_api.listen(ben, LIVE_SESSIONS)

    first = send_to(ben, mentions=[ben], idempotencyKey="key")
    sent = (await api.data(ann, SEND, input=first))["sendMessage"]
    message = sent["message"]
    assert message["conversationId"] == conversation
    assert sent["session"]["id"] == f"s_{encoded(ann)}_{conversation}"
    for device in (of_ann, of_ben):
        assert (await device.next())["message"]["id"] == message["id"]
    assert (await other_api.data(ann, SEND, input=first))["sendMessage"]["replayed"]

    session = f"s_{encoded(ben)}_{conversation}"
    ids = {"conversation": conversation, "session": session, "message": message["id"], "user": ann}
    assert await other_api.data(ben, OBJECTS, **ids) == {
        "conversation": {"id": conversation, "peer": {"id": ann}, "session": {"id": session}},
        "session": {"id": session, "conversation": {"id": conversation}},
        "message": {"id": message["id"], "conversationId": conversation, "sender": {"id": ann}},
        "user": {"id": ann},
    }

    await other_api.connect_device(ben)
    assert (await api.data(ann, TYPE, id=conversation))["startTyping"]
    assert (await of_ben.next())["user"] == {"id": ann}
    receipts = Receipts(api)
    assert [row["id"] for row in await receipts.offline(ben, 1)] == [message["id"]]
    assert (await other_api.ack(ben, conversation, 1))["deliveredSeq"] == 1
    assert (await of_ann.next())["status"] == "DELIVERED"
    assert (await other_api.mark_read(ben, conversation))["unreadCount"] == 0
    assert (await of_ann.next())["user"] == {"id": ben}
    assert [event["sessions"][0]["id"] for event in await sessions_of_ben.take(2)] == [session] * 2
    assert await receipts.statuses(ann, message, first=1) == {ben: "READ"}

    reply = await other_api.send(ben, conversation, "reply", replyToId=message["id"])
    assert (await of_ann.next())["message"]["replyTo"]["id"] == message["id"]
    assert (await api.edit(ann, message["id"], "better"))["content"] == "better"
    while (event := await of_ben.next())["__typename"] != "MessageUpdated":
        assert event["__typename"] in ("ReceiptAdvanced", "MessageCreated")
    assert event["message"]["content"] == "better"
    shop = (await api.data(ben, SEND, input=send_to(ann, subBiz="shop")))["sendMessage"]["message"]
    assert shop["conversationId"] == inside
    await api.assign(ann, "folder", conversation, inside)
    await api.pin(ann, conversation)
    await api.mute(ben, inside)

    assert [m["id"] for m in await other_api.history(ann, conversation, page=1)] == [
        message["id"], reply["message"]["id"],
    ]  # fmt: skip
    assert [s["conversation"]["id"] for s in await api.sessions(ann, page=1)] == [conversation, "b_shop"]
    listed = await api.sessions(ann, page=1, category="folder")
    assert [s["conversation"]["id"] for s in listed] == [conversation, inside]
    changed = (await other_api.data(ann, SYNC, since=since))["syncSessions"]
    assert {s["conversation"]["id"] for s in changed["sessions"]} == {conversation, inside, "b_shop"}
    resumed = await other_api.subscribe(ann, LIVE_MESSAGES, since=since)
    while (event := await resumed.next())["__typename"] != "CaughtUp":
        assert event.get("conversationId", event.get("message", {}).get("conversationId")) in (conversation, inside)
    assert not event["reset"]

    for process in (api, other_api):
        await process.wait_until_idle()
    of_ben.pop_events()
    await api.services.app.store.cache.one(Call("DEL", (api.services.app.store.keys.of_user(UserId(ben), "list"),)))
    # The script that finds the damaged state notifies the server with the device.
    await api.total_unread(ben)
    assert (await of_ben.next())["reset"]
    for user in (ann, ben):
        before = await api.all_sessions(user)
        deployments.evict_user_state("main", user)
        after = await other_api.all_sessions(user)
        for conversation, session in before.items():
            assert session.pop("activeTs") <= after[conversation].pop("activeTs")
        assert after == before


async def test_a_group_works_with_unusual_user_ids(api: Api, other_api: Api) -> None:
    users = await api.create_users(*NAMES)
    owner, second, third, *_ = users
    group = await api.create_group(*users)
    devices = [await (api, other_api)[number % 2].listen(user) for number, user in enumerate(users)]
    message = (await api.send(owner, group, mentions=[second, users[-1]]))["message"]
    for device in devices:
        assert (await device.next())["message"]["mentions"] == [{"id": second}, {"id": users[-1]}]
    for user in users[1:]:
        assert (await other_api.mark_read(user, group))["readSeq"] == 1
    receipts, status = Receipts(other_api), dict.fromkeys(sorted(users[1:]), "READ")
    assert await receipts.statuses(owner, message) == status
    page = await receipts.page(owner, message, first=3)
    assert page is not None
    rest = await receipts.rows(owner, message, after=page["pageInfo"]["endCursor"])
    assert [row["user"]["id"] for row in rest] == list(status)[3:]

    found: list[str] = []
    after = None
    while True:
        members = (await other_api.data(owner, MEMBERS, id=group, after=after))["group"]["members"]
        found += [edge["node"]["user"]["id"] for edge in members["edges"]]
        after = members["pageInfo"]["endCursor"]
        if not members["pageInfo"]["hasNextPage"]:
            break
    assert found == sorted(users)

    await api.set_role(owner, group, third, "ADMIN")
    await api.transfer(owner, group, second)
    assert set(roles_of(await api.remove(second, group, users[-1]))) == set(users[:-1])
    roles = await other_api.roles(second, group)
    assert (roles[second], roles[third], roles[owner]) == ("OWNER", "ADMIN", "MEMBER")


async def test_users_whose_encoded_ids_are_alike_do_not_read_each_others_messages(api: Api) -> None:
    """Without encoding, two pairs of these users would share a conversation."""
    zed, a_b, a, b_c, c, escaped = await api.create_users("zed", "a_b", "a", "b_c", "c", "a%5Fb")
    tag = zed.removeprefix("zed")
    tilde, shop = f"y{tag}~shop", f"y{tag}"
    await api.upsert_users(*({"id": user, "displayName": "?"} for user in (tilde, shop)))
    owners = {
        (await api.data(one, SEND, input=send_to(other)))["sendMessage"]["message"]["conversationId"]: {one, other}
        for one, other in ((a_b, c), (a, b_c), (zed, a_b), (zed, escaped), (tilde, a), (shop, a))
    }
    owners[(await api.send(shop, a, subBiz="shop"))["message"]["conversationId"]] = {shop, a}
    assert len(owners) == 7
    users = {user for people in owners.values() for user in people}
    for user in users:
        await api.all_sessions(user)
    before = await api.stored_hashes()
    for conversation, people in owners.items():
        for user in users - people:
            session = f"s_{encoded(user)}_{conversation}"
            nothing = dict.fromkeys(("messages", "conversation", "session", "node", "own"))
            assert await api.data(user, READ_ANYTHING, id=conversation, session=session) == nothing
            assert await api.expect_send_refusal(user, conversation) == Refusal("NOT_FOUND", "conversationId")
            for mutation, more in ((MARK_READ, {}), (MUTE, {"muted": True}), (TYPE, {})):
                refusal = await api.expect_refusal(user, mutation, id=conversation, **more)
                assert refusal == Refusal("NOT_FOUND", "conversationId")
    assert await api.stored_hashes() == before


@pytest.mark.parametrize("user", ["g_1", "g_x", "p_a_b", "m_5", "b_shop", "s_a_g_1", "%", "_", "~"], ids=ascii)
async def test_a_user_id_in_the_form_of_another_id_names_the_user(api: Api, user: str) -> None:
    await api.upsert_users({"id": user, "displayName": "?"})
    assert await api.data(user, USER, id=user) == {"user": {"id": user}, "node": {"__typename": "User", "id": user}}


async def test_every_printable_character_may_be_in_a_user_id(api: Api) -> None:
    together, longest = "".join(map(chr, range(33, 127))), "\N{GRINNING FACE}" * 128
    ids = [*together, together, "x" * 128, longest]
    service = make_caller("service", CallerRole.SERVICE)
    made = await api.data(service, UPSERT_USERS, input=[{"id": user, "displayName": "?"} for user in ids])
    assert [user["id"] for user in made["upsertUsers"]] == ids
    for user in ("%", together, longest):
        message = (await api.data("sender", SEND, input=send_to(user)))["sendMessage"]["message"]
        assert message["conversationId"] == private_id("sender", user)
        assert await api.total_unread(user) == 1


@pytest.mark.parametrize("text", NOT_USER_IDS, ids=short)
async def test_texts_in_other_forms_are_no_user_ids(api: Api, text: str) -> None:
    await api.data("sender", "{ me { id } }")
    before = await api.stored_hashes()
    assert await api.data("sender", USER, id=text) == {"user": None, "node": None}
    assert await api.expect_refusal("sender", SEND, input=send_to(text)) == Refusal("NOT_FOUND", "toUserId")
    for conversation in (f"p_-_{text}", f"p_-_{encoded(text.encode('utf-8', 'replace').decode())}"):
        assert await api.data("sender", READ_ANYTHING, id=conversation, session=f"s_{text}_g_1") == dict.fromkeys(
            ("messages", "conversation", "session", "node", "own")
        )
        assert (await api.expect_send_refusal("sender", conversation)).code == "NOT_FOUND"
    assert await api.stored_hashes() == before
