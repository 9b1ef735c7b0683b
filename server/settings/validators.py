"""Checks and conversions of single values.

Each validator raises ValueError with a description of the accepted values. `loading` puts it into a sentence.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from store.redis.cluster.url import parse_cluster_url

MIN_SECRET_BYTES = 32
"""HS256 keys shorter than the hash's output can be guessed offline (RFC 7518, 3.2)."""

# Greedy: a password may contain an unescaped @ or /.
_CREDENTIALS = re.compile(r"\A(?P<scheme>[a-z+]*://)?.*@", re.DOTALL)
_DATABASE = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")
_KEY_PREFIX = re.compile(r"[A-Za-z0-9_.:-]{0,64}\Z")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^\s/?#@,*]+\Z")
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?\Z")
_PLAIN_URL = re.compile(r"[A-Za-z0-9:/._~%\[\]-]+\Z")
_TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,256}\Z")
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def check_mongo_url(url: str) -> str:
    """Accept mongodb:// and mongodb+srv:// URLs."""
    parts = _split(url)
    if parts is None or parts.scheme not in {"mongodb", "mongodb+srv"} or not parts.netloc:
        raise ValueError("a URL such as mongodb://host:27017/?replicaSet=rs0")
    return url


def check_redis_url(url: str) -> str:
    """Accept URLs of one Redis or of a Redis Cluster."""
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


def check_jwks_url(url: str) -> str:
    """Accept https:// URLs, and http:// URLs of this machine."""
    parts = _split(url)
    if parts is not None and _has_host_and_port(parts):
        if parts.scheme == "https":
            return url
        if parts.scheme == "http" and parts.hostname in _LOOPBACK:
            return url
    raise ValueError("an https:// URL (http:// is accepted for this machine only: others could forge tokens)")


def check_http_url(url: str) -> str:
    """Accept http:// and https:// URLs."""
    parts = _split(url)
    if parts is not None and parts.scheme in {"http", "https"} and _has_host_and_port(parts):
        return url
    raise ValueError("a URL such as http://127.0.0.1:4318")


def check_public_url(url: str) -> str:
    """Accept http:// and https:// URLs with an optional path, and remove a slash at the end."""
    parts = _split(url)
    if (
        parts is not None
        and parts.scheme in {"http", "https"}
        and _has_host_and_port(parts)
        and "@" not in parts.netloc
        and _PLAIN_URL.match(url)
    ):
        return url.rstrip("/")
    raise ValueError("a URL such as https://chat.example.org, without a query")


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


def check_readable_file(path: Path) -> Path:
    """Accept files that this process can read."""
    if not (path.is_file() and os.access(path, os.R_OK)):
        raise ValueError("a file that exists and can be read")
    return path


def check_writable_folder(path: Path) -> Path:
    """Accept folders in which this process can create files."""
    if not (path.is_dir() and os.access(path, os.W_OK | os.X_OK)):
        raise ValueError("a folder that exists and can be written to")
    return path


def check_scanner_url(url: str) -> str:
    """Accept addresses of clamd: TCP, or a socket in the file system."""
    parts = _split(url)
    if parts is not None and parts.scheme == "tcp" and _has_host_and_port(parts) and parts.port:
        return url
    if parts is not None and parts.scheme == "unix" and not parts.netloc and parts.path.startswith("/"):
        return url
    raise ValueError("a URL such as tcp://127.0.0.1:3310 or unix:///run/clamav/clamd.ctl")


def check_secret(secret: SecretStr) -> SecretStr:
    """Accept secrets of at least MIN_SECRET_BYTES bytes."""
    if len(secret.get_secret_value().encode()) < MIN_SECRET_BYTES:
        raise ValueError(f"at least {MIN_SECRET_BYTES} bytes (`openssl rand -base64 48` makes a good one)")
    return secret


def check_metrics_token(token: SecretStr) -> SecretStr:
    """Accept tokens that fit a header and cannot be guessed."""
    if not _TOKEN.match(token.get_secret_value()):
        raise ValueError("16 to 256 letters, digits and - . _ ~ + / =")
    return token


def parse_secrets(value: object) -> object:
    """Parse a JSON list of secrets, each of at least MIN_SECRET_BYTES bytes."""
    try:
        secrets = json.loads(value) if isinstance(value, str) else value
        if isinstance(secrets, list | tuple):
            return tuple(
                check_secret(secret if isinstance(secret, SecretStr) else SecretStr(secret)) for secret in secrets
            )
    except (ValueError, TypeError, AttributeError):
        pass
    raise ValueError(f'a JSON list of secrets of at least {MIN_SECRET_BYTES} bytes: ["first", "second"]')


def parse_audiences(value: object) -> object:
    """Parse comma-separated audiences."""
    audiences = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if isinstance(audiences, list | tuple) and all(isinstance(each, str) and each for each in audiences):
        return tuple(audiences)
    raise ValueError("names of audiences, separated by commas")


def check_claim(path: str) -> str:
    """Accept names of claims, and paths of names."""
    if not path.isprintable() or not all(path.split(".")) or path != path.strip():
        raise ValueError("the name of a claim, or the names of nested claims separated by dots")
    return path


def check_database_name(name: str) -> str:
    """Accept names that MongoDB takes for a database on every platform."""
    if not _DATABASE.match(name):
        raise ValueError("1 to 63 letters, digits, - or _")
    return name


def check_key_prefix(prefix: str) -> str:
    """Accept key prefixes without braces. Redis treats braces as the hash tag that keeps a user's keys on one node."""
    if not _KEY_PREFIX.match(prefix):
        raise ValueError("up to 64 letters, digits and _ . : -")
    return prefix


def parse_origins(value: object) -> object:
    """Parse comma-separated origins, and write each as browsers do: in lower case, without the default port."""
    origins = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if isinstance(origins, list | tuple) and all(
        isinstance(origin, str) and _ORIGIN.match(origin) for origin in origins
    ):
        return tuple(_normalize_origin(origin) for origin in origins)
    raise ValueError("origins such as https://chat.example.org, separated by commas, without a path")


def _normalize_origin(origin: str) -> str:
    origin = origin.lower()
    default_port = {"http": ":80", "https": ":443"}.get(origin.partition("://")[0], "")
    return origin.removesuffix(default_port)


def parse_networks(value: object) -> object:
    """Parse comma-separated networks."""
    parts = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    with suppress(ValueError):
        if isinstance(parts, list | tuple):
            return tuple(ip_network(part) for part in parts)
    raise ValueError("networks such as 10.1.0.0/16, separated by commas")


def parse_host_names(value: object) -> object:
    """Parse comma-separated host names."""
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if isinstance(names, list | tuple) and all(isinstance(name, str) and _HOST_NAME.match(name) for name in names):
        return tuple(names)
    raise ValueError("names such as chat.example.org, separated by commas, without a port")


def to_upper(value: object) -> object:
    """Convert text to upper case."""
    return value.upper() if isinstance(value, str) else value


def to_lower(value: object) -> object:
    """Convert text to lower case."""
    return value.lower() if isinstance(value, str) else value


def redact_url(url: str) -> str:
    """Return the URL without user name, password and options, for logs and messages."""
    return _CREDENTIALS.sub(r"\g<scheme>***@", url).partition("?")[0]
