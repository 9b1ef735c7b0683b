"""The API as attackers meet it: through the engine, and over the network."""

from __future__ import annotations

from tests.schema.conftest import api, open_api, other_process, places, process
from tests.server.conftest import serve_app

__all__ = ["api", "open_api", "other_process", "places", "process", "serve_app"]
