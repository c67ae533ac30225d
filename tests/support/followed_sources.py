"""Sources that a host follows, over scripted remotes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from tenantry.adapters.sources.repositories import OpenedRepository
from tenantry.model.resource import Ref
from tenantry.model.syncing import SyncOrder
from tenantry.model.tree import Tree
from tenantry.runtime.cache import Cache
from tenantry.runtime.following.following import SourceFollowing
from tenantry.runtime.reconcile.writing_store import WritingStore
from tests.support.patience import DEADLINE_S

SOURCE = Ref("Source", "tenantry-system", "platform")
TIP = "4f0c2b9d1e7700000000000000000000000000aa"


@dataclass
class Remotes:
    """runtime.following.Repositories. reads: what each read does; the last one again and again."""

    reads: list[Callable[[], Any]] = field(default_factory=list)
    opened: int = 0
    under_way: int = 0
    most: int = 0
    discarded: list[str] = field(default_factory=list)
    begun: asyncio.Queue[None] = field(default_factory=asyncio.Queue)
    declarations: Any = None

    async def open(self, order: SyncOrder) -> OpenedRepository:
        self.opened += 1
        return OpenedRepository(self._read, self._changes, self._applied, self.declarations, self._history)

    async def discard(self, uid: str) -> None:
        self.discarded.append(uid)

    async def _read(self) -> Tree:
        read = self.reads.pop(0) if len(self.reads) > 1 else self.reads[0]
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.begun.put_nowait(None)
        try:
            answer = read()
            tree: Tree = await answer if inspect.isawaitable(answer) else answer
            return tree
        finally:
            self.under_way -= 1

    async def _changes(self) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield

    async def _applied(self, tree: Tree) -> None:
        return

    async def _history(self, tree: Tree) -> tuple[str, ...]:
        return ()


@dataclass
class Kit:
    """A following whose news are counted."""

    following: SourceFollowing
    remotes: Remotes
    cache: Cache
    store: WritingStore
    news: asyncio.Queue[Ref]

    async def told(self) -> Any:
        async with asyncio.timeout(DEADLINE_S):
            return self.following.look(await self.news.get(), "u1")


def order(name: str = "platform", **other: Any) -> SyncOrder:
    plain: dict[str, Any] = {"uid": "u1", "url": "https://h.example/r", "revision": "", "path": "", "interval_s": 60.0}
    return SyncOrder(SOURCE._replace(name=name), **(plain | other))
