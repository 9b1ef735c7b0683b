"""Pairs of users who are prepared in the same way. One of each departs, the other becomes INVISIBLE."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from store.base.ids import UserId
from store.presence.presence_record import DeviceType
from tests.api.client import Api, Json, Subscriber, private_id, wait_until
from tests.api.devices.calls import Line
from tests.api.presence.calls import REPORT, SET_PRESENCE, SET_STATUS
from tests.api.workspaces.calls import add_members, create_workspace
from tests.clock import ManualClock

ACK = "mutation ($id: ID!, $seq: Int!) { ackDelivered(conversationId: $id, upToSeq: $seq) { id } }"
INCOMING = """subscription { messageEvents { __typename
    ... on MessageCreated { message { conversationId seq } } } }"""


MILLISECONDS = re.compile(r"(?<=deliveredAt\":\"....-..-..T..:..:..)\.\d{3}")
CURSOR = re.compile(r"(?<=ursor\":\")[\w-]+")


@dataclass(frozen=True)
class Preparation:
    """The device of both users of a pair, and what it shows."""

    type: DeviceType
    setting: str
    status: str | None
    activities: Sequence[Json]
    is_idle: bool

    @classmethod
    def choose(cls, random: Random) -> Preparation:
        """Return any preparation."""
        activities = [{"type": "PLAYING", "name": f"game {number}"} for number in range(random.randrange(3))]
        return cls(
            random.choice(list(DeviceType)),
            random.choice(["ONLINE", "ONLINE", "IDLE", "DND"]),
            random.choice([None, "at sea"]),
            activities,
            random.random() < 0.3,
        )

    @property
    def shown(self) -> str:
        """The status that others see."""
        return "IDLE" if self.setting == "ONLINE" and self.is_idle else self.setting


@dataclass
class Person:
    """A user of a pair, and what the user shares with the observer. `is_invisible`: the kind of the transition.

    newest_seq: The seq of the newest message in the private conversation.
    """

    user: str
    private: str
    workspace: str
    newest_seq: int = 0
    is_invisible: bool = False
    line: Line | None = None
    incoming: Subscriber | None = None

    def anonymous(self, text: str) -> str:
        """Return a response without the ids of this user, also in cursors, which are base64."""
        text = CURSOR.sub(lambda found: b64decode(f"{found[0]}==", altchars=b"-_").decode(), text)
        # Times of receipts are those of ids, which are a millisecond apart at the same time of the clock.
        text = MILLISECONDS.sub("", text)
        # The last form is that of names in cursors.
        for value in (self.private, self.workspace, self.user, self.user.replace("-", " ")):
            text = text.replace(value, "this user's")
        return text


@dataclass
class TwoServers:
    """The users' server, the observer's server, and the clock of both."""

    there: Api
    here: Api
    clock: ManualClock

    async def settle(self, seconds: float = 0) -> None:
        """Let time pass, and everything happen that is due."""
        self.clock.ms += round(seconds * 1000)
        apis = (self.there, self.here)
        for api in apis:
            # A lease ends by this clock.
            await api.advance_days(self.clock, 0)
        for api in (*apis, *apis):
            await api.services.app.live_servers.report()
        for api in apis:
            app = api.services.app
            await app.devices.check()
            await until(lambda writer=app.devices._writer: writer._task is None)
        for api in apis:
            users = api.services.app.presence.users
            users.derive_soon()
            # A millisecond before a change, a task that does nothing begins every 10 ms.
            await until(lambda users=users: not users._due and not users._has_change_now())
            await api.services.app.online.write()
            await api.wait_until_idle()


async def until(check: Callable[[], bool]) -> None:
    """Wait until a check returns true."""

    async def is_true() -> bool:
        return check()

    await wait_until(is_true)


@dataclass
class Pairs:
    """The pairs of users, and the observer, who shares a conversation, a group and a workspace with each of them."""

    servers: TwoServers
    random: Random
    observer: str
    pairs: list[tuple[Person, Person]]
    preparations: list[Preparation] = field(default_factory=list)

    @classmethod
    async def create(cls, servers: TwoServers, random: Random, count: int) -> Pairs:
        """Create users who are not connected."""
        api = servers.there
        (observer,) = await api.create_users("observer")

        async def create_pair() -> tuple[Person, Person]:
            users = await api.create_users("person1", "person2")
            await api.create_group(observer, *users)
            people = []
            for user in users:
                await api.send(observer, user)
                workspace = await create_workspace(api, observer)
                await add_members(api, workspace, user)
                people.append(Person(user, private_id(observer, user), workspace))
            return people[0], people[1]

        return cls(servers, random, observer, [await create_pair() for _ in range(count)])

    @property
    def people(self) -> list[Person]:
        """All users but the observer."""
        return [person for pair in self.pairs for person in pair]

    async def connect(self) -> None:
        """Connect all users, prepare both of each pair in the same way, and choose the one who becomes INVISIBLE."""
        self.preparations = [Preparation.choose(self.random) for _ in self.pairs]
        for pair, preparation in zip(self.pairs, self.preparations, strict=True):
            chosen = self.random.choice(pair)
            for person in pair:
                person.is_invisible = person is chosen
                await self._prepare(person, preparation)
        await self.servers.settle()
        await self.servers.settle(20)
        for person in self.people:
            sent = await self.servers.here.send(self.observer, person.user)
            person.newest_seq = sent["message"]["seq"]
        await self.acknowledge()

    async def _prepare(self, person: Person, preparation: Preparation) -> None:
        api = self.servers.there
        person.line = Line(api, person.user, f"device of {person.user}", preparation.type)
        await api.data(person.user, SET_PRESENCE, status=preparation.setting)
        await api.data(person.user, SET_STATUS, text=preparation.status)
        await person.line.data(REPORT, active=not preparation.is_idle, activities=preparation.activities)
        person.incoming = await api.subscribe(person.user, INCOMING)
        await person.incoming.next()

    async def transit(self) -> None:
        """Let one of each pair depart, and the other become INVISIBLE, at the same time of the clock."""
        people = self.people
        self.random.shuffle(people)
        for person in people:
            if person.is_invisible:
                await self.servers.there.data(person.user, SET_PRESENCE, status="INVISIBLE")
            else:
                assert person.line is not None and person.incoming is not None
                person.line.device.end()
                await person.incoming.stop()
        await self.servers.settle()
        users = self.servers.here.services.app.presence.users
        for person in people:
            watched = users.find(UserId(person.user))
            # The frame about the transition has come: the user is going to be OFFLINE.
            await until(lambda watched=watched: watched is not None and watched.changes_at_ms is not None)

    async def acknowledge(self) -> None:
        """Let the devices that are still connected acknowledge what they got, as devices do."""
        connected = [person for person in self.people if person.line is not None and person.line.device.local.closers]
        for person in connected:
            assert person.line is not None
            await person.line.data(ACK, id=person.private, seq=person.newest_seq)
        for api in (self.servers.here, self.servers.there):
            await api.wait_until_idle()

    async def disconnect(self) -> None:
        """End all connections, and forget that some were INVISIBLE."""
        for person in self.people:
            assert person.line is not None and person.incoming is not None
            if person.is_invisible:
                person.line.device.end()
                await person.incoming.stop()
            await self.servers.there.data(person.user, SET_PRESENCE, status="ONLINE")
        await self.servers.settle()
        await self.servers.settle(100)
        await self.servers.settle()
