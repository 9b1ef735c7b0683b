from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from resolvers.files.inspection.inspector import Inspector
from resolvers.files.inspection.results import Inspected, RejectedFile

Inspect = Callable[..., Awaitable[Inspected | RejectedFile]]


@pytest.fixture(scope="session")
async def inspector(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Inspector]:
    inspector = Inspector(tmp_path_factory.mktemp("inspector"))
    await inspector.open()
    yield inspector
    await inspector.close()


@pytest.fixture
def inspect(inspector: Inspector, tmp_path: Path) -> Inspect:
    """Inspects bytes. New files are in `tmp_path`."""

    async def inspect(content: bytes, hint: str | None = None, filename: str | None = None) -> Inspected | RejectedFile:
        path = tmp_path / "uploaded"
        path.write_bytes(content)
        result = await inspector.inspect(path, hint, filename)
        assert path.read_bytes() == content
        return result

    return inspect
