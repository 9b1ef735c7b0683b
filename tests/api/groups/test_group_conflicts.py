"""Concurrent changes of one group that contradict each other: the outcome is valid and the same for everybody."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest

from tests.api.client import INVITE, SEND, Api, Json, Refusal, gather_all
from tests.api.conftest import Deployments
from tests.api.group_calls import DISMISS, DISSOLVE, LEAVE, REMOVE, SET_ROLE, TRANSFER, UPDATE_GROUP, roles_of
from tests.api.group_checks import check_group_state, read_as_users
from tests.api.json_differences import differences

ROUNDS = 1


@dataclass(frozen=True)
class ConflictGroup:
    """A group of alice, her admin bob, carol and dave; erin is not in it."""

    group: str
    alice: str
    bob: str
    carol: str
    dave: str
    erin: str

    @property
    def users(self) -> tuple[str, ...]:
        return (self.alice, self.bob, self.carol, self.dave, self.erin)


@dataclass(frozen=True)
class ConcurrentCall:
    """One of the concurrent calls, and the codes with which it may be refused."""

    caller: str
    query: str
    codes: tuple[str, ...] = ()
    user: str | None = None
    role: str | None = None

    async def run(self, api: Api, case_: ConflictGroup) -> str | None:
        """Run the call. Return the code of its refusal, or None."""
        target = getattr(case_, self.user) if self.user else None
        variables: Json = {"id": case_.group}
        match self.query:
            case _ if self.query is INVITE:
                variables["users"] = [target]
            case _ if self.query is UPDATE_GROUP:
                variables["input"] = {"name": f"By {self.caller}"}
            case _ if self.query is SEND:
                variables = {"input": {"conversationId": case_.group, "content": "hello"}}
            case _ if self.query is SET_ROLE:
                variables |= {"user": target, "role": self.role}
            case _ if target is not None:
                variables["user"] = target
        response = await api.run(getattr(case_, self.caller), self.query, **variables)
        if "errors" not in response:
            return None
        (error,) = response["errors"]
        code: str = error["extensions"]["code"]
        return code


async def create_case(api: Api) -> ConflictGroup:
    users = await api.create_users("alice", "bob", "carol", "dave", "erin")
    group = await api.create_group(*users[:4])
    await api.set_role(users[0], group, users[1], "ADMIN")
    await api.send(users[2], group, "before")
    return ConflictGroup(group, *users)


NO, GONE, UNKNOWN = "FORBIDDEN", "NOT_A_MEMBER", "NOT_FOUND"

CONFLICTS: dict[str, list[ConcurrentCall]] = {
    "two transfers": [
        ConcurrentCall("alice", TRANSFER, (NO,), "bob"),
        ConcurrentCall("alice", TRANSFER, (NO,), "carol"),
    ],
    "the same transfer twice": [
        ConcurrentCall("alice", TRANSFER, (NO,), "bob"),
        ConcurrentCall("alice", TRANSFER, (NO,), "bob"),
    ],
    "a transfer to a leaving member": [
        ConcurrentCall("alice", TRANSFER, (GONE,), "carol"),
        ConcurrentCall("carol", LEAVE, ("OWNER_CANNOT_LEAVE",)),
    ],
    "a transfer to a removed member": [
        ConcurrentCall("alice", TRANSFER, (GONE,), "carol"),
        ConcurrentCall("bob", REMOVE, (NO,), "carol"),
    ],
    "a transfer and the old owner leaving": [
        ConcurrentCall("alice", TRANSFER, (GONE,), "carol"),
        ConcurrentCall("alice", LEAVE, ("OWNER_CANNOT_LEAVE",)),
    ],
    "removing and promoting": [
        ConcurrentCall("bob", REMOVE, (NO,), "carol"),
        ConcurrentCall("alice", SET_ROLE, (GONE,), "carol", "ADMIN"),
    ],
    "a removal by a demoted admin": [
        ConcurrentCall("bob", REMOVE, (NO,), "carol"),
        ConcurrentCall("alice", SET_ROLE, (), "bob", "MEMBER"),
    ],
    "a removal by a removed admin": [
        ConcurrentCall("bob", REMOVE, (GONE,), "carol"),
        ConcurrentCall("alice", REMOVE, (), "bob"),
    ],
    "two removals": [
        ConcurrentCall("alice", REMOVE, (GONE,), "carol"),
        ConcurrentCall("bob", REMOVE, (GONE,), "carol"),
    ],
    "leaving twice": [ConcurrentCall("carol", LEAVE, (GONE,)), ConcurrentCall("carol", LEAVE, (GONE,))],
    "leaving and being removed": [
        ConcurrentCall("carol", LEAVE, (GONE,)),
        ConcurrentCall("bob", REMOVE, (GONE,), "carol"),
    ],
    "two members leaving": [ConcurrentCall("carol", LEAVE), ConcurrentCall("dave", LEAVE)],
    "inviting and removing the same user": [
        ConcurrentCall("carol", INVITE, (), "erin"),
        ConcurrentCall("bob", REMOVE, (GONE,), "erin"),
        ConcurrentCall("dave", INVITE, (), "erin"),
    ],
    "inviting a leaving member": [ConcurrentCall("carol", LEAVE), ConcurrentCall("dave", INVITE, (), "carol")],
    "an invitation by a leaving member": [
        ConcurrentCall("carol", LEAVE),
        ConcurrentCall("carol", INVITE, (GONE,), "erin"),
    ],
    "two roles": [
        ConcurrentCall("alice", SET_ROLE, (), "carol", "ADMIN"),
        ConcurrentCall("alice", SET_ROLE, (), "carol", "MEMBER"),
    ],
    "a role and a transfer": [
        ConcurrentCall("alice", SET_ROLE, (NO,), "carol", "ADMIN"),
        ConcurrentCall("alice", TRANSFER, (), "carol"),
    ],
    "two names": [ConcurrentCall("alice", UPDATE_GROUP), ConcurrentCall("bob", UPDATE_GROUP)],
    "a name by a demoted admin": [
        ConcurrentCall("bob", UPDATE_GROUP, (NO,)),
        ConcurrentCall("alice", SET_ROLE, (), "bob", "MEMBER"),
    ],
    "writing and leaving": [
        ConcurrentCall("carol", SEND, (GONE,)),
        ConcurrentCall("carol", LEAVE),
        ConcurrentCall("alice", SEND),
        ConcurrentCall("dave", SEND),
    ],
    "all members leaving": [ConcurrentCall(user, LEAVE) for user in ("bob", "carol", "dave")],
}
ALL_CALLS = [
    ConcurrentCall("alice", TRANSFER, (NO, GONE), "bob"),
    ConcurrentCall("bob", REMOVE, (NO, GONE), "carol"),
    ConcurrentCall("alice", SET_ROLE, (NO, GONE), "dave", "ADMIN"),
    ConcurrentCall("carol", INVITE, (GONE,), "erin"),
    ConcurrentCall("dave", LEAVE, (GONE,)),
    ConcurrentCall("bob", UPDATE_GROUP, (NO, GONE)),
    ConcurrentCall("carol", SEND, (GONE,)),
    ConcurrentCall("alice", SEND, (GONE,)),
]
ENDINGS = {
    "dismissing": (ConcurrentCall("alice", DISMISS, (NO,)), UNKNOWN),
    "dissolving": (ConcurrentCall("alice", DISSOLVE, (NO,)), GONE),
}


async def run_concurrently(
    processes: tuple[Api, ...], case_: ConflictGroup, calls: list[ConcurrentCall], turn: int
) -> list[str | None]:
    """Run the calls concurrently, in a different order each turn. Fail if one is refused with an unexpected code."""
    offset = turn % len(calls)
    order = calls[offset:] + calls[:offset]
    codes = await gather_all(*(a.run(processes[i % len(processes)], case_) for i, a in enumerate(order)))
    for call, code in zip(order, codes, strict=True):
        assert code is None or code in call.codes, (call, code)
    await gather_all(*(process.wait_until_idle() for process in processes))
    return codes[len(codes) - offset :] + codes[: len(codes) - offset]


async def check_state(
    processes: tuple[Api, ...], deployments: Deployments, case_: ConflictGroup
) -> tuple[str, dict[str, Json]]:
    """Return the state of the group. Check that it is valid, the same at all processes, and the same after a loss."""
    views = await read_as_users(processes[0], case_.users, case_.group)
    state = check_group_state(views)
    for process in processes[1:]:
        assert differences(views, await read_as_users(process, case_.users, case_.group)) == {}
    deployments.flush_redis("main")
    for process in processes:
        assert differences(views, await read_as_users(process, case_.users, case_.group)) == {}
    return state, views


WITH_OWN_TESTS = ("two transfers", "two removals", "leaving twice", "leaving and being removed")
"""Conflicts whose outcomes other tests check in more detail."""


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(calls, id=name, marks=[pytest.mark.long] * (name in WITH_OWN_TESTS))
        for name, calls in CONFLICTS.items()
    ],
)
async def test_concurrent_changes_end_in_a_valid_state(
    api: Api, other_api: Api, deployments: Deployments, calls: list[ConcurrentCall]
) -> None:
    for turn in range(ROUNDS):
        processes = (api,) if turn == 1 else (api, other_api)
        case_ = await create_case(api)
        codes = await run_concurrently(processes, case_, calls, turn)
        assert None in codes, "at least one call succeeds"
        state, _ = await check_state(processes, deployments, case_)
        assert state == "active"


async def test_one_of_two_concurrent_transfers_succeeds(api: Api, other_api: Api, deployments: Deployments) -> None:
    processes = (api, other_api)
    for turn in range(ROUNDS):
        case_ = await create_case(api)
        codes = await run_concurrently(processes, case_, CONFLICTS["two transfers"], turn)
        assert Counter(codes) == {None: 1, "FORBIDDEN": 1}
        _, views = await check_state(processes, deployments, case_)
        winner = (case_.bob, case_.carol)[codes.index(None)]
        assert views[case_.alice]["group"]["owner"]["id"] == winner
        system_message = views[case_.alice]["history"][-1]
        assert (system_message["contentType"], system_message["mentions"]) == ("SYSTEM", [{"id": winner}])
        assert len(views[case_.alice]["history"]) == 2


@pytest.mark.parametrize("name", ["two removals", "leaving twice", "leaving and being removed"])
async def test_a_member_who_leaves_twice_concurrently_leaves_once(
    api: Api, other_api: Api, deployments: Deployments, name: str
) -> None:
    processes = (api, other_api)
    for turn in range(ROUNDS):
        case_ = await create_case(api)
        listener = await api.listen(case_.carol, "subscription { syncSession { reason cursor reset } }")
        codes = await run_concurrently(processes, case_, CONFLICTS[name], turn)
        assert Counter(codes) == {None: 1, "NOT_A_MEMBER": 1}
        assert (await listener.next())["reason"] == "MEMBERSHIP"
        await listener.expect_no_event(0.03)
        _, views = await check_state(processes, deployments, case_)
        assert len(views[case_.alice]["history"]) == 2
        assert [message["seq"] for message in views[case_.carol]["history"]] == [1]


EndingCall = tuple[ConcurrentCall, str]


@pytest.mark.parametrize("end_call", ENDINGS.values(), ids=ENDINGS.keys())
@pytest.mark.parametrize(
    "other_index",
    [
        pytest.param(None, id="all at once"),
        *(pytest.param(index, id=str(index), marks=pytest.mark.long) for index in range(len(ALL_CALLS))),
    ],
)
async def test_a_group_that_ends_during_a_change_has_ended_for_everybody(
    api: Api, other_api: Api, deployments: Deployments, end_call: EndingCall, other_index: int | None
) -> None:
    processes = (api, other_api)
    ending, code = end_call
    others = ALL_CALLS if other_index is None else [ALL_CALLS[other_index]]
    calls = [ending, *(ConcurrentCall(a.caller, a.query, (*a.codes, code), a.user, a.role) for a in others)]
    for turn in range(ROUNDS):
        case_ = await create_case(api)
        codes = await run_concurrently(processes, case_, calls, turn)
        state, views = await check_state(processes, deployments, case_)
        if codes[0] is None:
            assert state == ("gone" if code == UNKNOWN else "dissolved")
        else:
            # Another user became the owner first.
            assert (state, views[case_.alice]["group"]["viewerRole"]) == ("active", "MEMBER")


async def test_a_group_ends_once(api: Api, other_api: Api, deployments: Deployments) -> None:
    calls: list[tuple[str, str, tuple[str, ...]]] = [
        (DISMISS, DISMISS, (UNKNOWN,)),
        (DISSOLVE, DISSOLVE, (GONE,)),
        (DISMISS, DISSOLVE, (UNKNOWN, GONE)),
    ]
    for first, second, codes in calls:
        for turn in range(ROUNDS):
            case_ = await create_case(api)
            both = [ConcurrentCall("alice", first, codes), ConcurrentCall("alice", second, codes)]
            codes_found = await run_concurrently((api, other_api), case_, both, turn)
            assert codes_found.count(None) == 1
            await check_state((api, other_api), deployments, case_)


async def test_many_concurrent_changes_end_in_a_valid_state(api: Api, other_api: Api, deployments: Deployments) -> None:
    all_calls = [call for calls in CONFLICTS.values() for call in calls]
    allowed = {"FORBIDDEN", "NOT_A_MEMBER", "OWNER_CANNOT_LEAVE", "INVALID_INPUT", "NOT_FOUND", None}
    for turn in range(3):
        case_ = await create_case(api)
        order = all_calls[turn * 7 :] + all_calls[: turn * 7]
        codes = await gather_all(*(a.run((api, other_api)[i % 2], case_) for i, a in enumerate(order)))
        assert set(codes) <= allowed
        await gather_all(api.wait_until_idle(), other_api.wait_until_idle())
        state, _ = await check_state((api, other_api), deployments, case_)
        assert state == "active"


async def test_a_change_based_on_an_old_state_is_decided_again(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice, bob, carol = await api.create_users("alice", "bob", "carol")
    group = await api.create_group(alice, bob, carol)
    await api.send(carol, group, "hello")
    outbox = api.services.app.store.outbox
    reserve = outbox.reserve_change

    async def reserve_after_leave(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(outbox, "reserve_change", reserve)
        await other_api.leave(bob, group)
        await other_api.wait_until_idle()
        return await reserve(*args, **options)

    monkeypatch.setattr(outbox, "reserve_change", reserve_after_leave)
    assert await api.expect_refusal(alice, REMOVE, id=group, user=bob) == Refusal("NOT_A_MEMBER", "userId")
    assert [message["content"] for message in await api.history(alice, group)] == ["hello", f"{bob} left"]
    returned_group = await api.own_group(alice, group)
    assert (returned_group["memberCount"], roles_of(returned_group)) == (2, {alice: "OWNER", carol: "MEMBER"})
    check_group_state(await read_as_users(api, [alice, bob, carol], group))
