"""Texts with a meaning for MongoDB, Redis, Lua, regular expressions, file systems or terminals are plain texts."""

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
from store.base.ids import is_user_id
from subscriptions.transport.engine import RequestRefused
from tests.api.client import SEND, Api, Json, message_input, private_id
from tests.api.sample_group import SampleGroup, create_sample_group
from tests.api.state_snapshot import take_snapshot
from tests.security.fuzzed_requests import HOSTILE_TEXTS
from tests.server.served_app import ServeApp
from tests.server.tokens import bearer

CODES = {code.value for code in ErrorCode} - {"INTERNAL", "UNAVAILABLE"}
TEXTS = {"ID", "String", "Cursor", "DateTime"}
NON_TEXTS: tuple[Any, ...] = ({"$gt": ""}, {"$where": "1"}, [{"$ne": None}], {}, True, 1.5)


@dataclass(frozen=True)
class TextInput:
    """A text argument of a root field, or a text field of its input."""

    kind: str
    field: str
    path: tuple[str, ...]
    is_list: bool

    def operation(self) -> str:
        type_ = _ROOTS[self.kind].fields[self.field]
        arguments = ", ".join(f"{name}: ${name}" for name in type_.args)
        declarations = ", ".join(f"${name}: {definition.type}" for name, definition in type_.args.items())
        inner = get_named_type(type_.type)
        selection = "{ __typename }" if hasattr(inner, "fields") or hasattr(inner, "types") else ""
        return f"{self.kind} ({declarations}) {{ {self.field}({arguments}) {selection} }}"

    def variables(self, value: Any, valid: Json) -> Json:
        """Return the variables of the operation: this value, and valid values for the other arguments."""
        input_value = [value] if self.is_list else value
        variables = {
            name: valid[f"{self.field}.{name}"]
            for name in _ROOTS[self.kind].fields[self.field].args
            if f"{self.field}.{name}" in valid
        }
        if len(self.path) == 1:
            return variables | {self.path[0]: input_value}
        inner = {
            **(variables[self.path[0]][0] if isinstance(variables[self.path[0]], list) else variables[self.path[0]]),
            self.path[1]: input_value,
        }
        return variables | {self.path[0]: [inner] if isinstance(variables[self.path[0]], list) else inner}


_ROOTS: dict[str, Any] = {
    "query": SCHEMA._schema.query_type,
    "mutation": SCHEMA._schema.mutation_type,
    "subscription": SCHEMA._schema.subscription_type,
}


def find_text_inputs() -> Iterator[TextInput]:
    for kind, root in _ROOTS.items():
        for field, definition in root.fields.items():
            for name, argument in definition.args.items():
                type_ = get_named_type(argument.type)
                if type_.name in TEXTS:
                    yield TextInput(kind, field, (name,), _is_list(argument))
                elif isinstance(type_, GraphQLInputObjectType):
                    for inner, input_field in type_.fields.items():
                        if get_named_type(input_field.type).name in TEXTS:
                            yield TextInput(kind, field, (name, inner), _is_list(input_field))


def _is_list(definition: GraphQLArgument | GraphQLInputField) -> bool:
    return "[" in str(definition.type)


