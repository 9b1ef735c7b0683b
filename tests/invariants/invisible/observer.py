"""An observer who asks about users, notes the answers, and measures how long each takes."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import zip_longest
from random import Random
from typing import Any

import orjson

from store.base.ids import UserId
from tests.api.client import Json, Subscriber, gather_all, wait_until
from tests.api.devices.calls import Line
from tests.api.presence.calls import PRESENCE, PRESENCE_OF, PRESENCES
from tests.api.workspaces.calls import MEMBERS
from tests.invariants.invisible.pairs import Pairs, Person
from tests.invariants.invisible.rank_test import RankTest

EVENTS = f"subscription ($users: [ID!]!) {{ presenceEvents(userIds: $users) {{ {PRESENCE} at }} }}"
START_TYPING = "mutation ($id: ID!) { startTyping(conversationId: $id) }"
STOP_TYPING = "mutation ($id: ID!) { stopTyping(conversationId: $id) }"
RECEIPTS = """seq delivery { status recipientCount deliveredCount readCount }
    receipts { edges { node { user { id } status deliveredAt readAt } } }"""
SEND = f"""mutation ($id: ID!) {{ sendMessage(input: {{ conversationId: $id, content: "hello" }}) {{
    replayed message {{ {RECEIPTS} }} session {{ unreadCount }} }} }}"""
LAST_MESSAGE = f"query ($id: ID!) {{ conversation(id: $id) {{ title lastMessage {{ {RECEIPTS} }} }} }}"
ONLINE_COUNT = "query ($id: ID!) { workspace(id: $id) { onlineCount memberCount } }"

_Question = tuple[str, Callable[[Person], Json]]

QUESTIONS: dict[str, _Question] = {
    "presences": (PRESENCES, lambda person: {"users": [person.user]}),
    "User.presence": (PRESENCE_OF, lambda person: {"id": person.user}),
    "startTyping": (START_TYPING, lambda person: {"id": person.private}),
    "stopTyping": (STOP_TYPING, lambda person: {"id": person.private}),
    "sendMessage": (SEND, lambda person: {"id": person.private}),
    "delivery and receipts": (LAST_MESSAGE, lambda person: {"id": person.private}),
    "members(online: true)": (MEMBERS, lambda person: {"id": person.workspace, "online": True}),
    "onlineCount": (ONLINE_COUNT, lambda person: {"id": person.workspace}),
}
"""The operations. Each is asked about one user."""

ON_THE_SAME_SERVER = "presences, on the user's server"
"""No subscription of that server shows the users, so their records are read from Redis."""


class Observer:
    """The observer's connection and subscription, and everything that was answered."""

    def __init__(self, pairs: Pairs, random: Random) -> None:
        self._pairs = pairs
        self._random = random
        self._lines = {name: Line(pairs.servers.here, pairs.observer, "here") for name in QUESTIONS}
        self._lines[ON_THE_SAME_SERVER] = Line(pairs.servers.there, pairs.observer, "there")
        self._subscriber: Subscriber | None = None
        self._events: list[Json] = []
        self.answers: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
        """Questions with their times of the clock, and the answers, for each user."""
        self.times: defaultdict[tuple[str, bool], list[float]] = defaultdict(list)
        """The response times (s) of each operation, about users who departed, and about INVISIBLE ones."""
        self.first_is_invisible: list[bool] = []
        """True for each pair whose INVISIBLE user was announced first."""

    # Events

    async def subscribe(self) -> None:
        """Show all users, who are connected, and note their first states."""
        people = self._pairs.people
        here, query = self._pairs.servers.here, EVENTS
        await self._until_prepared()
        self._subscriber = await here.subscribe(self._pairs.observer, query, users=[each.user for each in people])
        first = await self._subscriber.take(len(people))
        shown = {event["user"]["id"]: event["status"] for event in first}
        for pair, preparation in zip(self._pairs.pairs, self._pairs.preparations, strict=True):
            assert [shown[person.user] for person in pair] == [preparation.shown] * 2, (shown, preparation)
        self._note_events(first)

    async def _until_prepared(self) -> None:
        """Wait until the observer's server shows all users as they were prepared.

        It still watches users of an earlier subscription, so it learns of them by frames, which take a moment.
        """
        pairs = self._pairs
        prepared = {
            UserId(person.user): preparation.shown
            for pair, preparation in zip(pairs.pairs, pairs.preparations, strict=True)
            for person in pair
        }

        async def is_shown() -> bool:
            found = await pairs.servers.here.services.app.presence.read(list(prepared))
            return {user: shown.status.value for user, shown in found.items()} == prepared

        await wait_until(is_shown)

    async def unsubscribe(self) -> None:
        """Note all events that are still to come until each user was shown as OFFLINE, and end the subscription."""
        assert self._subscriber is not None
        offline = [event["user"]["id"] for event in self._events if event["status"] == "OFFLINE"]
        while len(set(offline)) < len(self._pairs.people):
            event = await self._subscriber.next()
            self._events.append(event)
            if event["status"] == "OFFLINE":
                offline.append(event["user"]["id"])
        places = {user: place for place, user in enumerate(offline)}
        for first, second in self._pairs.pairs:
            is_first = places[first.user] < places[second.user]
            self.first_is_invisible.append(is_first is first.is_invisible)
        await self._subscriber.expect_no_event()
        await self._subscriber.stop()
        self._note_events(self._events)
        self._events = []

    def _note_events(self, events: list[Json]) -> None:
        people = {person.user: person for person in self._pairs.people}
        for event in events:
            self._note(people[event["user"]["id"]], "event", event)

    def take_events(self) -> None:
        """Note when the events came that have come since the last call."""
        assert self._subscriber is not None
        self._events += self._subscriber.pop_events()

    # Questions

    async def ask(self, moment: str, *, is_measured: bool = True) -> None:
        """Ask everything about every user, in random order. moment: the part of the transition, for the statistics."""
        names = [*QUESTIONS, ON_THE_SAME_SERVER]
        order = {person.user: self._random.sample(names, len(names)) for person in self._pairs.people}
        for index in range(len(names)):
            people = self._pairs.people
            self._random.shuffle(people)
            twins = {person.user: self._twin(person) for person in people}
            for person in people:
                # Both users of a pair are asked about in the same order of operations.
                name = order[min(person.user, twins[person.user].user)][index]
                await self._ask(name, person, moment if is_measured else None)
                await gather_all(*(api.wait_until_idle() for api in self._apis))
        self.take_events()

    @property
    def _apis(self) -> tuple[Any, Any]:
        return self._pairs.servers.here, self._pairs.servers.there

    def _twin(self, person: Person) -> Person:
        (pair,) = (pair for pair in self._pairs.pairs if person in pair)
        return pair[1] if pair[0] is person else pair[0]

    async def _ask(self, name: str, person: Person, moment: str | None) -> None:
        question, variables = QUESTIONS.get(name, QUESTIONS["presences"])
        line = self._lines[name]
        await asyncio.sleep(0)
        began = time.perf_counter()
        response = await line.run(question, **variables(person))
        seconds = time.perf_counter() - began
        if moment is not None:
            self.times[f"{name}, {moment}", person.is_invisible].append(seconds)
        self._note(person, name, response)
        if name == "sendMessage":
            person.newest_seq = response["data"]["sendMessage"]["message"]["seq"]

    def _note(self, person: Person, name: str, answer: Any) -> None:
        text = person.anonymous(orjson.dumps(answer, option=orjson.OPT_SORT_KEYS).decode())
        self.answers[person.user].append((f"{name} at {self._pairs.servers.clock.ms}", text))

    # Results

    def check_answers(self) -> None:
        """Check that both users of each pair were answered alike, and forget the answers."""
        for pair in self._pairs.pairs:
            departed, invisible = sorted(pair, key=lambda person: person.is_invisible)
            answers = zip_longest(self.answers[departed.user], self.answers[invisible.user])
            different = [f"departed: {first}\nINVISIBLE: {second}" for first, second in answers if first != second]
            assert not different, "\n".join(different[:5])
        self.answers.clear()

    def tests(self) -> list[RankTest]:
        """Return the comparison of the response times of each operation."""
        names = sorted({name for name, _ in self.times})
        return [RankTest(name, self.times[name, False], self.times[name, True]) for name in names]
