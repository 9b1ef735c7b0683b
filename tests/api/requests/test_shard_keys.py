"""On a sharded MongoDB every command names its shards."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from itertools import groupby
from typing import Any

import pytest
from graphql import FieldNode, OperationDefinitionNode, build_schema, parse

from schema.sdl import print_sdl
from store.base.ids import ConversationId, MessageId, UserId, kind_of
from store.devices.device import MAX_DEVICES
from store.mongo.collections import CONVERSATIONS, DEVICES, ORIGINS, SESSIONS
from store.mongo.sharding import SHARD_KEYS
from store.presence.presence_record import DevicePresence, DeviceType, PresenceSetting
from store.presence.presence_store import DeviceChange
from store.previews.preview_cache import CachedPreview
from store.search.index_rows import IndexedMessage
from store.search.mongo_search_index import MongoSearchIndex
from store.search.search_index import SearchCriteria
from store.store import Store
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.policy import MemberFacts, Policy
from subscriptions.presence.connected_devices import GivenDevice
from tests.api.audit.sample import use_audit_log
from tests.api.client import HISTORY, LIVE_MESSAGES, LIVE_SESSIONS, SYNC, Api, Refusal, gather_all, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.devices.calls import REMOVE, list_devices, register, until
from tests.api.export.calls import wait_for_export
from tests.api.files.calls import CANCEL, complete, create_upload, find_file, put
from tests.api.notifications.calls import EVERYTHING, set_settings, settings_of
from tests.api.pins.calls import PIN, PINNED, UNPIN
from tests.api.presence.calls import PRESENCE_OF, PRESENCES, REPORT, set_presence, set_status
from tests.api.presence.connections import PRESENCE_EVENTS
from tests.api.previews.site import SUPPRESS, FakeSite, send
from tests.api.reactions.calls import clear, react, reactors_of, take_back
from tests.api.requests.safety_operations import use_safety
from tests.api.requests.workspace_operations import WorkspaceOperations
from tests.api.search.calls import search
from tests.api.threads.calls import FOLLOW, LOCK, find_thread, list_threads
from tests.api.voice.calls import JOIN, LEAVE, MODERATE, UPDATE, Device, make_voice_workspace
from tests.files.blobs.contents import all_names, in_parts, read_all
from tests.store.workspaces import W, insert_workspace, sample_policy
from tests.targeting import Watch, as_sharded
from tests.webhooks import calls as webhooks
from tests.webhooks.incoming.hooks import use_webhook

TYPING = "mutation ($id: ID!) { startTyping(conversationId: $id) stopTyping(conversationId: $id) }"
MESSAGE = """query ($id: ID!) { message(id: $id) { seq replyTo { seq } delivery { readCount }
    receipts(first: 10) { edges { node { status readAt user { id } } } } } }"""
RECEIPTS = (
    "query ($id: ID!, $status: ReceiptStatus) { message(id: $id) { receipts(status: $status) { edges { cursor } } } }"
)


@pytest.fixture(scope="module")
def watch() -> Iterator[Watch]:
    with as_sharded() as watch:
        yield watch


@pytest.fixture
async def sharded(watch: Watch, open_api: OpenApi) -> AsyncIterator[Api]:
    """A process that believes it is connected to a sharded cluster, after `confab shard --apply`."""
    async with open_api("shards") as api:
        await api.services.app.store.messages.origins.fill()
        watch.untargeted.clear()
        yield api
        await api.wait_until_idle()


def root_fields(query: str) -> set[str]:
    operations = [d for d in parse(query).definitions if isinstance(d, OperationDefinitionNode)]
    return {
        field.name.value for o in operations for field in o.selection_set.selections if isinstance(field, FieldNode)
    }


async def use_workspaces(store: Store) -> None:
    await insert_workspace(store, sample_policy(), MemberFacts(UserId("alice"), 1))
    assert await store.policies.find_members(W, [UserId("alice"), UserId("bob")])
    assert await store.policies.current_version(W) == 1

    async def delete_channels(policy: Policy) -> ProposedPolicyChange:
        facts = await store.policies.find_members(W, [UserId("alice")], policy.version)
        members = [MemberChange(member, None) for member in facts.values()]
        return ProposedPolicyChange(replace(policy, channels={}), members=members)

    assert await store.policy_changes.change(W, delete_channels)
    assert await store.policy_changes.complete_abandoned() == 0


async def use_previews(api: Api, user: str, group: str) -> None:
    """Fetch the links of a message, and of one that another server has left."""
    previews, site = api.services.app.previews, FakeSite()
    previews.is_enabled, previews.find_preview = True, site.find_preview
    await send(api, user, group, "https://site.test/a https://site.test/nothing")
    left = await send(api, user, group, "https://site.test/nothing")
    place = {"c": group, "s": left["seq"]}
    api.database["messages"].update_one(place, {"$set": {"em.p": 1}})
    await previews.continue_due()
    await api.wait_until_idle()
    previews.is_enabled = False


async def set_and_see_presence(api: Api, user: str, *others: str) -> None:
    for status in ("DND", "ONLINE"):
        await set_presence(api, user, status)
    await set_status(api, user, text="away")
    await api.data(user, PRESENCES, users=[user, *others])
    await api.data(user, PRESENCE_OF, id=others[0])
    await (await api.subscribe(user, PRESENCE_EVENTS, users=list(others))).next()
    await api.expect_refusal(user, REPORT, active=True)


async def use_voice(api: Api, fields_used: set[str]) -> None:
    voice = await make_voice_workspace(api)
    device = Device(api, voice.member)
    await device.join(voice.lounge)
    await device.update(video=True)
    await api.data(voice.owner, MODERATE, id=voice.lounge, user=voice.member, mute=True)
    assert len(await voice.states(voice.lounge)) == 1
    await device.leave()
    for query in (JOIN, UPDATE, LEAVE):
        fields_used.update(root_fields(query))


async def use_blobs(store: Store) -> None:
    blobs = store.blobs
    await blobs.write("1/a", in_parts(b"content"))
    assert await read_all(blobs, "1/a", 3) == b"tent"
    assert "1/a" in await all_names(blobs)
    await blobs.delete(["1/a"])


async def use_webhooks(api: Api) -> None:
    """Use a webhook that gets no events: an address outside of this machine is not connected to."""
    webhook = await webhooks.create_webhook(api, webhooks.admin(), "https://8.8.8.8/", "REPORT_OPENED")
    await api.data(webhooks.admin(), webhooks.LIST)
    assert await webhooks.list_deliveries(api, webhooks.admin(), webhook["id"]) == []
    assert await webhooks.redeliver(api, webhooks.admin(), webhook["id"], since="2026-01-01T00:00:00.000Z") == 0
    await api.data(webhooks.admin(), webhooks.ROTATE, id=webhook["id"])
    await api.data(webhooks.admin(), webhooks.DELETE, id=webhook["id"])


async def use_devices(api: Api, alice: str, bob: str) -> None:
    """Connect devices, move a push token from one to another, and drop the oldest one of too many."""
    devices = api.services.app.devices
    connection = devices.connect(UserId(alice), GivenDevice("phone", DeviceType.MOBILE), lambda: None)
    await until(lambda: api.database[DEVICES].count_documents({"_id": f"{alice} phone"}) == 1)
    await api.data(alice, "{ webPushPublicKey }")
    for user in (alice, bob, alice):
        await register(api, user, "phone", pushPlatform="FCM", pushToken="token")
    for number in range(MAX_DEVICES):
        await register(api, alice, f"d_{number}")
    assert len(await list_devices(api, alice)) == MAX_DEVICES
    tested = await api.data(alice, "mutation ($id: ID!) { testPush(deviceId: $id) { outcome } }", id="d_19")
    assert tested["testPush"]["outcome"] == "NOT_CONFIGURED"
    await api.data(alice, REMOVE, id="d_19")
    connection.end()


async def use_search_index(store: Store) -> None:
    index, group = MongoSearchIndex(store.mongo), ConversationId("g_1")
    for rebuild, seq in enumerate((1, 2, 3)):
        await index.index_terms([IndexedMessage(MessageId(seq), group, seq, {"word", "words"})], rebuild)
    for terms, beginning in ((["word"], ""), ([], "wor"), (["word"], "w"), (["word"], "words")):
        for before_id in (None, 3):
            wanted = SearchCriteria([group], terms, [], beginning, 0, before_id, 1)
            assert (await index.propose(wanted, 10)).found
    await index.forget_earlier(1)
    await index.forget_messages(group, [MessageId(2)])
    await index.forget(group)


async def use_presence(store: Store, user: UserId) -> None:
    presence = store.presence
    for setting in PresenceSetting:
        await presence.set_presence(user, setting, None)
    device = DevicePresence("server", "phone", DeviceType.MOBILE, 1)
    (change,) = await presence.change_devices([DeviceChange(user, "server", [device])])
    await presence.note_departures([change.record])
    await presence.read([user, UserId("unknown")])


async def test_every_operation_names_its_shards(
    watch: Watch, sharded: Api, deployments: Deployments, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, fields_used = sharded, set[str]()
    run, subscribe = api.run, api.subscribe

    async def recording_run(caller: Any, query: str, /, **variables: Any) -> Any:
        fields_used.update(root_fields(query))
        return await run(caller, query, **variables)

    async def recording_subscribe(caller: Any, query: str, **variables: Any) -> Any:
        fields_used.update(root_fields(query))
        return await subscribe(caller, query, **variables)

    monkeypatch.setattr(api, "run", recording_run)
    monkeypatch.setattr(api, "subscribe", recording_subscribe)
    alice, bob, carol, dave = await api.create_users("alice", "bob", "carol", "dave")
    conversation, shop_conversation = private_id(alice, bob), private_id(alice, bob, "shop")
    listeners = [await api.listen(bob, query) for query in (LIVE_MESSAGES, LIVE_SESSIONS)]
    await use_webhooks(api)
    await use_audit_log(api)
    snapshot = await api.data(alice, SYNC)
    first = (await api.send(alice, bob, "once", idempotencyKey="k"))["message"]
    await api.send(bob, conversation, "again", replyToId=first["id"])
    await api.send(bob, alice, "in the shop", subBiz="shop")
    group = await api.create_group(alice, bob, carol, idempotencyKey="g")
    assert await api.create_group(alice, bob, carol, idempotencyKey="g") == group
    group_message = (await api.send(alice, group, "all of you", mentionAll=True, mentions=[carol]))["message"]
    await api.invite(alice, group, dave)
    await api.ack(bob, group, 1)
    await api.ack(alice, conversation, 2)
    workspace = WorkspaceOperations(api, alice, bob, carol, dave)
    looking = await workspace.create()
    await use_webhook(api, alice, workspace.general)
    # Run everything once with a filled Redis, and once with an empty one.
    for _ in range(2):
        await api.data(alice, "query { me { id } myGroups { edges { node { id } } } totalUnread attention { unread } }")
        for node in (alice, first["id"], group, f"s_{alice}_{group}"):
            await api.data(alice, "query ($id: ID!) { node(id: $id) { id } }", id=node)
        await api.data(alice, "query ($id: ID!) { user(id: $id) { id } users(ids: [$id]) { id } }", id=bob)
        await api.data(alice, '{ searchUsers(query: "b") { edges { node { id } } } }')
        await search(api, alice, "again")
        await search(api, alice, "aga", conversationIds=[conversation, group], senderIds=[bob], has=["LINK"])
        await api.data(alice, 'mutation { updateMe(displayName: "Alice", metadata: 1) { id } }')
        await api.sessions(alice)
        await api.own_session(alice, conversation)
        await api.sessions(alice, sub_biz="shop")
        await api.data(alice, SYNC, since=snapshot["syncSessions"]["cursor"])
        await api.categories(alice)
        await api.data(
            alice, "query ($id: ID!) { conversation(id: $id) { title lastMessage { id } } }", id=conversation
        )
        await api.data(alice, HISTORY, id=group, first=2)
        await api.data(alice, HISTORY, id=conversation, last=2)
        await api.data(alice, HISTORY, id=group, aroundSeq=1)
        await api.data(bob, "{ offlineMessages { edges { node { id } } } }")
        await api.own_group(dave, group)
        await workspace.read()
        for message in (first, group_message):
            assert (await api.data(alice, MESSAGE, id=message["id"]))["message"]["seq"] == message["seq"]
        for status in ("SENT", "DELIVERED", "READ"):
            await api.data(alice, RECEIPTS, id=group_message["id"], status=status)
        reply = (await api.send(bob, group_message["id"], "in a thread", mentions=[carol]))["message"]
        thread = reply["conversationId"]
        for document in (FOLLOW, LOCK):
            for on in (True, False):
                await api.data(alice, document, id=thread, on=on)
        await api.edit(bob, reply["id"], "edited https://site.test/a")
        await api.data(bob, SUPPRESS, id=reply["id"])
        await use_previews(api, bob, group)
        await api.recall(bob, reply["id"])
        await api.history(carol, thread)
        assert await find_thread(api, carol, thread) and await list_threads(api, bob, group) == [thread]
        assert await api.data(alice, MESSAGE, id="m_77") == {"message": None}
        await set_and_see_presence(api, alice, bob, dave, "nobody")
        await api.wait_until_idle()
        deployments.flush_redis("shards")
        await api.services.app.store.deployment.check_redis()
    for number in range(2):
        upload = await create_upload(api, alice, group, idempotencyKey=f"f{number}")
        await put(api, upload["url"])
        await complete(api, alice, upload["id"])
        assert await find_file(api, bob, upload["id"]) is None
    assert await api.data(alice, CANCEL, id=upload["id"]) == {"cancelUpload": True}
    repeated = await api.send(alice, bob, "once", idempotencyKey="k")
    assert repeated["replayed"] and repeated["message"]["id"] == first["id"]
    refusal = await api.expect_send_refusal(alice, carol, "once", idempotencyKey="k")
    assert refusal == Refusal("IDEMPOTENCY_CONFLICT", "idempotencyKey")
    for user in (alice, bob, carol):
        await react(api, user, group_message["id"])
    await take_back(api, bob, group_message["id"])
    assert await reactors_of(api, bob, group_message["id"]) == [alice, carol]
    await clear(api, alice, group_message["id"])
    await api.edit(alice, first["id"], "twice")
    for message, document in ((group_message, PIN), (first, PIN), (first, UNPIN)):
        await api.data(alice, document, id=message["id"])
    await api.data(alice, PINNED, id=group)
    assert await api.services.app.pins.announce_abandoned(0) == 0
    await api.recall(alice, group_message["id"])
    await api.ack_many(carol, (group, 1))
    await api.mark_many_read(carol, group)
    await api.mark_read(bob, group, 1)
    await api.mark_read(bob, conversation)
    await api.mark_read(alice, "b_shop")
    await api.mute(bob, conversation)
    await api.pin(bob, conversation)
    await api.set_unread(bob, conversation)
    await api.assign(bob, "work", conversation, group)
    await api.delete(bob, shop_conversation)
    await api.delete(bob, conversation, hard=True)
    await api.data(bob, TYPING, id=group)
    await api.update_group(alice, group, name="Another")
    await api.remove(alice, group, dave)
    await api.set_role(alice, group, bob, "ADMIN")
    await api.leave(carol, group)
    await api.transfer(alice, group, bob)
    await api.dissolve(bob, group)
    other = await api.create_group(alice, bob, carol)
    await api.dismiss(alice, other)
    await api.upsert_users({"id": dave, "displayName": "Dave"})
    await wait_for_export(api, alice)
    await use_safety(api, alice, bob, workspace.id, workspace.general)
    await workspace.change()
    assert await looking.next()
    await api.expect_refusal(alice, 'mutation { renewAuth(token: "x") }')
    await use_workspaces(api.services.app.store)
    await use_voice(api, fields_used)
    await use_blobs(api.services.app.store)
    await use_presence(api.services.app.store, UserId(alice))
    await api.services.app.store.preview_cache.store("https://a.example/", None, 60_000)
    assert await api.services.app.store.preview_cache.find("https://a.example/") == CachedPreview(None)
    await use_search_index(api.services.app.store)
    await use_devices(api, alice, bob)
    await set_settings(api, alice, **EVERYTHING)
    assert await settings_of(api, alice) == EVERYTHING
    resumed = await api.subscribe(bob, LIVE_MESSAGES, since=snapshot["syncSessions"]["cursor"])
    await resumed.next()
    await api.wait_until_idle()
    assert all(listener.pop_events() for listener in listeners)

    schema = build_schema(print_sdl())
    roots = (schema.query_type, schema.mutation_type, schema.subscription_type)
    assert fields_used == {name for root in roots if root is not None for name in root.fields}
    assert watch.untargeted == []
    assert watch.seen.keys() >= SHARD_KEYS.keys()


async def test_a_transaction_touches_one_conversation_and_its_users(watch: Watch, sharded: Api) -> None:
    users = await sharded.create_users(*(f"u{number}" for number in range(6)))
    watch.transactions.clear()
    group = await sharded.create_group(*users[:4])
    await sharded.invite(users[0], group, users[4], users[5])
    await sharded.leave(users[1], group)
    await sharded.wait_until_idle()
    users_by_transaction = []
    for statements in watch.transactions.values():
        owners = {(name, owner) for name, owner in statements if name != ORIGINS}
        by_collection = {
            name: {owner for _, owner in rows} for name, rows in groupby(sorted(owners), lambda row: row[0])
        }
        users_by_transaction.append(by_collection.pop(SESSIONS))
        assert by_collection[CONVERSATIONS] == {group}
        assert all(rows == {group} for rows in by_collection.values())
    assert users_by_transaction == [set(users[:4]), set(users[4:]), {users[1]}]


async def test_unique_indexes_begin_with_the_shard_key(sharded: Api) -> None:
    unique_indexes = 0
    await sharded.services.app.store.blobs.write("1/a", in_parts(b"x"))
    for name, key in SHARD_KEYS.items():
        for index in sharded.database[name].list_indexes():
            if index.get("unique"):
                assert list(index["key"])[: len(key)] == list(key)
                unique_indexes += 1
    # Messages by place and by key, chunks of blobs by position.
    assert unique_indexes == 3


async def test_messages_from_before_sharding_are_found(watch: Watch, sharded: Api) -> None:
    alice, bob = await sharded.create_users("alice", "bob")
    old = (await sharded.send(alice, bob, "old", idempotencyKey="k"))["message"]
    await sharded.wait_until_idle()
    sharded.database[ORIGINS].delete_many({})
    store = sharded.services.app.store
    store.messages.origins._filled = False

    async def find() -> Any:
        return (await sharded.data(bob, MESSAGE, id=old["id"]))["message"]

    watch.untargeted.clear()
    assert (await find())["seq"] == old["seq"]
    assert watch.untargeted  # The collection of origins is not divided yet.
    assert await store.messages.origins.fill() > 0
    assert await store.messages.origins.fill() == 0
    watch.untargeted.clear()
    assert (await find())["seq"] == old["seq"]
    assert await sharded.data(bob, MESSAGE, id="m_78") == {"message": None}
    assert watch.untargeted == []


async def test_ids_of_consecutive_groups_are_spread(sharded: Api) -> None:
    users = await sharded.create_users("alice", "bob", "carol")
    groups = await gather_all(*(sharded.create_group(*users) for _ in range(24)))
    assert all(kind_of(group) for group in groups)
    assert len({group[:4] for group in groups}) > 12
