"""The objects that a caller may see, as REST has it: another tenant's object is answered exactly like a missing one."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

from tenantry.api.auth.authentication import SignedInUser
from tenantry.kinds.operation.spec import Operation
from tenantry.kinds.region.spec import Region
from tenantry.kinds.registry import KINDS, OF_TENANTS
from tenantry.model.resource import Ref, Resource
from tenantry.model.verdicts import Forbidden, NotFound
from tenantry.runtime.cache import Cache

TYPES: dict[str, type[Resource[Any, Any]]] = {
    **{name: kind.type for name, kind in KINDS.items()},
    Operation.KIND: Operation,
}
"""The kinds that have pages."""
PLURALS = {type_.PLURAL: name for name, type_ in TYPES.items()}


class Rights(NamedTuple):
    """The read rights of a caller. Two callers with equal rights get equal pages."""

    superuser: bool
    tenant: str = ""
    tenant_uid: str = ""
    namespace: str = ""
    writes: bool = True

    @classmethod
    def of(cls, principal: SignedInUser) -> Rights:
        """The rights of a signed-in user."""
        if principal.superuser:
            return cls(True)
        return cls(False, principal.caller.tenant, principal.tenant_uid, principal.namespace, principal.caller.role != "VIEWER")

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of which the caller may see objects."""
        return tuple(name for name in TYPES if self.superuser or name in (*OF_TENANTS, Region.KIND, Operation.KIND))

    def group(self, kind: str) -> str | None:
        """The group of a kind's objects that the caller may see (see `group_of`), None for all of them."""
        if self.superuser or kind == Region.KIND:
            return None
        return self.tenant_uid if kind == Operation.KIND else self.namespace

    def sees(self, resource: Resource[Any, Any]) -> bool:
        """Return True if the caller may see that object."""
        if self.superuser:
            return True
        match resource:
            case Region():
                return resource.allows(self.tenant, self.tenant_uid)
            case Operation():
                return bool(self.tenant_uid) and resource.spec.tenant_uid == self.tenant_uid
        return resource.KIND in OF_TENANTS and bool(self.namespace) and resource.metadata.namespace == self.namespace


def group_of(ref: Ref, document: dict[str, Any]) -> str:
    """The group that decides who sees an object: its namespace, or the uid of the Tenant that an Operation is of."""
    return str(document["spec"].get("tenantUid", "")) if ref.kind == Operation.KIND else ref.namespace


def find(cache: Cache, rights: Rights, kind: str, id_: str) -> Resource[Any, Any]:
    """The object with that uid or REST id. Raises Forbidden for kinds that only a SUPERUSER sees, NotFound."""
    if kind not in TYPES:
        raise NotFound("no such kind of objects")
    if kind not in rights.kinds:
        raise Forbidden("only a SUPERUSER may do this")
    visible = [one for one in cache.resources(kind, by=f"id={id_}") if rights.sees(one)]
    visible.sort(key=lambda one: one.metadata.uid != id_)
    if not visible:
        raise NotFound(f"no {kind} with id {id_}")
    return visible[0]


def regions(cache: Cache, rights: Rights) -> list[Region]:
    """The regions that the caller may see."""
    return [cast(Region, one) for one in cache.resources(Region.KIND) if rights.sees(one)]
