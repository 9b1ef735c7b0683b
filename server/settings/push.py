"""Settings of the services that carry pushes, and their checks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from server.settings.section import Section, variable
from server.settings.validators import check_readable_file

_MAIL = re.compile(r"mailto:[!-~]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}\Z")
_APPLE_ID = re.compile(r"[A-Z0-9]{10}\Z")
_BUNDLE_ID = re.compile(r"[A-Za-z0-9.-]{1,255}\Z")


def check_vapid_key(secret: SecretStr) -> SecretStr:
    """Accept private keys of VAPID: 32 bytes in base64url."""
    from resolvers.push.services.vapid import VapidKey

    try:
        VapidKey.parse(secret.get_secret_value())
    except ValueError:
        raise ValueError("a private key of 32 bytes in base64url (`confab push-keys` makes one)") from None
    return secret


def check_apns_key(secret: SecretStr) -> SecretStr:
    """Accept keys of Apple's developer accounts."""
    from resolvers.push.services.apns_tokens import parse_apns_key

    try:
        parse_apns_key(secret.get_secret_value())
    except ValueError:
        raise ValueError("a private key of Apple: the contents of a file AuthKey_….p8") from None
    return secret


def check_fcm_credentials(secret: SecretStr) -> SecretStr:
    """Accept JSON files of Google's service accounts."""
    from resolvers.push.services.fcm_tokens import parse_fcm_credentials

    try:
        parse_fcm_credentials(secret.get_secret_value())
    except ValueError:
        raise ValueError("the JSON of a service account's key, as Firebase's console gives it") from None
    return secret


def _check_contact(contact: str) -> str:
    try:
        parts = urlsplit(contact)
        if _MAIL.match(contact) or (parts.scheme == "https" and parts.hostname and contact.isprintable()):
            return contact
    except ValueError:
        pass
    raise ValueError("a URL such as mailto:admin@example.org or https://example.org/contact")


def _check_apple_id(text: str) -> str:
    if not _APPLE_ID.match(text):
        raise ValueError("10 capital letters and digits, as Apple's developer account shows it")
    return text


def _check_bundle_id(text: str) -> str:
    if not _BUNDLE_ID.match(text):
        raise ValueError("the bundle id of the app, such as org.example.chat")
    return text


class PushSettings(Section):
    """Push services.

    Each service is optional: Web Push for browsers, APNs for Apple's devices, FCM for Android. Without one, its devices
    get no pushes. [Operations](operations/push.md) says how to set them up.
    """

    vapid_private_key: Annotated[SecretStr, AfterValidator(check_vapid_key)] | None = None
    """Private key for Web Push, made by `confab push-keys`. A new key ends all subscriptions. `confab dev` makes one by
    itself."""
    vapid_private_key_file: Annotated[Path, AfterValidator(check_readable_file)] | None = None
    """File that contains `vapid_private_key`. Surrounding white space is ignored."""
    vapid_contact: Annotated[str, AfterValidator(_check_contact)] | None = None
    """Where operators of services of Web Push reach you: a mailto: or https: URL."""
    apns_key: Annotated[SecretStr, AfterValidator(check_apns_key)] | None = None
    """Key for APNs of your developer account, in PEM."""
    apns_key_file: Annotated[Path, AfterValidator(check_readable_file)] | None = None
    """File that contains `apns_key`: the file AuthKey_….p8 of Apple."""
    apns_key_id: Annotated[str, AfterValidator(_check_apple_id)] | None = None
    """Id of the key. It is in the name of the file."""
    apns_team_id: Annotated[str, AfterValidator(_check_apple_id)] | None = None
    """Id of your team in Apple's developer account."""
    apns_topic: Annotated[str, AfterValidator(_check_bundle_id)] | None = None
    """Bundle id of the app."""
    apns_sandbox: bool = False
    """Pushes go to APNs for development, which takes tokens of apps that Xcode has installed."""
    fcm_credentials: Annotated[SecretStr, AfterValidator(check_fcm_credentials)] | None = None
    """JSON of the key of a service account that may send with Firebase Cloud Messaging."""
    fcm_credentials_file: Annotated[Path, AfterValidator(check_readable_file)] | None = None
    """File that contains `fcm_credentials`."""


_SECRETS = ("vapid_private_key", "apns_key", "fcm_credentials")


def find_push_problems(settings: PushSettings) -> list[str]:
    """Return a sentence for each combination of these settings that makes no sense."""
    problems = []
    for field in _SECRETS:
        if getattr(settings, field) is not None and getattr(settings, f"{field}_file") is not None:
            name = variable(field)
            problems.append(f"{name} and {name}_FILE are set together: set only one of them.")
    return problems or [
        *_find_missing(settings, "vapid_", "vapid_private_key", ("vapid_contact",)),
        *_find_missing(settings, "apns_", "apns_key", ("apns_key_id", "apns_team_id", "apns_topic")),
    ]


def _find_missing(settings: PushSettings, prefix: str, secret: str, others: tuple[str, ...]) -> list[str]:
    """Return a sentence if only a part of the settings of a service is set."""
    given = sorted(
        field
        for field in settings.model_fields_set
        if field.startswith(prefix) and getattr(settings, field) is not False
    )
    missing = [variable(field) for field in others if getattr(settings, field) is None]
    if getattr(settings, secret) is None and getattr(settings, f"{secret}_file") is None:
        missing.insert(0, f"{variable(secret)} (or {variable(secret)}_FILE)")
    if not given or not missing:
        return []
    names = " and ".join(map(variable, given))
    return [f"{names} {'is' if len(given) == 1 else 'are'} set, which also needs {' and '.join(missing)}."]
