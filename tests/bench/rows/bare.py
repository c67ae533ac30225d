"""A bare ASGI application: the same SQL by sqlite3 or psycopg, and orjson. No sign-in, no roles, no checks.

`python -m tests.bench.rows.bare DATABASE PORT` serves it. DATABASE: the file of a SQLite database, or a PostgreSQL URL.
"""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import orjson
import psycopg
import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

TABLE = "notes"
COLUMNS = ("id", "title", "amount")
_LISTED = f"SELECT id, title, amount, id AS _place0 FROM {TABLE} ORDER BY id LIMIT 101"
_ONE = f"SELECT id, title, amount FROM {TABLE} WHERE id = %s"
_INSERT = f"INSERT INTO {TABLE} (title, amount) VALUES (%s, %s) RETURNING id, title, amount"
KEPT = 8
"""Kept connections to a server."""

Rows = Sequence[Sequence[Any]]
Run = Callable[[str, Sequence[Any]], Awaitable[Rows]]


def on_sqlite(file: str) -> Run:
    """Statements run in the event loop: there is nothing to wait for but the disk."""
    connection = sqlite3.connect(file, isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=FULL"):
        connection.execute(f"PRAGMA {pragma}")

    async def run(query: str, values: Sequence[Any]) -> Rows:
        return connection.execute(query.replace("%s", "?"), values).fetchall()

    return run


def on_postgresql(url: str) -> Run:
    """Statements run on kept connections, which prepare them."""
    free: asyncio.Queue[psycopg.AsyncConnection[Any]] = asyncio.Queue()
    made = 0

    async def run(query: str, values: Sequence[Any]) -> Rows:
        nonlocal made
        if free.empty() and made < KEPT:
            made += 1
            await free.put(await psycopg.AsyncConnection.connect(url, autocommit=True))
        connection = await free.get()
        try:
            return await (await connection.execute(query.encode(), values)).fetchall()
        finally:
            free.put_nowait(connection)

    return run


def application(run: Run) -> ASGIApp:
    """GET / lists 100 rows, GET /KEY reads one, POST / inserts one."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        key = scope["path"].removeprefix("/")
        status = 200
        found: Any
        if scope["method"] == "POST":
            row = orjson.loads((await receive())["body"])
            status, found = 201, _shown((await run(_INSERT, list(row.values())))[0])
        elif key:
            found = _shown((await run(_ONE, [int(key)]))[0])
        else:
            found = [_shown(each) for each in (await run(_LISTED, []))[:100]]
        body = orjson.dumps(found)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def _shown(row: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(COLUMNS, row, strict=False))


if __name__ == "__main__":
    _, database, port = sys.argv
    made = application((on_postgresql if "://" in database else on_sqlite)(database))
    uvicorn.run(made, port=int(port), log_config=None, access_log=False, server_header=False, lifespan="off")
