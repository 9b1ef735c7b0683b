"""Failures of work that is done again and again are logged, and do not end it."""

from __future__ import annotations

from structlog.testing import capture_logs

from store.base.errors import StoreError
from store.base.repeated_work import RepeatedWork


class _Work:
    """Work that ends as the test says."""

    def __init__(self, *ends: Exception | None) -> None:
        self._ends = iter(ends)

    async def __call__(self) -> None:
        end = next(self._ends)
        if end is not None:
            raise end


async def test_of_consecutive_store_errors_only_the_first_is_logged() -> None:
    work = RepeatedWork("cleaning", _Work(StoreError("away"), StoreError("still away"), None, StoreError("again")))
    states = []
    with capture_logs() as lines:
        for _ in range(4):
            await work.run()
            states.append(work.is_failing)
    assert states == [True, True, False, True]
    assert lines == [
        {"event": "work_failed", "log_level": "warning", "work": "cleaning", "reason": reason}
        for reason in ("away", "again")
    ]


async def test_each_unexpected_error_is_logged_and_does_not_count_as_failing() -> None:
    work = RepeatedWork("cleaning", _Work(ValueError("wrong"), ValueError("wrong")), "cleaning_failed")
    with capture_logs() as lines:
        for _ in range(2):
            await work.run()
            assert not work.is_failing
    assert lines == [{"event": "cleaning_failed", "log_level": "error", "work": "cleaning", "exc_info": True}] * 2
