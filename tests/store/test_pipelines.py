"""Callers share connections to Redis, but neither failures nor cancellations."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

import pytest
from redis.asyncio import Connection, ConnectionPool
from redis.exceptions import ConnectionError as RedisConnectionError

from store.base.errors import Unreachable
from store.redis.cache import Cache, Call
from store.redis.calls import encode_command
from store.redis.pipeline_pool import PipelinePool
from store.scripts import read_scripts
from tests.conftest import of_one_redis
from tests.waiting import TIMEOUT_SECONDS

pytestmark = of_one_redis

PING = Call("PING", ())


class Relay:
    """Proxy between a cache and Redis: records the pieces it reads, delays replies to ECHO, and cuts connections."""

    def __init__(self, redis_url: str) -> None:
        self._to = urlsplit(redis_url)
        self.url = ""
        self.pieces: list[bytes] = []
        self._open = asyncio.Event()
        self._open.set()
        self._writers: list[asyncio.StreamWriter] = []

    def hold(self) -> None:
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    def cut(self) -> None:
        """End every connection, and drop the delayed replies."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_redis, to_redis = await asyncio.open_connection(self._to.hostname, self._to.port)
        self._writers += [writer, to_redis]
        echoes = False

        async def back() -> None:
            while data := await from_redis.read(1 << 16):
                if echoes:
                    await self._open.wait()
                writer.write(data)

        answering = asyncio.create_task(back())
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                self.pieces.append(data)
                echoes = echoes or b"ECHO" in data
                to_redis.write(data)
        to_redis.close()
        await answering
        writer.close()


@pytest.fixture
async def relay(redis_url: str) -> AsyncIterator[Relay]:
    relay = Relay(redis_url)
    async with await asyncio.start_server(relay.serve, "127.0.0.1", 0) as server:
        address, port = server.sockets[0].getsockname()
        relay.url = f"redis://{address}:{port}{urlsplit(redis_url).path}"
        yield relay
        relay.cut()


@pytest.fixture
async def cache(relay: Relay, redis_prefix: str) -> AsyncIterator[Cache]:
    cache = Cache(relay.url, read_scripts, prefix=redis_prefix)
    yield cache
    await cache.close()


def echo(text: str) -> Call:
    return Call("ECHO", (), (text,))


def pipelines_to(url: str, timeout_seconds: float) -> PipelinePool:
    """A pool of a single connection that admits every Redis."""

    async def admit(_connection: object) -> None:
        return

    def encode(calls: Sequence[Call]) -> bytes:
        return b"".join(encode_command((call.name, *call.args)) for call in calls)

    connections = ConnectionPool.from_url(url, protocol=2)
    return PipelinePool(connections, 1, timeout_seconds, shared=True, encode=encode, admit=admit)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_many_callers_share_few_pipelines_and_each_gets_its_own_replies(cache: Cache, relay: Relay) -> None:
    await cache.one(PING)
    before, trips = len(relay.pieces), cache.trips
    answers = await asyncio.gather(*(cache.run([echo(f"{n} first"), echo(f"{n} then")]) for n in range(200)))
    assert answers == [[b"%d first" % n, b"%d then" % n] for n in range(200)]
    assert sum(piece.count(b"ECHO") for piece in relay.pieces) == 400
    # Each new connection also sends a few commands of its own.
    assert len(relay.pieces) - before < 20
    assert cache.trips - trips == 200


async def test_calls_made_while_all_connections_are_busy_are_sent_when_one_is_idle(cache: Cache, relay: Relay) -> None:
    await cache.one(PING)
    relay.hold()
    asked = []
    for n in range(30):
        asked.append(asyncio.create_task(cache.one(echo(f"number {n}"))))
        await asyncio.sleep(0.001)
    assert not any(task.done() for task in asked)
    relay.release()
    assert await asyncio.gather(*asked) == [b"number %d" % n for n in range(30)]


async def test_a_refused_command_fails_only_its_caller(cache: Cache) -> None:
    refused = asyncio.create_task(cache.run([echo("before"), Call("NOSUCHCOMMAND", ())]))
    others = await asyncio.gather(*(cache.one(echo(str(n))) for n in range(20)))
    with pytest.raises(Unreachable):
        await refused
    assert others == [b"%d" % n for n in range(20)]


async def test_an_argument_that_cannot_be_encoded_fails_only_its_caller(cache: Cache) -> None:
    refused = asyncio.create_task(cache.one(echo("\ud800")))
    assert await cache.one(echo("whole")) == b"whole"
    with pytest.raises(UnicodeEncodeError):
        await refused


async def test_a_cancelled_caller_leaves_the_others_their_replies(cache: Cache, relay: Relay) -> None:
    await cache.one(PING)
    relay.hold()
    asked = [asyncio.create_task(cache.run([echo(f"a{n}"), echo(f"b{n}")])) for n in range(10)]
    await until(lambda: any(b"a3" in piece for piece in relay.pieces))
    asked[3].cancel()
    relay.release()
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert isinstance(answers.pop(3), asyncio.CancelledError)
    assert answers == [[b"a%d" % n, b"b%d" % n] for n in range(10) if n != 3]
    assert await cache.one(echo("after")) == b"after"


async def test_a_caller_cancelled_before_its_turn_sends_nothing(cache: Cache, relay: Relay) -> None:
    asked = asyncio.create_task(cache.one(echo("never mind")))
    await asyncio.sleep(0)
    asked.cancel()
    assert await cache.one(echo("mine")) == b"mine"
    assert not any(b"never mind" in piece for piece in relay.pieces)


