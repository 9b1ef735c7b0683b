"""testPush and webPushPublicKey: pushes that users send to their own devices."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from resolvers.push.own_pushes import TEST_TAG
from resolvers.push.services.vapid import VapidKey
from store.base.ids import UserId
from tests.api.client import Api, Json, Refusal
from tests.api.conftest import OpenApi
from tests.api.devices.calls import list_devices, register
from tests.push.services.keys import apns_key, service_account
from tests.push.services.push_server import PushServer, open_push_server, reply, reset
from tests.push.services.subscription import Subscription, vapid_claims

TEST_PUSH = "mutation ($id: ID!) { testPush(deviceId: $id) { outcome reason } }"
PUBLIC_KEY = "{ webPushPublicKey }"
KEY = VapidKey.generate()
WEB_PUSH = {"vapid_private_key": KEY.private_text, "vapid_contact": "mailto:admin@example.org"}


@pytest.fixture(scope="module")
async def _pushing_process(open_api: OpenApi) -> AsyncIterator[Api]:
    async with open_api("pushing", allow_loopback=True, workers=False, **WEB_PUSH) as api:
        yield api


@pytest.fixture
async def pushing(_pushing_process: Api) -> Api:
    """A process with Web Push, and no other service. It sends test pushes only: it has no workers."""
    return _pushing_process


@pytest.fixture
async def server() -> AsyncIterator[PushServer]:
    async with open_push_server() as push_server:
        yield push_server


async def subscribe(api: Api, user: str, server: PushServer, id: str = "browser") -> Subscription:
    subscription = Subscription(f"http://localhost:{server.port}/{user}")
    await register(api, user, id, pushPlatform="WEB_PUSH", webPush=subscription.input)
    return subscription


async def test_push(api: Api, user: str, id: str) -> Json:
    result: Json = (await api.data(user, TEST_PUSH, id=id))["testPush"]
    return result


test_push.__test__ = False  # type: ignore[attr-defined]


async def test_clients_subscribe_with_the_key_of_the_deployment(pushing: Api, api: Api) -> None:
    (alice,) = await pushing.create_users("alice")
    assert await pushing.data(alice, PUBLIC_KEY) == {"webPushPublicKey": KEY.public_text}
    assert await api.data(alice, PUBLIC_KEY) == {"webPushPublicKey": None}


async def test_a_push_is_sent_now(pushing: Api, server: PushServer) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    browser = await subscribe(pushing, alice, server)
    for number in range(2):
        await pushing.send(bob, alice, f"message {number}")
    assert await test_push(pushing, alice, "browser") == {"outcome": "ACCEPTED", "reason": None}
    (push,) = server.received
    payload = browser.read(push)
    assert (payload["conversationId"], payload["badge"], payload["tag"]) == (None, 2, TEST_TAG)
    assert payload["title"] and payload["body"]
    assert vapid_claims(push, KEY.public_text)["sub"] == "mailto:admin@example.org"


async def test_an_address_that_is_gone_is_forgotten(pushing: Api, server: PushServer) -> None:
    (alice,) = await pushing.create_users("alice")
    await subscribe(pushing, alice, server)
    server.reply = reply(410)
    assert (await test_push(pushing, alice, "browser"))["outcome"] == "GONE"
    assert [device["pushPlatform"] for device in await list_devices(pushing, alice)] == [None]
    result = await test_push(pushing, alice, "browser")
    assert result["outcome"] == "NOT_CONFIGURED" and "registerDevice" in result["reason"]
    assert len(server.received) == 1


async def test_an_address_that_was_registered_meanwhile_is_kept(pushing: Api, server: PushServer) -> None:
    (alice,) = await pushing.create_users("alice")
    await subscribe(pushing, alice, server)
    (old,) = await pushing.services.app.store.devices.list(UserId(alice))
    await register(pushing, alice, "browser", pushPlatform="APNS", pushToken="a1b2")
    await pushing.services.app.store.devices.forget_push(old)
    assert [device["pushPlatform"] for device in await list_devices(pushing, alice)] == ["APNS"]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [(reply(403), "REFUSED"), (reply(413), "REFUSED"), (reply(500), "UNREACHABLE"), (reset, "UNREACHABLE")],
)
async def test_a_failure_is_an_outcome_with_a_reason_and_changes_nothing(
    pushing: Api, server: PushServer, answer: object, outcome: str
) -> None:
    (alice,) = await pushing.create_users("alice")
    await subscribe(pushing, alice, server)
    server.reply = answer  # type: ignore[assignment]
    before = await pushing.stored_documents()
    result = await test_push(pushing, alice, "browser")
    assert result["outcome"] == outcome and result["reason"]
    assert await pushing.stored_documents() == before


@pytest.mark.parametrize("platform", ["APNS", "FCM"])
async def test_a_service_without_credentials_is_not_configured(pushing: Api, platform: str) -> None:
    (alice,) = await pushing.create_users("alice")
    await register(pushing, alice, "phone", pushPlatform=platform, pushToken="a1b2")
    before = await pushing.stored_documents()
    result = await test_push(pushing, alice, "phone")
    assert result["outcome"] == "NOT_CONFIGURED" and platform in result["reason"]
    assert await pushing.stored_documents() == before


async def test_unknown_and_foreign_devices_are_not_found_and_get_nothing(pushing: Api, server: PushServer) -> None:
    alice, bob = await pushing.create_users("alice", "bob")
    await subscribe(pushing, alice, server)
    server.reply = reply(410)
    before = await pushing.stored_documents()
    for id in ("browser", f"{alice} browser", "", "x" * 65, "a\nb", "d_1"):
        assert await pushing.expect_refusal(bob, TEST_PUSH, id=id) == Refusal("NOT_FOUND", "deviceId")
    assert server.received == []
    assert await pushing.stored_documents() == before


async def test_a_private_address_gets_nothing(api: Api, open_api: OpenApi, server: PushServer) -> None:
    (alice,) = await api.create_users("alice")
    async with open_api("strict", **WEB_PUSH) as strict:
        # No name is resolved when it is registered; this one has an address on loopback.
        browser = Subscription(f"https://localhost:{server.port}/")
        await register(strict, alice, "browser", pushPlatform="WEB_PUSH", webPush=browser.input)
        result = await test_push(strict, alice, "browser")
        assert result["outcome"] == "UNREACHABLE" and "not a public address" in result["reason"]
        assert server.connections == 0


async def test_test_pushes_have_a_rate(open_api: OpenApi, server: PushServer) -> None:
    async with open_api("limited", allow_loopback=True, invite_lookups_per_minute=4, **WEB_PUSH) as limited:
        (alice,) = await limited.create_users("alice")
        await subscribe(limited, alice, server)
        for _ in range(2):
            assert (await test_push(limited, alice, "browser"))["outcome"] == "ACCEPTED"
        assert (await limited.expect_refusal(alice, TEST_PUSH, id="browser")).code == "RATE_LIMITED"
        assert len(server.received) == 2


async def test_all_services_of_the_settings_are_built_and_closed(open_api: OpenApi) -> None:
    settings = {
        "apns_key": apns_key(), "apns_key_id": "ABC123DEFG", "apns_team_id": "DEF123GHIJ", "apns_topic": "org.example",
        "fcm_credentials": service_account(), **WEB_PUSH,
    }  # fmt: skip
    async with open_api("all", **settings) as api:
        assert {str(platform) for platform in api.services.app.push_services} == {"WEB_PUSH", "APNS", "FCM"}
