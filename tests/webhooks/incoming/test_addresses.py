"""Addresses of incoming webhooks: which are accepted, how often, and which bodies."""

from __future__ import annotations

import json
import re
from contextvars import ContextVar
from typing import Any

import pytest

from server.webhooks.endpoint import MOST_BYTES
from store.mongo.client import Mongo
from tests.api.channels.calls import ARCHIVE
from tests.api.client import Api
from tests.api.conftest import OpenApi
from tests.api.sample_channels import SampleChannels, create_sample_channels
from tests.webhooks.incoming.hooks import Hook, Hooks, refusal_of

GONE = (404, "NOT_FOUND", None)
JSON = {"content-type": "application/json"}
FORM = {"content-type": "application/x-www-form-urlencoded"}

BAD_BODIES: list[tuple[Any, dict[str, str], int, str | None]] = [
    (b"", JSON, 400, None),
    (b"{", JSON, 400, None),
    (b"\xff\xfe", JSON, 400, None),
    (b'{"content": "\xff"}', JSON, 400, None),
    (b'{"content": "\\ud800"}', JSON, 400, None),
    (b"[" * 100_000, JSON, 400, None),
    (b'{"a":' * 2_000 + b"1" + b"}" * 2_000, JSON, 400, None),
    (b"[]", JSON, 400, None),
    (b'"text"', JSON, 400, None),
    (b"null", JSON, 400, None),
    (b"{}", JSON, 400, "content"),
    (b'{"content": null}', JSON, 400, "content"),
    (b'{"content": 7}', JSON, 400, "content"),
    (b'{"content": ["x"]}', JSON, 400, "content"),
    (b'{"content": "  "}', JSON, 400, "content"),
    (b'{"content": "a\\u0000b"}', JSON, 400, "content"),
    (json.dumps({"content": "x" * 4_001}).encode(), JSON, 400, "content"),
    (b'{"content": "x", "username": 7}', JSON, 400, "username"),
    (b'{"content": "x", "username": "\\u200b"}', JSON, 400, "username"),
    (json.dumps({"content": "x", "username": "x" * 101}).encode(), JSON, 400, "username"),
    (b'{"content": "x", "avatarUrl": "javascript:alert(1)"}', JSON, 400, "avatarUrl"),
    (b'{"content": "x", "avatarUrl": {}}', JSON, 400, "avatarUrl"),
    (b'{"content": "x", "threadOf": 7}', JSON, 400, "threadOf"),
    (b'{"content": "x", "idempotencyKey": ""}', JSON, 400, "idempotencyKey"),
    (b'{"content": "x", "idempotencyKey": 7}', JSON, 400, "idempotencyKey"),
    (json.dumps({"content": "x", "idempotencyKey": "k" * 129}).encode(), JSON, 400, "idempotencyKey"),
    (b'{"content": "x", "metadata": [[[[[[[[[1]]]]]]]]]}', JSON, 400, "metadata"),
    (json.dumps({"content": "x", "metadata": "x" * 8_192}).encode(), JSON, 400, "metadata"),
    (b'{"content": "x", "embeds": {}}', JSON, 400, "embeds"),
    (b'{"content": "x", "embeds": [7]}', JSON, 400, "embeds[0]"),
    (b'{"content": "x", "embeds": [{}]}', JSON, 400, "embeds[0]"),
    (b'{"content": "x", "embeds": [{"title": 1}]}', JSON, 400, "embeds[0].title"),
    (b'{"content": "x", "embeds": [{"title": "t", "color": "red"}]}', JSON, 400, "embeds[0].color"),
    (b'{"content": "x", "embeds": [{"title": "t", "url": "file:///etc"}]}', JSON, 400, "embeds[0].url"),
    (b'{"content": "x", "embeds": [{"title": "t", "fields": [[]]}]}', JSON, 400, "embeds[0].fields[0]"),
    (b'{"content": "x", "embeds": [{"fields": [{"name": "n"}]}]}', JSON, 400, "embeds[0].fields[0].value"),
    (
        b'{"content": "x", "embeds": [{"fields": [{"name": "n", "value": "v", "inline": 1}]}]}',
        JSON,
        400,
        "embeds[0].fields[0].inline",
    ),
    (json.dumps({"content": "x", "embeds": [{"title": "t"}] * 11}).encode(), JSON, 400, "embeds"),
    (b'{"content": "x"}', {"content-type": "text/plain"}, 415, None),
    (b'{"content": "x"}', {"content-type": "multipart/form-data; boundary=x"}, 415, None),
    (b'{"content": "x"}', {"content-type": "application/json; charset=utf-16"}, 415, None),
    (b'{"content": "x"}', {}, 415, None),
    (b'{"content": "x"}', JSON | {"content-encoding": "gzip"}, 415, None),
    (b"content=x", FORM, 400, None),
    (b'{"content": "x"}', FORM, 400, None),
    (b"payload={", FORM, 400, "payload"),
    (b"payload=%ff", FORM, 400, None),
    (b"a=1&" * 1_000 + b"payload={}", FORM, 400, None),
    (b"x" * (MOST_BYTES + 1), JSON, 413, None),
    (b'{"content": "x"}' + b" " * MOST_BYTES, JSON, 413, None),
]


