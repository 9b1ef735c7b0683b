"""The rows of deleted workspaces are removed in the background, whatever dies."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import replace
from typing import Any

import pytest

from store.base.errors import Unreachable
from store.base.ids import UserId
from store.base.workspace_ids import WorkspaceId, channel_id
from store.channels import channel_contents
from store.moderation.ban import Ban
from store.mongo.client import Mongo
from store.workspaces import workspace_removal
from store.workspaces.changing.proposed_change import ProposedPolicyChange
from store.workspaces.policy import Channel, ChannelKind, Policy
from tests.api.client import Api, gather_all
from tests.api.conftest import OpenApi
from tests.api.content_rules.calls import SET, rule
from tests.api.reactions.calls import react
from tests.api.reports.calls import make_report
from tests.api.workspaces.calls import (
    DELETE,
    add_members,
    create_invite,
    create_workspace,
    expect_right_counts,
    my_workspaces,
    own_workspace,
)
from tests.clock import ManualClock


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_removal, "MEMBERS_PER_STEP", 2)
    monkeypatch.setattr(workspace_removal, "ROWS_PER_STEP", 2)
    monkeypatch.setattr(channel_contents, "ROWS_PER_STEP", 2)


async def create_channel(api: Api, workspace: str, number: int) -> str:
    """Create a public channel as a change of the policy, with its head."""
    store, wanted = api.services.app.store, WorkspaceId(workspace)
    channel = Channel(channel_id(wanted, number), "general", ChannelKind.PUBLIC, number, 1)

    async def decide(policy: Policy) -> ProposedPolicyChange:
        return ProposedPolicyChange(replace(policy, channels={**policy.channels, channel.id: channel}))

    assert await store.policy_changes.change(wanted, decide) is not None
    await store.mongo.insert_one("conversations", {"_id": channel.id, "k": "C", "s": 0, "n": 0, "at": 1, "w": 1})
    return channel.id


async def fill_workspace(api: Api, owner: str, *members: str) -> str:
    """Create a workspace with members, channels, messages, followers, sessions, invitations, bans and reports."""
    workspace = await create_workspace(api, owner)
    await add_members(api, workspace, *members)
    for _ in range(3):
        await create_invite(api, owner, workspace)
        # Without the entries of the audit log that a ban makes.
        ban = Ban(WorkspaceId(workspace), UserId(f"banned-{secrets.token_hex(4)}"), UserId(owner), 1)
        await api.services.app.store.bans.change_deployment(api.services.app.store.bans.writes(ban))
    for number in (1, 2):
        channel = await create_channel(api, workspace, number)
        for user in (owner, *members[:2]):
            sent = await api.send(user, channel, "hello", idempotencyKey=f"{channel} {user}")
            await react(api, owner, sent["message"]["id"])
            if user != owner:
                await make_report(api, owner, message=sent["message"]["id"])
        await api.services.app.store.mongo.insert_one("members", {"_id": f"{channel} {members[0]}"})
    await api.data(owner, SET, id=workspace, rules=[rule()])
    await api.wait_until_idle()
    # Otherwise the rows of the search would come later.
    await api.services.housekeeper.indexing.index_delivered()
    return workspace


def rows_about(api: Api, workspace: str) -> dict[str, list[Any]]:
    """Return the ids of all rows that name a workspace or something inside it, by collection.

    Rows of idempotency keys on sharded MongoDB are left out: MongoDB removes them at the time in `until`.
    """
    part = workspace[2:]
    named = {"$or": [{"_id": {"$regex": part}}, {"c": {"$regex": part}}, {"w": workspace}], "until": None}
    names = set(api.database.list_collection_names()) - {"claims", "deployment", "leases"}
    found = {name: [row["_id"] for row in api.database[name].find(named)] for name in names}
    return {name: ids for name, ids in found.items() if ids}


class Interrupted:
    """Lets calls of MongoDB that the test's own task makes fail: each pass gets one call further before that."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes = 0
        self._left = 0
        self._task = asyncio.current_task()
        for name in ("find", "delete_one", "delete_each", "bulk_write", "update_one"):
            monkeypatch.setattr(Mongo, name, self._counted(getattr(Mongo, name)))

    def _counted(self, call: Any) -> Any:
        async def counted(*arguments: Any, **options: Any) -> Any:
            self._left -= asyncio.current_task() is self._task
            if self._left == 0:
                self._left -= 1
                raise Unreachable("killed")
            return await call(*arguments, **options)

        return counted

    def begin(self) -> None:
        self.passes += 1
        self._left = self.passes


