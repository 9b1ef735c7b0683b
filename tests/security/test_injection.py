"""Texts that mean something to what is behind: to MongoDB, Redis, Lua, regular expressions, file systems, terminals. Here they are texts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from graphql import GraphQLArgument, GraphQLInputField, GraphQLInputObjectType, get_named_type

from schema.base.errors import ErrorCode
from schema.root import SCHEMA
from subscriptions.transport.engine import RequestRefused
from tests.api.client import SEND, Api, Json, message_input, private_id
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.state_snapshot import take_snapshot
from tests.security.fuzzed_requests import NASTY
from tests.server.served_app import ServeApp
from tests.server.tokens import bearer

CODES = {code.value for code in ErrorCode} - {"INTERNAL", "UNAVAILABLE"}
TEXTS = {"ID", "String", "Cursor", "DateTime"}
NO_TEXTS: tuple[Any, ...] = ({"$gt": ""}, {"$where": "1"}, [{"$ne": None}], {}, True, 1.5)


@dataclass(frozen=True)
class Input:
    """A text that a root field takes: its own argument, or a field of its input."""

    kind: str
    field: str
    path: tuple[str, ...]
    is_list: bool

    def operation(self) -> str:
        type_ = _ROOTS[self.kind].fields[self.field]
        arguments = ", ".join(f"{name}: ${name}" for name in type_.args)
        declared = ", ".join(f"${name}: {described.type}" for name, described in type_.args.items())
        inner = get_named_type(type_.type)
        return f"{self.kind} ({declared}) {{ {self.field}({arguments}) {'{ __typename }' if hasattr(inner, 'fields') or hasattr(inner, 'types') else ''} }}"

    def variables(self, value: Any, valid: Json) -> Json:
        """Those of the operation: this text, and what else it takes so that one looks at it."""
        given = [value] if self.is_list else value
        filled = {name: valid[f"{self.field}.{name}"] for name in _ROOTS[self.kind].fields[self.field].args if f"{self.field}.{name}" in valid}  # fmt: skip
        if len(self.path) == 1:
            return filled | {self.path[0]: given}
        inside = {**(filled[self.path[0]][0] if isinstance(filled[self.path[0]], list) else filled[self.path[0]]), self.path[1]: given}  # fmt: skip
        return filled | {self.path[0]: [inside] if isinstance(filled[self.path[0]], list) else inside}


_ROOTS: dict[str, Any] = {
    "query": SCHEMA._schema.query_type,
    "mutation": SCHEMA._schema.mutation_type,
    "subscription": SCHEMA._schema.subscription_type,
}


def inputs() -> Iterator[Input]:
    for kind, root in _ROOTS.items():
        for field, described in root.fields.items():
            for name, argument in described.args.items():
                type_ = get_named_type(argument.type)
                if type_.name in TEXTS:
                    yield Input(kind, field, (name,), _is_list(argument))
                elif isinstance(type_, GraphQLInputObjectType):
                    for inner, about in type_.fields.items():
                        if get_named_type(about.type).name in TEXTS:
                            yield Input(kind, field, (name, inner), _is_list(about))


def _is_list(described: GraphQLArgument | GraphQLInputField) -> bool:
    return "[" in str(described.type)


def valid_for(sample: SampleGroup) -> Json:
    """What fields take beside the text that is tried. It is the outsider who asks, so most of it is not theirs."""
    group, user = sample.group, sample.member
    return {
        "session.conversationId": group, "messages.conversationId": group, "markRead.conversationId": group, "ackDelivered.conversationId": group,
        "ackDelivered.upToSeq": 1, "muteSession.conversationId": group, "muteSession.muted": True, "assignCategory.conversationIds": [group],
        "sendMessage.input": {"toUserId": user, "content": "hello"}, "editMessage.messageId": sample.message, "editMessage.content": "x",
        "createGroup.input": {"name": "Group", "memberIds": [sample.admin, sample.owner]}, "updateGroup.groupId": group, "updateGroup.input": {"name": "x"},
        "inviteMembers.groupId": group, "inviteMembers.userIds": [user], "removeMember.groupId": group, "removeMember.userId": user,
        "transferOwner.groupId": group, "transferOwner.userId": user, "setMemberRole.groupId": group, "setMemberRole.userId": user,
        "setMemberRole.role": "ADMIN", "upsertUsers.input": [{"id": user, "displayName": "Renamed"}],
    }  # fmt: skip


async def answered(api: Api, who: str, tried: Input, variables: Json) -> Json:
    if tried.kind != "subscription":
        return await api.run(who, tried.operation(), **variables)
    try:
        subscriber = await api.subscribe(who, tried.operation(), **variables)
    except RequestRefused as refused:
        return {"errors": refused.errors}
    await subscriber.stop()
    return {"data": {}}


INPUTS = list(inputs())
WRITES_TO_OTHERS = {("sendMessage", "toUserId"), ("createGroup", "memberIds")}


def texts_for(tried: Input) -> tuple[Any, ...]:
    """An eighth of them, each in several places: all of them in all places take a quarter of a minute."""
    return (*NASTY[INPUTS.index(tried) % 8 :: 8], *NO_TEXTS)


async def test_no_text_in_any_place_is_more_than_a_text(api: Api) -> None:
    sample = await create_sample_group(api)
    valid, who = valid_for(sample), sample.outsider
    # What the outsider may do to others by right: write to them. All else has to leave them as they are.
    watching = await take_snapshot(api, sample.group, *sample.members)
    harmless = [tried for tried in INPUTS if tried.field not in ("sendMessage", "createGroup")]
    assert len(harmless) > 40
    for tried in harmless:
        for text in texts_for(tried):
            response = await answered(api, who, tried, tried.variables(text, valid))
            for error in response.get("errors", ()):
                assert error["extensions"]["code"] in CODES, (tried, ascii(text)[:100], error)
    await watching.assert_unchanged()
    for tried in [tried for tried in INPUTS if tried.field in ("sendMessage", "createGroup")]:
        for text in texts_for(tried):
            response = await answered(api, who, tried, tried.variables(text, valid))
            for error in response.get("errors", ()):
                assert error["extensions"]["code"] in CODES, (tried, ascii(text)[:100], error)
    stranger = await api.data(sample.owner, "query ($id: ID!) { group(id: $id) { name memberCount } }", id=sample.group)
    assert stranger["group"] == {"name": "Group", "memberCount": 5}


async def test_what_is_stored_comes_back_as_it_was_sent(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    texts = [text for text in NASTY if text.strip() and "\0" not in text and not _is_half(text) and len(text) <= 4_000]
    assert len(texts) > 80
    for text in texts:
        await api.send(alice, bob, text, **({"idempotencyKey": text} if len(text) <= 128 else {}))
    history = await api.history(bob, private_id(alice, bob))
    assert [message["content"] for message in history] == texts
    # Each key stands for its own message: none is taken for another one, however alike they look.
    for text, message in zip(texts, history, strict=True):
        if len(text) <= 128:
            again = await api.send(alice, bob, text, idempotencyKey=text)
            assert (again["replayed"], again["message"]["id"]) == (True, message["id"]), ascii(text)
    assert len({"é", "e\u0301"} & set(texts)) == 2


async def test_folders_with_odd_names_are_kept_apart(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(20)))
    names = [text for text in NASTY if text.strip() and len(text) <= 128 and text.isprintable() and not _is_half(text)][
        :20
    ]
    for name, other in zip(names, others, strict=False):
        await api.send(other, alice)
        await api.assign(alice, name, private_id(alice, other))
    for name, other in zip(names, others, strict=False):
        listed = await api.data(alice, "query ($c: ID) { sessions(categoryId: $c) { edges { node { conversation { id } } } } }", c=name)  # fmt: skip
        assert [e["node"]["conversation"]["id"] for e in listed["sessions"]["edges"]] == [private_id(alice, other)], (
            name
        )


def _is_half(text: str) -> bool:
    return any(0xD800 <= ord(character) < 0xE000 for character in text)


@pytest.mark.parametrize("text", [text for text in NASTY if _is_half(text) or "\0" in text], ids=ascii)
async def test_half_characters_and_nul_are_refused_before_anything_is_stored(api: Api, text: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    before = await api.stored_documents()
    assert (await api.expect_refusal(alice, SEND, input=message_input(bob, f"x{text}"))).code == "INVALID_INPUT"
    if _is_half(text):
        assert (
            await api.expect_refusal(alice, SEND, input=message_input(bob, idempotencyKey=text))
        ).code == "INVALID_INPUT"
    assert await api.stored_documents() == before


async def test_no_token_names_a_user_with_anything_in_the_name(serve_app: ServeApp) -> None:
    names: list[Any] = [text for text in NASTY if not _is_half(text)]
    names = [name for name in names if name not in {"a.b", "null", "undefined", "NaN", "true", "0", "a" * 63, "a" * 64, "9" * 40, "shop", "Shop", "alice.x", "alice@x", "constructor", "1970-01-01T00:00:00.000Z", "YzEK", "YzEKYQpiCjA", "1e999", "2090-01-01"}]  # fmt: skip
    names += [{"$gt": ""}, ["alice"], 7, True, None, "alice\n", "alice\u2028", "ａlice", "аlice", "alice_bob"]  # noqa: RUF001
    async with serve_app() as app:
        for name in names:
            token = bearer(sub=name, exp=time.time() + 60)
            answer = await app.http.post("/graphql", json={"query": "{ me { id } }"}, headers={"authorization": token})
            assert answer.status_code == 401, ascii(name)
            (error,) = answer.json()["errors"]
            assert error["extensions"]["code"] == "UNAUTHENTICATED"
            assert json.dumps(name) not in answer.text or not name
