"""The address at which clients reach the deployment."""

from __future__ import annotations

from urllib.parse import urlsplit

from server.settings.blob_store import s3_endpoint
from server.settings.fields import Settings
from server.settings.section import variable

_WILDCARDS = frozenset({"0.0.0.0", "::", "*"})
"""Hosts that stand for all addresses of the machine."""


def public_url(settings: Settings) -> str:
    """Return the address at which clients reach the deployment, without a slash at its end."""
    if settings.public_url is not None:
        return settings.public_url
    host = "localhost" if listens_everywhere(settings) else settings.host
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"


def listens_everywhere(settings: Settings) -> bool:
    """Return whether the server listens on all addresses of the machine, none of which is known."""
    return settings.host in _WILDCARDS


def find_public_url_warning(settings: Settings) -> str | None:
    """Return a warning if the address at which clients reach the deployment is a guess, else None."""
    if settings.public_url is not None:
        return None
    return (
        f"{variable('public_url')} is not set: addresses of files begin with {public_url(settings)}, which clients on "
        "other machines, or behind a proxy, may not reach."
    )


def file_origins(settings: Settings) -> tuple[str, ...]:
    """Return the origins to which clients send files, and from which they read them."""
    origins = [_origin(public_url(settings))]
    if settings.blob_store == "s3":
        origin = _origin(settings.s3_public_endpoint or s3_endpoint(settings))
        scheme, _, host = origin.partition("://")
        origins.append(origin if settings.s3_path_style else f"{scheme}://{settings.s3_bucket}.{host}")
    return tuple(dict.fromkeys(origins))


def _origin(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"
