"""The rights of a caller in an embedded store: the rules that Kubernetes' RBAC enforces on a cluster."""

from __future__ import annotations

from tenantry.adapters.store.semantics import Request, SetFinalizers, SetStatus
from tenantry.model.documents import bound_namespace
from tenantry.model.facts import Caller
from tenantry.model.resource import Document, Ref
from tenantry.model.verdicts import Forbidden

PLATFORM_ROLE = "SUPERUSER"
TENANT_ADMIN_ROLE = "ADMIN"


def check_read(caller: Caller, ref: Ref, tenant: Document | None) -> None:
    """Raises Forbidden unless the object lies in the caller's namespace. `tenant`: the caller's Tenant, as stored."""
    if not _of_platform(caller) and not _in_namespace(ref, tenant):
        raise Forbidden(f"{caller.username} may not read {ref}")


def check_write(caller: Caller, request: Request, tenant: Document | None) -> None:
    """Raises Forbidden unless a tenant's ADMIN writes a declaration into its own namespace."""
    if _of_platform(caller):
        return
    if caller.role != TENANT_ADMIN_ROLE or not _in_namespace(request.ref, tenant):
        raise Forbidden(f"{caller.username} may not write {request.ref}")
    if isinstance(request, SetStatus | SetFinalizers):
        raise Forbidden(f"{caller.username} may not write the status or finalizers of {request.ref}")


def caller_tenant(caller: Caller) -> Ref | None:
    """The Tenant that a check needs, None for a caller of the platform."""
    return Ref("Tenant", "", caller.tenant) if caller.tenant else None


def _of_platform(caller: Caller) -> bool:
    return caller.role == PLATFORM_ROLE and not caller.tenant


def _in_namespace(ref: Ref, tenant: Document | None) -> bool:
    if tenant is None or not ref.namespace:
        return False
    return bound_namespace(tenant) == ref.namespace
