"""Redelivers many events to one endpoint: rate, order and memory.

`python -m bench.webhooks` starts MongoDB, Redis and a server. Messages are sent in some conversations while the
endpoint answers 410, so that the webhook is PAUSED and all events are logged. Then the endpoint answers 204, and
`redeliverWebhook(since:)` sends everything again. `--events 1000` makes it small.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import shutil
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import orjson

from resolvers.base.app import Confab
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from resolvers.webhooks.outgoing import managing, redelivery
from server.embedded import EmbeddedServers
from server.services import Services, open_services
from server.settings import load_settings
from store.base.ids import UserId
from store.webhooks.webhook import WebhookEventType
from tests.webhooks.endpoint import Received, open_endpoint

_NAME = "bench_webhooks"
_AT_ONCE = 100


async def measure(services: Services, events: int, conversations: int) -> None:
    """Log events, redeliver them, and print the results."""
    app = services.app
    root = Caller(UserId("root"), CallerRole.ADMIN, time.time() + 3600)
    users = [UserId(f"user{number}") for number in range(conversations + 1)]
    for user in users:
        await services.sign_in(Caller(user, CallerRole.USER, time.time() + 3600))
    last: dict[str, int] = defaultdict(int)
    violations = taken = repeated = 0
    is_open = False
    seen: set[str] = set()

    def decide(request: Received) -> int:
        nonlocal violations, taken, repeated
        if not is_open:
            return 410
        taken += 1
        repeated += request.event_id in seen
        seen.add(request.event_id)
        message = orjson.loads(request.body)["data"]["message"]
        violations += message["seq"] < last[message["conversationId"]]
        last[message["conversationId"]] = message["seq"]
        endpoint.received.clear()
        return 204

    async with open_endpoint(decide) as endpoint:
        kinds = [WebhookEventType.MESSAGE_CREATED]
        webhook = await managing.create_webhook(app, root, None, endpoint.url, kinds, None)
        began = time.perf_counter()
        print(f"sending {events:,} messages to {conversations} conversations")
        await _send(app, users, events)
        print(f"  {events / (time.perf_counter() - began):,.0f} messages a second")
        began = time.perf_counter()
        while await app.store.webhook_deliveries.count_pending(webhook.id, 0) < events:  # noqa: ASYNC110  # another process may write
            await asyncio.sleep(0.2)
        print(f"  in the log {time.perf_counter() - began:.1f} s later")
        is_open = True
        before_mb = _memory_mb()
        began = time.perf_counter()
        count = await redelivery.redeliver(app, root, webhook.id, None, 0)
        answered = time.perf_counter() - began
        while len(seen) < events:  # noqa: ASYNC110  # the endpoint has no events
            await asyncio.sleep(0.05)
        seconds = time.perf_counter() - began
        print(f"redelivered {count:,} events: answered in {answered * 1000:.0f} ms, sent in {seconds:.1f} s")
        print(f"  {events / seconds:,.0f} events a second")
        print(f"  order violations {violations}, repeated {repeated}")
        print(f"  memory of the process {before_mb:.0f} MB before, at most {_memory_mb():.0f} MB (endpoint included)")


async def _send(app: Confab, users: list[UserId], events: int) -> None:
    sender, *receivers = users
    for start in range(0, events, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, events))
        texts = [NewMessage(receivers[number % len(receivers)], None, f"message {number}") for number in numbers]
        await asyncio.gather(*(send_message(app, sender, new) for new in texts))


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--conversations", type=int, default=200)
    options = parser.parse_args()
    asyncio.run(_run(options.events, options.conversations))


async def _run(events: int, conversations: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder) as servers:
            settings = load_settings(
                mongo_url=servers.mongo_url,
                redis_url=servers.redis_url,
                mongo_database=_NAME,
                allow_loopback=True,
                sends_per_minute=0,
                link_previews=False,
            )
            async with open_services(settings, start_wait_seconds=60) as services:
                await measure(services, events, conversations)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
