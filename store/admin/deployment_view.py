"""Servers with their connections, and what waits in the queues of the deployment."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Sequence

from store.admin.source import NOT_KNOWN, AdminSource, View, seconds_of, time_text
from store.base.ids import PARTITIONS, UserId
from store.erasure.key_scan import KeyScan
from store.jobs.job import JobKind, JobState
from store.presence.cached_record import record_from
from store.redis.cache import Call
from store.redis.keys import is_present

_KEYS_PER_READ = 500
_MOST_EVENTS = 100_000
"""Pending events of webhooks that are counted."""

_MOST_PARTITIONS = 10
"""Fullest outboxes that a view lists."""

_NOBODY = UserId("")


async def view_connections(source: AdminSource, silent_after_ms: int) -> View:
    """Return the servers that are alive, and the connections of each. Looks at the names of all keys of Redis.

    silent_after_ms: a server without a report for this time has ended. Raises StoreError.
    """
    store, now_ms = source.store, source.store.clock.now_ms()
    formats = await store.deployment.formats.list_alive()
    view: View = {
        "processes_with_a_worker_number": len(formats),
        "processes_by_shared_format": {
            str(number): count for number, count in sorted(Counter(formats.values()).items())
        },
        "servers": NOT_KNOWN,
        "redis": source.redis_view(),
    }
    if not source.has_redis:
        return view
    times = await store.server_times.read()
    alive = {
        server for server, heard in times.items() if not heard.has_ended and now_ms - heard.heard_ms < silent_after_ms
    }
    devices, ended, users = Counter[str](), Counter[str](), 0
    async for keys in _presence_keys(source):
        answers = await store.cache.run([Call("HGETALL", (key,)) for key in keys])
        for answer in answers:
            found = record_from(_NOBODY, answer).record.devices
            connected = [device.server for device in found if device.gone_at_ms is None]
            devices.update(connected)
            ended.update(device.server for device in found if device.gone_at_ms is not None)
            users += not alive.isdisjoint(connected)
    servers = [
        {
            "server": server,
            "is_alive": server in alive,
            "shared_format": formats.get(server),
            "last_report_at": time_text(heard.heard_ms),
            "has_reported_its_end": heard.has_ended,
            "connected_devices": devices.pop(server, 0),
            "devices_that_just_left": ended.pop(server, 0),
        }
        for server, heard in sorted(times.items(), key=lambda item: -item[1].heard_ms)
    ]
    # Times are kept for a day. A server that has reported its end, and has no devices, tells nothing.
    view["servers"] = [
        each
        for each in servers
        if not each["has_reported_its_end"] or each["connected_devices"] or each["devices_that_just_left"]
    ]
    return view | {
        "servers_alive": len(alive),
        "connected_devices": sum(each["connected_devices"] for each in view["servers"] if each["is_alive"]),
        "connected_users": users,
        "devices_on_servers_without_a_report": dict(devices),
    }


async def _presence_keys(source: AdminSource) -> AsyncIterator[list[str]]:
    """Yield the keys of all presence records, each once, in parts."""
    keys = source.store.keys
    scan = KeyScan(source.store.cache.url, keys.prefix)
    found, seen = list[str](), set[str]()
    try:
        async for name in scan.list_keys(ending=keys.presence(_NOBODY)[0].rpartition("}")[2]):
            key = name.decode()
            if key in seen or not is_present(keys, key):
                # Redis may name a key twice. Keys of former generations expire within a day.
                continue
            seen.add(key)
            found.append(key)
            if len(found) == _KEYS_PER_READ:
                yield found
                found = []
        if found:
            yield found
    finally:
        await scan.close()


async def view_queues(source: AdminSource) -> View:
    """Return what waits in each queue. Raises StoreError."""
    store = source.store
    outgoing = [webhook.id for webhook in await store.webhooks.list_outgoing()]
    waiting = await store.webhook_deliveries.measure(outgoing, _MOST_EVENTS) if outgoing else None
    now_ms, written_ms = store.clock.now_ms(), await store.webhook_log.find_written_until()
    oldest_ms = waiting.oldest_ms if waiting is not None else None
    state = await store.index_states.read()
    view: View = {
        "outbox": NOT_KNOWN,
        "pushes": NOT_KNOWN,
        "webhooks": {
            "outgoing": len(outgoing),
            "paused": await store.webhook_deliveries.count_paused(),
            "pending_events": waiting.events if waiting is not None else 0,
            "counted_at_most": _MOST_EVENTS,
            "oldest_pending_seconds": seconds_of(max(0, now_ms - oldest_ms)) if oldest_ms is not None else None,
            "log_is_written_until": time_text(written_ms),
            "log_lag_seconds": seconds_of(max(0, now_ms - written_ms)) if written_ms else None,
            "events_noted_and_not_in_the_log": NOT_KNOWN,
        },
        "jobs": _view_jobs(await store.jobs.count_all()),
        "index": {
            "past_is_complete": state.is_complete,
            "past_indexed_until": time_text(state.indexed_up_to_ms),
            "a_process_indexes_the_past": state.is_owned,
            "messages_that_wait": NOT_KNOWN,
        },
        "redis": source.redis_view(),
    }
    if source.has_redis:
        await _add_redis_queues(source, view)
    return view


def _view_jobs(counts: dict[tuple[JobKind, JobState], int]) -> View:
    view: View = {}
    for (kind, state), count in sorted(counts.items(), key=lambda item: (item[0][0].name, item[0][1].name)):
        view.setdefault(kind.name, {})[state.name] = count
    return view


async def _add_redis_queues(source: AdminSource, view: View) -> None:
    store = source.store
    lengths = await store.cache.run([Call("XLEN", (store.keys.outbox(each),)) for each in range(PARTITIONS)])
    view["outbox"] = {
        "entries": sum(lengths),
        "oldest_seconds": seconds_of(await store.outbox.oldest_age_ms()),
        "fullest_partitions": _fullest(lengths),
    }
    intents, late_ms = await store.push_intents.measure()
    noted, noted_late_ms = await store.noted_conversations.measure()
    view["pushes"] = {
        "intents_due": intents,
        "oldest_intent_late_seconds": seconds_of(late_ms),
        "conversations_due": noted,
        "oldest_conversation_late_seconds": seconds_of(noted_late_ms),
    }
    view["webhooks"]["events_noted_and_not_in_the_log"] = await store.webhook_notes.count()
    number, age_ms = await store.unindexed_messages.measure()
    view["index"] |= {"messages_that_wait": number, "oldest_waits_seconds": seconds_of(age_ms)}


def _fullest(lengths: Sequence[int]) -> dict[str, int]:
    by_length = sorted(((length, place) for place, length in enumerate(lengths) if length), reverse=True)
    return {str(place): length for length, place in by_length[:_MOST_PARTITIONS]}
