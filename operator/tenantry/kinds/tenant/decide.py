"""What a Tenant wants: its slug, its namespace, and at its end nothing left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from tenantry.kinds.tenant.spec import BoundNamespace, Tenant, TenantStatus
from tenantry.model.changes import Change, DeleteObject, DeleteSecret, EnsureNamespace, ForgetPackages, RemoveNamespace
from tenantry.model.claims import Claim, wins
from tenantry.model.decision import Decision
from tenantry.model.fields import slug_problem
from tenantry.model.resource import Blocker, Deletion, Held, Ref
from tenantry.model.verdicts import Gone, Ready, Stalled, Verdict, Waiting


@dataclass(frozen=True)
class SeenNamespace:
    """The namespace of the wanted name. consents: it carries this tenant's label. access: the mark of who may come in."""

    name: str
    uid: str
    consents: bool
    deleting: bool = False
    access: str = ""


@dataclass(frozen=True)
class Child:
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

    protected: how many of its environments cannot be deleted.
    """

    tenant: Tenant
    rivals: tuple[Claim, ...]
    namespace: SeenNamespace | None
    namespace_owner: str
    environments: tuple[Child, ...]
    others: tuple[Child, ...]
    members: tuple[Member, ...] = ()
    protected: int = 0


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
        return Decision(tenant.status, refusal, action)
    status = tenant.status.model_copy(update={"phase": "READY", "slug": tenant.wanted_slug, "deletion": None})
    namespace = seen.namespace
    ensure = EnsureNamespace(
        tenant.namespace, tenant.metadata.name, tenant.metadata.uid, tenant.spec.access.facts, exists=_ours(seen)
    )
    if namespace is None or not _whole(seen):
        return Decision(status, Waiting("NamespaceMissing", f"namespace {tenant.namespace}"), action, changes=(ensure,))
    if _bound(seen):
        return Decision(status, Ready(), action)
    # Marked when it is made: whether an interrupted pass made the rest of it, too, is not seen.
    bound = status.model_copy(update={"namespace": BoundNamespace(name=namespace.name, uid=namespace.uid)})
    return Decision(status, Ready(), action, changes=(ensure,), done=bound)


def _counted(seen: Observed) -> Observed:
    """The count stands in whatever status is written: a DELETE is admitted by it."""
    status = seen.tenant.status.model_copy(update={"protected_environments": seen.protected})
    return replace(seen, tenant=seen.tenant.model_copy(update={"status": status}))


def _ours(seen: Observed) -> bool:
    return seen.namespace is not None and seen.namespace.consents and not seen.namespace.deleting


def _whole(seen: Observed) -> bool:
    """Is the namespace there, and marked as open to those whom the tenant names?"""
    return _ours(seen) and seen.namespace is not None and seen.namespace.access == seen.tenant.spec.access.facts.mark


def _bound(seen: Observed) -> bool:
    """Does the status tell that all of it was made?"""
    bound = seen.tenant.status.namespace
    return bound is not None and seen.namespace is not None and bound.uid == seen.namespace.uid


def _refusal(seen: Observed, now: datetime) -> Verdict | None:
    tenant = seen.tenant
    held = tenant.status.slug == tenant.wanted_slug
    problem = "" if held else slug_problem(tenant.wanted_slug)
    if problem:
        return Stalled("SlugInvalid", f"spec.slug: {problem}; set another")
    mine = Claim(held, tenant.metadata.creation_timestamp or now, tenant.metadata.uid)
    if not wins(mine, seen.rivals):
        return Stalled("SlugTaken", f"spec.slug: {tenant.wanted_slug!r} is another tenant's")
    if seen.namespace_owner:
        return Stalled("NamespaceTaken", f"namespace {tenant.namespace} belongs to tenant {seen.namespace_owner}")
    return None


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
        # Before the namespace: they are stored by the tenant's name, which may be another's next.
        changes = (*changes, ForgetPackages(tenant.metadata.name), RemoveNamespace(namespace.name, namespace.uid))
    return Decision(status, Gone(), "DELETE_TENANT", changes=changes)


def _wait_for(children: tuple[Child, ...], status: TenantStatus, since: datetime) -> Decision[TenantStatus]:
    deletes = tuple(DeleteObject(child.held.ref, child.held.uid) for child in children if not child.deleting)
    status = _blocked(children, status, since, "NotDeleted", "wait, or look at what blocks its own deletion")
    return Decision(status, Waiting("DeletingContents", f"waits for {_names(children)}"), "DELETE_TENANT", changes=deletes)


def _held_by(protected: tuple[Child, ...], status: TenantStatus, since: datetime) -> Decision[TenantStatus]:
    """A half of a tenant is of use to nobody: all of it stays until a person has decided."""
    way_on = "set spec.deletionProtection to false, and the deletion goes on"
    status = _blocked(protected, status, since, "Protected", way_on)
    refusal = Stalled(
        "EnvironmentProtected", f"nothing is deleted while an environment is protected, {_names(protected)}: {way_on}"
    )
    return Decision(status, refusal, "DELETE_TENANT")


def _blocked(children: tuple[Child, ...], status: TenantStatus, since: datetime, reason: str, resolve: str) -> TenantStatus:
    blockers = tuple(Blocker(object=str(child.held.ref), reason=reason, since=since, resolve=resolve) for child in children[:20])
    return status.model_copy(update={"deletion": Deletion(blockers=blockers)})


def _names(children: tuple[Child, ...]) -> str:
    return ", ".join(child.held.ref.name for child in children[:5])
