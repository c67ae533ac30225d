"""What a caller may see: an object of another tenant is answered exactly as one that does not exist."""

from __future__ import annotations

from starlette.requests import Request

from tenantry.api.authentication import Principal
from tenantry.api.fragments import Row, Scope
from tenantry.api.front import Front
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.model.verdicts import NotFound
from tenantry.rest.bodies import invalid


def environments(principal: Principal) -> Scope:
    """The environments that a caller may see."""
    return Scope() if principal.superuser else Scope(principal.namespace)


def environment(front: Front, principal: Principal, id_: str) -> Row:
    """Raises NotFound."""
    row = front.environments.find(id_, None if principal.superuser else principal.namespace)
    return _found(row, "environment", id_)


def operations(front: Front, principal: Principal) -> Scope:
    """The operations that a caller may see: its tenant's, by uid, and not those of an earlier tenant of that name."""
    return Scope(SYSTEM_NAMESPACE, "" if principal.superuser else f"tenant={principal.tenant_uid}")


def operation(front: Front, principal: Principal, id_: str) -> Row:
    """Raises NotFound."""
    row = front.operations.find(id_, SYSTEM_NAMESPACE)
    if row is not None and not principal.superuser:
        row = row if front.operation(row).spec.tenant_uid == principal.tenant_uid else None
    return _found(row, "operation", id_)


def tenant(front: Front, id_: str) -> Row:
    """For a SUPERUSER. Raises NotFound."""
    return _found(front.tenants.find(id_), "tenant", id_)


def user(front: Front, id_: str) -> Row:
    """For a SUPERUSER. Raises NotFound."""
    return _found(front.users.find(id_, SYSTEM_NAMESPACE), "user", id_)


def chosen_tenant(front: Front, principal: Principal, request: Request) -> Tenant | None:
    """The tenant of the query's tenantId, or the caller's own; None when a SUPERUSER names none.

    Raises Invalid, the same for a foreign one and one that does not exist.
    """
    id_ = request.query_params.get("tenantId", "")
    if not principal.superuser:
        if id_ not in ("", principal.tenant_id):
            raise invalid("tenantId", "no such tenant")
        return front.owners.named(principal.caller.tenant)
    if not id_:
        return None
    row = front.tenants.find(id_)
    if row is None:
        raise invalid("tenantId", "no such tenant")
    return front.tenant(row)


def _found(row: Row | None, kind: str, id_: str) -> Row:
    if row is None:
        raise NotFound(f"no {kind} with id {id_}")
    return row
