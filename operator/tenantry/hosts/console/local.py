"""Console over the parts of a platform of this process."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from tenantry.hosts.console.protocol import STRICT, About, Approved, KeptReport, PlanReport, SourceReport
from tenantry.hosts.standalone import listed
from tenantry.kinds.environment.orphaned import HeldEngine, without_environment
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.operation.spec import Operation
from tenantry.model.facts import Applied, BackupFacts, EngineRef, PackageFacts, Trust
from tenantry.model.resource import (
    RECONCILE_REQUESTED,
    REQUESTED_BY,
    SOURCE,
    Document,
    Ref,
    declared_at,
    format_time,
    held_of,
    ref_of,
)
from tenantry.model.verdicts import Conflict, Forbidden, NotFound
from tenantry.ports import Event, Feed, OperationLogs, Packages, Store
from tenantry.runtime.following.feed import SourceFeed
from tenantry.runtime.planning.planned import Planned
from tenantry.runtime.reconcile.applied import born, but_version, check_current, over
from tenantry.runtime.sources.pruning import Kept
from tenantry.runtime.undeleting import Archives, Undelete

OPERATOR = "admin"
"""On whose behalf a console's writes are recorded: the bootstrap SUPERUSER."""
ATTEMPTS = 8
T = TypeVar("T")


Plans = Callable[[str, str], Awaitable[Planned]]
"""Plans a source, as it is written, under a name."""
Applies = Callable[[Approved], Awaitable[Iterable[Kept]]]
"""Carry out a plan; see Console.apply_plan."""
Tokens = Callable[[str, timedelta], Awaitable[str]]
"""Issues a token: username, how long it holds. Raises NotFound."""


Holds = Callable[[], Awaitable[Sequence[HeldEngine]]]
"""The engines that the host holds. The one port by which they are counted on each host."""


async def _holds_none() -> Sequence[HeldEngine]:
    return ()


async def _applies_nothing(plan: Approved) -> Iterable[Kept]:
    raise NotFound("saved plans are applied to a state folder; on a cluster, merge the change that was planned")


