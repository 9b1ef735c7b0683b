"""The history of a day's chat, as those page through it who came and went while it was written.

The day is the sample's, once for each of its parts; CONFAB_TEST_DAY names another log to be cut into parts instead.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.chat_import.command import import_chat
from server.chat_import.log_file import read_chat
from server.chat_import.plan import IMPORTER, make_plan
from tests.api.client import Api, Json, gather_all
from tests.api.conftest import Deployments, OpenApi

SAMPLE = Path(__file__).parents[2] / "data" / "irc-sample.jsonl"

PARTS = 6
GAPS = {1: 70, 2: 5, 3: 300}
"""After which parts of the day Redis was lost, and how many places with it."""

BUCKET = 32
"""Places of a bucket: so few that a day fills many, and a gap leaves some empty."""

TURNS = {"member": 3, "former": 4}
"""Who comes and goes, and how often within a part of the day. One is in the group at the end, the other is not."""

RESTLESS = {"restless member": 50, "restless former": 50}
"""Those of whom MongoDB says that they were in it as often."""

PEOPLE = [*TURNS, *RESTLESS]
VISIBILITIES = ["SINCE_JOIN", "FULL"]

# Senders are left out: their names are read beside the messages.
PAGE = """query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String) {
    messages(conversationId: $id, first: $first, after: $after, last: $last, before: $before) {
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { id seq content } } } }"""

few = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
sizes = st.one_of(st.integers(1, 100), st.sampled_from([1, 2, 99, 100]))
walks = st.lists(st.tuples(st.booleans(), sizes), min_size=1, max_size=6)

Stretches = list[tuple[int, int | None]]


@dataclass
class Day:
    """A group that a day's chat was imported into while people came and went, and what MongoDB holds of it, in order."""

    api: Api
    name: str
    group: str
    users: dict[str, str]
    rows: list[Json]
    stretches: dict[str, Stretches]
    """Of whom, when they were in it: first and last place."""
    shown: str = "SINCE_JOIN"
    cursors: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def visible(self, who: str, visibility: str) -> list[Json]:
        """What the contract lets somebody read of what is there, as a page shows it."""
        stretches = self.stretches[who] if visibility == "SINCE_JOIN" else [(1, self.stretches[who][-1][1])]
        return [
            {"id": f"m_{row['_id']}", "seq": row["s"], "content": row["t"]}
            for row in self.rows
            if any(first <= row["s"] and (last is None or row["s"] <= last) for first, last in stretches)
        ]

    async def listed(self, who: str, visibility: str) -> tuple[list[Json], list[str]]:
        """What somebody reads once the group is of a visibility, and its cursors."""
        if visibility != self.shown:
            await self.api.update_group(IMPORTER, self.group, historyVisibility=visibility)
            await self.api.wait_until_idle()
            self.shown = visibility
        expected = self.visible(who, visibility)
        if (who, visibility) not in self.cursors:
            self.cursors[who, visibility] = await self.walk(who, expected, 100, back=False)
        return expected, self.cursors[who, visibility]

    async def page(self, who: str, **asked: object) -> Json:
        listed: Json = (await self.api.data(self.users[who], PAGE, id=self.group, **asked))["messages"]
        return listed

    async def check_page(self, who: str, expected: list[Json], span: slice, **asked: object) -> Json:
        """Asks for a page that has to hold a span of what is expected."""
        page = await self.page(who, **asked)
        assert [edge["node"] for edge in page["edges"]] == expected[span]
        cursors = [edge["cursor"] for edge in page["edges"]]
        assert page["pageInfo"] == {
            "hasPreviousPage": span.start > 0,
            "hasNextPage": span.stop < len(expected),
            "startCursor": cursors[0] if cursors else None,
            "endCursor": cursors[-1] if cursors else None,
        }
        return page

    async def walk(self, who: str, expected: list[Json], size: int, *, back: bool) -> list[str]:
        """All pages from one end to the other, each as it has to be. Answers their cursors in order of seq."""
        found: list[str] = []
        while len(found) < len(expected):
            done, left = len(found), len(expected) - len(found)
            if back:
                cursor = found[0] if found else None
                page = await self.check_page(who, expected, slice(max(left - size, 0), left), last=size, before=cursor)
            else:
                cursor = found[-1] if found else None
                last = min(done + size, len(expected))
                page = await self.check_page(who, expected, slice(done, last), first=size, after=cursor)
            here = [edge["cursor"] for edge in page["edges"]]
            found = here + found if back else found + here
        return found


