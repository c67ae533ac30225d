"""Leases as an API server keeps them, in virtual time: answers take a while, get lost, and come from one place alone."""

from __future__ import annotations

import asyncio
import random
from copy import deepcopy
from typing import Any

from tenantry.model.verdicts import AlreadyExists, Conflict, Halt, NotFound, Transient

AWAY = Halt(Transient("Unreachable", "no answer"))
RETRIES_S = 1.0


class Leases:
    """seed: of the answers' times. slow: seconds of the longest; lossy: the share of writes whose answer is lost."""

    def __init__(self, seed: int = 0, *, slow: float = 0.05, lossy: float = 0.0) -> None:
        self._rng = random.Random(seed)
        self._slow, self.lossy = slow, lossy
        self._version = 0
        self.held: dict[str, dict[str, Any]] = {}

    async def pause(self) -> None:
        await asyncio.sleep(self._rng.uniform(0.001, self._slow))

    def lost(self) -> bool:
        return self._rng.random() < self.lossy

    def answer(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        """Carry out a request. Raises NotFound, AlreadyExists, Conflict."""
        if method == "POST":
            assert body is not None
            path = f"{path}/{body['metadata']['name']}"
            if path in self.held:
                raise AlreadyExists(path)
            return self._store(path, body)
        if path not in self.held:
            raise NotFound(path)
        if method == "PUT":
            assert body is not None
            if body["metadata"]["resourceVersion"] != self.held[path]["metadata"]["resourceVersion"]:
                raise Conflict(path)
            return self._store(path, body)
        return deepcopy(self.held[path])

    def _store(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._version += 1
        stored = deepcopy(body)
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.held[path] = stored
        return deepcopy(stored)


class LeaseClient:
    """One process's way to them. away: it reaches nothing."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.away = False

    async def request(self, method: str, path: str, *, body: dict[str, Any] | None = None) -> dict[str, Any]:
        await self._leases.pause()
        if self.away:
            await asyncio.sleep(RETRIES_S)
            raise AWAY
        answer = self._leases.answer(method, path, body)
        await self._leases.pause()
        if method != "GET" and self._leases.lost():
            raise AWAY
        return answer
