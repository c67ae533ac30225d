"""The spread of tests over workers: those of a module stay together, for many modules start a control plane."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from xdist.scheduler import LoadScopeScheduling

ALONE = {"test_definitions.py", "test_deployer.py", "test_engine_objects.py", "test_store.py"}
"""Modules that make do with the control plane of the worker. The workers share them test by test, to end at one time."""


class ByModule(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives a worker a module after the other, the one with the most tests first."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return nodeid if PurePosixPath(module).name in ALONE else module


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> ByModule | None:
    """`--dist loadgroup` would do the same, but xdist 3.8 sees no groups with pytest 9.2."""
    return ByModule(config, log) if config.getvalue("dist") == "loadfile" else None
