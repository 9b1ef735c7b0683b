"""The sources of the last released version come from the history of Git, or the test says what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upgrade import released as sources


def test_the_released_version_has_its_command_line(released: Path) -> None:
    assert (released / "server" / "cli" / "__main__.py").is_file()


def test_a_full_clone_without_the_released_version_fails(
    released: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "released_commit", lambda: "0" * 40)
    with pytest.raises(pytest.fail.Exception, match="does not have the last released version"):
        sources.unpack_released(tmp_path)


def test_without_the_history_the_tests_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "ROOT", tmp_path)
    with pytest.raises(pytest.skip.Exception, match="history of Git"):
        sources.unpack_released(tmp_path)
