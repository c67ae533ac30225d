"""A folder that takes seconds to make: one worker of a run makes it, and each that needs it works on a copy."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def copy_of(name: str, make: Callable[[Path], object], factory: pytest.TempPathFactory) -> Path:
    """Return a copy of one's own of what `make` makes in the empty folder that it is given.

    Workers that come while another makes it wait. Where that fails, each of them tries, and raises what `make` raises.
    """
    own = factory.getbasetemp()
    made = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / f"made-{name}"
    with made.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            scratch = factory.mktemp(name)
            make(scratch)
            shutil.copytree(scratch, made, symlinks=True)
    return shutil.copytree(made, factory.mktemp(name), symlinks=True, dirs_exist_ok=True)
