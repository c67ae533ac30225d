"""The objects that an edit can wake: a plan runs passes over these, and not over all that the platform holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.namespace import Namespace
from tenantry.kinds.tenant.spec import Tenant
from tenantry.kinds.user.spec import User
from tenantry.model.resource import CREDENTIAL_LABEL, SYSTEM_NAMESPACE, Ref
from tenantry.runtime.cache import Cache, Seen

PLATFORM = ("", SYSTEM_NAMESPACE)
"""The namespaces of what is no tenant's: all that many tenants use, and few."""
Covers = Callable[[Ref], bool]


class Reach(NamedTuple):
    """covers: may a pass over the object follow? namespaces: those of tenants that are reached, None for all."""

    covers: Covers
    namespaces: frozenset[str] | None


EVERYTHING = Reach(lambda ref: True, None)


def reach_of(cache: Cache, edits: Iterable[Seen], namespaces: Iterable[str] = ()) -> Reach:
    """Return the objects over which passes may follow from the edits.

    An edit inside a tenant reaches that tenant, those that it shares a slug, host or id with, and what is the platform's apart
    from users. An edit of what many tenants use, such as a Region, reaches everything. namespaces: of objects that the edits
    leave out for now. Who waits for a host that an edit would free is not found: the index has only those who hold one.
    """
    reach = _Reach(cache)
    for namespace in namespaces:
        reach.enter(namespace)
    if not all(reach.take(edit) for edit in edits):
        return EVERYTHING
    return Reach(reach.covers, frozenset(reach.namespaces.difference(PLATFORM)))


class _Reach:
    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self.namespaces: set[str] = set()
        self._tenants: set[str] = set()
        self._users = False

    def covers(self, ref: Ref) -> bool:
        if ref.kind == Tenant.KIND:
            return ref.name in self._tenants
        if ref.kind == User.KIND:
            return self._users
        return ref.namespace in self.namespaces or ref.namespace in PLATFORM

    def take(self, edit: Seen) -> bool:
        """Take an edit in. Returns False where it may reach everything."""
        match edit.ref:
            case Ref(Namespace.KIND, _, name):
                self.enter(name)
            case Ref(Tenant.KIND, _, _):
                self._users = True
                for key in edit.keys:
                    self._enter_tenants(key)
            case Ref(User.KIND, _, _):
                self._users = True
                self._tenants.update(key.removeprefix("tenant=") for key in edit.keys if key.startswith("tenant="))
            case Ref(kind, namespace, _) if namespace not in PLATFORM:
                self.enter(namespace)
                for key in edit.keys if kind == Environment.KIND else ():
                    self._enter_rivals(key)
            case _:
                of_user = _is_of_user(edit)
                self._users = self._users or of_user
                return of_user
        return True

    def enter(self, namespace: str) -> None:
        """Cover a namespace, and its Tenant."""
        self.namespaces.add(namespace)
        self._tenants.update(name for _, name in self._cache.names(Tenant.KIND, by=f"namespace={namespace}"))

    def _enter_tenants(self, key: str) -> None:
        """Cover the Tenants with that slug or namespace, and all that is theirs."""
        if not key.startswith(("slug=", "namespace=")):
            return
        for ref, entry in self._cache.entries(Tenant.KIND, by=key):
            self._tenants.add(ref.name)
            for own in entry.keys:
                if own.startswith("namespace="):
                    self.enter(own.removeprefix("namespace="))

    def _enter_rivals(self, key: str) -> None:
        """Cover the namespaces of the Environments with that host or id."""
        if key.startswith(("host=", "id=")):
            for namespace, _ in tuple(self._cache.names(Environment.KIND, by=key)):
                self.enter(namespace)


def _is_of_user(edit: Seen) -> bool:
    """Return True for the Secret of a User."""
    found = edit.after or edit.before
    labels = (found.document()["metadata"].get("labels") or {}) if found is not None and edit.ref.kind == "Secret" else {}
    return labels.get(CREDENTIAL_LABEL) == "user"
