"""The playground in a browser: `web/tests/playground.mjs`."""

from __future__ import annotations

import pytest

from tests.browser.conftest import Outcomes
from tests.browser.programs import checks_of, why_not

pytestmark = pytest.mark.skipif(why_not() is not None, reason=why_not() or "")


@pytest.mark.parametrize("sentence", checks_of("playground"))
async def test_in_a_browser(sentence: str, outcomes: Outcomes) -> None:
    outcome = (await outcomes("playground"))[sentence]
    if outcome.error is not None:
        pytest.fail(outcome.error, pytrace=False)
