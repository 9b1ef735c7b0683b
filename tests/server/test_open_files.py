"""Sockets are bounded by what the system lets a process open."""

from __future__ import annotations

import pytest

from server.process import fd_limits as open_files
from server.process.fd_limits import RESERVED_FILES, max_sockets

resource = pytest.importorskip("resource")


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the system says of open files, soft and hard, in the test's hands."""
    said = [1024, 4096]

    def set_limits(_which: int, wanted: tuple[int, int]) -> None:
        assert wanted[0] <= said[1]
        said[0] = wanted[0]

    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _which: tuple(said))
    monkeypatch.setattr(open_files.resource, "setrlimit", set_limits)
    return said


def test_what_a_process_may_open_is_raised_to_what_its_sockets_need(limits: list[int]) -> None:
    assert max_sockets(1500, 500) == [1500, 500]
    assert limits == [2000 + RESERVED_FILES, 4096]


def test_where_it_cannot_be_raised_enough_there_are_fewer_sockets(limits: list[int]) -> None:
    sockets, streams = max_sockets(20_000, 5_000)
    assert sockets + streams <= 4096 - RESERVED_FILES
    assert (sockets, streams) == ((4096 - RESERVED_FILES) * 4 // 5, (4096 - RESERVED_FILES) // 5)
    assert limits == [4096, 4096]


def test_a_limit_that_is_far_enough_is_left_alone(limits: list[int]) -> None:
    assert max_sockets(100, 100) == [100, 100]
    assert limits == [1024, 4096]
