"""All settings of the process. Read once from CONFAB_ variables, checked, then frozen."""

from __future__ import annotations

import difflib
import importlib.util
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin
from urllib.parse import SplitResult, urlsplit

import annotated_types
from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from store.redis.cluster_url import parse_cluster_url

ENV_PREFIX = "CONFAB_"

DEVELOPMENT_SECRET = "confab-development-secret-known-to-everybody"
"""What `confab dev` signs tokens with unless told otherwise. It is public, so `serve` refuses it."""

MIN_SECRET_BYTES = 32
"""HS256 keys shorter than the hash's output can be guessed offline (RFC 7518, 3.2)."""

# Greedy: a password may hold an @ or a / that nobody escaped.
_CREDENTIALS = re.compile(r"\A(?P<scheme>[a-z+]*://)?.*@", re.DOTALL)
_DATABASE = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")
_KEY_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{0,64}\Z")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@,*]+\Z")
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\Z")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class SettingsError(Exception):
    """The settings don't do. `problems` holds one sentence for each that is wrong, free of secrets."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def _mongo_url(url: str) -> str:
    parts = _split(url)
    if parts is None or parts.scheme not in {"mongodb", "mongodb+srv"} or not parts.netloc:
        raise ValueError("a URL such as mongodb://host:27017/?replicaSet=rs0")
    return url


def _redis_url(url: str) -> str:
    try:
        if parse_cluster_url(url) is not None:
            return url
    except ValueError as error:
        raise ValueError("a URL such as redis+cluster://host:7000,host:7001 (rediss+cluster:// for TLS)") from error
    parts = _split(url)
    if (
        parts is None
        or parts.scheme not in {"redis", "rediss"}
        or not _has_host_and_port(parts)
        or not re.fullmatch(r"/?\d*", parts.path)
    ):
        raise ValueError("a URL such as redis://host:6379/0 (rediss:// for TLS)")
    return url


def _jwks_url(url: str) -> str:
    parts = _split(url)
    if parts is not None and _has_host_and_port(parts):
        if parts.scheme == "https":
            return url
        if parts.scheme == "http" and parts.hostname in _LOOPBACK:
            return url
    raise ValueError("an https:// URL (http:// only on this machine, or anybody on the way could forge tokens)")


def _http_url(url: str) -> str:
    parts = _split(url)
    if parts is not None and parts.scheme in {"http", "https"} and _has_host_and_port(parts):
        return url
    raise ValueError("a URL such as http://127.0.0.1:4318")


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def _has_host_and_port(parts: SplitResult) -> bool:
    try:
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


def _readable_file(path: Path) -> Path:
    if not (path.is_file() and os.access(path, os.R_OK)):
        raise ValueError("a file that exists and can be read")
    return path


def _secret(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value().encode()) < MIN_SECRET_BYTES:
        raise ValueError(f"at least {MIN_SECRET_BYTES} bytes (`openssl rand -base64 48` makes a good one)")
    return secret


def _database(name: str) -> str:
    if not _DATABASE.match(name):
        raise ValueError("1 to 63 letters, digits, - or _")
    return name


def _key_prefix(prefix: str) -> str:
    # A brace would be taken for the hash tag that keeps a user's keys on one node.
    if not _KEY_PREFIX.match(prefix):
        raise ValueError("up to 64 letters, digits and _ . : -")
    return prefix


def _origins(value: object) -> object:
    origins = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if isinstance(origins, list | tuple) and all(
        isinstance(origin, str) and _ORIGIN.match(origin) for origin in origins
    ):
        return tuple(_as_browsers_write(origin) for origin in origins)
    raise ValueError("origins such as https://chat.example.org, separated by commas, without a path")


def _as_browsers_write(origin: str) -> str:
    origin = origin.lower()
    usual_port = {"http": ":80", "https": ":443"}.get(origin.partition("://")[0], "")
    return origin.removesuffix(usual_port)


def _host_names(value: object) -> object:
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if isinstance(names, list | tuple) and all(isinstance(name, str) and _HOST_NAME.match(name) for name in names):
        return tuple(names)
    raise ValueError("names such as chat.example.org, separated by commas, without a port")


def _upper(value: object) -> object:
    return value.upper() if isinstance(value, str) else value


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class Settings(BaseSettings):
    """Everything that can be set. Build it with `load_settings`, which explains what is wrong.

    Times are in seconds. `repr` shows neither secrets nor the two database URLs, which may hold passwords.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", env_ignore_empty=True, validate_default=False
    )

    mongo_url: Annotated[str, AfterValidator(_mongo_url)] = Field(
        "mongodb://127.0.0.1:27017/?replicaSet=rs0", repr=False
    )
    mongo_database: Annotated[str, AfterValidator(_database)] = "confab"
    mongo_driver: Literal["pymongo", "motor"] = "pymongo"
    redis_url: Annotated[str, AfterValidator(_redis_url)] = Field("redis://127.0.0.1:6379/0", repr=False)
    redis_prefix: Annotated[str, AfterValidator(_key_prefix)] = ""

    host: str = Field("127.0.0.1", min_length=1)
    port: int = Field(8000, ge=1, le=65535)

    jwt_secret: Annotated[SecretStr, AfterValidator(_secret)] | None = None
    jwt_secret_file: Annotated[Path, AfterValidator(_readable_file)] | None = None
    """Where `jwt_secret` is read from instead, without the white space around it: for secrets that containers get as files."""
    jwks_url: Annotated[str, AfterValidator(_jwks_url)] | None = None
    jwks_file: Annotated[Path, AfterValidator(_readable_file)] | None = None
    jwt_audience: str | None = None
    jwt_issuer: str | None = None

    cors_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_origins)] = ()
    """Pages of these origins may call the API from a browser, beside the server's own. In the environment: separated by commas."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_host_names)] = ()
    """Names that the server is called by, beside localhost and addresses; it answers to no other then. None: to any, but for
    `confab dev`."""

    introspection: bool = False
    """Whether the schema may be asked for, by anybody, with or without a token. On in `confab dev`, like `graphiql`."""
    graphiql: bool = False
    """Whether browsers get GraphiQL, which asks for the schema."""
    demo: bool = False
    """Whether there is a chat in the browser, at /demo. On in `confab dev`, where one click signs in."""
    operations_file: Annotated[Path, AfterValidator(_readable_file)] | None = None
    """Documents that requests may name by an id: a JSON object of their texts by id, or Apollo's manifest (ADR 29)."""
    operations_only: bool = False
    """Whether nothing but what that file holds is served."""
    max_body_bytes: int = Field(1_048_576, ge=1024, le=67_108_864)
    max_query_depth: int = Field(15, ge=1, le=1000)
    max_query_aliases: int = Field(30, ge=0, le=10_000)
    max_query_cost: int = Field(10_000, ge=1, le=1_000_000_000)

    ws_init_timeout: float = Field(10.0, gt=0, le=300)
    ws_ping_interval: float = Field(25.0, gt=0, le=3600)
    ws_max_connections: int = Field(20_000, ge=1, le=1_000_000)
    """Sockets open at once in one process."""
    ws_max_connections_per_user: int = Field(100, ge=1, le=1_000_000)
    """Those of one user among them."""
    ws_max_subscriptions: int = Field(100, ge=1, le=10_000)
    """Operations under way at once on one connection."""
    ws_drain_seconds: float = Field(5.0, ge=0, le=300)
    """Over which many connections are told to go when the server stops."""
    ws_queue: int = Field(1000, ge=1, le=1_000_000)
    """Events waiting for one connection before it is told to catch up instead."""

    sse_max_streams: int = Field(5_000, ge=1, le=1_000_000)
    """Event streams at once in a process; beyond that they are refused: UNAVAILABLE."""
    sse_max_streams_per_user: int = Field(100, ge=1, le=1_000_000)
    """Of those, one user's; beyond that: RATE_LIMITED."""

    rate_sends: int = Field(6_000, ge=0, le=1_000_000)
    """Messages that a user may send, edit and recall a minute over all servers, half of that at once; 0: as many as they like.
    The other rates likewise."""
    rate_group_changes: int = Field(1_200, ge=0, le=1_000_000)
    """Groups made and changed."""
    rate_connections: int = Field(1_200, ge=0, le=1_000_000)
    """WebSockets and event streams opened."""
    rate_operations: int = Field(60_000, ge=0, le=1_000_000)
    """Operations of any kind."""
    max_operations: int = Field(500, ge=1, le=100_000)
    """Operations under way at once in a process, fewer while it is behind; beyond that they are refused: UNAVAILABLE."""
    operation_seconds: float = Field(20.0, gt=0, le=600)
    """What one may take in all, until its client is told UNAVAILABLE."""
    keep_alive_seconds: int = Field(75, ge=1, le=3600)
    """How long a connection over which nothing is asked stays open: longer than those before us keep theirs."""

    otel_endpoint: Annotated[str, AfterValidator(_http_url)] | None = None
    """A collector that takes OTLP over HTTP, such as http://127.0.0.1:4318: traces go there. Needs confab[otel]."""
    otel_sample: float = Field(0.01, ge=0, le=1)
    """The share of operations that are traced."""
    migrate: bool = True
    """Whether servers bring stored data to the newest version by themselves; otherwise `confab migrate --run` does."""
    metrics_port: int | None = Field(None, ge=1, le=65535)
    """Where Prometheus may ask (/metrics); nowhere unless set."""
    metrics_host: str = Field("127.0.0.1", min_length=1)
    metrics_ports: int = Field(1, ge=1, le=256)
    """How many ports there are from that one on. Each process takes one: set by `confab serve --workers`."""

    max_group_members: int = Field(5000, ge=3, le=1_000_000)
    recall_seconds: int = Field(120, ge=0, le=1_000_000_000)
    """How long people may recall their own messages."""
    data_center: int = Field(0, ge=0, le=31)

    log_level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR"], BeforeValidator(_upper)] = "INFO"
    log_format: Annotated[Literal["json", "console"], BeforeValidator(_lower)] = "json"
    development: bool = False
    """Set by `confab dev`: the development secret is good, and the demo may be seeded."""


