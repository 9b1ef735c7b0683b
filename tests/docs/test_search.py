"""The search of the site finds pages that explain before the reference, and no decision records."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.docs.conftest import needs_generator

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
FIRST = {
    "unread": "concepts/sessions/",
    "mark as read": "guides/private-chat/",
    "read receipts": "concepts/receipts/",
    "cursor": "concepts/clocks/",
    "install": "start/",
    "login": "auth/",
    "group": "guides/private-chat/",
    "retry": "clients/javascript/",
    "error": "clients/errors/",
    "apollo": "clients/apollo/",
    "webhook": "features/webhooks/",
    "upload": "features/files/",
    "push": "features/push/",
    "thread": "features/threads/",
    "reaction": "features/threads/",
    "typing": "features/presence/",
    "presence": "features/presence/",
    "search": "features/search/",
    "voice": "features/voice/",
    "bot": "features/bots/",
    "backup": "operations/backup-and-restore/",
    "kubernetes": "deployment/",
}
"""The page of the first result for an everyday word."""


@pytest.fixture(scope="module")
def found(built: Path) -> dict[str, list[str]]:
    """The first ten results of each query, best first."""
    program = Path(__file__).with_name("search.mjs")
    queries = [*FIRST, "createUpload", "PushResult", "decision"]
    run = subprocess.run(["node", program, built, *queries], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    results: dict[str, list[str]] = json.loads(run.stdout)
    return results


@needs_generator
@needs_node
@pytest.mark.parametrize(("query", "page"), FIRST.items())
def test_an_everyday_word_finds_a_page_that_explains_it(found: dict[str, list[str]], query: str, page: str) -> None:
    assert found[query][0].partition("#")[0] == page, found[query]


@needs_generator
@needs_node
def test_a_name_of_the_api_finds_its_place_in_the_reference(found: dict[str, list[str]]) -> None:
    assert found["createUpload"][0] == "reference/schema/files-and-link-previews/#mutation-createupload"
    assert found["PushResult"][0] == "reference/schema/devices-and-push-notifications/#type-pushresult"


@needs_generator
@needs_node
def test_of_the_decisions_only_their_list_is_found(found: dict[str, list[str]]) -> None:
    assert found["decision"][0] == "adr/"
    results = {page for pages in found.values() for page in pages}
    assert {page for page in results if page.startswith("adr/0")} == set()
