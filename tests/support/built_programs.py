"""Programs of other projects that tests and benchmarks build or install once, pinned, into the user's cache."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path


class MissingProgram(Exception):  # noqa: N818 - tests and benchmarks skip for it
    """A program is missing; the text says which, and where it comes from."""


def fingerprint(pins: Iterable[Path], flags: str = "") -> str:
    """Return 12 hexadecimal digits that change with the content of the files, or with the flags."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in pins) + flags.encode()).hexdigest()[:12]


def built_once(folder: str, name: str, build: Callable[[Path], None], lacking: str, needs: str = "go") -> Path:
    """Return the file or folder of that name in a folder of the cache; `build` makes it at the path that it is given.

    Processes that start at once build it once: the others wait. It becomes visible complete, by one rename.
    lacking: the text of the error where there is no program `needs`. Raises MissingProgram, and what `build` raises.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenantry" / folder
    wanted = cache / name
    if wanted.exists():
        return wanted
    if shutil.which(needs) is None:
        raise MissingProgram(lacking)
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not wanted.exists():
            with tempfile.TemporaryDirectory(dir=cache) as scratch:
                build(Path(scratch) / "built")
                (Path(scratch) / "built").rename(wanted)
    return wanted


def go_build(module: Path, out: Path, *packages: str, what: str, flags: str = "-s -w") -> None:
    """Build packages of a module without C: one into a file, several into a folder, which exists. Raises MissingProgram."""
    target = f"{out}/" if out.is_dir() else str(out)
    done = subprocess.run(
        ["go", "build", "-trimpath", "-ldflags", flags, "-o", target, *packages],
        cwd=module,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise MissingProgram(f"{what} cannot be built: {done.stderr[-2000:]}")
