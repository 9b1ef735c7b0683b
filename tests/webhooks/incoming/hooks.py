"""Calls to incoming webhooks, through the ASGI application of their endpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from starlette.applications import Starlette
from starlette.middleware import Middleware

from server.http.request_log import RequestLogMiddleware
from server.overload.load_shedding import LoadShedding
from server.overload.operation_meter import OperationMeter
from server.overload.operation_queue import OperationQueue
from server.overload.shielded_mutations import ShieldedMutations
from server.webhooks.endpoint import PostLimits, WebhookEndpoint, webhook_route
from store.webhooks.webhook import Webhook
from tests.api.client import Api, Json, Refusal
from tests.webhooks.calls import DELETE, ROTATE

ORIGIN = "https://app.example"
CREATE_HOOK = """mutation ($channel: ID!, $name: String!, $avatar: String) {
    createIncomingWebhook(channelId: $channel, name: $name, avatarUrl: $avatar) {
        __typename id kind name url secret events state failingSince } }"""
SHOWN = """id conversationId seq content metadata contentType state sender { id displayName isBot avatarUrl }
    authorName authorAvatarUrl mentions { id } mentionsAll mentionedRoles { id } idempotencyKey
    embeds { type title url fields { name } }"""
MESSAGES = f"""query ($id: ID!) {{ messages(conversationId: $id, first: 100) {{ edges {{ node {{ {SHOWN} }} }} }} }}"""


@dataclass(frozen=True)
class Hook:
    """A webhook that was created. `path`: of its address."""

    id: str
    url: str

    @property
    def path(self) -> str:
        return urlsplit(self.url).path

    @property
    def token(self) -> str:
        return self.path.rpartition("/")[2]


class Hooks:
    """The endpoint of one process."""

    def __init__(self, api: Api, *, max_body_bytes: int = 1_048_576) -> None:
        self.api = api
        self.meter = OperationMeter()
        self.shedding = LoadShedding(500, 64)
        queue = OperationQueue(self.shedding, 8, 500)
        limits = PostLimits(max_body_bytes, 60.0)
        endpoint = WebhookEndpoint(api.services.app, queue, ShieldedMutations(), self.meter, limits)
        route = webhook_route(endpoint, self.shedding)
        app = Starlette(routes=[route], middleware=[Middleware(RequestLogMiddleware)])
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://confab", timeout=60)

    async def create(self, user: str, channel: str, name: str = "ci", avatar: str | None = None) -> Hook:
        """Create a webhook as a user."""
        answer = await self.api.data(user, CREATE_HOOK, channel=channel, name=name, avatar=avatar)
        found = answer["createIncomingWebhook"]
        return Hook(found["id"], found["url"])

    async def refuse_create(self, user: str | None, channel: str, name: str = "ci", **more: Any) -> Refusal:
        return await self.api.expect_refusal(user, CREATE_HOOK, channel=channel, name=name, **more)

    async def send(self, hook: Hook, content: str = "built", **more: Any) -> httpx.Response:
        """Return the answer to a message."""
        return await self.http.post(hook.path, json={"content": content} | more)

    async def sent(self, hook: Hook, content: str = "built", **more: Any) -> Json:
        """Return the answer to a message that has to be accepted."""
        answer = await self.send(hook, content, **more)
        assert answer.status_code == 200, answer.text
        found: Json = answer.json()
        return found

    async def row(self, hook: Hook) -> Webhook | None:
        return await self.api.services.app.store.incoming_webhooks.find(hook.id)

    async def messages(self, user: str, conversation: str) -> list[Json]:
        """Return the messages that a user reads; none of a conversation that the user does not see."""
        found = (await self.api.data(user, MESSAGES, id=conversation))["messages"]
        return [edge["node"] for edge in found["edges"]] if found is not None else []


def refusal_of(answer: httpx.Response) -> tuple[int, str, str | None]:
    """Return status, code and field of an answer that must be an error."""
    error = answer.json()["error"]
    assert error["message"]
    return answer.status_code, error["code"], error.get("field")


async def use_webhook(api: Api, manager: str, channel: str) -> None:
    """Create a webhook, send a message twice and a reply through it, rotate and delete it."""
    hooks = Hooks(api)
    hook = await hooks.create(manager, channel)
    sent = await hooks.sent(hook, idempotencyKey="k")
    assert (await hooks.sent(hook, idempotencyKey="k"))["id"] == sent["id"]
    await hooks.sent(hook, "reply", threadOf=sent["id"])
    await api.data(manager, ROTATE, id=hook.id)
    await api.data(manager, DELETE, id=hook.id)
    await hooks.http.aclose()
