"""P17: durable writes of the embedded store (a create and a status each), against bare sqlite3 (WAL, FULL) that commits the
same documents in the same batches for as many concurrent clients.

Prints one JSON line; `ratio` is the store's writes a second over the reference's, of the medians of interleaved repetitions.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "operator"))

from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.kinds.admission import Admission
from tenantry.model.resource import API_VERSION, SYSTEM_NAMESPACE, held_of

CLIENTS = 32
OBJECTS_EACH = 50
REPETITIONS = 7
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


async def subject(folder: Path, admission: Admission) -> tuple[float, list[dict[str, Any]]]:
    """Seconds for all clients' writes through the store, validation included, and the documents that it stored."""
    store = await SqliteStore.open(folder, admission)

    async def client(number: int) -> None:
        for turn in range(OBJECTS_EACH):
            created = await store.create(document(f"e{number}-{turn}"))
            await store.set_status(held_of(created), STATUS)

    start = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    seconds = time.perf_counter() - start
    stored, _ = await store.list("Environment")
    await store.close()
    return seconds, [dict(each) for each in stored]


class BareStore:
    """What a durable write costs at least: the clients' rows in one transaction on one thread, and nothing but that."""

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


async def reference(folder: Path, documents: list[dict[str, Any]]) -> tuple[float, float]:
    """Seconds to store the same documents: by as many clients as the store had, and by a plain loop without any."""
    bare = BareStore(folder)

    async def client(number: int) -> None:
        for turn in range(OBJECTS_EACH):
            for _ in range(2):
                await bare.write(f"e{number}-{turn}", documents[number * OBJECTS_EACH + turn])

    start = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(CLIENTS)))
    with_clients = time.perf_counter() - start
    start = time.perf_counter()
    for first in range(0, len(documents), CLIENTS):
        rows = documents[first : first + CLIENTS]
        for _ in range(2):
            bare.commit([(f"f{first + offset}", body) for offset, body in enumerate(rows)])
    without = time.perf_counter() - start
    bare.close()
    return with_clients, without


def run() -> dict[str, Any]:
    """The row of the benchmark table. `spread`: of the ratios of single repetitions.

    `loop_ratio` is against a plain loop, which has no clients to answer.
    """
    admission = Admission()
    times: list[tuple[float, float, float]] = []
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        for repetition in range(REPETITIONS + 1):
            ours, documents = asyncio.run(subject(Path(folder) / f"ours-{repetition}", admission))
            bare = asyncio.run(reference(Path(folder) / f"bare-{repetition}", documents))
            times.append((ours, *bare))
    measured = times[1:]  # the first warms up
    ours, clients, loop = (statistics.median(each) for each in zip(*measured, strict=True))
    ratios = sorted(bare / mine for mine, bare, _ in measured)
    return {
        "id": "P17",
        "ratio": round(clients / ours, 3),
        "spread": [round(ratios[0], 3), round(ratios[-1], 3)],
        "gate": GATE,
        "better": "higher",
        "writes_per_second": round(2 * CLIENTS * OBJECTS_EACH / ours),
        "loop_ratio": round(loop / ours, 3),
    }


if __name__ == "__main__":
    print(json.dumps(run()))
