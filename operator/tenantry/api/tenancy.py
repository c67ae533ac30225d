"""Read rights of a caller: an object of another tenant is answered exactly like a missing one."""

from __future__ import annotations

from starlette.requests import Request

from tenantry.api.auth.authentication import SignedInUser
from tenantry.api.facade_context import FacadeContext
from tenantry.api.reading.body_cache import Row, Scope
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.model.verdicts import NotFound
from tenantry.rest.bodies import invalid

NOTHING = Scope("")
"""The scope of a list in which no object is: objects of these kinds have a namespace."""


def environments(context: FacadeContext, principal: SignedInUser, tenant_id: str = "") -> Scope:
    """The environments that a caller may see. tenant_id: only those of this tenant; an unknown or foreign one has none."""
    if not principal.superuser:
        return Scope(principal.namespace) if tenant_id in ("", principal.tenant_id) else NOTHING
    if not tenant_id:
        return Scope()
    row = context.tenants.find(tenant_id)
    bound = context.tenant(row).bound_namespace if row else ""
    return Scope(bound) if bound else NOTHING


def environment(context: FacadeContext, principal: SignedInUser, id_: str) -> Row:
    """Raises NotFound."""
    row = context.environments.find(id_, None if principal.superuser else principal.namespace)
    return _found(row, "environment", id_)


def operations(context: FacadeContext, principal: SignedInUser) -> Scope:
    """The operations that a caller may see: its tenant's, by uid, and not those of an earlier tenant of that name."""
    return Scope(SYSTEM_NAMESPACE, "" if principal.superuser else f"tenant={principal.tenant_uid}")


def operation(context: FacadeContext, principal: SignedInUser, id_: str) -> Row:
    """Raises NotFound."""
    row = context.operations.find(id_, SYSTEM_NAMESPACE)
    if row is not None and not principal.superuser:
        row = row if context.operation(row).spec.tenant_uid == principal.tenant_uid else None
    return _found(row, "operation", id_)


def tenant(context: FacadeContext, id_: str) -> Row:
    """For a SUPERUSER. Raises NotFound."""
    return _found(context.tenants.find(id_), "tenant", id_)


def user(context: FacadeContext, id_: str) -> Row:
    """For a SUPERUSER. Raises NotFound."""
    return _found(context.users.find(id_, SYSTEM_NAMESPACE), "user", id_)


def chosen_tenant(context: FacadeContext, principal: SignedInUser, request: Request) -> Tenant | None:
    """The tenant of the query's tenantId, or the caller's own; None when a SUPERUSER names none.

    Raises Invalid, the same for a foreign one and one that does not exist.
    """
    id_ = request.query_params.get("tenantId", "")
    if not principal.superuser:
        if id_ not in ("", principal.tenant_id):
            raise invalid("tenantId", "no such tenant")
        return context.owners.named(principal.caller.tenant)
    if not id_:
        return None
    row = context.tenants.find(id_)
    if row is None:
        raise invalid("tenantId", "no such tenant")
    return context.tenant(row)


def _found(row: Row | None, kind: str, id_: str) -> Row:
    if row is None:
        raise NotFound(f"no {kind} with id {id_}")
    return row
