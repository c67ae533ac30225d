"""Leader election by a coordination.k8s.io Lease: one holder at a time, whatever the clocks of the machines say.

A holder that is seen not to renew for LASTS_S of one's own monotonic time is gone; one that could not renew for RENEWS_WITHIN_S
gives up before others can think so.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from tenantry.adapters.kubernetes.client.http import Client
from tenantry.model.verdicts import AlreadyExists, Conflict, Halt, NotFound, Transient

LASTS_S = 15.0
RENEWS_WITHIN_S = 10.0
EVERY_S = 2.0

log = structlog.get_logger(__name__)


class LeaseLost(Exception):  # noqa: N818 - what happened, not what went wrong
    """Another may act now: this process must not."""


class StoredLease:
    """The Lease on the API server, as one candidate sees it."""

    def __init__(self, client: Client, namespace: str, name: str, holder: str, clock: Callable[[], float]) -> None:
        """clock: monotonic, in seconds."""
        self._client = client
        self._clock = clock
        self.namespace = namespace
        self.name = name
        self._holder = holder
        self._seen: tuple[str, float] = ("", 0.0)
        self._renewed_at = -math.inf

    def check(self) -> None:
        """Raise a Transient Halt (LeaseNotRenewed) if another process may act now, by this one's own clock.

        A process that was stopped goes on at the line where it was, before it knows of any time that went by.
        """
        if self._clock() - self._renewed_at >= RENEWS_WITHIN_S:
            told = f"this replica of the operator has not renewed its lease for {RENEWS_WITHIN_S:.0f} s: another one may act"
            raise Halt(Transient("LeaseNotRenewed", told))

    async def _until(self, attempt: Callable[[], Awaitable[bool]]) -> None:
        """Returns once the attempt succeeds. Others may be faster, and the API server may be away."""
        while not await self._tried(attempt):  # noqa: ASYNC110 - it is another process that lets it go
            await asyncio.sleep(jittered(EVERY_S))

    @staticmethod
    async def _tried(attempt: Callable[[], Awaitable[bool]]) -> bool:
        try:
            return await attempt()
        except (AlreadyExists, Conflict):
            return False
        except Halt as halt:
            log.warning("lease not reached", error=str(halt))
            return False

    def _is_free(self, found: dict[str, Any]) -> bool:
        """Nobody's, ours, or of a holder who has not renewed it in all the time that we have watched."""
        version, since = self._seen
        now = self._clock()
        if version != found["metadata"]["resourceVersion"]:
            self._seen = (found["metadata"]["resourceVersion"], now)
            since = now
        return holder_of(found) in ("", self._holder) or now - since >= LASTS_S

    @property
    def _collection(self) -> str:
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"

    async def _get(self) -> dict[str, Any]:
        return await self._client.request("GET", f"{self._collection}/{self.name}")

    async def _create(self, body: dict[str, Any]) -> None:
        await self._client.request("POST", self._collection, body=body)

    async def _replace(self, body: dict[str, Any]) -> None:
        """Raises Conflict if another one was faster."""
        await self._client.request("PUT", f"{self._collection}/{self.name}", body=body)


class Lease(StoredLease):
    """One candidate's view of the lease. held: it holds the lease, by its own knowledge."""

    def __init__(
        self, client: Client, namespace: str, name: str, holder: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(client, namespace, name, holder, clock)
        self.held = False

    async def acquire(self) -> None:
        """Returns once this candidate holds the lease."""
        await self._until(self._taken)
        self.held = True

    async def keep(self) -> None:
        """Renews without end. Raises LeaseLost."""
        try:
            await self._keep()
        finally:
            self.held = False

    async def _keep(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            try:
                async with asyncio.timeout(max(0.1, self._renewed_at + RENEWS_WITHIN_S - self._clock())):
                    if await self._renewed():
                        continue
            except TimeoutError:
                raise LeaseLost(f"the lease could not be renewed for {RENEWS_WITHIN_S:.0f} s") from None
            raise LeaseLost("another process holds the lease")

    async def release(self) -> None:
        """Lets the next candidate have it at once, where this one holds it."""
        try:
            found = await self._get()
            if found["spec"].get("holderIdentity") == self._holder:
                await self._put(found, {**found["spec"], "holderIdentity": "", "leaseDurationSeconds": 1})
        except Halt as halt:
            log.warning("lease not released", error=str(halt))

    async def _taken(self) -> bool:
        """Return True if the lease is ours now. Raises AlreadyExists, Conflict, Halt."""
        sent = self._clock()
        try:
            found = await self._get()
        except NotFound:
            await self._create(self._body(self._spec(0)))
            self._renewed_at = sent
            return True
        spec = found.get("spec") or {}
        if not self._is_free(found):
            return False
        await self._put(found, self._spec(int(spec.get("leaseTransitions") or 0) + 1))
        self._renewed_at = sent
        return True

    async def _renewed(self) -> bool:
        """Return True if the lease is still ours; waits through outages."""
        while True:
            sent = self._clock()  # others count from before the answer, which may be late
            try:
                found = await self._get()
                spec = found.get("spec") or {}
                if spec.get("holderIdentity") != self._holder:
                    return False
                await self._put(found, {**spec, "renewTime": now_text()})
                self._renewed_at = sent
            except NotFound:
                return False
            except Halt as halt:
                log.warning("lease not renewed", error=str(halt))
                await asyncio.sleep(EVERY_S / 4)
                continue
            return True

    async def _put(self, found: dict[str, Any], spec: dict[str, Any]) -> None:
        body = self._body(spec)
        body["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"]
        await self._replace(body)

    def _spec(self, transitions: int) -> dict[str, Any]:
        return {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": int(LASTS_S),
            "leaseTransitions": transitions,
            "acquireTime": now_text(),
            "renewTime": now_text(),
        }

    def _body(self, spec: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": self.name, "namespace": self.namespace}
        return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def holder_of(found: dict[str, Any]) -> str:
    """Return the holder that a Lease names, `""` for none."""
    return (found.get("spec") or {}).get("holderIdentity") or ""


def jittered(seconds: float) -> float:
    """Return about so many seconds, so that candidates do not ask at the same moments."""
    return seconds * random.uniform(0.8, 1.2)  # noqa: S311 - jitter, not a secret


def now_text() -> str:
    """Return the time as a Lease has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
