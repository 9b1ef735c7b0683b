"""The demo data in an empty database."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from resolvers.users.callers import Caller, CallerRole
from server.demo.seed import seed_demo
from server.services import open_services
from server.settings import Settings
from store.base.ids import UserId
from store.deployment.chat_imports import IMPORTS
from store.messages.outbox.outbox_store import OutboxStore
from store.mongo.client import Mongo
from store.mongo.collections import BANS, CLAIMS
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest

LIST = """{
  me { displayName }
  totalUnread
  sessions {
    edges { node {
      unreadCount unreadMentionCount unreadStatus muteStatus priority categoryId writeTs writeSeq
      conversation { id title type ... on Group { historyVisibility } }
      lastMessage { delivery { status } sender { isBot } }
    } }
  }
}"""

CONVERSATIONS = """{
  carol: messages(conversationId: "p_alice_carol", last: 3) { edges { node { delivery { status } } } }
  bob: messages(conversationId: "p_alice_bob", last: 100) { edges { node { id } } }
  shop: sessions(subBiz: "shop", first: 1) { edges { node { subBiz } } }
  groups: myGroups { edges { node { title lastMessage { state sender { displayName } } } } }
}"""


async def ask(settings: Settings, user: str, query: str, variables: dict[str, Any] | None = None) -> Any:
    """Return the data of a user's query."""
    async with open_services(settings) as services:
        caller = Caller(UserId(user), CallerRole.USER, time.time() + 60)
        await services.sign_in(caller)
        request = GraphQLRequest(query, variables)
        answer = await services.engine.execute(
            await services.engine.prepare(request, caller), request, ConnectionContext(caller, "test")
        )
    assert "errors" not in answer, answer
    return answer["data"]


@pytest.fixture(scope="module")
async def seeded(module_settings: Settings) -> Settings:
    """Settings of a database with the demo."""
    assert await seed_demo(module_settings)
    return module_settings


async def test_demo_list_of_alice_shows_every_feature(seeded: Settings) -> None:
    alice = await ask(seeded, "alice", LIST)
    assert alice["me"]["displayName"] == "Alice Archer"
    all_sessions = [edge["node"] for edge in alice["sessions"]["edges"]]
    (threads,) = (session for session in all_sessions if session["conversation"]["id"] == "b_@threads")
    # Its place depends on which conversation was completed first.
    sessions = [session for session in all_sessions if session is not threads]
    titles = [session["conversation"]["title"] for session in sessions]
    assert titles == [
        "Bob Baker",
        "Erin Archer",
        "Weekend hike",
        "Office",
        "Carol Cook",
        "Book club",
        "Dave Dyer",
        "shop",
        "Trail Bot",
    ]
    bob, erin, hike, office, carol, books, dave, shop, bot = sessions
    assert (bob["priority"], bob["unreadCount"], bob["conversation"]["id"]) == (1, 3, "p_alice_bob")
    assert (erin["unreadStatus"], erin["unreadCount"]) == (True, 0)
    assert (hike["unreadCount"], hike["unreadMentionCount"]) == (4, 1)
    assert [session["categoryId"] for session in (erin, office, dave)] == ["family", "work", "work"]
    assert carol["lastMessage"]["delivery"] == {"status": "SENT"}
    assert (books["muteStatus"], books["unreadCount"], books["conversation"]["historyVisibility"]) == (True, 7, "FULL")
    assert (threads["conversation"]["type"], threads["unreadCount"]) == ("SUB_BIZ", 5)
    assert (shop["conversation"]["type"], shop["unreadCount"]) == ("SUB_BIZ", 2)
    assert bot["lastMessage"]["sender"] == {"isBot": True}
    counted = [session["unreadCount"] for session in all_sessions if not session["muteStatus"]]
    assert alice["totalUnread"] == sum(counted)
    # There are days between the first and the last message, and none is in the future.
    times = [session["writeTs"] for session in sessions]
    now = time.time() * 1000
    assert now - 30 * 3_600_000 < min(times) < now - 24 * 3_600_000
    assert max(times) < now