def parts_of_the_day(folder: Path) -> Iterator[Path]:
    """A log for each part. What is said in the sample is said in other words each time."""
    given_log = os.environ.get("CONFAB_TEST_DAY")
    lines = Path(given_log or SAMPLE).read_text().splitlines()
    for number in range(PARTS):
        if given_log:
            part = lines[number * len(lines) // PARTS : (number + 1) * len(lines) // PARTS]
        else:
            rows = [json.loads(line) for line in lines]
            part = [json.dumps(row | {"text": f"{row['text']} ({number})"} if "text" in row else row) for row in rows]
        path = folder / f"part{number}.jsonl"
        path.write_text("\n".join(part))
        yield path


async def come_and_go(api: Api, group: str, user: str, turns: range) -> None:
    """Comes with every other turn, and goes with those between: by themselves, or removed."""
    for turn in turns:
        if turn % 2 == 0:
            await api.invite(IMPORTER, group, user)
            await api.send(user, group, f"what {user} says in turn {turn}")
        elif turn % 4 == 1:
            await api.leave(user, group)
        else:
            await api.remove(IMPORTER, group, user)


def stretches_of(rows: list[Json], user: str) -> Stretches:
    """When somebody was in the group, by what is told of them there: that they came, that they went, that they came ..."""
    told = [row["s"] for row in rows if row["k"] == "S" and user in row["m"]]
    leaving = [border - 1 for border in told[1::2]]
    return list(zip(told[::2], [*leaving, None][: len(told[::2])], strict=True))


def lose_places(api: Api, deployments: Deployments, name: str, group: str, count: int) -> None:
    """Redis is lost, and with it places that it had given to messages which never got further."""
    deployments.flush_redis(name)
    api.database["conversations"].update_one({"_id": group}, {"$inc": {"s": count}})


def move_often(api: Api, group: str, user: str, actual: Stretches, times: int) -> Stretches:
    """Writes more stretches into a membership than anybody has the patience for, before the one there is."""
    ((joined, left),) = actual
    borders = sorted(random.Random(times).sample(range(1, joined), 2 * (times - 1)))
    stretches: Stretches = [*zip(borders[::2], borders[1::2], strict=True), (joined, left)]
    kept = [[first, -1 if last is None else last] for first, last in stretches]
    changed = api.database["members"].update_one({"_id": f"{group} {user}"}, {"$set": {"i": kept}})
    assert changed.modified_count == 1
    return stretches


@pytest.fixture(scope="module")
async def day(
    open_api: OpenApi, deployments: Deployments, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Day]:
    name, group = "day", ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("store.base.ids.BUCKET_SIZE", BUCKET)
        async with open_api(name) as api:
            made = await api.create_users(*(who.replace(" ", "-") for who in PEOPLE))
            users = dict(zip(PEOPLE, made, strict=True))
            for number, path in enumerate(parts_of_the_day(tmp_path_factory.mktemp("day"))):
                chat = read_chat(path)
                importing = import_chat(api.services, chat, make_plan(chat), "#day", lambda _: None)
                if not group:
                    group = (await importing).group
                    continue
                turns = {who: range((number - 1) * count, number * count) for who, count in TURNS.items()}
                await gather_all(importing, *(come_and_go(api, group, users[who], turns[who]) for who in TURNS))
                await api.wait_until_idle()
                if number in GAPS:
                    lose_places(api, deployments, name, group, GAPS[number])
            await api.invite(IMPORTER, group, users["member"], *(users[who] for who in RESTLESS))
            await api.send(users["restless former"], group)
            await api.leave(users["restless former"], group)
            await api.send(IMPORTER, group, "what nobody else sees who left")
            await api.wait_until_idle()
            rows = list(api.database["messages"].find({"c": group}).sort("s", 1))
            stretches = {who: stretches_of(rows, user) for who, user in users.items()}
            for who, times in RESTLESS.items():
                stretches[who] = move_often(api, group, users[who], stretches[who], times)
            deployments.flush_redis(name)
            yield Day(api, name, group, users, rows, stretches)


def test_the_day_is_one_that_can_show_something(day: Day) -> None:
    assert {who: len(stretches) for who, stretches in day.stretches.items()} == {
        "member": TURNS["member"] * (PARTS - 1) // 2 + 1,
        "former": TURNS["former"] * (PARTS - 1) // 2,
        **RESTLESS,
    }
    seqs = [row["s"] for row in day.rows]
    assert {after - before - 1 for before, after in pairwise(seqs)} >= {0, *GAPS.values()}
    assert len({row["b"] for row in day.rows}) < seqs[-1] // BUCKET
    for who in PEOPLE:
        assert day.stretches[who][-1][1] is None if who.endswith("member") else day.stretches[who][-1][1] is not None
        some, full = (day.visible(who, visibility) for visibility in VISIBILITIES)
        assert 80 < len(some) < len(full) <= len(day.rows)
        # Stretches that lie in several buckets, and some that reach into a place that was never filled.
        assert any(last is not None and last // BUCKET > first // BUCKET for first, last in day.stretches[who])


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("who", PEOPLE)
@few
@given(start=st.one_of(st.none(), st.integers(0, 10_000)), moves=walks)
async def test_pages_of_any_size_hold_exactly_what_one_may_read_whichever_way_one_turns(
    day: Day, who: str, visibility: str, start: int | None, moves: list[tuple[bool, int]]
) -> None:
    expected, cursors = await day.listed(who, visibility)
    # What was shown last, by its first and last index.
    shown = None if start is None else (start % len(expected), start % len(expected))
    for back, size in moves:
        if back:
            last = shown[0] if shown is not None else len(expected)
            first, before = max(last - size, 0), cursors[last] if shown is not None else None
            await day.check_page(who, expected, slice(first, last), last=size, before=before)
        else:
            first = shown[1] + 1 if shown is not None else 0
            last, after = min(first + size, len(expected)), cursors[first - 1] if shown is not None else None
            await day.check_page(who, expected, slice(first, last), first=size, after=after)
        shown = (first, last - 1) if first < last else shown


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("who", PEOPLE)
async def test_pages_are_the_same_after_the_cache_was_lost(
    day: Day, deployments: Deployments, who: str, visibility: str
) -> None:
    expected, cursors = await day.listed(who, visibility)
    deployments.flush_redis(day.name)
    assert await day.walk(who, expected, 41, back=False) == cursors
    deployments.flush_redis(day.name)
    assert await day.walk(who, expected, 83, back=True) == cursors


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("who", PEOPLE)
async def test_a_page_is_one_trip_that_reads_nothing_but_what_it_shows(day: Day, who: str, visibility: str) -> None:
    expected, cursors = await day.listed(who, visibility)
    mongo, database = day.api.services.app.store.mongo, day.api.database
    middle = cursors[len(expected) // 2]
    for asked in ({"first": 1}, {"last": 100}, {"first": 50, "after": middle}, {"last": 50, "before": middle}):
        database["system.profile"].drop()
        spent = []
        database.command("profile", 2)
        # Housekeeping may ask something in between, and more where Redis was lost just before.
        while not spent or (min(spent) > 1 and len(spent) < 50):
            before = mongo.trips
            shown = len((await day.page(who, **asked))["edges"])
            spent.append(mongo.trips - before)
        database.command("profile", 0)
        assert min(spent) == 1
        found = database["system.profile"].find({"ns": f"{database.name}.messages"})
        reads = [read for read in found if "_id" not in read["command"]["filter"]]
        assert len(reads) == len(spent)
        for read in reads:
            assert read["docsExamined"] == read["nreturned"] in (shown, shown + 1)
            assert read["keysExamined"] <= shown + 1 + 2 * len(day.stretches[who])
