"""Checks of several settings together."""

from __future__ import annotations

import importlib.util
import math
import zlib
from collections import Counter

from pydantic import SecretStr

from server.settings.errors import SettingsError
from server.settings.fields import DEVELOPMENT_SECRET, Settings, variable
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
    if settings.jwt_secret is not None:
        bits = _entropy_bits(settings.jwt_secret.get_secret_value().encode())
        if bits < _MIN_SECRET_BITS:
            raise SettingsError(
                [
                    "The secret of tokens can be guessed: it has few different characters, or repeats itself "
                    "(`openssl rand -base64 48` makes a good one)."
                ]
            )


def _entropy_bits(secret: bytes) -> float:
    """Return an upper estimate of the entropy of a secret: few different bytes and repeated parts count little."""
    frequencies = [count / len(secret) for count in Counter(secret).values()]
    bits_per_byte = -sum(frequency * math.log2(frequency) for frequency in frequencies)
    without_repetitions = len(zlib.compress(secret, 9)) - _COMPRESSION_OVERHEAD_BYTES
    return bits_per_byte * min(len(secret), without_repetitions)


def find_contradictions(settings: Settings) -> list[str]:
    """Return a sentence for each combination of settings that makes no sense."""
    problems = []
    keys = [field for field in _KEY_FIELDS if getattr(settings, field) is not None]
    if len(keys) > 1:
        names = " and ".join(variable(field) for field in keys)
        problems.append(f"{names} are set together: set only the one that your tokens are signed with.")
    if settings.otel_endpoint is not None and importlib.util.find_spec("opentelemetry") is None:
        problems.append(
            "CONFAB_OTEL_ENDPOINT is set, but OpenTelemetry is not installed: run pip install 'confab[otel]'."
        )
    if settings.operations_only and settings.operations_file is None:
        problems.append(
            "CONFAB_OPERATIONS_ONLY is set without CONFAB_OPERATIONS_FILE: name a file of persisted operations."
        )
    return problems + _refuse_development_secret(settings, "jwt_secret")


def read_secret_file(settings: Settings) -> tuple[Settings, list[str]]:
    """Return the settings with the secret of `jwt_secret_file` in `jwt_secret`, and the problems found."""
    path = settings.jwt_secret_file
    assert path is not None
    try:
        secret = check_secret(SecretStr(path.read_text(encoding="utf-8").strip()))
    except (OSError, UnicodeDecodeError):
        return settings, [f"CONFAB_JWT_SECRET_FILE: {str(path)!r} cannot be read."]
    except ValueError as error:
        return settings, [f"The file of CONFAB_JWT_SECRET_FILE should contain {error}."]
    # Without the file: settings that are copied from these must contain one key only.
    settings = settings.model_copy(update={"jwt_secret": secret, "jwt_secret_file": None})
    return settings, _refuse_development_secret(settings, "jwt_secret_file")


def _refuse_development_secret(settings: Settings, field: str) -> list[str]:
    secret = settings.jwt_secret
    if secret is None or secret.get_secret_value() != DEVELOPMENT_SECRET or settings.development:
        return []
    return [
        f"{variable(field)} is the development secret, which is public: set a secret of your own "
        "(`openssl rand -base64 48` makes a good one)."
    ]
