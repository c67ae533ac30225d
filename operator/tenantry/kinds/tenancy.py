"""Which Tenant an object belongs to: by the binding of its namespace, never by a field that its author can write."""

from __future__ import annotations

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Ref
from tenantry.ports import View


def tenant_of(view: View, namespace: str) -> Tenant | None:
    """The Tenant bound to that namespace, or None."""
    for tenant in view.list(Tenant, by=f"namespace={namespace}"):
        bound = tenant.status.namespace
        if bound is not None and bound.name == namespace:
            return tenant
    return None


def endpoint_of(environment: Environment | None) -> EngineEndpoint | None:
    """Where the environment's engine answers, or None while it does not run."""
    if environment is None or environment.status.engine is None:
        return None
    engine = environment.status.engine
    if engine.status != "RUNNING":
        return None
    external = environment.spec.engine.external
    if external is None:
        return EngineEndpoint(environment.id, engine.url)
    secret = Ref("Secret", environment.metadata.namespace, external.admin_secret_ref.name)
    return EngineEndpoint(environment.id, engine.url, secret, external.admin_secret_ref.key)
