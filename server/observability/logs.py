"""Structured logs: one line per event, as JSON or for people; ours, uvicorn's and every library's alike."""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import MutableMapping
from functools import lru_cache
from types import FrameType
from typing import Any, TextIO

import orjson
import structlog
from structlog.contextvars import merge_contextvars
from structlog.typing import EventDict, Processor, WrappedLogger

from server.settings import Settings
from store.base.errors import StoreError

_SECRET_KEYS = re.compile(r"authorization|cookie|password|secret|token|\bjwt\b", re.IGNORECASE)
_SECRET_TEXTS = re.compile(
    r"(?P<url>[a-z+]{2,16}://)[^/\s]*@"
    r"|(?P<scheme>bearer\s+)[\w.~+/=-]+"
    r"|\beyJ[\w-]+\.[\w-]+\.[\w-]*",
    re.IGNORECASE,
)

_FACTS: tuple[Processor, ...] = (
    merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logging(settings: Settings, stream: TextIO | None = None) -> None:
    """Send every log line of the process to stream (stderr unless given), as the settings say.

    Start uvicorn with log_config=None, or it puts its own handlers back.
    """
    target = stream or sys.stderr
    rendering = _rendering(settings, target.isatty())
    # Not by way of the standard library: that would make the line per request four times as dear.
    structlog.configure(
        processors=[*_FACTS, structlog.processors.StackInfoRenderer(), *rendering],
        logger_factory=lambda *names: _NamedLogger(names[0] if names else _caller(), target),
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        cache_logger_on_first_use=False,
    )
    _configure_libraries(settings, target, rendering)
    # A client that goes away cancels what was computed for it; what graphql-core had not begun by then is no defect.
    warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)


class _NamedLogger(structlog.WriteLogger):
    def __init__(self, name: str, target: TextIO) -> None:
        super().__init__(target)
        self.name = name


def _caller() -> str:
    """The module that asked for a logger without naming it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != __name__ and not name.startswith("structlog"):
            return name
        frame = frame.f_back
    return "confab"


def _configure_libraries(settings: Settings, target: TextIO, rendering: list[Processor]) -> None:
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_FACTS, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _without_colours, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # The line per request is ours, with the request's id.
    logging.getLogger("uvicorn.access").disabled = True
    for name in ("httpx", "httpcore", "pymongo", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("asyncio").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Not where a database was away: of several that an operation waited for, one told it so, and no one asks the others."""
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, StoreError) and "never retrieved" in record.getMessage())


def _rendering(settings: Settings, colors: bool) -> list[Processor]:
    if settings.log_format == "console":
        renderer: Processor = structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    else:
        renderer = structlog.processors.JSONRenderer(serializer=_to_json)
    # Tracebacks become text first, so that they are redacted too.
    return [structlog.processors.format_exc_info, redact, renderer]


def _to_json(value: Any, **_: Any) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        # Numbers past 64 bits and lone surrogates: a line is never lost for what is in it.
        return json.dumps(value)


def _without_colours(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.pop("color_message", None)  # uvicorn's second copy of the event
    return event


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """A structlog processor: hides what is called a secret, and what looks like a token or a URL's password."""
    return {key: "***" if _is_secret(key) else _redacted(value) for key, value in event.items()}


@lru_cache(maxsize=1024)
def _is_secret(key: object) -> bool:
    return _SECRET_KEYS.search(str(key)) is not None


def _redacted(value: Any) -> Any:
    if isinstance(value, str):
        lower = value.lower()
        # Looking for these first takes a tenth of the time, and nearly no text has one of them.
        suspicious = "://" in lower or "bearer" in lower or "eyj" in lower
        return _SECRET_TEXTS.sub(_without_secret, value) if suspicious else value
    if isinstance(value, MutableMapping):
        return redact(None, "", value)
    if isinstance(value, list | tuple):
        return [_redacted(item) for item in value]
    if value is None or isinstance(value, int | float):
        return value
    return _redacted(repr(value))


def _without_secret(match: re.Match[str]) -> str:
    if match["url"]:
        return f"{match['url']}***@"
    return f"{match['scheme'] or ''}***"
