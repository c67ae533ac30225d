"""A process that writes until it is killed, and prints the name of each object once its write has been answered."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tenantry.adapters.store.sqlite import SqliteStore
from tenantry.model.resource import held_of
from tests.unit.adapters.store.documents import ADMISSION, environment, secret


async def main(folder: Path, run: str) -> None:
    store = await SqliteStore.open(folder, ADMISSION)

    async def client(number: int) -> None:
        turn = 0
        while True:
            name = f"r{run}-c{number}-{turn}"
            created = await store.create(environment(name))
            await store.set_status(held_of(created), {"observedGeneration": 1, "slug": name})
            await store.create(secret(name, name))
            sys.stdout.write(f"{name}\n")
            sys.stdout.flush()
            turn += 1

    await asyncio.gather(*(client(number) for number in range(4)))


asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
