"""Checks of several settings together."""

from __future__ import annotations

import importlib.util
import math
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pydantic import SecretStr

from server.settings.blob_store import check_s3_secret, find_blob_store_problems
from server.settings.content_hook import check_hook_secret, find_content_hook_problems
from server.settings.errors import SettingsError
from server.settings.fields import DEVELOPMENT_SECRET, SECRET_FIELDS, Settings
from server.settings.media_server import find_media_server_problems
from server.settings.push import check_apns_key, check_fcm_credentials, check_vapid_key, find_push_problems
from server.settings.section import variable
from server.settings.validators import check_secret

_MIN_SECRET_BITS = 80
"""Estimated entropy that `confab serve` demands of a secret. `openssl rand -hex 16` has more."""

_COMPRESSION_OVERHEAD_BYTES = 10

_KEY_FIELDS = ("jwt_secret", "jwt_secret_file", "jwks_url", "jwks_file")


def check_fit_to_serve(settings: Settings) -> None:
    """Raise SettingsError unless tokens are checked with a key that only their issuer has and nobody can guess."""
    if settings.development:
        raise SettingsError(
            ["CONFAB_DEVELOPMENT is set, but confab serve is not for development: unset it, or use confab dev."]
        )
    if settings.jwt_secret is None and settings.jwks_url is None and settings.jwks_file is None:
        raise SettingsError(
            [
                "No key to check tokens with: set CONFAB_JWT_SECRET, CONFAB_JWT_SECRET_FILE, CONFAB_JWKS_URL or "
                "CONFAB_JWKS_FILE."
            ]
        )
    given = (settings.jwt_secret, settings.file_address_key, settings.livekit_api_secret)
    secrets = [secret for secret in given if secret is not None]
    for secret in [*secrets, *settings.jwt_previous_secrets, *settings.file_address_previous_keys]:
        if _entropy_bits(secret.get_secret_value().encode()) < _MIN_SECRET_BITS:
            raise SettingsError(
                [
                    "A secret of tokens, of file addresses or of LiveKit can be guessed: it has few different "
                    "characters, or repeats itself (`openssl rand -base64 48` makes a good one)."
                ]
            )


def _entropy_bits(secret: bytes) -> float:
    """Return an upper estimate of the entropy of a secret. It is low for few different bytes and for repeated parts."""
    frequencies = [count / len(secret) for count in Counter(secret).values()]
    bits_per_byte = -sum(frequency * math.log2(frequency) for frequency in frequencies)
    without_repetitions = len(zlib.compress(secret, 9)) - _COMPRESSION_OVERHEAD_BYTES
    return bits_per_byte * min(len(secret), without_repetitions)


def find_foreign_token_warning(settings: Settings) -> str | None:
    """Return a warning if the settings accept tokens that the identity provider issued for others, else None."""
    if settings.jwks_url is None:
        return None
    missing = []
    foreign = []
    if not settings.jwt_audience:
        missing.append(variable("jwt_audience"))
        foreign.append("for other applications")
    if settings.jwt_issuer is None:
        missing.append(variable("jwt_issuer"))
        foreign.append("for other customers or projects, if they share its keys")
    if not missing:
        return None
    verb = "are" if len(missing) > 1 else "is"
    return (
        f"{' and '.join(missing)} {verb} not set: every token that is signed with a key of {variable('jwks_url')} is "
        f"accepted, also tokens that your identity provider issued {' and '.join(foreign)}. See docs/auth.md."
    )


