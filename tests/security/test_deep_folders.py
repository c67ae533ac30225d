"""Folders without end are refused wherever files come from: what walks them would recurse, or run out of open files."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tenantry.adapters.local.reading import Checked, unpack
from tenantry.adapters.sources.directory import Directory
from tenantry.adapters.sources.documents import Admit
from tenantry.adapters.sources.git.source import GitSource
from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.kinds.admission import Admission
from tenantry.model.tree import Tree
from tenantry.model.verdicts import Invalid
from tenantry.packages.build import build as build_package
from tests.scenario.repositories import Remote
from tests.support.source_folders import PACKAGE, StoredPackages, tenant, write
from tests.unit.engine.archives import manifest

LEVELS = pytest.mark.parametrize("levels", [70, 1_500])
"""More than is allowed, and more than Python recurses."""


def admit() -> Admit:
    admission = Admission()
    return lambda document: admission.admit(document, None)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that `rm` removes: what removes the others recurses."""
    made = tmp_path / "f"
    made.mkdir()
    yield made
    subprocess.run(["rm", "-rf", str(made)], check=True)


def dig(folder: Path, levels: int) -> None:
    """Makes that many folders, one in the other, with a file in the last one."""
    with chdir(folder):
        for _ in range(levels):
            Path("d").mkdir()
            os.chdir("d")
        Path("x.yaml").write_text(tenant("deep"))


def told(tree: Tree) -> str:
    return "; ".join(str(each) for each in (*tree.problems, *tree.held))


@LEVELS
async def test_a_source_folder_is_held_and_names_the_place(folder: Path, levels: int) -> None:
    write(folder, {"a.yaml": tenant("a")})
    dig(folder, levels)
    tree = await Directory(folder, admit(), PackageFiles(StoredPackages(), build_package)).read()
    assert told(tree).startswith("d/d/d/")
    assert "is nested deeper than 64 folders" in told(tree)
    assert [each.ref.name for each in tree.documents] == ["a"]
    assert tree.broken, "nothing is pruned"


@LEVELS
async def test_a_package_of_a_source_is_refused_where_it_is_named(folder: Path, levels: int) -> None:
    write(folder, {"p.yaml": PACKAGE.replace("PATH", "crm"), "crm/app.yaml": manifest().decode(), "crm/content/a": "a"})
    dig(folder / "crm" / "content", levels)
    tree = await Directory(folder, admit(), PackageFiles(StoredPackages(), build_package)).read()
    assert "is nested deeper than 32 folders" in told(tree), told(tree)


@pytest.mark.slow
@LEVELS
async def test_a_repository_is_held_as_a_whole(folder: Path, levels: int) -> None:
    remote = Remote.at(folder / "remote.git")
    tree = remote.raw_tree(("100644", b"x.yaml", remote.blob(tenant("deep").encode())))
    for _ in range(levels):
        tree = remote.raw_tree(("40000", b"d", tree))
    remote.commit_tree(tree)
    packages = PackageFiles(StoredPackages(), build_package)
    source = GitSource(parse_git_url(remote.url()), folder / "kept", admit(), packages, lambda: datetime.now(UTC))
    read = await source.read()
    assert read.documents == ()
    assert "deeper than 64 folders" in told(read) or "exceeded maximum allowed tree depth" in told(read), told(read)


@LEVELS
def test_a_backup_is_not_unpacked(folder: Path, levels: int) -> None:
    path = folder / "given.tar"
    with tarfile.open(path, "w") as tar:
        info = tarfile.TarInfo(f"engine/{'d/' * levels}x")
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    with pytest.raises(Invalid, match="is nested deeper than 64 folders"):
        unpack(Checked(path, {}, None), folder / "out")
    assert list((folder / "out").iterdir()) == []
