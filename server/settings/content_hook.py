"""Settings of the external hook that judges messages, and their checks."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from server.settings.section import Section, variable
from server.settings.validators import check_readable_file
from store.base.ids import UserId, is_user_id

_PREFIX = "whsec_"


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        has_host = parts.hostname and "@" not in parts.netloc and parts.port != 0
        if parts.scheme in ("http", "https") and has_host and url.isascii() and url.isprintable() and " " not in url:
            return url
    except ValueError:
        pass
    raise ValueError("a URL such as http://moderation:9000/check, without a user")


def check_hook_secret(secret: SecretStr) -> SecretStr:
    """Accept secrets of Standard Webhooks."""
    text = secret.get_secret_value()
    try:
        key = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(_PREFIX) or not 24 <= len(key) <= 64:
        raise ValueError("whsec_ and 24 to 64 bytes in Base64 (`echo whsec_$(openssl rand -base64 32)` makes one)")
    return secret


def _check_reporter(user: str) -> str:
    if not is_user_id(UserId(user)):
        raise ValueError("the id of a user")
    return user


class ContentHookSettings(Section):
    """External hook for content.

    A service of yours that judges every message and edit before it is stored. Without it, nothing is asked.
    [Operations](operations/workers-and-webhooks.md#external-hook-for-content) says what it receives and answers.
    """

    content_hook_url: Annotated[str, AfterValidator(_check_url)] | None = None
    """Address of the service. It may be an internal one."""
    content_hook_secret: Annotated[SecretStr, AfterValidator(check_hook_secret)] | None = None
    """Secret that calls are signed with, as Standard Webhooks specifies: whsec_ and 24 to 64 bytes in Base64."""
    content_hook_secret_file: Annotated[Path, AfterValidator(check_readable_file)] | None = None
    """File that contains `content_hook_secret`. Surrounding white space is ignored."""
    content_hook_fails_open: bool = True
    """If the service does not answer within 300 ms, messages are sent unchecked. If false, they are refused with
    UNAVAILABLE, and can be sent again."""
    content_hook_reporter: Annotated[str, AfterValidator(_check_reporter)] = "content-hook"
    """Id of the user in whose name reports about flagged messages in groups and private conversations are made. In
    channels it is the owner of the workspace."""


def find_content_hook_problems(settings: ContentHookSettings) -> list[str]:
    """Return a sentence for each combination of these settings that makes no sense."""
    has_file = settings.content_hook_secret_file is not None
    if settings.content_hook_secret is not None and has_file:
        return [
            "CONFAB_CONTENT_HOOK_SECRET and CONFAB_CONTENT_HOOK_SECRET_FILE are set together: set only one of them."
        ]
    has_secret = settings.content_hook_secret is not None or has_file
    if settings.content_hook_url is not None and not has_secret:
        return ["CONFAB_CONTENT_HOOK_URL is set, which also needs CONFAB_CONTENT_HOOK_SECRET (or …_SECRET_FILE)."]
    given = sorted(field for field in settings.model_fields_set if field.startswith("content_hook_"))
    if settings.content_hook_url is None and given:
        names = " and ".join(map(variable, given))
        return [f"{names} {'is' if len(given) == 1 else 'are'} set, which also needs CONFAB_CONTENT_HOOK_URL."]
    return []