async def test_nothing_of_a_deleted_workspace_is_left(open_api: OpenApi) -> None:
    clock = ManualClock()
    async with open_api("removal", clock) as api, open_api("removal", clock) as other_api:
        alice, *users = await api.create_users("alice", *(f"u{number}" for number in range(5)))
        kept = await fill_workspace(api, alice, *users[:2])
        workspace = await fill_workspace(api, alice, *users)
        before = rows_about(api, kept)
        assert (
            rows_about(api, workspace).keys()
            == before.keys()
            >= {
                *("messages", "sessions", "members", "invites", "bans", "reports", "content_rules", "audit"),
            }
        )
        await api.data(alice, DELETE, id=workspace)
        removals = [where.services.app.store.workspace_removal for where in (api, other_api)]
        assert [await removal.run() for removal in removals] == [0, 0]
        clock.ms += workspace_removal.GRACE_MS
        assert sorted(await gather_all(*(removal.run() for removal in removals))) == [0, 1]
        assert rows_about(api, workspace) == {}
        assert rows_about(api, kept) == before
        assert await my_workspaces(api, users[0]) == [kept] and await my_workspaces(api, users[4]) == []
        assert (await own_workspace(api, users[0], kept))["memberCount"] == 3
        expect_right_counts(api, kept)
        assert api.database["workspaces_of"].find_one({"_id": f"{users[4]} "})["n"] == 0  # type: ignore[index]
        assert await removals[0].run() == 0


async def test_a_removal_continues_after_a_death_between_any_two_calls(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace_removal, "_PAUSE_RATIO", 0)
    clock = ManualClock()
    async with open_api("deaths", clock) as api:
        alice, *users = await api.create_users("alice", *(f"u{number}" for number in range(3)))
        kept = await create_workspace(api, users[0])
        workspace = await fill_workspace(api, alice, *users)
        await api.data(alice, DELETE, id=workspace)
        clock.ms += workspace_removal.GRACE_MS
        removal = api.services.app.store.workspace_removal
        with monkeypatch.context() as patch:
            interrupted = Interrupted(patch)
            while rows_about(api, workspace):
                interrupted.begin()
                clock.ms += workspace_removal.LEASE_MS + 1
                try:
                    await removal.run()
                except Unreachable:
                    continue
            assert interrupted.passes > 3
        expect_right_counts(api, kept)
        summaries = {user: api.database["workspaces_of"].find_one({"_id": f"{user} "}) or {} for user in users}
        assert {user: summary["n"] for user, summary in summaries.items()} == {
            users[0]: 1,
            users[1]: 0,
            users[2]: 0,
        }


async def test_two_servers_that_remove_the_same_rows_count_them_once(open_api: OpenApi) -> None:
    async with open_api("twice") as api, open_api("twice") as other_api:
        alice, *users = await api.create_users("alice", *(f"u{number}" for number in range(7)))
        kept = await create_workspace(api, alice)
        workspace = await create_workspace(api, alice)
        for each in (kept, workspace):
            await add_members(api, each, *users)
        await api.data(alice, DELETE, id=workspace)
        removals = [where.services.app.store.workspace_removal for where in (api, other_api)]

        async def remove(removal: Any) -> None:
            while await removal.step(WorkspaceId(workspace)):
                pass

        await gather_all(*(remove(removal) for removal in removals))
        assert rows_about(api, workspace) == {}
        expect_right_counts(api, kept)
