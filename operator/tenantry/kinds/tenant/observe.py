"""What a Tenant looks at."""

from __future__ import annotations

from typing import Any

from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import PROTECTED, Environment
from tenantry.kinds.identity.spec import Identity
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.kinds.namespace import Namespace
from tenantry.kinds.package.spec import Package
from tenantry.kinds.source.spec import Source
from tenantry.kinds.tenant.decide import Child, Member, Observed, SeenNamespace
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.claims import Claim
from tenantry.model.resource import ACCESS_MARK, SYSTEM_NAMESPACE, TENANT_LABEL, Ref, Resource
from tenantry.ports import View, World

CONTENTS: tuple[type[Resource[Any, Any]], ...] = (Source, App, Identity, IdentityProvider, Package)


async def observe(tenant: Tenant, world: World) -> Observed:
    """Rivals for its slug and namespace, the namespace, and while it is being deleted what is in there."""
    view = world.resources
    found = view.get(Namespace, "", tenant.namespace)
    namespace = None
    if found is not None:
        consents = found.metadata.labels.get(TENANT_LABEL) == tenant.metadata.name
        opened = found.metadata.annotations.get(ACCESS_MARK, "")
        namespace = SeenNamespace(found.metadata.name, found.metadata.uid, consents, found.deleting, opened)
    owned = tenant.status.namespace.name if tenant.status.namespace else ""
    owner = _owner(tenant, view)
    protected = view.count(Environment, tenant.namespace, PROTECTED)
    contents = tenant.deleting and owned != ""
    return Observed(
        tenant=tenant,
        rivals=_rivals(tenant, view),
        namespace=namespace,
        namespace_owner=owner,
        environments=_environments(view, owned) if contents else (),
        protected=protected if not owner else 0,
        others=tuple(child for kind in CONTENTS for child in _children(view, kind, owned)) if contents else (),
        members=_members(tenant, view) if tenant.deleting else (),
    )


def _rivals(tenant: Tenant, view: View) -> tuple[Claim, ...]:
    slug = tenant.wanted_slug
    return tuple(
        Claim(other.status.slug == slug, other.metadata.creation_timestamp, other.metadata.uid)
        for other in view.list(Tenant, by=f"slug={slug}")
        if other.metadata.uid != tenant.metadata.uid and other.metadata.creation_timestamp is not None
    )


def _owner(tenant: Tenant, view: View) -> str:
    for other in view.list(Tenant, by=f"namespace={tenant.namespace}"):
        bound = other.status.namespace
        if other.metadata.uid != tenant.metadata.uid and bound is not None and bound.name == tenant.namespace:
            return other.metadata.name
    return ""


def _environments(view: View, namespace: str) -> tuple[Child, ...]:
    found = view.list(Environment, namespace)
    return tuple(Child(one.held, one.deleting, one.spec.deletion_protection) for one in found)


def _children(view: View, kind: type[Resource[Any, Any]], namespace: str) -> tuple[Child, ...]:
    return tuple(Child(one.held, one.deleting) for one in view.list(kind, namespace))


def _members(tenant: Tenant, view: View) -> tuple[Member, ...]:
    """By the uid that they are bound to: the users of an earlier tenant of the same name are not this one's."""
    found = view.list(User, SYSTEM_NAMESPACE, by=f"tenant={tenant.metadata.name}")
    return tuple(
        Member(user.held, Ref("Secret", SYSTEM_NAMESPACE, user.spec.password_secret_ref.name))
        for user in found
        if user.made_over_rest and user.tenant_uid == tenant.metadata.uid
    )