@dataclass
class LocalConsole:
    """Console over the parts of a platform of this process. `store` keeps the platform's cache abreast."""

    facts: About
    store: Store
    feed: Feed
    packages: Packages
    logs: OperationLogs
    plans: Plans
    tokens: Tokens
    follows: SourceFeed | None = None
    acts_for: str = OPERATOR
    """On whose behalf its writes are recorded; `""`: the store knows who writes."""
    archives: Archives[Any] | None = None
    """The backups of the host that its engines run on."""
    applies: Applies = _applies_nothing
    faults: Callable[[], tuple[str, ...]] = tuple
    """Background work that has failed and not recovered yet."""
    holds: Holds = _holds_none

    def __post_init__(self) -> None:
        self._undelete = Undelete(self._host_backups, self.list, self.get, self._create, self.patch) if self.archives else None

    async def about(self) -> About:
        return replace(self.facts, faults=self.faults())

    async def list(self, kind: str) -> Sequence[Document]:
        documents, _ = await listed(self.feed, kind)
        return sorted(documents, key=lambda document: ref_of(document)[1:])

    async def orphans(self) -> Sequence[HeldEngine]:
        held = await self.holds()  # first: an engine that is made now has its Environment already
        return without_environment(held, await self.list(Environment.KIND))

    async def get(self, ref: Ref) -> Document:
        return await self.store.get(ref)

    async def watch(self, kind: str) -> AsyncIterator[Event]:
        documents, version = await listed(self.feed, kind)
        events = aiter(self.feed.watch(kind, version))
        # Begun before the list is read, which may take its reader long: the changes of that time are kept.
        coming = asyncio.ensure_future(anext(events))
        coming.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            for document in sorted(documents, key=lambda document: ref_of(document)[1:]):
                yield Event.of("ADDED", document)
            yield await coming
            async for event in events:
                yield event
        finally:
            coming.cancel()

    async def apply(self, document: Document) -> Applied:
        return await _until_settled(lambda: self._apply(document))

    async def _apply(self, document: Document) -> Applied:
        ref = ref_of(document)
        try:
            current = await self.store.get(ref)
        except NotFound:
            await self.store.create(born(document, self._marks))
            return Applied(ref, "created")
        _check_free(current, "change it")
        check_current(document, current)
        written = await self.store.replace(over(document, current, self._marks), current["metadata"]["resourceVersion"])
        # By what is declared: a server may make a version of a write that changes nothing.
        changed = but_version(written) != but_version(current)
        return Applied(ref, "changed" if changed else "unchanged")

    async def patch(self, ref: Ref, patch: Document) -> Document:
        return await _until_settled(lambda: self._patch(ref, patch))

    async def _patch(self, ref: Ref, patch: Document) -> Document:
        current = await self.store.get(ref)
        document = _patched(current, {key: patch[key] for key in ("metadata", "spec", "data") if key in patch})
        return await self.store.replace(document, current["metadata"]["resourceVersion"])

    async def delete(self, ref: Ref) -> Document:
        return await _until_settled(lambda: self._delete(ref))

    async def _delete(self, ref: Ref) -> Document:
        current = await self.store.get(ref)
        _check_free(current, "remove it")
        if self._marks and not current["metadata"].get("deletionTimestamp"):
            marked = _patched(current, {"metadata": {"annotations": self._marks}})
            current = await self.store.replace(marked, current["metadata"]["resourceVersion"])
        return await self.store.delete(held_of(current)._replace(version=""))

    async def log(self, operation: str) -> str:
        document = await self.store.get(Operation.named(operation))
        whole = await self.logs.read(operation)
        return whole if whole is not None else str(document.get("status", {}).get("logs", ""))

    async def source(self) -> SourceReport:
        feed = self._followed()
        last, revision = feed.last, feed.tree.revision
        return SourceReport(
            self.facts.source,
            tuple(map(str, last.problems)),
            _kept_back(last.kept),
            tuple(
                (str(wait.ref), wait.reason)
                for wait in last.waiting
                if not wait.namespace or wait.namespace in feed.syncer.waits_for
            ),
            feed.location,
            len(feed.tree.documents),
            format_time(feed.synced) if feed.synced else "",
            revision.commit if revision else "",
            feed.tree.away,
            tuple(f"{each.place}: {each.ref}" for each in feed.tree.exposed),
            feed.tree.passed_over,
        )

    async def sync(self, source: str) -> SourceReport:
        await self._followed(source).sync()
        return await self.source()

    async def plan(self, source: str, name: str) -> PlanReport:
        # In a thread: it may have thousands of steps.
        return await asyncio.to_thread(_plan_report, await self.plans(source, name))

    async def apply_plan(self, plan: Approved) -> Sequence[KeptReport]:
        return _kept_back(await self.applies(plan))

    async def approve(self, source: str) -> Sequence[str]:
        feed = self._followed(source)
        approved = feed.syncer.approve()
        if approved:
            await feed.sync()
        return [str(kept.held.ref) for kept in approved]

    async def put_package(self, tenant: str, package: Path) -> PackageFacts:
        facts = await self.packages.put(tenant, package)
        for document in await self.list("Package"):
            if document["spec"].get("sha256") == facts.sha256:
                asked = {"metadata": {"annotations": {RECONCILE_REQUESTED: format_time(datetime.now(UTC))}}}
                await self.patch(ref_of(document), asked)
        return facts

    async def find_package(self, tenant: str, sha256: str) -> PackageFacts | None:
        return await self.packages.inspect(tenant, sha256)

    async def copy_package(self, tenant: str, sha256: str, target: str) -> None:
        await asyncio.to_thread(shutil.copyfile, await self.packages.fetch(tenant, sha256), target)

    async def backup(self, environment: Ref, target: str, recipients: Sequence[str] = ()) -> BackupFacts:
        document = await self.store.get(environment)
        id_ = document["spec"].get("id") or document["metadata"]["uid"]
        ref = EngineRef(environment.namespace, environment.name, id_)
        return await self._host_backups.write(ref, Path(target), recipients)

    async def backups(self) -> Sequence[BackupFacts]:
        return await self._host_backups.kept()

    async def restore(self, archive: str, namespace: str, name: str, trust: Trust = STRICT) -> Sequence[Applied]:
        if self._undelete is None:
            raise _no_backups()
        return await self._undelete.restore(archive, namespace, name, trust)

    async def token(self, username: str, ttl: timedelta) -> str:
        return await self.tokens(username, ttl)

    async def _create(self, document: Document) -> None:
        await self.store.create(born(document, self._marks))

    @property
    def _host_backups(self) -> Archives[Any]:
        if self.archives is None:
            raise _no_backups()
        return self.archives

    @property
    def _marks(self) -> dict[str, str]:
        return {REQUESTED_BY: self.acts_for} if self.acts_for else {}

    def _followed(self, source: str = "") -> SourceFeed:
        if self.follows is None:
            raise NotFound("no source is followed here: nothing runs on this state folder; start `tenantry up SOURCE`")
        if source not in ("", self.facts.source):
            raise NotFound(f"no source {source} is followed here; {self.facts.source} is")
        return self.follows


def _no_backups() -> NotFound:
    return NotFound("backups are of the engines of one machine: on a cluster, use its volumes' snapshots")


async def _until_settled(attempt: Callable[[], Awaitable[T]]) -> T:
    """Tries again when somebody else wrote the object in between, as the runtime does all the time."""
    for _ in range(ATTEMPTS - 1):
        try:
            return await attempt()
        except Conflict:
            continue
    return await attempt()


def _plan_report(planned: Planned) -> PlanReport:
    body = planned.to_json()
    verdicts = tuple((each["object"], each["reason"], each["message"]) for each in body["verdicts"])
    kept, steps = _kept_back(planned.kept), planned.steps
    return PlanReport(tuple(body["changes"]), verdicts, body["digest"], planned.problems, kept, steps, planned.passed_over)


def _kept_back(kept: Iterable[Kept]) -> tuple[KeptReport, ...]:
    return tuple(KeptReport(str(each.held.ref), each.reason, each.approvable) for each in kept)


def _patched(value: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """RFC 7396."""
    merged = dict(value)
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        elif isinstance(change, Mapping):
            held = merged.get(key)
            merged[key] = _patched(held if isinstance(held, Mapping) else {}, change)
        else:
            merged[key] = change
    return merged


def _check_free(document: Document, verb: str) -> None:
    """Raises Forbidden for what a source declares: its next sync would undo the change."""
    source = document["metadata"].get("labels", {}).get(SOURCE)
    if source:
        place = declared_at(document) or "its files"
        raise Forbidden(f"{ref_of(document)} is declared by the source {source} at {place}: {verb} there")
