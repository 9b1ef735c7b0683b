"""Stored followers of channels, and changes that come between a decision and its transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.api.channels.calls import ADD as ADD_TO_WORKSPACE
from tests.api.channels.calls import Made
from tests.api.client import Api
from tests.api.workspaces.calls import JOIN, LEAVE, SERVICE

NO_END = -1


def rows_of(api: Api, channel: str) -> set[str]:
    """Return the users with a row that has not ended. Fail unless the channel's count and the sessions agree."""
    rows = api.database["members"].find({"_id": {"$gte": f"{channel} ", "$lt": f"{channel}!"}})
    users = {row["_id"].partition(" ")[2] for row in rows if row["i"][-1][1] == NO_END}
    sessions = api.database["sessions"].find({"_id": {"$regex": f" {channel}$".replace(".", r"\.")}, "fw": 1})
    assert {row["_id"].partition(" ")[0] for row in sessions} == users
    workspace = f"w_{channel[2:].partition('.')[0]}"
    stored = api.database["channels"].find_one({"_id": f"{workspace} {channel}"})
    assert stored is None or stored["mc"] == len(users)
    members = {row["_id"] for row in api.database["workspace_members"].find()}
    assert {f"{workspace} {user}" for user in users} <= members
    return users


async def join(made: Made, *users: str) -> None:
    """Add users to the workspace, as a service does."""
    await made.api.data(SERVICE, ADD_TO_WORKSPACE, id=made.id, users=list(users))


async def leave(made: Made, user: str) -> None:
    await made.api.data(user, LEAVE, id=made.id)


async def join_openly(made: Made, user: str) -> None:
    await made.api.data(user, JOIN, id=made.id)


def interrupt(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, change: Callable[[], Awaitable[object]], *, after: bool
) -> None:
    """Make a change once, just before or after a call of a function."""
    original, is_done = getattr(owner, name), False

    async def interrupted(*args: Any, **options: Any) -> Any:
        nonlocal is_done
        is_first, is_done = not is_done, True
        if is_first and not after:
            await change()
        answer = await original(*args, **options)
        if is_first and after:
            await change()
        return answer

    monkeypatch.setattr(owner, name, interrupted)
