"""Ids of another workspace, of another kind, and ids that do not exist: refused, with nothing changed and no event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from subscriptions.transport.engine import RequestRefused
from tests.api.channels import calls as channels
from tests.api.channels import session_calls as sessions
from tests.api.channels.channel_subscriber import look_at
from tests.api.channels.test_workspace_events import open_workspace
from tests.api.client import SEND, Api, Json, Refusal, Subscriber, parse_refusal
from tests.api.workspaces import calls, role_calls

INVITE_JOIN = "mutation ($id: ID, $code: String) { joinWorkspace(workspaceId: $id, code: $code) { id } }"
HISTORY = "query ($id: ID!) { messages(conversationId: $id) { edges { cursor } } }"
NODE = "query ($id: ID!) { node(id: $id) { id } }"


@dataclass(frozen=True)
class Space:
    """A workspace with one object of each kind. The same users own both spaces, so nobody lacks a right."""

    workspace: str
    channel: str
    staff: str
    category: str
    role: str
    code: str
    member: str

    @property
    def everyone(self) -> str:
        return f"r_{self.workspace[2:]}"


async def create_space(api: Api, owner: str, member: str) -> Space:
    workspace = await calls.create_workspace(api, owner)
    await calls.add_members(api, workspace, member)

    async def create(**fields: Any) -> str:
        created = await api.data(owner, channels.CREATE, input={"workspaceId": workspace} | fields)
        id: str = created["createChannel"]["id"]
        return id

    category = (await api.data(owner, channels.CREATE_CATEGORY, id=workspace, name="trails"))["createCategory"]["id"]
    code = (await api.data(owner, calls.CREATE_INVITE, id=workspace))["createInvite"]["code"]
    return Space(
        workspace,
        await create(name="general"),
        await create(name="staff", kind="PRIVATE"),
        category,
        await role_calls.create_role(api, owner, workspace, "guide"),
        code,
        member,
    )


def mixed(a: Space, b: Space) -> list[tuple[str, Json]]:
    """Return calls that name things of `a` together with things of `b`."""
    new = {"workspaceId": a.workspace, "name": "new"}
    message = {"conversationId": a.channel, "content": "hello"}
    return [
        (role_calls.SET_ROLES, {"id": a.workspace, "user": a.member, "roles": [b.role]}),
        (role_calls.SET_ROLES, {"id": a.workspace, "user": a.member, "roles": [a.role, b.everyone]}),
        (role_calls.SET_ROLES, {"id": a.workspace, "user": b.member, "roles": [a.role]}),
        (role_calls.SET_OVERWRITE, {"channel": a.channel, "role": b.role, "deny": ["SPEAK"]}),
        (role_calls.SET_OVERWRITE, {"channel": a.channel, "role": b.everyone, "deny": ["SPEAK"]}),
        (role_calls.SET_OVERWRITE, {"channel": a.channel, "user": b.member, "deny": ["SPEAK"]}),
        (role_calls.SET_OVERWRITE, {"category": a.category, "role": b.role, "deny": ["SPEAK"]}),
        (role_calls.EXPLAIN, {"channel": a.channel, "user": b.member}),
        (channels.CREATE, {"input": new | {"categoryId": b.category}}),
        (channels.CREATE, {"input": new | {"kind": "PRIVATE", "memberIds": [b.member]}}),
        (channels.UPDATE, {"id": a.channel, "input": {"categoryId": b.category}}),
        (sessions.ADD, {"id": a.channel, "users": [a.member, b.member]}),
        (sessions.ADD, {"id": a.staff, "users": [a.member, b.member]}),
        (sessions.REMOVE, {"id": a.staff, "user": b.member}),
        (sessions.READ_ALL, {"id": a.workspace, "category": b.category}),
        (SEND, {"input": message | {"mentionRoleIds": [b.role]}}),
        (calls.SET_NICKNAME, {"id": a.workspace, "user": b.member, "nickname": "Nick"}),
        (calls.TRANSFER, {"id": a.workspace, "user": b.member}),
        (INVITE_JOIN, {"id": a.workspace, "code": b.code}),
    ]


def wrong(a: Space) -> list[tuple[str, Json]]:
    """Return calls with ids of another kind, and with ids of the workspace's form that do not exist."""
    own = a.workspace[2:]
    no_workspaces = [a.channel, a.category, a.role, a.everyone, "w_", "w_0", "w_99", f"w_{own}.1", ""]
    no_channels = [a.workspace, a.category, a.role, f"c_{own}", f"c_{own}.0", f"c_{own}.99", f"c_0{own}.1", "c_.", ""]
    no_categories = [a.workspace, a.channel, a.role, f"k_{own}.99", f"k_{own}", ""]
    no_roles = [a.workspace, a.channel, a.category, f"r_{own}.99", "r_", ""]
    return [
        *((query, {"id": id}) for query in (calls.DELETE, calls.LEAVE, calls.CREATE_INVITE) for id in no_workspaces),
        *((calls.UPDATE, {"id": id, "input": {"name": "new"}}) for id in no_workspaces),
        *((role_calls.CREATE_ROLE, {"id": id, "input": {"name": "new"}}) for id in no_workspaces),
        *((channels.CREATE_CATEGORY, {"id": id, "name": "new"}) for id in no_workspaces),
        *((channels.CREATE, {"input": {"workspaceId": id, "name": "new"}}) for id in no_workspaces),
        *((query, {"id": id}) for query in (channels.DELETE, channels.ARCHIVE, sessions.FOLLOW) for id in no_channels),
        *((channels.UPDATE, {"id": id, "input": {"topic": "new"}}) for id in no_channels),
        *((SEND, {"input": {"conversationId": id, "content": "hello"}}) for id in no_channels),
        *((role_calls.EXPLAIN, {"channel": id}) for id in no_channels),
        *((query, {"id": id}) for query in (sessions.READ, sessions.UNREAD) for id in no_channels),
        *((channels.UPDATE_CATEGORY, {"id": id, "name": "new"}) for id in no_categories),
        *((channels.DELETE_CATEGORY, {"id": id}) for id in no_categories),
        *((channels.UPDATE, {"id": a.channel, "input": {"categoryId": id}}) for id in no_categories),
        *((role_calls.UPDATE_ROLE, {"id": id, "input": {"name": "new"}}) for id in no_roles),
        *((role_calls.DELETE_ROLE, {"id": id}) for id in (*no_roles, a.everyone)),
        *((role_calls.SET_ROLES, {"id": a.workspace, "user": a.member, "roles": [id]}) for id in no_roles),
        *((channels.FIND, {"id": id}) for id in no_channels),
        *((calls.BY_ID, {"id": id}) for id in no_workspaces),
        *((NODE, {"id": id}) for id in (f"k_{own}.99", f"r_{own}.99", f"c_{own}.99", "w_99")),
        *((HISTORY, {"id": id}) for id in no_channels),
    ]


