"""Copies of databases on a server. What makes them is imported when one is made: SQLite needs no driver of PostgreSQL."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO


def dump(url: str, scratch: Path) -> Generator[str]:
    """Write one member of the copy after the other to that file, and yield its name. See engine/logical/dump.py."""
    from tenantry.engine.logical.dump import dump as dumped

    return dumped(url, scratch)


def load(url: str, member: Callable[[str], BinaryIO], mark: str) -> None:
    """Create and fill the tables of a copy. See engine/logical/load.py."""
    from tenantry.engine.logical.load import load as loaded

    loaded(url, member, mark)


def check_empty(url: str) -> None:
    """Blocks. Raises Invalid where tables of an engine are there, Halt."""
    from tenantry.engine.logical.load import check_empty as checked

    checked(url)
