"""The Tenant of an object: by the binding of its namespace, never by a field that its author can write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.namespace import Namespace
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.documents import namespace_of as namespace_of
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Document, Ref, Resource, format_time
from tenantry.model.verdicts import Halt, Waiting
from tenantry.ports import SecretView, View


def owner_of(namespace: str, tenants: Iterable[Resource[Any, Any]]) -> Tenant | None:
    """Return the Tenant of these that is bound to the namespace. Others only want it."""
    return next((tenant for bound, tenant in bindings(tenants) if bound == namespace), None)


def bindings(tenants: Iterable[Resource[Any, Any] | None]) -> Iterator[tuple[str, Tenant]]:
    """Yield each namespace that one of these owns, with its Tenant: the one rule of who owns a namespace."""
    for tenant in tenants:
        if isinstance(tenant, Tenant) and tenant.bound_namespace:
            yield tenant.bound_namespace, tenant


def tenant_of(view: View, namespace: str) -> Tenant | None:
    """Return the Tenant that is bound to the namespace, as a pass sees it."""
    return owner_of(namespace, view.list(Tenant, by=f"namespace={namespace}"))


def holder_of(package: Document, tenants: Mapping[str, str]) -> str:
    """Return the owner of a Package's bytes: the tenant of its namespace, `""` for a shared one. tenants: as of
    `tenants_of`."""
    namespace = package["metadata"]["namespace"]
    return "" if package["spec"].get("shared") else tenants.get(namespace, namespace.removeprefix("tenant-"))


def tenants_of(documents: Iterable[Document]) -> dict[str, str]:
    """The names of the declared Tenants, by the namespace that each owns."""
    return {namespace_of(each): each["metadata"]["name"] for each in documents if each["kind"] == "Tenant"}


def comes_with(document: Document) -> str:
    """Return the namespace that goes when a Tenant or Namespace goes, `""` for documents of other kinds."""
    if document["kind"] == Tenant.KIND:
        return namespace_of(document)
    return str(document["metadata"]["name"]) if document["kind"] == Namespace.KIND else ""


def engine_of(environment: Environment | None, secrets: SecretView) -> tuple[str, EngineEndpoint | None]:
    """Return an environment's state for its declarations, and the endpoint of its engine; None while the engine does not run.

    States: `Missing`, `Deleting`, `Orphaned` or `Present`. Orphaned: it is being deleted, and the credential of its foreign
    engine is already gone. The declarations are removed from a foreign engine when its environment goes, unless it is to be
    retained.
    """
    if environment is None:
        return "Missing", None
    if not environment.deleting:
        return "Present", endpoint_of(environment)
    foreign = _foreign_endpoint(environment)
    if foreign is None or foreign.admin_secret is None or environment.spec.deletion_policy == "Retain":
        return "Deleting", None
    secret = foreign.admin_secret
    if secrets.look(secret.namespace, secret.name, foreign.admin_key, "environment").state != "Present":
        return "Orphaned", None
    return "Deleting", foreign


def endpoint_of(environment: Environment | None) -> EngineEndpoint | None:
    """Return the endpoint of the environment's engine, or None while it does not run."""
    if environment is None or environment.status.engine is None:
        return None
    engine = environment.status.engine
    if engine.status != "RUNNING" or environment.lost_host:
        return None
    if environment.spec.engine.external is None:
        return EngineEndpoint(environment.id, engine.url)
    return _foreign_endpoint(environment)


def sleeping_since(environment: Environment | None) -> str:
    """Return since when the environment's engine sleeps, `""` for one that does not."""
    engine = environment.status.engine if environment is not None else None
    if engine is None or engine.status != "SLEEPING" or engine.sleeping_since is None:
        return ""
    return format_time(engine.sleeping_since)


def check_awake(environment: Environment | None) -> None:
    """Raises a Waiting Halt (Sleeping) if the environment's engine sleeps."""
    if environment is not None and sleeping_since(environment):
        name = f"{environment.metadata.namespace}/{environment.metadata.name}"
        told = f"the engine of environment {environment.metadata.name} sleeps; `tenantry wake {name}` wakes it"
        raise Halt(Waiting("Sleeping", told))


def declared_endpoint(environment: Environment) -> EngineEndpoint | None:
    """Return the declared endpoint of a foreign engine, None for one of ours."""
    external = environment.spec.engine.external
    if external is None:
        return None
    secret = Ref("Secret", environment.metadata.namespace, external.admin_secret_ref.name)
    return EngineEndpoint(environment.id, external.url, secret, external.admin_secret_ref.key)


def _foreign_endpoint(environment: Environment) -> EngineEndpoint | None:
    """The same, once the environment was allowed to have its engine there: only then does its status tell the URL."""
    declared, engine = declared_endpoint(environment), environment.status.engine
    return declared if declared is not None and engine is not None and engine.url == declared.url else None
