"""A rule for new packages that came later takes nothing away: what is stored is read, put and followed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.blobs_object import ObjectBlobs
from tenantry.adapters.overlay.packages import OverlayPackages
from tenantry.bootstrap.packages import Checking
from tenantry.engine.package_files import PackageFolder
from tenantry.engine.service import Engine
from tenantry.model.verdicts import Invalid
from tenantry.packages.check import PackageLimits, inspect, sha256_of
from tenantry.packages.inspector import Inspector
from tenantry.ports import Packages
from tests.unit.engine.archives import CONTACTS, manifest, write_package

HEAVY = {**CONTACTS, "checks": [{"name": "c", "expression": "email LIKE email"}]}
REFUSED = "LIKE with a pattern that is not a constant"

Restarted = Callable[[], Packages]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_package(tmp_path / "crm.tapp", tables=[HEAVY])


@pytest.fixture
def checking() -> Iterator[Checking]:
    inspector = Inspector()
    yield Checking(PackageLimits(), inspector)
    inspector.close()


@pytest.fixture(params=["folder", "object store", "plan"])
def restarted(request: pytest.FixtureRequest, tmp_path: Path, checking: Checking) -> Restarted:
    """Opens the same packages, as a process does that has just begun."""
    objects = MemoryStore()

    def folder() -> FolderBlobs:
        return FolderBlobs(tmp_path / "packages", checking.inspect, checking.read)

    def made() -> Packages:
        if request.param == "object store":
            return ObjectBlobs(objects, tmp_path / "scratch", checking.inspect)
        if request.param == "folder":
            return folder()
        return OverlayPackages(folder(), FolderBlobs(tmp_path / "plan", checking.inspect))

    return made


async def test_what_is_stored_is_read_and_put_again(
    restarted: Restarted, package: Path, checking: Checking, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = restarted()
    with monkeypatch.context() as older:
        older.setattr("tenantry.packages.portable.check_portable", lambda *_: None)
        real = before._real if isinstance(before, OverlayPackages) else before
        facts = await real.put("acme", package)
    checking.inspector._known.clear()
    after = restarted()
    assert await after.inspect("acme", facts.sha256) == facts
    assert await after.put("acme", package) == facts
    with pytest.raises(Invalid, match=REFUSED):
        await after.put("globex", package)


def test_reading_what_is_stored_allows_nobody_to_upload_it(checking: Checking, package: Path) -> None:
    assert checking.read(package).app == "crm"
    with pytest.raises(Invalid, match=REFUSED):
        checking.inspect(package)


def test_a_folder_of_a_repository_is_built_and_checked_where_it_is_put(tmp_path: Path, checking: Checking) -> None:
    source = tmp_path / "crm"
    source.mkdir()
    (source / "app.yaml").write_bytes(manifest(tables=[HEAVY]))
    built = tmp_path / "built.tapp"
    assert checking.build(source, built).sha256 == sha256_of(built)
    with pytest.raises(Invalid, match=REFUSED):
        checking.inspect(built)


async def test_an_engine_takes_the_bytes_again_that_it_has(tmp_path: Path, package: Path) -> None:
    engine = await Engine.open(tmp_path / "engine", created_at=datetime(2026, 1, 2, tzinfo=UTC))
    with pytest.raises(Invalid, match=REFUSED):
        await engine.publish(package)
    with pytest.raises(Invalid, match=REFUSED):
        await engine.preview(package)
    facts = inspect(package, PackageLimits(stored=True))
    PackageFolder(tmp_path / "engine").put(package, facts.sha256)
    assert await engine.publish(package) == facts
    assert [app.id for app in await engine.apps()] == ["crm"]
    assert await engine.preview(package) == ()
    await engine.close()
