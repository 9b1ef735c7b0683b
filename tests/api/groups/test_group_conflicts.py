"""Changes of one group that contradict each other, at the same moment: one of the legal ends, and the same for all."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.api.client import INVITE, SEND, Api, Json, Refusal, gather_all
from tests.api.conftest import Deployments
from tests.api.group_calls import DISMISS, DISSOLVE, LEAVE, REMOVE, SET_ROLE, TRANSFER, UPDATE_GROUP, roles_of
from tests.api.group_checks import check_group_state, read_as_users
from tests.api.sessions.test_session_cache_loss import different

ROUNDS = 1


@dataclass(frozen=True)
class Scene:
    """A group of alice, her admin bob, carol and dave; erin is not in it."""

    group: str
    alice: str
    bob: str
    carol: str
    dave: str
    erin: str

    @property
    def people(self) -> tuple[str, ...]:
        return (self.alice, self.bob, self.carol, self.dave, self.erin)


@dataclass(frozen=True)
class Try:
    """One of the calls that come at once, and the codes with which it may be refused."""

    who: str
    query: str
    codes: tuple[str, ...] = ()
    user: str | None = None
    role: str | None = None

    async def run(self, api: Api, scene: Scene) -> str | None:
        """The code of its refusal, or None."""
        target = getattr(scene, self.user) if self.user else None
        asked: Json = {"id": scene.group}
        match self.query:
            case _ if self.query is INVITE:
                asked["users"] = [target]
            case _ if self.query is UPDATE_GROUP:
                asked["input"] = {"name": f"By {self.who}"}
            case _ if self.query is SEND:
                asked = {"input": {"conversationId": scene.group, "content": "hello"}}
            case _ if self.query is SET_ROLE:
                asked |= {"user": target, "role": self.role}
            case _ if target is not None:
                asked["user"] = target
        response = await api.run(getattr(scene, self.who), self.query, **asked)
        if "errors" not in response:
            return None
        (error,) = response["errors"]
        code: str = error["extensions"]["code"]
        return code


async def make(api: Api) -> Scene:
    people = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(*people[:4])
    await api.set_role(people[0], group, people[1], "ADMIN")
    await api.send(people[2], group, "before")
    return Scene(group, *people)


NO, GONE, WHO = "FORBIDDEN", "NOT_A_MEMBER", "NOT_FOUND"

TRIES: dict[str, list[Try]] = {
    "two transfers": [Try("alice", TRANSFER, (NO,), "bob"), Try("alice", TRANSFER, (NO,), "carol")],
    "the same transfer twice": [Try("alice", TRANSFER, (NO,), "bob"), Try("alice", TRANSFER, (NO,), "bob")],
    "a transfer to who leaves": [
        Try("alice", TRANSFER, (GONE,), "carol"),
        Try("carol", LEAVE, ("OWNER_CANNOT_LEAVE",)),
    ],
    "a transfer to who is removed": [
        Try("alice", TRANSFER, (GONE,), "carol"),
        Try("bob", REMOVE, (NO,), "carol"),
    ],
    "a transfer and the leave of who gave it": [
        Try("alice", TRANSFER, (GONE,), "carol"),
        Try("alice", LEAVE, ("OWNER_CANNOT_LEAVE",)),
    ],
    "removing and promoting": [Try("bob", REMOVE, (NO,), "carol"), Try("alice", SET_ROLE, (GONE,), "carol", "ADMIN")],
    "removing by who is demoted": [Try("bob", REMOVE, (NO,), "carol"), Try("alice", SET_ROLE, (), "bob", "MEMBER")],
    "removing by who is removed": [Try("bob", REMOVE, (GONE,), "carol"), Try("alice", REMOVE, (), "bob")],
    "two removals": [Try("alice", REMOVE, (GONE,), "carol"), Try("bob", REMOVE, (GONE,), "carol")],
    "two of oneself": [Try("carol", LEAVE, (GONE,)), Try("carol", LEAVE, (GONE,))],
    "leaving and being removed": [Try("carol", LEAVE, (GONE,)), Try("bob", REMOVE, (GONE,), "carol")],
    "two who leave": [Try("carol", LEAVE), Try("dave", LEAVE)],
    "inviting and removing the same": [
        Try("carol", INVITE, (), "erin"),
        Try("bob", REMOVE, (GONE,), "erin"),
        Try("dave", INVITE, (), "erin"),
    ],
    "inviting back who goes": [Try("carol", LEAVE), Try("dave", INVITE, (), "carol")],
    "inviting by who goes": [Try("carol", LEAVE), Try("carol", INVITE, (GONE,), "erin")],
    "two roles": [Try("alice", SET_ROLE, (), "carol", "ADMIN"), Try("alice", SET_ROLE, (), "carol", "MEMBER")],
    "a role and a transfer": [Try("alice", SET_ROLE, (NO,), "carol", "ADMIN"), Try("alice", TRANSFER, (), "carol")],
    "two names": [Try("alice", UPDATE_GROUP), Try("bob", UPDATE_GROUP)],
    "a name by who is demoted": [Try("bob", UPDATE_GROUP, (NO,)), Try("alice", SET_ROLE, (), "bob", "MEMBER")],
    "writing while going": [Try("carol", SEND, (GONE,)), Try("carol", LEAVE), Try("alice", SEND), Try("dave", SEND)],
    "everybody goes": [Try(user, LEAVE) for user in ("bob", "carol", "dave")],
}
EVERYTHING = [
    Try("alice", TRANSFER, (NO, GONE), "bob"),
    Try("bob", REMOVE, (NO, GONE), "carol"),
    Try("alice", SET_ROLE, (NO, GONE), "dave", "ADMIN"),
    Try("carol", INVITE, (GONE,), "erin"),
    Try("dave", LEAVE, (GONE,)),
    Try("bob", UPDATE_GROUP, (NO, GONE)),
    Try("carol", SEND, (GONE,)),
    Try("alice", SEND, (GONE,)),
]
ENDINGS = {
    "dismissing": (Try("alice", DISMISS, (NO,)), WHO),
    "dissolving": (Try("alice", DISSOLVE, (NO,)), GONE),
}


async def outcomes(processes: tuple[Api, ...], scene: Scene, tries: list[Try], turn: int) -> list[str | None]:
    """Runs calls at once, in another order each time. Fails where one is refused with a code that makes no sense."""
    shift = turn % len(tries)
    order = tries[shift:] + tries[:shift]
    codes = await gather_all(*(a.run(processes[i % len(processes)], scene) for i, a in enumerate(order)))
    for attempt, code in zip(order, codes, strict=True):
        assert code is None or code in attempt.codes, (attempt, code)
    await gather_all(*(process.wait_until_idle() for process in processes))
    return codes[len(codes) - shift :] + codes[: len(codes) - shift]


async def end(processes: tuple[Api, ...], deployments: Deployments, scene: Scene) -> tuple[str, dict[str, Json]]:
    """The state of the group: legal, the same on all processes, and after the cache was lost."""
    seen = await read_as_users(processes[0], scene.people, scene.group)
    state = check_group_state(seen)
    for process in processes[1:]:
        assert different(seen, await read_as_users(process, scene.people, scene.group)) == {}
    deployments.flush_redis("main")
    for process in processes:
        assert different(seen, await read_as_users(process, scene.people, scene.group)) == {}
    return state, seen


@pytest.mark.parametrize("tries", TRIES.values(), ids=TRIES.keys())
async def test_changes_at_once_end_in_a_legal_state(
    api: Api, other_api: Api, deployments: Deployments, tries: list[Try]
) -> None:
    for turn in range(ROUNDS):
        processes = (api,) if turn == 1 else (api, other_api)
        scene = await make(api)
        codes = await outcomes(processes, scene, tries, turn)
        assert None in codes, "at least one of them is the first"
        state, _ = await end(processes, deployments, scene)
        assert state == "active"


async def test_of_two_transfers_one_is_done_and_told(api: Api, other_api: Api, deployments: Deployments) -> None:
    processes = (api, other_api)
    for turn in range(ROUNDS):
        scene = await make(api)
        codes = await outcomes(processes, scene, TRIES["two transfers"], turn)
        assert Counter(codes) == {None: 1, "FORBIDDEN": 1}
        _, seen = await end(processes, deployments, scene)
        winner = (scene.bob, scene.carol)[codes.index(None)]
        assert seen[scene.alice]["group"]["owner"]["id"] == winner
        told = seen[scene.alice]["history"][-1]
        assert (told["contentType"], told["mentions"]) == ("SYSTEM", [{"id": winner}])
        assert len(seen[scene.alice]["history"]) == 2


@pytest.mark.parametrize("name", ["two removals", "two of oneself", "leaving and being removed"])
async def test_who_goes_twice_at_once_goes_once(api: Api, other_api: Api, deployments: Deployments, name: str) -> None:
    processes = (api, other_api)
    for turn in range(ROUNDS):
        scene = await make(api)
        synced = await api.listen(scene.carol, "subscription { syncSession { reason cursor reset } }")
        codes = await outcomes(processes, scene, TRIES[name], turn)
        assert Counter(codes) == {None: 1, "NOT_A_MEMBER": 1}
        assert (await synced.next())["reason"] == "MEMBERSHIP"
        await synced.expect_no_event(0.03)
        _, seen = await end(processes, deployments, scene)
        assert len(seen[scene.alice]["history"]) == 2
        assert [message["seq"] for message in seen[scene.carol]["history"]] == [1]


Ending = tuple[Try, str]


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS.keys())
@pytest.mark.parametrize("against", [*range(len(EVERYTHING)), None], ids=str)
async def test_a_group_that_ends_while_it_is_changed_has_ended_for_all(
    api: Api, other_api: Api, deployments: Deployments, ending: Ending, against: int | None
) -> None:
    processes = (api, other_api)
    last, code = ending
    others = EVERYTHING if against is None else [EVERYTHING[against]]
    tries = [last, *(Try(a.who, a.query, (*a.codes, code), a.user, a.role) for a in others)]
    for turn in range(ROUNDS):
        scene = await make(api)
        codes = await outcomes(processes, scene, tries, turn)
        state, seen = await end(processes, deployments, scene)
        if codes[0] is None:
            assert state == ("gone" if code == WHO else "dissolved")
        else:
            # Somebody else owned it by then.
            assert (state, seen[scene.alice]["group"]["viewerRole"]) == ("active", "MEMBER")


async def test_a_group_is_ended_once(api: Api, other_api: Api, deployments: Deployments) -> None:
    tries: list[tuple[str, str, tuple[str, ...]]] = [
        (DISMISS, DISMISS, (WHO,)),
        (DISSOLVE, DISSOLVE, (GONE,)),
        (DISMISS, DISSOLVE, (WHO, GONE)),
    ]
    for one, other, codes in tries:
        for turn in range(ROUNDS):
            scene = await make(api)
            pair = [Try("alice", one, codes), Try("alice", other, codes)]
            found = await outcomes((api, other_api), scene, pair, turn)
            assert found.count(None) == 1
            await end((api, other_api), deployments, scene)


async def test_a_storm_of_everything_ends_in_a_legal_state(api: Api, other_api: Api, deployments: Deployments) -> None:
    everything = [attempt for tries in TRIES.values() for attempt in tries]
    legal = {"FORBIDDEN", "NOT_A_MEMBER", "OWNER_CANNOT_LEAVE", "INVALID_INPUT", "NOT_FOUND", None}
    for turn in range(3):
        scene = await make(api)
        order = everything[turn * 7 :] + everything[: turn * 7]
        codes = await gather_all(*(a.run((api, other_api)[i % 2], scene) for i, a in enumerate(order)))
        assert set(codes) <= legal
        await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
        state, _ = await end((api, other_api), deployments, scene)
        assert state == "active"


async def test_what_was_decided_on_a_group_that_is_another_by_then_is_decided_anew(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(carol, group, "hello")
    outbox = api.services.app.store.outbox
    reserve = outbox.reserve_change

    async def overtaken(*args: Any, **named: Any) -> Any:
        monkeypatch.setattr(outbox, "reserve_change", reserve)
        await other_api.leave(bob, group)
        await other_api.wait_until_idle()
        return await reserve(*args, **named)

    monkeypatch.setattr(outbox, "reserve_change", overtaken)
    assert await api.expect_refusal(alice, REMOVE, id=group, user=bob) == Refusal("NOT_A_MEMBER", "userId")
    assert [message["content"] for message in await api.history(alice, group)] == ["hello", f"{bob} left"]
    shown = await api.own_group(alice, group)
    assert (shown["memberCount"], roles_of(shown)) == (2, {alice: "OWNER", carol: "MEMBER"})
    check_group_state(await read_as_users(api, [alice, bob, carol], group))
