"""Members join, leave, follow, unfollow, are added and removed at once, while channels become PRIVATE and PUBLIC.

`CONFAB_TEST_FOLLOWING_ROUNDS` sets the number of rounds, `CONFAB_TEST_SEED` the seed.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from tests.api.channels.calls import ADD as ADD_TO_WORKSPACE
from tests.api.channels.calls import CREATE_WORKSPACE, Made
from tests.api.channels.calls import UPDATE as UPDATE_CHANNEL
from tests.api.channels.follow_calls import rows_of
from tests.api.channels.session_calls import ADD, FOLLOW, REMOVE, followed_by
from tests.api.client import Api, Json, gather_all
from tests.api.workspaces.calls import JOIN, LEAVE, SERVICE, expect_right_counts

ROUNDS = int(os.environ.get("CONFAB_TEST_FOLLOWING_ROUNDS", "4"))
SEED = int(os.environ.get("CONFAB_TEST_SEED", "1"))

REFUSED = {"NOT_FOUND", "NOT_A_MEMBER", "INVALID_INPUT"}
MAYBE_DONE = {"UNAVAILABLE"}


class Step(NamedTuple):
    """A request, with the users in channels that it may bring in, and those that it may bring out."""

    name: str
    call: Callable[[Api], Awaitable[Json]]
    begins: frozenset[tuple[str, str]] = frozenset()
    ends: frozenset[tuple[str, str]] = frozenset()


class Scene:
    """A workspace with an owner, users who come and go, and channels that all of them may see while PUBLIC."""

    def __init__(self, servers: list[Api], random_: random.Random) -> None:
        self.servers = servers
        self.random = random_
        self.outcomes: Counter[str] = Counter()

    async def create(self) -> Scene:
        api = self.servers[0]
        self.owner, *self.users = await api.create_users("owner", "ann", "bob", "cleo")
        made = await api.data(self.owner, CREATE_WORKSPACE, input={"name": "Hikers", "isOpen": True})
        self.made = Made(api, made["createWorkspace"]["id"], self.owner, self.users[0], "")
        self.default = (await self.made.create("default", isDefault=True))["id"]
        self.side = (await self.made.create("side"))["id"]
        self.staff = (await self.made.create("staff", kind="PRIVATE"))["id"]
        self.channels = [self.default, self.side, self.staff]
        return self

    def plan(self) -> Step:
        """Return a random request."""
        user, channel = self.random.choice(self.users), self.random.choice(self.channels)
        one, everywhere = frozenset({(user, channel)}), frozenset((user, each) for each in self.channels)
        choose = self.random.choice(
            [self._join, self._leave, self._follow, self._follow, self._unfollow, self._add, self._remove, self._turn]
        )
        return choose(user, channel, one, everywhere)

    def _join(self, user: str, _channel: str, _one: Any, _everywhere: Any) -> Step:
        in_default = frozenset({(user, self.default)})
        if self.random.random() < 0.5:
            return Step("join", lambda api: api.run(user, JOIN, id=self.made.id), in_default)
        users = self.random.sample(self.users, 2)
        call = lambda api: api.run(SERVICE, ADD_TO_WORKSPACE, id=self.made.id, users=users)  # noqa: E731
        return Step("add to workspace", call, frozenset((each, self.default) for each in users))

    def _leave(self, user: str, _channel: str, _one: Any, everywhere: Any) -> Step:
        return Step("leave", lambda api: api.run(user, LEAVE, id=self.made.id), ends=everywhere)

    def _follow(self, user: str, channel: str, one: Any, _everywhere: Any) -> Step:
        return Step("follow", lambda api: api.run(user, FOLLOW, id=channel), begins=one)

    def _unfollow(self, user: str, channel: str, one: Any, _everywhere: Any) -> Step:
        return Step("unfollow", lambda api: api.run(user, FOLLOW, id=channel, follow=False), ends=one)

    def _add(self, _user: str, channel: str, _one: Any, _everywhere: Any) -> Step:
        users = self.random.sample(self.users, 2)
        begins = frozenset((each, channel) for each in users)
        return Step("add", lambda api: api.run(self.owner, ADD, id=channel, users=users), begins)

    def _remove(self, user: str, channel: str, one: Any, _everywhere: Any) -> Step:
        return Step("remove", lambda api: api.run(self.owner, REMOVE, id=channel, user=user), ends=one)

    def _turn(self, *_: Any) -> Step:
        fields = {"kind": self.random.choice(["PUBLIC", "PRIVATE"])}
        channel = self.random.choice([self.side, self.staff])
        return Step("turn", lambda api: api.run(self.owner, UPDATE_CHANNEL, id=channel, input=fields))

    async def race(self, steps: list[Step]) -> None:
        """Make requests at once. Fail unless each user is where one of the requests that were accepted has led."""
        before = self.stored()
        answers = await gather_all(*(step.call(self.random.choice(self.servers)) for step in steps))
        begun, ended = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
        for step, answer in zip(steps, answers, strict=True):
            code = answer["errors"][0]["extensions"]["code"] if "errors" in answer else "done"
            self.outcomes[f"{step.name}: {code}"] += 1
            assert code in {"done", *REFUSED, *MAYBE_DONE}, (step.name, answer)
            if code not in REFUSED:
                begun.update(step.begins)
                ended.update(step.ends)
        after = self.stored()
        for place in after ^ before:
            assert (begun if place in after else ended)[place], f"{place}: {place in before} -> {place in after}"
        if len(steps) == 1:
            (step,) = steps
            await self._expect_alone(step, answers[0], after)
        await self._expect_clients_see(after)

    async def _expect_alone(self, step: Step, answer: Json, after: set[tuple[str, str]]) -> None:
        if "errors" not in answer and step.name in ("follow", "add", "unfollow", "remove", "leave"):
            assert step.begins <= after and not step.ends & after, step

    def stored(self) -> set[tuple[str, str]]:
        """Return the users in each channel. Fail unless all counts agree, and all of them are members."""
        expect_right_counts(self.servers[0], self.made.id)
        places = {(user, channel) for channel in self.channels for user in rows_of(self.servers[0], channel)}
        return {place for place in places if place[0] != self.owner}

    async def _expect_clients_see(self, places: set[tuple[str, str]]) -> None:
        """Fail unless the servers' cached states have exactly the stored followers."""
        for user in self.users:
            wanted = sorted(channel for each, channel in places if each == user)
            assert sorted(await followed_by(self.random.choice(self.servers), user, self.made.id)) == wanted


def delay_transactions(server: Api, random_: random.Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass between a decision and its transaction, as a busy server does."""
    mongo = server.services.app.store.mongo
    transaction = mongo.transaction

    async def later(work: Any) -> None:
        await asyncio.sleep(random_.choice([0, 0, random_.uniform(0, 0.03)]))
        await transaction(work)

    monkeypatch.setattr(mongo, "transaction", later)


async def test_nobody_is_in_a_channel_that_they_did_not_join(
    api: Api, other_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_ = random.Random(SEED)
    servers = [api, other_api]
    scene = await Scene(servers, random_).create()
    for server in servers:
        delay_transactions(server, random_, monkeypatch)
    for number in range(ROUNDS):
        await scene.race([scene.plan() for _ in range(1 if number % 4 == 3 else 7)])
    print(dict(scene.outcomes))
