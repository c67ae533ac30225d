"""Copies of packages in a folder whose origin is elsewhere: each is brought when it is needed, and once."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tenantry.engine.package_files import PackageFolder
from tenantry.model.verdicts import NotFound
from tenantry.packages.build import build
from tests.scenario.data_world import MANIFEST

FILES = 40


class Origin:
    """package_files.PackageOrigin with one package."""

    def __init__(self, package: Path) -> None:
        self.package = package
        self.fetched = 0

    def put(self, sha256: str, package: Path) -> None:
        raise NotImplementedError

    def has(self, sha256: str) -> bool:
        return sha256 == "known"

    def fetch(self, sha256: str, target: Path) -> None:
        if not self.has(sha256):
            raise NotFound(sha256)
        self.fetched += 1
        shutil.copyfile(self.package, target)

    def has_only(self, packages: Collection[str]) -> bool:
        raise NotImplementedError

    def keep_only(self, packages: Collection[str]) -> None:
        raise NotImplementedError


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    source = tmp_path / "source"
    (source / "content").mkdir(parents=True)
    (source / "app.yaml").write_text(MANIFEST)
    for number in range(FILES):
        (source / "content" / f"{number}.txt").write_text(str(number))
    build(source, tmp_path / "crm.tapp")
    return Origin(tmp_path / "crm.tapp")


def test_many_that_want_the_files_of_an_app_at_once_get_all_of_them(origin: Origin, tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    files = PackageFolder(tmp_path / "engine", origin)
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: sorted(files.brought_content("known").iterdir()), range(8)))  # type: ignore[union-attr]
    assert [len(names) for names in found] == [FILES] * 8
    assert [path.name for path in (tmp_path / "engine" / "content").iterdir()] == ["known"]


def test_a_package_is_brought_when_it_is_needed_and_is_there_before(origin: Origin, tmp_path: Path) -> None:
    files = PackageFolder(tmp_path, origin)
    assert files.holds("known") and not files.holds("unknown") and origin.fetched == 0
    assert files.path("known").read_bytes() == origin.package.read_bytes()
    files.path("known")
    assert origin.fetched == 1
    with pytest.raises(NotFound):
        files.path("unknown")