async def test_a_lost_connection_fails_only_the_callers_in_its_pipeline(cache: Cache, relay: Relay) -> None:
    await cache.one(PING)
    relay.hold()
    lost = [asyncio.create_task(cache.one(echo(f"lost {n}"))) for n in range(5)]
    await until(lambda: any(b"lost 4" in piece for piece in relay.pieces))
    relay.cut()
    failures = await asyncio.gather(*lost, return_exceptions=True)
    assert [type(failure) for failure in failures] == [Unreachable] * 5
    assert await cache.one(echo("after")) == b"after"


async def test_a_caller_of_many_calls_does_not_delay_callers_of_few(cache: Cache, relay: Relay) -> None:
    await cache.one(PING)
    key = f"{cache.keys.namespace}block"
    calls = [Call("BLPOP", (key,), (5,)), *(PING for _ in range(100))]
    much = asyncio.create_task(cache.run(calls))
    await until(lambda: any(b"BLPOP" in piece for piece in relay.pieces))
    assert await asyncio.gather(*(cache.one(echo("little")) for _ in range(50))) == [b"little"] * 50
    assert not much.done()
    await cache.one(Call("RPUSH", (key,), ("go on",)))
    assert len(await much) == 101


async def test_scripts_that_redis_has_lost_are_loaded_again(cache: Cache) -> None:
    claim = Call("claim_key", (f"{cache.keys.namespace}{{u:anna}}:claim",), ("mine", 60_000))
    await cache.one(Call("SCRIPT", (), ("FLUSH",)))
    trips = cache.trips
    assert await cache.run([echo("first"), claim, echo("last")]) == [b"first", b"", b"last"]
    assert await cache.one(claim) == b"mine"
    assert cache.trips - trips == 2


async def test_callers_wait_for_a_silent_redis_no_longer_than_the_timeout(relay: Relay) -> None:
    pool = pipelines_to(relay.url, TIMEOUT_SECONDS)
    assert await pool.run([echo("warm")]) == [b"warm"]
    (connection,) = pool._connections
    pool._timeout_seconds = connection._timeout_seconds = 0.1
    assert connection._timer is not None
    connection._timer.cancel()
    connection._timer = None
    relay.hold()
    sent = asyncio.create_task(pool.run([echo("sent")]))
    await until(lambda: any(b"sent" in piece for piece in relay.pieces))
    waiting = [asyncio.create_task(pool.run([echo("waiting")])) for _ in range(3)]
    async with asyncio.timeout(TIMEOUT_SECONDS):
        failures = await asyncio.gather(sent, *waiting, return_exceptions=True)
    assert all(isinstance(failure, Exception) for failure in failures)
    relay.release()
    pool._timeout_seconds = TIMEOUT_SECONDS
    assert await pool.run([echo("after")]) == [b"after"]
    await pool.close()


async def test_closing_a_cache_fails_its_callers(cache: Cache, relay: Relay) -> None:
    await cache.one(PING)
    relay.hold()
    asked = [asyncio.create_task(cache.one(echo(str(n)))) for n in range(5)]
    await asyncio.sleep(0.01)
    await cache.close()
    assert all(isinstance(f, Unreachable) for f in await asyncio.gather(*asked, return_exceptions=True))


async def test_closing_a_pool_while_it_opens_a_connection_fails_its_callers(redis_url: str) -> None:
    pool = pipelines_to(redis_url, 3 * TIMEOUT_SECONDS)
    # One turn of the loop queues the call, the next one starts to open a connection.
    asked = asyncio.create_task(pool.run([PING]))
    for turns in range(3):
        await asyncio.sleep(0)
        if turns == 1:
            await pool.close()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        with pytest.raises(RedisConnectionError):
            await asked


async def test_any_failure_to_open_a_connection_reaches_the_caller(
    redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_connection: object) -> None:
        raise ValueError("no such protocol")

    monkeypatch.setattr(Connection, "connect", fail)
    pool = pipelines_to(redis_url, 3 * TIMEOUT_SECONDS)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        with pytest.raises(RedisConnectionError, match="no such protocol"):
            await pool.run([PING])
    await pool.close()


async def test_a_script_on_a_key_without_a_hash_tag_is_refused(cache: Cache) -> None:
    with pytest.raises(ValueError, match="hash tag"):
        await cache.one(Call("voice_claim", (f"{cache.keys.namespace}voices",), (0, 1, 1)))


async def test_calls_at_the_same_time_count_as_many_round_trips_as_the_longest(redis_url: str) -> None:
    cache = Cache(redis_url, read_scripts)

    async def ping(times: int) -> int:
        for _ in range(times):
            await cache.one(PING)
        return times

    async def fail() -> None:
        await ping(1)
        raise Unreachable("on purpose")

    async def ping_together() -> list[int]:
        return await cache.gather(ping(2), ping(1))

    try:
        assert await cache.gather(ping(1), ping(3), ping(0)) == [1, 3, 0]
        assert cache.trips == 3
        assert await cache.gather(ping(1), ping_together()) == [1, [2, 1]]
        assert cache.trips == 5
        await cache.gather(ping(1), cache.run_in_background([PING]))
        assert (cache.trips, cache.background_trips) == (6, 1)
        with pytest.raises(Unreachable):
            await cache.gather(fail(), ping(2))
        assert cache.trips == 8
        await ping(1)
        assert cache.trips == 9
    finally:
        await cache.close()


async def test_calls_of_a_canceled_gather_do_not_begin(cache: Cache) -> None:
    async def begin() -> None:
        raise AssertionError("it has begun")

    calls = [begin(), begin()]
    gathering = asyncio.ensure_future(cache.gather(*calls))
    await asyncio.sleep(0)  # The gather has begun, and its calls have not.
    gathering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gathering
    assert [inspect.getcoroutinestate(call) for call in calls] == [inspect.CORO_CLOSED] * 2