@pytest.mark.parametrize(("body", "headers", "status", "field"), BAD_BODIES)
async def test_bad_bodies_are_refused_and_store_nothing(
    hooks: Hooks, workspace: SampleChannels, body: bytes, headers: dict[str, str], status: int, field: str | None
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    answer = await hooks.http.post(hook.path, content=body, headers=headers)
    assert refusal_of(answer) == (status, "INVALID_INPUT", field)
    assert await hooks.messages(workspace.member, workspace.general) == []


async def test_the_largest_message_fits_also_escaped(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    embeds = [{"description": "\U0001f600" * 4_000}, {"description": "\U0001f600" * 2_000}]
    body = json.dumps({"content": "\U0001f600" * 4_000, "embeds": embeds, "metadata": {"a": "é" * 4_000}})
    answer = await hooks.http.post(hook.path, content=body, headers=JSON)
    assert answer.status_code == 200, answer.text


async def test_unknown_fields_are_ignored(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    await hooks.sent(hook, tts=True, allowed_mentions={"parse": []}, channel="#x", id=99999999999999999999999)
    assert len(await hooks.messages(workspace.member, workspace.general)) == 1


async def test_unknown_webhooks_and_wrong_tokens_have_the_same_answer_and_the_same_reads(
    api: Api, hooks: Hooks, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    other = await hooks.create(workspace.admin, workspace.general)
    unknown = f"h_{int(hook.id[2:]) + 1}"
    paths = {
        "a wrong token": f"/webhooks/{hook.id}/{'x' * 43}",
        "the token of another one": f"/webhooks/{hook.id}/{other.token}",
        "a part of the token": f"/webhooks/{hook.id}/{hook.token[:-1]}",
        "an unknown id": f"/webhooks/{unknown}/{hook.token}",
    }
    reads: dict[str, int] = {}
    request: ContextVar[str | None] = ContextVar("request", default=None)
    find_one = Mongo.find_one

    async def counted(self: Mongo, *args: Any, **options: Any) -> Any:
        name = request.get()
        if name is not None:  # None: a read of a background loop, which runs at any time
            reads[name] = reads.get(name, 0) + 1
        return await find_one(self, *args, **options)

    monkeypatch.setattr(Mongo, "find_one", counted)
    answers = []
    for name, path in paths.items():
        token = request.set(name)
        answer = await hooks.http.post(path, json={"content": "x"})
        request.reset(token)
        answers.append((answer.status_code, answer.text, set(answer.headers) - {"x-request-id"}))
    assert answers == [answers[0]] * len(paths) and answers[0][0] == 404
    assert reads == dict.fromkeys(paths, 1)
    assert await hooks.messages(workspace.member, workspace.general) == []


@pytest.mark.parametrize("id", ["x", "h_", "h_x", "h_01", "h_" + "9" * 40, "w_1", "%00", "h_1%0a"])
async def test_malformed_ids_are_refused(hooks: Hooks, id: str) -> None:
    answer = await hooks.http.post(f"/webhooks/{id}/token", json={"content": "x"})
    assert refusal_of(answer) == GONE


async def test_the_token_is_checked_before_the_body_is_read(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    wrong = Hook(hook.id, hook.url[:-1])
    answer = await hooks.http.post(wrong.path, content=b"x" * (MOST_BYTES + 1), headers=JSON)
    assert refusal_of(answer) == GONE


async def test_other_methods_are_refused(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    for method in ("GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = await hooks.http.request(method, hook.path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


async def test_the_webhook_of_an_archived_channel_answers_archived_until_it_is_reopened(
    hooks: Hooks, workspace: SampleChannels
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    parent = (await hooks.sent(hook))["id"]
    await hooks.api.data(workspace.admin, ARCHIVE, id=workspace.general)
    for more in ({}, {"threadOf": parent}):
        # None of the fields of the body is at fault.
        assert refusal_of(await hooks.send(hook, **more)) == (409, "ARCHIVED", None)
    texts = [m for m in await hooks.messages(workspace.member, workspace.general) if m["contentType"] == "TEXT"]
    assert len(texts) == 1
    await hooks.api.data(workspace.admin, ARCHIVE, id=workspace.general, archived=False)
    await hooks.sent(hook)


async def test_requests_are_limited_per_webhook(open_api: OpenApi) -> None:
    async with open_api("limited", webhook_posts_per_minute=6) as api:
        workspace = await create_sample_channels(api)
        hooks = Hooks(api)
        hook, other = [await hooks.create(workspace.admin, workspace.general) for _ in range(2)]
        for number in range(3):
            await hooks.sent(hook, idempotencyKey=f"k{number}")
        answer = await hooks.send(hook, idempotencyKey="k3")
        assert refusal_of(answer) == (429, "RATE_LIMITED", None)
        wait_ms = answer.json()["error"]["retryAfterMs"]
        assert 0 < wait_ms <= 10_000 and int(answer.headers["retry-after"]) == -(-wait_ms // 1000)
        # Bad bodies and wrong tokens: the former count, the latter do not.
        for _ in range(5):
            assert refusal_of(await hooks.http.post(f"/webhooks/{other.id}/x", content=b"")) == GONE
        await hooks.sent(other)
        assert len(await hooks.messages(workspace.member, workspace.general)) == 4


async def test_an_overloaded_process_refuses_without_reading_anything(
    hooks: Hooks, workspace: SampleChannels, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    monkeypatch.setattr(type(hooks.shedding), "is_full", property(lambda _: True))
    answer = await hooks.send(hook)
    assert refusal_of(answer) == (503, "UNAVAILABLE", None) and answer.headers["retry-after"] == "1"
    monkeypatch.undo()
    assert await hooks.messages(workspace.member, workspace.general) == []


async def test_requests_are_counted_by_their_result(hooks: Hooks, workspace: SampleChannels) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    await hooks.sent(hook)
    await hooks.send(hook, "")
    await hooks.http.post(f"/webhooks/{hook.id}/x")
    counted = {code: count for (name, _, code), count in hooks.meter.ended.items() if name == "incomingWebhook"}
    assert counted == {"OK": 1, "INVALID_INPUT": 1, "NOT_FOUND": 1}


async def test_the_log_never_has_a_token(
    hooks: Hooks, workspace: SampleChannels, capsys: pytest.CaptureFixture[str]
) -> None:
    hook = await hooks.create(workspace.admin, workspace.general)
    capsys.readouterr()
    paths = [hook.path, f"{hook.path}/", f"/prefix{hook.path}", f"/x{hook.path.upper()}", f"{hook.path}/slack"]
    # Addresses that were copied or put together wrongly.
    paths += [hook.path * 2, hook.path.replace("webhooks", "webhook"), hook.path.replace("/", "\\")]
    paths += [f"/{hook.id}/{hook.token}", f"/webhooks/{hook.id}{hook.token}"]
    for path in paths:
        for method in ("POST", "GET"):
            await hooks.http.request(method, path, json={"content": "x"})
    logged = "".join(capsys.readouterr())
    assert len(re.findall(r"/webhooks/h_[0-9]+/…", logged, re.IGNORECASE)) >= 10
    assert hook.token not in logged and hook.token.upper() not in logged
