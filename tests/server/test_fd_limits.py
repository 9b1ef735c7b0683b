"""The limit on open files limits the sockets."""

from __future__ import annotations

import pytest

from server.process import fd_limits as open_files
from server.process.fd_limits import RESERVED_FILES, max_sockets

resource = pytest.importorskip("resource")


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Simulated soft and hard limit on open files."""
    said = [1024, 4096]

    def set_limits(_which: int, wanted: tuple[int, int]) -> None:
        assert wanted[0] <= said[1]
        said[0] = wanted[0]

    monkeypatch.setattr(open_files.resource, "getrlimit", lambda _which: tuple(said))
    monkeypatch.setattr(open_files.resource, "setrlimit", set_limits)
    return said


def test_open_file_limit_is_raised_for_the_wanted_sockets(limits: list[int]) -> None:
    assert max_sockets(1500, 500) == [1500, 500]
    assert limits == [2000 + RESERVED_FILES, 4096]


def test_sockets_are_reduced_if_the_limit_cannot_be_raised(limits: list[int]) -> None:
    sockets, streams = max_sockets(20_000, 5_000)
    assert sockets + streams <= 4096 - RESERVED_FILES
    assert (sockets, streams) == ((4096 - RESERVED_FILES) * 4 // 5, (4096 - RESERVED_FILES) // 5)
    assert limits == [4096, 4096]


def test_sufficient_open_file_limit_is_unchanged(limits: list[int]) -> None:
    assert max_sockets(100, 100) == [100, 100]
    assert limits == [1024, 4096]
