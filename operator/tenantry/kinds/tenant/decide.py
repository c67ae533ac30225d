"""Decide on a Tenant: its slug, its namespace, and at its end nothing left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import lru_cache

from tenantry.kinds.tenant.spec import BoundNamespace, Tenant, TenantStatus, UsableRegion
from tenantry.model.changes import (
    Change,
    DeleteObject,
    DeleteSecret,
    EnsureNamespace,
    ForgetPackages,
    PublishRegions,
    RemoveNamespace,
)
from tenantry.model.claims import Claim, claim_of, lost, slug_refusal
from tenantry.model.decision import Decision
from tenantry.model.facts import RegionFacts
from tenantry.model.resource import Blocker, Deletion, Held, Ref
from tenantry.model.verdicts import Gone, Ready, Stalled, Verdict, Waiting
from tenantry.model.wording import unprotecting, waiting_for


@dataclass(frozen=True)
class SeenNamespace:
    """The namespace of the wanted name. consents: it carries this tenant's label. access: the mark of who may come in."""

    name: str
    uid: str
    consents: bool
    deleting: bool = False
    access: str = ""


@dataclass(frozen=True)
class RemainingObject:
    """An object in the tenant's namespace, while the tenant is being deleted. protected: it refuses to be deleted."""

    held: Held
    deleting: bool
    protected: bool = False


@dataclass(frozen=True)
class Member:
    """A User that REST made for the tenant, while the tenant is being deleted, and the Secret of its password."""

    held: Held
    secret: Ref


@dataclass(frozen=True)
class Observed:
    """rivals: other tenants' claims of the wanted slug. namespace_owner: another Tenant that is bound to the namespace.

    protected: how many of its environments cannot be deleted. regions: those that it may use, by name.
    """

    tenant: Tenant
    rivals: tuple[Claim, ...]
    namespace: SeenNamespace | None
    namespace_owner: str
    environments: tuple[RemainingObject, ...]
    others: tuple[RemainingObject, ...]
    members: tuple[Member, ...] = ()
    protected: int = 0
    regions: tuple[RegionFacts, ...] = ()


def decide(seen: Observed, now: datetime) -> Decision[TenantStatus]:
    """Its slug, then its namespace; at its end what the namespace holds, then the namespace."""
    seen = _counted(seen)
    tenant = seen.tenant
    if tenant.deleting:
        return _deletion(seen, now)
    action = "CREATE_TENANT" if tenant.status.namespace is None else "UPDATE_TENANT"
    action = "" if tenant.ready and _whole(seen) and _bound(seen) else action
    refusal = _refusal(seen, now)
    if refusal is not None:
        return Decision(_kept(tenant, refusal), refusal, action)
    status = tenant.status.model_copy(update={"phase": "READY", "slug": tenant.wanted_slug, "deletion": None})
    namespace = seen.namespace
    ensure = EnsureNamespace(
        tenant.namespace, tenant.metadata.name, tenant.metadata.uid, tenant.spec.access.facts, exists=_ours(seen)
    )
    regions = tuple(map(_usable, seen.regions))
    publish = PublishRegions(tenant.namespace, tenant.metadata.name, seen.regions)
    # A namespace that comes in the place of another has no list, whatever the status says.
    moved = regions != tenant.status.regions or (bool(regions) and not _bound(seen))
    published: tuple[Change, ...] = (publish,) if moved else ()
    if namespace is None:
        missing = Waiting("NamespaceMissing", f"namespace {tenant.namespace}")
        return Decision(status, missing, action, changes=(ensure, *published))
    if not _whole(seen):
        # The list may be what was changed. The mark of a whole namespace comes after it.
        again = (publish,) if _ours(seen) and regions and regions == tenant.status.regions else ()
        missing = Waiting("NamespaceMissing", f"namespace {tenant.namespace}")
        return Decision(status, missing, action, changes=(*again, ensure))
    if regions != status.regions:
        status = status.model_copy(update={"regions": regions})
    if _bound(seen):
        return Decision(status, Ready(), action, changes=published)
    # Marked when it is made: whether an interrupted pass made the rest of it, too, is not seen.
    bound = status.model_copy(update={"namespace": BoundNamespace(name=namespace.name, uid=namespace.uid)})
    return Decision(status, Ready(), action, changes=(ensure, *published), done=bound)


@lru_cache(1024)
def _usable(region: RegionFacts) -> UsableRegion:
    """Cached: every tenant may use the same few."""
    return UsableRegion(**asdict(region))


