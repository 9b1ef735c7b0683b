"""The history of one day of a chat, as users page through it who joined and left while it was written.

The day is the sample log, repeated once per part. CONFAB_TEST_DAY names another log, which is cut into parts instead.
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
from hypothesis import given, settings
from hypothesis import strategies as st

from server.chat_import.command import import_chat
from server.chat_import.log_file import read_chat
from server.chat_import.plan import IMPORTER, make_plan
from tests.api.client import Api, Json, gather_all
from tests.api.conftest import Deployments, OpenApi

SAMPLE = Path(__file__).parents[2] / "data" / "irc-sample.jsonl"

PARTS = 6
GAPS = {1: 70, 2: 5, 3: 300}
"""After which parts of the day Redis was lost, and how many places were lost with it."""

BUCKET = 32
"""Places per bucket. So few that a day fills many buckets, and a gap leaves some empty."""

TURNS = {"member": 3, "former": 4}
"""Users who join and leave, and how often within a part of the day. `member` is in the group at the end."""

RESTLESS = {"restless member": 50, "restless former": 50}
"""Users whose membership rows in MongoDB get this many membership intervals."""

USERS = [*TURNS, *RESTLESS]
VISIBILITIES = ["SINCE_JOIN", "FULL"]

# Senders are left out: their names would need another query.
PAGE = """query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String) {
    messages(conversationId: $id, first: $first, after: $after, last: $last, before: $before) {
        pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { id seq content } } } }"""

few_examples = settings(max_examples=6)
page_sizes = st.one_of(st.integers(1, 100), st.sampled_from([1, 2, 99, 100]))
page_moves = st.lists(st.tuples(st.booleans(), page_sizes), min_size=1, max_size=6)

Intervals = list[tuple[int, int | None]]


@dataclass
class Day:
    """A group into which a day's chat was imported while users joined and left, and its message rows in order."""

    api: Api
    name: str
    group: str
    users: dict[str, str]
    rows: list[Json]
    intervals: dict[str, Intervals]
    """Membership intervals of each user: first and last seq."""
    last_page: str = "SINCE_JOIN"
    cursors: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def visible(self, user: str, visibility: str) -> list[Json]:
        """Return the messages that the contract lets a user read, in the form of a page."""
        intervals = self.intervals[user] if visibility == "SINCE_JOIN" else [(1, self.intervals[user][-1][1])]
        return [
            {"id": f"m_{row['_id']}", "seq": row["s"], "content": row["t"]}
            for row in self.rows
            if any(first <= row["s"] and (last is None or row["s"] <= last) for first, last in intervals)
        ]

    async def readable(self, user: str, visibility: str) -> tuple[list[Json], list[str]]:
        """Set the group's visibility. Return what the user may read, and its cursors."""
        if visibility != self.last_page:
            await self.api.update_group(IMPORTER, self.group, historyVisibility=visibility)
            await self.api.wait_until_idle()
            self.last_page = visibility
        expected = self.visible(user, visibility)
        if (user, visibility) not in self.cursors:
            self.cursors[user, visibility] = await self.walk(user, expected, 100, back=False)
        return expected, self.cursors[user, visibility]

    async def page(self, user: str, **arguments: object) -> Json:
        readable: Json = (await self.api.data(self.users[user], PAGE, id=self.group, **arguments))["messages"]
        return readable

    async def check_page(self, user: str, expected: list[Json], expected_slice: slice, **arguments: object) -> Json:
        """Request a page. Fail if it does not hold this slice of the expected messages."""
        page = await self.page(user, **arguments)
        assert [edge["node"] for edge in page["edges"]] == expected[expected_slice]
        cursors = [edge["cursor"] for edge in page["edges"]]
        assert page["pageInfo"] == {
            "hasPreviousPage": expected_slice.start > 0,
            "hasNextPage": expected_slice.stop < len(expected),
            "startCursor": cursors[0] if cursors else None,
            "endCursor": cursors[-1] if cursors else None,
        }
        return page

    async def walk(self, user: str, expected: list[Json], size: int, *, back: bool) -> list[str]:
        """Read and check all pages from one end to the other. Return their cursors in order of seq."""
        cursors: list[str] = []
        while len(cursors) < len(expected):
            read, remaining = len(cursors), len(expected) - len(cursors)
            if back:
                cursor = cursors[0] if cursors else None
                page = await self.check_page(
                    user, expected, slice(max(remaining - size, 0), remaining), last=size, before=cursor
                )
            else:
                cursor = cursors[-1] if cursors else None
                last = min(read + size, len(expected))
                page = await self.check_page(user, expected, slice(read, last), first=size, after=cursor)
            page_cursors = [edge["cursor"] for edge in page["edges"]]
            cursors = page_cursors + cursors if back else cursors + page_cursors
        return cursors


