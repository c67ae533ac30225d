"""The list of a kind: searched, filtered, sorted and cut into pages here, never in the browser. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from itertools import islice
from typing import Any
from urllib.parse import urlencode

import orjson

from tenantry.console.reading.orders import AGE, KEYS, NAME, URGENCY, OrderedRows
from tenantry.console.reading.rights import TYPES
from tenantry.console.reading.summary import Key, Summary, ranks_of
from tenantry.console.texts import TEXTS
from tenantry.console.views.forms import may_make
from tenantry.console.views.rows import Reading
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.states import STATES

PAGE = 50
LONGEST = 100
"""Characters of a search."""
SORTS: Mapping[str, tuple[str, bool]] = {
    "state": (URGENCY, False),
    "name": (NAME, False),
    "newest": (AGE, True),
    "oldest": (AGE, False),
}
"""Its order, and whether the greatest comes first."""


def listing(reading: Reading, kind: str, query: Mapping[str, str]) -> dict[str, Any]:
    """The values of list.html. query: of the address; what is not understood counts as absent."""
    search = query.get("q", "").strip()[:LONGEST]
    state = query.get("state", "") if query.get("state") in STATES else ""
    usual = "newest" if kind == Operation.KIND else "state"
    sort = query.get("sort", "") if query.get("sort") in SORTS else usual
    rows, words = reading.rows(kind), search.casefold().split()
    page, after = _page(rows, sort, query.get("after", ""), state, words)
    kept = {"q": search, "state": state, "sort": sort if sort != usual else ""}
    plain = {name: value for name, value in kept.items() if value}
    return {
        "kind": kind,
        "rows": page,
        "removable": kind == Environment.KIND and reading.rights.superuser,
        "makes": may_make(reading.rights, kind),
        "versioned": bool(TYPES[kind].VERSION_AT),
        "counts": [(each, rows.counts[each]) for each in STATES],
        "found": _found(rows, state, words),
        "total": len(rows),
        "search": search,
        "state": state,
        "sort": sort,
        "sorts": [(name, TEXTS[f"sort_{name}"]) for name in SORTS],
        "paged": bool(query.get("after")),
        "first": _address(kind, plain),
        "next": _address(kind, {**plain, "after": after}) if after else "",
    }


def _found(rows: OrderedRows, state: str, words: list[str]) -> int:
    """The number of rows that match."""
    if not words:
        return rows.counts[state] if state else len(rows)
    among = rows.ranked(ranks_of(state)) if state else iter(rows)
    return sum(1 for row in among if words[0] in row.search and all(word in row.search for word in words))


def _page(rows: OrderedRows, sort: str, after: str, state: str, words: list[str]) -> tuple[list[Summary], str]:
    """The matching rows after a key, and the key of the last one if there are more."""
    order, down = SORTS[sort]
    edge = _read(after)
    ordered = rows.ranked(ranks_of(state), edge) if state and order == URGENCY else rows.ordered(order, after=edge, down=down)
    found = (row for row in ordered if state in ("", row.standing.state) and all(word in row.search for word in words))
    page = list(islice(found, PAGE + 1))
    return page[:PAGE], _written(KEYS[order](page[PAGE - 1])) if len(page) > PAGE else ""


def _written(key: Key) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def _read(text: str) -> Key | None:
    """The key that an address carries; None for none, and for what nobody wrote."""
    try:
        value = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (ValueError, binascii.Error):
        return None
    match value:
        case [int() as rank, str() as word, str() as uid]:
            return rank, word, uid
    return None


def _address(kind: str, query: Mapping[str, str]) -> str:
    return f"{TYPES[kind].PLURAL}?{urlencode(query)}" if query else TYPES[kind].PLURAL
