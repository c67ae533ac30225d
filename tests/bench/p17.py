"""P17: durable writes of the embedded store (a create and a status each), against bare sqlite3 (WAL, FULL) that commits the
same documents in the same batches for as many concurrent clients.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.kinds.admission import Admission
from tenantry.model.resource import API_VERSION, SYSTEM_NAMESPACE, held_of
from tests.bench.row import Row, Scale, Took, interleaved, row, stopwatch

CLIENTS = 32
OBJECTS_EACH = 50
GATE = 0.4
STATUS = {
    "observedGeneration": 1,
    "phase": "READY",
    "slug": "dev",
    "url": "http://127.0.0.1:8080/e/acme/dev",
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Succeeded",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-11-21T10:00:00Z",
        }
    ],
}


def document(name: str) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "Environment",
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {"team": "a"}},
        "spec": {"region": "home", "slug": name, "displayName": f"Environment {name}", "engine": {"size": "small"}},
    }


async def subject(folder: Path, admission: Admission, each: int) -> tuple[Took, list[dict[str, Any]]]:
    """The time of all clients' writes through the store, validation included, and the documents that it stored."""
    store = await SqliteStore.open(folder, admission)

    async def client(number: int) -> None:
        for turn in range(each):
            created = await store.create(document(f"e{number}-{turn}"))
            await store.set_status(held_of(created), STATUS)

    with stopwatch() as took:
        await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    stored, _ = await store.list("Environment")
    await store.close()
    return took, [dict(document) for document in stored]


class BareStore:
    """The least cost of a durable write: the clients' rows in one transaction on one thread, and nothing else."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._connection = sqlite3.connect(folder / "bare.db", isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute("CREATE TABLE objects (name TEXT PRIMARY KEY, body BLOB NOT NULL)")
        self._waiting: list[tuple[str, dict[str, Any], asyncio.Future[None]]] = []

    async def write(self, name: str, body: dict[str, Any]) -> None:
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append((name, body, answer))
        if len(self._waiting) == CLIENTS:
            batch, self._waiting = self._waiting, []
            await asyncio.to_thread(self.commit, [(name, body) for name, body, _ in batch])
            for _, _, each in batch:
                each.set_result(None)
        await answer

    def commit(self, rows: list[tuple[str, dict[str, Any]]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for name, body in rows:
            self._connection.execute("INSERT OR REPLACE INTO objects VALUES (?, ?)", (name, json.dumps(body)))
        self._connection.execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


async def reference(folder: Path, documents: Sequence[dict[str, Any]]) -> Took:
    """The time to store the same documents twice, by as many clients as the store had."""
    bare = BareStore(folder)
    each = len(documents) // CLIENTS

    async def client(number: int) -> None:
        for turn in range(each):
            for _ in range(2):
                await bare.write(f"e{number}-{turn}", documents[number * each + turn])

    with stopwatch() as took:
        await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    bare.close()
    return took


def measure(scale: Scale) -> Sequence[Row]:
    admission = Admission()
    numbers = itertools.count()
    each = scale.of(OBJECTS_EACH)
    _, documents = asyncio.run(subject(scale.folder / "documents", admission, each))

    def ours() -> Took:
        return asyncio.run(subject(scale.folder / f"store-{next(numbers)}", admission, each))[0]

    def theirs() -> Took:
        return asyncio.run(reference(scale.folder / f"bare-{next(numbers)}", documents))

    times = interleaved(ours, theirs, scale.repetitions)
    writes = 2 * CLIENTS * each
    work = f"embedded store: {writes:,} durable writes, {CLIENTS} clients"
    return (row("P17", work, "bare sqlite3, WAL, FULL, the same batches", times, "higher", GATE, unit="writes/s", amount=writes),)