async def test_demo_conversations_show_every_message_state(seeded: Settings) -> None:
    alice = await ask(seeded, "alice", CONVERSATIONS)
    ticks = [edge["node"]["delivery"]["status"] for edge in alice["carol"]["edges"]]
    assert ticks == ["READ", "DELIVERED", "SENT"]
    assert len(alice["bob"]["edges"]) > 80
    assert alice["shop"]["edges"][0]["node"]["subBiz"] == "shop"
    last = {edge["node"]["title"]: edge["node"]["lastMessage"] for edge in alice["groups"]["edges"]}
    assert last["Weekend hike"]["sender"]["displayName"] == "Bob Baker"
    assert last["Book club"]["state"] == "RECALLED"


async def test_second_seeding_changes_nothing(seeded: Settings) -> None:
    before = [await ask(seeded, user, LIST) for user in ("alice", "bob", "carol")]
    assert not await seed_demo(seeded)
    assert [await ask(seeded, user, LIST) for user in ("alice", "bob", "carol")] == before


async def test_demo_is_not_created_if_there_are_users(settings: Settings) -> None:
    await ask(settings, "zoe", "{ me { id } }")
    assert not await seed_demo(settings)
    assert await ask(settings, "zoe", '{ user(id: "alice") { id } }') == {"user": None}


WORKSPACE = """{ myWorkspaces { edges { node {
    name memberCount isOpen roles { name color } categories { name } members { edges { node { user { id } } } }
    channels(first: 20) { edges { node { name kind isArchived isDefault messageCount memberCount
        lastMessage { authorName sender { isBot } embeds { title } } } } } } } } }"""


async def test_demo_has_a_workspace_with_channels_and_roles(seeded: Settings) -> None:
    seen = {user: (await ask(seeded, user, WORKSPACE))["myWorkspaces"]["edges"][0]["node"] for user in ("bob", "dave")}
    bob, dave = seen["bob"], seen["dave"]
    assert (bob["name"], bob["memberCount"], bob["isOpen"]) == ("Lakeside Hikers", 7, True)
    assert [role["name"] for role in bob["roles"]] == ["Organiser", "Guide", "everyone"]
    assert [category["name"] for category in bob["categories"]] == ["Trips"]
    channels = {edge["node"]["name"]: edge["node"] for edge in bob["channels"]["edges"]}
    assert {name: channel["messageCount"] for name, channel in channels.items()} == {
        "general": 8, "lake": 6, "planning": 3, "old-routes": 2, "Campfire": 0, "Summit": 0,
    }  # fmt: skip
    report = channels["lake"]["lastMessage"]
    assert (report["authorName"], report["sender"]["isBot"], len(report["embeds"])) == ("Lake Station", True, 1)
    assert [channels[name]["kind"] for name in ("Campfire", "Summit")] == ["VOICE", "VOICE"]
    assert channels["general"]["isDefault"] and channels["old-routes"]["isArchived"]
    assert channels["general"]["memberCount"] == bob["memberCount"]
    assert channels["planning"]["kind"] == "PRIVATE"
    assert channels.keys() - {edge["node"]["name"] for edge in dave["channels"]["edges"]} == {"planning"}


THREADS = """{ sessions(subBiz: "@threads") { edges { node { unreadCount unreadMentionCount conversation {
    title ... on Thread { replyCount participantCount isLocked parent { conversationId } } } } } } }"""


async def test_demo_has_threads_in_channels_and_in_a_group(seeded: Settings) -> None:
    sessions = [edge["node"] for edge in (await ask(seeded, "alice", THREADS))["sessions"]["edges"]]
    shown = {}
    for session in sessions:
        thread = session["conversation"]
        kind = thread["parent"]["conversationId"][0]
        counts = (thread["replyCount"], thread["participantCount"])
        shown[thread["title"]] = (kind, *counts, session["unreadCount"], session["unreadMentionCount"])
    assert shown == {
        "Whose red boots are these, in front of the station?": ("c", 3, 3, 2, 1),
        "I have the sandwiches. Pickle first, as ordered.": ("g", 4, 3, 0, 0),
        "The 8:12 from platform 3, on Saturday.": ("c", 5, 4, 3, 0),
    }


