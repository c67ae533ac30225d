"""The first page: is everything well, and if not, who must do what. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge
from itertools import islice
from typing import Any

from tenantry.console.reading.orders import AGE, OrderedRows
from tenantry.console.reading.summary import MOVING, URGENT, Summary, by_urgency
from tenantry.console.views.rows import Reading
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.states import STATES, SUSPEND
from tenantry.kinds.user.spec import User

SHOWN = 20
RECENT = 10


def fleet(reading: Reading) -> dict[str, Any]:
    """The values of fleet.html."""
    lists = {kind: reading.rows(kind) for kind in reading.rights.kinds if kind != Operation.KIND}
    counts = [(kind, rows.counts) for kind, rows in lists.items()]
    return {
        "counts": [(kind, [(state, count[state]) for state in STATES], count.total()) for kind, count in counts],
        "declared_total": sum(len(rows) for kind, rows in lists.items() if kind != User.KIND),
        "urgent": _first(SHOWN, lists.values(), URGENT),
        "urgent_total": sum(rows.count(URGENT) for rows in lists.values()),
        "moving": _first(SHOWN, lists.values(), MOVING),
        "moving_total": sum(rows.count(MOVING) for rows in lists.values()),
        "suspended_total": sum(rows.counts[SUSPEND] for rows in lists.values()),
        "recent": list(islice(reading.rows(Operation.KIND).ordered(AGE, down=True), RECENT)),
    }


def _first(count: int, lists: Iterable[OrderedRows], ranks: range) -> list[Summary]:
    """The most urgent rows of all lists."""
    return list(islice(merge(*(rows.ranked(ranks) for rows in lists), key=by_urgency), count))