def parts_of_the_day(folder: Path) -> Iterator[Path]:
    """Write one log per part of the day. The repeated sample has different texts in each part."""
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


async def join_and_leave(api: Api, group: str, user: str, turns: range) -> None:
    """Join in every even turn; in every odd turn leave, or be removed."""
    for turn in turns:
        if turn % 2 == 0:
            await api.invite(IMPORTER, group, user)
            await api.send(user, group, f"what {user} says in turn {turn}")
        elif turn % 4 == 1:
            await api.leave(user, group)
        else:
            await api.remove(IMPORTER, group, user)


def read_intervals(rows: list[Json], user: str) -> Intervals:
    """Return the membership intervals of a user, as the SYSTEM messages about them tell."""
    seqs = [row["s"] for row in rows if row["k"] == "S" and user in row["m"]]
    last_seqs = [seq - 1 for seq in seqs[1::2]]
    return list(zip(seqs[::2], [*last_seqs, None][: len(seqs[::2])], strict=True))


def lose_places(api: Api, deployments: Deployments, name: str, group: str, count: int) -> None:
    """Lose Redis, with places that it had given to messages that were never stored."""
    deployments.flush_redis(name)
    api.database["conversations"].update_one({"_id": group}, {"$inc": {"s": count}})


def add_intervals(api: Api, group: str, user: str, actual: Intervals, times: int) -> Intervals:
    """Write many more intervals into a membership row, before the existing one."""
    ((joined, remaining),) = actual
    bounds = sorted(random.Random(times).sample(range(1, joined), 2 * (times - 1)))
    intervals: Intervals = [*zip(bounds[::2], bounds[1::2], strict=True), (joined, remaining)]
    stored = [[first, -1 if last is None else last] for first, last in intervals]
    result = api.database["members"].update_one({"_id": f"{group} {user}"}, {"$set": {"i": stored}})
    assert result.modified_count == 1
    return intervals


@pytest.fixture(scope="module")
async def day(
    open_api: OpenApi, deployments: Deployments, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Day]:
    name, group = "day", ""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("store.base.ids.BUCKET_SIZE", BUCKET)
        async with open_api(name) as api:
            user_ids = await api.create_users(*(user.replace(" ", "-") for user in USERS))
            users = dict(zip(USERS, user_ids, strict=True))
            for number, path in enumerate(parts_of_the_day(tmp_path_factory.mktemp("day"))):
                chat = read_chat(path)
                import_task = import_chat(api.services, chat, make_plan(chat), "#day", lambda _: None)
                if not group:
                    group = (await import_task).group
                    continue
                turns = {user: range((number - 1) * count, number * count) for user, count in TURNS.items()}
                await gather_all(import_task, *(join_and_leave(api, group, users[user], turns[user]) for user in TURNS))
                await api.wait_until_idle()
                if number in GAPS:
                    lose_places(api, deployments, name, group, GAPS[number])
            await api.invite(IMPORTER, group, users["member"], *(users[user] for user in RESTLESS))
            await api.send(users["restless former"], group)
            await api.leave(users["restless former"], group)
            await api.send(IMPORTER, group, "what nobody else sees who left")
            await api.wait_until_idle()
            rows = list(api.database["messages"].find({"c": group}).sort("s", 1))
            intervals = {user: read_intervals(rows, user_id) for user, user_id in users.items()}
            for user, times in RESTLESS.items():
                intervals[user] = add_intervals(api, group, users[user], intervals[user], times)
            deployments.flush_redis(name)
            yield Day(api, name, group, users, rows, intervals)


