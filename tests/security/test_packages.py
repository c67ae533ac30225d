"""Hostile packages: each is refused with 400 and its reason, in bounded time and memory, and nothing of it stays."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from tenantry.engine.package_files import PackageFolder
from tenantry.model.verdicts import Invalid
from tenantry.packages.check import inspect, open_package
from tests.campaigns.tried import Tried
from tests.security.hostile_packages import good, hostile, mutated, mutations
from tests.support.package_limits import LIMITS

HOSTILE = hostile()
MUTATIONS = 2000
MEMORY = 24 << 20
"""Bytes that judging a package may take at most: it is inflated piece by piece."""


def _judged(path: Path, raw: bytes) -> str:
    """Return the reason of the refusal, `""` without one. Anything but Invalid fails the test."""
    path.write_bytes(raw)
    try:
        inspect(path, LIMITS)
    except Invalid as refused:
        return str(refused)
    return ""


def test_what_the_mutations_start_from_is_a_good_package(tmp_path: Path) -> None:
    assert _judged(tmp_path / "p.tapp", good()) == ""


def test_the_tables_hold_at_least_150_packages() -> None:
    assert len(HOSTILE) >= 150


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_package_is_refused(tmp_path: Path, name: str) -> None:
    raw = HOSTILE[name]()
    tracemalloc.start()
    try:
        told = _judged(tmp_path / "p.tapp", raw)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert told.startswith("Invalid: ") and len(told) < 3000
    assert peak < MEMORY


@pytest.mark.parametrize("start", range(0, MUTATIONS, 250))
def test_of_a_package_with_bytes_changed_nothing_lands_outside_its_folder(tmp_path: Path, start: int, tried: Tried) -> None:
    """Refused, or still sound: then what is unpacked is plain files in their folder, no more than may be."""
    for seed, raw in mutations(range(start, start + 250)):
        folder = tmp_path / f"{seed}"
        try:
            if not _judged(tmp_path / "p.tapp", raw):
                _unpacked_soundly(folder, tmp_path / "p.tapp")
        except Exception as error:
            replay = f"tests.security.hostile_packages.mutated(good(), {seed})"
            raise AssertionError(f"seed {seed}: {error!r}; replay: {replay}") from error
        tried()
    assert {path.name for path in tmp_path.iterdir()} <= {"p.tapp", *(f"{seed}" for seed in range(start, start + 250))}


def _unpacked_soundly(folder: Path, path: Path) -> None:
    facts = inspect(path, LIMITS)
    package_files = PackageFolder(folder)
    package_files.put(path, facts.sha256)
    with package_files.unpacked(facts.sha256):
        pass
    files = [each for each in folder.rglob("*") if not each.is_dir()]
    assert all(each.is_file() and not each.is_symlink() for each in files)
    assert sum(each.stat().st_size for each in files) <= LIMITS.inflated + LIMITS.size
    with open_package(path, LIMITS) as package:
        assert all(len(list(package.lines(name))) >= 0 for name in package.seeds().values())


def test_a_seed_makes_the_same_bytes_each_time() -> None:
    assert [mutated(good(), seed) for seed in range(50)] == [raw for _, raw in mutations(range(50))]
    assert len({mutated(good(), seed) for seed in range(500)}) > 450
