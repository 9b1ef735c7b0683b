"""Costs of webhooks: nothing without one, and no round trip of a request with one."""

from __future__ import annotations

import pytest

from server.observability.webhook_metrics import collect_webhooks
from tests.api.client import Api, message_input
from tests.webhooks.calls import admin, create_webhook
from tests.webhooks.conftest import settle
from tests.webhooks.endpoint import Endpoint

SEND = "mutation ($input: SendMessageInput!) { sendMessage(input: $input) { message { id } } }"


async def least_trips(api: Api, sender: str, receiver: str) -> tuple[int, int]:
    """Return the round trips to MongoDB and Redis of a send. Housekeeping may add to single ones."""
    store = api.services.app.store
    runs = []
    for _ in range(8):
        before = store.mongo.trips, store.cache.trips
        await api.data(sender, SEND, input=message_input(receiver))
        runs.append((store.mongo.trips - before[0], store.cache.trips - before[1]))
    return min(runs)


async def test_a_send_makes_as_many_round_trips_with_webhooks_as_without(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await api.send(alice, bob)
    without = await least_trips(api, alice, bob)
    await create_webhook(api, admin(), endpoint.url)
    assert await least_trips(api, alice, bob) == without == (1, 2)


@pytest.mark.parametrize("events", [(), ("GROUP_CHANGED",)], ids=["without a webhook", "with one for other events"])
async def test_nothing_is_noted_that_no_webhook_wants(api: Api, endpoint: Endpoint, events: tuple[str, ...]) -> None:
    alice, bob = await api.create_users("alice", "bob")
    if events:
        await create_webhook(api, admin(), endpoint.url, *events)
    store = api.services.app.store
    sent = (await api.send(alice, bob))["message"]
    place = (sent["conversationId"], sent["seq"])
    message = (await store.messages.find_many([place]))[place]
    assert api.services.app.webhook_notes.note_calls([message]) == []


async def test_metrics_show_what_waits_and_what_was_delivered(api: Api, endpoint: Endpoint) -> None:
    alice, bob = await api.create_users("alice", "bob")
    await create_webhook(api, admin(), endpoint.url)
    endpoint.decide = lambda _: 410
    await api.send(alice, bob)
    await endpoint.wait_for_attempts(1)
    await settle(api)
    parts = api.services.webhooks
    await parts.waiting.measure()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in collect_webhooks(parts, api.services.app.store.clock.now_ms())
        for sample in metric.samples
    }
    assert samples["confab_webhook_attempts_total", "4xx"] == 1
    assert samples["confab_webhook_events_waiting",] == 1
    assert samples["confab_webhooks_paused",] == 1
    assert samples["confab_webhook_events_age_seconds",] >= 0
