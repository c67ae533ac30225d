"""The locks: what they hold, and that this environment is what they say."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
RUNTIME, DEVELOPMENT, BUILD = "requirements.lock", "requirements-dev.lock", "requirements-build.lock"
LOCKS = (RUNTIME, DEVELOPMENT, BUILD)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
_PIN = re.compile(r"^(?P<pin>[a-z0-9][^\s]*==[^\\\n]+)(?:\\\n    --hash=sha256:[0-9a-f]{64} ?)+$", re.MULTILINE)


def pins(lock: str) -> list[Requirement]:
    return [Requirement(found["pin"].strip()) for found in _PIN.finditer((ROOT / lock).read_text("utf-8"))]


def versions(lock: str) -> dict[str, str]:
    """The versions that a lock gives to this machine, by name."""
    here = [each for each in pins(lock) if each.marker is None or each.marker.evaluate()]
    return {canonicalize_name(each.name): next(iter(each.specifier)).version for each in here}


def bounds() -> list[tuple[str, str]]:
    """Each requirement of pyproject.toml, and the lock that has to meet it."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    extras = [each for extra in project.get("optional-dependencies", {}).values() for each in extra]
    return [
        *((each, RUNTIME) for each in [*project["dependencies"], *extras]),
        *((each, DEVELOPMENT) for group in groups.values() for each in group if isinstance(each, str)),
        *((each, BUILD) for each in [*PROJECT["build-system"]["requires"], *groups["build"]]),
    ]


@pytest.mark.parametrize("lock", LOCKS)
def test_everything_locked_has_a_version_and_hashes_and_no_file_names_an_index(lock: str) -> None:
    text = (ROOT / lock).read_text("utf-8")
    assert len(pins(lock)) == len(re.findall(r"^[a-z0-9]", text, re.MULTILINE)) > 0
    assert "://" not in text
    assert "--index" not in text


@pytest.mark.parametrize(("bound", "lock"), bounds(), ids=lambda value: value)
def test_a_lock_meets_every_bound(bound: str, lock: str) -> None:
    wanted = Requirement(bound)
    locked = versions(lock)[canonicalize_name(wanted.name)]
    assert wanted.specifier.contains(locked, prereleases=True)


@pytest.mark.parametrize("lock", [RUNTIME, BUILD])
def test_what_ships_has_the_versions_that_were_tested(lock: str) -> None:
    assert versions(lock).items() <= versions(DEVELOPMENT).items()


def test_this_environment_is_the_lock_of_development() -> None:
    if not list(Path(sys.prefix).glob(".ready-*")):
        assert not os.environ.get("CI"), "this environment was not made by make"
        pytest.skip("this environment was not made by make")
    here = {
        canonicalize_name(each.name): each.version for each in distributions(path=[p for p in sys.path if "site-packages" in p])
    }
    assert here.pop(canonicalize_name("tenantry")) == PROJECT["project"]["version"]
    assert here == versions(DEVELOPMENT)
