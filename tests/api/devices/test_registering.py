"""Devices that their users register, rename and remove."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from schema.base.scalars import write_datetime
from store.base.errors import Unreachable
from store.devices.device import MAX_DEVICES
from store.mongo.collections import DEVICES, PUSH_TOKENS
from subscriptions.presence.device_rows import SEEN_MS
from tests.api.client import Api, Refusal
from tests.api.conftest import OpenApi
from tests.api.devices.calls import (
    NODE,
    REGISTER,
    REMOVE,
    Line,
    TimedDevices,
    list_devices,
    read_record,
    register,
    until,
    wait_for_rows,
)
from tests.push.services.subscription import Subscription

BROWSER = Subscription("https://push.test/abc")
POINT, SECRET = BROWSER.p256dh, BROWSER.auth
OFF_THE_CURVE = base64.urlsafe_b64encode(b"\x04" + bytes(range(64))).decode().rstrip("=")
WEB_PUSH = {"endpoint": "https://push.test/abc", "p256dh": POINT, "auth": SECRET}
APNS = {"pushPlatform": "APNS", "pushToken": "a1b2"}

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an empty id": ({"id": ""}, "id"),
    "a long id": ({"id": "x" * 65}, "id"),
    "an id with a line break": ({"id": "a\nb"}, "id"),
    "a long name": ({"name": "x" * 101}, "name"),
    "a blank name": ({"name": "  "}, "name"),
    "a name with a control character": ({"name": "a\x07"}, "name"),
    "a token without a platform": ({"pushToken": "t"}, "pushPlatform"),
    "keys without a platform": ({"webPush": WEB_PUSH}, "pushPlatform"),
    "a platform without a token": ({"pushPlatform": "FCM"}, "pushToken"),
    "an empty token": ({"pushPlatform": "FCM", "pushToken": ""}, "pushToken"),
    "a token with a space": ({"pushPlatform": "APNS", "pushToken": "a b"}, "pushToken"),
    "a long token": ({"pushPlatform": "APNS", "pushToken": "x" * 4097}, "pushToken"),
    "a token and keys": (APNS | {"webPush": WEB_PUSH}, "webPush"),
    "web push with a token": ({"pushPlatform": "WEB_PUSH", "pushToken": "t", "webPush": WEB_PUSH}, "pushToken"),
    "web push without keys": ({"pushPlatform": "WEB_PUSH"}, "webPush"),
    "an endpoint without TLS": ({"endpoint": "http://push.test/abc"}, "webPush.endpoint"),
    "an endpoint with a password": ({"endpoint": "https://a:b@push.test/"}, "webPush.endpoint"),
    "an endpoint without a host": ({"endpoint": "https:///abc"}, "webPush.endpoint"),
    "an endpoint that is no URL": ({"endpoint": "https://[push/"}, "webPush.endpoint"),
    "a long endpoint": ({"endpoint": "https://push.test/" + "x" * 2048}, "webPush.endpoint"),
    "an endpoint at port 0": ({"endpoint": "https://push.test:0/"}, "webPush.endpoint"),
    "an endpoint on loopback": ({"endpoint": "http://localhost:9000/"}, "webPush.endpoint"),
    "an endpoint at an address of loopback": ({"endpoint": "https://127.0.0.1/"}, "webPush.endpoint"),
    "an endpoint at a private address": ({"endpoint": "https://192.168.1.1/"}, "webPush.endpoint"),
    "an endpoint at a private IPv6 address": ({"endpoint": "https://[fd00::1]/"}, "webPush.endpoint"),
    "a key off the curve": ({"p256dh": OFF_THE_CURVE}, "webPush.p256dh"),
    "a short key": ({"p256dh": SECRET}, "webPush.p256dh"),
    "a compressed key": ({"p256dh": base64.urlsafe_b64encode(b"\x02" + bytes(64)).decode()}, "webPush.p256dh"),
    "a key that is not base64url": ({"p256dh": "+" * 87}, "webPush.p256dh"),
    "a long secret": ({"auth": POINT}, "webPush.auth"),
    "a locale with a space": ({"locale": "de CH"}, "locale"),
    "a long locale": ({"locale": "en-" + "-".join(["abcdefgh"] * 5)}, "locale"),
    "an empty locale": ({"locale": ""}, "locale"),
}
"""Fields of a device that are refused, and the field that the refusal names."""


def as_input(fields: dict[str, Any]) -> dict[str, Any]:
    keys = {name: value for name, value in fields.items() if name in WEB_PUSH}
    if keys:
        return {"id": "phone", "type": "WEB", "pushPlatform": "WEB_PUSH", "webPush": WEB_PUSH | keys}
    return {"id": "phone", "type": "WEB"} | fields


@pytest.mark.parametrize("case", BAD)
async def test_bad_input_is_refused_and_changes_nothing(api: Api, case: str) -> None:
    (alice,) = await api.create_users("alice")
    await register(api, alice, "phone", name="Mine", **APNS)
    before = await api.stored_documents()
    fields, field = BAD[case]
    assert await api.expect_refusal(alice, REGISTER, input=as_input(fields)) == Refusal("INVALID_INPUT", field)
    assert await api.stored_documents() == before


async def test_an_unknown_type_is_refused(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    for fields in ({"type": "TABLET"}, {"pushPlatform": "SMS"}, {"type": None}):
        assert (await api.expect_refusal(alice, REGISTER, input={"type": "WEB"} | fields)).code == "INVALID_INPUT"
    assert await list_devices(api, alice) == []


async def test_a_device_is_registered_renamed_and_removed(timed: TimedDevices) -> None:
    api = timed.api
    alice, bob = await api.create_users("alice", "bob")
    made = {
        "id": "phone", "type": "MOBILE", "name": "Räuchermännchen", "pushPlatform": "APNS",
        "lastSeenAt": write_datetime(timed.clock.ms), "isCurrent": False,
    }  # fmt: skip
    assert await register(api, alice, "phone", type="MOBILE", name="Räuchermännchen", **APNS) == made
    assert await list_devices(api, alice) == [made]
    await timed.pass_time(60)
    assert await register(api, alice, "phone", type="MOBILE", name="Work") == made | {"name": "Work"}
    assert await register(api, alice, "phone", type="MOBILE", name="") == made | {"name": None}
    assert await register(api, alice, "phone", type="MOBILE", pushToken="") == made | {
        "name": None, "pushPlatform": None
    }  # fmt: skip
    assert await list_devices(api, bob) == []
    assert await api.data(alice, REMOVE, id="phone") == {"removeDevice": True}
    assert await list_devices(api, alice) == []
    assert await api.expect_refusal(alice, REMOVE, id="phone") == Refusal("NOT_FOUND")
    assert api.database[PUSH_TOKENS].count_documents({"o": f"{alice} phone"}) == 0


async def test_without_an_id_a_new_device_is_made(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    first, second = await register(api, alice, None), await register(api, alice, None)
    assert first["id"] != second["id"] and first["id"].startswith("d_")
    assert len(await list_devices(api, alice)) == 2


async def test_the_id_of_a_device_means_nothing_for_other_users(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    device = await register(api, alice, "her phone", name="Alice's")
    before = await api.stored_documents()
    assert await api.data(bob, NODE, id="her phone") == {"node": None}
    for unknown in ("her phone", f"{alice} her phone", "", "x" * 65, "a\nb"):
        assert await api.expect_refusal(bob, REMOVE, id=unknown) == Refusal("NOT_FOUND")
    assert await api.stored_documents() == before
    await register(api, bob, "her phone", name="Bob's")
    assert [d["name"] for d in await list_devices(api, alice)] == ["Alice's"]
    assert (await api.data(alice, NODE, id="her phone"))["node"] == device
    await api.data(bob, REMOVE, id="her phone")
    assert await list_devices(api, alice) == [device]


async def test_a_push_token_moves_to_the_device_that_registers_it_last(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    token = {"pushPlatform": "FCM", "pushToken": f"token-of-{alice}"}
    await register(api, alice, "phone", name="First", **token)
    await register(api, alice, "other", **token)
    assert {d["id"]: d["pushPlatform"] for d in await list_devices(api, alice)} == {"phone": None, "other": "FCM"}
    await register(api, bob, "phone", **token)
    assert {d["id"]: d["pushPlatform"] for d in await list_devices(api, alice)} == {"phone": None, "other": None}
    assert {d["id"]: d["name"] for d in await list_devices(api, alice)} == {"phone": "First", "other": None}
    await register(api, bob, "phone", **token)
    (rows,) = (
        [row["o"] for row in api.database[PUSH_TOKENS].find({"o": {"$in": [f"{bob} phone", f"{alice} other"]}})],
    )
    assert rows == [f"{bob} phone"]
    # The same text is another token of another platform.
    await register(api, alice, "phone", pushPlatform="APNS", pushToken=token["pushToken"])
    assert [d["pushPlatform"] for d in await list_devices(api, bob)] == ["FCM"]


async def test_keys_of_web_push_are_stored_without_padding(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    padded = {"endpoint": "https://push.test/abc", "p256dh": POINT + "=", "auth": SECRET + "=="}
    await register(api, alice, "browser", pushPlatform="WEB_PUSH", webPush=padded, locale="de-CH-1996")
    device = await api.services.app.store.devices.list(alice)  # type: ignore[arg-type]
    assert device[0].push is not None and (device[0].push.p256dh, device[0].push.auth) == (POINT, SECRET)
    assert device[0].locale == "de-CH-1996"


async def test_endpoints_on_loopback_are_accepted_for_development(api: Api, open_api: OpenApi) -> None:
    (alice,) = await api.create_users("alice")
    async with open_api("development", allow_loopback=True) as development:
        for endpoint in ("http://localhost:9000/push", "http://127.0.0.1:9000/", "https://[::1]:9000/"):
            web_push = WEB_PUSH | {"endpoint": endpoint}
            await register(development, alice, "browser", pushPlatform="WEB_PUSH", webPush=web_push)
        before = await development.stored_documents()
        for endpoint in ("http://push.test/", "http://192.168.1.1/", "https://192.168.1.1/"):
            given = as_input({"endpoint": endpoint})
            refusal = await development.expect_refusal(alice, REGISTER, input=given)
            assert refusal == Refusal("INVALID_INPUT", "webPush.endpoint")
        assert await development.stored_documents() == before


async def test_the_device_seen_longest_ago_makes_room(timed: TimedDevices) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    line = Line(api, alice, "oldest")
    await wait_for_rows(api)
    for number in range(1, MAX_DEVICES):
        await timed.pass_time(1)
        await register(api, alice, f"d_{number:02}")
    assert len(await list_devices(api, alice)) == MAX_DEVICES
    await timed.pass_time(1)
    await register(api, alice, "one more")
    kept = {device["id"] for device in await list_devices(api, alice)}
    assert kept == {"oldest", "one more", *(f"d_{number:02}" for number in range(2, MAX_DEVICES))}
    line.device.end()


async def test_registering_a_push_address_counts_as_being_seen(timed: TimedDevices) -> None:
    """Apps that use no connection register at each start: they are not those that were seen longest ago."""
    api = timed.api
    (alice,) = await api.create_users("alice")
    for number in range(MAX_DEVICES):
        await register(api, alice, f"d_{number:02}")
        await timed.pass_time(1)
    before = {device["id"]: device["lastSeenAt"] for device in await list_devices(api, alice)}
    await register(api, alice, "d_01", name="Renamed by another device")
    assert (await register(api, alice, "d_00", **APNS))["lastSeenAt"] > before["d_00"]
    await register(api, alice, "one more")
    kept = {device["id"] for device in await list_devices(api, alice)}
    assert kept == {"one more", *before} - {"d_01"}


async def test_no_connected_device_is_dropped(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    lines = [Line(api, alice, f"d_{number:02}") for number in range(MAX_DEVICES)]
    await wait_for_rows(api)
    names = {line.device.device for line in lines}
    assert {device["id"] for device in await list_devices(api, alice)} == names
    assert await api.expect_refusal(alice, REGISTER, input={"type": "WEB"}) == Refusal("LIMIT_REACHED")
    lines.append(Line(api, alice, "one more"))
    await wait_for_rows(api)
    assert {device["id"] for device in await list_devices(api, alice)} == names
    # It is connected, though it has no row.
    assert await api.services.app.devices.list_connected([lines[0].device.user]) == {alice: names | {"one more"}}
    for line in lines:
        line.device.end()


async def test_devices_registered_at_once_are_no_more_than_the_limit(api: Api) -> None:
    (alice,) = await api.create_users("alice")
    await asyncio.gather(*(register(api, alice, f"d_{number:02}") for number in range(MAX_DEVICES + 5)))
    assert api.database[DEVICES].count_documents({"_id": {"$regex": f"^{alice} "}}) == MAX_DEVICES


async def test_a_connected_device_without_a_row_gets_none_later(timed: TimedDevices) -> None:
    api = timed.api
    (alice,) = await api.create_users("alice")
    lines = [Line(api, alice, f"d_{number:02}") for number in range(MAX_DEVICES + 3)]
    await wait_for_rows(api)
    await timed.pass_time(SEEN_MS / 1000 + 1)
    api.services.app.devices.resync()
    await wait_for_rows(api)
    assert api.database[DEVICES].count_documents({"_id": {"$regex": f"^{alice} "}}) == MAX_DEVICES
    for line in lines:
        line.device.end()


async def test_a_removed_device_is_not_written_by_a_repeated_write(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    (alice,) = await api.create_users("alice")
    phone = Line(api, alice, "phone")
    await wait_for_rows(api)
    store, is_writing, may_fail = api.services.app.store.devices, asyncio.Event(), asyncio.Event()
    find_each = store.find_each

    async def fail_once(keys: Any) -> Any:
        if is_writing.is_set():
            return await find_each(keys)
        is_writing.set()
        await may_fail.wait()
        raise Unreachable("MongoDB is away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "find_each", fail_once)
        phone.device.local.row_seen_ms = None
        api.services.app.devices._rows.note(phone.device.local)
        await is_writing.wait()
        removing = asyncio.create_task(api.data(alice, REMOVE, id="phone"))
        await until(lambda: phone.closed == 1)
        may_fail.set()
        await removing
    await wait_for_rows(api)
    assert await list_devices(api, alice) == []


async def test_a_connected_device_without_a_row_can_be_removed(api: Api, other_api: Api) -> None:
    (alice,) = await api.create_users("alice")
    lines = [Line(other_api, alice, f"d_{number:02}") for number in range(MAX_DEVICES + 1)]
    await wait_for_rows(other_api)
    await read_record(other_api, alice)
    listed = {device["id"] for device in await list_devices(api, alice)}
    (unlisted,) = [line for line in lines if line.device.device not in listed]
    assert await api.data(alice, REMOVE, id=unlisted.device.device) == {"removeDevice": True}
    just_connected = Line(api, alice, "new")
    assert await api.data(alice, REMOVE, id="new") == {"removeDevice": True}
    await wait_for_rows(api)
    assert (unlisted.closed, just_connected.closed) == (1, 1)
    assert {device["id"] for device in await list_devices(api, alice)} == listed
    for line in lines:
        line.device.end()


async def test_removing_a_device_ends_its_connections(api: Api) -> None:
    alice, bob = await api.create_users("alice", "bob")
    phone, again, laptop = Line(api, alice, "phone"), Line(api, alice, "phone"), Line(api, alice, "laptop")
    nameless, other = Line(api, alice), Line(api, bob, "phone")
    await wait_for_rows(api)
    assert {d["id"]: d["isCurrent"] for d in (await phone.data("{ devices { id isCurrent } }"))["devices"]} == {
        "phone": True, "laptop": False
    }  # fmt: skip
    assert await again.data(REMOVE, id="phone") == {"removeDevice": True}
    assert [line.closed for line in (phone, again, laptop, nameless, other)] == [1, 1, 0, 0, 0]
    await wait_for_rows(api)
    assert [row["_id"] for row in api.database[DEVICES].find({"_id": {"$regex": f"^{alice} "}})] == [f"{alice} laptop"]
    # A later connection with the same id is a new device.
    phone = Line(api, alice, "phone")
    await wait_for_rows(api)
    assert {device["id"] for device in await list_devices(api, alice)} == {"phone", "laptop"}
    for line in (phone, laptop, nameless, other):
        line.device.end()


async def test_removing_a_device_ends_its_connections_on_other_servers(api: Api, other_api: Api) -> None:
    (alice,) = await api.create_users("alice")
    lines = [Line(api, alice, "phone"), Line(other_api, alice, "phone"), Line(other_api, alice, "laptop")]
    for process in (api, other_api):
        await wait_for_rows(process)
        await read_record(process, alice)
    assert {d["id"] for d in await list_devices(api, alice)} == {"phone", "laptop"}
    await api.data(alice, REMOVE, id="phone")
    assert [line.closed for line in lines] == [1, 1, 0]
    assert {d["id"] for d in await list_devices(other_api, alice)} == {"laptop"}
    lines[2].device.end()
