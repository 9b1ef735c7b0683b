"""All attacks by name."""

from __future__ import annotations

import importlib
from pathlib import Path

from tests.security.attacks.attack import Attack

_HERE = Path(__file__).parent
_FOLDERS = ("anonymous", "connections", "users")


def _find_attacks() -> dict[str, Attack]:
    """Return the attack of every module that has one, by folder and name of the module."""
    found = {}
    for folder in _FOLDERS:
        for path in sorted((_HERE / folder).glob("[!_]*.py")):
            module = importlib.import_module(f"tests.security.attacks.{folder}.{path.stem}")
            if hasattr(module, "ATTACK"):
                found[f"{folder}/{path.stem.replace('_', '-')}"] = module.ATTACK
    return found


ATTACKS = _find_attacks()
