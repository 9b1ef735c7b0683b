"""The site that messages link to."""

from __future__ import annotations

import pytest

from tests.api.client import Api
from tests.api.previews.site import FakeSite


@pytest.fixture
def site(api: Api, monkeypatch: pytest.MonkeyPatch) -> FakeSite:
    site = FakeSite()
    site.serve(api, monkeypatch)
    return site