def valid_for(sample: SampleGroup) -> Json:
    """Return valid values for the other arguments. The outsider sends the requests, so most objects are not visible."""
    group, user = sample.group, sample.member
    return {
        "session.conversationId": group, "messages.conversationId": group, "markRead.conversationId": group,
        "ackDelivered.conversationId": group,
        "ackDelivered.upToSeq": 1, "ackManyDelivered.marks": [{"conversationId": group, "upToSeq": 1}],
        "muteSession.conversationId": group, "muteSession.muted": True,
        "assignCategory.conversationIds": [group],
        "sendMessage.input": {"toUserId": user, "content": "hello"}, "editMessage.messageId": sample.message,
        "editMessage.content": "x", "reactors.messageId": sample.message, "reactors.emoji": ":wave:",
        "addReaction.messageId": sample.message, "addReaction.emoji": ":wave:",
        "removeReaction.messageId": sample.message, "removeReaction.emoji": ":wave:",
        "clearReactions.messageId": sample.message, "suppressEmbeds.messageId": sample.message,
        "createGroup.input": {"name": "Group", "memberIds": [sample.admin, sample.owner]},
        "updateGroup.groupId": group, "updateGroup.input": {"name": "x"},
        "inviteMembers.groupId": group, "inviteMembers.userIds": [user], "removeMember.groupId": group,
        "removeMember.userId": user,
        "transferOwner.groupId": group, "transferOwner.userId": user, "setMemberRole.groupId": group,
        "setMemberRole.userId": user,
        "setMemberRole.role": "ADMIN", "upsertUsers.input": [{"id": user, "displayName": "Renamed"}],
        "createUpload.input": {"conversationId": group, "filename": "x", "sizeBytes": 1},
        "createWorkspace.input": {"name": "Space"}, "addToWorkspace.workspaceId": "w_1",
        "updateWorkspace.workspaceId": "w_1", "updateWorkspace.input": {"name": "x"}, "setNickname.workspaceId": "w_1",
        "transferWorkspace.workspaceId": "w_1", "transferWorkspace.userId": user,
        "createInvite.workspaceId": "w_1", "revokeInvite.code": "1-aaaaaaaaaaaaaaaa", "invite.code": "x",
        "addToWorkspace.userIds": [user], "createRole.workspaceId": "w_1", "createRole.input": {"name": "x"},
        "updateRole.roleId": "r_1", "updateRole.input": {"name": "x"}, "setMemberRoles.workspaceId": "w_1",
        "setMemberRoles.userId": user, "setMemberRoles.roleIds": ["r_1"], "setPermissionOverwrite.allow": [],
        "setPermissionOverwrite.deny": [], "explainPermissions.channelId": "c_1.1",
        "channelEvents.channels": [{"id": "c_1.1"}], "workspaceEvents.workspaces": [{"id": "w_1"}],
        "createChannel.input": {"workspaceId": "w_1", "name": "x"}, "updateChannel.channelId": "c_1.1",
        "updateChannel.input": {"name": "x"}, "createCategory.workspaceId": "w_1", "createCategory.name": "x",
        "updateCategory.categoryId": "k_1.1", "updateCategory.name": "x", "addToChannel.channelId": "c_1.1",
        "addToChannel.userIds": [user], "removeFromChannel.channelId": "c_1.1", "removeFromChannel.userId": user,
        "reportActivity.active": True, "reportActivity.activities": [{"type": "PLAYING", "name": "x"}],
        "setPresence.status": "DND", "setNotificationSettings.input": {},
        "registerDevice.input": {"type": "WEB"},
        "markChannelsRead.workspaceId": "w_1", "followedChannels.workspaceId": "w_1",
        "searchMessages.query": "hello", "searchMessages.filter": {},
        "createOutgoingWebhook.workspaceId": "w_1", "createOutgoingWebhook.url": "https://192.0.2.1/",
        "report.reason": "SPAM", "resolveReport.action": "NONE", "resolveReport.reportId": "x_1",
        "redeliverWebhook.webhookId": "h_1", "setContentRules.workspaceId": "w_1",
        "setContentRules.rules": [{"action": "BLOCK"}],
    }  # fmt: skip


async def execute(api: Api, user: str, text_input: TextInput, variables: Json) -> Json:
    if text_input.kind != "subscription":
        return await api.run(user, text_input.operation(), **variables)
    try:
        subscriber = await api.subscribe(user, text_input.operation(), **variables)
    except RequestRefused as refused:
        return {"errors": refused.errors}
    await subscriber.stop()
    return {"data": {}}


INPUTS = list(find_text_inputs())
OWN_WRITES = (
    "sendMessage",
    "createGroup",
    "createWorkspace",
    "updateMe",
    "setPresence",
    "setCustomStatus",
    "registerDevice",
    "setNotificationSettings",
)


def texts_for(text_input: TextInput) -> tuple[Any, ...]:
    """Return an eighth of the texts, since all texts in all positions would take 15 seconds."""
    return (*HOSTILE_TEXTS[INPUTS.index(text_input) % 8 :: 8], *NON_TEXTS)


