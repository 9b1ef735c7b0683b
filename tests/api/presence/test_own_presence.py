"""Users set their presence and their custom status, and see both on all devices."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Api, Refusal, gather_all
from tests.api.presence.calls import (
    SET_PRESENCE,
    SET_STATUS,
    own_presence,
    presences,
    set_presence,
    set_status,
    status_of,
)
from tests.api.presence.conftest import TimedApi

NOTHING_SET = {"setting": "ONLINE", "until": None, "shown": "OFFLINE", "customStatus": None}
FAR = "9999-12-31T23:59:59.999Z"


@pytest.mark.parametrize("status", ["IDLE", "DND", "INVISIBLE"])
async def test_a_setting_lasts_until_it_is_set_again(timed: TimedApi, status: str) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    assert await own_presence(api, alice) == NOTHING_SET
    assert await set_presence(api, alice, status) == NOTHING_SET | {"setting": status}
    await timed.pass_time(90 * 86_400)
    assert await own_presence(api, alice) == NOTHING_SET | {"setting": status}
    assert await set_presence(api, alice, "ONLINE") == NOTHING_SET


@pytest.mark.parametrize("status", ["IDLE", "DND", "INVISIBLE"])
async def test_a_setting_with_an_end_becomes_online_by_itself(timed: TimedApi, status: str) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    until = timed.at(600)
    assert (await set_presence(api, bob, status, until))["until"] == until
    await timed.connect(bob)
    shown = {"INVISIBLE": "OFFLINE"}.get(status, status)
    await timed.pass_time(599.999)
    assert await own_presence(api, bob) == NOTHING_SET | {"setting": status, "until": until, "shown": shown}
    assert await status_of(api, alice, bob) == shown
    await timed.pass_time(0.001)
    assert await own_presence(api, bob) == NOTHING_SET | {"shown": "ONLINE"}
    assert await status_of(api, alice, bob) == "ONLINE"


async def test_the_end_of_a_setting_may_be_far_and_online_has_none(timed: TimedApi) -> None:
    (alice,) = await timed.api.create_users("alice")
    assert (await set_presence(timed.api, alice, "DND", FAR))["until"] == FAR
    assert await set_presence(timed.api, alice, "ONLINE", timed.at(60)) == NOTHING_SET


async def test_an_invisible_user_sees_the_own_setting_on_all_devices(timed: TimedApi, open_api: Any) -> None:
    alice, bob = await timed.api.create_users("alice", "bob")
    await timed.api.send(alice, bob)
    await timed.connect(bob)
    async with open_api("timed", timed.clock) as other:
        first = await set_presence(other, bob, "INVISIBLE")
        assert first == NOTHING_SET | {"setting": "INVISIBLE", "shown": "ONLINE"}
        await timed.pass_time(15)
        for process in (timed.api, other):
            assert await own_presence(process, bob) == NOTHING_SET | {"setting": "INVISIBLE"}
            assert await status_of(process, alice, bob) == "OFFLINE"
            assert await status_of(process, bob, bob) == "OFFLINE"
        # The same again does not begin the 15 s again.
        assert await set_presence(timed.api, bob, "INVISIBLE") == NOTHING_SET | {"setting": "INVISIBLE"}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ({"text": "lunch"}, {"text": "lunch", "emoji": None}),
        ({"emoji": "🍔"}, {"text": None, "emoji": "🍔"}),
        ({"text": "x" * 128, "emoji": "❤"}, {"text": "x" * 128, "emoji": "❤️"}),
        ({"text": "", "emoji": ":lunch:"}, {"text": None, "emoji": ":lunch:"}),
        ({"text": "lunch", "emoji": ""}, {"text": "lunch", "emoji": None}),
    ],
)
async def test_a_custom_status_is_a_text_an_emoji_or_both(
    timed: TimedApi, given: dict[str, Any], stored: dict[str, Any]
) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    expected = stored | {"expiresAt": None}
    assert (await set_status(api, bob, **given))["customStatus"] == expected
    assert (await own_presence(api, bob))["customStatus"] == expected
    assert (await presences(api, alice, bob))[0]["customStatus"] == expected


@pytest.mark.parametrize("nothing", [{}, {"text": None, "emoji": None}, {"text": "", "emoji": ""}])
async def test_a_custom_status_of_nothing_removes_it(timed: TimedApi, nothing: dict[str, Any]) -> None:
    (alice,) = await timed.api.create_users("alice")
    await set_status(timed.api, alice, text="lunch", expiresAt=timed.at(60))
    assert await set_status(timed.api, alice, **nothing, expiresAt=timed.at(60)) == NOTHING_SET


async def test_a_custom_status_ends_by_itself(timed: TimedApi) -> None:
    (alice,) = await timed.api.create_users("alice")
    await set_status(timed.api, alice, text="lunch", expiresAt=timed.at(60))
    await timed.pass_time(59.999)
    assert (await own_presence(timed.api, alice))["customStatus"]["text"] == "lunch"
    await timed.pass_time(0.001)
    assert await own_presence(timed.api, alice) == NOTHING_SET


async def test_setting_and_custom_status_do_not_change_each_other(timed: TimedApi) -> None:
    (alice,) = await timed.api.create_users("alice")
    await gather_all(set_presence(timed.api, alice, "DND"), set_status(timed.api, alice, text="lunch"))
    status = {"text": "lunch", "emoji": None, "expiresAt": None}
    expected = NOTHING_SET | {"setting": "DND", "customStatus": status}
    assert await own_presence(timed.api, alice) == expected
    await set_status(timed.api, alice)
    assert await own_presence(timed.api, alice) == NOTHING_SET | {"setting": "DND"}


async def test_settings_outlast_redis(losing_api: Api, deployments: Any) -> None:
    api = losing_api
    (alice,) = await api.create_users("alice")
    await set_presence(api, alice, "DND")
    await set_status(api, alice, text="lunch")
    before = await own_presence(api, alice)
    deployments.flush_redis("lost")
    await api.services.housekeeper.check_redis()
    assert await own_presence(api, alice) == before
    assert (before["setting"], before["customStatus"]["text"]) == ("DND", "lunch")


async def refused(timed: TimedApi, document: str, **fields: Any) -> tuple[str, str | None]:
    """Return code and field of a refusal, after a check that nothing was changed."""
    api = timed.api
    (alice,) = await api.create_users("alice")
    await set_presence(api, alice, "DND", timed.at(60))
    await set_status(api, alice, text="lunch", emoji="🍔", expiresAt=timed.at(60))
    before, stored = await own_presence(api, alice), await api.stored_documents()
    refusal = await api.expect_refusal(alice, document, **fields)
    assert await own_presence(api, alice) == before
    assert await api.stored_documents() == stored
    return refusal.code, refusal.field


@pytest.mark.parametrize("status", ["ONLINE", "IDLE", "INVISIBLE"])
@pytest.mark.parametrize("seconds", [0, -0.001, -1e9])
async def test_an_end_of_a_setting_that_is_past_is_refused(timed: TimedApi, status: str, seconds: float) -> None:
    fields = {"status": status, "until": timed.at(seconds)}
    assert await refused(timed, SET_PRESENCE, **fields) == ("INVALID_INPUT", "until")


@pytest.mark.parametrize("until", ["9999-12-31T23:59:59-10:00", "0001-01-01T00:00:00+10:00"])
async def test_an_end_that_cannot_be_expressed_is_refused(timed: TimedApi, until: str) -> None:
    assert await refused(timed, SET_PRESENCE, status="IDLE", until=until) == ("INVALID_INPUT", "until")
    assert await refused(timed, SET_STATUS, text="x", expiresAt=until) == ("INVALID_INPUT", "expiresAt")


@pytest.mark.parametrize("fields", [{"status": "OFFLINE"}, {"status": "online"}, {"status": None}, {}])
async def test_a_setting_that_does_not_exist_is_refused(timed: TimedApi, fields: dict[str, Any]) -> None:
    assert await refused(timed, SET_PRESENCE, **fields) == ("INVALID_INPUT", "status")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"text": "x" * 129}, "text"),
        ({"text": "a\nb"}, "text"),
        ({"text": "\x00"}, "text"),
        ({"text": "   "}, "text"),
        ({"text": "\ud800"}, "text"),
        ({"text": "x", "emoji": "ab"}, "emoji"),
        ({"text": "x", "emoji": "🍔🍔"}, "emoji"),
        ({"emoji": ":X:"}, "emoji"),
        ({"emoji": " "}, "emoji"),
    ],
)
async def test_a_malformed_custom_status_is_refused(timed: TimedApi, fields: dict[str, Any], field: str) -> None:
    assert await refused(timed, SET_STATUS, **fields) == ("INVALID_INPUT", field)


@pytest.mark.parametrize("fields", [{"text": "x"}, {}])
@pytest.mark.parametrize("seconds", [0, -60])
async def test_an_end_of_a_custom_status_that_is_past_is_refused(
    timed: TimedApi, fields: dict[str, Any], seconds: float
) -> None:
    fields = fields | {"expiresAt": timed.at(seconds)}
    assert await refused(timed, SET_STATUS, **fields) == ("INVALID_INPUT", "expiresAt")


@pytest.mark.parametrize(("document", "fields"), [(SET_PRESENCE, {"status": "DND"}), (SET_STATUS, {"text": "x"})])
async def test_setting_presence_needs_a_token(timed: TimedApi, document: str, fields: dict[str, Any]) -> None:
    assert await timed.api.expect_refusal(None, document, **fields) == Refusal("UNAUTHENTICATED")
