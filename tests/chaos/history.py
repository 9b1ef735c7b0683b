"""What clients asked and were told, in the order in which they noted it: one line of JSON each, so that a failed run can be looked into.

Every line has `t` (seconds since the epoch, by the load's own clock) and `what`:

- invoke: `id` (of the try), `who` (device), `user`, `op`, `vars`.
- answer: `id`, `code` ("ok", the error's code, or "lost": nobody knows what was done), and the `value` of an "ok".
- event: `who`, `user`, `of` (which subscription), `live` (whether it had caught up), `event`.
- fault: `name`, `state` ("begins", "healed"), and for a loss of what Redis held `lost`: "all" or a user.
- fresh: `user`, `sessions` (by conversation), `total`, `histories` (messages by conversation), read after the quiet by nobody who knew anything.
- stored: `messages` (MongoDB's rows), `intervals` (memberships by `conversation user`).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import orjson

Json = dict[str, Any]


class History:
    """One run's, kept in memory and written to a file."""

    def __init__(self, path: Path | None = None) -> None:
        self.lines: list[Json] = []
        self._file = path.open("wb") if path else None
        self._tries = 0

    def note(self, what: str, **told: Any) -> None:
        line = {"t": time.time(), "what": what, **told}
        # Values are changed by those who hold them: what was told is written down now.
        packed = orjson.dumps(line)
        self.lines.append(orjson.loads(packed))
        if self._file is not None:
            self._file.write(packed + b"\n")

    def invoke(self, who: str, user: str, op: str, variables: Json) -> int:
        """A try begins. Answers its id."""
        self._tries += 1
        self.note("invoke", id=self._tries, who=who, user=user, op=op, vars=variables)
        return self._tries

    def answer(self, id: int, code: str, value: Any = None) -> None:
        """A try ended."""
        self.note("answer", id=id, code=code, value=value)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def load_history(path: Path) -> list[Json]:
    """The lines of a file that an earlier run wrote."""
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]