def find_contradictions(settings: Settings) -> list[str]:
    """Return a sentence for each combination of settings that makes no sense."""
    problems = []
    keys = [field for field in _KEY_FIELDS if getattr(settings, field) is not None]
    if len(keys) > 1:
        names = " and ".join(variable(field) for field in keys)
        problems.append(f"{names} are set together: set only the one that your tokens are signed with.")
    if settings.jwt_previous_secrets and settings.jwt_previous_secrets_file is not None:
        problems.append(
            "CONFAB_JWT_PREVIOUS_SECRETS and CONFAB_JWT_PREVIOUS_SECRETS_FILE are set together: set only one of them."
        )
    problems += _find_doubled_file_keys(settings)
    problems += find_blob_store_problems(settings)
    problems += find_media_server_problems(settings)
    problems += find_push_problems(settings)
    problems += find_content_hook_problems(settings)
    if "jwt_audience_claim" in settings.model_fields_set and not settings.jwt_audience:
        problems.append("CONFAB_JWT_AUDIENCE_CLAIM is set without CONFAB_JWT_AUDIENCE: set the accepted audiences.")
    if settings.otel_endpoint is not None and importlib.util.find_spec("opentelemetry") is None:
        problems.append(
            "CONFAB_OTEL_ENDPOINT is set, but OpenTelemetry is not installed: run pip install 'confab[otel]'."
        )
    if settings.operations_only and settings.operations_file is None:
        problems.append(
            "CONFAB_OPERATIONS_ONLY is set without CONFAB_OPERATIONS_FILE: name a file of persisted operations."
        )
    for field in sorted(SECRET_FIELDS):
        problems += _refuse_development_secret(settings, field, field)
    return problems


def _find_doubled_file_keys(settings: Settings) -> list[str]:
    problems = []
    for given, field in (
        (settings.file_address_key is not None, "file_address_key"),
        (bool(settings.file_address_previous_keys), "file_address_previous_keys"),
    ):
        if given and getattr(settings, f"{field}_file") is not None:
            name = variable(field)
            problems.append(f"{name} and {name}_FILE are set together: set only one of them.")
    return problems


def read_secret_files(settings: Settings) -> tuple[Settings, list[str]]:
    """Return the settings with the contents of the files of secrets, and the problems found."""
    problems: list[str] = []
    for field, secret_field, parse in SECRET_FILES:
        path: Path | None = getattr(settings, field)
        if path is None:
            continue
        try:
            secret = parse(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError):
            problems.append(f"{variable(field)}: {str(path)!r} cannot be read.")
        except ValueError as error:
            problems.append(f"The file of {variable(field)} should contain {error}.")
        else:
            # The file is removed from the settings: copies of them must contain one key only.
            settings = settings.model_copy(update={secret_field: secret, field: None})
            problems += _refuse_development_secret(settings, secret_field, field)
    return settings, problems


def _parse_secret_file(text: str) -> SecretStr:
    return check_secret(SecretStr(text.strip()))


def _parse_secret_lines(text: str) -> tuple[SecretStr, ...]:
    return tuple(check_secret(SecretStr(line.strip())) for line in text.splitlines() if line.strip())


SECRET_FILES: tuple[tuple[str, str, Callable[[str], object]], ...] = (
    ("jwt_secret_file", "jwt_secret", _parse_secret_file),
    ("jwt_previous_secrets_file", "jwt_previous_secrets", _parse_secret_lines),
    ("file_address_key_file", "file_address_key", _parse_secret_file),
    ("file_address_previous_keys_file", "file_address_previous_keys", _parse_secret_lines),
    ("livekit_api_secret_file", "livekit_api_secret", _parse_secret_file),
    ("s3_secret_key_file", "s3_secret_key", lambda text: check_s3_secret(SecretStr(text.strip()))),
    ("vapid_private_key_file", "vapid_private_key", lambda text: check_vapid_key(SecretStr(text.strip()))),
    ("content_hook_secret_file", "content_hook_secret", lambda text: check_hook_secret(SecretStr(text.strip()))),
    ("apns_key_file", "apns_key", lambda text: check_apns_key(SecretStr(text.strip()))),
    ("fcm_credentials_file", "fcm_credentials", lambda text: check_fcm_credentials(SecretStr(text.strip()))),
)
"""Field with a file, field for its contents, and the function that parses them."""


def _refuse_development_secret(settings: Settings, secret_field: str, named_field: str) -> list[str]:
    value = getattr(settings, secret_field)
    secrets = value if isinstance(value, tuple) else () if value is None else (value,)
    if settings.development or all(secret.get_secret_value() != DEVELOPMENT_SECRET for secret in secrets):
        return []
    verb = "contains" if isinstance(value, tuple) else "is"
    return [
        f"{variable(named_field)} {verb} the development secret, which is public: set a secret of your own "
        "(`openssl rand -base64 48` makes a good one)."
    ]
