"""The search over names, slugs and ids of every kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import merge
from itertools import islice
from typing import Any

from tenantry.console.reading.summary import by_urgency
from tenantry.console.views.lists import LONGEST
from tenantry.console.views.rows import Reading
from tenantry.kinds.operation.spec import Operation

SHOWN = 50
OPERATION = "op-"
"""The beginning of every Operation's id. Other words do not search Operations, of which there are the most."""


def found(reading: Reading, query: Mapping[str, str]) -> dict[str, Any]:
    """The values of search.html."""
    search = query.get("q", "").strip()[:LONGEST]
    words = search.casefold().split()
    kinds = [kind for kind in reading.rights.kinds if (kind == Operation.KIND) == search.startswith(OPERATION)]
    lists = [
        (row for row in reading.rows(kind).ranked() if words and all(word in row.search for word in words)) for kind in kinds
    ]
    rows = list(islice(merge(*lists, key=by_urgency), SHOWN + 1))
    return {"search": search, "rows": rows[:SHOWN], "more": len(rows) > SHOWN}
