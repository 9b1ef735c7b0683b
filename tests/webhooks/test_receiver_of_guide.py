"""The receiver that the client guide shows accepts what Confab sends, and nothing else."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from resolvers.web_requests.signatures import new_secret, signed_headers

_FILE = Path(__file__).parents[2] / "docs" / "clients" / "webhook_receiver.py"


@pytest.fixture(scope="module")
def verify() -> Callable[..., Any]:
    spec = importlib.util.spec_from_file_location("webhook_receiver", _FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[..., Any] = module.verify
    return found


def test_it_accepts_either_secret_after_a_rotation(verify: Callable[..., Any]) -> None:
    new, old = new_secret(), new_secret()
    headers = signed_headers("m_1-created", int(time.time()), b'{"type": "GAP"}', (new, old))
    for secret in (new, old):
        assert verify(secret, headers, b'{"type": "GAP"}') == {"type": "GAP"}


def test_it_refuses_another_body_secret_or_time(verify: Callable[..., Any]) -> None:
    secret, now = new_secret(), int(time.time())
    headers = signed_headers("m_1-created", now, b"{}", (secret,))
    late = signed_headers("m_1-created", now - 301, b"{}", (secret,))
    for wrong in ((secret, headers, b"[]"), (new_secret(), headers, b"{}"), (secret, late, b"{}")):
        with pytest.raises(ValueError, match=r"wrong signature|too old"):
            verify(*wrong)