MODERATION = """query($id: ID!) {
    reports(workspaceId: $id) { edges { node { state action reason user { displayName } reporter { id } } } }
    bans(workspaceId: $id) { edges { node { user { displayName } by { id } reason until } } }
    auditLog(workspaceId: $id, first: 100) { edges { node { action actor { id } targetId } } } }"""


async def moderation_of(settings: Settings) -> dict[str, list[Any]]:
    """Return what the demo's moderation page shows: nodes by list."""
    found = await ask(settings, "alice", "{ myWorkspaces { edges { node { id } } } }")
    workspace = found["myWorkspaces"]["edges"][0]["node"]["id"]
    shown = await ask(settings, "alice", MODERATION, {"id": workspace})
    return {name: [edge["node"] for edge in shown[name]["edges"]] for name in shown}


async def test_demo_has_something_to_moderate(seeded: Settings) -> None:
    shown = await moderation_of(seeded)
    assert [
        (each["state"], each["action"], each["reason"], each["user"]["displayName"], each["reporter"]["id"])
        for each in shown["reports"]
    ] == [
        ("OPEN", None, "SPAM", "Lucky Lottery", "erin"),
        ("OPEN", None, "OTHER", "Bob Baker", "dave"),
        ("RESOLVED", "RECALL", "SPAM", "Boat Bargains", "erin"),
    ]
    (ban,) = shown["bans"]
    assert (ban["user"]["displayName"], ban["by"]["id"], ban["until"]) == ("Boat Bargains", "carol", None)
    assert ban["reason"]
    about_spammer = [(each["action"], each["actor"]["id"]) for each in shown["auditLog"] if each["targetId"] == "boats"]
    assert about_spammer == [
        ("banUser", "carol"),
        ("resolveReport", "carol"),
        ("recallMessages", "carol"),
        ("joinWorkspace", "boats"),
    ]


@pytest.mark.parametrize("is_banned", [True, False])
async def test_moderation_of_the_demo_may_be_repeated(settings: Settings, is_banned: bool) -> None:
    assert await seed_demo(settings)
    before = await moderation_of(settings)
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    await mongo.update_one(IMPORTS, {"_id": "demo"}, {"$set": {"done": False}})
    if not is_banned:
        await mongo.delete_one(BANS, {})
    await mongo.close()
    assert await seed_demo(settings)
    after = await moderation_of(settings)
    assert (after["reports"], after["bans"]) == (before["reports"], before["bans"])
    assert (after["auditLog"] == before["auditLog"]) is is_banned


async def test_interrupted_demo_is_completed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    # Unfinished deliveries are taken over sooner than usual.
    monkeypatch.setattr("subscriptions.delivery.housekeeping.TAKEOVER_MS", 300)
    monkeypatch.setattr("subscriptions.delivery.housekeeping._SLICES", 1)
    with monkeypatch.context() as patch:
        patch.setattr(OutboxStore, "reserve", _stopping_at(40, OutboxStore.reserve))
        with pytest.raises(Stopped):
            await seed_demo(settings)
    # Idempotency keys have expired, because the messages are days old.
    settings = settings.model_copy(update={"redis_prefix": f"{settings.redis_prefix}lost."})
    mongo = Mongo(settings.mongo_url, settings.mongo_database, settings.mongo_driver)
    while await mongo.delete_one(CLAIMS, {}):
        pass
    await mongo.close()
    assert await seed_demo(settings)
    alice = await ask(settings, "alice", LIST)
    titles = {edge["node"]["conversation"]["title"]: edge["node"] for edge in alice["sessions"]["edges"]}
    assert len(titles) == 10
    assert titles["@threads"]["unreadCount"] == 5
    assert [(titles[title]["writeSeq"], titles[title]["unreadCount"]) for title in ("Bob Baker", "Carol Cook")] == [
        (84, 3),
        (6, 0),
    ]


class Stopped(BaseException):
    """Raised to simulate the end of the process."""


def _stopping_at(number: int, reserve: Callable[..., Any]) -> Callable[..., Any]:
    """Simulate that the process ends after it has reserved some messages."""
    count = 0

    async def stopping(*args: Any, **options: Any) -> Any:
        nonlocal count
        place = await reserve(*args, **options)
        count += 1
        if count >= number:
            raise Stopped
        return place

    return stopping
