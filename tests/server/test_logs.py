"""Log lines of requests, and redaction of secrets."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from structlog.contextvars import bind_contextvars, clear_contextvars

from server.http.request_log import RequestLogMiddleware
from server.observability.logs import configure_logging
from server.settings import Settings
from store.base.errors import Unreachable
from tests.server.tokens import bearer, signed

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbGljZSJ9.c2lnbmF0dXJlLW9mLWFsaWNl"


@pytest.fixture
def restored() -> Iterator[None]:
    """Restore the logging configuration after the test."""
    root = logging.getLogger()
    named = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "httpx")]
    before = root.handlers[:], root.level
    states = [(logger, logger.handlers[:], logger.level, logger.propagate, logger.disabled) for logger in named]
    yield
    root.handlers[:], root.level = before
    for logger, handlers, level, propagate, disabled in states:
        logger.handlers[:], logger.level, logger.propagate, logger.disabled = handlers, level, propagate, disabled
    structlog.reset_defaults()
    clear_contextvars()


class Log:
    def __init__(self, **settings: Any) -> None:
        self.stream = io.StringIO()
        configure_logging(Settings(**settings), self.stream)

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def log(restored: None) -> Log:
    return Log(log_level="DEBUG")


async def hello(_: Request) -> Response:
    return PlainTextResponse("hello")


async def explode(_: Request) -> Response:
    raise RuntimeError(f"Bearer {TOKEN}")


def client() -> httpx.AsyncClient:
    routes = [Route("/graphql", hello), Route("/healthz", hello), Route("/explode", explode)]
    app = Starlette(routes=routes, middleware=[Middleware(RequestLogMiddleware, new_id=lambda: "made-here")])
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(transport=transport, base_url="http://confab")


async def test_request_is_logged_as_one_line(log: Log, side: Any) -> None:
    def work() -> dict[str, Any]:
        structlog.get_logger("inside").info("working")
        return {"data": {}}

    side.engine.result = work
    token = signed(sub="alice")
    body = {"query": "query Home {ok}", "operationName": "Home"}
    await side.post(body, authorization=f"Bearer {token}", x_request_id="req-7")
    working, line = (entry for entry in log.lines if entry["logger"] in ("inside", "server.http.request_log"))
    assert line["duration_ms"] >= 0
    assert {name: line[name] for name in ("event", "level", "method", "path", "status", "request_id")} == {
        "event": "request", "level": "info", "method": "POST", "path": "/graphql", "status": 200, "request_id": "req-7",
    }  # fmt: skip
    assert (line["user"], line["operation"], working["request_id"]) == ("alice", "Home", "req-7")
    assert token not in log.stream.getvalue()


async def test_unnamed_operation_is_logged_by_its_kind(log: Log, side: Any) -> None:
    await side.post({"query": "mutation {ok}"})
    assert [entry["operation"] for entry in log.lines if entry["logger"] == "server.http.request_log"] == ["mutation"]


async def test_log_context_of_a_request_does_not_leak_into_the_next(log: Log, side: Any) -> None:
    await side.post(authorization=bearer())
    await side.post()
    assert [("user" in entry) for entry in log.lines if entry["logger"] == "server.http.request_log"] == [True, False]


@pytest.mark.parametrize("offered", ["abc", "A1._:-z", "x" * 64])
async def test_request_id_of_the_client_is_kept_and_returned(log: Log, offered: str) -> None:
    async with client() as http:
        assert (await http.get("/graphql", headers={"x-request-id": offered})).headers["x-request-id"] == offered


@pytest.mark.parametrize("offered", [None, "", "x" * 65, "two words", 'a"b', "a\x01b", "ä"])
async def test_invalid_request_id_is_replaced(log: Log, offered: str | None) -> None:
    headers = {} if offered is None else {"x-request-id": offered.encode("utf-8")}
    async with client() as http:
        response = await http.get("/graphql", headers=headers)
    assert response.headers.get_list("x-request-id") == ["made-here"]


async def test_failed_request_is_logged_with_a_redacted_traceback(log: Log) -> None:
    async with client() as http:
        assert (await http.get("/explode")).status_code == 500
    (line,) = (entry for entry in log.lines if entry["logger"] == "server.http.request_log")
    assert line["status"] == 500
    try:
        raise RuntimeError(f"Bearer {TOKEN}")
    except RuntimeError:
        structlog.get_logger("inside").exception("failed")
    failed = log.lines[-1]
    assert "RuntimeError" in failed["exception"]
    assert TOKEN not in log.stream.getvalue()


async def test_successful_health_checks_are_not_logged(restored: None) -> None:
    quiet = Log(log_level="INFO")
    async with client() as http:
        await http.get("/healthz")
        await http.get("/graphql")
    assert [entry["path"] for entry in quiet.lines if entry["event"] == "request"] == ["/graphql"]


@pytest.mark.parametrize("name", ["uvicorn.error", "uvicorn", "pymongo.topology", "anything"])
def test_log_lines_of_libraries_have_the_same_format(log: Log, name: str) -> None:
    bind_contextvars(request_id="req-7")
    logging.getLogger(name).warning("Started %s of %d", "one", 2, extra={"port": 8000})
    (line,) = log.lines
    assert (line["event"], line["level"], line["logger"]) == ("Started one of 2", "warning", name)
    assert (line["request_id"], line["port"]) == ("req-7", 8000)
    assert line["timestamp"].endswith("Z")


def test_access_log_of_uvicorn_is_off(log: Log) -> None:
    logging.getLogger("uvicorn.access").info("GET / 200")
    assert log.lines == []


def test_logger_without_a_name_has_the_name_of_its_module(log: Log) -> None:
    structlog.get_logger().info("hello")
    assert log.lines[0]["logger"] == __name__


def test_secrets_are_redacted_by_name_and_by_pattern(log: Log) -> None:
    structlog.get_logger("x").info(
        f"got {TOKEN}",
        Authorization="hunter2",
        jwt_secret="hunter2",
        set_cookie="hunter2",
        password="hunter2",
        nested={"token": "hunter2", "list": [f"bearer {TOKEN}"]},
        url="mongodb://user:hunter2@host:27017/?replicaSet=rs0",
        error=ValueError(f"Bearer {TOKEN}"),
        raw=f"Bearer {TOKEN}".encode(),
        harmless="alice@example.com",
    )
    (line,) = log.lines
    assert "hunter2" not in log.stream.getvalue()
    assert TOKEN.split(".")[2] not in log.stream.getvalue()
    assert line["harmless"] == "alice@example.com"
    assert line["url"] == "mongodb://***@host:27017/?replicaSet=rs0"


def test_console_format_is_text(restored: None) -> None:
    console = Log(log_format="console", log_level="INFO")
    structlog.get_logger("x").info("serving", port=8000)
    structlog.get_logger("x").debug("left out")
    text = console.stream.getvalue()
    assert "serving" in text
    assert "port=8000" in text
    assert "left out" not in text
    assert "\x1b" not in text


def test_console_format_escapes_characters_that_a_terminal_executes(restored: None) -> None:
    console = Log(log_format="console", log_level="INFO")
    structlog.get_logger("x").info("request", path="/\x1b]0;title\x07\u202e\n2026 forged line", user="Zoë 🙂")
    text = console.stream.getvalue()
    assert text.count("\n") == 1
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text
    assert "Zoë 🙂" in text


def test_values_that_json_cannot_represent_are_logged(log: Log) -> None:
    structlog.get_logger("x").info("odd", when=object, big=10**30, bad="\ud800", raw=b"\xff", keys={1: 2})
    assert log.lines[0]["event"] == "odd"


def test_unretrieved_database_errors_are_not_logged(log: Log) -> None:
    for error in (Unreachable("away"), ZeroDivisionError("a defect")):
        logging.getLogger("asyncio").error("Future exception was never retrieved", exc_info=error)
    (line,) = log.lines
    assert "ZeroDivisionError" in line["exception"]
