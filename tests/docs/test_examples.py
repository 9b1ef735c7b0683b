"""The examples of the start page, the concepts and the guides work on the data of the demo."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from server.cli.dev import development_settings
from server.settings import Settings
from tests.docs.stories import INDEXES, PAGES, ROOT, Story, examples
from tests.playground.runner import serving_demo
from tests.server.served_app import App

NAMES = ("mongo_url", "redis_url", "mongo_database", "redis_prefix")


@pytest.fixture(scope="module")
def settings(module_settings: Settings) -> Settings:
    return development_settings(**{name: getattr(module_settings, name) for name in NAMES})


@pytest.fixture(scope="module")
async def app(settings: Settings) -> AsyncIterator[App]:
    async with serving_demo(settings) as playground:
        yield playground.app


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
async def test_every_example_of_a_page_works(app: App, settings: Settings, page: Path) -> None:
    story = Story(app, settings)
    for example in examples(page):
        if example.text.startswith("node ") and shutil.which("node") is None:
            continue
        await story.run(example)


def test_the_pages_have_only_examples_that_can_be_run() -> None:
    found = {page: [example.kind for example in examples(page)] for page in PAGES}
    assert set().union(*map(set, found.values())) == {"graphql", "sh"}
    # Blocks that the pattern does not see would not be run.
    for page in PAGES:
        shown = page.read_text(encoding="utf-8").count("\n```")
        variables = sum(bool(example.variables) for example in examples(page))
        assert shown == 2 * (len(found[page]) + variables), page


def test_every_concept_and_guide_has_an_example() -> None:
    assert [page for page in PAGES if not list(examples(page))] == list(INDEXES)


def test_lines_of_examples_fit_into_the_width_of_a_page() -> None:
    long = [(page.name, line) for page in PAGES for each in examples(page) for line in each.text.splitlines()]
    assert [(page, line) for page, line in long if len(line) > 90] == []
