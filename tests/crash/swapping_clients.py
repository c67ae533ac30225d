"""A process in which eight clients write and read a few objects until it is killed. It prints each call and answer."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tenantry.adapters.store import semantics
from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.model.resource import SYSTEM_NAMESPACE, Ref, held_of
from tenantry.model.verdicts import AlreadyExists, Conflict, NotFound
from tests.unit.adapters.store.documents import ADMISSION, environment

CLIENTS, KEYS = 8, 6
VERBS = ("read", "read", "create", "swap", "swap", "swap", "delete")
NO_PRECONDITION = "without the precondition"


def printed(*parts: Any) -> None:
    """Write one line at once: what is in the pipe outlives the process."""
    os.write(1, (json.dumps(parts) + "\n").encode())


def value_of(document: Mapping[str, Any]) -> str:
    """Return what the key holds: unique to each write."""
    return str(document["metadata"]["labels"]["value"])


class Client:
    """One client: it remembers what it last saw of each key, and swaps against that."""

    def __init__(self, store: SqliteStore, run: str, number: int) -> None:
        self._store = store
        self._name = f"{run}-{number}"
        self._chance = random.Random(self._name)
        self._seen: dict[str, Mapping[str, Any]] = {}
        self._count = 0

    async def run(self) -> None:
        """Act without end."""
        while True:
            self._count += 1
            key = f"k{self._chance.randrange(KEYS)}"
            verb = self._chance.choice(VERBS if key in self._seen else ("read", "create"))
            await self._act(verb, key, f"v{self._name}-{self._count}")

    async def _act(self, verb: str, key: str, value: str) -> None:
        id_, known = f"{self._name}-{self._count}", self._seen.get(key)
        expected = value_of(known) if known and verb in ("swap", "delete") else ""
        printed("called", id_, key, verb, "" if verb in ("read", "delete") else value, expected)
        done, seen = True, ""
        try:
            match verb:
                case "read":
                    self._seen[key] = await self._store.get(Ref("Environment", SYSTEM_NAMESPACE, key))
                    seen = value_of(self._seen[key])
                case "create":
                    self._seen[key] = await self._store.create(environment(key, labels={"value": value}))
                case "swap":
                    assert known is not None
                    changed = {**known, "metadata": {**known["metadata"], "labels": {"value": value}}}
                    self._seen[key] = await self._store.replace(changed, known["metadata"]["resourceVersion"])
                case "delete":
                    assert known is not None
                    await self._store.delete(held_of(known))
                    del self._seen[key]
        except (Conflict, NotFound, AlreadyExists) as refused:
            done = False
            if isinstance(refused, NotFound):
                self._seen.pop(key, None)
        printed("answered", id_, key, done, seen)


async def main(folder: Path, run: str) -> None:
    """Run all clients on one store."""
    store = await SqliteStore.open(folder, ADMISSION)
    await asyncio.gather(*(Client(store, run, number).run() for number in range(CLIENTS)))


if __name__ == "__main__":
    if NO_PRECONDITION in sys.argv:  # a control that is switched off for a test
        semantics._check_held = lambda current, held: None
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
