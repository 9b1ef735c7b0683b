"""Every operation, tried with and without its permission, given by roles, and given or denied by overwrites."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
from pymongo import InsertOne

from store.base.ids import ConversationId, UserId
from store.base.workspace_ids import RoleId, WorkspaceId, channel_id, everyone_id, role_id
from store.mongo.collections import CONVERSATIONS
from store.workspaces.changing.proposed_change import MemberChange, ProposedPolicyChange
from store.workspaces.permissions import EVERYTHING, NOTHING, Permission
from store.workspaces.policy import Channel, ChannelKind, MemberFacts, Overwrite, Overwrites, Policy, Role
from tests.api.channels.calls import ARCHIVE, CREATE_CATEGORY, UPDATE
from tests.api.channels.calls import CREATE as CREATE_CHANNEL
from tests.api.channels.test_channel_events import live
from tests.api.channels.test_workspace_events import open_workspace
from tests.api.client import SEND, Api, Json, gather_all
from tests.api.workspaces.calls import CREATE_INVITE, SET_NICKNAME, add_members, create_workspace
from tests.api.workspaces.calls import UPDATE as UPDATE_WORKSPACE
from tests.api.workspaces.role_calls import CREATE_ROLE, EXPLAIN, SET_OVERWRITE, SET_ROLES

P = Permission
BASE = P.VIEW_CHANNEL | P.READ_HISTORY


@dataclass(frozen=True)
class Operation:
    """An operation and the permission that it needs: in the workspace, or in a channel."""

    document: str
    permission: Permission
    variables: Json
    in_channel: bool = False
    also: Permission = NOTHING
    """Other permissions that it needs."""


def _message(**fields: Any) -> Json:
    return {"input": {"conversationId": "@channel", "content": "hello"} | fields}


OPERATIONS = {
    "creating a role": Operation(CREATE_ROLE, P.MANAGE_ROLES, {"id": "@workspace", "input": {"name": "x"}}),
    "giving roles": Operation(SET_ROLES, P.MANAGE_ROLES, {"id": "@workspace", "user": "@plain", "roles": []}),
    "inviting": Operation(CREATE_INVITE, P.CREATE_INVITES, {"id": "@workspace"}),
    "renaming the workspace": Operation(
        UPDATE_WORKSPACE, P.MANAGE_WORKSPACE, {"id": "@workspace", "input": {"name": "x"}}
    ),
    "changing the own nickname": Operation(SET_NICKNAME, P.CHANGE_NICKNAME, {"id": "@workspace", "nickname": "Nick"}),
    "changing a nickname": Operation(
        SET_NICKNAME, P.MANAGE_NICKNAMES, {"id": "@workspace", "user": "@plain", "nickname": "Nick"}
    ),
    "creating a channel": Operation(
        CREATE_CHANNEL, P.MANAGE_CHANNELS, {"input": {"workspaceId": "@workspace", "name": "new"}}
    ),
    "creating a category": Operation(CREATE_CATEGORY, P.MANAGE_CHANNELS, {"id": "@workspace", "name": "new"}),
    "changing a channel": Operation(
        UPDATE, P.MANAGE_CHANNELS, {"id": "@channel", "input": {"topic": "new"}}, in_channel=True
    ),
    "reopening a channel": Operation(
        ARCHIVE, P.MANAGE_CHANNELS, {"id": "@channel", "archived": False}, in_channel=True
    ),
    "setting an overwrite": Operation(
        SET_OVERWRITE, P.MANAGE_ROLES, {"channel": "@channel", "user": "@plain"}, in_channel=True
    ),
    "explaining permissions of others": Operation(
        EXPLAIN, P.MANAGE_ROLES, {"channel": "@channel", "user": "@plain"}, in_channel=True
    ),
    "sending": Operation(SEND, P.SEND_MESSAGES, _message(), in_channel=True),
    "mentioning everybody": Operation(
        SEND, P.MENTION_EVERYONE, _message(mentionAll=True), in_channel=True, also=P.SEND_MESSAGES
    ),
}

DENIED = ("denied to everyone", "denied to the role", "denied to the member")
ALLOWED = ("allowed to everyone", "allowed to the role", "allowed to the member")
PLACES = ("no overwrite", *DENIED, *ALLOWED)
"""One channel for each: what its overwrites do with the permissions of all operations."""


class Matrix:
    """A workspace in which two members belong to each operation: one has its permission, one has all others."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.channels: dict[str, ConversationId] = {}
        self.users: dict[tuple[str, bool], str] = {}

    async def create(self) -> Matrix:
        api, store = self.api, self.api.services.app.store
        keys = [(name, has_it) for name in OPERATIONS for has_it in (True, False)]
        self.owner, self.plain, *users = await api.create_users(
            "owner", "plain", *(f"u{number}" for number in range(len(keys)))
        )
        self.users = dict(zip(keys, users, strict=True))
        self.workspace = WorkspaceId(await create_workspace(api, self.owner))
        await add_members(api, self.workspace, self.plain, *users)
        self.channels = {place: channel_id(self.workspace, store.ids.next()) for place in PLACES}
        self.roles = {key: role_id(self.workspace, store.ids.next()) for key in keys}
        assert await store.policy_changes.change(self.workspace, self._arrange) is not None
        return self

    async def _arrange(self, policy: Policy) -> ProposedPolicyChange:
        """Give all members their roles, and all channels their overwrites, in one change."""
        everyone = replace(policy.everyone, permissions=BASE)
        roles: dict[RoleId, Role] = {everyone.id: everyone}
        for position, ((name, has_it), id) in enumerate(self.roles.items(), 1):
            operation = OPERATIONS[name]
            most = EVERYTHING & ~(P.ADMINISTRATOR | operation.permission)
            permissions = BASE | operation.permission | operation.also if has_it else most
            roles[id] = Role(id, name, position, permissions)
        facts = await self.api.services.app.store.policies.find_members(
            self.workspace, [UserId(user) for user in self.users.values()], policy.version
        )
        members = [self._with_role(facts[UserId(user)], self.roles[key]) for key, user in self.users.items()]
        channels = {id: self._channel(place, id) for place, id in self.channels.items()}
        heads = [InsertOne({"_id": id, "k": "C", "s": 0, "n": 0, "at": 0, "w": 0}) for id in channels]
        after = replace(policy, roles=roles, channels=channels)
        return ProposedPolicyChange(after, members=members, writes=[(CONVERSATIONS, heads)])

    def _with_role(self, facts: MemberFacts, role: RoleId) -> MemberChange:
        return MemberChange(facts, replace(facts, roles=frozenset({role})))

    def _channel(self, place: str, id: ConversationId) -> Channel:
        given = NOTHING
        for operation in OPERATIONS.values():
            given |= operation.permission if operation.in_channel else NOTHING
        overwrite = Overwrite(allow=given) if place in ALLOWED else Overwrite(deny=given)
        roles, users = dict[RoleId, Overwrite](), dict[UserId, Overwrite]()
        if place.endswith("everyone"):
            roles = {everyone_id(self.workspace): overwrite}
        elif place.endswith("role"):
            roles = dict.fromkeys(self.roles.values(), overwrite)
        elif place.endswith("member"):
            users = {UserId(user): overwrite for user in self.users.values()}
        inherits = not roles and not users
        overwrites = Overwrites(roles, users)
        return Channel(id, "room", ChannelKind.PUBLIC, 0, 1, inherits_permissions=inherits, overwrites=overwrites)

    async def run(self, name: str, has_it: bool, place: str = "no overwrite") -> Json:
        """Try an operation as the member that has its permission by a role, or does not."""
        ids = {"@workspace": self.workspace, "@channel": self.channels[place], "@plain": self.plain}

        def filled(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: filled(item) for key, item in value.items()}
            return ids.get(value, value) if isinstance(value, str) else value

        operation = OPERATIONS[name]
        return await self.api.run(self.users[name, has_it], operation.document, **filled(operation.variables))


