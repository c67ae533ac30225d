"""The apps and people of an environment: versions beside those of the tenant's other environments, and roles by app. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple, cast

from tenantry.api.auth.tenant_lookup import Owners
from tenantry.console.reading.summary import Summary
from tenantry.console.texts import TEXTS
from tenantry.console.views.actions import redeclaring_refusal
from tenantry.console.views.rows import Reading
from tenantry.kinds.app.spec import App
from tenantry.kinds.environment.spec import Environment
from tenantry.kinds.identity.spec import Identity
from tenantry.kinds.identity_provider.spec import IdentityProvider
from tenantry.kinds.user.spec import User
from tenantry.model.fields import RoleGrant
from tenantry.model.resource import Ref, Resource

BESIDE = 12
"""Other environments that a page shows an app's version of, at most."""
PEOPLE = 100
"""People that a page shows, at most."""


class OtherVersion(NamedTuple):
    """The version of an app elsewhere. uid: of the App there; same: it is the version here."""

    environment: Summary
    version: str
    uid: str
    same: bool


class AppVersions(NamedTuple):
    """An app of a tenant, as one environment has it. row, version: None and `""` where it is not declared here.

    refusal: why its version cannot be changed here, else `""`.
    """

    app: str
    row: Summary | None
    version: str
    elsewhere: tuple[OtherVersion, ...]
    more: int
    refusal: str


class Person(NamedTuple):
    """Somebody with rights here. rights: what they may do, in words."""

    row: Summary
    name: str
    rights: str


def app_versions(reading: Reading, environment: Environment) -> list[AppVersions]:
    """The apps of the environment and of its tenant's others, by name."""
    namespace, here = environment.metadata.namespace, environment.metadata.name
    apps: defaultdict[str, dict[str, App]] = defaultdict(dict)
    for one in reading.cache.resources(App.KIND, namespace):
        app = cast(App, one)
        if not app.deleting:
            apps[app.spec.app][app.spec.environment] = app
    return [_versions(reading, namespace, name, apps[name], here) for name in sorted(apps)]


def _versions(reading: Reading, namespace: str, name: str, held: dict[str, App], here: str) -> AppVersions:
    own = held.get(here)
    version = _version(own)
    others = []
    for environment, app in sorted(held.items()):
        row = reading.summaries.row(Ref(Environment.KIND, namespace, environment))
        if environment != here and row is not None and _version(app):
            others.append(OtherVersion(row, _version(app), app.metadata.uid, _version(app) == version))
    row = reading.summaries.row(own.ref) if own is not None else None
    document = reading.cache.document(own.ref) if own is not None else None
    refusal = redeclaring_refusal(reading, document) if document is not None else ""
    return AppVersions(name, row, version, tuple(others[:BESIDE]), max(0, len(others) - BESIDE), refusal)


def _version(app: App | None) -> str:
    return (app.status.installed_version or "") if app is not None else ""


def people(reading: Reading, environment: Environment) -> list[Person]:
    """The people with rights here: users that the caller sees, then users and providers of the engine."""
    namespace, by = environment.metadata.namespace, f"environment={environment.metadata.name}"
    found: list[Resource[Any, Any]] = list(_users(reading, namespace))
    for kind in (Identity.KIND, IdentityProvider.KIND):
        found += reading.cache.resources(kind, namespace, by)
    rows = ((reading.summaries.row(one.ref), one) for one in found[:PEOPLE])
    return [Person(row, row.title, _rights(one)) for row, one in rows if row is not None]


def _users(reading: Reading, namespace: str) -> Iterable[User]:
    """The users of the tenant and of the platform, for a SUPERUSER; others do not see users."""
    if User.KIND not in reading.rights.kinds:
        return
    owner = Owners(reading.cache).of_namespace(namespace)
    for one in reading.cache.resources(User.KIND):
        user = cast(User, one)
        if user.spec.role == "SUPERUSER" or (owner is not None and user.tenant_uid == owner.metadata.uid):
            yield user


def _rights(one: Resource[Any, Any]) -> str:
    match one:
        case User():
            return TEXTS[f"may_{one.spec.role.lower()}"]
        case Identity():
            return _granted(one.spec.roles)
        case IdentityProvider():
            return f"{TEXTS['may_provider']} {_granted(one.spec.default_roles)}"
    return ""


def _granted(grants: Iterable[RoleGrant]) -> str:
    """Roles by app, in words."""
    return ", ".join(f"{grant.app}: {grant.role}" for grant in grants) or TEXTS["may_default"]
