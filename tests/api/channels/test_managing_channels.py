"""Channels are created, changed, archived and deleted by those who may manage them."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.workspace_ids import category_id, workspace_id
from store.channels.channel_removal import DELAY_MS
from tests.api.channels.calls import (
    ARCHIVE,
    CREATE,
    CREATE_CATEGORY,
    DELETE,
    DELETE_CATEGORY,
    LIST,
    UPDATE,
    UPDATE_CATEGORY,
    Made,
)
from tests.api.channels.session_calls import FOLLOW
from tests.api.client import LIVE_SESSIONS, Api, Json, Refusal, gather_all
from tests.api.reactions.calls import react
from tests.api.workspaces import role_calls

SESSION_OF = "query ($id: ID!) { session(conversationId: $id) { unreadCount } }"


async def test_a_new_channel_is_there_for_all_members(api: Api, other_api: Api, made: Made) -> None:
    await made.create("first")
    channel = await made.create(
        "general", topic="everything", slowModeSeconds=5, metadata={"a": 1}, isDefault=True, historyVisibility="FULL"
    )
    assert channel | {"id": None, "category": None} == {
        "id": None, "type": "CHANNEL", "title": "general", "kind": "PUBLIC", "name": "general", "topic": "everything",
        "metadata": {"a": 1}, "position": 1, "isArchived": False, "isDefault": True, "inheritsPermissions": True,
        "historyVisibility": "FULL", "slowModeSeconds": 5, "viewerMayWriteAt": None, "messageCount": 0,
        "workspace": {"id": made.id}, "category": None, "lastMessage": None,
    }  # fmt: skip
    for process in (api, other_api):
        await process.send(made.member, channel["id"]) if process is api else None
        assert await process.history(made.member, channel["id"])
    assert await made.find(made.outsider, channel["id"]) is None
    found = await made.find(made.member, channel["id"])
    assert found is not None and found["messageCount"] == 1
    assert await made.names(made.member) == ["first", "general"]


async def test_the_same_key_answers_the_first_channel(api: Api, made: Made) -> None:
    first = await made.create("a", idempotencyKey="k")
    before = await api.stored_hashes()
    assert (await made.create("b", idempotencyKey="k")) == first
    assert await api.stored_hashes() == before
    at_once = await gather_all(*(made.create("c", idempotencyKey="other") for _ in range(4)))
    assert len({channel["id"] for channel in at_once}) == 1
    assert await made.names(made.owner) == ["a", "c"]


async def test_a_private_channel_exists_for_its_members_only(api: Api, made: Made) -> None:
    secret = await made.create("secret", kind="PRIVATE")
    shared = await made.create("shared", kind="PRIVATE", memberIds=[made.member])
    await api.send(made.owner, secret["id"])
    assert await made.find(made.member, secret["id"]) is None
    assert await made.names(made.member) == ["shared"]
    assert await made.names(made.owner) == ["secret", "shared"]
    await api.send(made.member, shared["id"])
    assert await made.find(made.owner, shared["id"]) is not None


INVALID_CHANNELS: list[tuple[dict[str, Any], str, str]] = [
    ({"name": ""}, "INVALID_INPUT", "name"),
    ({"name": "x" * 81}, "INVALID_INPUT", "name"),
    ({"topic": "x" * 1025}, "INVALID_INPUT", "topic"),
    ({"position": -1}, "INVALID_INPUT", "position"),
    ({"slowModeSeconds": -1}, "INVALID_INPUT", "slowModeSeconds"),
    ({"slowModeSeconds": 21601}, "INVALID_INPUT", "slowModeSeconds"),
    ({"categoryId": "k_1.1"}, "NOT_FOUND", "categoryId"),
    ({"categoryId": "nonsense"}, "NOT_FOUND", "categoryId"),
    ({"memberIds": ["nobody"]}, "NOT_A_MEMBER", "memberIds"),
    ({"memberIds": ["@outsider"]}, "NOT_A_MEMBER", "memberIds"),
    ({"kind": "PRIVATE", "isDefault": True}, "INVALID_INPUT", "isDefault"),
    ({"metadata": {"a": "x" * 9000}}, "INVALID_INPUT", "metadata"),
    ({"workspaceId": "w_1"}, "NOT_FOUND", "workspaceId"),
    ({"workspaceId": "nonsense"}, "NOT_FOUND", "workspaceId"),
    ({"idempotencyKey": ""}, "INVALID_INPUT", "idempotencyKey"),
]


async def test_invalid_input_creates_no_channel(api: Api, made: Made) -> None:
    before = await api.stored_hashes()
    for invalid, code, field in INVALID_CHANNELS:
        fields = {name: [made.outsider] if value == ["@outsider"] else value for name, value in invalid.items()}
        assert await made.refuse_create(made.owner, **fields) == Refusal(code, field), invalid
    assert await api.stored_hashes() == before


async def test_only_those_who_may_manage_channels_change_them(api: Api, made: Made) -> None:
    channel = await made.create()
    secret = await made.create("secret", kind="PRIVATE")
    category = await made.create_category("trails")
    calls: list[tuple[str, dict[str, Any]]] = [
        (UPDATE, {"id": channel["id"], "input": {"name": "mine"}}),
        (ARCHIVE, {"id": channel["id"]}),
        (DELETE, {"id": channel["id"]}),
        (CREATE_CATEGORY, {"id": made.id, "name": "mine"}),
        (UPDATE_CATEGORY, {"id": category["id"], "name": "mine"}),
        (DELETE_CATEGORY, {"id": category["id"]}),
    ]
    before = await api.stored_hashes()
    assert (await made.refuse_create(made.member)).code == "FORBIDDEN"
    assert (await made.refuse_create(made.outsider)) == Refusal("NOT_FOUND", "workspaceId")
    for document, variables in calls:
        assert (await api.expect_refusal(made.member, document, **variables)).code == "FORBIDDEN"
        assert (await api.expect_refusal(made.outsider, document, **variables)).code == "NOT_FOUND"
    for document, variables in calls[:3]:
        for id in (secret["id"], "c_1.1", "nonsense", made.id, category["id"]):
            refusal = await api.expect_refusal(made.member, document, **(variables | {"id": id}))
            assert refusal == Refusal("NOT_FOUND", "channelId")
    assert await api.stored_hashes() == before


@pytest.mark.parametrize("kind", ["PUBLIC", "PRIVATE"])
async def test_nobody_creates_a_channel_that_they_could_not_see(api: Api, made: Made, kind: str) -> None:
    role = await role_calls.create_role(api, made.owner, made.id, "builder", "MANAGE_CHANNELS")
    await role_calls.set_roles(api, made.owner, made.id, made.member, role)
    category = (await made.create_category("hidden"))["id"]
    await role_calls.overwrite(api, made.owner, category=category, role=role, deny=["VIEW_CHANNEL"])
    before = await api.stored_hashes()
    refusal = await made.refuse_create(made.member, kind=kind, categoryId=category)
    assert refusal.code == "FORBIDDEN"
    assert await api.stored_hashes() == before
    created = {"workspaceId": made.id, "name": "open", "kind": kind}
    assert (await api.data(made.member, CREATE, input=created))["createChannel"]["name"] == "open"


async def test_a_new_name_and_topic_are_announced(api: Api, made: Made) -> None:
    channel = await made.create("old")
    changed = await made.update(channel["id"], name="new", topic="walks")
    assert (changed["name"], changed["topic"]) == ("new", "walks")
    events = [message["systemEvent"] for message in await api.history(made.member, channel["id"])]
    assert [(event["kind"], event["text"], event["actor"]["id"]) for event in events] == [
        ("RENAMED", "new", made.owner),
        ("TOPIC_CHANGED", "walks", made.owner),
    ]
    before = await api.stored_documents()
    await made.update(channel["id"], name="new", topic="walks", position=0, slowModeSeconds=0, isDefault=False)
    assert await api.stored_documents() == before
    await made.update(channel["id"], topic=None, slowModeSeconds=7)
    assert [m["systemEvent"]["kind"] for m in await api.history(made.member, channel["id"])][2:] == ["TOPIC_CHANGED"]
    assert all("an" not in row for row in (await api.stored_documents())["channels"].values())
    found = await made.find(made.member, channel["id"])
    assert found is not None and (found["topic"], found["slowModeSeconds"]) == (None, 7)


async def test_an_announcement_that_a_dead_server_left_is_sent_once(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = await made.create("old")
    changes = api.services.app.store.policy_changes
    with monkeypatch.context() as patch:
        patch.setattr(changes.completions, "complete", _dies)
        response = await api.run(made.owner, UPDATE, id=channel["id"], input={"name": "new"})
        assert response["errors"]
    assert not await api.history(made.member, channel["id"])
    changes.completions.incomplete.add(made.id)  # type: ignore[arg-type]
    await changes.complete_incomplete()
    await changes.complete_incomplete()
    (message,) = await api.history(made.member, channel["id"])
    assert message["systemEvent"]["kind"] == "RENAMED"


async def _dies(*_: object) -> None:
    raise RuntimeError("the server died")


async def test_nobody_writes_in_an_archived_channel(api: Api, made: Made) -> None:
    channel = await made.create()
    own = (await api.send(made.member, channel["id"]))["message"]["id"]
    other = (await api.send(made.member, channel["id"]))["message"]["id"]
    assert (await made.archive(channel["id"]))["isArchived"]
    assert (await api.expect_send_refusal(made.member, channel["id"])).code == "ARCHIVED"
    edit = 'mutation ($id: ID!) { editMessage(messageId: $id, content: "new") { id } }'
    assert (await api.expect_refusal(made.member, edit, id=own)).code == "ARCHIVED"
    for typing in ("startTyping", "stopTyping"):
        query = f"mutation ($id: ID!) {{ {typing}(conversationId: $id) }}"
        assert (await api.expect_refusal(made.member, query, id=channel["id"])).code == "ARCHIVED"
    await api.recall(made.member, own)
    await api.recall(made.owner, other)
    history = await api.history(made.member, channel["id"])
    assert [m["state"] for m in history] == ["RECALLED", "RECALLED", "NORMAL"]
    assert history[-1]["systemEvent"]["kind"] == "CHANNEL_ARCHIVED"
    assert not (await made.archive(channel["id"], archived=False))["isArchived"]
    await api.send(made.member, channel["id"])


async def test_a_deleted_channel_is_gone_at_once_and_its_rows_later(api: Api, other_api: Api, made: Made) -> None:
    channel = await made.create(memberIds=[made.member])
    message = (await api.send(made.member, channel["id"]))["message"]["id"]
    await other_api.send(made.member, channel["id"])
    await react(api, made.member, message)
    assert (await api.data(made.owner, DELETE, id=channel["id"]))["deleteChannel"]
    for process in (api, other_api):
        assert (await process.expect_send_refusal(made.member, channel["id"])) == Refusal("NOT_FOUND", "conversationId")
        found = await process.data(
            made.member,
            "query ($id: ID!, $m: ID!) { channel(id: $id) { id } node(id: $id) { id } message(id: $m) { id }"
            " messages(conversationId: $id) { edges { cursor } } }",
            id=channel["id"],
            m=message,
        )
        assert set(found.values()) == {None}
    assert (await api.expect_refusal(made.owner, DELETE, id=channel["id"])).code == "NOT_FOUND"
    removal = api.services.app.store.channel_removal
    assert await removal.remove_due() == 0
    await api.services.app.store.mongo.update_one(
        "removals", {"_id": channel["id"]}, {"$set": {"at": api.services.app.store.clock.now_ms() - DELAY_MS}}
    )
    assert await removal.remove_due() == 1
    documents = await api.stored_documents()
    # The audit log says that there was a channel.
    del documents["audit"]
    rows = [id for name, found in documents.items() for id, row in found.items() if channel["id"] in f"{id} {row}"]
    assert rows == []


async def test_other_positions_shift_when_a_channel_moves(api: Api, made: Made) -> None:
    for name in ("a", "b", "c"):
        await made.create(name)
    await made.create("first", position=0)
    assert await made.names(made.member) == ["first", "a", "b", "c"]
    (c,) = [row["_id"].split()[1] for row in api.database["channels"].find({"name": "c"}) if made.id in row["_id"]]
    assert (await made.update(c, position=1))["position"] == 1
    assert await made.names(made.member) == ["first", "c", "a", "b"]
    assert (await made.update(c, position=99))["position"] == 3
    assert await made.names(made.member) == ["first", "a", "b", "c"]


async def test_categories_group_channels(api: Api, made: Made) -> None:
    late, early = await made.create_category("late"), await made.create_category("early", position=0)
    for name, category in (("x", late), ("y", early), ("z", None)):
        await made.create(name, categoryId=category["id"] if category else None)
    assert await made.names(made.member) == ["z", "y", "x"]
    listed = (await api.data(made.member, LIST, id=made.id))["workspace"]
    assert [(each["name"], each["position"]) for each in listed["categories"]] == [("early", 0), ("late", 1)]
    moved = (await api.data(made.owner, UPDATE_CATEGORY, id=late["id"], name="now first", position=0))["updateCategory"]
    assert (moved["name"], moved["position"]) == ("now first", 0)
    assert await made.names(made.member) == ["z", "x", "y"]
    (await api.data(made.owner, DELETE_CATEGORY, id=late["id"]))
    assert await made.names(made.member) == ["z", "x", "y"]
    listed = (await api.data(made.member, LIST, id=made.id))["workspace"]
    assert [edge["node"]["category"] for edge in listed["channels"]["edges"]] == [None, None, {"name": "early"}]
    foreign = category_id(workspace_id(5), 6)
    for id in (late["id"], foreign, "nonsense", made.id):
        refusal = await api.expect_refusal(made.owner, UPDATE_CATEGORY, id=id, name="x")
        assert refusal == Refusal("NOT_FOUND", "categoryId")


async def test_channels_are_listed_in_pages(api: Api, made: Made) -> None:
    for name in ("a", "b", "c"):
        await made.create(name)
    first = (await api.data(made.member, LIST, id=made.id, first=2))["workspace"]["channels"]
    assert [edge["node"]["name"] for edge in first["edges"]] == ["a", "b"] and first["pageInfo"]["hasNextPage"]
    after = first["pageInfo"]["endCursor"]
    rest = (await api.data(made.member, LIST, id=made.id, first=2, after=after))["workspace"]["channels"]
    assert [edge["node"]["name"] for edge in rest["edges"]] == ["c"] and not rest["pageInfo"]["hasNextPage"]
    for wrong in ({"first": 0}, {"first": 101}, {"after": "x"}):
        assert (await api.expect_refusal(made.member, LIST, id=made.id, **wrong)).code == "INVALID_INPUT"


async def test_followers_of_a_public_channel_become_members_of_a_private_one(api: Api, made: Made) -> None:
    channel = await made.create(memberIds=[made.member])
    other = await made.create("other")
    assert (await made.update(channel["id"], kind="PRIVATE"))["kind"] == "PRIVATE"
    await api.send(made.member, channel["id"])
    await made.update(other["id"], kind="PRIVATE")
    assert (await api.expect_send_refusal(made.member, other["id"])).code == "NOT_FOUND"
    await made.update(other["id"], kind="PUBLIC")
    await api.send(made.member, other["id"])
    refusal = await api.expect_refusal(made.owner, UPDATE, id=other["id"], input={"kind": "VOICE"})
    assert refusal == Refusal("INVALID_INPUT", "kind")


async def test_limits_of_channels_and_categories(api: Api, made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resolvers.workspaces.channel_creation.MAX_CHANNELS", 2)
    monkeypatch.setattr("resolvers.workspaces.categories.MAX_CATEGORIES", 1)
    await made.create("a")
    await made.create("b")
    await made.create_category("c")
    before = await api.stored_hashes()
    assert (await made.refuse_create(made.owner, "c")).code == "LIMIT_REACHED"
    assert (await api.expect_refusal(made.owner, CREATE_CATEGORY, id=made.id, name="d")).code == "LIMIT_REACHED"
    assert await api.stored_hashes() == before


async def test_the_creator_and_the_given_members_follow_a_new_channel(api: Api, other_api: Api, made: Made) -> None:
    await other_api.sessions(made.member)
    device = await other_api.listen(made.member, LIVE_SESSIONS)
    channel = await made.create(memberIds=[made.member])
    event = await device.next()
    assert (event["reason"], [s["conversation"]["id"] for s in event["sessions"]]) == ("MEMBERSHIP", [channel["id"]])
    for user in (made.owner, made.member):
        session = await api.data(user, SESSION_OF, id=channel["id"])
        assert session["session"] is not None and session["session"]["unreadCount"] == 0
    documents = await api.stored_documents()
    assert all("nf" not in row for row in documents["channels"].values())
    assert documents["sessions"][f"{made.member} {channel['id']}"]["fw"] == 1


async def test_followers_that_a_dead_server_left_are_notified(
    api: Api, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api.sessions(made.member)
    device = await api.listen(made.member, LIVE_SESSIONS)
    changes = api.services.app.store.policy_changes
    with monkeypatch.context() as patch:
        patch.setattr(changes.completions, "complete", _dies)
        new = {"workspaceId": made.id, "name": "new", "memberIds": [made.member]}
        assert (await api.run(made.owner, CREATE, input=new))["errors"]
    await device.expect_no_event()
    changes.completions.incomplete.add(made.id)  # type: ignore[arg-type]
    await changes.complete_incomplete()
    assert (await device.next())["reason"] == "MEMBERSHIP"


async def test_memberships_are_read_again_when_a_channel_becomes_private_again(api: Api, made: Made) -> None:
    channel = (await made.create(kind="PRIVATE", memberIds=[made.member]))["id"]
    await api.send(made.member, channel)
    await made.update(channel, kind="PUBLIC")
    # The member stops following, which changes no rights in a PUBLIC channel.
    row = {"_id": f"{channel} {made.member}"}
    await api.services.app.store.mongo.update_one("members", row, {"$set": {"i": [[1, 1]]}})
    await made.update(channel, kind="PRIVATE")
    assert (await api.expect_send_refusal(made.member, channel)).code == "NOT_FOUND"


async def test_a_channel_is_deleted_by_its_own_mutation_only(api: Api, made: Made) -> None:
    channels = [(await made.create(kind=kind))["id"] for kind in ("PUBLIC", "PRIVATE")]
    delete = "mutation ($id: ID!) { deleteConversation(conversationId: $id) }"
    stored = await api.stored_hashes()
    for user, codes in ((made.member, ("INVALID_INPUT", "NOT_FOUND")), (made.outsider, ("NOT_FOUND", "NOT_FOUND"))):
        for channel, code in zip(channels, codes, strict=True):
            assert await api.expect_refusal(user, delete, id=channel) == Refusal(code, "conversationId")
    assert await api.stored_hashes() == stored


async def test_a_refused_name_is_answered_with_the_limit(api: Api, made: Made) -> None:
    nickname = "mutation ($id: ID!, $name: String) { setNickname(workspaceId: $id, nickname: $name) { nickname } }"
    channel = """mutation ($id: ID!, $name: String!) {
        createChannel(input: {workspaceId: $id, name: $name}) { id } }"""
    for query, longest in ((nickname, 32), (channel, 80), (CREATE_CATEGORY, 80)):
        for name in ("", " ", "x" * (longest + 1)):
            (error,) = (await api.run(made.owner, query, id=made.id, name=name))["errors"]
            assert f"1 to {longest} characters" in error["message"]


LISTED = """query ($id: ID!, $workspace: ID!) { channel(id: $id) { topic position category { name } }
    followedChannels(workspaceId: $workspace) { edges { node { topic position category { name } } } }
    syncChannels { channels { topic position category { name } } } }"""


@pytest.mark.parametrize("change", ["topic", "position", "name of the category"])
async def test_a_changed_setting_is_shown_by_all_servers_at_once(
    api: Api, other_api: Api, made: Made, change: str
) -> None:
    """The other server has read the settings before, and nobody looks at the workspace there."""
    category = (await made.create_category("trails"))["id"]
    for name in ("general", "news"):
        channel = (await made.create(name, categoryId=category))["id"]
    await api.data(made.member, FOLLOW, id=channel)
    await other_api.data(made.member, LISTED, id=channel, workspace=made.id)
    expected: Json = {"topic": None, "position": 1, "category": {"name": "trails"}}
    match change:
        case "topic":
            await made.update(channel, topic="new")
            expected["topic"] = "new"
        case "position":
            await made.update(channel, position=0)
            expected["position"] = 0
        case _:
            await api.data(made.owner, UPDATE_CATEGORY, id=category, name="new")
            expected["category"] = {"name": "new"}
    shown = await other_api.data(made.member, LISTED, id=channel, workspace=made.id)
    assert shown["channel"] == expected
    assert [edge["node"] for edge in shown["followedChannels"]["edges"]] == [expected]
    assert shown["syncChannels"]["channels"] == [expected]
