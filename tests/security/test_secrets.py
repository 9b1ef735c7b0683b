"""Secrets and the content of messages appear neither in any log line, at any level, nor in answers to others."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from pymongo.errors import BulkWriteError, OperationFailure

from server.app import create_app
from server.observability.logs import configure_logging
from server.settings import Settings
from store.base.driver_errors import translate_errors
from store.base.errors import Unreachable
from store.mongo.client import Mongo
from tests.protocol.peer import open_admitted_socket
from tests.server.served_app import ServeApp
from tests.server.test_logs import restored
from tests.server.tokens import SECRET, bearer, signed

__all__ = ["restored"]

TEXT = "zq-message-content"
KEY = "zq-idempotency-key"
UNEXPECTED = "zq-odd"
"""Used at positions where no such text belongs."""

SEND = (
    f'mutation {{ sendMessage(input: {{toUserId: "bob", content: "{TEXT}", idempotencyKey: '
    f'"{KEY}"}}) {{ message {{ id }} }} }}'
)
IMPLEMENTATION_WORDS = (
    "Traceback",
    'File "',
    "pymongo",
    "redis.exceptions",
    "site-packages",
    "/store/",
    "ServerSelection",
    "127.0.0.1",
    "Errno",
)


@pytest.fixture
def log(restored: None) -> io.StringIO:
    stream = io.StringIO()
    configure_logging(Settings(log_level="DEBUG"), stream)
    return stream


def expect_no_secrets(text: str, *secrets: str) -> None:
    for secret in secrets:
        assert secret not in text, (
            f"{secret} is revealed: ...{text[max(0, text.find(secret) - 300) : text.find(secret) + 60]}"
        )


async def test_no_log_line_holds_a_secret_or_message_content(
    serve_app: ServeApp, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    expires_at = time.time() + 60
    tokens = {user: signed(sub=user, exp=expires_at) for user in ("alice", "bob")}
    forged = tokens["alice"][:-3] + "zzz"
    answers = []
    async with serve_app(log_level="DEBUG", graphiql=True) as app:

        async def post(content: Any, token: str = tokens["alice"], **options: Any) -> httpx.Response:
            headers = {"authorization": f"Bearer {token}", "content-type": "application/json"} | options.pop(
                "headers", {}
            )
            answer = await app.http.post("/graphql", json=content, headers=headers, **options)
            answers.append(answer.text)
            return answer

        await post({"query": "{ me { id } }"}, tokens["bob"])
        assert "errors" not in (await post({"query": SEND})).json()
        for token in (forged, "zq-no-token", signed(sub="alice", exp=1)):
            await post({"query": SEND}, token)
        await post({"query": SEND.replace("content", UNEXPECTED)})
        await post({"query": f"{{ {UNEXPECTED} }}", "variables": {UNEXPECTED: TEXT}})
        await post({"query": "query ($a: Int) { me { id } }", "variables": {"a": TEXT}})
        headers = {"content-type": "application/json", "authorization": f"Basic {tokens['alice']}"}
        await app.http.post("/graphql", content=f'{{"query": "{TEXT}', headers=headers)
        await app.http.get(
            "/graphql", params={"query": f'{{ user(id: "{TEXT}") {{ id }} }}', "token": "zq-stream-token"}
        )
        reserved = (await app.http.put("/graphql", headers={"authorization": f"Bearer {tokens['alice']}"})).text
        stream = {"authorization": f"Bearer {tokens['alice']}", "x-graphql-event-stream-token": reserved}
        await app.http.post("/graphql", json={"query": SEND, "extensions": {"operationId": "1"}}, headers=stream)
        await app.http.delete(f"/graphql?token={reserved}&operationId=1", headers=stream)
        for payload in ({"Authorization": f"Bearer {tokens['alice']}"}, {"Authorization": f"Bearer {forged}"}):
            url = f"ws://127.0.0.1:{app.served.port}/graphql?token={tokens['bob']}"
            async with open_admitted_socket(url) as peer:
                await peer.send({"type": "connection_init", "payload": payload | {"password": "zq-password"}})
                if payload["Authorization"].endswith(tokens["alice"]):
                    assert await peer.receive() == {"type": "connection_ack"}
                    await peer.subscribe("1", SEND.replace(KEY, KEY + "2"))
                    await peer.receive()
                    await peer.subscribe("2", f'mutation {{ renewAuth(token: "{forged}") }}')
                    await peer.send(f'{{"{TEXT}')
        # Failures of all kinds: database errors that quote the document, and internal errors.
        write_error = {"index": 0, "code": 121, "errmsg": TEXT, "op": {"t": TEXT}}

        async def fail_to_write(*_: Any, **__: Any) -> Any:
            with translate_errors():
                raise BulkWriteError({"writeErrors": [write_error], "writeConcernErrors": []})

        async def fail_internally(*_: Any, **__: Any) -> Any:
            raise ZeroDivisionError("in the middle of it")

        for find, code in ((fail_to_write, "UNAVAILABLE"), (fail_internally, "INTERNAL")):
            monkeypatch.setattr(Mongo, "find", find)
            answer = await post({"query": '{ messages(conversationId: "p_alice_bob") { edges { node { content } } } }'})
            assert answer.json()["errors"][0]["extensions"]["code"] == code
        monkeypatch.undo()
        assert set(answer.json()["errors"][0]) <= {"message", "locations", "path", "extensions"}
    text = log.getvalue()
    assert text.count('"event":"request"') > 10 and "in the middle of it" in text
    expect_no_secrets(
        text, TEXT, KEY, UNEXPECTED, SECRET, reserved, "zq-password", "zq-stream-token", "zq-no-token", "idempotency"
    )
    expect_no_secrets(text, *tokens.values(), forged, *(token.split(".")[2] for token in tokens.values()))
    for answer_text in answers:
        expect_no_secrets(answer_text, SECRET, *IMPLEMENTATION_WORDS, "in the middle of it", tokens["alice"], forged)


def test_database_errors_do_not_quote_documents() -> None:
    details = {"index": 0, "code": 121, "errmsg": TEXT, "op": {"t": TEXT}}
    for failure in (
        BulkWriteError({"writeErrors": [details], "writeConcernErrors": []}),
        OperationFailure(TEXT, 121, {"errmsg": TEXT}),
    ):
        with pytest.raises(Unreachable) as caught, translate_errors():
            raise failure
        assert TEXT not in str(caught.value) and "121" in str(caught.value)
        assert caught.value.__suppress_context__


async def test_passwords_of_unreachable_databases_are_not_revealed(
    settings_with: Callable[..., Settings], log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("server.services._CHECK_SECONDS", 0.3)
    monkeypatch.setattr("server.services.START_WAIT_SECONDS", 0.0)
    settings = settings_with(
        jwt_secret=SECRET,
        mongo_url="mongodb://zq-user:zq-password@127.0.0.1:1/?directConnection=true&appName=zq-option",
        redis_url="redis://zq-user:zq-password@127.0.0.1:1/0",
    )
    app = create_app(settings)
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://confab")
    async with app.router.lifespan_context(app), http as client:
        ready = await client.get("/readyz")
        headers = {"authorization": bearer(sub="alice", exp=time.time() + 60)}
        answer = await client.post("/graphql", json={"query": "{ me { id } }"}, headers=headers)
    assert ready.status_code == 503
    assert answer.json()["errors"][0]["extensions"]["code"] == "UNAVAILABLE"
    for text in (ready.text, answer.text):
        expect_no_secrets(text, "zq-", *IMPLEMENTATION_WORDS)
    assert "127.0.0.1" in log.getvalue()
    # The driver appends its state of every server.
    expect_no_secrets(log.getvalue(), "TopologyDescription", "configured timeouts")
    expect_no_secrets(log.getvalue() + repr(settings), "zq-password", "zq-user", "zq-option", SECRET)
