"""Decide on a Package: its bytes exist and match its declaration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tenantry.kinds.package.spec import Package, PackageStatus
from tenantry.model.changes import Change, FetchPackage, RemovePackage
from tenantry.model.claims import Claim, claim_of, wins
from tenantry.model.decision import Decision
from tenantry.model.facts import PackageFacts
from tenantry.model.resource import SYSTEM_NAMESPACE, Blocker, Deletion, Ref
from tenantry.model.verdicts import Gone, Ready, Stalled, Verdict, Waiting
from tenantry.model.wording import editing

FETCH_LOOKED_AT = timedelta(seconds=30)
"""The longest time between looks at a fetch. The fetching process reports the end, unless it ended first."""


@dataclass(frozen=True)
class Observed:
    """tenant: None where the namespace is no tenant's, `""` for a shared package.

    rivals: claims of the same app and version; users: the Apps that hold it; twins: packages with the same bytes.
    """

    package: Package
    tenant: str | None
    facts: PackageFacts | None
    rivals: tuple[Claim, ...]
    users: tuple[Ref, ...]
    twins: int


def decide(seen: Observed, now: datetime) -> Decision[PackageStatus]:
    """Ready once its bytes are here, are what it says, and no other Package of the tenant is that version."""
    package = seen.package
    if package.deleting:
        return _deletion(seen, now)
    verdict = _verdict(seen, now)
    update: dict[str, object] = {"claimed": isinstance(verdict, Ready), "deletion": None}
    if seen.facts is not None:
        facts = seen.facts
        update |= {
            "name": facts.name,
            "author": facts.author,
            "size": facts.size,
            "tables": facts.tables,
            "symbols": facts.symbols,
            "roles": facts.roles,
        }
    return Decision(package.status.model_copy(update=update), verdict, changes=_fetch(seen, verdict))


def _verdict(seen: Observed, now: datetime) -> Verdict:
    spec = seen.package.spec
    if spec.shared != (seen.package.metadata.namespace == SYSTEM_NAMESPACE):
        return Stalled("Misplaced", f"spec.shared: a shared package, and no other, is in {SYSTEM_NAMESPACE}")
    if seen.tenant is None:
        return Waiting("TenantNotFound", f"namespace {seen.package.metadata.namespace} belongs to no Tenant")
    if not wins(claim_of(seen.package, seen.package.status.claimed, now), seen.rivals):
        return Stalled("Duplicate", f"another Package is {spec.app} {spec.version} already")
    if seen.facts is None and _location(seen.package):
        return Waiting("PackageFetching", "its bytes are being fetched", now + FETCH_LOOKED_AT)
    if seen.facts is None:
        whose = f" --tenant {seen.tenant}" if seen.tenant else ""
        return Stalled("PackageMissing", f"its bytes are not stored: run `tenantry package push FILE{whose}`")
    if (seen.facts.app, seen.facts.version) != (spec.app, spec.version):
        return Stalled(
            "PackageMismatch",
            f"spec: says {spec.app} {spec.version}, but the file is {seen.facts.app} {seen.facts.version}",
        )
    return Ready()


def _location(package: Package) -> str:
    """Return the location of its bytes; none without their sha256."""
    spec = package.spec
    return spec.source.location if spec.source is not None and spec.sha256 else ""


def _fetch(seen: Observed, verdict: Verdict) -> tuple[Change, ...]:
    sha256 = seen.package.spec.sha256
    if verdict.reason != "PackageFetching" or seen.tenant is None or sha256 is None:
        return ()
    return (FetchPackage(seen.package.ref, seen.tenant, sha256, _location(seen.package)),)


def _deletion(seen: Observed, now: datetime) -> Decision[PackageStatus]:
    package = seen.package
    since = package.metadata.deletion_timestamp or now
    if seen.users:
        blockers = tuple(
            Blocker(object=str(user), reason="InUse", since=since, resolve=_way_on(user)) for user in seen.users[:20]
        )
        status = package.status.model_copy(update={"deletion": Deletion(blockers=blockers)})
        return Decision(status, Waiting("InUse", f"held by {', '.join(user.name for user in seen.users[:5])}"))
    changes: tuple[Change, ...] = ()
    stored = seen.facts is not None or _location(package)  # or just about to be
    if package.spec.sha256 and stored and seen.tenant is not None and seen.twins == 0:
        changes = (RemovePackage(seen.tenant, package.spec.sha256),)
    return Decision(package.status, Gone(), changes=changes)


def _way_on(user: Ref) -> str:
    return f"install another version, or drop it from spec.keep: {editing(user)}"
