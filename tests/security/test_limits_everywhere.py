"""The limits on requests hold on every transport, and for every field with a size."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from graphql import GraphQLObjectType, get_named_type

from schema.root import SCHEMA
from subscriptions.transport.engine import Json
from tests.api.client import Api, private_id
from tests.security.sample import create_sample
from tests.server.served_app import App, ServeApp
from tests.server.tokens import bearer

TOO_COMPLEX = {
    "depth": "{ node(id: 1) { ... on Message " + "{ replyTo " * 16 + "{ id }" + " }" * 16 + " } }",
    "aliases": "{ " + " ".join(f"a{number}: __typename" for number in range(31)) + " }",
    "repeated fields": "{ " + "__typename " * 100 + "}",
    "directives": "{ __typename " + "@skip(if: false) " * 50 + "}",
    "tokens": "{ __typename " + "#\n" * 3_000 + "}",
    "characters": "{ __typename }" + " " * 50_000,
    "brackets": "{ a(b: " + "[" * 65 + "]" * 65 + ") }",
    "fragments that double": "{ ...F0 } "
    + " ".join(f"fragment F{n} on Query {{ ...F{n + 1} ...F{n + 1} }}" for n in range(30))
    + " fragment F30 on Query { __typename totalUnread }",
    "rows": "{ myGroups(first: 100) { edges { node { members(first: 100) { edges { node { role } } } } } } }",
    "introspection": "{ __schema { types { fields { type { fields { type { fields { name } } } } } } } }",
    "operations": " ".join(f"query Q{number} {{ __typename }}" for number in range(21)),
}
INVALID = {
    "circular fragments": "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }",
    "an unknown directive": "{ __typename @defer }",
}


@pytest.fixture(scope="module")
def token() -> str:
    return bearer(sub="alice", exp=time.time() + 600)


@pytest.fixture
async def app(serve_app: ServeApp) -> AsyncIterator[App]:
    async with serve_app(introspection=True) as app_:
        yield app_


def codes(response: Json) -> set[str]:
    return {error["extensions"]["code"] for error in response["errors"]}


async def answers_by_transport(app: App, token: str, query: str) -> dict[str, Json]:
    """Return the answer on each transport."""
    headers, body = {"authorization": token}, {"query": query}
    name = {"operationName": "Q0"} if "query Q0" in query else {}
    responses = {"POST": (await app.http.post("/graphql", json=body | name, headers=headers)).json()}
    responses["GET"] = (
        (await app.http.get("/graphql", params=body | name, headers=headers)).json()
        if len(query) < 20_000
        else responses["POST"]
    )
    events = await app.http.post("/graphql", json=body | name, headers=headers | {"accept": "text/event-stream"})
    responses["SSE"] = orjson.loads(events.text.split("data: ")[1].split("\n")[0])
    peer = await app.signed_in("alice")
    await peer.subscribe("1", query, **name)
    responses["WebSocket"] = {"errors": (await peer.receive())["payload"]}
    return responses


async def test_too_complex_documents_are_refused_on_every_transport(app: App, token: str) -> None:
    for cases, code in ((TOO_COMPLEX, "QUERY_TOO_COMPLEX"), (INVALID, "INVALID_INPUT")):
        for name, query in cases.items():
            cpu_before = time.process_time()
            for transport, response in (await answers_by_transport(app, token, query)).items():
                assert codes(response) == {code}, (name, transport)
                assert "data" not in response
            assert time.process_time() - cpu_before < 2, name


async def test_batched_requests_are_refused(app: App, token: str) -> None:
    headers = {"authorization": token}
    for batch in ([], [{"query": "{ __typename }"}] * 2):
        answer = await app.http.post("/graphql", json=batch, headers=headers)
        assert (answer.status_code, codes(answer.json())) == (400, {"INVALID_INPUT"})
    peer = await app.signed_in("alice")
    await peer.send({"id": "1", "type": "subscribe", "payload": [{"query": "{ __typename }"}] * 2})  # type: ignore[dict-item]
    assert (await peer.closed())[0] == 4400


def paged_fields() -> list[tuple[str, str, str]]:
    """Return every paged field with its type, and the argument for the page size."""
    return [
        (type_.name, name, argument)
        for type_ in SCHEMA._schema.type_map.values()
        if isinstance(type_, GraphQLObjectType)
        for name, field in type_.fields.items()
        for argument in field.args
        if argument in ("first", "last")
    ]


async def test_every_page_size_is_limited_to_100(api: Api) -> None:
    sample = await create_sample(api)
    query_by_type = {
        "Query": "{ %s }",
        "Group": f'{{ group(id: "{sample.group}") {{ %s }} }}',
        "Message": f'{{ message(id: "{sample.message}") {{ %s }} }}',
        "Workspace": f'{{ workspace(id: "{sample.workspace}") {{ %s }} }}',
        "Channel": f'{{ channel(id: "{sample.channel}") {{ %s }} }}',
        "Thread": f'{{ thread(id: "{sample.thread}") {{ %s }} }}',
    }
    created = await api.data(
        sample.owner,
        """mutation ($id: ID!) { createOutgoingWebhook(
            workspaceId: $id, url: "https://8.8.8.8/", events: [GROUP_CHANGED]) { id } }""",
        id=sample.workspace,
    )
    webhook = created["createOutgoingWebhook"]["id"]
    assert {type_ for type_, _, _ in paged_fields()} <= query_by_type.keys() and len(paged_fields()) >= 8
    for type_, name, argument in paged_fields():
        needed_arguments = {
            "messages": f'conversationId: "{sample.group}", ',
            "pinnedMessages": f'conversationId: "{sample.group}", ',
            "threads": f'conversationId: "{sample.group}", ',
            "searchUsers": 'query: "", ',
            "searchMessages": 'query: "word", ',
            "reactors": f'messageId: "{sample.message}", emoji: ":wave:", ',
            "followedChannels": f'workspaceId: "{sample.workspace}", ',
            "reports": f'workspaceId: "{sample.workspace}", ',
            "webhookDeliveries": f'webhookId: "{webhook}", ',
            "auditLog": f'workspaceId: "{sample.workspace}", ',
            "bans": f'workspaceId: "{sample.workspace}", ',
        }
        other_arguments = needed_arguments.get(name, "")
        for size, is_accepted in ((100, True), (101, False), (0, False), (-1, False), (2**31 - 1, False)):
            query = query_by_type[type_] % f"{name}({other_arguments}{argument}: {size}) {{ __typename }}"
            caller = sample.owner if name in ("auditLog", "bans", "reports", "webhookDeliveries") else sample.member
            response = await api.run(caller, query)
            assert ("errors" not in response) is is_accepted, query
            assert is_accepted or codes(response) == {"INVALID_INPUT"}, query


REFUSALS = {"INVALID_INPUT", "GROUP_FULL", "FORBIDDEN", "QUERY_TOO_COMPLEX", "NOT_FOUND", "LIMIT_REACHED"}


async def test_too_long_lists_are_refused(api: Api) -> None:
    sample = await create_sample(api)
    user_ids = [f"user{number}" for number in range(20_000)]
    operations: dict[str, tuple[str, Any]] = {
        "assignCategory": (
            "mutation ($l: [ID!]!) { assignCategory(conversationIds: $l) { id } }",
            [private_id("a", user) for user in user_ids],
        ),
        "markManyRead": (
            "mutation ($l: [ID!]!) { markManyRead(conversationIds: $l) { id } }",
            [private_id("a", user) for user in user_ids],
        ),
        "ackManyDelivered": (
            "mutation ($l: [DeliveryMark!]!) { ackManyDelivered(marks: $l) { id } }",
            [{"conversationId": private_id("a", user), "upToSeq": 1} for user in user_ids],
        ),
        "inviteMembers": (
            f'mutation ($l: [ID!]!) {{ inviteMembers(groupId: "{sample.group}", userIds: $l) {{ id }} }}',
            user_ids,
        ),
        "addToWorkspace": (
            f'mutation ($l: [ID!]!) {{ addToWorkspace(workspaceId: "{sample.workspace}", userIds: $l) {{ id }} }}',
            user_ids,
        ),
        "addToChannel": (
            f'mutation ($l: [ID!]!) {{ addToChannel(channelId: "{sample.channel}", userIds: $l) {{ id }} }}',
            user_ids,
        ),
        "createChannel": (
            "mutation ($l: [ID!]!) { createChannel(input: {"
            f'workspaceId: "{sample.workspace}", name: "x", memberIds: $l}}) {{ id }} }}',
            user_ids,
        ),
        "createRole": (
            "mutation ($l: [Permission!]) { createRole("
            f'workspaceId: "{sample.workspace}", input: {{name: " ", permissions: $l}}) {{ id }} }}',
            ["SPEAK"] * 20_000,
        ),
        "updateRole": (
            "mutation ($l: [Permission!]) { updateRole("
            f'roleId: "r_{sample.workspace[2:]}", input: {{name: " ", permissions: $l}}) {{ id }} }}',
            ["SPEAK"] * 20_000,
        ),
        "setMemberRoles": (
            "mutation ($l: [ID!]!) { setMemberRoles("
            f'workspaceId: "{sample.workspace}", userId: "{sample.member}", roleIds: $l) {{ joinedAt }} }}',
            [f"r_{sample.workspace[2:]}.{number}" for number in range(20_000)],
        ),
        "setPermissionOverwrite": (
            "mutation ($l: [Permission!]!) { setPermissionOverwrite("
            f'channelId: "c_1.1", roleId: "r_{sample.workspace[2:]}", allow: $l) {{ roleId }} }}',
            ["SPEAK"] * 20_000,
        ),
        "setContentRules": (
            "mutation ($l: [String!]!) { setContentRules("
            f'workspaceId: "{sample.workspace}", rules: [{{ words: $l, action: BLOCK }}]) {{ id }} }}',
            ["spam"] * 20_000,
        ),
        "createOutgoingWebhook": (
            "mutation ($l: [ID!]) { createOutgoingWebhook("
            f'workspaceId: "{sample.workspace}", url: "https://8.8.8.8/", events: [], channelIds: $l) {{ id }} }}',
            [f"c_{sample.workspace[2:]}.{number}" for number in range(20_000)],
        ),
        "createGroup": (
            'mutation ($l: [ID!]!) { createGroup(input: {name: "G", memberIds: $l}) { id } }',
            user_ids,
        ),
        "sendMessage": (
            "mutation ($l: [ID!]!) { sendMessage(input: {"
            f'conversationId: "{sample.group}", content: "x", mentions: $l}}) {{ replayed }} }}',
            user_ids,
        ),
        "recallMessages": (
            f'mutation ($l: [ID!]!) {{ recallMessages(conversationId: "{sample.group}", messageIds: $l) {{ id }} }}',
            [f"m_{number}" for number in range(20_000)],
        ),
        "reportActivity": (
            "mutation ($l: [ActivityInput!]!) { reportActivity(active: true, activities: $l) { setting } }",
            [{"type": "PLAYING", "name": "x"}] * 20_000,
        ),
        "setNotificationSettings": (
            "mutation ($l: [String!]) { setNotificationSettings(input: { keywords: $l }) { level } }",
            user_ids,
        ),
        "upsertUsers": (
            "mutation ($l: [UserInput!]!) { upsertUsers(input: $l) { id } }",
            [{"id": user, "displayName": "x"} for user in user_ids],
        ),
    }
    fields_with_lists = {
        name
        for name, field in _mutations().items()
        for argument in field.args.values()
        if _contains_list(argument.type)
    }
    assert fields_with_lists == operations.keys()
    before = await api.stored_hashes()
    for name, (query, values) in operations.items():
        cpu_before = time.process_time()
        response = await api.run(sample.owner, query, l=values)
        assert codes(response) <= {
            "INVALID_INPUT",
            "GROUP_FULL",
            "FORBIDDEN",
            "QUERY_TOO_COMPLEX",
            "NOT_FOUND",
            "LIMIT_REACHED",
        }, name
        assert time.process_time() - cpu_before < 2, name
    assert await api.stored_hashes() == before


def _mutations() -> dict[str, Any]:
    root = SCHEMA._schema.mutation_type
    assert root is not None
    return root.fields


def _contains_list(type_: Any) -> bool:
    fields = getattr(get_named_type(type_), "fields", {})
    return "[" in str(type_) or any("[" in str(field.type) for field in fields.values())
