"""The rows of an installed app, as a person looks at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ViewedTable(NamedTuple):
    """A table of an installed app. key: the columns of its primary key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


class ViewedRows(NamedTuple):
    """A page of rows. next: the mark behind which the next page begins, `""` for the last one."""

    rows: tuple[Mapping[str, object], ...]
    next: str
