"""Joining, following, and changes of rights that a fault interrupts between any two steps: afterwards all is right.

The caller gets UNAVAILABLE, or the change is done. Then the call is repeated on another server, or background work
completes the change. `make long` interrupts every step; else a few of each call are interrupted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from store.base.ids import UserId
from store.redis.cache import Call
from store.workspaces.changing import policy_changes
from tests.api.channels.calls import DELETE, Made, make_workspace
from tests.api.channels.follow_calls import rows_of
from tests.api.channels.session_calls import ADD, FOLLOW, REMOVE, followed_by
from tests.api.client import Api, Json
from tests.api.conftest import Deployments
from tests.api.recovery.failing_steps import Fault, failing
from tests.api.session_calls import SESSION
from tests.api.workspaces.calls import JOIN, UPDATE, expect_right_counts
from tests.api.workspaces.role_calls import SET_ROLES, create_role

_CHANNEL = f"memberCount viewerFollows viewerPermissions session {{ {SESSION} }}"
SHOWN = f"""query ($id: ID!, $default: ID!, $side: ID!, $staff: ID!) {{
    workspace(id: $id) {{ memberCount viewerPermissions }} myWorkspaces {{ edges {{ node {{ id }} }} }}
    default: channel(id: $default) {{ {_CHANNEL} }}
    side: channel(id: $side) {{ {_CHANNEL} }}
    staff: channel(id: $staff) {{ {_CHANNEL} }} }}"""
MOST_STEPS = 60
"""More steps than any of these calls has."""


@dataclass(frozen=True)
class Scene:
    """An open workspace with a default channel, one that nobody else follows, and a PRIVATE one with two members."""

    made: Made
    default: str
    side: str
    staff: str
    role: str

    @property
    def api(self) -> Api:
        return self.made.api

    @property
    def users(self) -> tuple[str, ...]:
        return self.made.owner, self.made.member, self.made.outsider

    @property
    def channels(self) -> tuple[str, ...]:
        return self.default, self.side, self.staff


async def create_scene(api: Api) -> Scene:
    made = await make_workspace(api)
    await api.data(made.owner, UPDATE, id=made.id, input={"isOpen": True})
    default = (await made.create("default", isDefault=True))["id"]
    side = (await made.create("side"))["id"]
    staff = (await made.create("staff", kind="PRIVATE"))["id"]
    return Scene(
        made, default, side, staff, await create_role(api, made.owner, made.id, "moderator", "MANAGE_CHANNELS")
    )


async def _join(scene: Scene, api: Api) -> Json:
    return await api.run(scene.made.outsider, JOIN, id=scene.made.id)


async def _follow(scene: Scene, api: Api) -> Json:
    return await api.run(scene.made.member, FOLLOW, id=scene.side)


async def _unfollow(scene: Scene, api: Api) -> Json:
    return await api.run(scene.made.owner, FOLLOW, id=scene.side, follow=False)


async def _add(scene: Scene, api: Api) -> Json:
    return await api.run(scene.made.owner, ADD, id=scene.staff, users=[scene.made.member])


async def _add_follower(scene: Scene, api: Api) -> Json:
    return await api.run(scene.made.owner, ADD, id=scene.side, users=[scene.made.member])


async def _add_first(scene: Scene) -> None:
    await scene.api.data(scene.made.owner, ADD, id=scene.staff, users=[scene.made.member])


async def _remove(scene: Scene, api: Api) -> Json:
    return await api.run(scene.made.owner, REMOVE, id=scene.staff, user=scene.made.member)


async def _set_roles(scene: Scene, api: Api) -> Json:
    return await api.run(scene.made.owner, SET_ROLES, id=scene.made.id, user=scene.made.member, roles=[scene.role])


async def _delete(scene: Scene, api: Api) -> Json:
    return await api.run(scene.made.owner, DELETE, id=scene.staff)


async def _nothing(_scene: Scene) -> None:
    """Prepare nothing."""


Change = Callable[[Scene, Api], Awaitable[Json]]
CHANGES: dict[str, tuple[Callable[[Scene], Awaitable[None]], Change]] = {
    "join": (_nothing, _join),
    "follow": (_nothing, _follow),
    "unfollow": (_nothing, _unfollow),
    "add": (_nothing, _add),
    "add a follower": (_nothing, _add_follower),
    "remove": (_add_first, _remove),
    "set roles": (_nothing, _set_roles),
    "delete": (_add_first, _delete),
}


def code_of(answer: Json) -> str:
    return answer["errors"][0]["extensions"]["code"] if "errors" in answer else "done"


async def shown(scene: Scene, server: Api) -> dict[str, Any]:
    """Return what all users are shown by a server."""
    seen: dict[str, Any] = {}
    for user in scene.users:
        places = {"id": scene.made.id, "default": scene.default, "side": scene.side, "staff": scene.staff}
        seen[user] = await server.data(user, SHOWN, **places)
        if seen[user]["workspace"] is not None:
            seen[user]["followed"] = sorted(await followed_by(server, user, scene.made.id))
    return seen


def without_times(seen: Any) -> Any:
    """Return what is shown without ticks, which differ between servers that load a state again."""
    if isinstance(seen, dict):
        return {name: without_times(value) for name, value in seen.items() if name not in ("activeTs", "writeTs")}
    return [without_times(each) for each in seen] if isinstance(seen, list | tuple) else seen


def stored(scene: Scene) -> dict[str, set[str]]:
    """Return the users in each channel. Fail unless all counts are right."""
    expect_right_counts(scene.api, scene.made.id)
    return {channel: rows_of(scene.api, channel) for channel in scene.channels}


async def end_locks_of_the_dead(scene: Scene) -> None:
    """Let the time of all locks of users pass."""
    store = scene.api.services.app.store
    keys = [store.keys.of_user(UserId(user), "lock") for user in scene.users]
    await store.cache.run([Call("DEL", (key,)) for key in keys])


async def do_background_work(*servers: Api) -> None:
    for server in servers:
        await server.services.housekeeper.check_redis()
        await server.services.app.store.policy_changes.complete_incomplete()
    await servers[-1].services.app.store.policy_changes.complete_abandoned()


async def interrupt(
    api: Api,
    other_api: Api,
    deployments: Deployments,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fault: Fault,
    at: int,
    *,
    repeats: bool,
) -> bool:
    """Interrupt a call before a step, and check everything. False: it has fewer steps."""
    scene = await create_scene(api)
    prepare, change = CHANGES[name]
    await prepare(scene)
    for server in (api, other_api):
        before = await shown(scene, server)
    stored(scene)
    await api.wait_until_idle()
    with failing(api, monkeypatch, fault, at, lambda: deployments.flush_redis("main")) as steps:
        outcome = code_of(await change(scene, api))
    assert outcome in ("done", "UNAVAILABLE")
    if not steps.has_failed:
        assert outcome == "done"
        return False
    await end_locks_of_the_dead(scene)
    if repeats:
        await _repeat(scene, change, other_api)
    monkeypatch.setattr(policy_changes, "TAKEOVER_MS", -1_000)
    await do_background_work(api, other_api)

    found, same = [without_times(await shown(scene, server)) for server in (api, other_api)]
    assert found == same
    stored(scene)
    for user in scene.users:
        deployments.evict_user_state("main", user)
    assert without_times(await shown(scene, api)) == found
    await _repeat(scene, change, other_api)
    stored(scene)
    complete = without_times(await shown(scene, other_api))
    assert found == complete or (outcome == "UNAVAILABLE" and not repeats and found == without_times(before))
    return True


async def _repeat(scene: Scene, change: Change, server: Api) -> None:
    """Make the call on a server that works. What was deleted, or who was removed before, is not found."""
    refused = {_delete: "NOT_FOUND", _remove: "NOT_A_MEMBER"}.get(change)
    assert code_of(await change(scene, server)) in ("done", refused)


@pytest.mark.parametrize(
    ("name", "fault", "at"),
    [
        *((name, Fault.DEATH, 9) for name in ("join", "add", "remove", "delete")),
        *(
            pytest.param(name, Fault.DEATH, 9, marks=pytest.mark.long)
            for name in ("follow", "unfollow", "add a follower", "set roles")
        ),
        ("join", Fault.REDIS_AWAY, 3),
        ("join", Fault.FLUSH, 5),
        ("add", Fault.REDIS_AWAY, 3),
        ("delete", Fault.FLUSH, 5),
    ],
)
async def test_an_interrupted_change_is_complete_or_not_made(
    api: Api,
    other_api: Api,
    deployments: Deployments,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fault: Fault,
    at: int,
) -> None:
    await interrupt(api, other_api, deployments, monkeypatch, name, fault, at, repeats=True)


@pytest.mark.long
@pytest.mark.parametrize("repeats", [True, False], ids=["repeated", "in the background"])
@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_may_be_interrupted_before_any_step(
    api: Api,
    other_api: Api,
    deployments: Deployments,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    fault: Fault,
    repeats: bool,
) -> None:
    for at in range(1, MOST_STEPS):
        if not await interrupt(api, other_api, deployments, monkeypatch, name, fault, at, repeats=repeats):
            assert at > 3
            return
    raise AssertionError("the call has more steps than expected")
