"""Properties that every group has after any concurrent changes, also from several processes."""

from __future__ import annotations

from collections.abc import Sequence

from tests.api.client import Api, Json, gather_all
from tests.api.group_calls import roles_of


async def read_as_users(api: Api, users: Sequence[str], group: str) -> dict[str, Json]:
    """Return everything that the users can read of a group, without `activeTs`, which a cache loss may change."""

    async def read_as(user: str) -> Json:
        user_view, session = await api.group(user, group), await api.session(user, group)
        for session_view in (session, user_view["session"] if user_view is not None else None):
            if session_view is not None:
                del session_view["activeTs"]
        history = await api.history(user, group) if user_view is not None else None
        listed = group in await api.my_groups(user)
        return {"group": user_view, "session": session, "history": history, "listed": listed}

    return dict(zip(users, await gather_all(*(read_as(user) for user in users)), strict=True))


def check_group_state(views: dict[str, Json]) -> str:
    """Fail if what users read of a group is contradictory. Return its state: active, dissolved or gone."""
    groups = {user: user_view["group"] for user, user_view in views.items() if user_view["group"] is not None}
    sessions = {user: user_view["session"] for user, user_view in views.items() if user_view["session"] is not None}
    if not groups:
        assert {session["status"] for session in sessions.values()} == {"INVALID"}
        assert not any(user_view["listed"] for user_view in views.values())
        return "gone"
    # A session exists exactly for users who are or were members.
    assert groups.keys() == sessions.keys()
    (status,) = {user_view["status"] for user_view in groups.values()}
    if status == "DISSOLVED":
        for user, user_view in groups.items():
            assert (user_view["memberCount"], user_view["members"], user_view["viewerRole"]) == (0, None, None)
            assert all(visible_range["toSeq"] is not None for visible_range in user_view["visibleRanges"])
            assert (sessions[user]["status"], views[user]["listed"]) == ("INVALID", False)
            _check_history(views[user])
        return "dissolved"
    _check_members(groups, views)
    for user in groups:
        _check_history(views[user])
    return "active"


def _check_members(groups: dict[str, Json], views: dict[str, Json]) -> None:
    members = {user for user, user_view in groups.items() if user_view["viewerRole"] is not None}
    assert members, "the group has no members"
    (listed,) = {tuple(sorted(roles_of(groups[user]).items())) for user in members}
    roles = dict(listed)
    assert roles.keys() == members
    assert list(roles.values()).count("OWNER") == 1
    for user, user_view in groups.items():
        current = user in members
        if current:
            assert user_view["memberCount"] == len(members)
            assert roles[user_view["owner"]["id"]] == "OWNER"
        assert user_view["viewerRole"] == roles.get(user)
        assert (user_view["members"] is not None) is current
        assert (user_view["visibleRanges"][-1]["toSeq"] is None) is current
        assert views[user]["listed"] is current
        assert views[user]["session"]["status"] == "ACTIVE"


def _check_history(user_view: Json) -> None:
    """Check that the history equals the visible ranges without gaps, and ends where the session ends."""
    history, visible_ranges = user_view["history"], user_view["group"]["visibleRanges"]
    seqs = [message["seq"] for message in history]
    newest = user_view["session"]["writeSeq"]
    expected = [
        seq
        for visible_range in visible_ranges
        for seq in range(
            visible_range["fromSeq"], (newest if visible_range["toSeq"] is None else visible_range["toSeq"]) + 1
        )
    ]
    assert seqs == expected
    last = user_view["group"]["lastMessage"]
    assert (last["seq"] if last is not None else None) == (seqs[-1] if seqs else None)
    assert user_view["session"]["lastMessage"] == last
