"""The core of the package @confab/client is small, and works against a real server."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from pydantic import SecretStr

from server.settings import DEVELOPMENT_SECRET, Settings
from tests.clients.programs import HERE, VITE, Workshop, build_package, missing
from tests.server.served_app import serving_app

MAX_GZIP_BYTES = 25_000
NOT_PROGRAMS = ("package_parts", "package_chaos")

_MISSING = missing() or (None if VITE.is_file() else "needs the packages of web/package.json: make web")
pytestmark = pytest.mark.skipif(_MISSING is not None, reason=str(_MISSING))


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built core of the package."""
    return build_package(tmp_path_factory.mktemp("client"))


def test_the_core_is_small(bundle: Path) -> None:
    assert len(gzip.compress(bundle.read_bytes())) < MAX_GZIP_BYTES


@pytest.mark.parametrize(
    "program", sorted(path.stem for path in HERE.glob("package*.mjs") if path.stem not in NOT_PROGRAMS)
)
async def test_the_core_against_a_real_server(
    program: str, bundle: Path, module_settings: Settings, tmp_path: Path
) -> None:
    workshop = Workshop(tmp_path)
    (tmp_path / "web" / "client").mkdir()
    shutil.copy(bundle, tmp_path / "web" / "client" / "index.mjs")
    update = {"jwt_secret": SecretStr(DEVELOPMENT_SECRET), "development": True}
    async with serving_app(module_settings.model_copy(update=update)) as app:
        url = f"http://127.0.0.1:{app.served.port}/graphql"
        ran = await workshop.run(program, url, DEVELOPMENT_SECRET)
    assert ran.status == 0, ran.output
