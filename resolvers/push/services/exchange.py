"""Requests to push services: how many at the same time, for how long, and how much of an answer is read."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
import orjson
import structlog

from resolvers.push.push_service import PushOutcome, PushResult

_log = structlog.get_logger(__name__)

PUSH_SECONDS = 10.0
"""Time limit of a push, after it has waited for its turn."""

TURN_SECONDS = 4.0
"""Time for which a push waits for its turn. Then the service counts as overloaded."""

MOST_BYTES = 16 * 1024
"""Bytes of an answer that are read."""

_LONGEST_WAIT_SECONDS = 3600.0
"""Longest time for which a service may ask not to be sent anything."""

_LONGEST_REASON = 300
_CLOCK_SECONDS = 60.0
"""Difference of two clocks that is mentioned when credentials are refused."""

_LOST = (
    httpx.RemoteProtocolError,
    httpx.LocalProtocolError,
    httpx.ReadError,
    httpx.WriteError,
    httpx.CloseError,
    httpx.ReadTimeout,
)
"""A connection that worked before has ended: the service closes idle ones at any time."""


class ServiceUnreachable(Exception):
    """Raised if a service gives no answer in time. The text is for people."""


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """The answer of a service. body: its first MOST_BYTES bytes."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """Return the body as a JSON object; an empty one if it is something else."""
        try:
            found = orjson.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def text(self) -> str:
        """Return the printable part of the body in one line."""
        return " ".join(printable(self.body.decode("utf-8", "replace")).split())


async def post(client: httpx.AsyncClient, url: str, headers: Mapping[str, str], content: bytes) -> ServiceAnswer:
    """Send a POST request. Raises errors of httpx."""
    # An answer that is compressed could be much larger than what arrives.
    wanted = {"Accept-Encoding": "identity", **headers}
    response = await client.send(client.build_request("POST", url, headers=wanted, content=content), stream=True)
    try:
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) >= MOST_BYTES:
                break
    finally:
        await response.aclose()
    return ServiceAnswer(response.status_code, response.headers, bytes(body[:MOST_BYTES]))


async def post_again(client: httpx.AsyncClient, url: str, headers: Mapping[str, str], content: bytes) -> ServiceAnswer:
    """Send a POST request, a second time if its connection is lost. Raises errors of httpx.

    The service may get the push twice. It does no harm: a push replaces an earlier one with the same tag.
    """
    try:
        return await post(client, url, headers, content)
    except _LOST:
        return await post(client, url, headers, content)


class Turns:
    """Bounds how many pushes are sent at the same time."""

    def __init__(self, at_once: int) -> None:
        self._free = asyncio.Semaphore(at_once)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """Wait for a turn, and end it with the block. Raises ServiceUnreachable if none comes in time."""
        try:
            async with asyncio.timeout(TURN_SECONDS):
                await self._free.acquire()
        except TimeoutError:
            raise ServiceUnreachable("too many pushes wait for this service") from None
        try:
            yield
        finally:
            self._free.release()


async def in_time(send: Callable[[], Awaitable[PushResult]]) -> PushResult:
    """Return the result of a push, UNREACHABLE if it takes longer than PUSH_SECONDS or there is no answer."""
    try:
        async with asyncio.timeout(PUSH_SECONDS):
            return await send()
    except ServiceUnreachable as error:
        return unreachable(str(error))
    except (TimeoutError, httpx.TimeoutException):
        return unreachable("no answer in time")
    except httpx.ConnectError as error:
        return unreachable(f"no connection: {error}")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        return unreachable(f"no usable answer: {error or type(error).__name__}")
    except Exception as error:
        # Parsers of HTTP raise errors of many kinds for malformed answers.
        _log.warning("push_answer_malformed", exc_info=True)
        return unreachable(f"no usable answer: {type(error).__name__}")


def unreachable(reason: str, retry_after_seconds: float | None = None) -> PushResult:
    """Return the result of a push that may be sent again."""
    return PushResult(PushOutcome.UNREACHABLE, printable(reason), retry_after_seconds)


def refused(reason: str) -> PushResult:
    """Return the result of a push that must not be sent again."""
    return PushResult(PushOutcome.REFUSED, printable(reason))


def gone(reason: str) -> PushResult:
    """Return the result of a push to an address that is not valid any more."""
    return PushResult(PushOutcome.GONE, printable(reason))


def printable(text: str) -> str:
    """Return text without control characters, of at most 300 characters."""
    return "".join(char if char.isprintable() else " " for char in text[:_LONGEST_REASON])


def is_temporary(status: int) -> bool:
    """Return whether the same request may succeed later."""
    return status in (408, 425, 429) or status >= 500


def retry_after(answer: ServiceAnswer, now_ms: int) -> float | None:
    """Return the pause (s) that a service asks for: at most an hour; None: it does not ask.

    A date counts from the date of the answer, if it has one: the service's clock may differ from this one.
    """
    text = answer.headers.get("retry-after", "").strip()
    seconds: float
    if text.isascii() and text.isdigit():
        # The conversion of a number of thousands of digits raises ValueError.
        seconds = float(text[:10])
    else:
        at = _parse_date(text)
        if at is None:
            return None
        began = _parse_date(answer.headers.get("date", ""))
        seconds = at - (now_ms / 1000 if began is None else began)
    return min(max(seconds, 0.0), _LONGEST_WAIT_SECONDS)


def clock_note(answer: ServiceAnswer, now_ms: int) -> str:
    """Return a remark about the clocks for a reason, if they differ: signatures are valid for a limited time."""
    theirs = _parse_date(answer.headers.get("date", ""))
    if theirs is None or math.fabs(theirs - now_ms / 1000) < _CLOCK_SECONDS:
        return ""
    ahead = now_ms / 1000 - theirs
    return f". The clock of this server is {abs(ahead):.0f} s {'ahead' if ahead > 0 else 'behind'}"


def _parse_date(text: str) -> float | None:
    """Return the time (s since the Unix epoch) of an HTTP date."""
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