async def test_hostile_texts_in_any_argument_have_no_effect(api: Api) -> None:
    sample = await create_sample_group(api)
    valid, user = valid_for(sample), sample.outsider
    # The outsider may write to others, and change their own profile. Everything else must leave the group unchanged.
    snapshot = await take_snapshot(api, sample.group, *sample.members)
    other_inputs = [text_input for text_input in INPUTS if text_input.field not in OWN_WRITES]
    assert len(other_inputs) > 40
    for text_input in other_inputs:
        for text in texts_for(text_input):
            response = await execute(api, user, text_input, text_input.variables(text, valid))
            for error in response.get("errors", ()):
                assert error["extensions"]["code"] in CODES, (text_input, ascii(text)[:100], error)
    await snapshot.assert_unchanged()
    for text_input in [text_input for text_input in INPUTS if text_input.field in OWN_WRITES]:
        for text in texts_for(text_input):
            response = await execute(api, user, text_input, text_input.variables(text, valid))
            for error in response.get("errors", ()):
                assert error["extensions"]["code"] in CODES, (text_input, ascii(text)[:100], error)
    group_view = await api.data(
        sample.owner, "query ($id: ID!) { group(id: $id) { name memberCount } }", id=sample.group
    )
    assert group_view["group"] == {"name": "Group", "memberCount": 5}


async def test_hostile_texts_are_stored_and_returned_unchanged(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    texts = [
        text
        for text in HOSTILE_TEXTS
        if text.strip() and "\0" not in text and not _has_surrogate(text) and len(text) <= 4_000
    ]
    assert len(texts) > 80
    for text in texts:
        await api.send(alice, bob, text, **({"idempotencyKey": text} if len(text) <= 128 else {}))
    history = await api.history(bob, private_id(alice, bob))
    assert [message["content"] for message in history] == texts
    # Each key identifies its own message, however similar two keys are.
    for text, message in zip(texts, history, strict=True):
        if len(text) <= 128:
            repeated = await api.send(alice, bob, text, idempotencyKey=text)
            assert (repeated["replayed"], repeated["message"]["id"]) == (True, message["id"]), ascii(text)
    assert len({"é", "e\u0301"} & set(texts)) == 2


async def test_categories_with_hostile_names_are_separate(api: Api) -> None:
    alice, *others = await api.create_users("alice", *(f"u{number}" for number in range(20)))
    names = [
        text
        for text in HOSTILE_TEXTS
        if text.strip() and len(text) <= 128 and text.isprintable() and not _has_surrogate(text)
    ][:20]
    for name, other in zip(names, others, strict=False):
        await api.send(other, alice)
        await api.assign(alice, name, private_id(alice, other))
    for name, other in zip(names, others, strict=False):
        listed = await api.data(
            alice, "query ($c: ID) { sessions(categoryId: $c) { edges { node { conversation { id } } } } }", c=name
        )
        assert [e["node"]["conversation"]["id"] for e in listed["sessions"]["edges"]] == [private_id(alice, other)], (
            name
        )


def _has_surrogate(text: str) -> bool:
    return any(0xD800 <= ord(character) < 0xE000 for character in text)


@pytest.mark.parametrize("text", [text for text in HOSTILE_TEXTS if _has_surrogate(text) or "\0" in text], ids=ascii)
async def test_lone_surrogates_and_nul_are_refused(api: Api, text: str) -> None:
    alice, bob = await api.create_users("alice", "bob")
    before = await api.stored_hashes()
    assert (await api.expect_refusal(alice, SEND, input=message_input(bob, f"x{text}"))).code == "INVALID_INPUT"
    if _has_surrogate(text):
        assert (
            await api.expect_refusal(alice, SEND, input=message_input(bob, idempotencyKey=text))
        ).code == "INVALID_INPUT"
    assert await api.stored_hashes() == before


async def test_user_id_of_a_token_is_refused_or_taken_as_it_is(serve_app: ServeApp) -> None:
    names: list[Any] = [text for text in HOSTILE_TEXTS if not _has_surrogate(text)]
    names += [{"$gt": ""}, ["alice"], 7, True, None, "alice\n", "alice\u2028", "ａlice", "аlice", "alice_bob"]  # noqa: RUF001
    valid = [name for name in names if isinstance(name, str) and is_user_id(name)]
    assert {"null", "ａlice", "аlice", "alice_bob"} < set(valid)  # noqa: RUF001
    async with serve_app() as app:
        for name in names:
            token = bearer(sub=name, exp=time.time() + 60)
            answer = await app.http.post("/graphql", json={"query": "{ me { id } }"}, headers={"authorization": token})
            if name in valid:
                assert answer.json() == {"data": {"me": {"id": name}}}
                continue
            assert answer.status_code == 401, ascii(name)
            (error,) = answer.json()["errors"]
            assert error["extensions"]["code"] == "UNAUTHENTICATED"
            assert json.dumps(name) not in answer.text or not name
