"""Observe the inputs of a Tenant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tenantry.kinds.environment.spec import PROTECTED, Environment
from tenantry.kinds.namespace import Namespace
from tenantry.kinds.region.spec import OPEN, Region
from tenantry.kinds.tenant.decide import Member, Observed, RemainingObject, SeenNamespace
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.claims import Claim, rivals_of
from tenantry.model.facts import RegionFacts
from tenantry.model.resource import ACCESS_MARK, SYSTEM_NAMESPACE, TENANT_LABEL, Ref, Resource
from tenantry.ports import View, World

Types = Sequence[type[Resource[Any, Any]]]


async def observe(tenant: Tenant, world: World, declared: Types) -> Observed:
    """Rivals for its slug and namespace, the namespace, and while either is being deleted what is in there.

    declared: the kinds that tenants declare; what depends on others comes first.
    """
    view = world.resources
    found = view.get(Namespace, "", tenant.namespace)
    namespace = None
    if found is not None:
        consents = found.metadata.labels.get(TENANT_LABEL) == tenant.metadata.name
        opened = found.metadata.annotations.get(ACCESS_MARK, "")
        namespace = SeenNamespace(found.metadata.name, found.metadata.uid, consents, found.deleting, opened)
    owned = tenant.bound_namespace
    owner = _owner(tenant, view)
    protected = view.count(Environment, tenant.namespace, PROTECTED)
    # A namespace that goes although its tenant stays comes back once it is empty: what is read wakes the tenant then.
    contents = owned != "" and (tenant.deleting or (found is not None and found.deleting))
    return Observed(
        tenant=tenant,
        rivals=_rivals(tenant, view),
        namespace=namespace,
        namespace_owner=owner,
        environments=_environments(view, owned) if contents else (),
        protected=protected if not owner else 0,
        others=tuple(child for kind in declared for child in _others(view, kind, owned)) if contents else (),
        members=_members(tenant, view) if tenant.deleting else (),
        regions=_regions(tenant, view) if not tenant.deleting else (),
    )


def _regions(tenant: Tenant, view: View) -> tuple[RegionFacts, ...]:
    """Those that it may use, by name. One that is closed to it is not read: an edit of that wakes others."""
    name, uid = tenant.metadata.name, tenant.metadata.uid
    found = (*view.list(Region, by=OPEN), *view.list(Region, by=f"tenant={name}"))
    usable = [each for each in found if each.allows(name, uid) and not each.deleting]
    usable.sort(key=lambda each: each.id)
    return tuple(each.facts for each in usable)


def _rivals(tenant: Tenant, view: View) -> tuple[Claim, ...]:
    slug = tenant.wanted_slug
    return rivals_of(tenant, view.list(Tenant, by=f"slug={slug}"), lambda other: other.status.slug == slug)


def _owner(tenant: Tenant, view: View) -> str:
    for other in view.list(Tenant, by=f"namespace={tenant.namespace}"):
        if other.metadata.uid != tenant.metadata.uid and other.bound_namespace == tenant.namespace:
            return other.metadata.name
    return ""


def _environments(view: View, namespace: str) -> tuple[RemainingObject, ...]:
    found = view.list(Environment, namespace)
    return tuple(RemainingObject(one.held, one.deleting, one.spec.deletion_protection) for one in found)


def _others(view: View, kind: type[Resource[Any, Any]], namespace: str) -> tuple[RemainingObject, ...]:
    """Return the objects of a kind in a namespace. Environments are apart: they may be protected."""
    if kind is Environment:
        return ()
    return tuple(RemainingObject(one.held, one.deleting) for one in view.list(kind, namespace))


def _members(tenant: Tenant, view: View) -> tuple[Member, ...]:
    """By the uid that they are bound to: the users of an earlier tenant of the same name are not this one's."""
    found = view.list(User, SYSTEM_NAMESPACE, by=f"tenant={tenant.metadata.name}")
    return tuple(
        Member(user.held, Ref("Secret", SYSTEM_NAMESPACE, user.spec.password_secret_ref.name))
        for user in found
        if user.made_over_rest and user.tenant_uid == tenant.metadata.uid
    )
