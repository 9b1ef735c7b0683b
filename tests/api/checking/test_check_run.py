"""Only differences that persist are reported; servers may write during a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from store.checking.check import Difference, Objects, Scope
from store.checking.check_run import CheckRun
from store.mongo.paced_reads import RowPace
from tests.api.channels.session_calls import FOLLOW, READ
from tests.api.checking.conftest import Data
from tests.api.client import gather_all
from tests.api.reactions.calls import react, take_back
from tests.checking import run_checks

Reading = tuple[int, int] | None
"""Stored and expected value of the one field; None: they agree."""


class ScriptedCheck:
    """Shows one user in several readings, the last of which lasts."""

    name: ClassVar[str] = "scripted"
    scope: ClassVar[Scope] = Scope(Objects.USER)

    def __init__(self, user: str, readings: Sequence[Reading]) -> None:
        self._user = user
        self._readings = list(readings)
        self.repaired: list[Difference] = []

    async def compare(self, ids: Sequence[str]) -> list[Difference]:
        reading = self._readings.pop(0) if len(self._readings) > 1 else self._readings[0]
        if self._user not in ids or reading is None:
            return []
        return [Difference(self.name, self._user, "count", *reading)]

    async def repair(self, object_id: str, differences: Sequence[Difference]) -> None:
        self.repaired += differences
        self._readings = [None]


async def run(data: Data, readings: Sequence[Reading], *, repairs: bool = False) -> tuple[ScriptedCheck, CheckRun]:
    store = data.api.services.app.store
    check = ScriptedCheck(data.alice, readings)
    return check, CheckRun(store, store, RowPace(1e9), repairs=repairs, settle_seconds=(0, 0, 0))


async def test_a_difference_that_ends_is_not_reported(data: Data) -> None:
    check, checks = await run(data, [(1, 2), (1, 2), (1, 2), None], repairs=True)
    result = await checks.run(lambda _: check)
    assert (result.differences, result.unsettled, check.repaired) == ([], [], [])


async def test_a_difference_that_stays_is_reported(data: Data) -> None:
    check, checks = await run(data, [(1, 2)])
    result = await checks.run(lambda _: check)
    assert [(each.value, each.expected) for each in result.differences] == [(1, 2)]
    assert check.repaired == []


async def test_an_object_that_differs_each_time_is_not_judged(data: Data) -> None:
    check, checks = await run(data, [(number, number + 1) for number in range(20)], repairs=True)
    result = await checks.run(lambda _: check)
    assert (result.differences, result.unsettled, check.repaired) == ([], [data.alice], [])


async def test_a_repaired_difference_is_no_longer_a_difference(data: Data) -> None:
    check, checks = await run(data, [(1, 2)], repairs=True)
    result = await checks.run(lambda _: check)
    assert (result.differences, len(result.repaired), len(check.repaired)) == ([], 1, 1)


async def test_one_object_is_checked_alone(data: Data) -> None:
    data.api.database["conversations"].update_one({"_id": data.group}, {"$set": {"mc": 9}})
    store = data.api.services.app.store
    other = await run_checks(store, object=(Objects.CONVERSATION, data.private))
    assert [result.name for result in other.values() if result.differences] == []
    assert {result.objects for result in other.values()} == {0, 1}
    own = await run_checks(store, object=(Objects.CONVERSATION, data.group), repairs=True)
    assert [result.name for result in own.values() if result.repaired] == ["members"]
    missing = await run_checks(store, object=(Objects.CONVERSATION, "g_1"))
    assert sum(result.objects for result in missing.values()) == 0


async def test_reads_keep_to_the_rate() -> None:
    pace, loop = RowPace(1_000), asyncio.get_running_loop()
    began = loop.time()
    for _ in range(4):
        await pace.spend(50)
    # A lower bound: a busy machine only makes it later.
    assert loop.time() - began >= 0.19
    assert pace.rows == 200


async def test_a_run_while_users_write_reports_nothing(data: Data) -> None:
    api, made = data.api, data.made

    async def write() -> None:
        for number in range(15):
            await gather_all(
                api.send(data.alice, data.bob, str(number)),
                api.send(data.bob, data.group, str(number), mentionAll=True),
                api.send(made.owner, data.channel, str(number), mentions=[made.member]),
                api.data(made.member, FOLLOW, id=data.channel, follow=bool(number % 2)),
                api.data(data.alice, READ, id=data.private),
                react(api, data.alice, data.message, "🎉")
                if number % 2
                else take_back(api, data.alice, data.message, "🎉"),
            )

    writing = asyncio.create_task(write())
    found: list[str] = []
    runs = 0
    while not writing.done():
        # Readings go on until the differences are gone, or as long as a repair would wait.
        results = await run_checks(api.services.app.store, settle_seconds=(0.2,) * 50)
        found += [str(each) for result in results.values() for each in result.differences]
        runs += 1
    await writing
    await api.data(made.member, FOLLOW, id=data.channel)
    await api.wait_until_idle()
    assert found == []
    assert runs > 0


def test_differences_are_lines_of_a_report() -> None:
    difference = Difference("members", "g_1", "number of members", 9, 3)
    assert str(difference) == "members: g_1: number of members is 9, expected 3"
