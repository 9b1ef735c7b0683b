"""Ids that a user may not see take the same round trips as unknown ids, so response times reveal nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import pytest

from store.base.ids import ConversationId
from store.redis.cache import Call
from store.workspaces.permissions import Permission
from tests.api.client import Api, private_id
from tests.api.conftest import Deployments, OpenApi
from tests.api.sample_channels import create_sample_channels
from tests.api.sample_group import SampleGroup, create_sample_group

UNKNOWN_GROUP, UNKNOWN_MESSAGE = "g_1", "m_1"

OF_GROUPS = {
    "group": "query ($id: ID!) { found: group(id: $id) { id } }",
    "conversation": "query ($id: ID!) { found: conversation(id: $id) { id } }",
    "node": "query ($id: ID!) { found: node(id: $id) { id } }",
    "messages": "query ($id: ID!) { found: messages(conversationId: $id) { edges { cursor } } }",
    "session": "query ($id: ID!) { found: session(conversationId: $id) { id } }",
    "sendMessage": 'mutation ($id: ID!) { sendMessage(input: {conversationId: $id, content: "x"}) { replayed } }',
    "leaveGroup": "mutation ($id: ID!) { leaveGroup(groupId: $id) }",
    "updateGroup": 'mutation ($id: ID!) { updateGroup(groupId: $id, input: {name: "x"}) { id } }',
    "inviteMembers": "mutation ($id: ID!) { inviteMembers(groupId: $id, userIds: []) { id } }",
    "deleteConversation": "mutation ($id: ID!) { deleteConversation(conversationId: $id) }",
    "markRead": "mutation ($id: ID!) { markRead(conversationId: $id) { id } }",
    "muteSession": "mutation ($id: ID!) { muteSession(conversationId: $id, muted: true) { id } }",
    "setNotificationLevel": "mutation ($id: ID!) { setNotificationLevel(id: $id, level: NONE) }",
    "ackDelivered": "mutation ($id: ID!) { ackDelivered(conversationId: $id, upToSeq: 1) { id } }",
    "startTyping": "mutation ($id: ID!) { startTyping(conversationId: $id) }",
    "createUpload": """mutation ($id: ID!) {
        createUpload(input: {conversationId: $id, filename: "x", sizeBytes: 1}) { id } }""",
    "searchMessages": """query ($id: ID!) {
        searchMessages(query: "hidden", filter: {conversationIds: [$id]}) { edges { cursor } } }""",
}
OF_THREADS = {
    name: OF_GROUPS[name]
    for name in ("conversation", "node", "messages", "session", "sendMessage", "markRead", "searchMessages")
} | {
    "thread": "query ($id: ID!) { found: thread(id: $id) { id } }",
    "followThread": "mutation ($id: ID!) { followThread(threadId: $id) { id } }",
    "lockThread": "mutation ($id: ID!) { lockThread(threadId: $id) { id } }",
    "deleteConversation": OF_GROUPS["deleteConversation"],
    "startTyping": OF_GROUPS["startTyping"],
    "createUpload": OF_GROUPS["createUpload"],
}
OF_MESSAGES = {
    "message": "query ($id: ID!) { found: message(id: $id) { id } }",
    "node": "query ($id: ID!) { found: node(id: $id) { id } }",
    "editMessage": 'mutation ($id: ID!) { editMessage(messageId: $id, content: "x") { id } }',
    "recallMessage": "mutation ($id: ID!) { recallMessage(messageId: $id) { id } }",
    "suppressEmbeds": "mutation ($id: ID!) { suppressEmbeds(messageId: $id) { id } }",
    "addReaction": 'mutation ($id: ID!) { addReaction(messageId: $id, emoji: ":wave:") { id } }',
    "removeReaction": 'mutation ($id: ID!) { removeReaction(messageId: $id, emoji: ":wave:") { id } }',
    "clearReactions": "mutation ($id: ID!) { clearReactions(messageId: $id) { id } }",
}


class Trips(NamedTuple):
    mongo: int
    redis: int


async def trips_of(api: Api, user: str, query: str, id: str) -> Trips:
    """Return the smallest number of round trips of several refusals: housekeeping may add some to one of them."""
    store, runs = api.services.app.store, []
    for _ in range(8):
        await api.wait_until_idle()
        mongo, redis = store.mongo.trips, store.cache.trips
        response = await api.run(user, query, id=id)
        runs.append(Trips(store.mongo.trips - mongo, store.cache.trips - redis))
        if "errors" in response:
            assert [error["extensions"]["code"] for error in response["errors"]] == ["NOT_FOUND"]
        else:
            assert response["data"] == {"found": None}
    return Trips(min(run.mongo for run in runs), min(run.redis for run in runs))


@pytest.fixture
async def sample(api: Api) -> SampleGroup:
    return await create_sample_group(api)


async def _stay(_api: Api, _sample: SampleGroup) -> None:
    """Change nothing: the group stays in the cache."""


async def _change(api: Api, sample: SampleGroup) -> None:
    """Give the membership another version after the stranger has asked for it."""
    await api.group(sample.outsider, sample.group)
    await api.set_role(sample.owner, sample.group, sample.member, "ADMIN")
    await api.wait_until_idle()


async def _end(api: Api, sample: SampleGroup) -> None:
    await api.dismiss(sample.owner, sample.group)
    await api.wait_until_idle()


STATES: dict[str, Callable[[Api, SampleGroup], Awaitable[None]]] = {
    "cached": _stay, "changed": _change, "dismissed": _end,
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
async def test_groups_of_others_cost_a_stranger_the_same_as_unknown_groups(
    api: Api, sample: SampleGroup, state: str
) -> None:
    await STATES[state](api, sample)
    for name, query in OF_GROUPS.items():
        existing = await trips_of(api, sample.outsider, query, sample.group)
        assert existing == await trips_of(api, sample.outsider, query, UNKNOWN_GROUP), name


async def test_groups_that_are_not_cached_cost_a_stranger_the_same_as_unknown_groups(
    open_api: OpenApi, deployments: Deployments
) -> None:
    async with open_api("not cached") as api:
        sample = await create_sample_group(api)
        await api.wait_until_idle()
        # The recovery after a loss reads too: the test is about requests only.
        await api.services.housekeeper.close()
        deployments.flush_redis("not cached")
        await api.services.housekeeper.check_redis()
        await api.data(sample.outsider, "{ totalUnread }")
        for name, query in OF_GROUPS.items():
            existing = await trips_of(api, sample.outsider, query, sample.group)
            assert existing == await trips_of(api, sample.outsider, query, UNKNOWN_GROUP), name
        store = api.services.app.store
        head = store.keys.conversation(ConversationId(sample.group))[0]
        assert await store.cache.one(Call("EXISTS", (head,))) == 0, "a stranger makes the server load the group"


async def test_messages_and_sessions_of_others_cost_a_stranger_the_same_as_unknown_ones(
    api: Api, sample: SampleGroup
) -> None:
    private = (await api.send(sample.owner, sample.member, "hidden"))["message"]["id"]
    await api.wait_until_idle()
    for name, query in OF_MESSAGES.items():
        unknown = await trips_of(api, sample.outsider, query, UNKNOWN_MESSAGE)
        for hidden in (sample.message, sample.later, private):
            assert await trips_of(api, sample.outsider, query, hidden) == unknown, name
    for name in ("conversation", "node", "session", "messages", "searchMessages"):
        query = OF_GROUPS[name]
        existing = await trips_of(api, sample.outsider, query, private_id(sample.owner, sample.member))
        assert existing == await trips_of(api, sample.outsider, query, private_id(sample.owner, "nobody")), name
    sessions = [f"s_{sample.owner}_{group}" for group in (sample.group, UNKNOWN_GROUP)]
    existing, unknown = [await trips_of(api, sample.outsider, OF_GROUPS["node"], session) for session in sessions]
    assert existing == unknown


async def test_messages_in_hidden_channels_cost_the_same_as_unknown_ones(api: Api) -> None:
    workspace = await create_sample_channels(api)
    hidden = [
        (await api.send(workspace.moderator, name))["message"]["id"] for name in (workspace.general, workspace.staff)
    ]
    await workspace.overwrite(workspace.general, workspace.other, Permission.VIEW_CHANNEL)
    await api.wait_until_idle()
    for name, query in OF_MESSAGES.items():
        unknown = await trips_of(api, workspace.other, query, UNKNOWN_MESSAGE)
        assert [await trips_of(api, workspace.other, query, message) for message in hidden] == [unknown] * 2, name


async def test_threads_of_others_cost_a_stranger_the_same_as_unknown_threads(
    api: Api, sample: SampleGroup, deployments: Deployments
) -> None:
    thread = (await api.send(sample.member, sample.message, "hidden"))["message"]["conversationId"]
    private = (await api.send(sample.owner, sample.member, "hidden"))["message"]["id"]
    of_private = (await api.send(sample.owner, private, "hidden"))["message"]["conversationId"]
    reply = (await api.send(sample.owner, thread, "hidden"))["message"]["id"]
    await api.wait_until_idle()
    for is_cached in (True, False):
        if not is_cached:
            deployments.flush_redis("main")
            await api.data(sample.outsider, "{ totalUnread }")
        for name, query in OF_THREADS.items():
            unknown = await trips_of(api, sample.outsider, query, f"t_1_{UNKNOWN_GROUP}")
            assert await trips_of(api, sample.outsider, query, thread) == unknown, name
            unknown = await trips_of(api, sample.outsider, query, f"t_2_{of_private.partition('_')[2][2:]}")
            assert await trips_of(api, sample.outsider, query, of_private) == unknown, name
        for name, query in OF_MESSAGES.items():
            unknown = await trips_of(api, sample.outsider, query, UNKNOWN_MESSAGE)
            assert await trips_of(api, sample.outsider, query, reply) == unknown, name
    store = api.services.app.store
    head = store.keys.conversation(ConversationId(thread))[0]
    assert await store.cache.one(Call("EXISTS", (head,))) == 0, "a stranger makes the server load the thread"


async def test_threads_under_hidden_messages_cost_the_same_as_messages_without_threads(
    api: Api, sample: SampleGroup
) -> None:
    await api.send(sample.member, sample.message, "hidden")
    await api.invite(sample.owner, sample.group, sample.outsider)
    await api.wait_until_idle()
    # Both messages are hidden, and only the first one has a thread.
    for name, query in OF_THREADS.items():
        unknown = await trips_of(api, sample.outsider, query, f"t_2_{sample.group}")
        assert await trips_of(api, sample.outsider, query, f"t_1_{sample.group}") == unknown, name
