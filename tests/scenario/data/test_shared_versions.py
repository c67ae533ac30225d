"""Engines of one process share a version of an app by the SHA-256 of its package. None decides about the rows of another."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tenantry.engine.access import Served
from tenantry.engine.server import engine_app
from tenantry.engine.service import Engine
from tenantry.rest.uploads import Uploads
from tests.scenario.archives import back_up, restore
from tests.scenario.data_world import DATA, MANIFEST, engine_with_app, signed_in
from tests.scenario.serving import serving

pytestmark = pytest.mark.slow
OURS = MANIFEST.replace("name: CRM", "name: CRM of two tenants")
THEIRS = f"{OURS}\ndefaultRole: editor\n"
"""It gives all rows to whoever has no role."""


async def exchanged(folder: Path) -> None:
    """An engine that came from a backup of one with the same app, whose package file has other bytes. It serves rows."""
    async with engine_with_app(folder, manifest=OURS):
        pass
    (package,) = (folder / "data" / "packages").iterdir()
    with zipfile.ZipFile(package, "w") as other:
        other.writestr("app.yaml", THEIRS)
    back_up(folder / "data", None, folder / "archive.tar")
    restore(folder / "archive.tar", folder / "restored", None)
    engine = await Engine.open(folder / "restored")
    served = Served(engine, folder / "restored" / "token-key.jwk")
    async with serving(engine_app(lambda request: served, Uploads(folder / "incoming"))) as url, signed_in(url, "none") as none:
        assert (await none.get(f"{DATA}/accounts")).status_code == 200
    await engine.close()


async def test_a_package_with_the_name_of_another_decides_about_no_rows_of_others(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    await exchanged(tmp_path_factory.mktemp("theirs"))
    async with engine_with_app(tmp_path, manifest=OURS) as (_, url), signed_in(url, "none") as none:
        assert (await none.get(f"{DATA}/accounts")).status_code == 403