UNLIMITED = {"rate_sends": 0, "rate_group_changes": 0, "rate_connections": 0, "rate_operations": 0}
"""For programs that do the work of many as one user: imports, benchmarks, tests."""


def load_settings(**overrides: Any) -> Settings:
    """The settings from the environment, `overrides` first. Raises SettingsError.

    A CONFAB_ variable that names no setting is refused too: a misspelt limit would otherwise not be in force.
    """
    problems = _unknown_variables()
    try:
        settings = Settings(**overrides)
    except ValidationError as error:
        problems += [_sentence(details) for details in error.errors()]
    else:
        problems += _contradictions(settings)
        if settings.jwt_secret_file is not None and not problems:
            settings, problems = _with_secret_of_file(settings, settings.jwt_secret_file)
        if not problems:
            return settings
    raise SettingsError(problems)


def check_fit_to_serve(settings: Settings) -> None:
    """Raises SettingsError unless tokens are checked against a key that only their issuer has."""
    if settings.development:
        raise SettingsError(
            ["CONFAB_DEVELOPMENT is set, but serve is not for development: unset it, or use confab dev."]
        )
    if settings.jwt_secret is None and settings.jwks_url is None and settings.jwks_file is None:
        raise SettingsError(
            [
                "No key to check tokens with: set CONFAB_JWT_SECRET, CONFAB_JWT_SECRET_FILE, CONFAB_JWKS_URL or "
                "CONFAB_JWKS_FILE."
            ]
        )


