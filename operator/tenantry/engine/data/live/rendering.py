"""Changes as server-sent events, with the rows as they are now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
import sqlalchemy as sa

from tenantry.engine.data.exposure import Exposed
from tenantry.engine.data.live.log import Change, Epoch, id_of
from tenantry.engine.data.reading.encoding import decoders
from tenantry.engine.data.values import from_json, row_json

LARGEST_ROW = 64 << 10
"""Bytes of a row that an event holds; without it the client reads the row by its key."""
_NAMES = {"i": "insert", "u": "update", "d": "delete"}
_KEYS = 100
"""Rows that one query looks for."""


@dataclass(frozen=True)
class RowEvent:
    """One event as it is sent. seq: its position in the log."""

    seq: int
    data: bytes


def events(connection: sa.Connection, epoch: Epoch, changes: Sequence[Change]) -> list[RowEvent]:
    """The events of one table's changes."""
    exposed = epoch.exposed
    read = decoders(exposed, [exposed.columns[name] for name in exposed.key], connection.dialect)
    keys = [_key(change, read) for change in changes]
    wanted = {orjson.dumps(key): key for change, key in zip(changes, keys, strict=True) if change.op != "d"}
    rows = _rows(connection, exposed, list(wanted.values()))
    made = []
    for change, key in zip(changes, keys, strict=True):
        row = rows.get(orjson.dumps(key), b"null") if change.op != "d" else b""
        shown = orjson.dumps(dict(zip(exposed.key, key, strict=True)))
        data = b'{"key":' + shown + (b',"row":' + row if row and len(row) <= LARGEST_ROW else b"") + b"}"
        made.append(RowEvent(change.seq, event(_NAMES[change.op], data, id_of(epoch.id, change.seq))))
    return made


def event(name: str, data: bytes, id_: str = "") -> bytes:
    """A server-sent event. data: JSON without line ends."""
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {name}\n".encode() + b"data: " + data + b"\n\n"


def heartbeat(id_: str) -> bytes:
    """An event without data: a client keeps its id, and calls nobody."""
    return f": \nid: {id_}\n\n".encode()


def _key(change: Change, readers: Sequence[Any]) -> list[Any]:
    """The parts of the key, as JSON shows them."""
    values = [value for chunk in orjson.loads(change.key) for value in chunk]
    return [value if value is None or read is None else read(value) for read, value in zip(readers, values, strict=True)]


def _rows(connection: sa.Connection, exposed: Exposed, keys: Sequence[list[Any]]) -> dict[bytes, bytes]:
    """The rows with those keys, as JSON, by their keys as JSON."""
    found: dict[bytes, bytes] = {}
    for start in range(0, len(keys), _KEYS):
        query = sa.select(*exposed.table.c).where(_among(exposed, keys[start : start + _KEYS]))
        for row in connection.execute(query).mappings():
            shown = row_json(exposed.columns, row)
            found[orjson.dumps([shown[name] for name in exposed.key])] = orjson.dumps(shown)
    return found


def _among(exposed: Exposed, keys: Iterable[list[Any]]) -> sa.ColumnElement[bool]:
    values = [[from_json(exposed.columns[name], part, name) for name, part in zip(exposed.key, key, strict=True)] for key in keys]
    columns = [exposed.table.c[name] for name in exposed.key]
    if len(columns) == 1:
        return columns[0].in_([value for (value,) in values])
    return sa.or_(*(sa.and_(*(column == part for column, part in zip(columns, key, strict=True))) for key in values))
