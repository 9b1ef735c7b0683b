"""Files of channels and workspaces that are deleted: marked for removal, and removed by the sweeper."""

from __future__ import annotations

import pytest

from tests.api.attaching.files import ids, is_removed, send
from tests.api.channels.calls import DELETE, make_workspace
from tests.api.conftest import OpenApi
from tests.api.files.calls import blob_names, find_file, upload_file
from tests.api.workspaces.calls import DELETE as DELETE_WORKSPACE
from tests.clock import ManualClock


@pytest.mark.parametrize("deleted", ["channel", "workspace"])
async def test_files_of_a_deleted_place_are_removed(open_api: OpenApi, deleted: str) -> None:
    clock = ManualClock()
    async with open_api(f"deleted {deleted}", clock) as api:
        made = await make_workspace(api)
        channel = (await made.create("trails"))["id"]
        files = [(await upload_file(api, made.member, channel))["id"] for _ in range(2)]
        sent = (await send(api, made.member, channel, files[:1], "parent"))["message"]
        reply = (await send(api, made.member, sent["id"], files[1:]))["message"]
        assert ids(sent) + ids(reply) == files
        await api.wait_until_idle()
        if deleted == "channel":
            assert (await api.data(made.owner, DELETE, id=channel))["deleteChannel"]
        else:
            await api.data(made.owner, DELETE_WORKSPACE, id=made.id)
        store = api.services.app.store
        await api.advance_days(clock, 2)
        assert await store.channel_removal.remove_due() + await store.workspace_removal.run() >= 1
        for file in files:
            assert await is_removed(api, file)
            found = await find_file(api, made.member, file)
            assert found is None or (found["state"], found["url"]) == ("REMOVED", None)
            assert await find_file(api, made.owner, file) is None
        await api.services.housekeeper.files.sweep()
        assert blob_names(api) == set()