def test_the_generated_day_covers_all_cases(day: Day) -> None:
    assert {user: len(intervals) for user, intervals in day.intervals.items()} == {
        "member": TURNS["member"] * (PARTS - 1) // 2 + 1,
        "former": TURNS["former"] * (PARTS - 1) // 2,
        **RESTLESS,
    }
    seqs = [row["s"] for row in day.rows]
    assert {after - before - 1 for before, after in pairwise(seqs)} >= {0, *GAPS.values()}
    assert len({row["b"] for row in day.rows}) < seqs[-1] // BUCKET
    for user in USERS:
        assert day.intervals[user][-1][1] is None if user.endswith("member") else day.intervals[user][-1][1] is not None
        since_join, full = (day.visible(user, visibility) for visibility in VISIBILITIES)
        assert 80 < len(since_join) < len(full) <= len(day.rows)
        # Some intervals span several buckets, and some reach into an empty bucket.
        assert any(last is not None and last // BUCKET > first // BUCKET for first, last in day.intervals[user])


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("user", USERS)
@few_examples
@given(start=st.one_of(st.none(), st.integers(0, 10_000)), moves=page_moves)
async def test_pages_of_any_size_and_direction_hold_exactly_the_readable_messages(
    day: Day, user: str, visibility: str, start: int | None, moves: list[tuple[bool, int]]
) -> None:
    expected, cursors = await day.readable(user, visibility)
    # First and last index of the page read last.
    last_page = None if start is None else (start % len(expected), start % len(expected))
    for back, size in moves:
        if back:
            last = last_page[0] if last_page is not None else len(expected)
            first, before = max(last - size, 0), cursors[last] if last_page is not None else None
            await day.check_page(user, expected, slice(first, last), last=size, before=before)
        else:
            first = last_page[1] + 1 if last_page is not None else 0
            last, after = min(first + size, len(expected)), cursors[first - 1] if last_page is not None else None
            await day.check_page(user, expected, slice(first, last), first=size, after=after)
        last_page = (first, last - 1) if first < last else last_page


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("user", USERS)
async def test_pages_survive_the_loss_of_the_cache(
    day: Day, deployments: Deployments, user: str, visibility: str
) -> None:
    expected, cursors = await day.readable(user, visibility)
    deployments.flush_redis(day.name)
    assert await day.walk(user, expected, 41, back=False) == cursors
    deployments.flush_redis(day.name)
    assert await day.walk(user, expected, 83, back=True) == cursors


@pytest.mark.parametrize("visibility", VISIBILITIES)
@pytest.mark.parametrize("user", USERS)
async def test_a_page_needs_one_query_that_reads_only_its_messages(day: Day, user: str, visibility: str) -> None:
    expected, cursors = await day.readable(user, visibility)
    mongo, database = day.api.services.app.store.mongo, day.api.database
    middle = cursors[len(expected) // 2]
    for arguments in ({"first": 1}, {"last": 100}, {"first": 50, "after": middle}, {"last": 50, "before": middle}):
        database["system.profile"].drop()
        trips = []
        database.command("profile", 2)
        # Housekeeping may send a query in between, and more of them after a loss of Redis.
        while not trips or (min(trips) > 1 and len(trips) < 50):
            before = mongo.trips
            shown = len((await day.page(user, **arguments))["edges"])
            trips.append(mongo.trips - before)
        database.command("profile", 0)
        assert min(trips) == 1
        profiled = database["system.profile"].find({"ns": f"{database.name}.messages"})
        # Housekeeping reads messages of all conversations.
        queries = [read for read in profiled if day.group in str(read["command"]["filter"])]
        assert len(queries) == len(trips)
        for read in queries:
            assert read["docsExamined"] == read["nreturned"] in (shown, shown + 1)
            assert read["keysExamined"] <= shown + 1 + 2 * len(day.intervals[user])