def redacted(url: str) -> str:
    """The URL without user name, password and options, fit for a log."""
    return _CREDENTIALS.sub(r"\g<scheme>***@", url).partition("?")[0]


def variable(field: str) -> str:
    """The environment variable that sets a field."""
    return ENV_PREFIX + field.upper()


def _unknown_variables() -> list[str]:
    known = {variable(field) for field in Settings.model_fields}
    problems = []
    for name in sorted(os.environ):
        upper = name.upper()
        # CONFAB_TEST_… steer the test suite.
        if not upper.startswith(ENV_PREFIX) or upper.startswith("CONFAB_TEST_") or upper in known:
            continue
        close = difflib.get_close_matches(upper, known, 1)
        problems.append(f"{name} is no setting of Confab{f': did you mean {close[0]}?' if close else '.'}")
    return problems


def _contradictions(settings: Settings) -> list[str]:
    problems = []
    kinds = ("jwt_secret", "jwt_secret_file", "jwks_url", "jwks_file")
    keys = [field for field in kinds if getattr(settings, field) is not None]
    if len(keys) > 1:
        names = " and ".join(variable(field) for field in keys)
        problems.append(f"{names} are set together: set the one that tokens are signed for.")
    if settings.otel_endpoint is not None and importlib.util.find_spec("opentelemetry") is None:
        problems.append(
            "CONFAB_OTEL_ENDPOINT is set, but nothing is installed that could trace: pip install 'confab[otel]'."
        )
    if settings.operations_only and settings.operations_file is None:
        problems.append(
            "CONFAB_OPERATIONS_ONLY is set, but CONFAB_OPERATIONS_FILE names no file of what is to be served."
        )
    return problems + _known_to_everybody(settings, "jwt_secret")


