"""A device reports over its WebSocket whether it is in use, and what its user is doing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
import pytest

from store.base.ids import UserId
from store.presence.presence_record import DeviceType
from subscriptions.presence.connected_devices import DeviceConnection, GivenDevice
from subscriptions.transport.engine import ConnectionContext, GraphQLRequest, RequestRefused
from tests.api.client import Api, Json, Refusal, make_caller, parse_refusal, wait_until
from tests.api.presence.calls import REPORT, presences, set_presence
from tests.api.presence.conftest import TimedApi

GAME = {"type": "PLAYING", "name": "Chess"}
WHOLE = GAME | {
    "details": "blitz",
    "state": "in a match",
    "startedAt": "2026-01-01T00:00:00.000Z",
    "endsAt": "2026-01-01T00:00:00.000Z",
}
EMPTY = {"details": None, "state": None, "startedAt": None, "endsAt": None}


@dataclass
class Socket:
    """The WebSocket of a device, as operations see it."""

    api: Api
    user: str
    device: DeviceConnection

    async def report(self, **fields: Any) -> Json:
        """Return the response to a report."""
        engine, caller = self.api.services.engine, make_caller(self.user)
        request = GraphQLRequest(REPORT, {"active": True} | fields)
        connection: Any = self
        try:
            prepared = await engine.prepare(request, caller)
            response = await engine.execute(prepared, request, ConnectionContext(caller, "test", connection))
        except RequestRefused as refused:
            response = {"errors": refused.errors}
        decoded: Json = orjson.loads(orjson.dumps(response))
        return decoded


async def open_socket(api: Api, user: str, device: str = "phone", type: DeviceType = DeviceType.WEB) -> Socket:
    connection = api.services.app.devices.connect(UserId(user), GivenDevice(device, type), lambda: None)
    return Socket(api, user, connection)


async def shown_activities(api: Api, viewer: str, user: str) -> list[Json]:
    activities: list[Json] = (await presences(api, viewer, user))[0]["activities"]
    return activities


async def test_a_report_is_answered_with_the_own_presence_and_seen_by_others(timed: TimedApi) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    socket = await open_socket(api, bob)
    answer = await socket.report(activities=[WHOLE, GAME | {"type": "LISTENING"}])
    assert answer["data"]["reportActivity"] == {
        "setting": "ONLINE",
        "until": None,
        "shown": "ONLINE",
        "customStatus": None,
    }
    expected = [WHOLE, EMPTY | GAME | {"type": "LISTENING"}]
    assert await shown_activities(api, alice, bob) == expected
    # Without activities they stay.
    await socket.report(active=False)
    (shown,) = await presences(api, alice, bob)
    assert (shown["status"], shown["activities"]) == ("IDLE", expected)
    await socket.report(activities=[])
    (shown,) = await presences(api, alice, bob)
    assert (shown["status"], shown["activities"]) == ("ONLINE", [])


async def test_the_own_presence_has_the_own_devices(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    for user in (alice, bob):
        await open_socket(api, user, f"phone of {user}", DeviceType.MOBILE)
    document = "mutation { setPresence(status: DND) { devices { id type isCurrent } } }"

    async def are_listed() -> bool:
        devices = (await api.data(alice, document))["setPresence"]["devices"]
        return bool(devices == [{"id": f"phone of {alice}", "type": "MOBILE", "isCurrent": False}])

    await wait_until(are_listed)
    ready = await api.data(alice, "{ ready { presence { devices { id } } } }")
    assert ready["ready"]["presence"]["devices"] == [{"id": f"phone of {alice}"}]


async def test_activities_of_all_devices_are_shown_once_and_at_most_five(timed: TimedApi) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    for device in ("phone", "laptop"):
        names = ["both", *(f"{device}{number}" for number in range(4))]
        socket = await open_socket(api, bob, device)
        assert "errors" not in await socket.report(activities=[GAME | {"name": name} for name in names])
    names = [activity["name"] for activity in await shown_activities(api, alice, bob)]
    assert len(names) == len(set(names)) == 5


async def test_reports_of_an_invisible_user_show_nothing(timed: TimedApi) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    socket = await open_socket(api, bob)
    await socket.report()
    await set_presence(api, bob, "INVISIBLE")
    before = await presences(api, alice, bob)
    answer = await socket.report(active=False, activities=[GAME])
    assert answer["data"]["reportActivity"]["setting"] == "INVISIBLE"
    assert await presences(api, alice, bob) == before


async def test_an_activity_may_have_128_characters_in_each_text(timed: TimedApi) -> None:
    (alice,) = await timed.api.create_users("alice")
    socket = await open_socket(timed.api, alice)
    longest = GAME | {"name": "n" * 128, "details": "ü" * 128, "state": ""}
    assert "errors" not in await socket.report(activities=[longest] * 5)


@pytest.mark.parametrize(
    ("activities", "field"),
    [
        ([GAME] * 6, "activities"),
        ([GAME | {"name": ""}], "activities[0].name"),
        ([GAME, GAME | {"name": " "}], "activities[1].name"),
        ([GAME | {"name": "x" * 129}], "activities[0].name"),
        ([GAME | {"name": "a\nb"}], "activities[0].name"),
        ([GAME | {"details": "x" * 129}], "activities[0].details"),
        ([GAME | {"details": "\x7f"}], "activities[0].details"),
        ([GAME | {"state": "x" * 129}], "activities[0].state"),
        ([GAME | {"state": "\ud800"}], "activities[0].state"),
        ([GAME | {"startedAt": "1969-12-31T23:59:59Z"}], "activities[0].startedAt"),
        ([GAME | {"endsAt": "9999-12-31T23:59:59-01:00"}], "activities[0].endsAt"),
        ([WHOLE | {"endsAt": "2025-12-31T23:59:59.999Z"}], "activities[0].endsAt"),
        ([{"type": "PLAYING"}], "name"),
        ([{"type": "PLAYING", "name": None}], "name"),
        ([{"name": "Chess"}], "type"),
        ([GAME | {"type": "DANCING"}], "type"),
        ([None], "activities"),
        ([GAME | {"startedAt": "yesterday"}], "startedAt"),
    ],
)
async def test_malformed_activities_are_refused(timed: TimedApi, activities: list[Any], field: str) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    socket = await open_socket(api, bob)
    await socket.report(activities=[WHOLE])
    before = await presences(api, alice, bob)
    await timed.pass_time(1)
    answer = await socket.report(active=False, activities=activities)
    assert [parse_refusal(error) for error in answer["errors"]] == [Refusal("INVALID_INPUT", field)]
    assert await presences(api, alice, bob) == before


@pytest.mark.parametrize("fields", [{}, {"activities": [GAME]}])
async def test_a_report_over_http_is_refused(timed: TimedApi, fields: dict[str, Any]) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    socket = await open_socket(api, alice)
    await socket.report(activities=[WHOLE])
    before = await presences(api, alice, alice)
    assert before[0]["activities"] == [WHOLE]
    assert await api.expect_refusal(alice, REPORT, active=False, **fields) == Refusal("INVALID_INPUT")
    assert await api.expect_refusal(None, REPORT, active=False, **fields) == Refusal("UNAUTHENTICATED")
    assert await presences(api, alice, alice) == before
