"""Objects for the shell's completion: from a platform that runs, within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from tenantry.model.resource import Document

LONGEST_S = 1.0
"""Seconds that a platform may take to answer the shell."""


def listed(ctx: typer.Context, kind: str) -> Sequence[Document]:
    """The objects of a kind: of the named cluster, or of the state folder's `up`. Raises TimeoutError."""
    return asyncio.run(_listed(ctx, kind))


async def _listed(ctx: typer.Context, kind: str) -> Sequence[Document]:
    from tenantry.cli.arguments.choosing import STATE, ClusterChoice

    above = ctx.find_root().params
    if above.get("context") or above.get("kubeconfig"):
        from tenantry.cli.clients.clusters import cluster_console

        async with cluster_console(ClusterChoice(above.get("kubeconfig"), above.get("context") or None)) as console:
            async with asyncio.timeout(LONGEST_S):
                return await console.list(kind)
    return await _of_folder(Path(ctx.params.get("state") or STATE), kind)


async def _of_folder(state: Path, kind: str) -> Sequence[Document]:
    from tenantry.cli.clients.sockets import answers, control_path

    if not answers(control_path(state)):  # nothing runs, and to open the store takes longer than a shell waits
        return ()
    from tenantry.cli.clients.remote import RemoteConsole

    console = RemoteConsole.at(control_path(state))
    try:
        async with asyncio.timeout(LONGEST_S):
            return await console.list(kind)
    finally:
        await console.close()
