"""The programs that the benchmarks of rows need: wrk, and PocketBase, built once from its pinned Go module."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.built_programs import MissingProgram, built_once, fingerprint, go_build

MODULE = Path(__file__).parent / "pocketbase"


def wrk() -> str:
    """The load generator. Raises MissingProgram."""
    found = shutil.which("wrk")
    if found is None:
        raise MissingProgram("there is no wrk: apt-get install wrk")
    return found


def pocketbase() -> Path:
    """PocketBase's program; builds it when it must (a minute or two the first time). Raises MissingProgram."""
    return built_once(
        "pocketbase",
        fingerprint(sorted(MODULE.iterdir())),
        lambda out: go_build(MODULE, out, ".", what="PocketBase"),
        "there is no Go to build PocketBase with, so nothing is compared with it",
    )