@pytest.fixture
async def matrix(api: Api) -> Matrix:
    return await Matrix(api).create()


async def test_without_the_permission_nothing_is_changed_or_sent(matrix: Matrix, api: Api, other_api: Api) -> None:
    tries = [(name, False, "no overwrite") for name in OPERATIONS]
    in_channels = [name for name, operation in OPERATIONS.items() if operation.in_channel]
    tries += [(name, has_it, place) for name in in_channels for place in DENIED for has_it in (True, False)]
    looking, _ = await live(api, matrix.owner, *matrix.channels.values())
    watching = await open_workspace(other_api, matrix.owner, matrix.workspace)
    assert (await watching.next())["__typename"] == "WorkspaceCaughtUp"
    before = await api.stored_documents()
    answers = await gather_all(*(matrix.run(*one) for one in tries))
    codes = {one: answer["errors"][0]["extensions"]["code"] for one, answer in zip(tries, answers, strict=True)}
    assert set(codes.values()) == {"FORBIDDEN"}, [one for one, code in codes.items() if code != "FORBIDDEN"]
    assert await api.stored_documents() == before
    for subscriber in (looking, watching):
        await subscriber.expect_no_event()


async def test_the_permission_is_enough_wherever_it_comes_from(matrix: Matrix) -> None:
    tries = [(name, True, "no overwrite") for name in OPERATIONS]
    in_channels = [name for name, operation in OPERATIONS.items() if operation.in_channel]
    tries += [(name, False, place) for name in in_channels for place in ALLOWED]
    for one in tries:
        answer = await matrix.run(*one)
        assert "errors" not in answer, (one, answer)
