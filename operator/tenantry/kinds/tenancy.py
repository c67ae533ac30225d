"""Which Tenant an object belongs to: by the binding of its namespace, never by a field that its author can write."""

from __future__ import annotations

from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.tenant.spec import Tenant
from tenantry.model.facts import EngineEndpoint
from tenantry.model.resource import Ref
from tenantry.ports import SecretView, View


def tenant_of(view: View, namespace: str) -> Tenant | None:
    """The Tenant bound to that namespace, or None."""
    for tenant in view.list(Tenant, by=f"namespace={namespace}"):
        bound = tenant.status.namespace
        if bound is not None and bound.name == namespace:
            return tenant
    return None


def engine_of(environment: Environment | None, secrets: SecretView) -> tuple[str, EngineEndpoint | None]:
    """What a declaration in an environment sees of it: `Missing`, `Deleting`, `Orphaned` or `Present`, and where its engine
    answers; None while that does not run. Orphaned: it goes, and the credential of its foreign engine has gone before.

    What is declared in a foreign engine is taken out of it when its environment goes, unless that is to be retained.
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
    """Where the environment's engine answers, or None while it does not run."""
    if environment is None or environment.status.engine is None:
        return None
    engine = environment.status.engine
    if engine.status != "RUNNING":
        return None
    if environment.spec.engine.external is None:
        return EngineEndpoint(environment.id, engine.url)
    return _foreign_endpoint(environment)


def declared_endpoint(environment: Environment) -> EngineEndpoint | None:
    """Where a foreign engine is said to answer, None for one of ours."""
    external = environment.spec.engine.external
    if external is None:
        return None
    secret = Ref("Secret", environment.metadata.namespace, external.admin_secret_ref.name)
    return EngineEndpoint(environment.id, external.url, secret, external.admin_secret_ref.key)


def _foreign_endpoint(environment: Environment) -> EngineEndpoint | None:
    """The same, once the environment was allowed to have its engine there: only then does its status tell the URL."""
    declared, engine = declared_endpoint(environment), environment.status.engine
    return declared if declared is not None and engine is not None and engine.url == declared.url else None
