"""Changes of jobs that name an erased user."""

from __future__ import annotations

from typing import Any

import pytest

from store.base.ids import UserId
from store.erasure.inventory import COLLECTIONS
from store.erasure.renaming import Renaming
from store.erasure.row_changes import change_of

_RENAMING = Renaming(UserId("alice"), UserId("erased-0123456789abcdef"))


def row(kind: str, user: str, **more: Any) -> dict[str, Any]:
    return {"_id": "1", "k": kind, "u": user, "i": {}, "p": {}, "st": "R", "d": 99, "l": "lease"} | more


def change(job: dict[str, Any]) -> Any:
    return change_of("jobs", COLLECTIONS["jobs"], job, _RENAMING)


def test_recalls_of_a_ban_continue_with_the_pseudonym_and_without_the_lease() -> None:
    changed = change(row("M", "bob", i={"workspace": None, "by": "alice", "since": 1}))
    assert changed.new["i"]["by"] == _RENAMING.pseudonym
    assert (changed.new["d"], "l" in changed.new, changed.new["u"]) == (0, False, "bob")


@pytest.mark.parametrize("job", [row("E", "alice"), row("R", "erased 0", i={"user": "alice"})])
def test_exports_and_failed_erasures_of_the_user_are_removed(job: dict[str, Any]) -> None:
    assert change(job).new is None


@pytest.mark.parametrize(
    "job", [row("E", "bob"), row("M", "bob", i={"by": "bob"}), row("R", "erased 0", p={"after": "c_1 alice"})]
)
def test_jobs_about_others_are_left_alone(job: dict[str, Any]) -> None:
    assert change(job) is None
