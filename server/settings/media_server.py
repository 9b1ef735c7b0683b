"""Settings of the media server for voice channels, and their checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from server.settings.section import Section, variable
from server.settings.validators import check_public_url, check_readable_file, check_secret

_API_KEY = re.compile(r"[!-~]{1,128}\Z")
_API_SCHEMES = {"wss": "https", "ws": "http"}


def _check_client_url(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    try:
        if scheme in _API_SCHEMES and separator:
            check_public_url(f"http://{rest}")
            return url.rstrip("/")
    except ValueError:
        pass
    raise ValueError("a URL such as wss://livekit.example.org")


def _check_api_url(url: str) -> str:
    try:
        return check_public_url(url)
    except ValueError:
        raise ValueError("a URL such as http://livekit:7880, without a user and options") from None


def _check_api_key(key: str) -> str:
    if not _API_KEY.match(key):
        raise ValueError("1 to 128 printable ASCII characters without white space")
    return key


class MediaServerSettings(Section):
    """Media server.

    A LiveKit server that carries sound and pictures of voice channels. Without it, voice channels only show who is in
    them. [Operations](operations/voice-and-presence.md#voice-with-livekit) says how to set it up. Its webhooks go to
    `/livekit/webhook`.
    """

    livekit_url: Annotated[str, AfterValidator(_check_client_url)] | None = None
    """Address at which clients connect to LiveKit, such as wss://livekit.example.org."""
    livekit_api_url: Annotated[str, AfterValidator(_check_api_url)] | None = None
    """Address of its server API. Default: `livekit_url` with https:// or http://."""
    livekit_api_key: Annotated[str, AfterValidator(_check_api_key)] | None = None
    """API key. LiveKit must sign its webhooks with the same one."""
    livekit_api_secret: Annotated[SecretStr, AfterValidator(check_secret)] | None = None
    """Secret of the API key."""
    livekit_api_secret_file: Annotated[Path, AfterValidator(check_readable_file)] | None = None
    """File that contains `livekit_api_secret`. Surrounding white space is ignored."""


def find_media_server_problems(settings: MediaServerSettings) -> list[str]:
    """Return a sentence for each combination of these settings that makes no sense."""
    if settings.livekit_api_secret is not None and settings.livekit_api_secret_file is not None:
        return ["CONFAB_LIVEKIT_API_SECRET and CONFAB_LIVEKIT_API_SECRET_FILE are set together: set only one of them."]
    given = sorted(field for field in settings.model_fields_set if field.startswith("livekit_"))
    required = {
        "CONFAB_LIVEKIT_URL": settings.livekit_url,
        "CONFAB_LIVEKIT_API_KEY": settings.livekit_api_key,
        "CONFAB_LIVEKIT_API_SECRET (or CONFAB_LIVEKIT_API_SECRET_FILE)": settings.livekit_api_secret
        or settings.livekit_api_secret_file,
    }
    missing = [name for name, value in required.items() if value is None]
    if not given or not missing:
        return []
    names = " and ".join(variable(field) for field in given)
    return [f"{names} {'is' if len(given) == 1 else 'are'} set, which also needs {' and '.join(missing)}."]


def livekit_api_url(settings: MediaServerSettings) -> str:
    """Return the address of LiveKit's server API. LiveKit must be configured."""
    if settings.livekit_api_url is not None:
        return settings.livekit_api_url
    parts = urlsplit(settings.livekit_url or "")
    return parts._replace(scheme=_API_SCHEMES[parts.scheme]).geturl()
