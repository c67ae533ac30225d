"""Kubernetes Events: the part of `kubectl describe` about an object's way to Ready.

An Event is a service to people, not a record: it may be left out, and never delays a reconcile. Operations are the record.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import structlog

from tenantry.adapters.kubernetes.client.http import MERGE_PATCH, Client
from tenantry.adapters.kubernetes.client.objects import path_of
from tenantry.model.resource import API_VERSION, Document
from tenantry.model.sharding.shards import Owns, owns_all
from tenantry.model.verdicts import AlreadyExists, Halt, NotFound
from tenantry.runtime.cache import Cache, Seen

COMPONENT = "tenantry-operator"
BURST = 20
PER_SECOND = 1.0
"""Of one namespace: a tenant whose objects flap neither fills the cluster nor takes others' turn."""
WAITING = 1000
"""Events that wait to be posted; what comes on top is left out."""
KEPT = 4096
MESSAGE = 1024
"""The API server's own bound on a message."""
CLUSTER_SCOPED_IN = "default"

log = structlog.get_logger(__name__)


class Transition(NamedTuple):
    """Ready has another status or reason than before. severity: `Normal`, or `Warning` where a person must act."""

    document: Document
    severity: str
    reason: str
    message: str

    @property
    def namespace(self) -> str:
        """Return the namespace of its Event."""
        return self.document["metadata"].get("namespace") or CLUSTER_SCOPED_IN

    @property
    def name(self) -> str:
        """The same for the same thing said of the same object, whoever says it."""
        metadata = self.document["metadata"]
        said = "\0".join((metadata["uid"], self.severity, self.reason, self.message))
        return f"{metadata['name']}.{hashlib.sha256(said.encode()).hexdigest()[:16]}"


def transition(before: Document, after: Document) -> Transition | None:
    """Return the transition to report, or None."""
    was, now = _condition(before, "Ready"), _condition(after, "Ready")
    if now is None or (was is not None and (was["status"], was["reason"]) == (now["status"], now["reason"])):
        return None
    severity = "Warning" if _condition(after, "Stalled") else "Normal"
    message = now.get("message") or ("Ready" if now["status"] == "True" else "")
    return Transition(after, severity, now["reason"], message[:MESSAGE])


def _condition(document: Document, type_: str) -> dict[str, Any] | None:
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == type_), None)


@dataclass
class Bucket:
    """A token bucket: `burst` at once, then so many a second. time: monotonic, in seconds."""

    time: Callable[[], float]
    burst: float = BURST
    per_second: float = PER_SECOND

    def __post_init__(self) -> None:
        self._tokens, self._filled = self.burst, self.time()

    def take(self) -> bool:
        """Takes a token, if there is one."""
        now = self.time()
        self._tokens = min(self.burst, self._tokens + (now - self._filled) * self.per_second)
        self._filled = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class Recorder:
    """Post the transitions of the cache while this process leads.

    pod: the reporting pod; time: monotonic, in seconds; now: in UTC; owns: whose transitions are this process's to post.
    """

    def __init__(
        self,
        client: Client,
        cache: Cache,
        pod: str,
        *,
        time: Callable[[], float],
        now: Callable[[], datetime],
        owns: Owns = owns_all,
    ) -> None:
        self._owns = owns
        self._client = client
        self._cache = cache
        self._pod = pod
        self._time = time
        self._now = now
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()
        self._waiting: asyncio.Queue[Transition] = asyncio.Queue(WAITING)

    async def run(self) -> None:
        """Post until cancelled. A failed post is only logged."""
        unlisten = self._cache.listen(self.seen)
        try:
            while True:
                told = await self._waiting.get()
                try:
                    await self._post(told)
                except Halt as halt:
                    log.warning("event not posted", object=told.name, reason=told.reason, error=str(halt))
        finally:
            unlisten()

    def seen(self, seen: Seen) -> None:
        """Takes a change of the cache in. Its own writes the leader may see by its watch before their answer comes."""
        if seen.before is None or seen.after is None or not seen.matters or not self._owns(seen.ref):
            return
        told = transition(seen.before.document(), seen.after.document())
        if told is not None and not self._waiting.full() and self._bucket(told.namespace).take():
            self._waiting.put_nowait(told)

    def _bucket(self, namespace: str) -> Bucket:
        bucket = self._buckets.setdefault(namespace, Bucket(self._time))
        self._buckets.move_to_end(namespace)
        if len(self._buckets) > KEPT:
            self._buckets.popitem(last=False)
        return bucket

    async def _post(self, told: Transition) -> None:
        """Create the Event, or count one more if it was posted within the hour for which the server keeps it."""
        collection = path_of("v1", "Event", told.namespace)
        try:
            await self._client.request("POST", collection, body=self._event(told))
        except AlreadyExists:
            await self._count(f"{collection}/{told.name}", told)
        except NotFound:
            return  # the namespace is gone, and with it the readers of its events

    async def _count(self, path: str, told: Transition) -> None:
        found = await self._client.request("GET", path)
        more = {"count": int(found.get("count") or 1) + 1, "lastTimestamp": self._time_now()}
        await self._client.request("PATCH", path, body=more, content_type=MERGE_PATCH)

    def _event(self, told: Transition) -> dict[str, Any]:
        metadata, now = told.document["metadata"], self._time_now()
        about = {
            "apiVersion": API_VERSION,
            "kind": told.document["kind"],
            "name": metadata["name"],
            "namespace": metadata.get("namespace", ""),
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": told.name, "namespace": told.namespace},
            "involvedObject": about,
            "type": told.severity,
            "reason": told.reason,
            "message": told.message,
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._pod,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    def _time_now(self) -> str:
        """Events know whole seconds."""
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
