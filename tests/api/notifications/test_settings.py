"""Users set what they are notified of; null leaves a setting as it is, and refused input changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.client import Api, Refusal
from tests.api.notifications.calls import EVERYTHING, NOTHING_SET, SET, set_settings, settings_of
from tests.api.requests.test_budgets import Meter

NIGHT = {"doNotDisturbFrom": "22:00", "doNotDisturbTo": "06:30"}


async def test_settings_are_the_users_own_and_the_same_on_all_servers(api: Api, other_api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    assert await settings_of(api, alice) == NOTHING_SET
    assert await set_settings(api, alice, **EVERYTHING) == EVERYTHING
    for process in (other_api, api):
        assert await settings_of(process, alice) == EVERYTHING
        assert await settings_of(process, bob) == NOTHING_SET
    assert await set_settings(other_api, alice, showPreview=True) == EVERYTHING | {"showPreview": True}
    assert await settings_of(api, alice) == EVERYTHING | {"showPreview": True}


@pytest.mark.parametrize("name", EVERYTHING)
async def test_each_setting_is_changed_alone(api: Api, name: str) -> None:
    (alice,) = await api.create_users("alice")
    other = {"doNotDisturbFrom": "doNotDisturbTo", "doNotDisturbTo": "doNotDisturbFrom"}.get(name)
    before = await set_settings(api, alice, **({name: "01:00", other: "02:00"} if other is not None else {}))
    given = dict.fromkeys(EVERYTHING) | {name: EVERYTHING[name]}
    assert await set_settings(api, alice, **given) == before | {name: EVERYTHING[name]}
    back = dict.fromkeys(EVERYTHING) | {name: before[name]}
    assert await set_settings(api, alice, **back) == before
    assert await settings_of(api, alice) == before


@pytest.mark.parametrize("off", [{"doNotDisturbFrom": ""}, {"doNotDisturbTo": ""}, dict.fromkeys(NIGHT, "")])
async def test_an_empty_time_switches_do_not_disturb_off(api: Api, off: dict[str, str]) -> None:
    (alice,) = await api.create_users("alice")
    assert await set_settings(api, alice, **NIGHT) == NOTHING_SET | NIGHT
    assert await set_settings(api, alice, **off) == NOTHING_SET
    assert await set_settings(api, alice, **off) == NOTHING_SET
    assert await settings_of(api, alice) == NOTHING_SET


async def test_keywords_that_differ_in_case_or_marks_only_are_kept_once(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    given = [" Café ", "cafe", "CAFÉ", "东京", "x" * 64, "C++"]
    assert (await set_settings(api, alice, keywords=given))["keywords"] == ["Café", "东京", "x" * 64, "C++"]
    most = [f"word {number}" for number in range(100)]
    assert (await set_settings(api, alice, keywords=most))["keywords"] == most
    assert (await set_settings(api, alice, keywords=[]))["keywords"] == []


@pytest.mark.parametrize(
    ("input", "field"),
    [
        *(({name: time}, name) for name in NIGHT for time in ("24:00", "7:00", "07:60", "07:00 ", "\u0660\u0667:00")),
        ({"doNotDisturbFrom": "22:00"}, "doNotDisturbTo"),
        ({"doNotDisturbTo": "22:00"}, "doNotDisturbFrom"),
        ({"doNotDisturbFrom": "22:00", "doNotDisturbTo": "22:00"}, "doNotDisturbTo"),
        ({"doNotDisturbFrom": "22:00", "doNotDisturbTo": ""}, "doNotDisturbTo"),
        ({"doNotDisturbFrom": "", "doNotDisturbTo": "22:00"}, "doNotDisturbFrom"),
        *(({"timeZone": name}, "timeZone") for name in ("", "Mars/Base", "../UTC", "/etc/localtime", "europe/paris")),
        *(({"delaySeconds": seconds}, "delaySeconds") for seconds in (-1, 3_601)),
        ({"keywords": [f"word {number}" for number in range(101)]}, "keywords"),
        *(({"keywords": ["ok", word]}, "keywords") for word in ("", "x" * 65, " ", "a\nb", "\0", "\u0301", "\ud800")),
    ],
)
async def test_refused_input_changes_nothing(api: Api, input: dict[str, Any], field: str) -> None:
    (alice,) = await api.create_users("alice")
    await set_settings(api, alice, level="NONE")
    stored = await api.stored_hashes()
    refusal = await api.expect_refusal(alice, SET, input={"level": "MENTIONS", "showPreview": False} | input)
    assert refusal == Refusal("INVALID_INPUT", field)
    assert await api.stored_hashes() == stored
    assert await settings_of(api, alice) == NOTHING_SET | {"level": "NONE"}


async def test_a_time_that_equals_the_stored_other_one_is_refused(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    await set_settings(api, alice, **NIGHT)
    refusal = await api.expect_refusal(alice, SET, input={"doNotDisturbFrom": NIGHT["doNotDisturbTo"]})
    assert refusal == Refusal("INVALID_INPUT", "doNotDisturbTo")
    assert await settings_of(api, alice) == NOTHING_SET | NIGHT


async def test_the_same_settings_again_are_not_written(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    device = await api.listen(alice)
    for input in ({}, NOTHING_SET | dict.fromkeys(NIGHT, ""), dict.fromkeys(EVERYTHING)):
        stored = await api.stored_hashes()
        assert await set_settings(api, alice, **input) == NOTHING_SET
        assert await api.stored_hashes() == stored
    await set_settings(api, alice, **EVERYTHING)
    stored = await api.stored_hashes()
    assert await set_settings(api, alice, **EVERYTHING) == EVERYTHING
    assert await api.stored_hashes() == stored
    await device.expect_no_event()


async def test_budgets_of_settings(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    meter, switch = Meter(api), [False]

    async def change() -> None:
        switch[0] = not switch[0]
        await set_settings(api, alice, showPreview=switch[0])

    await meter.expect("changing settings", change, 2, 2)
    document = "{ notificationSettings { level keywords } }"
    await meter.expect("reading settings", lambda: api.data(alice, document), 0, 1)
