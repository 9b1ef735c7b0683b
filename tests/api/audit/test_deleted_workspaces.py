"""The log of a deleted workspace is removed with it. The log of the deployment keeps who deleted it."""

from __future__ import annotations

import pytest

from resolvers.base.app import Confab
from store.workspaces import workspace_removal
from tests.api.audit.sample import ADMIN, AUDIT_LOG, list_entries, stored_entries
from tests.api.client import Api
from tests.api.workspaces.calls import DELETE, add_members, create_invite, create_workspace


async def test_only_the_entry_of_the_deletion_stays(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workspace_removal, "ROWS_PER_STEP", 2)
    monkeypatch.setattr(workspace_removal, "GRACE_MS", 0)
    owner, member = await api.create_users("owner", "member")
    workspace, other = await create_workspace(api, owner, "Old"), await create_workspace(api, owner)
    await add_members(api, workspace, member)
    for _ in range(3):
        await create_invite(api, owner, workspace)
    of_other = await list_entries(api, owner, workspace=other)
    await api.data(owner, DELETE, id=workspace)
    assert (await api.expect_refusal(owner, AUDIT_LOG, workspace=workspace)).code == "NOT_FOUND"
    assert len([id for id in stored_entries(api) if id.startswith(f"{workspace} ")]) == 6
    app: Confab = api.services.app
    while await app.store.workspace_removal.run():
        pass
    assert [id for id in stored_entries(api) if id.startswith(f"{workspace} ")] == []
    (entry,) = await list_entries(api, ADMIN, target=workspace)
    assert (entry["action"], entry["actor"]["id"], entry["before"]["name"]) == ("deleteWorkspace", owner, "Old")
    assert await list_entries(api, owner, workspace=other) == of_other
