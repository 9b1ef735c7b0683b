"""The external hook: a service of the operator that judges texts before they are stored (ADR 98)."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

import httpx
import orjson
import structlog

from resolvers.content_rules.circuit_breaker import CircuitBreaker
from resolvers.web_requests.signatures import signed_headers
from store.base.counters import SECONDS, Histogram
from store.base.ids import UserId

_log = structlog.get_logger()

ANSWER_SECONDS = 0.3
"""Time limit of a call, from the wait for a connection to the end of the answer."""

_CALLS_AT_ONCE = 100
_MOST_BYTES = 16 * 1024
_USER_AGENT = "Confab-Content-Hook/1"


class HookAction(StrEnum):
    """Answers of the hook, as it writes them."""

    ALLOW = "ALLOW"
    BLOCK = "BLOCK"
    FLAG = "FLAG"


@dataclass(frozen=True, slots=True)
class HookOptions:
    """Address of the hook, and what is done with its answers.

    Attributes:
        url: Its address. It may be an internal one.
        secret: A secret of Standard Webhooks, `whsec_…`.
        fails_open: Texts that it could not judge are allowed. False: they are refused with UNAVAILABLE.
        reporter: The user in whose name reports about messages outside of workspaces are made.
    """

    url: str
    secret: str
    fails_open: bool
    reporter: UserId


class ContentHook:
    """Asks the hook, with at most 100 calls at once. `outcomes` counts calls, `seconds` measures them.

    After five failures in a row a circuit breaker keeps texts from waiting for a dead hook.
    """

    def __init__(self, options: HookOptions, *, seconds: float | None = None) -> None:
        """Open no connection yet. seconds: time limit of a call; None: ANSWER_SECONDS."""
        self.options = options
        self._seconds = ANSWER_SECONDS if seconds is None else seconds
        self.breaker = CircuitBreaker(time.monotonic)
        self._turns = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._client = httpx.AsyncClient(
            timeout=self._seconds,
            limits=httpx.Limits(max_connections=_CALLS_AT_ONCE, max_keepalive_connections=_CALLS_AT_ONCE),
            headers={"User-Agent": _USER_AGENT, "content-type": "application/json"},
            follow_redirects=False,
            trust_env=False,
        )
        self.outcomes: Counter[str] = Counter()
        self.seconds = Histogram(SECONDS)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def ask(self, id: str, at_seconds: int, body: bytes) -> HookAction | None:
        """Return the answer about a text; None if there is none in time, or the breaker is open.

        Args:
            id: Of the call; signed.
            at_seconds: The present time, in seconds since the epoch; signed.
            body: JSON.
        """
        if not self.breaker.should_ask():
            self.outcomes["skipped"] += 1
            return None
        began = time.perf_counter()
        problem = ""
        action: HookAction | None = None
        try:
            async with asyncio.timeout(self._seconds), self._turns:
                action = await self._post(body, signed_headers(id, at_seconds, body, [self.options.secret]))
        except TimeoutError:
            problem = "no answer in time"
        except (httpx.HTTPError, httpx.StreamError, ValueError, OSError) as error:
            problem = f"{type(error).__name__}: {error}"
        self.seconds.observe(time.perf_counter() - began)
        self.outcomes[action.value.lower() if action is not None else "failed"] += 1
        if action is not None:
            if self.breaker.is_open:
                _log.info("content_hook_answers_again")
            self.breaker.note_success()
        elif self.breaker.note_failure():
            _log.warning("content_hook_fails", reason=problem, fails_open=self.options.fails_open)
        return action

    async def _post(self, body: bytes, headers: dict[str, str]) -> HookAction:
        """Return the answer. Raises ValueError if it is not a valid one."""
        async with self._client.stream("POST", self.options.url, content=body, headers=headers) as response:
            content = bytearray()
            # The answer is not decompressed: a few bytes could become gigabytes.
            async for part in response.aiter_raw(_MOST_BYTES):
                content += part
                if len(content) > _MOST_BYTES:
                    raise ValueError("the answer is too large")
        if response.status_code != 200:
            raise ValueError(f"status {response.status_code}")
        answer = orjson.loads(content)
        if not isinstance(answer, dict):
            raise ValueError("the answer is not a JSON object")
        return HookAction(str(answer.get("action")))