def _with_secret_of_file(settings: Settings, path: Path) -> tuple[Settings, list[str]]:
    try:
        secret = _secret(SecretStr(path.read_text(encoding="utf-8").strip()))
    except (OSError, UnicodeDecodeError):
        return settings, [f"CONFAB_JWT_SECRET_FILE: {str(path)!r} cannot be read."]
    except ValueError as error:
        return settings, [f"What CONFAB_JWT_SECRET_FILE names should hold {error}."]
    # With the file forgotten: whoever makes settings out of these finds one key.
    settings = settings.model_copy(update={"jwt_secret": secret, "jwt_secret_file": None})
    return settings, _known_to_everybody(settings, "jwt_secret_file")


def _known_to_everybody(settings: Settings, field: str) -> list[str]:
    secret = settings.jwt_secret
    if secret is None or secret.get_secret_value() != DEVELOPMENT_SECRET or settings.development:
        return []
    return [
        f"{variable(field)} is the development secret, which everybody knows: set one of your own "
        "(`openssl rand -base64 48` makes a good one)."
    ]


def _sentence(details: ErrorDetails) -> str:
    field = str(details["loc"][0]) if details["loc"] else ""
    if field not in Settings.model_fields:
        return f"{field or 'A setting'} is no setting of Confab."
    name = variable(field)
    # A validator of ours says what is accepted; the library's wording speaks to programmers.
    reason = details.get("ctx", {}).get("error")
    accepted = str(reason) if isinstance(reason, ValueError) else _accepted(field)
    if field == "jwt_secret":
        return f"{name} should be {accepted}."
    return f"{name} is {redacted(str(details['input']))!r}, but should be {accepted}."


def _accepted(field: str) -> str:
    info = Settings.model_fields[field]
    annotation = info.annotation
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(get_args(annotation))
    if annotation is bool:
        return "true or false"
    if annotation not in (int, float):
        return "a text that is not empty"
    low: object = None
    high: object = None
    for bound in info.metadata:
        match bound:
            case annotated_types.Ge(ge=low):
                low = f"from {low}"
            case annotated_types.Gt(gt=low):
                low = f"above {low}"
            case annotated_types.Le(le=high):
                pass
    return f"a {'whole number' if annotation is int else 'number'} {low} to {high}"
