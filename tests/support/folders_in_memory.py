"""Temporary folders of a run of tests in memory, where the machine has room: no test here can lose its power.

A process that is killed loses nothing that it wrote to either, so tests of durability see the same. A run that fails leaves its
folders behind, and so does one that is killed. The next run removes them.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")
PREFIX = "tntest-"
"""Short: the path of a socket in such a folder has at most 107 bytes."""
ROOM = 8 << 30
"""Bytes that must be free. A run of the slow tier takes up to a third of them."""
_HELD = pytest.StashKey[tuple[Path, int]]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Choose the folder before pytest does. Who names one, by TMPDIR or --basetemp, gets that one; workers get their run's."""
    if "TMPDIR" in os.environ or config.option.basetemp or not has_room(MEMORY):
        return
    remove_left(MEMORY)
    folder, lock = made_in(MEMORY)
    config.stash[_HELD] = (folder, lock)
    os.environ["TMPDIR"] = str(folder)
    tempfile.tempdir = None  # it is looked up once
    config.option.basetemp = str(folder / "t")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Remove the folder of a run that passed."""
    held = session.config.stash.get(_HELD, None)
    if held is not None and exitstatus == pytest.ExitCode.OK:
        shutil.rmtree(held[0], ignore_errors=True)


def has_room(place: Path) -> bool:
    """Say if programs may run from there, and if both the file system and the memory have room."""
    if not place.is_dir() or not os.access(place, os.W_OK):
        return False
    about = os.statvfs(place)
    return not about.f_flag & os.ST_NOEXEC and min(about.f_bavail * about.f_frsize, _free_memory()) >= ROOM


def _free_memory() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")), 0)


def made_in(place: Path) -> tuple[Path, int]:
    """Return a new folder that everybody may enter, as /tmp, and a lock on it that lasts as long as this process."""
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    lock = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_SH)
    folder.chmod(0o1777)
    return folder, lock


def remove_left(place: Path) -> None:
    """Remove the folders of runs that are over."""
    for folder in place.glob(f"{PREFIX}*"):
        try:
            at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            # It opens to all when it is locked: one that is still closed is being made.
            if os.fstat(at).st_uid == os.geteuid() and os.fstat(at).st_mode & 0o001:
                fcntl.flock(at, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except BlockingIOError:
            pass  # that run goes on
        finally:
            os.close(at)
