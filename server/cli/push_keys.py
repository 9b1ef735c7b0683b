"""Key pairs for Web Push: `confab push-keys`, and the one of `confab dev`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from server.errors import CommandError
from server.settings import Settings

DEVELOPMENT_CONTACT = "mailto:confab-dev@example.org"
"""Apple refuses addresses of localhost."""

_FILE = "vapid_private_key"


def print_push_keys(report: Callable[[str], None]) -> None:
    """Print a new key pair, as lines of a file of settings."""
    from resolvers.push.services.vapid import VapidKey

    key = VapidKey.generate()
    report("# Keep the private key secret. With another key, all browsers have to subscribe again.")
    report(f"CONFAB_VAPID_PRIVATE_KEY={key.private_text}")
    report("# Where operators of push services reach you: a mailto: or https: URL.")
    report("CONFAB_VAPID_CONTACT=mailto:admin@example.org")
    report("# The public key. Clients get it from the API (webPushPublicKey).")
    report(f"# {key.public_text}")


def development_push_settings(settings: Settings, folder: Path) -> dict[str, str]:
    """Return settings for Web Push if there are none: with the key in the data folder, which is made once.

    Raises CommandError.
    """
    if any(field.startswith("vapid_") for field in settings.model_fields_set):
        return {}
    from resolvers.push.services.vapid import VapidKey

    path = folder / _FILE
    try:
        if not path.exists():
            _create(path, VapidKey.generate().private_text)
        key = VapidKey.parse(path.read_text(encoding="ascii"))
    except OSError as error:
        raise CommandError(f"The key for Web Push cannot be kept in {path}: {error.strerror}.") from error
    except ValueError as error:
        raise CommandError(f"{path} contains no key for Web Push: delete the file to get a new one.") from error
    return {"vapid_private_key": key.private_text, "vapid_contact": DEVELOPMENT_CONTACT}


def _create(path: Path, text: str) -> None:
    """Create a file that only its owner may read. Another process may create it at the same time: then it is kept."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.touch(mode=0o600, exist_ok=False)
    temporary.write_text(f"{text}\n")
    try:
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
