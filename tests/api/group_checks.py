"""What has to be so of a group after anything that anybody did to it, at once perhaps and from several processes."""

from __future__ import annotations

from collections.abc import Sequence

from tests.api.client import Api, Json, together
from tests.api.group_calls import roles_of


async def shown_to(api: Api, users: Sequence[str], group: str) -> dict[str, Json]:
    """What the users are shown of a group: places on their clocks apart, which a loss may move."""

    async def one(user: str) -> Json:
        shown, session = await api.group(user, group), await api.session(user, group)
        for found in (session, shown["session"] if shown is not None else None):
            if found is not None:
                del found["activeTs"]
        history = await api.history(user, group) if shown is not None else None
        listed = group in await api.my_groups(user)
        return {"group": shown, "session": session, "history": history, "listed": listed}

    return dict(zip(users, await together(*(one(user) for user in users)), strict=True))


def check_legal(seen: dict[str, Json]) -> str:
    """Fails where what people are shown of a group can't be true. Answers its state: active, dissolved or gone."""
    groups = {user: shown["group"] for user, shown in seen.items() if shown["group"] is not None}
    sessions = {user: shown["session"] for user, shown in seen.items() if shown["session"] is not None}
    if not groups:
        assert {session["status"] for session in sessions.values()} == {"INVALID"}
        assert not any(shown["listed"] for shown in seen.values())
        return "gone"
    # Whoever has a session was in it, and the other way round.
    assert groups.keys() == sessions.keys()
    (status,) = {shown["status"] for shown in groups.values()}
    if status == "DISSOLVED":
        for user, shown in groups.items():
            assert (shown["memberCount"], shown["members"], shown["viewerRole"]) == (0, None, None)
            assert all(stretch["toSeq"] is not None for stretch in shown["visibleRanges"])
            assert (sessions[user]["status"], seen[user]["listed"]) == ("INVALID", False)
            _check_history(seen[user])
        return "dissolved"
    _check_members(groups, seen)
    for user in groups:
        _check_history(seen[user])
    return "active"


def _check_members(groups: dict[str, Json], seen: dict[str, Json]) -> None:
    members = {user for user, shown in groups.items() if shown["viewerRole"] is not None}
    assert members, "nobody is in it"
    (listed,) = {tuple(sorted(roles_of(groups[user]).items())) for user in members}
    roles = dict(listed)
    assert roles.keys() == members
    assert list(roles.values()).count("OWNER") == 1
    for user, shown in groups.items():
        current = user in members
        assert shown["memberCount"] == len(members)
        assert shown["viewerRole"] == roles.get(user)
        assert roles[shown["owner"]["id"]] == "OWNER"
        assert (shown["members"] is not None) is current
        assert (shown["visibleRanges"][-1]["toSeq"] is None) is current
        assert seen[user]["listed"] is current
        assert seen[user]["session"]["status"] == "ACTIVE"


def _check_history(shown: Json) -> None:
    """What one reads is what one's stretches say, without a hole, and ends where the session does."""
    history, stretches = shown["history"], shown["group"]["visibleRanges"]
    seqs = [message["seq"] for message in history]
    newest = shown["session"]["writeSeq"]
    expected = [
        seq
        for stretch in stretches
        for seq in range(stretch["fromSeq"], (newest if stretch["toSeq"] is None else stretch["toSeq"]) + 1)
    ]
    assert seqs == expected
    last = shown["group"]["lastMessage"]
    assert (last["seq"] if last is not None else None) == (seqs[-1] if seqs else None)
    assert shown["session"]["lastMessage"] == last
