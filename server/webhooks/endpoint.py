"""POST to the address of an incoming webhook: `/webhooks/h_<number>/<token>` (ADR 91).

The token in the address is the permission. Pages of other sites can't read the answers: there are no CORS headers.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from resolvers.base.app import Confab
from resolvers.base.errors import A_MOMENT_MS, ConfabError, Unavailable
from resolvers.webhooks.incoming.managing import WEBHOOKS_PATH
from resolvers.webhooks.incoming.posted_message import PostedMessage, parse_posted_message
from resolvers.webhooks.incoming.posting import authenticate, post_message
from server.http.client_limits import USER_KEY
from server.http.overload_responses import LoadSheddingMiddleware
from server.http.request import BadRequest
from server.http.request_log import REQUEST_ID_KEY
from server.http.response import STATUS, internal_error
from server.overload.load_shedding import LoadShedding
from server.overload.operation_meter import OK, OperationMeter
from server.overload.operation_queue import OperationQueue
from server.overload.shielded_mutations import ShieldedMutations
from server.webhooks.bodies import read_webhook_body
from store.base.errors import StoreError
from store.base.ids import UserId
from store.webhooks.webhook import Webhook
from subscriptions.transport.engine import Json, RequestRefused, encode

log = structlog.get_logger(__name__)

MOST_BYTES = 262_144
"""Largest body, if the limit of all requests is not smaller. The largest valid message takes less, also escaped."""

METERED_AS = "incomingWebhook"
"""Name of these requests among the operations in metrics."""

_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
_STATUS = {**STATUS, "ARCHIVED": 409, "IDEMPOTENCY_CONFLICT": 409}
_LEFT = "LEFT"
_OVERLOADED = "This server is overloaded. Try again."
_UNAVAILABLE = "The service is unavailable at the moment. Try again with the same idempotencyKey."


@dataclass(frozen=True, slots=True)
class PostLimits:
    """Limits of requests to webhooks."""

    max_body_bytes: int
    timeout_seconds: float


class WebhookEndpoint:
    """ASGI application that answers one POST."""

    def __init__(
        self,
        app: Confab,
        queue: OperationQueue,
        mutations: ShieldedMutations,
        meter: OperationMeter,
        limits: PostLimits,
    ) -> None:
        self._app = app
        self._queue = queue
        self._mutations = mutations
        self._meter = meter
        self._max_bytes = min(MOST_BYTES, limits.max_body_bytes)
        self._timeout_seconds = limits.timeout_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request."""
        began, code = time.perf_counter(), OK
        try:
            response = await self._respond(Request(scope, receive))
        except ClientDisconnect:
            self._meter.record(METERED_AS, "mutation", _LEFT, time.perf_counter() - began)
            return
        except BadRequest as bad:
            code = "INVALID_INPUT"
            response = _refuse(bad.status, code, bad.message, bad.field, headers=bad.headers)
        except ConfabError as error:
            code, response = error.code, _refuse_with(error)
        except RequestRefused as refusal:
            # Too many requests to this webhook wait.
            code, response = _refuse_as(refusal)
        except (StoreError, TimeoutError) as error:
            log.warning("webhook_post_failed", reason=str(error))
            code = Unavailable.code
            response = _refuse(503, code, _UNAVAILABLE, retry_after_ms=A_MOMENT_MS)
        except Exception:
            code = "INTERNAL"
            response = _refuse(500, code, str(internal_error(str(scope.get(REQUEST_ID_KEY, "")))["message"]))
        self._meter.record(METERED_AS, "mutation", code, time.perf_counter() - began)
        await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        parameters = request.path_params
        with self._app.request_scope(None):
            # Before the body is read: without the token nobody can make this server read a body.
            webhook = await authenticate(self._app, parameters["webhook"], parameters["token"])
        request.scope[USER_KEY] = webhook.id
        posted = parse_posted_message(await read_webhook_body(request, self._max_bytes))
        async with asyncio.timeout(self._timeout_seconds):
            await self._queue.enter(webhook.id)
            task = self._mutations.start(self._post(webhook, posted))
            # It counts until its end, even if its client has disconnected.
            task.add_done_callback(lambda _: self._queue.leave(webhook.id))
            answer = await asyncio.shield(task)
        if posted.is_slack:
            return Response("ok", 200, _HEADERS, "text/plain")
        return Response(encode(answer), 200, _HEADERS, "application/json")

    async def _post(self, webhook: Webhook, posted: PostedMessage) -> Json:
        app = self._app
        used_fallback = app.uses_fallback
        with app.request_scope(UserId(webhook.id)):
            sent = await post_message(app, webhook, posted)
        if used_fallback or app.uses_fallback:
            await app.settle_fallback()
        message = sent.message
        return {
            "id": message.public_id,
            "conversationId": message.conversation,
            "seq": message.seq,
            "replayed": sent.replayed,
        }


def webhook_route(endpoint: WebhookEndpoint, load_shedding: LoadShedding) -> Route:
    """Return the route of the addresses of all incoming webhooks."""
    guarded = LoadSheddingMiddleware(endpoint, load_shedding, _refuse_while_overloaded)
    return Route(f"{WEBHOOKS_PATH}/{{webhook}}/{{token}}", guarded, methods=["POST"])


async def _refuse_while_overloaded(scope: Scope, receive: Receive, send: Send) -> None:
    response = _refuse(503, Unavailable.code, _OVERLOADED, retry_after_ms=A_MOMENT_MS)
    await response(scope, receive, send)


def _refuse_with(error: ConfabError) -> Response:
    status = _STATUS.get(error.code, 400)
    return _refuse(status, error.code, error.message, error.field, retry_after_ms=error.retry_after_ms)


def _refuse_as(refusal: RequestRefused) -> tuple[str, Response]:
    error = refusal.errors[0]
    extensions = error.get("extensions", {})
    code = str(extensions.get("code", "INTERNAL"))
    retry_after_ms = extensions.get("retryAfterMs")
    return code, _refuse(_STATUS.get(code, 400), code, error["message"], retry_after_ms=retry_after_ms)


def _refuse(
    status: int,
    code: str,
    message: str,
    field: str | None = None,
    *,
    retry_after_ms: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    error = {"code": code, "message": message, "field": field, "retryAfterMs": retry_after_ms}
    body = {"error": {name: value for name, value in error.items() if value is not None}}
    merged = {**_HEADERS, **(headers or {})}
    if retry_after_ms is not None:
        merged["retry-after"] = str(math.ceil(retry_after_ms / 1000))
    return Response(encode(body), status, merged, "application/json")
