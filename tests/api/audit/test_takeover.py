"""Changes of groups and their entries, if the server dies between them: both are stored, once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from store.conversations.conversation_fields import ConversationField
from tests.api.audit.sample import stored_entries
from tests.api.client import TIMEOUT_SECONDS, Api
from tests.api.conftest import OpenApi
from tests.api.groups.test_group_takeover import open_two_servers
from tests.api.revisions import ALL_PARTITIONS


def stored_member_count(api: Api, group: str) -> int:
    row = api.database["conversations"].find_one({"_id": group})
    assert row is not None
    return int(row[ConversationField.MEMBER_COUNT])


async def test_a_dead_servers_change_of_a_group_is_stored_with_its_entry(
    open_api: OpenApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_two_servers(open_api) as (surviving, dying):
        alice, bob, carol = await surviving.create_users("alice", "bob", "carol")
        group = await surviving.create_group(alice, bob, carol)
        await surviving.wait_until_idle()
        reached = asyncio.Event()

        async def stop(*_: Any) -> None:
            reached.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(dying.services.app.store.groups, "commit", stop)
        removal = asyncio.create_task(dying.remove(alice, group, bob))
        await asyncio.wait_for(reached.wait(), TIMEOUT_SECONDS)
        assert stored_entries(surviving) == {}
        assert stored_member_count(surviving, group) == 3
        assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 1
        await surviving.wait_until_idle()
        (entry,) = stored_entries(surviving).values()
        assert (entry["a"], entry["u"], entry["t"]) == ("removeMember", alice, bob)
        assert entry["x"].year > 2020
        assert stored_member_count(surviving, group) == 2
        assert await surviving.services.housekeeper.sweep(ALL_PARTITIONS, idle_ms=0) == 0
        removal.cancel()
        dying.services.app.delivery.in_flight._by_id.clear()
