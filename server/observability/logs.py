"""Structured logs: one line per event, as JSON or text, for Confab, uvicorn and all libraries."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
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


def _add_pid(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Tell lines of processes apart that write into one log: those of `confab serve --workers`."""
    if multiprocessing.parent_process() is not None:
        event.setdefault("pid", os.getpid())
    return event


_COMMON_PROCESSORS: tuple[Processor, ...] = (
    merge_contextvars,
    _add_pid,
    structlog.stdlib.add_logger_name,
    structlog.processors.add_log_level,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
)


def configure_logging(settings: Settings, stream: TextIO | None = None) -> None:
    """Send every log line of the process to `stream`, by default stderr, in the format of the settings.

    Start uvicorn with log_config=None: otherwise it restores its own handlers.
    """
    target = stream or sys.stderr
    renderers = _renderers(settings, target.isatty())
    # Bypasses the standard library, which would make the line per request four times as expensive.
    structlog.configure(
        processors=[*_COMMON_PROCESSORS, structlog.processors.StackInfoRenderer(), *renderers],
        logger_factory=lambda *names: _NamedLogger(names[0] if names else _calling_module(), target),
        wrapper_class=structlog.make_filtering_bound_logger(settings.log_level),
        cache_logger_on_first_use=False,
    )
    _configure_libraries(settings, target, renderers)
    # A disconnect cancels the operation. Coroutines that graphql-core had not started by then are not a defect.
    warnings.filterwarnings("ignore", r"coroutine '.*' was never awaited", RuntimeWarning)


class _NamedLogger(structlog.WriteLogger):
    def __init__(self, name: str, target: TextIO) -> None:
        super().__init__(target)
        self.name = name


def _calling_module() -> str:
    """Return the module that requested a logger without a name."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name != __name__ and not name.startswith("structlog"):
            return name
        frame = frame.f_back
    return "confab"


def _configure_libraries(settings: Settings, target: TextIO, renderers: list[Processor]) -> None:
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_COMMON_PROCESSORS, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, _drop_color_message, *renderers],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    # RequestLogMiddleware logs requests, with their id.
    logging.getLogger("uvicorn.access").disabled = True
    for name in ("httpx", "httpcore", "pymongo", "websockets", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
    logging.getLogger("asyncio").addFilter(_is_relevant)


def _is_relevant(record: logging.LogRecord) -> bool:
    """Filter out exceptions that were never retrieved because a database was unreachable.

    If several tasks of an operation fail, the operation retrieves only the first exception.
    """
    error = record.exc_info[1] if record.exc_info else None
    return not (isinstance(error, StoreError) and "never retrieved" in record.getMessage())


def _renderers(settings: Settings, colors: bool) -> list[Processor]:
    if settings.log_format == "console":
        renderer: Processor = structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
    else:
        renderer = structlog.processors.JSONRenderer(serializer=_to_json)
    # Tracebacks are formatted first, so that they are redacted too.
    processors: list[Processor] = [structlog.processors.format_exc_info, redact]
    return [*processors, renderer] if settings.log_format == "json" else [*processors, _escape_controls, renderer]


def _escape_controls(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Escape control characters, because clients choose some texts, such as paths. In JSON they are escaped anyway."""
    return {key: value if key == "exception" else _escaped(value) for key, value in event.items()}


def _escaped(value: Any) -> Any:
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in value)


def _to_json(value: Any, **_: Any) -> str:
    try:
        return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:
        # Numbers above 64 bits and lone surrogates: fall back, so that no line is lost.
        return json.dumps(value)


def _drop_color_message(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.pop("color_message", None)  # uvicorn's colored copy of the event
    return event


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide fields with secret names, and values that look like tokens or URLs with passwords. A structlog processor."""
    return {key: "***" if _is_secret(key) else _redact_value(value) for key, value in event.items()}


@lru_cache(maxsize=1024)
def _is_secret(key: object) -> bool:
    return _SECRET_KEYS.search(str(key)) is not None


def _redact_value(value: Any) -> Any:
    if isinstance(value, str):
        lower = value.lower()
        # These checks take a tenth of the time of the regular expression, and rarely match.
        suspicious = "://" in lower or "bearer" in lower or "eyj" in lower
        return _SECRET_TEXTS.sub(_mask, value) if suspicious else value
    if isinstance(value, MutableMapping):
        return redact(None, "", value)
    if isinstance(value, list | tuple):
        return [_redact_value(item) for item in value]
    if value is None or isinstance(value, int | float):
        return value
    return _redact_value(repr(value))


def _mask(match: re.Match[str]) -> str:
    if match["url"]:
        return f"{match['url']}***@"
    return f"{match['scheme'] or ''}***"
