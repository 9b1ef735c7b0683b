"""The erasure of a user with many messages, who writes meanwhile, and its effect on the messages of others.

`python -m bench.erasure --messages 100000` starts MongoDB and Redis, and runs two servers in this process: one erases,
the other one takes the messages. So the latencies of sends include the CPU that the erasure takes in the same process.
Half of the messages are private, half in a group. At the end everything that is stored is searched for the id.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from resolvers.base.errors import Forbidden
from resolvers.erasure.erasing import erase_user, find_erasure
from resolvers.groups.group_creation import NewGroup, create_group
from resolvers.messages.new_messages import NewMessage
from resolvers.messages.sending import send_message
from resolvers.users.callers import Caller, CallerRole
from server.embedded import EmbeddedServers
from server.services import Services, open_services
from server.settings import UNLIMITED, load_settings
from store.base.ids import UserId
from store.erasure.inventory import COLLECTIONS
from store.erasure.renaming import Renaming
from store.erasure.traces import list_traces

_NAME = "bench_erasure"
_AT_ONCE = 200
_USER, _PEER, _OTHER, _READER = (UserId(f"{name}-of-the-benchmark") for name in ("erased", "peer", "other", "reader"))
_QUIET_SECONDS = 10.0
_SEND_EVERY_SECONDS = 0.02


@dataclass
class Latencies:
    """Times that sends took (ms)."""

    times: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        """Return the median and the 99th percentile."""
        ordered = sorted(self.times)
        part = [ordered[int(len(ordered) * share)] for share in (0.5, 0.99)] if ordered else [0.0, 0.0]
        return f"{len(ordered):,} sends, median {part[0]:.1f} ms, p99 {part[1]:.1f} ms"


def _caller(user: str, role: CallerRole = CallerRole.USER) -> Caller:
    return Caller(UserId(user), role, time.time() + 86_400, user)


async def _send_many(services: Services, group: str, count: int) -> None:
    for start in range(0, count, _AT_ONCE):
        numbers = range(start, min(start + _AT_ONCE, count))
        new = [
            NewMessage(_PEER, None, f"message {n}") if n % 2 else NewMessage(None, group, f"message {n}")
            for n in numbers
        ]
        await asyncio.gather(*(send_message(services.app, _USER, each) for each in new))


async def _send_of_others(services: Services, latencies: Latencies, until: asyncio.Event) -> None:
    while not until.is_set():
        began = time.perf_counter()
        await send_message(services.app, _OTHER, NewMessage(_READER, None, "of somebody else"))
        latencies.times.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(_SEND_EVERY_SECONDS)


async def _write_until_refused(services: Services, group: str) -> int:
    """Write as a client does whose token is checked with each request. Return the number of messages."""
    sent = 0
    while True:
        try:
            await services.sign_in(_caller(_USER))
        except Forbidden:
            return sent
        await send_message(services.app, _USER, NewMessage(None, group, f"meanwhile {sent}"))
        sent += 1


async def measure(erasing: Services, sending: Services, messages: int, *, removes_messages: bool) -> None:
    """Erase the user and print what was measured."""
    for user in (_USER, _PEER, _OTHER, _READER):
        await sending.sign_in(_caller(user))
    made = await create_group(sending.app, _USER, NewGroup("Group", None, (_PEER, _OTHER), False, None))
    group = made.head.conversation
    began = time.perf_counter()
    await _send_many(sending, group, messages)
    print(f"{messages:,} messages of the user, written in {time.perf_counter() - began:.0f} s")
    for label in ("before", "meanwhile"):
        latencies, end = Latencies(), asyncio.Event()
        others = asyncio.create_task(_send_of_others(sending, latencies, end))
        if label == "before":
            await asyncio.sleep(_QUIET_SECONDS)
        else:
            writing = asyncio.create_task(_write_until_refused(sending, group))
            await asyncio.sleep(0.5)
            await _erase(erasing, removes_messages=removes_messages)
            print(f"messages that the user wrote before being refused: {await writing}")
        end.set()
        await others
        print(f"others {label}: {latencies}")
    store = erasing.app.store
    traces = await list_traces(
        store.mongo, store.cache, Renaming(_USER, UserId("erased-0000000000000000")), list(COLLECTIONS)
    )
    print(f"rows and keys with the id: {len(traces)}", *traces[:10], sep="\n  ")


async def _erase(services: Services, *, removes_messages: bool) -> None:
    root, began, cpu = _caller("root", CallerRole.ADMIN), time.perf_counter(), time.process_time()
    await erase_user(services.app, root, _USER, removes_messages=removes_messages)
    print(f"eraseUser answered in {(time.perf_counter() - began) * 1000:.0f} ms")
    while True:
        found = await find_erasure(services.app, root, _USER)
        if found is not None and found.finished_at_ms is not None:
            break
        await asyncio.sleep(0.2)
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    print(f"erasure: {found.state.name} after {seconds:.1f} s, {used:.1f} s of CPU of both servers and the senders")


async def _run(messages: int, *, removes_messages: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="confab-bench-"))
    try:
        with EmbeddedServers(folder) as servers:
            async with AsyncExitStack() as stack:
                opened = []
                for workers in (True, False):
                    settings = load_settings(
                        **UNLIMITED,
                        mongo_url=servers.mongo_url,
                        redis_url=servers.redis_url,
                        mongo_database=_NAME,
                        workers=workers,
                        link_previews=False,
                    )
                    opened.append(await stack.enter_async_context(open_services(settings, start_wait_seconds=60)))
                erasing, sending = opened
                await measure(erasing, sending, messages, removes_messages=removes_messages)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--remove", action="store_true", help="erase with messages: true")
    options = parser.parse_args()
    asyncio.run(_run(options.messages, removes_messages=options.remove))


if __name__ == "__main__":
    main()