@pytest.fixture
async def spaces(api: Api) -> tuple[str, Space, Space]:
    owner, one, two = await api.create_users("owner", "one", "two")
    return owner, await create_space(api, owner, one), await create_space(api, owner, two)


async def refused(api: Api, user: str, query: str, variables: Json) -> bool:
    """Return whether a call answers null, or an error that fits a wrong id."""
    response = await api.run(user, query, **variables)
    if "errors" not in response:
        return "mutation" not in query and list(response["data"].values()) == [None]
    return parse_refusal(response["errors"][0]).code in ("NOT_FOUND", "INVALID_INPUT", "NOT_A_MEMBER", "FORBIDDEN")


async def watch(api: Api, owner: str, *spaces: Space) -> list[Subscriber]:
    """Return subscriptions to everything that may be sent to the owner, all of them caught up."""
    subscribers = [await open_workspace(api, owner, space.workspace) for space in spaces]
    subscribers += [await look_at(api, owner, space.channel, space.staff) for space in spaces]
    subscribers += [await api.subscribe(owner, sessions.LIVE)]
    for subscriber, count in zip(subscribers, (1, 1, 2, 2, 1), strict=True):
        for _ in range(count):
            await subscriber.next()
    return subscribers


async def test_ids_of_two_workspaces_cannot_be_mixed(api: Api, spaces: tuple[str, Space, Space]) -> None:
    owner, one, two = spaces
    subscribers, before = await watch(api, owner, one, two), await api.stored_hashes()
    tries = [(owner, *call) for call in (*mixed(one, two), *mixed(two, one))]
    accepted = [one for one in tries if not await refused(api, *one)]
    assert accepted == []
    assert await api.stored_hashes() == before
    for subscriber in subscribers:
        await subscriber.expect_no_event()


async def test_ids_of_other_kinds_and_unknown_ids_are_refused(api: Api, spaces: tuple[str, Space, Space]) -> None:
    owner, one, two = spaces
    subscribers, before = await watch(api, owner, one, two), await api.stored_hashes()
    accepted = [call for call in wrong(one) if not await refused(api, owner, *call)]
    assert accepted == []
    assert await api.stored_hashes() == before
    for subscriber in subscribers:
        await subscriber.expect_no_event()


async def test_wrong_positions_are_refused_or_reset(api: Api, spaces: tuple[str, Space, Space]) -> None:
    owner, one, two = spaces
    for name, id in (
        ("channels", one.workspace),
        ("channels", two.role),
        ("channels", ""),
        ("workspaces", one.channel),
    ):
        subscribe = look_at if name == "channels" else open_workspace
        with pytest.raises(RequestRefused) as refusal:
            await subscribe(api, owner, id)
        assert parse_refusal(refusal.value.errors[0]).code in ("NOT_FOUND", "INVALID_INPUT")
    many = [f"{one.channel}{number}" for number in range(21)]
    with pytest.raises(RequestRefused) as refusal:
        await look_at(api, owner, *many)
    assert parse_refusal(refusal.value.errors[0]).code == "INVALID_INPUT"
    with pytest.raises(RequestRefused):
        await look_at(api, owner, one.channel, one.channel)
    # A rev of another workspace is a time like any other: it is resumed, or a reset, and shows that channel alone.
    await api.send(owner, two.channel, "there")
    rev = (await api.data(owner, "query ($id: ID!) { channel(id: $id) { rev } }", id=two.channel))["channel"]["rev"]
    for position in (-1, 2**53, "nonsense"):
        with pytest.raises(RequestRefused) as refusal:
            await look_at(api, owner, (one.channel, position))  # type: ignore[arg-type]  # as a client may send it
        assert parse_refusal(refusal.value.errors[0]) == Refusal("INVALID_INPUT", "rev")
    for position in (rev, 2**53 - 1, 0):
        subscriber = await look_at(api, owner, (one.channel, position))
        event = await subscriber.next()
        assert (event["__typename"], event["conversationId"]) == ("ChannelCaughtUp", one.channel)
        assert event["reset"] or position == rev
        await subscriber.stop()