def _counted(seen: Observed) -> Observed:
    """The count stands in whatever status is written: a DELETE is admitted by it."""
    if seen.tenant.status.protected_environments == seen.protected:
        return seen
    status = seen.tenant.status.model_copy(update={"protected_environments": seen.protected})
    return replace(seen, tenant=seen.tenant.model_copy(update={"status": status}))


def _ours(seen: Observed) -> bool:
    return seen.namespace is not None and seen.namespace.consents and not seen.namespace.deleting


def _whole(seen: Observed) -> bool:
    """Return True if the namespace exists and its mark shows the access that the tenant declares."""
    return _ours(seen) and seen.namespace is not None and seen.namespace.access == seen.tenant.spec.access.facts.mark


def _bound(seen: Observed) -> bool:
    """Return True if the status says that all of it was created."""
    bound = seen.tenant.status.namespace
    return bound is not None and seen.namespace is not None and bound.uid == seen.namespace.uid


def _refusal(seen: Observed, now: datetime) -> Verdict | None:
    tenant, slug = seen.tenant, seen.tenant.wanted_slug
    mine = claim_of(tenant, tenant.status.slug == slug, now)
    if refusal := slug_refusal(mine, slug, seen.rivals, "already used by another tenant"):
        return refusal
    if seen.namespace_owner:
        return Stalled("NamespaceTaken", f"namespace {tenant.namespace} belongs to tenant {seen.namespace_owner}")
    return None


def _kept(tenant: Tenant, refusal: Verdict) -> TenantStatus:
    """The status of a tenant that is refused what it wants: it keeps the slug that it has, unless that is the one it lost."""
    gives_up = lost(refusal) and tenant.status.slug == tenant.wanted_slug
    return tenant.status.model_copy(update={"slug": None}) if gives_up else tenant.status


def _deletion(seen: Observed, now: datetime) -> Decision[TenantStatus]:
    """Environments first, then what is left in the namespace, then the namespace and the tenant's users, who can follow the
    deletion so long; nothing while an environment is protected."""
    tenant = seen.tenant
    status = tenant.status.model_copy(update={"phase": "DELETING", "deletion": None})
    protected = tuple(child for child in seen.environments if child.protected and not child.deleting)
    if protected:
        return _held_by(protected, status, tenant.metadata.deletion_timestamp or now)
    for children in (seen.environments, seen.others):
        if children:
            return _wait_for(children, status, tenant.metadata.deletion_timestamp or now)
    bound, namespace = tenant.status.namespace, seen.namespace
    # The Secret first: without it a User cannot sign in, and after a crash in between the User is still found.
    changes: tuple[Change, ...] = tuple(
        change for each in seen.members for change in (DeleteSecret(each.secret), DeleteObject(each.held.ref, each.held.uid))
    )
    # Made, and not yet bound: a crash came before the status. Removal spares what was not made for this tenant.
    ours = namespace is not None and (namespace.consents if bound is None else namespace.uid == bound.uid)
    if namespace is not None and ours and not seen.namespace_owner:
        # Before the namespace: they are stored by the tenant's name, which another Tenant may take next.
        changes = (*changes, ForgetPackages(tenant.metadata.name), RemoveNamespace(namespace.name, namespace.uid))
    return Decision(status, Gone(), "DELETE_TENANT", changes=changes)


def _wait_for(children: tuple[RemainingObject, ...], status: TenantStatus, since: datetime) -> Decision[TenantStatus]:
    deletes = tuple(DeleteObject(child.held.ref, child.held.uid) for child in children if not child.deleting)
    status = _blocked(children, status, since, "NotDeleted", waiting_for)
    return Decision(status, Waiting("DeletingContents", f"waits for {_names(children)}"), "DELETE_TENANT", changes=deletes)


def _held_by(protected: tuple[RemainingObject, ...], status: TenantStatus, since: datetime) -> Decision[TenantStatus]:
    """A half of a tenant is of use to nobody: all of it stays until a person has decided."""
    status = _blocked(protected, status, since, "Protected", unprotecting)
    refusal = Stalled(
        "EnvironmentProtected",
        f"nothing is deleted while an environment is protected, {_names(protected)}: {unprotecting(protected[0].held.ref)}",
    )
    return Decision(status, refusal, "DELETE_TENANT")


def _blocked(
    children: tuple[RemainingObject, ...], status: TenantStatus, since: datetime, reason: str, resolve: Callable[[Ref], str]
) -> TenantStatus:
    refs = (child.held.ref for child in children[:20])
    blockers = tuple(Blocker(object=str(ref), reason=reason, since=since, resolve=resolve(ref)) for ref in refs)
    return status.model_copy(update={"deletion": Deletion(blockers=blockers)})


def _names(children: tuple[RemainingObject, ...]) -> str:
    return ", ".join(child.held.ref.name for child in children[:5])
