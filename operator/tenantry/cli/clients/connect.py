"""The platform that a client command speaks to: a cluster, the `up` of a state folder, or its store where nothing runs."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from tenantry.adapters.store.state_files import DATABASE_FILE
from tenantry.cli.arguments.choosing import CLUSTER, ClusterChoice
from tenantry.cli.clients.remote import RemoteConsole
from tenantry.cli.clients.sockets import answers, control_path
from tenantry.cli.output.failing import BAD_INPUT, Failure
from tenantry.hosts.console.protocol import Console

PATIENCE_S = 10.0
"""Seconds that a starting or stopping platform may hold the folder without answering."""
PAUSE_S = 0.05
T = TypeVar("T")


def with_console(state: Path, work: Callable[[Console], Awaitable[T]], *, fresh: bool = False, made: bool = False) -> T:
    """Runs a client command's work against the platform of that state folder. Where there is none: an empty one will do for
    `fresh`, and it becomes one for `made`.

    Raises Failure, Halt.
    """

    choice = CLUSTER.get()
    if choice is not None:
        return asyncio.run(_on_cluster(choice, work))

    async def run(folder: Path) -> T:
        async with connected(folder) as console:
            return await work(console)

    if made or (state / DATABASE_FILE).exists():
        return asyncio.run(run(state))
    if state.exists() and not state.is_dir():
        raise Failure(f"--state {state}: is not a folder", BAD_INPUT)
    if not fresh:
        raise Failure(f"there is no platform in {state}; start one with `tenantry up SOURCE`, or name its folder with --state")
    with tempfile.TemporaryDirectory(prefix="tenantry-") as folder:
        return asyncio.run(run(Path(folder)))


async def _on_cluster(choice: ClusterChoice, work: Callable[[Console], Awaitable[T]]) -> T:
    from tenantry.cli.clients.clusters import cluster_console

    async with cluster_console(choice) as console:
        return await work(console)


@asynccontextmanager
async def connected(state: Path) -> AsyncIterator[Console]:
    """A console of the platform of that state folder. Raises Halt when it cannot be opened."""
    deadline = time.monotonic() + PATIENCE_S
    while not answers(control_path(state)):
        # What opens a platform takes a second to import: only where nothing runs.
        from tenantry.adapters.store.state_folder import StateInUse
        from tenantry.cli.clients.opening import opened

        try:
            async with opened(state) as console:
                yield console
                return
        except StateInUse:
            if time.monotonic() >= deadline:
                raise
        await asyncio.sleep(PAUSE_S)
    remote = RemoteConsole.at(control_path(state))
    try:
        yield remote
    finally:
        await remote.close()
