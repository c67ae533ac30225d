"""Roles of apps that are granted although the app's package does not declare them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.package.spec import Package
from tenantry.model.fields import RoleGrant
from tenantry.model.resource import SYSTEM_NAMESPACE
from tenantry.ports import View


def undeclared_roles(grants: Iterable[RoleGrant], environment: Environment | None, view: View) -> tuple[str, ...]:
    """Return a sentence for each grant that gives no right now. A package that was not read yet is not judged."""
    if environment is None or environment.spec.engine.external is not None:
        return ()
    return tuple(_sentences(grants, environment, view))


def _sentences(grants: Iterable[RoleGrant], environment: Environment, view: View) -> Iterator[str]:
    namespace, name = environment.metadata.namespace, environment.metadata.name
    for grant in grants:
        app = view.get(App, namespace, f"{name}.{grant.app}")
        version = (app.spec.version or app.status.installed_version) if app is not None else None
        if version is None:
            yield f"role {grant.role} of app {grant.app}: environment {name} has no such app"
            continue
        declared = _declared(grant.app, version, namespace, view)
        if declared is not None and grant.role not in declared:
            known = ", ".join(declared) or "none"
            yield f"role {grant.role} of app {grant.app}: version {version} declares no such role, but {known}"


def _declared(app: str, version: str, namespace: str, view: View) -> tuple[str, ...] | None:
    """The roles of that version, of the tenant's own package or the shared one; None while neither was read."""
    for place in (namespace, SYSTEM_NAMESPACE):
        for package in view.list(Package, place, f"package={app}@{version}"):
            if package.status.roles is not None:
                return package.status.roles
    return None
