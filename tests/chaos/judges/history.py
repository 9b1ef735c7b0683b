"""The history of a run: requests, answers and events in the order in which the clients noted them, a line of JSON each.

Every line has `t` (seconds since the epoch, by the load's own clock) and `what`:

- invoke: `id` (of the try), `device`, `user`, `operation`, `variables`.
- answer: `id`, `code` ("ok", the error's code, or "lost" if the outcome is unknown), and the `value` of an "ok".
- event: `device`, `user`, `subscription`, `live` (whether it had caught up), `event`.
- fault: `name`, `state` ("begins", "healed"), and for a loss of data in Redis `lost`: "all" or a user.
- fresh: `user`, `sessions` (by conversation), `total`, `histories` (messages by conversation), read at the end by a
  client without any state.
- stored: `messages` (MongoDB's rows), `intervals` (memberships by `conversation user`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import orjson

Json = dict[str, Any]


class History:
    """The history of one run, in memory and in a file."""

    def __init__(self, path: Path | None = None) -> None:
        self.lines: list[Json] = []
        self._file = path.open("wb") if path else None
        self._tries = 0

    def note(self, what: str, **fields: Any) -> None:
        """Add a line."""
        line = {"t": time.time(), "what": what, **fields}
        # The caller may change the values later: keep them as they are at this moment.
        packed = orjson.dumps(line)
        self.lines.append(orjson.loads(packed))
        if self._file is not None:
            self._file.write(packed + b"\n")

    def invoke(self, device: str, user: str, operation: str, variables: Json) -> int:
        """Note that a try begins, and return its id."""
        self._tries += 1
        self.note("invoke", id=self._tries, device=device, user=user, operation=operation, variables=variables)
        return self._tries

    def answer(self, id: int, code: str, value: Any = None) -> None:
        """Note that a try ended."""
        self.note("answer", id=id, code=code, value=value)

    def close(self) -> None:
        """Close the file. The lines stay in memory."""
        if self._file is not None:
            self._file.close()
            self._file = None


def load_history(path: Path) -> list[Json]:
    """Return the lines of the file of an earlier run."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]
