"""Faults of a source that follows a repository: the last good commit stays, and it goes on by itself."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tenantry.adapters.blobs import FolderBlobs
from tenantry.adapters.sources.git.source import GitSource
from tenantry.adapters.sources.git.state import LAST_RETRY_S
from tenantry.adapters.sources.git.url import parse_git_url
from tenantry.adapters.sources.packages import PackageFiles
from tenantry.kinds.admission import Admission
from tenantry.model.tree import Tree
from tenantry.packages.build import build
from tenantry.packages.check import inspect
from tests.scenario.failing_git import MODES, FailingGit
from tests.scenario.repositories import Remote

ADMISSION = Admission()
START = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)


def tenant(name: str) -> str:
    return f"apiVersion: tenantry.dev/v1alpha1\nkind: Tenant\nmetadata: {{name: {name}}}\nspec: {{displayName: {name}}}\n"


def names(tree: Tree) -> list[str]:
    return sorted(each.ref.name for each in tree.documents)


class Time:
    """Passes when somebody sleeps. wall: what a clock on the wall shows, which people set."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.wall = START
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.passed += seconds
        self.wall += timedelta(seconds=seconds)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    passing = Time()
    monkeypatch.setattr("tenantry.adapters.sources.git.source.asyncio", _Asyncio(passing))
    return passing


class _Asyncio:
    """asyncio, but for how long sleep takes."""

    def __init__(self, time: Time) -> None:
        self.sleep = time.sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    made = Remote.at(tmp_path / "remote")
    made.commit({"a.yaml": tenant("acme")})
    return made


def source_of(remote: Remote, folder: Path, time: Time | None = None) -> GitSource:
    def admit(document: Any) -> Any:
        return ADMISSION.admit(document, None)

    packages = PackageFiles(FolderBlobs(folder / "blobs", inspect), build)
    now = (lambda: time.wall) if time else (lambda: START)
    return GitSource(parse_git_url(remote.url()), folder / "cache", admit, packages, now)


async def reads(source: GitSource) -> AsyncIterator[Tree]:
    async for _ in source.changes():
        yield await source.read()


async def test_an_hour_without_the_remote_is_asked_for_seldom_and_made_up_for_at_once(
    remote: Remote, tmp_path: Path, time: Time
) -> None:
    source = source_of(remote, tmp_path, time)
    await source.read()
    away = remote.folder.with_name("away")
    remote.folder.rename(away)
    told = set()
    async for tree in reads(source):
        assert names(tree) == ["acme"]
        assert tree.problems == tree.held == ()
        told.add(tree.away.partition(": ")[0])
        if time.passed >= 3600:
            break
    assert told == {"since 2026-03-29T00:31:00Z"}
    assert 12 <= len(time.pauses) <= 25, "neither deaf nor a nuisance"
    assert max(time.pauses) == LAST_RETRY_S

    away.rename(remote.folder)
    remote.commit({"b.yaml": tenant("beta")})
    before = time.passed
    async for tree in reads(source):
        assert (names(tree), tree.away) == (["acme", "beta"], "")
        break
    assert time.passed - before <= LAST_RETRY_S
    async for _ in reads(source):
        break
    assert time.pauses[-1] == 60, "as ever"


@pytest.mark.parametrize("jump", [timedelta(days=-3650), timedelta(hours=-1), timedelta(days=3650)], ids=str)
async def test_a_clock_that_is_set_changes_neither_what_is_read_nor_when(
    remote: Remote, tmp_path: Path, time: Time, jump: timedelta
) -> None:
    source = source_of(remote, tmp_path, time)
    await source.read()
    remote.folder.rename(remote.folder.with_name("away"))
    for _ in range(2):
        assert "since 2026-03-29T00:30:00Z" in (await source.read()).away
        time.wall += jump
    remote.folder.with_name("away").rename(remote.folder)
    remote.commit({"b.yaml": tenant("beta")})
    tree = await source.read()
    assert (names(tree), tree.away) == (["acme", "beta"], "")
    async for _ in source.changes():
        break
    assert time.pauses == [60]


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True], ids=["it goes on", "it is started again"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_read_may_fail_at_any_git_command(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, restarted: bool
) -> None:
    git = FailingGit.at(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{git.folder}:{os.environ['PATH']}")
    failed = 0
    source = source_of(remote, tmp_path)
    await source.read()
    for at in range(1, 100):
        remote.commit({"n.yaml": tenant(f"n{at}")})
        git.arm(at, mode)
        tree = await source.read()
        if git.disarm() < at:
            break
        assert names(tree) in (["acme", f"n{at}"], ["acme", f"n{at - 1}"] if at > 1 else ["acme"]), "one commit or the other"
        failed += bool(tree.away or tree.held)
        source = source_of(remote, tmp_path) if restarted else source
        tree = await source.read()
        assert (names(tree), tree.away, tree.held) == (["acme", f"n{at}"], "", ())
        assert not [*(tmp_path / "cache").rglob("*.lock"), *(tmp_path / "cache").rglob("tmp_*")]
    assert (at > 6, failed > 2) == (True, True), "they were struck, and it was told"


async def test_a_disk_that_is_full_is_told_and_the_last_good_commit_stays(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = source_of(remote, tmp_path)
    await source.read()
    remote.commit({"b.yaml": tenant("beta")})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("tenantry.adapters.sources.git.command.tempfile.TemporaryFile", full)
        tree = await source.read()
        assert (names(tree), "No space left on device" in tree.away) == (["acme"], True)
    tree = await source.read()
    assert (names(tree), tree.away) == (["acme", "beta"], "")


async def test_a_cache_that_is_named_from_where_one_stands_is_there_and_fetched_into_once(
    remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `.tenantry`, the default, is: git itself runs elsewhere."""
    monkeypatch.chdir(tmp_path)
    source = source_of(remote, Path("state"))
    await source.applied(await source.read())
    made = (tmp_path / "state" / "cache" / "repository" / "config").stat()
    remote.commit({"b.yaml": tenant("beta")})
    assert names(await source.read()) == ["acme", "beta"]
    assert (tmp_path / "state" / "cache" / "repository" / "config").stat().st_ino == made.st_ino


@pytest.mark.parametrize("lost", [False, True], ids=["", "and the cache is lost"])
async def test_history_that_is_rewritten_is_told(remote: Remote, tmp_path: Path, lost: bool) -> None:
    source = source_of(remote, tmp_path)
    before = await source.read()
    assert before.revision is not None and before.revision.rewrote == ""
    await source.applied(before)
    if lost:
        await source.repository.discard()
    remote.commit({"b.yaml": tenant("beta")}, parent="none")
    after = await source.read()
    assert after.revision is not None
    assert after.revision.rewrote == before.revision.commit
