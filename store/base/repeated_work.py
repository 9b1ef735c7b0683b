"""Work that a process does again and again in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import structlog

from store.base.errors import StoreError

_log = structlog.get_logger()


class RepeatedWork:
    """One kind of work, whose failures are logged. Callers decide when it runs."""

    def __init__(self, name: str, work: Callable[[], Awaitable[object]], log_event: str = "work_failed") -> None:
        """Create it. name: The name of the work in the log. log_event: The event that is logged for a failure."""
        self._name = name
        self._work = work
        self._log_event = log_event
        self.is_failing = False
        """True after a StoreError, until the work succeeds."""

    async def run(self) -> None:
        """Do the work. Raises nothing. Of consecutive StoreErrors only the first is logged."""
        try:
            await self._work()
            self.is_failing = False
        except StoreError as error:
            if not self.is_failing:
                _log.warning(self._log_event, work=self._name, reason=str(error))
            self.is_failing = True
        except Exception:
            _log.exception(self._log_event, work=self._name)
