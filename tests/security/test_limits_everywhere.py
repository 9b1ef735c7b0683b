"""The limits on what one may ask for hold on every way that leads in, and for everything in the schema that has a size."""

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
from tests.api.sample_group import create_sample_group
from tests.server.served_app import App, ServeApp
from tests.server.tokens import bearer

TOO_MUCH = {
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
NOT_VALID = {
    "circular fragments": "{ ...A } fragment A on Query { ...B } fragment B on Query { ...A }",
    "an unknown directive": "{ __typename @defer }",
}


@pytest.fixture(scope="module")
def allowed() -> str:
    return bearer(sub="alice", exp=time.time() + 600)


@pytest.fixture
async def app(serve_app: ServeApp) -> AsyncIterator[App]:
    async with serve_app(introspection=True) as opened:
        yield opened


def codes(response: Json) -> set[str]:
    return {error["extensions"]["code"] for error in response["errors"]}


async def answers(app: App, allowed: str, query: str) -> dict[str, Json]:
    """What it is answered on each way."""
    headers, body = {"authorization": allowed}, {"query": query}
    name = {"operationName": "Q0"} if "query Q0" in query else {}
    found = {"POST": (await app.http.post("/graphql", json=body | name, headers=headers)).json()}
    found["GET"] = (await app.http.get("/graphql", params=body | name, headers=headers)).json() if len(query) < 20_000 else found["POST"]  # fmt: skip
    events = await app.http.post("/graphql", json=body | name, headers=headers | {"accept": "text/event-stream"})
    found["SSE"] = orjson.loads(events.text.split("data: ")[1].split("\n")[0])
    peer = await app.signed_in("alice")
    await peer.subscribe("1", query, **name)
    found["WebSocket"] = {"errors": (await peer.receive())["payload"]}
    return found


async def test_too_much_is_too_complex_on_every_way(app: App, allowed: str) -> None:
    for cases, code in ((TOO_MUCH, "QUERY_TOO_COMPLEX"), (NOT_VALID, "INVALID_INPUT")):
        for name, query in cases.items():
            began = time.monotonic()
            for way, response in (await answers(app, allowed, query)).items():
                assert codes(response) == {code}, (name, way)
                assert "data" not in response
            assert time.monotonic() - began < 2, name


async def test_several_requests_in_one_are_none(app: App, allowed: str) -> None:
    headers = {"authorization": allowed}
    for batch in ([], [{"query": "{ __typename }"}] * 2):
        answer = await app.http.post("/graphql", json=batch, headers=headers)
        assert (answer.status_code, codes(answer.json())) == (400, {"INVALID_INPUT"})
    peer = await app.signed_in("alice")
    await peer.send({"id": "1", "type": "subscribe", "payload": [{"query": "{ __typename }"}] * 2})  # type: ignore[dict-item]
    assert (await peer.closed())[0] == 4400


def paged() -> list[tuple[str, str, str]]:
    """Every field that has pages, with its type, and which argument says how long they are."""
    return [
        (type_.name, name, argument)
        for type_ in SCHEMA._schema.type_map.values()
        if isinstance(type_, GraphQLObjectType)
        for name, field in type_.fields.items()
        for argument in field.args
        if argument in ("first", "last")
    ]


async def test_no_page_is_longer_than_a_hundred(api: Api) -> None:
    sample = await create_sample_group(api)
    inside = {
        "Query": "{ %s }",
        "Group": f'{{ group(id: "{sample.group}") {{ %s }} }}',
        "Message": f'{{ message(id: "{sample.message}") {{ %s }} }}',
    }
    assert {type_ for type_, _, _ in paged()} <= inside.keys() and len(paged()) >= 8
    for type_, name, argument in paged():
        more = f'conversationId: "{sample.group}", ' if name == "messages" else ""
        for size, ok in ((100, True), (101, False), (0, False), (-1, False), (2**31 - 1, False)):
            query = inside[type_] % f"{name}({more}{argument}: {size}) {{ __typename }}"
            response = await api.run(sample.member, query)
            assert ("errors" not in response) is ok, query
            assert ok or codes(response) == {"INVALID_INPUT"}, query


async def test_no_list_is_taken_that_is_longer_than_it_could_be_of_use(api: Api) -> None:
    sample = await create_sample_group(api)
    many = [f"user{number}" for number in range(20_000)]
    calls: dict[str, tuple[str, Any]] = {
        "assignCategory": ("mutation ($l: [ID!]!) { assignCategory(conversationIds: $l) { id } }", [private_id("a", user) for user in many]),
        "inviteMembers": (f'mutation ($l: [ID!]!) {{ inviteMembers(groupId: "{sample.group}", userIds: $l) {{ id }} }}', many),
        "createGroup": ('mutation ($l: [ID!]!) { createGroup(input: {name: "G", memberIds: $l}) { id } }', many),
        "sendMessage": (f'mutation ($l: [ID!]!) {{ sendMessage(input: {{conversationId: "{sample.group}", content: "x", mentions: $l}}) {{ replayed }} }}', many),
        "upsertUsers": ("mutation ($l: [UserInput!]!) { upsertUsers(input: $l) { id } }", [{"id": user, "displayName": "x"} for user in many]),
    }  # fmt: skip
    listed = {name for name, field in _mutations().items() for one in field.args.values() if _holds_list(one.type)}
    assert listed == calls.keys()
    before = await api.stored_documents()
    for name, (query, values) in calls.items():
        began = time.monotonic()
        response = await api.run(sample.owner, query, l=values)
        assert codes(response) <= {"INVALID_INPUT", "GROUP_FULL", "FORBIDDEN"}, name
        assert time.monotonic() - began < 2, name
    assert await api.stored_documents() == before


def _mutations() -> dict[str, Any]:
    root = SCHEMA._schema.mutation_type
    assert root is not None
    return root.fields


def _holds_list(type_: Any) -> bool:
    fields = getattr(get_named_type(type_), "fields", {})
    return "[" in str(type_) or any("[" in str(field.type) for field in fields.values())
